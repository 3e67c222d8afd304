//! What is known of agents here, and whether they are ready: programs, versions, credentials.
//!
//! Flow: a document -> whether its program is there -> what the agent itself says when it is greeted, in a sandbox without a network, a secret
//! or a worktree, within a bound of time; what it said is remembered as long as the program stays the same.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use access::{CheckAgents, Permit, Principal, ReadStatus};
use acp::Limits;
use model::{AgentName, WorktreeId};
use store::StoreError;
use tokio::sync::Mutex;

use super::agents::{self, Kind};
use super::programs;
use super::sandbox::{Agent, Wanted};
use crate::{ActError, Runtime, Whose};

/// How long an agent has to answer a greeting, and to end.
const GREETING: Duration = Duration::from_secs(30);
const PARTING: Duration = Duration::from_secs(5);
/// How long a fault is believed.
const AGAIN: Duration = Duration::from_mins(1);
/// Characters of what is told of a version.
const MOST_VERSION: usize = 100;

/// What is told of an agent.
#[derive(Clone, Debug)]
pub struct AgentView {
    /// How it is named here.
    pub name: String,
    /// What people call it.
    pub title: String,
    /// The modes that it has.
    pub modes: Vec<String>,
    /// Names of secrets that it uses, if they are in the vault.
    pub secrets: Vec<String>,
    /// Those of which it needs one.
    pub needs: Vec<String>,
    /// The program by which it speaks the protocol.
    pub program: String,
    /// Whether that is there.
    pub is_installed: bool,
    /// The hosts that its secrets go to.
    pub hosts: Vec<String>,
    /// The sets of rules that it has.
    pub presets: Vec<String>,
    /// What it says that its version is, if it was greeted and says so.
    pub version: Option<String>,
    /// Why it could not be greeted.
    pub fault: Option<String>,
}

/// What agents said, of which program that was, and when it was heard. One is greeted at a time.
#[derive(Debug, Default)]
pub(crate) struct Checks(Mutex<HashMap<String, Check>>);

/// What came of greeting an agent.
#[derive(Debug)]
struct Check {
    changed: SystemTime,
    at: Instant,
    said: Result<String, String>,
}

impl Check {
    /// Whether it would be heard again: of the same program, and no fault that may be over.
    fn holds(&self, changed: SystemTime) -> bool {
        self.changed == changed && (self.said.is_ok() || self.at.elapsed() < AGAIN)
    }
}

impl Runtime {
    /// The agents that sessions can be opened with, `command` aside.
    pub async fn agents(&self, who: &Principal) -> Result<Vec<AgentView>, ActError> {
        let permit = self.look(who, ReadStatus {}).await?;
        Ok(self.told_agents(permit))
    }

    fn told_agents(&self, _permit: Permit<ReadStatus>) -> Vec<AgentView> {
        self.known_agents()
    }

    /// The same, each that is installed greeted to hear of its version.
    pub async fn check_agents(self: &Arc<Self>, who: &Principal) -> Result<Vec<AgentView>, ActError> {
        let this = Arc::clone(self);
        let effect = async move |_: Arc<store::Store>, permit: Permit<CheckAgents>| {
            let busy =
                |_| StoreError::Unusable("agents are being looked at already; ask again in a while".into());
            let mut checks = this.checks.0.try_lock().map_err(busy)?;
            let mut all = this.known_agents();
            for view in all.iter_mut().filter(|view| view.is_installed) {
                match this.greeted(&permit, &mut checks, &view.name).await {
                    Ok(version) => view.version = Some(version),
                    Err(why) => view.fault = Some(super::told::clean(&this.redactor, &why)),
                }
            }
            Ok(all)
        };
        self.perform(who, CheckAgents {}, effect).await
    }

    fn known_agents(&self) -> Vec<AgentView> {
        let launcher = self.trees.launcher();
        let view = |agent: &::agents::Agent| {
            let mut hosts: Vec<String> =
                agent.secrets.iter().flat_map(|secret| secret.hosts.clone()).collect();
            hosts.sort();
            hosts.dedup();
            AgentView {
                name: agent.name.clone(),
                title: agent.title.clone(),
                modes: agent.modes.keys().map(ToString::to_string).collect(),
                secrets: agent.secrets.iter().map(|secret| secret.name.clone()).collect(),
                needs: {
                    let needs = agent.secrets.iter().filter(|secret| !secret.spare);
                    needs.map(|secret| secret.name.clone()).collect()
                },
                program: agent.acp.first().cloned().unwrap_or_default(),
                is_installed: agents::is_installed(agent, launcher),
                hosts,
                presets: agent.presets.clone(),
                version: None,
                fault: None,
            }
        };
        self.agents.iter().filter(|agent| !agent.acp.is_empty()).map(view).collect()
    }

    /// What an agent says of its version.
    async fn greeted(
        &self,
        _permit: &Permit<CheckAgents>,
        checks: &mut HashMap<String, Check>,
        name: &str,
    ) -> Result<String, String> {
        let agent = self.agents.named(name).ok_or("it is not known any more")?;
        let launcher = self.trees.launcher();
        let changed = agent.acp.first().and_then(|program| programs::changed(launcher, program));
        let changed = changed.ok_or_else(|| agents::not_installed(agent))?;
        if let Some(known) = checks.get(name).filter(|known| known.holds(changed)) {
            return known.said.clone();
        }
        let said = self.greet(agent).await;
        checks.insert(name.to_owned(), Check { changed, at: Instant::now(), said: said.clone() });
        said
    }

    async fn greet(&self, agent: &::agents::Agent) -> Result<String, String> {
        let launcher = self.trees.launcher();
        let mut kind = Kind::known(agent, None, launcher)?;
        let state = launcher.state_of(&format!("check-{}", agent.name));
        let tree = state.join("empty");
        crate::trees::private(&state).map_err(|error| error.to_string())?;
        crate::trees::private(&tree).map_err(|error| error.to_string())?;
        kind.write_document(&state).await?;
        kind.options.push("--offline".to_owned());
        // Some do not begin without one, and none is lent for this.
        for bound in &kind.secrets {
            kind.options.extend(["--env".to_owned(), format!("{}=none-is-lent-for-this", bound.name)]);
        }
        let (command, options) = (kind.how.command().to_vec(), kind.options);
        let (name, grace) = ("check".to_owned(), self.bounds.grace);
        let wanted = Wanted { name, tree, state, options, command, secrets: Vec::new(), grace };
        let (process, to, from) =
            Agent::start(launcher, &wanted, None).await.map_err(|error| error.to_string())?;
        let (said, mut heard) = acp::connect(to, from, Limits::default());
        let answer = async {
            let greeting = said.initialize("palisade", env!("CARGO_PKG_VERSION"));
            tokio::pin!(greeting);
            loop {
                tokio::select! {
                    answer = &mut greeting => return answer.map_err(|error| error.to_string()),
                    // Whatever else it says is for nobody.
                    update = heard.next() => if update.is_none() {
                        return greeting.await.map_err(|error| error.to_string());
                    }
                }
            }
        };
        let answer = tokio::time::timeout(GREETING, answer).await;
        drop((said, heard));
        let ended = process.end(if answer.is_ok() { PARTING } else { Duration::ZERO }).await;
        let abilities =
            answer.unwrap_or_else(|_| Err(format!("it said nothing for {} s", GREETING.as_secs())));
        let abilities = abilities.map_err(|why| super::turn::with_complaint(&why, &ended))?;
        let version = abilities.version.unwrap_or_else(|| "not told".to_owned());
        Ok(super::told::clean(&self.redactor, &version).chars().take(MOST_VERSION).collect())
    }

    /// An agent that is ready for the caller in this worktree: installed, and with a secret in the vault.
    pub(super) async fn ready_agent(
        &self,
        who: &Principal,
        worktree: WorktreeId,
        mode: Option<&str>,
    ) -> Result<AgentName, String> {
        let now = self.clock.now();
        let kept = self.secrets(who, Whose::Counting(Some(worktree))).await.unwrap_or_default();
        let counts = |one: &&crate::SecretView| {
            let is_over = one.about.as_ref().and_then(|row| row.expires).is_some_and(|end| end <= now);
            one.effective != Some(false) && !is_over
        };
        let names: Vec<String> = kept.iter().filter(counts).map(|one| one.name.to_string()).collect();
        let launcher = self.trees.launcher();
        let found = agents::ready(&self.agents, launcher, mode, |bound| names.contains(&bound.name))?;
        found.name.parse().map_err(|_| format!("`{}` cannot be the name of an agent", found.name))
    }
}
