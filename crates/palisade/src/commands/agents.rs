//! The agents that sessions can be opened with, and whether each is ready.

use std::collections::BTreeSet;

use api::SecretAbout;
use serde_json::json;

use crate::cli::AgentCommand;
use crate::failure::Failure;
use crate::output::{Shown, table};
use crate::session::Session;

pub(super) fn run(session: &Session, command: &AgentCommand) -> Result<Shown, Failure> {
    let client = session.client()?;
    match command {
        AgentCommand::List => {
            let all = client.agents()?.items;
            let row = |one: &api::Agent| {
                vec![one.name.clone(), one.title.clone(), one.modes.join(" "), one.secrets.join(" ")]
            };
            let rows: Vec<_> = all.iter().map(row).collect();
            Ok(Shown::new(&all, table(&["NAME", "", "MODES", "SECRETS"], &rows)))
        }
        AgentCommand::Doctor { name } => {
            let mut all = client.checked_agents()?.items;
            if let Some(name) = name {
                all.retain(|agent| agent.name == *name);
                if all.is_empty() {
                    let why =
                        format!("there is no agent `{name}`; `palisade agent list` tells which there are");
                    return Err(Failure::NotFound(why));
                }
            }
            let secrets = client.secrets(None, None)?.items;
            let told: Vec<Health> = all.iter().map(|agent| Health::of(agent, &secrets)).collect();
            let text: Vec<String> = told.iter().map(Health::text).collect();
            let told: Vec<_> = told.iter().map(Health::value).collect();
            Ok(Shown::new(&told, text.join("\n")))
        }
    }
}

/// Whether an agent is ready, and what it lacks.
struct Health<'a> {
    agent: &'a api::Agent,
    in_vault: Vec<&'a str>,
    hosts: BTreeSet<String>,
    next: Vec<String>,
}

impl<'a> Health<'a> {
    fn of(agent: &'a api::Agent, secrets: &[SecretAbout]) -> Self {
        let counts = |name: &str| {
            secrets.iter().any(|one| one.name == name && one.effective != Some(false) && !one.expired)
        };
        let in_vault: Vec<&str> =
            agent.secrets.iter().map(String::as_str).filter(|name| counts(name)).collect();
        let rules =
            agent.presets.iter().filter_map(|preset| rules::presets::find(preset)?.rules().ok()).flatten();
        let hosts = rules.filter(|rule| !rule.deny).map(|rule| rule.host).chain(agent.hosts.iter().cloned());
        let mut next = Vec::new();
        if !agent.installed {
            let program = &agent.program;
            next.push(format!(
                "install `{program}` on the daemon's machine, or say where it is: `agents.path` in its configuration"
            ));
        }
        if let Some(fault) = &agent.fault {
            next.push(format!("it does not start: {fault}"));
        }
        let has_one = agent.needs.iter().any(|name| in_vault.contains(&name.as_str()));
        if let (false, Some(first)) = (has_one, agent.needs.first()) {
            next.push(format!("`palisade secret add {first}` (one of: {})", agent.needs.join(", ")));
        }
        Self { agent, in_vault, hosts: hosts.collect(), next }
    }

    fn value(&self) -> serde_json::Value {
        let Self { agent, in_vault, hosts, next } = self;
        json!({
            "name": agent.name, "title": agent.title, "ready": next.is_empty(), "program": agent.program,
            "installed": agent.installed, "version": agent.version, "fault": agent.fault, "secrets": agent.secrets,
            "in_vault": in_vault, "hosts": hosts, "next": next,
        })
    }

    fn text(&self) -> String {
        let Self { agent, in_vault, hosts, next } = self;
        let state = if next.is_empty() { "ready" } else { "not ready" };
        let version = agent.version.as_deref().unwrap_or("none is heard");
        let found = if agent.installed { "is there" } else { "is not there" };
        let secrets = |name: &String| match in_vault.contains(&name.as_str()) {
            true => format!("{name} (in the vault)"),
            false => name.clone(),
        };
        let secrets: Vec<String> = agent.secrets.iter().map(secrets).collect();
        let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
        let mut text = format!(
            "{} ({}): {state}\n  program  {} {found}\n  version  {version}\n  secrets  {}\n  hosts    {}\n",
            agent.name,
            agent.title,
            agent.program,
            secrets.join(", "),
            hosts.join(", ")
        );
        next.iter().for_each(|what| text.push_str(&format!("  next     {what}\n")));
        text
    }
}
