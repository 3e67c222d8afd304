//! The login of a run: which one is lent, and what is done when its token is over.

use std::ffi::OsString;

use egress::control::{Loan, Report};
use egress::{Front, Told};
use ledger::Decision;
use rules::Rule;
use sandbox::Caller;

use super::seen::Seen;
use agents::Agent;

use crate::commands::login::Known;
use crate::commands::login::{Lent, Renewal, Renewed};
use crate::failure::Failure;
use crate::output;

/// What a run has of its agent's own login.
#[derive(Default)]
pub(super) struct Own {
    pub(super) lent: Option<Lent>,
    /// What may be asked for where logins are made.
    pub(super) rule: Option<Rule>,
    /// Where a browser comes back to, if somebody logs in.
    pub(super) callbacks: Vec<String>,
}

/// Of an agent whose login is known. With a key of its own it needs none.
pub(super) fn own(
    agent: Option<&Agent>,
    loans: &[Loan],
    command: &[OsString],
    caller: &Caller,
) -> Result<Own, Failure> {
    let Some((agent, table)) = agent.and_then(|agent| Some((agent, agent.login.as_ref()?))) else {
        return Ok(Own::default());
    };
    let known = &Known::of(agent, table)?;
    let logs_in = known.is_asked_for(command);
    let has_key = agent.secrets.iter().any(|bound| loans.iter().any(|loan| loan.name == bound.name));
    if !logs_in && has_key {
        known.clear(caller)?;
        return Ok(Own::default());
    }
    let lent = match logs_in {
        true => {
            known.clear(caller)?;
            None
        }
        false => known.lend(caller)?,
    };
    let callbacks = known.callbacks().filter(|_| logs_in).collect();
    Ok(Own { lent, rule: Some(known.rule(logs_in)?), callbacks })
}

/// What is published: what was typed, and where a browser comes back to unless that was typed too.
pub(super) fn published(typed: &[String], callbacks: Vec<String>) -> Vec<String> {
    let inside = |port: &str| port.rsplit(':').next().map(str::to_owned);
    let is_new = |port: &String| !typed.iter().any(|one| inside(one).as_deref() == Some(port.as_str()));
    typed.iter().cloned().chain(callbacks.into_iter().filter(is_new)).collect()
}

/// Has the token renewed, if the proxy says that it is over.
pub(super) fn begin(
    renewal: &mut Option<Renewal>,
    front: &mut Front,
    seen: &mut Seen<'_>,
    told: &[Told],
) -> Result<(), Failure> {
    let Some(renewal) = renewal else { return Ok(()) };
    let over = told.iter().filter_map(|one| match one {
        Told::Proxy(Report::Stale { name, turn }) if *name == renewal.name => Some(*turn),
        _ => None,
    });
    let Some(turn) = over.max() else { return Ok(()) };
    match renewal.begin(turn) {
        Some(at_once) => done(renewal, front, seen, at_once),
        None => Ok(()),
    }
}

/// Gives the proxy the next token, if there is one by now; with `waits` it is waited for.
pub(super) fn take(
    renewal: &mut Option<Renewal>,
    front: &mut Front,
    seen: &mut Seen<'_>,
    waits: bool,
) -> Result<(), Failure> {
    let Some(renewal) = renewal else { return Ok(()) };
    match renewal.end(waits) {
        Some(renewed) => done(renewal, front, seen, renewed),
        None => Ok(()),
    }
}

fn done(
    renewal: &mut Renewal,
    front: &mut Front,
    seen: &mut Seen<'_>,
    renewed: Renewed,
) -> Result<(), Failure> {
    let name = &renewal.name.clone();
    match renewed {
        Renewed::Token { token, renew_at, ends_at, how, unkept } => {
            // On the record before it is used.
            seen.login(Decision::Done, name, how, unkept.as_deref())?;
            if let Some(why) = unkept {
                output::tell_now(&format!(
                    "the {name} was renewed, and could not be kept ({why}): your own program may have to log in again"
                ));
            }
            front.renewed(name, token, renew_at, ends_at);
        }
        Renewed::None { why, is_final } => {
            seen.login(Decision::Failed, name, "not renewed", Some(&why))?;
            if renewal.is_news(&why) {
                output::tell_now(&why);
            }
            front.not_renewed(name, &why, is_final);
        }
    }
    Ok(())
}
