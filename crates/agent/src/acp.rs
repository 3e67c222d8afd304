//! Speaks ACP: turns lines into requests and requests into sessions and turns.
//!
//! Flow: [`serve`] reads a line -> [`wire`] (what kind of message it is) -> a method of [`Desk`]. A prompt runs in a thread of
//! its own; everything else is answered at once. Messages that go out are made in [`words`].
//!
//! Invariant: a line has a bound; one that is no message is answered as such and changes nothing.

mod wire;
pub(crate) mod words;

use std::collections::HashMap;
use std::io::{BufReader, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};

pub(crate) use self::wire::{Fault, Peer, Unanswered};
use self::wire::{Incoming, Lines};
use crate::autonomy::Autonomy;
use crate::config::Config;
use crate::history::SessionId;
use crate::session::{House, Session};
use crate::turn;

/// Sessions at once.
const SESSIONS: usize = 16;
/// How long turns may take to end when the other side has gone.
const FAREWELL: Duration = Duration::from_secs(15);

/// Serves one client until it has no more to say.
pub fn serve(config: Config, input: impl Read, output: impl Write + Send + 'static) {
    let house = Arc::new(House::open(config));
    let peer = Arc::new(Peer::new(Box::new(output)));
    let mut desk = Served { house, peer: Arc::clone(&peer), sessions: HashMap::new(), greeted: false };
    let mut lines = Lines::new(BufReader::new(input));
    loop {
        match lines.next() {
            Incoming::End => break,
            Incoming::Bad(why) => peer.fail(&Value::Null, &Fault::parse(why)),
            Incoming::Answer(id, result) => peer.heard(id, result),
            Incoming::Notice(method, params) => desk.notice(&method, params),
            Incoming::Request(id, method, params) => desk.request(id, &method, params),
        }
    }
    peer.close();
    desk.sessions.values().for_each(|session| session.cancel());
    let until = Instant::now() + FAREWELL;
    while desk.sessions.values().any(|session| session.is_running()) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// One client and what it has open.
struct Served {
    house: Arc<House>,
    peer: Arc<Peer>,
    sessions: HashMap<SessionId, Arc<Session>>,
    greeted: bool,
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
struct Chosen {
    session_id: String,
    mode_id: String,
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

impl Served {
    fn notice(&self, method: &str, params: Value) {
        if method != "session/cancel" {
            return;
        }
        let id = params.get("sessionId").and_then(Value::as_str).unwrap_or_default().to_owned();
        if let Some(session) = SessionId::try_from(id).ok().and_then(|id| self.sessions.get(&id)) {
            session.cancel();
        }
    }

    fn request(&mut self, id: Value, method: &str, params: Value) {
        if !self.greeted && method != "initialize" {
            return self.peer.fail(&id, &Fault::request("`initialize` comes first"));
        }
        let result = match method {
            "initialize" => self.initialize(&params),
            "session/new" => self.new_session(params),
            "session/load" => self.load_session(params),
            "session/set_mode" => self.set_mode(params),
            "session/prompt" => return self.prompt(id, params),
            other => Err(Fault::method(other)),
        };
        match result {
            Ok(result) => self.peer.answer(&id, result),
            Err(fault) => self.peer.fail(&id, &fault),
        }
    }

    fn initialize(&mut self, params: &Value) -> Result<Value, Fault> {
        if params.get("protocolVersion").and_then(Value::as_u64).is_none() {
            return Err(Fault::params("there is no `protocolVersion`"));
        }
        self.greeted = true;
        // The one version that is spoken here; who cannot speak it goes away.
        Ok(json!({
            "protocolVersion": 1,
            "agentCapabilities": {
                "loadSession": self.house.shelf.is_there(),
                "promptCapabilities": { "image": false, "audio": false, "embeddedContext": true },
                "mcpCapabilities": { "http": false, "sse": false },
            },
            "agentInfo": { "name": "palisade-agent", "title": "Palisade", "version": env!("CARGO_PKG_VERSION") },
            "authMethods": [],
        }))
    }

    fn new_session(&mut self, params: Value) -> Result<Value, Fault> {
        let place: Place = given(params)?;
        self.fits(&place)?;
        let session = Session::new(&self.house, &place.cwd).map_err(Fault::params)?;
        let id = session.id.clone();
        let modes = self.modes(&session);
        self.sessions.insert(id.clone(), Arc::new(session));
        Ok(json!({ "sessionId": id.as_str(), "modes": modes }))
    }

    fn load_session(&mut self, params: Value) -> Result<Value, Fault> {
        let place: Place = given(params)?;
        let id = place.session_id.clone().ok_or_else(|| Fault::params("there is no `sessionId`"))?;
        let id = SessionId::try_from(id).map_err(Fault::params)?;
        if self.sessions.get(&id).is_some_and(|session| session.is_running()) {
            return Err(Fault::request("that session is at work"));
        }
        if !self.sessions.contains_key(&id) {
            self.fits(&place)?;
        }
        let session = Session::load(&self.house, &id, &place.cwd).map_err(Fault::missing)?;
        for update in words::told_again(&session) {
            self.peer.update(&id, update);
        }
        let modes = self.modes(&session);
        self.sessions.insert(id, Arc::new(session));
        Ok(json!({ "modes": modes }))
    }

    fn fits(&self, place: &Place) -> Result<(), Fault> {
        let is_any = |given: &Option<Vec<Value>>| given.as_ref().is_some_and(|all| !all.is_empty());
        if !place.cwd.is_absolute() {
            return Err(Fault::params("`cwd` is an absolute path"));
        }
        if is_any(&place.mcp_servers) {
            return Err(Fault::params("MCP servers are not used by this agent; give none"));
        }
        if is_any(&place.additional_directories) {
            return Err(Fault::params("there is one directory to a session"));
        }
        if self.sessions.len() >= SESSIONS {
            return Err(Fault::request("there are too many sessions in this process"));
        }
        Ok(())
    }

    fn modes(&self, session: &Session) -> Value {
        let open = Autonomy::ALL.into_iter().filter(|level| *level <= self.house.config.ceiling);
        let modes = open
            .map(|level| json!({ "id": level.word(), "name": level.word(), "description": level.about() }));
        json!({ "currentModeId": session.mode().word(), "availableModes": modes.collect::<Vec<_>>() })
    }

    fn known(&self, id: String) -> Result<Arc<Session>, Fault> {
        let id = SessionId::try_from(id).map_err(Fault::params)?;
        self.sessions
            .get(&id)
            .cloned()
            .ok_or_else(|| Fault::missing("there is no such session; load it first"))
    }

    fn set_mode(&self, params: Value) -> Result<Value, Fault> {
        let chosen: Chosen = given(params)?;
        let session = self.known(chosen.session_id)?;
        let mode: Autonomy = chosen.mode_id.parse().map_err(Fault::params)?;
        if mode > self.house.config.ceiling {
            return Err(Fault::params(format!(
                "this agent goes no further than `{}`",
                self.house.config.ceiling.word()
            )));
        }
        session.set_mode(mode);
        Ok(json!({}))
    }

    fn prompt(&self, id: Value, params: Value) {
        let begun = given::<Prompt>(params).and_then(|prompt| {
            let session = self.known(prompt.session_id)?;
            let text = words::prompted(&prompt.prompt, &self.house.config.limits).map_err(Fault::params)?;
            let cancel =
                session.begin().ok_or_else(|| Fault::request("a turn of that session is running"))?;
            Ok((session, text, cancel))
        });
        let (session, text, cancel) = match begun {
            Ok(begun) => begun,
            Err(fault) => return self.peer.fail(&id, &fault),
        };
        let (house, peer) = (Arc::clone(&self.house), Arc::clone(&self.peer));
        std::thread::spawn(move || {
            let result = turn::taken(&house, &session, &peer, &cancel, text);
            // First the session is free, then the client knows.
            session.end();
            match result {
                Ok(answer) => peer.answer(&id, answer),
                Err(why) => peer.fail(&id, &Fault::internal(why)),
            }
        });
    }
}
