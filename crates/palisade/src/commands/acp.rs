//! `palisade acp`: an agent for editors that speak ACP, on standard input and output, which is any agent of the daemon's.
//!
//! Flow: a line ([`lines`]) -> a method of [`Desk`] -> calls of the daemon's API; steps of the session ([`turn`]) -> updates
//! ([`words`]) -> the editor ([`peer`]).
//!
//! Invariants: nothing but the protocol is on standard output; whatever takes time has a thread of its own, few at once; one
//! prompt of a session is at work at a time; an answer of the person is bound to the digest of what was shown. Not here: any
//! right; the daemon judges every call by whoever is signed in.

mod lines;
mod peer;
mod place;
mod turn;
mod words;

use std::collections::HashMap;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::{AllowRequest, Client, CreateSessionRequest, DenyRequest};
use serde::Deserialize;
use serde_json::{Value, json};

use self::lines::Incoming;
use self::peer::{Asked, Fault, Peer};
use crate::cli::AcpArgs;
use crate::failure::Failure;
use crate::output;
use crate::session::Session;

/// Sessions that one editor has open, and requests that are worked on at once.
const SESSIONS: usize = 64;
const BUSY: usize = 80;
/// How often something that must arrive is said again while the daemon is away, and how long is waited between.
const AGAIN: usize = 20;
const PAUSE: Duration = Duration::from_millis(500);
/// The one way to sign in.
const LOGIN: &str = "palisade-login";

/// Serves one editor until it has no more to say.
pub(crate) fn run(session: Session, args: AcpArgs) -> ExitCode {
    let desk = Arc::new(Desk {
        session,
        args,
        peer: Peer::default(),
        open: Mutex::default(),
        busy: AtomicUsize::new(0),
        is_greeted: AtomicBool::new(false),
    });
    let mut from = BufReader::new(std::io::stdin());
    while let Some(incoming) = lines::next(&mut from) {
        match incoming {
            Incoming::Bad(why) => desk.peer.answer(&Value::Null, Err(Fault::new(-32_700, why))),
            Incoming::Answer(id, result) => {
                if let Some(asked) = desk.peer.heard(id) {
                    let desk = Arc::clone(&desk);
                    std::thread::spawn(move || desk.decide(&asked, result.as_ref()));
                }
            }
            Incoming::Notice(method, params) if method == "session/cancel" => desk.cancel(&params),
            Incoming::Notice(..) => {}
            Incoming::Request(id, method, params) => desk.request(id, &method, params),
        }
    }
    // The work is the daemon's, and goes on without an editor.
    for open in desk.opened().values().filter(|open| open.is_at_work()) {
        let id = &open.id;
        output::tell(&format!("{id} is at work; `palisade session stop {id}` ends it"));
    }
    ExitCode::SUCCESS
}

/// A session that the editor has open.
#[derive(Debug)]
struct Open {
    id: String,
    at_work: Mutex<Option<AtWork>>,
    /// What is to be said at the next turn.
    notes: Mutex<Vec<&'static str>>,
}

#[derive(Debug, Default)]
struct AtWork {
    task: Option<String>,
    is_cancelled: bool,
}

impl Open {
    fn at_work(&self) -> MutexGuard<'_, Option<AtWork>> {
        self.at_work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_at_work(&self) -> bool {
        self.at_work().is_some()
    }

    fn is_cancelled(&self) -> bool {
        self.at_work().as_ref().is_some_and(|now| now.is_cancelled)
    }

    /// Its task has a name now; whether it was cancelled before it had one.
    fn begun(&self, task: &str) -> bool {
        let mut now = self.at_work();
        now.as_mut().is_some_and(|now| {
            now.task = Some(task.to_owned());
            now.is_cancelled
        })
    }
}

/// One editor and what it has open.
struct Desk {
    session: Session,
    args: AcpArgs,
    peer: Peer,
    open: Mutex<HashMap<String, Arc<Open>>>,
    busy: AtomicUsize,
    is_greeted: AtomicBool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Place {
    cwd: PathBuf,
    #[serde(default)]
    session_id: Option<String>,
    #[serde(default)]
    mcp_servers: Option<Vec<Value>>,
    #[serde(default)]
    additional_directories: Option<Vec<Value>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Prompt {
    session_id: String,
    prompt: Vec<Value>,
}

fn given<T: serde::de::DeserializeOwned>(params: Value) -> Result<T, Fault> {
    serde_json::from_value(params).map_err(|error| Fault::params(error.to_string()))
}

impl Desk {
    /// A client whose credential is good for the next call: turns outlast tokens.
    fn client(&self) -> Result<Client, Failure> {
        self.session.client()
    }

    fn opened(&self) -> MutexGuard<'_, HashMap<String, Arc<Open>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn request(self: &Arc<Self>, id: Value, method: &str, params: Value) {
        if !self.is_greeted.load(Ordering::SeqCst) && method != "initialize" {
            return self.peer.answer(&id, Err(Fault::request("`initialize` comes first")));
        }
        let work: fn(&Self, Value) -> Result<Value, Fault> = match method {
            "initialize" => {
                let greeting = self.initialize(&params);
                return self.peer.answer(&id, greeting);
            }
            "authenticate" => Self::authenticate,
            "session/new" => Self::new_session,
            "session/load" => Self::load_session,
            "session/prompt" => return self.prompt(id, params),
            other => {
                let name: String = other.chars().filter(|c| !c.is_control()).take(64).collect();
                let fault = Fault::new(-32_601, format!("there is no method `{name}`"));
                return self.peer.answer(&id, Err(fault));
            }
        };
        self.beside(id, move |desk| work(desk, params));
    }

    /// Works on a request in a thread of its own, and answers it.
    fn beside(
        self: &Arc<Self>,
        id: Value,
        work: impl FnOnce(&Self) -> Result<Value, Fault> + Send + 'static,
    ) {
        let desk = Arc::clone(self);
        if self.busy.fetch_add(1, Ordering::SeqCst) >= BUSY {
            self.busy.fetch_sub(1, Ordering::SeqCst);
            return self
                .peer
                .answer(&id, Err(Fault::request("too much is asked at once; wait for an answer")));
        }
        std::thread::spawn(move || {
            let result = work(&desk);
            desk.busy.fetch_sub(1, Ordering::SeqCst);
            desk.peer.answer(&id, result);
        });
    }

    fn initialize(&self, params: &Value) -> Result<Value, Fault> {
        if params.get("protocolVersion").and_then(Value::as_u64).is_none() {
            return Err(Fault::params("there is no `protocolVersion`"));
        }
        self.is_greeted.store(true, Ordering::SeqCst);
        // The one version that is spoken here; who cannot speak it goes away.
        Ok(json!({
            "protocolVersion": 1,
            "agentCapabilities": {
                "loadSession": true,
                "promptCapabilities": { "image": false, "audio": false, "embeddedContext": true },
                "mcpCapabilities": { "http": false, "sse": false },
            },
            "agentInfo": { "name": "palisade", "title": "Palisade", "version": env!("CARGO_PKG_VERSION") },
            "authMethods": [{
                "id": LOGIN,
                "name": "Sign in to Palisade",
                "description": "Run `palisade login` in a terminal, or set PALISADE_API_KEY",
            }],
        }))
    }

    /// Whoever signs in does so elsewhere; here it is only looked whether that was done.
    fn authenticate(&self, params: Value) -> Result<Value, Fault> {
        if params.get("methodId").and_then(Value::as_str) != Some(LOGIN) {
            return Err(Fault::params(format!("the one way to sign in is `{LOGIN}`")));
        }
        self.client()?.whoami()?;
        Ok(json!({}))
    }

    fn has_room(&self) -> Result<(), Fault> {
        match self.opened().len() {
            0..SESSIONS => Ok(()),
            _ => Err(Fault::request(format!("{SESSIONS} sessions are open; start another `palisade acp`"))),
        }
    }

    fn keep(&self, id: &str, place: &Place) {
        let is_any = |given: &Option<Vec<Value>>| given.as_ref().is_some_and(|all| !all.is_empty());
        let mut notes = Vec::new();
        if is_any(&place.mcp_servers) {
            notes.push("the editor's MCP servers are not given to an agent in a sandbox");
        }
        if is_any(&place.additional_directories) {
            notes.push("the agent works in one worktree; further directories are not given to it");
        }
        let open = Open { id: id.to_owned(), at_work: Mutex::default(), notes: Mutex::new(notes) };
        self.opened().insert(id.to_owned(), Arc::new(open));
    }

    fn new_session(&self, params: Value) -> Result<Value, Fault> {
        let given: Place = given(params)?;
        self.has_room()?;
        let client = self.client()?;
        let worktree = place::worktree(&client, self.args.worktree.as_deref(), &given.cwd)?;
        let AcpArgs { agent, mode, model, .. } = self.args.clone();
        let new = CreateSessionRequest { worktree, agent, title: None, mode, model, command: Vec::new() };
        let made = client.create_session(&new)?;
        self.keep(&made.id, &given);
        Ok(json!({ "sessionId": made.id }))
    }

    fn load_session(&self, params: Value) -> Result<Value, Fault> {
        let place: Place = given(params)?;
        let Some(id) = place.session_id.as_deref() else {
            return Err(Fault::params("there is no `sessionId`"));
        };
        if !place.cwd.is_absolute() {
            return Err(Fault::params("`cwd` is an absolute path"));
        }
        let known = self.opened().get(id).cloned();
        match known {
            Some(open) if open.is_at_work() => return Err(Fault::request("that session is at work")),
            Some(_) => {}
            None => self.has_room()?,
        }
        let client = self.client()?;
        let found = client.session(id)?;
        turn::told_again(&client, &self.peer, &found.id)?;
        self.keep(&found.id, &place);
        Ok(json!({}))
    }

    fn prompt(self: &Arc<Self>, id: Value, params: Value) {
        let begun = given::<Prompt>(params).and_then(|prompt| {
            let text = words::prompted(&prompt.prompt).map_err(Fault::params)?;
            let open = self.opened().get(&prompt.session_id).cloned();
            let open =
                open.ok_or_else(|| Fault::new(-32_002, "there is no such session here; load it first"))?;
            let mut now = open.at_work();
            if now.is_some() {
                return Err(Fault::request(
                    "a turn of that session is at work; wait for its end, or cancel it",
                ));
            }
            *now = Some(AtWork::default());
            drop(now);
            Ok((open, text))
        });
        let (open, text) = match begun {
            Ok(begun) => begun,
            Err(fault) => return self.peer.answer(&id, Err(fault)),
        };
        let freed = Freed(Arc::clone(&open));
        self.beside(id, move |desk| {
            for note in std::mem::take(&mut *open.notes.lock().unwrap_or_else(PoisonError::into_inner)) {
                desk.peer.update(&open.id, words::note(note));
            }
            let why = turn::taken(desk, &open, &text);
            // First the session is free, then the editor knows.
            drop(freed);
            why.map(|why| json!({ "stopReason": why }))
        });
    }

    fn cancel(self: &Arc<Self>, params: &Value) {
        let id = params.get("sessionId").and_then(Value::as_str).unwrap_or_default();
        let Some(open) = self.opened().get(id).cloned() else { return };
        let mut now = open.at_work();
        let Some(now) = now.as_mut().filter(|now| !now.is_cancelled) else { return };
        now.is_cancelled = true;
        // One that has no name yet is ended by whoever gives it one.
        if let Some(task) = now.task.clone() {
            let (desk, session) = (Arc::clone(self), open.id.clone());
            std::thread::spawn(move || desk.stop(&session, &task));
        }
    }

    /// Has a task end; also when the daemon is just being started again.
    fn stop(&self, session: &str, task: &str) {
        for _ in 0..AGAIN {
            match self.client().and_then(|client| Ok(client.stop_task(session, task)?)) {
                Ok(_) => return,
                Err(Failure::Client(api::ClientError::Unreachable { .. })) => std::thread::sleep(PAUSE),
                Err(failure) => return output::tell(&failure.to_string()),
            }
        }
        output::tell(&format!("{task} could not be stopped; run `palisade session stop {session}`"));
    }

    /// Hands on what the person decided. Whatever is no clear yes is a no.
    fn decide(&self, asked: &Asked, result: Option<&Value>) {
        let Asked { session, waiting } = asked;
        let text = |pointer: &str| result.and_then(|result| result.pointer(pointer)).and_then(Value::as_str);
        let chosen = text("/outcome/optionId").filter(|_| text("/outcome/outcome") == Some("selected"));
        let choice = chosen.and_then(|chosen| waiting.allows.iter().find(|one| *one == chosen));
        let effect = waiting.effect.clone();
        let decided = self.client().and_then(|client| match choice {
            Some(choice) => {
                let body = AllowRequest::once(effect, choice.clone());
                Ok(client.allow_approval(session, &waiting.approval, &body)?)
            }
            None => Ok(client.deny_approval(session, &waiting.approval, &DenyRequest { effect })?),
        });
        // Somebody else may have decided, or the turn be over: what is told of the session says which.
        if let Err(failure) = decided {
            output::tell(&failure.to_string());
        }
    }
}

/// Frees a session for the next prompt, however its turn ended.
struct Freed(Arc<Open>);

impl Drop for Freed {
    fn drop(&mut self) {
        *self.0.at_work() = None;
    }
}
