//! One document: what is known of one agent.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use serde::Deserialize;

use crate::mode::{How, Mode};

/// The longest document.
const MOST_BYTES: usize = 64 * 1024;
/// The longest name.
const MOST_NAME: usize = 32;

/// Why a document is not taken.
#[derive(Debug, thiserror::Error)]
pub enum BadAgent {
    /// Its name cannot be one.
    #[error("`{0}` cannot be the name of an agent; use a-z, 0-9 and `-`, at most {MOST_NAME}")]
    Name(String),
    /// It is not what a document is.
    #[error("agent `{0}`: {1}")]
    Document(String, #[source] Box<toml::de::Error>),
    /// A value makes no sense.
    #[error("agent `{name}`: `{key}`: {why}")]
    Value {
        /// Which agent.
        name: String,
        /// Which key.
        key: &'static str,
        /// Why not.
        why: String,
    },
}

/// What is known of one agent.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agent {
    /// What it is called here: the name of its file.
    #[serde(skip)]
    pub name: String,
    /// What people call it.
    pub title: String,
    /// The program, by its bare name, as people start it.
    pub command: String,
    /// How it is started to speak ACP on standard input and output; nothing where it cannot.
    #[serde(default)]
    pub acp: Vec<String>,
    /// Whether it is served files and terminals inside its sandbox, as an editor would serve them.
    #[serde(default)]
    pub beside: bool,
    /// Sets of rules that it needs.
    #[serde(default)]
    pub presets: Vec<String>,
    /// Variables that it is given inside, unless the person sets them.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Where it keeps its configuration and conversations, below its home.
    #[serde(default)]
    pub config: Vec<String>,
    /// Control files of its own, at the root of the project, in whose place no stub may stand while they do not exist. What it puts
    /// there is found at the end of the run all the same.
    #[serde(default)]
    pub absent: Vec<String>,
    /// Files that its home begins with.
    #[serde(default, rename = "file")]
    pub files: Vec<Seed>,
    /// What each permission mode is for it; one that is not here is refused.
    #[serde(default)]
    pub modes: BTreeMap<Mode, How>,
    /// Variables that hold its secrets.
    #[serde(default, rename = "secret")]
    pub secrets: Vec<Bound>,
    /// What is known of the login that it keeps, for the launcher.
    pub login: Option<toml::Table>,
    /// The whole document, for whoever reads it again elsewhere.
    #[serde(skip)]
    pub text: String,
}

/// A variable that holds a secret, and where it goes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bound {
    /// The variable.
    pub name: String,
    /// The hosts that it goes to, on port 443.
    pub hosts: Vec<String>,
    /// Patterns of paths, if it goes to some only.
    #[serde(default)]
    pub paths: Vec<String>,
    /// What ACP `authenticate` must be told before the agent uses it, if it does not by itself.
    #[serde(default)]
    pub method: Option<String>,
    /// Whether the agent, as this document sets it up, can do nothing with this one alone.
    #[serde(default)]
    pub spare: bool,
}

/// A file that a home begins with.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seed {
    /// Below the home.
    pub path: String,
    /// What is in it.
    pub text: String,
}

impl Agent {
    /// The agent of this name, from its document.
    ///
    /// # Errors
    /// [`BadAgent`].
    pub fn parse(name: &str, text: &str) -> Result<Self, BadAgent> {
        let is_name = !name.is_empty()
            && name.len() <= MOST_NAME
            && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        if !is_name {
            return Err(BadAgent::Name(name.chars().take(40).collect()));
        }
        if text.len() > MOST_BYTES {
            let why = format!("it is longer than {MOST_BYTES} bytes");
            return Err(BadAgent::Value { name: name.into(), key: "title", why });
        }
        let parsed: Result<Self, _> = toml::from_str(text);
        let agent = parsed.map_err(|error| BadAgent::Document(name.to_owned(), Box::new(error)))?;
        let agent = Self { name: name.to_owned(), text: text.to_owned(), ..agent };
        agent.checked().map_err(|(key, why)| BadAgent::Value { name: name.to_owned(), key, why })?;
        Ok(agent)
    }

    /// The agent that a document is based on, if it says so.
    pub(crate) fn base(text: &str) -> Option<String> {
        let table: toml::Table = toml::from_str(text).ok().filter(|_| text.len() <= MOST_BYTES)?;
        table.get("based_on")?.as_str().map(str::to_owned)
    }

    /// This agent with what another document says otherwise: variables and modes by their names, everything else as a whole.
    /// A login is for the hosts of its own agent, and stays there.
    ///
    /// # Errors
    /// [`BadAgent`].
    pub(crate) fn changed(&self, name: &str, text: &str) -> Result<Self, BadAgent> {
        let bad = |error| BadAgent::Document(name.to_owned(), Box::new(error));
        let mut whole: toml::Table = toml::from_str(&self.text).map_err(bad)?;
        let own: toml::Table = toml::from_str(text).map_err(bad)?;
        whole.remove("login");
        for (key, value) in own {
            match (whole.get_mut(&key), value) {
                (_, _) if key == "based_on" => {}
                (Some(toml::Value::Table(before)), toml::Value::Table(now)) => before.extend(now),
                (_, value) => drop(whole.insert(key, value)),
            }
        }
        let text = toml::to_string(&whole).map_err(|error| BadAgent::Value {
            name: name.to_owned(),
            key: "based_on",
            why: error.to_string(),
        })?;
        Self::parse(name, &text)
    }

    /// What a mode is for this agent; none if it has no such mode.
    #[must_use]
    pub fn how(&self, mode: Mode) -> Option<&How> {
        self.modes.get(&mode)
    }

    /// How it is started to speak ACP in this mode; none if it cannot, or has no such mode.
    #[must_use]
    pub fn acp_in(&self, mode: Mode) -> Option<Vec<String>> {
        let how = self.how(mode).filter(|_| !self.acp.is_empty())?;
        Some(self.acp.iter().chain(&how.arguments).cloned().collect())
    }

    /// Whether this is what it is started by, alone or to speak ACP.
    #[must_use]
    pub fn is_started_by(&self, program: &str) -> bool {
        self.command == program || self.acp.first().is_some_and(|first| first == program)
    }

    fn checked(&self) -> Result<(), (&'static str, String)> {
        is_line(&self.title).map_err(|why| ("title", why))?;
        is_program(&self.command).map_err(|why| ("command", why))?;
        if let Some(first) = self.acp.first() {
            is_program(first).map_err(|why| ("acp", why))?;
            self.acp.iter().try_for_each(|word| is_line(word)).map_err(|why| ("acp", why))?;
        }
        if self.beside && self.acp.is_empty() {
            return Err((
                "beside",
                "files and terminals are asked for over ACP; say how it speaks that".into(),
            ));
        }
        self.presets.iter().try_for_each(|preset| is_line(preset)).map_err(|why| ("presets", why))?;
        let own = std::iter::once(&self.environment);
        let variables = own.chain(self.modes.values().map(|how| &how.environment)).flatten();
        for (variable, value) in variables {
            is_variable(variable).map_err(|why| ("environment", why))?;
            if value.contains('\0') {
                return Err(("environment", format!("the value of `{variable}` has a null in it")));
            }
        }
        let ids = self.modes.values().filter_map(|how| how.id.as_ref());
        let words = ids.chain(self.modes.values().flat_map(|how| &how.arguments));
        words.map(String::as_str).try_for_each(is_line).map_err(|why| ("modes", why))?;
        self.config.iter().try_for_each(|path| is_below(path)).map_err(|why| ("config", why))?;
        self.absent.iter().try_for_each(|name| is_name(name)).map_err(|why| ("absent", why))?;
        self.files.iter().try_for_each(|file| is_below(&file.path)).map_err(|why| ("file", why))?;
        for bound in &self.secrets {
            is_variable(&bound.name).map_err(|why| ("secret", why))?;
            if bound.hosts.is_empty() {
                return Err(("secret", format!("`{}` goes to no host", bound.name)));
            }
            if self.secrets.iter().filter(|other| other.name == bound.name).count() > 1 {
                return Err(("secret", format!("`{}` stands twice", bound.name)));
            }
            bound.hosts.iter().try_for_each(|host| is_host(host)).map_err(|why| ("secret", why))?;
            bound.method.as_deref().map_or(Ok(()), is_line).map_err(|why| ("secret", why))?;
        }
        Ok(())
    }
}

fn is_line(text: &str) -> Result<(), String> {
    let fits = !text.is_empty() && text.len() <= 200 && !text.contains(char::is_control);
    if fits { Ok(()) } else { Err(format!("`{}` is no word or line", text.escape_debug())) }
}

/// A bare name: it is looked for where the caller's programs are, and a file of a project may be called anything.
fn is_program(text: &str) -> Result<(), String> {
    is_line(text)?;
    let fits = !text.contains('/') && !text.starts_with(['-', '.']) && !text.contains(char::is_whitespace);
    if fits { Ok(()) } else { Err(format!("`{text}` is not the bare name of a program")) }
}

fn is_variable(text: &str) -> Result<(), String> {
    let fits = text.len() <= 128
        && !text.starts_with(|first: char| first.is_ascii_digit())
        && !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if fits { Ok(()) } else { Err(format!("`{}` is not the name of a variable", text.escape_debug())) }
}

fn is_below(text: &str) -> Result<(), String> {
    is_line(text)?;
    let fits = Path::new(text).components().all(|part| matches!(part, Component::Normal(_)));
    if fits { Ok(()) } else { Err(format!("`{text}` is not a path below the home")) }
}

fn is_name(text: &str) -> Result<(), String> {
    is_below(text)?;
    if text.contains('/') { Err(format!("`{text}` is not one name")) } else { Ok(()) }
}

/// One host: a secret goes to no pattern.
fn is_host(text: &str) -> Result<(), String> {
    let of_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    let fits = !text.is_empty() && text.len() <= 253 && text.bytes().all(of_name);
    if fits { Ok(()) } else { Err(format!("`{}` is not one host", text.escape_debug())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: &str = "title = \"X\"\ncommand = \"x\"\n";

    #[test]
    fn the_least_says_nothing_that_was_not_written() {
        let agent = Agent::parse("x", LEAST).unwrap();
        assert!(agent.acp.is_empty() && agent.presets.is_empty() && agent.secrets.is_empty());
        assert!(Mode::ALL.into_iter().all(|mode| agent.how(mode).is_none()));
        assert!(agent.is_started_by("x") && !agent.is_started_by("./x"));
    }

    #[test]
    fn what_is_not_known_or_makes_no_sense_is_refused_and_named() {
        for (more, told) in [
            ("colour = \"red\"\n", "colour"),
            ("acp = [\"/bin/sh\"]\n", "`/bin/sh` is not the bare name"),
            ("acp = [\"-x\"]\n", "bare name"),
            ("beside = true\n", "say how it speaks that"),
            ("config = [\"../x\"]\n", "below the home"),
            ("config = [\"/etc\"]\n", "below the home"),
            ("[environment]\n\"A=B\" = \"1\"\n", "name of a variable"),
            ("[modes]\nyolo = { requests = \"allow\" }\n", "yolo"),
            ("[modes]\nplan = { requests = \"always\" }\n", "always"),
            ("[modes]\nplan = { id = \"plan\" }\n", "requests"),
            ("[[secret]]\nname = \"K\"\nhosts = []\n", "no host"),
            (
                "[[secret]]\nname = \"K\"\nhosts = [\"a.b\"]\n[[secret]]\nname = \"K\"\nhosts = [\"c.d\"]\n",
                "stands twice",
            ),
            ("[[secret]]\nname = \"K\"\nhosts = [\"*.x.y\"]\n", "not one host"),
            ("[[file]]\npath = \"a/../../b\"\ntext = \"\"\n", "below the home"),
        ] {
            let error = Agent::parse("x", &format!("{LEAST}{more}")).unwrap_err();
            let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            assert!(format!("{error} {source}").contains(told), "{more}: {error} {source}");
        }
        for name in ["", "X", "a b", "../x", &"x".repeat(33)] {
            assert!(matches!(Agent::parse(name, LEAST), Err(BadAgent::Name(_))), "{name}");
        }
    }
}
