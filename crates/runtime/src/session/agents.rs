//! What an agent's name means here: how it is started, what it may reach, which secrets it knows, what a mode is for it.

use agents::{Bound, Catalog, Mode, Requests};
use store::Session;

use crate::trees::Launcher;

/// The agent that is any program.
pub(super) const COMMAND: &str = "command";
/// The program of the built-in agent, which is beside the launcher.
const BUILT_IN: &str = "palisade-agent";

/// What every sandbox sees of this machine.
const SEEN: [&str; 4] = ["/usr", "/bin", "/lib", "/opt"];

/// How an agent is spoken to.
#[derive(Clone, Debug)]
pub(super) enum How {
    /// By the protocol, over its standard input and output.
    Acp(Vec<String>),
    /// As a program: the prompt goes in, the answer comes out.
    Plain(Vec<String>),
}

impl How {
    pub(super) fn command(&self) -> &[String] {
        match self {
            Self::Acp(command) | Self::Plain(command) => command,
        }
    }
}

/// A kind of agent, as one session uses it.
#[derive(Clone, Debug)]
pub(super) struct Kind {
    pub(super) how: How,
    /// Options of the launcher.
    pub(super) options: Vec<String>,
    /// Secrets that it knows, and where each goes.
    pub(super) secrets: Vec<Bound>,
    /// What the agent itself calls the mode.
    pub(super) mode: Option<String>,
    /// What becomes of what it asks.
    pub(super) requests: Requests,
}

impl Kind {
    /// What this session's agent is; an error says what to do.
    pub(super) fn of(session: &Session, all: &Catalog, launcher: &Launcher) -> Result<Self, String> {
        if session.agent.as_str() == COMMAND {
            let (how, requests) = (How::Plain(session.command.clone()), Requests::Refuse);
            return Ok(Self { how, options: Vec::new(), secrets: Vec::new(), mode: None, requests });
        }
        let Some(agent) = all.named(session.agent.as_str()) else {
            return Err(unknown(session.agent.as_str()));
        };
        let mode = mode(session.mode.as_deref())?;
        let none = || has_no_mode(&agent.name, session.mode.as_deref());
        let (how, mut command) = agent.how(mode).zip(agent.acp_in(mode)).ok_or_else(none)?;
        let mut options = Vec::new();
        if let Some(first) = command.first_mut() {
            let program = if first == BUILT_IN { launcher.beside(BUILT_IN) } else { launcher.found(first) };
            let program = program.ok_or_else(|| not_installed(first))?;
            // What lies where every sandbox sees it is found there by its name; anything else is shown by itself.
            if !SEEN.iter().any(|seen| program.starts_with(seen)) {
                let program = program.display().to_string();
                options.extend(["--ro".to_owned(), program.clone()]);
                *first = program;
            }
        }
        for preset in &agent.presets {
            options.extend(["--preset".to_owned(), preset.clone()]);
        }
        for (name, value) in agent.environment.iter().chain(&how.environment) {
            options.extend(["--env".to_owned(), format!("{name}={value}")]);
        }
        let secrets = agent.secrets.clone();
        Ok(Self { how: How::Acp(command), options, secrets, mode: how.id.clone(), requests: how.requests })
    }

    /// Whether a session of this agent can be opened.
    pub(super) fn fits(
        all: &Catalog,
        name: &str,
        wanted: Option<&str>,
        command: &[String],
    ) -> Result<(), String> {
        match (name == COMMAND, command.is_empty()) {
            (true, true) => return Err("say what is run: `command` is any program".into()),
            (true, false) if wanted.is_some() => return Err("`command` has no modes".into()),
            (true, false) => return Ok(()),
            (false, false) => {
                return Err(format!("`{name}` is started as it is; only `command` takes a program"));
            }
            (false, true) => {}
        }
        let agent = all.named(name).ok_or_else(|| unknown(name))?;
        if agent.acp.is_empty() {
            return Err(format!("`{name}` does not speak the protocol that sessions use"));
        }
        agent.how(mode(wanted)?).map(drop).ok_or_else(|| has_no_mode(name, wanted))
    }
}

/// A mode by its word; the one that asks unless told.
fn mode(wanted: Option<&str>) -> Result<Mode, String> {
    wanted.map_or(Ok(Mode::Default), |word| {
        word.parse().map_err(|error: agents::UnknownMode| error.to_string())
    })
}

fn not_installed(program: &str) -> String {
    format!(
        "`{program}` is not installed where agents are looked for; install it, or say where it is by `agents.path`"
    )
}

fn unknown(name: &str) -> String {
    format!("there is no agent `{name}`; `palisade agent list` tells which there are")
}

fn has_no_mode(name: &str, wanted: Option<&str>) -> String {
    format!(
        "`{name}` has no mode `{}`; `palisade agent list` tells which it has",
        wanted.unwrap_or("default")
    )
}
