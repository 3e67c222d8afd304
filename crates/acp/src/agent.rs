//! What can be wanted of an agent.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use crate::error::AcpError;
use crate::fields::{Fields, NAME, shown};
use crate::link::{Link, Purpose};
use crate::offered::{Abilities, AgentSession, Opened, Setting, settings};

/// The version of the protocol that is spoken here.
const VERSION: u64 = 1;
/// Bytes of a message to an agent.
const MESSAGE: usize = 8 << 20;

/// Says things to an agent. Every copy speaks to the same one.
#[derive(Clone)]
pub struct Agent(Arc<Link>);

/// A server of tools that an agent is to start, inside its sandbox.
#[derive(Clone, Debug)]
pub struct McpServer {
    /// What the agent calls it.
    pub name: String,
    /// The program.
    pub command: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its variables, by name.
    pub env: Vec<(String, String)>,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Stopped {
    /// Why.
    pub why: Stop,
    /// The tokens of the turn, as far as the agent tells, within a bound.
    pub usage: Option<Value>,
    /// What else it tells, within a bound.
    pub meta: Option<Value>,
}

/// Why a turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the words of the protocol say it")]
pub enum Stop {
    EndTurn,
    MaxTokens,
    MaxTurnRequests,
    Refusal,
    Cancelled,
    /// A word that is not the protocol's.
    Other(String),
}

impl Stop {
    fn of(word: String) -> Self {
        match word.as_str() {
            "end_turn" => Self::EndTurn,
            "max_tokens" => Self::MaxTokens,
            "max_turn_requests" => Self::MaxTurnRequests,
            "refusal" => Self::Refusal,
            "cancelled" => Self::Cancelled,
            _ => Self::Other(shown(word.as_bytes())),
        }
    }
}

impl Agent {
    pub(crate) fn new(link: Arc<Link>) -> Self {
        Self(link)
    }

    /// Greets: who we are, and who it is. Files and terminals are not offered: who serves them stands beside the agent.
    pub async fn initialize(&self, client: &str, version: &str) -> Result<Abilities, AcpError> {
        let params = json!({
            "protocolVersion": VERSION,
            "clientCapabilities": { "fs": { "readTextFile": false, "writeTextFile": false }, "terminal": false },
            "clientInfo": { "name": client, "version": version },
        });
        let result = self.plain("initialize", &params).await?;
        let (version, abilities) =
            Abilities::read(result).ok_or_else(|| garbled("initialize", "it names no version"))?;
        if version != VERSION {
            return Err(AcpError::Version(version));
        }
        self.0.change_offer(|offer| offer.abilities = abilities.clone());
        Ok(abilities)
    }

    /// Signs in by one of the ways that the agent named.
    pub async fn authenticate(&self, method: &str) -> Result<(), AcpError> {
        if !self.0.offer().abilities.sign_in.iter().any(|way| way.id == method) {
            return Err(not_offered("the way to sign in", method));
        }
        self.plain("authenticate", &json!({ "methodId": method })).await.map(drop)
    }

    /// Opens a session in a directory, as the agent sees it.
    pub async fn open(&self, cwd: &Path, servers: &[McpServer]) -> Result<Opened, AcpError> {
        let servers: Vec<Value> = servers.iter().map(server).collect();
        let params = json!({ "cwd": cwd, "mcpServers": servers });
        let result = self.ask("session/new", &params, Purpose::Open, self.0.limits.answer).await?;
        let opened =
            Opened::read(result, None).ok_or_else(|| garbled("session/new", "it names no session"))?;
        Ok(self.kept(opened))
    }

    /// Goes on with a session of an earlier process. What it tells meanwhile is [`Update::Again`](crate::Update::Again).
    pub async fn load(&self, session: &AgentSession, cwd: &Path) -> Result<Opened, AcpError> {
        if !self.0.offer().abilities.can_load {
            return Err(not_offered("loading of the session", session.as_str()));
        }
        let params = json!({ "sessionId": session.as_str(), "cwd": cwd, "mcpServers": [] });
        let purpose = Purpose::Load(session.clone());
        let result = self.ask("session/load", &params, purpose, self.0.limits.answer).await?;
        let opened = Opened::read(result, Some(session.clone()));
        Ok(self.kept(opened.ok_or_else(|| garbled("session/load", "it is no object"))?))
    }

    fn kept(&self, opened: Opened) -> Opened {
        self.0.change_offer(|offer| {
            offer.modes.clone_from(&opened.modes);
            offer.settings.clone_from(&opened.settings);
            offer.has_models = !opened.models.is_empty();
        });
        opened
    }

    /// Puts a session into one of the modes that it offers, as modes or by the setting that is for it.
    pub async fn set_mode(&self, session: &AgentSession, mode: &str) -> Result<(), AcpError> {
        let offer = self.0.offer();
        if !offer.modes.iter().any(|one| one.id == mode) {
            let has = |setting: &&Setting| setting.values.iter().any(|value| value.id == mode);
            let setting = offer.settings.iter().filter(|setting| setting.is_mode()).find(has);
            let setting = setting.ok_or_else(|| not_offered("the mode", mode))?;
            return self.set(session, &setting.id, mode).await;
        }
        let params = json!({ "sessionId": session.as_str(), "modeId": mode });
        self.plain("session/set_mode", &params).await.map(drop)
    }

    /// Has a session use a model: by the setting that is for it, or by the older way. The agent judges the name.
    pub async fn set_model(&self, session: &AgentSession, model: &str) -> Result<(), AcpError> {
        let offer = self.0.offer();
        if let Some(setting) = offer.settings.iter().find(|setting| setting.is_model()) {
            return self.set(session, &setting.id, model).await;
        }
        if !offer.has_models {
            return Err(not_offered("the model", model));
        }
        let params = json!({ "sessionId": session.as_str(), "modelId": model });
        self.plain("session/set_model", &params).await.map(drop)
    }

    /// The model that the setting for it says, as the agent told last; none where it has no such setting.
    #[must_use]
    pub fn model(&self) -> Option<String> {
        let offer = self.0.offer();
        offer.settings.iter().find(|setting| setting.is_model()).map(|setting| setting.current.clone())
    }

    /// Sets something else that a session offers.
    pub async fn set(&self, session: &AgentSession, setting: &str, value: &str) -> Result<(), AcpError> {
        if !self.0.offer().settings.iter().any(|one| one.id == setting) {
            return Err(not_offered("the setting", setting));
        }
        let params = json!({ "sessionId": session.as_str(), "configId": setting, "value": value });
        let result = self.plain("session/set_config_option", &params).await?;
        if let Some(now) = Fields::of(result).and_then(|mut fields| settings(&mut fields)) {
            self.0.change_offer(|offer| offer.settings = now);
        }
        Ok(())
    }

    /// Says something to the agent and waits for the end of the turn.
    pub async fn prompt(&self, session: &AgentSession, text: &str) -> Result<Stopped, AcpError> {
        self.prompt_with(session, &[text]).await
    }

    /// The same, in several pieces that stay apart.
    pub async fn prompt_with(&self, session: &AgentSession, texts: &[&str]) -> Result<Stopped, AcpError> {
        let prompt: Vec<Value> = texts.iter().map(|text| json!({ "type": "text", "text": text })).collect();
        let params = json!({ "sessionId": session.as_str(), "prompt": prompt });
        let purpose = Purpose::Turn { session: session.clone(), is_cancelled: false };
        let result = self.ask("session/prompt", &params, purpose, self.0.limits.turn).await?;
        let mut fields = Fields::of(result).ok_or_else(|| garbled("session/prompt", "it is no object"))?;
        let why = fields.short("stopReason", NAME).map(Stop::of);
        let why = why.ok_or_else(|| garbled("session/prompt", "it does not say why the turn ended"))?;
        Ok(Stopped { why, usage: fields.json("usage"), meta: fields.json("_meta") })
    }

    /// Stops the turn that runs: says so, and answers `cancelled` to what the agent asked. The turn ends when it says so.
    pub fn cancel(&self, session: &AgentSession) {
        self.0.cancel(session);
    }

    /// Says nothing more: the agent's input ends behind what is on the way. It is heard to its end, and whatever is wanted of it from
    /// now on is [`AcpError::Gone`]. An agent that does not end by itself is for whoever started it.
    pub fn close(&self) {
        self.0.close();
    }

    async fn plain(&self, method: &'static str, params: &Value) -> Result<Value, AcpError> {
        self.ask(method, params, Purpose::Plain, self.0.limits.answer).await
    }

    async fn ask(
        &self,
        method: &'static str,
        params: &Value,
        purpose: Purpose,
        time: Duration,
    ) -> Result<Value, AcpError> {
        if crate::fields::length(params) > MESSAGE {
            return Err(AcpError::TooLong { most: MESSAGE });
        }
        let answered = async {
            let _place = self.0.places.acquire().await.map_err(|_| AcpError::Gone)?;
            let (_ticket, heard) = self.0.ask(method, params, purpose)?;
            heard.await.map_err(|_| AcpError::Gone)?
        };
        timeout(time, answered).await.unwrap_or(Err(AcpError::Late { method, seconds: time.as_secs() }))
    }
}

fn server(server: &McpServer) -> Value {
    let env: Vec<Value> =
        server.env.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect();
    json!({ "name": server.name, "command": server.command, "args": server.args, "env": env })
}

fn garbled(method: &'static str, why: &str) -> AcpError {
    AcpError::Garbled { method, why: why.to_owned() }
}

fn not_offered(what: &'static str, wanted: &str) -> AcpError {
    AcpError::NotOffered { what, wanted: shown(wanted.as_bytes()) }
}
