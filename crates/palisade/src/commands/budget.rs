//! What may be spent, and what was.

use api::{Budget, Client, SetBudgetRequest, Spent};

use super::resolve;
use crate::cli::BudgetCommand;
use crate::failure::Failure;
use crate::output::{Shown, table};
use crate::session::Session;

pub(super) fn run(session: &Session, command: BudgetCommand) -> Result<Shown, Failure> {
    let client = session.client()?;
    match command {
        BudgetCommand::List => {
            let all = client.budgets()?.items;
            Ok(Shown::new(&all, budgets(&all)))
        }
        BudgetCommand::Set { scope, owner, kind, most, per } => {
            let most = Some(most.saturating_mul(unit(&kind)));
            set(&client, scope, &owner, kind, &per, most)?;
            Ok(Shown::done("it holds from now on, also for what is at work\n"))
        }
        BudgetCommand::Remove { scope, owner, kind, per } => {
            set(&client, scope, &owner, kind, &per, None)?;
            Ok(Shown::done("what is usual holds again\n"))
        }
        BudgetCommand::Usage { by, days } => {
            let all = client.usage(Some(&by), Some(days))?.items;
            let row = |one: &api::Usage| [vec![one.by.clone()], cells(&one.spent)].concat();
            let rows: Vec<_> = all.iter().map(row).collect();
            let by = by.to_uppercase();
            let heads = [&[by.as_str()], &HEADS[..]].concat();
            Ok(Shown::new(&all, table(&heads, &rows)))
        }
    }
}

/// What was spent in one session.
pub(super) fn of_session(client: &Client, session: &str) -> Result<Shown, Failure> {
    let usage = client.session_usage(session)?;
    let mut text = table(&HEADS, &[cells(&usage.spent)]);
    text.push('\n');
    text.push_str(&budgets(&usage.budgets));
    Ok(Shown::new(&usage, text))
}

const HEADS: [&str; 6] = ["TOKENS", "DOLLARS", "CALLS", "SECONDS", "BYTES", "PROCESSOR"];

fn cells(spent: &Spent) -> Vec<String> {
    vec![
        spent.tokens.to_string(),
        dollars(spent.cost_micro_usd),
        spent.calls.to_string(),
        (spent.wall_ms / 1_000).to_string(),
        spent.egress_bytes.to_string(),
        (spent.cpu_ms / 1_000).to_string(),
    ]
}

fn dollars(micro: i64) -> String {
    format!("{}.{:02}", micro / 1_000_000, micro % 1_000_000 / 10_000)
}

/// How many of what is kept are one of what people say.
fn unit(kind: &str) -> i64 {
    match kind {
        "cost" => 10_000,
        "wall" | "cpu" => 1_000,
        _ => 1,
    }
}

fn budgets(all: &[Budget]) -> String {
    let row = |one: &Budget| {
        let shown = |amount: i64| match one.kind.as_str() {
            "cost" => dollars(amount),
            kind => (amount / unit(kind)).to_string(),
        };
        let per = match one.seconds {
            0 => "ever".to_owned(),
            60 => "minute".to_owned(),
            3_600 => "hour".to_owned(),
            86_400 => "day".to_owned(),
            other => format!("{other} s"),
        };
        let spent = one.spent.map(shown).unwrap_or_default();
        vec![one.scope.clone(), one.owner.clone(), one.kind.clone(), per, shown(one.most), spent]
    };
    let rows: Vec<_> = all.iter().map(row).collect();
    table(&["OF", "WHICH", "WHAT", "PER", "MOST", "SPENT"], &rows)
}

fn set(
    client: &Client,
    scope: String,
    owner: &str,
    kind: String,
    per: &str,
    most: Option<i64>,
) -> Result<(), Failure> {
    let owner = match scope.as_str() {
        "user" => resolve::user(client, owner)?,
        "worktree" => resolve::worktree(client, owner)?,
        _ => owner.to_owned(),
    };
    let seconds = match per {
        // They are counted while they are at work.
        _ if kind == "sessions" => 0,
        "minute" => 60,
        "hour" => 3_600,
        "day" => 86_400,
        _ => 0,
    };
    Ok(client.set_budget(&SetBudgetRequest { scope, owner, kind, seconds, most })?)
}
