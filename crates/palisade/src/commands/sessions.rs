//! Sessions: opened, prompted, watched, ended; and what waits there for a person.

mod attach;
mod effect;
mod import;
mod markdown;
mod screen;

use std::io::{IsTerminal, Read};

use api::{
    AllowRequest, Approval, Client, CreateSessionRequest, DenyRequest, ForkRequest, Lineage, SessionFilter,
    SpawnRequest, UndoRequest,
};
use serde_json::{Value, json};

pub(super) use effect::HIDDEN;

use super::resolve;
use crate::cli::{ApprovalCommand, SessionCommand};
use crate::failure::Failure;
use crate::output::{self, Shown, moment, table};
use crate::session::Session;

/// Characters of a prompt that are read from standard input, in bytes.
const MOST_PROMPT: u64 = 1 << 20;

pub(super) fn run(session_of: &Session, command: SessionCommand, json: bool) -> Result<Shown, Failure> {
    let client = session_of.client()?;
    match command {
        SessionCommand::New { worktree, agent, title, mode, model, command } => {
            let worktree = resolve::worktree(&client, &worktree)?;
            let agent = if command.is_empty() { agent } else { "command".to_owned() };
            let is_auto = agent == "auto";
            let new = CreateSessionRequest { worktree, agent, title, mode, model, command };
            let made = client.create_session(&new)?;
            if is_auto {
                output::tell(&format!("`auto` is `{}` here; name another by --agent", made.agent));
            }
            Ok(show(&made, &[]))
        }
        SessionCommand::List { worktree, mine, closed } => {
            let worktree = worktree.map(|text| resolve::worktree(&client, &text)).transpose()?;
            let creator = mine.then(|| resolve::user(&client, "me")).transpose()?;
            list(&client, &SessionFilter { worktree, creator, closed, ..SessionFilter::default() })
        }
        SessionCommand::Show { session } => {
            let found = client.session(&session)?;
            Ok(show(&found, &all_tasks(&client, &session)?))
        }
        SessionCommand::Prompt { session, prompt, follow, leave_questions } => {
            let prompt = prompt.map_or_else(from_input, Ok)?;
            let before = client.session(&session)?.steps;
            let task = client.prompt_session(&session, &prompt)?;
            if follow {
                let questions =
                    if leave_questions { attach::Questions::Left } else { attach::Questions::Denied };
                return attach::watch(session_of, &session, Some(before), Some(&task.id), questions, json);
            }
            let text =
                format!("{} is {}; `palisade session attach {session}` shows it\n", task.id, task.state);
            Ok(Shown::new(&task, text))
        }
        SessionCommand::Fork { session, at, title } => {
            Ok(show(&client.fork_session(&session, &ForkRequest { at, title })?, &[]))
        }
        SessionCommand::Spawn { session, prompt, agent, title, mode, model, silent } => {
            let prompt = api::Hidden(prompt.map_or_else(from_input, Ok)?);
            let (command, report) = (Vec::new(), !silent);
            let wanted = SpawnRequest { prompt, agent, title, mode, model, command, report };
            let made = client.spawn_session(&session, &wanted)?;
            let id = &made.session.id;
            let text = format!("{id} is {}; `palisade session attach {id}` shows it\n", made.task.state);
            Ok(Shown::new(&made, text))
        }
        SessionCommand::Usage { session } => super::budget::of_session(&client, &session),
        SessionCommand::Lineage { session } => {
            let all = client.lineage(&session)?;
            let this = client.session(&session)?;
            Ok(Shown::new(&all, tree(&all, &this)))
        }
        SessionCommand::Reorder { session, tasks } => {
            let now = client.reorder_tasks(&session, tasks)?.items;
            let lines: String = now.iter().map(|task| format!("{}\n", task.id)).collect();
            Ok(Shown::new(&now, lines))
        }
        SessionCommand::Undo { session, task, again } => {
            let task = client.undo_task(&session, &UndoRequest { task, again })?;
            let text = match again {
                true => format!("what {} changed is back\n", task.id),
                false => format!(
                    "what {} changed was taken back; `palisade session undo {session} --task {} --again` brings it back\n",
                    task.id, task.id
                ),
            };
            Ok(Shown::new(&task, text))
        }
        SessionCommand::Attach { session, after } => {
            attach::watch(session_of, &session, after, None, attach::Questions::Left, json)
        }
        SessionCommand::Export { session } => {
            let mut after = 0;
            loop {
                let page = client.steps(&session, after)?;
                for step in &page.items {
                    let line = serde_json::to_string(step).unwrap_or_default();
                    if !line_out(&line) {
                        return Ok(Shown::done(""));
                    }
                }
                match page.next {
                    Some(next) => after = next,
                    None => return Ok(Shown::done("")),
                }
            }
        }
        SessionCommand::Import { file, worktree, title } => {
            let worktree = resolve::worktree(&client, &worktree)?;
            Ok(show(&import::sent(&client, &file, &worktree, title)?, &[]))
        }
        SessionCommand::Stop { session, task } => {
            let what = match task {
                Some(task) => client.stop_task(&session, &task)?,
                None => client.stop_session(&session)?,
            };
            let text = match (what.task.as_deref(), what.state.as_str()) {
                (Some(task), "cancelled") => format!("{task} will not be begun\n"),
                (Some(task), _) => format!("{task} is being ended\n"),
                (None, _) => "nothing was at work\n".to_owned(),
            };
            Ok(Shown::new(&what, text))
        }
        SessionCommand::Resume { session } => Ok(show(&client.resume_session(&session)?, &[])),
        SessionCommand::Close { session } => Ok(show(&client.close_session(&session)?, &[])),
    }
}

pub(super) fn approval(session: &Session, command: ApprovalCommand) -> Result<Shown, Failure> {
    let client = session.client()?;
    match command {
        ApprovalCommand::List { session, all } => {
            let found = match &session {
                Some(session) => client.approvals(session, all)?,
                None => client.open_approvals()?,
            };
            // Whoever decides names the session.
            let at = |one: &Approval| match session {
                Some(_) => asked(one),
                None => format!("{} {}", one.session, asked(one)),
            };
            let text: String = found.items.iter().map(at).collect();
            let text = if text.is_empty() { "nothing waits\n".to_owned() } else { text };
            Ok(Shown::new(&found.items, text))
        }
        ApprovalCommand::Allow { session, approval, choice, scope, beneath, uses, hours } => {
            // What nobody named may be another than they saw.
            let one = waiting(&client, &session, Some(&approval))?;
            let choice = choice.or_else(|| once(&one));
            let choice = choice.ok_or_else(|| {
                Failure::Usage("none of the choices allows it once; name one by --choice".into())
            })?;
            let body = AllowRequest { effect: one.effect.clone(), choice, scope, beneath, uses, hours };
            Ok(decided(&client.allow_approval(&one.session, &one.id, &body)?))
        }
        ApprovalCommand::Consents { session } => {
            let held = client.consents(&session)?.items;
            let row = |one: &api::Consent| {
                let what =
                    one.beneath.as_deref().map_or("the same again".into(), |path| format!("beneath {path}"));
                vec![
                    one.id.clone(),
                    one.scope.clone(),
                    one.kind.clone(),
                    what,
                    one.left.to_string(),
                    moment(one.expires_at),
                ]
            };
            let rows: Vec<_> = held.iter().map(row).collect();
            Ok(Shown::new(&held, table(&["ID", "WHERE", "KIND", "WHAT", "LEFT", "UNTIL"], &rows)))
        }
        ApprovalCommand::Revoke { session, consent } => {
            client.revoke_consent(&session, &consent)?;
            Ok(Shown::done("the next one is asked about again\n"))
        }
        ApprovalCommand::Deny { session, approval } => {
            let one = waiting(&client, &session, approval.as_deref())?;
            let body = DenyRequest { effect: one.effect.clone() };
            Ok(decided(&client.deny_approval(&one.session, &one.id, &body)?))
        }
    }
}

/// Every task of a session, the oldest first.
fn all_tasks(client: &Client, session: &str) -> Result<Vec<api::Task>, Failure> {
    let (mut all, mut after) = (Vec::new(), 0);
    loop {
        let page = client.tasks(session, after)?;
        all.extend(page.items);
        match page.next {
            Some(next) => after = next,
            None => return Ok(all),
        }
    }
}

fn decided(one: &Approval) -> Shown {
    Shown::new(one, format!("{} is {}\n", one.id, one.state))
}

/// The approval that was named, or the only one that waits.
fn waiting(client: &Client, session: &str, named: Option<&str>) -> Result<Approval, Failure> {
    let mut open = client.approvals(session, false)?.items;
    if let Some(named) = named {
        let found = open.into_iter().find(|one| one.id == named);
        return found.ok_or_else(|| Failure::NotFound(format!("`{named}` does not wait in this session")));
    }
    match (open.pop(), open.is_empty()) {
        (Some(one), true) => Ok(one),
        (None, _) => Err(Failure::NotFound("nothing waits in this session".into())),
        (Some(_), false) => Err(Failure::Usage("several wait; name one (`palisade approval list`)".into())),
    }
}

/// The choice that allows this once.
fn once(one: &Approval) -> Option<String> {
    let choices = one.asks.get("choices")?.as_array()?;
    let allows =
        choices.iter().find(|choice| choice.get("kind").and_then(Value::as_str) == Some("allow_once"))?;
    allows.get("id")?.as_str().map(str::to_owned)
}

/// An effect that waits, as it is decided on.
fn asked(one: &Approval) -> String {
    let heading = format!("{} {}", one.id, one.state);
    let lines = std::iter::once(heading).chain(effect::whole(&one.asks));
    lines.map(|line| line + "\n").collect()
}

/// What was typed, or comes from elsewhere.
fn from_input() -> Result<String, Failure> {
    if std::io::stdin().is_terminal() {
        output::tell("type what is asked for, and end with Ctrl-D");
    }
    let mut text = String::new();
    let read = std::io::stdin().take(MOST_PROMPT).read_to_string(&mut text);
    read.map_err(|error| Failure::Usage(format!("standard input cannot be read: {error}")))?;
    Ok(text.trim_end_matches('\n').to_owned())
}

fn list(client: &Client, filter: &SessionFilter) -> Result<Shown, Failure> {
    let all = resolve::every(|after| {
        let filter = SessionFilter { after: after.map(str::to_owned), limit: Some(100), ..filter.clone() };
        client.sessions(&filter).map(|page| (page.items, page.next))
    })?;
    let row = |one: &api::Session| {
        vec![
            one.id.clone(),
            one.agent.clone(),
            state(one),
            one.queued.to_string(),
            moment(one.created_at),
            one.title.clone(),
        ]
    };
    let rows: Vec<_> = all.iter().map(row).collect();
    Ok(Shown::new(&all, table(&["ID", "AGENT", "STATE", "WAITING", "SINCE", "TITLE"], &rows)))
}

/// A line for each session of a tree, each beneath the one it comes from.
fn tree(all: &Lineage, this: &api::Session) -> String {
    let mut lines = String::new();
    let mut line = |depth: usize, one: &api::Session, mark: &str| {
        let born = one.origin.as_ref().map(|from| format!(" ({})", from.born)).unwrap_or_default();
        let pad = "  ".repeat(depth);
        lines.push_str(&format!("{pad}{mark}{} {}{born}: {}\n", one.id, one.title, state(one)));
    };
    for (depth, one) in all.ancestors.iter().enumerate() {
        line(depth, one, "");
    }
    let depth = all.ancestors.len();
    line(depth, this, "* ");
    let mut waiting: Vec<(usize, &api::Session)> = Vec::new();
    let of = |parent: &str| {
        let parent = parent.to_owned();
        all.descendants
            .iter()
            .rev()
            .filter(move |one| one.origin.as_ref().is_some_and(|from| from.parent == parent))
    };
    waiting.extend(of(&this.id).map(|one| (depth + 1, one)));
    while let Some((depth, one)) = waiting.pop() {
        line(depth, one, "");
        waiting.extend(of(&one.id).map(|child| (depth + 1, child)));
    }
    if all.more {
        lines.push_str("(there are more)\n");
    }
    lines
}

fn state(one: &api::Session) -> String {
    match (&one.closed_at, &one.at_work, &one.held) {
        (Some(_), ..) if one.imported.is_some() => "imported: for reading".into(),
        (Some(_), ..) => "closed".into(),
        (None, Some(_), _) => "at work".into(),
        (None, None, Some(held)) => format!("held: {held}"),
        (None, None, None) => "idle".into(),
    }
}

fn show(one: &api::Session, tasks: &[api::Task]) -> Shown {
    let mut text = format!(
        "{}\nid       {}\nworktree {}\nagent    {}\nstate    {}\nwaiting  {}\nsince    {}\n",
        one.title,
        one.id,
        one.worktree,
        one.agent,
        state(one),
        one.queued,
        moment(one.created_at)
    );
    if !tasks.is_empty() {
        let row = |task: &api::Task| {
            let first = task.prompt.lines().next().unwrap_or_default();
            let prompt: String = first.chars().take(60).collect();
            let place = |tree: &Option<api::TreeState>| {
                let Some(tree) = tree else { return "-".to_owned() };
                let commit = tree.commit.as_deref().and_then(|id| id.get(..10)).unwrap_or("?");
                // As in many prompts: a star is for what is in no commit. Where nobody looked, that is said.
                let dirty = match tree.dirty {
                    Some(true) => "*",
                    Some(false) => "",
                    None => "?",
                };
                format!("{commit}{dirty}")
            };
            let tree = format!("{} {}", place(&task.tree_before), place(&task.tree_after));
            vec![task.id.clone(), task.state.clone(), tree, task.why.clone(), prompt]
        };
        let rows: Vec<_> = tasks.iter().map(row).collect();
        text.push('\n');
        text.push_str(&table(&["TASK", "STATE", "TREE", "WHY", "ASKED"], &rows));
    }
    let result = if tasks.is_empty() { json!(one) } else { json!({ "session": one, "tasks": tasks }) };
    Shown::new(&result, text)
}

fn line_out(line: &str) -> bool {
    output::next_line(&format!("{line}\n"))
}
