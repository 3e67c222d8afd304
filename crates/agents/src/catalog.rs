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
        let agent = Agent::parse(name, text)?;
        let programs = [Some(&agent.command), agent.acp.first()];
        let is_same = |other: &&Agent| {
            other.name == agent.name || programs.iter().flatten().any(|program| other.is_started_by(program))
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
