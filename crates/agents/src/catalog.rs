//! Every agent that is known: those that are shipped, and those that people added.

use crate::document::{Agent, BadAgent};

/// What is shipped: a name, and its document.
const SHIPPED: [(&str, &str); 5] = [
    ("claude", include_str!("../../../agents/claude.toml")),
    ("codex", include_str!("../../../agents/codex.toml")),
    ("gemini", include_str!("../../../agents/gemini.toml")),
    ("opencode", include_str!("../../../agents/opencode.toml")),
    ("palisade", include_str!("../../../agents/palisade.toml")),
];

/// Why a document of somebody's own is not taken.
#[derive(Debug, thiserror::Error)]
pub enum Taken {
    /// The document itself.
    #[error(transparent)]
    Bad(#[from] BadAgent),
    /// Another has its name, or is started by the same program.
    #[error("agent `{0}`: `{1}` has this name or command already; choose others")]
    Name(String, String),
    /// What it says that it is based on is not shipped.
    #[error("agent `{0}`: `based_on`: there is no shipped agent `{1}`")]
    Base(String, String),
    /// A login is read and written by the launcher, which knows the shipped ones.
    #[error("agent `{0}`: `login`: only shipped agents have one; use a secret")]
    Login(String),
}

/// Every agent that is known.
#[derive(Clone, Debug, Default)]
pub struct Catalog(Vec<Agent>);

impl Catalog {
    /// The agents that are shipped.
    ///
    /// # Errors
    /// [`BadAgent`], which a test keeps from happening.
    pub fn shipped() -> Result<Self, BadAgent> {
        SHIPPED.into_iter().map(|(name, text)| Agent::parse(name, text)).collect::<Result<_, _>>().map(Self)
    }

    /// Also this one, of somebody's own.
    ///
    /// # Errors
    /// [`Taken`].
    pub fn add(&mut self, name: &str, text: &str) -> Result<(), Taken> {
        let agent = match Agent::base(text) {
            Some(base) => {
                let shipped = self.named(&base).filter(|_| SHIPPED.iter().any(|(name, _)| *name == base));
                let shipped = shipped.ok_or_else(|| Taken::Base(name.to_owned(), base.clone()))?;
                shipped.changed(name, text)?
            }
            None => Agent::parse(name, text)?,
        };
        let is_based = Agent::base(text).is_some();
        let programs = [Some(&agent.command), agent.acp.first()];
        // One that is based on another has its programs; by those alone the other is meant.
        let is_same = |other: &&Agent| {
            let same = programs.iter().flatten().any(|program| other.is_started_by(program));
            other.name == agent.name || (same && !is_based)
        };
        if let Some(other) = self.0.iter().find(is_same) {
            return Err(Taken::Name(agent.name.clone(), other.name.clone()));
        }
        if agent.login.is_some() {
            return Err(Taken::Login(agent.name));
        }
        self.0.push(agent);
        Ok(())
    }

    /// With this one in the place of any that has its name.
    #[must_use]
    pub fn with(mut self, agent: Agent) -> Self {
        self.0.retain(|other| other.name != agent.name);
        self.0.push(agent);
        self
    }

    /// Every agent.
    pub fn iter(&self) -> impl Iterator<Item = &Agent> {
        self.0.iter()
    }

    /// The one of this name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Agent> {
        self.iter().find(|agent| agent.name == name)
    }

    /// The one that is started by this program.
    #[must_use]
    pub fn started_by(&self, program: &str) -> Option<&Agent> {
        self.iter().find(|agent| agent.is_started_by(program))
    }

    /// Whether a shipped document can be about this program: most are in none, and need none read.
    #[must_use]
    pub fn may_ship(program: &str) -> bool {
        let quoted = format!("\"{program}\"");
        let names = |line: &&str| line.starts_with("command") || line.starts_with("acp");
        let mut lines = SHIPPED.iter().flat_map(|(_, text)| text.lines().filter(names));
        lines.any(|line| line.contains(&quoted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mode::Mode;

    #[test]
    fn ses_14_every_shipped_agent_speaks_acp_and_has_its_own_names() {
        let all = Catalog::shipped().unwrap();
        assert_eq!(all.iter().count(), SHIPPED.len());
        for agent in all.iter() {
            assert!(!agent.acp.is_empty(), "{}", agent.name);
            assert!(Catalog::may_ship(&agent.command) && Catalog::may_ship(&agent.acp[0]));
            for program in [&agent.command, &agent.acp[0]] {
                let found = all.started_by(program).unwrap();
                assert_eq!(found.name, agent.name, "{program}");
            }
        }
        assert!(!Catalog::may_ship("sh") && !Catalog::may_ship("git"));
    }

    #[test]
    fn ses_16_every_shipped_agent_can_be_asked_for_care_and_says_what_it_cannot() {
        let all = Catalog::shipped().unwrap();
        for agent in all.iter() {
            // What people get without a word asks.
            let how = agent.how(Mode::Default).unwrap_or_else(|| panic!("{}", agent.name));
            assert_eq!(how.requests, crate::Requests::Ask, "{}", agent.name);
            for mode in [Mode::Plan, Mode::Ask] {
                let asks = agent.how(mode).is_none_or(|how| how.requests != crate::Requests::Allow);
                assert!(asks, "{} {mode}", agent.name);
            }
        }
    }

    /// SES-14: whoever has a gateway for models says so in a file of their own.
    #[test]
    fn ses_14_a_file_can_be_based_on_a_shipped_agent_and_say_where_its_model_is() {
        let mut all = Catalog::shipped().unwrap();
        let own = "based_on = \"claude\"\ntitle = \"Claude Code here\"\npresets = []\n[environment]\nANTHROPIC_BASE_URL = \"https://models.test\"\n\
                   [[secret]]\nname = \"ANTHROPIC_API_KEY\"\nhosts = [\"models.test\"]\n";
        all.add("claude-here", own).unwrap();
        let (shipped, here) = (all.named("claude").unwrap(), all.named("claude-here").unwrap());
        assert_eq!((&here.acp, &here.modes), (&shipped.acp, &shipped.modes));
        assert_eq!(here.environment.len(), shipped.environment.len() + 1);
        assert!(here.presets.is_empty() && here.login.is_none() && shipped.login.is_some());
        assert_eq!(here.secrets.len(), 1);
        assert_eq!(here.secrets[0].hosts, ["models.test"]);
        // What was read can be read again elsewhere, and the program alone means the shipped one.
        assert_eq!(Agent::parse("claude-here", &here.text).unwrap().secrets, here.secrets);
        assert_eq!(all.started_by("claude").unwrap().name, "claude");
        for (name, base) in [("claude", "claude"), ("x", "claude-here"), ("x", "nobody")] {
            let refused = all.add(name, &format!("based_on = \"{base}\"\n")).unwrap_err();
            assert!(matches!(refused, Taken::Base(..) | Taken::Name(..)), "{refused}");
        }
    }

    #[test]
    fn a_file_of_ones_own_adds_and_never_replaces() {
        let mut all = Catalog::shipped().unwrap();
        let own = "title = \"Mine\"\ncommand = \"mine\"\nacp = [\"mine-acp\", \"--stdio\"]\n";
        all.add("mine", own).unwrap();
        assert_eq!(all.started_by("mine-acp").unwrap().name, "mine");
        for (name, text) in [
            ("claude", own),
            ("other", own),
            ("other", "title = \"X\"\ncommand = \"codex\"\n"),
            ("other", "title = \"X\"\ncommand = \"x\"\nacp = [\"claude-agent-acp\"]\n"),
        ] {
            let refused = all.add(name, text).unwrap_err();
            assert!(matches!(refused, Taken::Name(..)), "{refused}");
        }
        let refused =
            all.add("other", "title = \"X\"\ncommand = \"x\"\n[login]\nname = \"x\"\n").unwrap_err();
        assert!(matches!(refused, Taken::Login(_)), "{refused}");
        assert_eq!(all.iter().count(), SHIPPED.len() + 1);
    }
}
