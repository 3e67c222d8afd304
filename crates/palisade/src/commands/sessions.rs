//! Sessions: opened, prompted, watched, ended; and what waits there for a person.

use std::io::{IsTerminal, Read};

use api::{
    AllowRequest, Approval, Client, ClientError, CreateSessionRequest, DenyRequest, SessionFilter, Step,
};
use serde_json::{Value, json};

use super::resolve;
use crate::cli::{ApprovalCommand, SessionCommand};
use crate::failure::Failure;
use crate::output::{self, Shown, moment, table};
use crate::session::Session;

/// How often a connection is made again that brings nothing.
const MOST_BROKEN: u32 = 10;
/// Characters of a prompt that are read from standard input, in bytes.
const MOST_PROMPT: u64 = 1 << 20;

pub(super) fn run(session: &Session, command: SessionCommand, json: bool) -> Result<Shown, Failure> {
    let client = session.client()?;
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
            Ok(show(&found, &client.tasks(&session, 0)?.items))
        }
        SessionCommand::Prompt { session, prompt, follow } => {
            let prompt = prompt.map_or_else(from_input, Ok)?;
            let before = client.session(&session)?.steps;
            let task = client.prompt_session(&session, &prompt)?;
            if follow {
                return watch(&client, &session, Some(before), Some(&task.id), json);
            }
            let text =
                format!("{} is {}; `palisade session attach {session}` shows it\n", task.id, task.state);
            Ok(Shown::new(&task, text))
        }
        SessionCommand::Attach { session, after } => watch(&client, &session, after, None, json),
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
            let found = client.approvals(&session, all)?;
            let text: String = found.items.iter().map(asked).collect();
            let text = if text.is_empty() { "nothing waits\n".to_owned() } else { text };
            Ok(Shown::new(&found.items, text))
        }
        ApprovalCommand::Allow { session, approval, choice } => {
            let one = waiting(&client, &session, approval.as_deref())?;
            let choice = choice.or_else(|| once(&one));
            let choice = choice.ok_or_else(|| {
                Failure::Usage("none of the choices allows it once; name one by --choice".into())
            })?;
            let body = AllowRequest { effect: one.effect.clone(), choice };
            Ok(decided(&client.allow_approval(&one.session, &one.id, &body)?))
        }
        ApprovalCommand::Deny { session, approval } => {
            let one = waiting(&client, &session, approval.as_deref())?;
            let body = DenyRequest { effect: one.effect.clone() };
            Ok(decided(&client.deny_approval(&one.session, &one.id, &body)?))
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
    let text = |pointer: &str| {
        one.asks.pointer(pointer).and_then(Value::as_str).unwrap_or_default().escape_debug().to_string()
    };
    let mut shown = format!("{} {}: {} {}\n", one.id, one.state, text("/call/kind"), text("/call/title"));
    for path in one.asks.pointer("/call/paths").and_then(Value::as_array).into_iter().flatten() {
        shown.push_str(&format!("  path    {}\n", path.as_str().unwrap_or_default().escape_debug()));
    }
    if let Some(input) = one.asks.pointer("/call/input") {
        shown.push_str(&format!("  input   {}\n", input.to_string().escape_debug()));
    }
    for content in one.asks.pointer("/call/content").and_then(Value::as_array).into_iter().flatten() {
        for (name, value) in content.as_object().into_iter().flatten() {
            shown.push_str(&format!("  {name:7} {}\n", value.to_string().escape_debug()));
        }
    }
    for choice in one.asks.get("choices").and_then(Value::as_array).into_iter().flatten() {
        let word = |name: &str| {
            choice.get(name).and_then(Value::as_str).unwrap_or_default().escape_debug().to_string()
        };
        shown.push_str(&format!("  choice  {} ({}): {}\n", word("id"), word("kind"), word("name")));
    }
    shown
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

fn state(one: &api::Session) -> String {
    match (&one.closed_at, &one.at_work, &one.held) {
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
            vec![task.id.clone(), task.state.clone(), task.why.clone(), prompt]
        };
        let rows: Vec<_> = tasks.iter().map(row).collect();
        text.push('\n');
        text.push_str(&table(&["TASK", "STATE", "WHY", "ASKED"], &rows));
    }
    let result = if tasks.is_empty() { json!(one) } else { json!({ "session": one, "tasks": tasks }) };
    Shown::new(&result, text)
}

/// Shows what happens, until the task that is waited for is over. A connection that breaks is made again.
fn watch(
    client: &Client,
    session: &str,
    after: Option<i64>,
    task: Option<&str>,
    json: bool,
) -> Result<Shown, Failure> {
    let row = client.session(session)?;
    let mut last = after.unwrap_or(row.steps);
    let mut screen = Screen { json, line: String::new() };
    // Nothing happens any more in one that is closed and has nothing at work.
    while row.closed_at.is_some() && row.at_work.is_none() {
        let page = client.steps(session, last)?;
        for step in &page.items {
            last = step.seq;
            if !screen.shows(step, session) {
                return Ok(Shown::done(""));
            }
        }
        if page.next.is_none() {
            return Ok(Shown::done(""));
        }
    }
    let mut broken = 0;
    loop {
        let followed = match client.follow_session(session, last) {
            Ok(followed) => followed,
            Err(error @ ClientError::Unreachable { .. }) if broken < MOST_BROKEN => {
                again(&mut broken, &error);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        for step in followed {
            let step = match step {
                Ok(step) => step,
                Err(error) if broken < MOST_BROKEN => {
                    output::tell(&error.to_string());
                    break;
                }
                Err(error) => return Err(error.into()),
            };
            broken = 0;
            last = step.seq;
            if !screen.shows(&step, session) {
                return Ok(Shown::done(""));
            }
            if task.is_some() && step.kind == "result" && step.task.as_deref() == task {
                let state = step.body.get("state").and_then(Value::as_str).unwrap_or_default();
                return match state {
                    "done" => Ok(Shown::done("")),
                    _ => Err(Failure::Task(state.to_owned())),
                };
            }
        }
        again(&mut broken, &"the connection ended");
    }
}

/// Waits before a connection is made again.
fn again(broken: &mut u32, why: &dyn std::fmt::Display) {
    *broken += 1;
    output::tell(&format!("{why}; connecting again"));
    std::thread::sleep(std::time::Duration::from_millis(500));
}

fn line_out(line: &str) -> bool {
    output::next_line(&format!("{line}\n"))
}

/// Lines on the terminal.
struct Screen {
    json: bool,
    line: String,
}

impl Screen {
    /// Shows one step; false if nobody reads any more.
    fn shows(&mut self, step: &Step, session: &str) -> bool {
        if self.json {
            return line_out(&serde_json::to_string(step).unwrap_or_default());
        }
        let text = |name: &str| step.body.get(name).and_then(Value::as_str);
        if step.kind == "assistant" {
            self.line.push_str(text("text").or(text("thought")).unwrap_or_default());
            while let Some((line, rest)) = self.line.split_once('\n') {
                let (line, rest) = (line.to_owned(), rest.to_owned());
                self.line = rest;
                if !line_out(&line) {
                    return false;
                }
            }
            return true;
        }
        let spoken = std::mem::take(&mut self.line);
        if !spoken.is_empty() && !line_out(&spoken) {
            return false;
        }
        let told = match step.kind.as_str() {
            "user" => Some(format!("> {}", text("text").unwrap_or_default().replace('\n', "\n> "))),
            "tool_use" => text("title").map(|title| format!("  · {title}")),
            "tool_result" => {
                let call = text("title").or(text("call")).unwrap_or_default();
                Some(format!("  {} {call}", if text("status") == Some("failed") { "✗" } else { "✓" }))
            }
            "result" => {
                Some(format!("[{}] {}", text("state").unwrap_or_default(), text("text").unwrap_or_default()))
            }
            "error" => Some(format!("! {}", text("text").unwrap_or_default())),
            _ => match (text("approval"), text("decision")) {
                (Some(id), None) => {
                    let title =
                        step.body.pointer("/asks/call/title").and_then(Value::as_str).unwrap_or_default();
                    Some(format!(
                        "? {title}\n  palisade approval allow {session} {id}   (or deny; list shows it whole)"
                    ))
                }
                (Some(id), Some(decision)) => Some(format!("  {id}: {decision}")),
                (None, _) => text("text").map(|text| format!("  {text}")),
            },
        };
        told.is_none_or(|told| told.lines().all(line_out))
    }
}
