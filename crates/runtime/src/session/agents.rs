//! What an agent's name means here: how it is started, what it may reach, which secrets it knows, what a mode is for it.

use std::path::Path;

use agents::{Agent, Bound, Catalog, Mode, Requests};
use store::Session;

use super::programs::{BUILT_IN, installed};
use crate::trees::Launcher;

/// The agent that is any program.
pub(super) const COMMAND: &str = "command";
/// Any agent that is ready.
pub(super) const AUTO: &str = "auto";

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
    /// What is known of it, and how it is called: for the launcher, which reads it again.
    pub(super) document: Option<(String, String)>,
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
            let (options, secrets) = (Vec::new(), Vec::new());
            return Ok(Self { how, options, document: None, secrets, mode: None, requests });
        }
        let Some(agent) = all.named(session.agent.as_str()) else {
            return Err(unknown(session.agent.as_str()));
        };
        Self::known(agent, session.mode.as_deref(), launcher)
    }

    /// What an agent of the catalog is in a mode.
    pub(super) fn known(agent: &Agent, wanted: Option<&str>, launcher: &Launcher) -> Result<Self, String> {
        let mode = mode(wanted)?;
        let none = || has_no_mode(&agent.name, wanted);
        let (how, mut command) = agent.how(mode).zip(agent.acp_in(mode)).ok_or_else(none)?;
        let mut options = Vec::new();
        if let Some(first) = command.first_mut() {
            let found = installed(launcher, first).ok_or_else(|| not_installed(agent))?;
            for path in found.shows {
                options.extend(["--ro".to_owned(), path.display().to_string()]);
            }
            *first = found.program;
        }
        if agent.beside {
            let between = installed(launcher, BUILT_IN).ok_or_else(not_between)?;
            for path in between.shows {
                options.extend(["--ro".to_owned(), path.display().to_string()]);
            }
            command.splice(0..0, [between.program, "beside".to_owned(), "--".to_owned()]);
        }
        // What it always needs the launcher takes from its document.
        for (name, value) in &how.environment {
            options.extend(["--env".to_owned(), format!("{name}={value}")]);
        }
        let document = Some((agent.name.clone(), agent.text.clone()));
        let secrets = agent.secrets.clone();
        let (mode, requests) = (how.id.clone(), how.requests);
        Ok(Self { how: How::Acp(command), options, document, secrets, mode, requests })
    }

    /// Writes what is known of it to where its runs keep their state, for the launcher.
    pub(super) async fn write_document(&mut self, state: &Path) -> Result<(), String> {
        let Some((name, text)) = self.document.take() else { return Ok(()) };
        let file = state.join(format!("{name}.toml"));
        let kept = tokio::fs::write(&file, text).await;
        kept.map_err(|error| format!("what is known of `{name}` could not be written: {error}"))?;
        self.options.extend(["--known-as".to_owned(), file.display().to_string()]);
        Ok(())
    }

    /// Whether a session of this agent can be opened here.
    pub(super) fn fits(
        all: &Catalog,
        launcher: &Launcher,
        name: &str,
        wanted: Option<&str>,
        command: &[String],
    ) -> Result<(), String> {
        match (name == COMMAND, command.is_empty()) {
            (true, true) => return Err("say what is run: `command` is any program".into()),
            (true, false) if wanted.is_some() => {
                return Err("`command` has no modes: a program that knows no protocol has no way to ask anybody; leave the mode out, \
                            and what the sandbox lets it do is what it does"
                    .into());
            }
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
        agent.how(mode(wanted)?).map(drop).ok_or_else(|| has_no_mode(name, wanted))?;
        if is_installed(agent, launcher) { Ok(()) } else { Err(not_installed(agent)) }
    }
}

/// Whether the program is there by which this agent speaks the protocol.
pub(super) fn is_installed(agent: &Agent, launcher: &Launcher) -> bool {
    agent.acp.first().is_some_and(|first| installed(launcher, first).is_some())
}

/// The first agent that has this mode, whose program is there, and of whose secrets one is `in_vault`.
pub(super) fn ready<'a>(
    all: &'a Catalog,
    launcher: &Launcher,
    wanted: Option<&str>,
    in_vault: impl Fn(&Bound) -> bool,
) -> Result<&'a Agent, String> {
    let mode = mode(wanted)?;
    let is_ready = |agent: &&Agent| {
        let mut enough = agent.secrets.iter().filter(|bound| !bound.spare);
        agent.how(mode).is_some() && enough.any(&in_vault) && is_installed(agent, launcher)
    };
    all.iter().find(is_ready).ok_or_else(|| {
        "no agent is ready: none is installed and has one of its secrets in the vault; `palisade agent doctor` tells what each lacks".into()
    })
}

/// A mode by its word; the one that asks unless told.
fn mode(wanted: Option<&str>) -> Result<Mode, String> {
    wanted.map_or(Ok(Mode::Default), |word| {
        word.parse().map_err(|error: agents::UnknownMode| error.to_string())
    })
}

/// What to do about an agent whose program is not there.
pub(super) fn not_installed(agent: &Agent) -> String {
    let program = agent.acp.first().map_or(agent.command.as_str(), String::as_str);
    format!(
        "`{program}`, by which `{}` is started, is not installed where agents are looked for; install it, or say where it is by \
         `agents.path` (`palisade agent doctor {}`)",
        agent.name, agent.name
    )
}

fn not_between() -> String {
    format!(
        "`{BUILT_IN}`, which serves files and terminals to an agent, is not beside `palisade`; install it there"
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
