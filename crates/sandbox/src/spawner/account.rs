//! What is said to an order: what holds around its sandbox, or why there is none.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use super::message::{Account, Answer};
use super::proven::Unproven;
use super::serve::MOST_RUNS;
use crate::begun::Filled;
use crate::launch::LaunchError;
use crate::measure::{Measuring, Table};
use crate::plan::Plan;
use crate::receipt::{RunId, compare};
use crate::spec::Unenforceable;
use crate::standard::Kind;

/// Why an order was not carried out.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotMade {
    #[error("`{0}` is beneath none of the places that this spawner was started for")]
    Outside(std::path::PathBuf),
    #[error("`{0}` exists already")]
    Twice(RunId),
    #[error("{MOST_RUNS} sandboxes are alive already; end some first")]
    TooMany,
    #[error("standard input, output and error must come with the order")]
    Descriptors,
    #[error("the order has no command")]
    NoCommand,
    #[error(transparent)]
    Spec(#[from] Unenforceable),
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error(transparent)]
    Shape(#[from] Unproven),
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// What is said to an order.
pub(super) fn answer(run: RunId, account: Result<Account, NotMade>) -> Answer {
    match account {
        Ok(account) => Answer::Ready { run, account: Box::new(account) },
        Err(error) => Answer::Refused { run: Some(run), why: error.to_string() },
    }
}

/// What holds around a sandbox that stands; `program` is the path of its command if process 1 is still being told.
pub(super) fn account(
    standing: &Filled,
    plan: &Plan,
    host: &[OwnedFd; 3],
    program: Option<&Path>,
    table: Option<&Table>,
) -> io::Result<Account> {
    let measuring = Measuring {
        plan,
        pid: standing.tree.pid,
        groups: &standing.groups,
        kinds: [Kind::Passed; 3],
        host,
        table,
        takes: program.map(|_| &standing.line),
        watches: false,
        program,
    };
    let found = measuring.measure(None)?;
    let differences = compare(&found.expected, &found.facts).err().unwrap_or_default();
    Ok(Account {
        pid: standing.tree.pid.as_raw_pid(),
        facts: found.facts,
        differences: Account::words(differences),
    })
}
