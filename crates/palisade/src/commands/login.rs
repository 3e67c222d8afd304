//! Logins of subscriptions: lent to a run like secrets, and renewed outside while it runs.
//!
//! Flow: the file that an agent keeps in the person's own home -> a file of the same shape in the sandbox's, with words in the
//! place of tokens -> the proxy puts the token in -> when that ends, [`renew`] gets the next one and keeps it where the person's
//! own program finds it. Invariants: what renews a token is known to this process only; a login that was made inside is left
//! alone; the file inside is written beneath the sandbox's home, through no link.

mod kept;
mod renew;
mod shape;

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::Path;

use agents::Agent;
use egress::control::Loan;
use egress::login::Login;
use rules::{Access, Methods, Rule, Rules};
use sandbox::Caller;
use serde::Deserialize;
use serde_json::Value;

use self::kept::Kept;
pub(super) use self::renew::{Renewal, Renewed};
use self::shape::{Shape, Tokens, Words};
use crate::failure::Failure;
use crate::output;

/// The most that such a file is long.
const MOST_BYTES: u64 = 256 * 1024;
/// Before its end another token is wanted.
const EARLY: u64 = 5 * 60 * 1000;

/// What is known of the login of an agent.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Known {
    /// What it is called.
    name: String,
    shape: Shape,
    /// The variable that says where the agent keeps its things.
    variable: String,
    /// Where it keeps them otherwise, below the home.
    folder: String,
    /// The file in there.
    file: String,
    /// Where its token goes.
    hosts: Vec<String>,
    /// Where it is renewed.
    host: String,
    path: String,
    /// As whom.
    client: String,
    /// What is typed after the agent's name to log in.
    commands: Vec<String>,
    /// Where a browser comes back to.
    #[serde(default)]
    callbacks: Vec<u16>,
    /// What else is asked for at the same host to log in.
    #[serde(default)]
    more: Vec<String>,
    /// What a person types to log in again.
    again: String,
}

/// A login that is lent.
pub(super) struct Lent {
    pub(super) loans: Vec<Loan>,
    pub(super) login: Login,
    pub(super) renewal: Renewal,
}

impl Known {
    /// What a document says of it.
    pub(super) fn of(agent: &Agent, table: &toml::Table) -> Result<Self, Failure> {
        let wrong = |error: toml::de::Error| {
            Failure::Sandbox(format!("agent `{}`: `login`: {error}", agent.name), 125)
        };
        table.clone().try_into().map_err(wrong)
    }

    /// Whether this command line is for logging in.
    pub(super) fn is_asked_for(&self, command: &[OsString]) -> bool {
        let words: Vec<&str> = command.iter().skip(1).map_while(|word| word.to_str()).collect();
        let is_it = |typed: &String| {
            let typed: Vec<&str> = typed.split(' ').collect();
            let after = words.get(typed.len());
            words.starts_with(&typed) && after.is_none_or(|word| word.starts_with('-'))
        };
        self.commands.iter().any(is_it)
    }

    /// Where its token goes.
    #[cfg(test)]
    pub(super) fn hosts(&self) -> &Vec<String> {
        &self.hosts
    }

    /// The ports that a browser comes back to, as they are published.
    pub(super) fn callbacks(&self) -> impl Iterator<Item = String> {
        self.callbacks.iter().map(u16::to_string)
    }

    /// What may be asked for where logins are made and renewed.
    pub(super) fn rule(&self, logs_in: bool) -> Result<Rule, Failure> {
        let more = self.more.iter().filter(|_| logs_in);
        let rule = Rules::allowing(&self.host).map_err(|fault| self.failed(&fault))?;
        Ok(Rule {
            access: Some(Access::Inspect),
            methods: Some(Methods::These(vec!["POST".into()])),
            paths: Some([&self.path].into_iter().chain(more).cloned().collect()),
            label: Some(self.name.clone()),
            ..rule
        })
    }

    /// Before somebody logs in inside, or when nothing is lent: words of an earlier run are no login.
    pub(super) fn clear(&self, caller: &Caller) -> Result<(), Failure> {
        let Some(inside) = Inside::open(self, &caller.private_home, false)? else { return Ok(()) };
        match inside.read(self)? {
            Some(text) if self.shape.words(&text).is_some() => inside.remove(self),
            Some(_) | None => Ok(()),
        }
    }

    /// Lends the login of the person's own home, if there is one.
    pub(super) fn lend(&self, caller: &Caller) -> Result<Option<Lent>, Failure> {
        let kept = Kept::of(self, caller);
        if kept.is_beneath(&caller.worktree) {
            // What is written back there could be led elsewhere.
            output::tell(&format!(
                "the {} is not lent: it lies in the project, which the command sees",
                self.name
            ));
            self.clear(caller)?;
            return Ok(None);
        }
        let found = match kept.document() {
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                output::tell(&format!("the {} is not lent: {error}", self.name));
                None
            }
            other => other.map_err(|error| self.failed(&error))?,
        };
        let Some((outside, tokens)) = found.and_then(|outside| {
            let tokens = self.shape.tokens(&outside)?;
            Some((outside, tokens))
        }) else {
            self.clear(caller)?;
            return Ok(None);
        };
        let Some(inside) = Inside::open(self, &caller.private_home, true)? else { return Ok(None) };
        let found = inside.read(self)?;
        let words = found.as_deref().and_then(|text| self.shape.words(text));
        if words.is_none() && found.as_deref().is_some_and(|text| self.shape.is_login(text)) {
            output::tell(&format!(
                "the {} that was made inside this project's sandbox is used, and lies there; log out there to have the one of your own home lent instead",
                self.name
            ));
            return Ok(None);
        }
        let words = match words.filter(|words| self.shape.suits(words, &outside)) {
            Some(words) => words,
            None => self.shape.new_words(&outside).map_err(|error| self.failed(&error))?,
        };
        inside.write(self, self.shape.inside(&outside, &words).as_bytes())?;
        Ok(Some(self.lent(&outside, tokens, &words, kept)))
    }

    fn lent(&self, outside: &Value, tokens: Tokens, words: &Words, kept: Kept) -> Lent {
        output::learn(&tokens.access);
        output::learn(&tokens.refresh);
        let loan = |name: String, word: &str, value: &str| Loan {
            name,
            word: word.to_owned(),
            value: egress::control::Value::new(value.to_owned()),
            hosts: self.hosts.iter().map(|host| (host.clone(), 443)).collect(),
            ..Loan::default()
        };
        let login = Login {
            name: self.name.clone(),
            turn: 1,
            renew_at: tokens.ends_at.map(|at| at.saturating_sub(EARLY)),
            ends_at: tokens.ends_at,
            host: self.host.clone(),
            path: self.path.clone(),
            word: words.refresh.clone(),
            answer: self.shape.answer(outside, words),
        };
        let loans = vec![
            loan(self.name.clone(), &words.access, &tokens.access),
            // It stands for nothing that the proxy has, and goes nowhere: whoever sends it is found. A model reads stars.
            loan(format!("{}, what renews it", self.name), &words.refresh, ""),
        ];
        Lent { loans, login, renewal: Renewal::new(self.name.clone(), kept, tokens) }
    }

    fn failed(&self, error: &dyn std::fmt::Display) -> Failure {
        Failure::Sandbox(format!("the {} cannot be lent: {error}", self.name), 125)
    }
}

/// The agent's folder in the sandbox's home. Whoever was in the sandbox before may have left anything there.
struct Inside(files::Root);

impl Inside {
    /// Opens it, and makes it before if `makes`.
    fn open(known: &Known, home: &Path, makes: bool) -> Result<Option<Self>, Failure> {
        let root = files::Root::open(home).map_err(Failure::file(home))?;
        let folder = Path::new(&known.folder);
        if makes {
            match rustix::fs::mkdirat(&root, folder, rustix::fs::Mode::RWXU) {
                Ok(()) => {
                    let made = root.folder(folder).map_err(|error| known.failed(&error))?;
                    given(made.as_fd(), home).map_err(|error| known.failed(&error))?;
                }
                Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(known.failed(&error)),
            }
        }
        match root.folder(folder) {
            Ok(folder) => Ok(Some(Self(folder))),
            Err(files::FileError::Missing) => Ok(None),
            Err(error) => Err(known.failed(&error)),
        }
    }

    fn read(&self, known: &Known) -> Result<Option<Vec<u8>>, Failure> {
        match self.0.read(Path::new(&known.file), MOST_BYTES, files::Rule::Any) {
            Ok(text) => Ok(Some(text)),
            Err(files::FileError::Missing) => Ok(None),
            Err(error) => Err(known.failed(&error)),
        }
    }

    fn write(&self, known: &Known, text: &[u8]) -> Result<(), Failure> {
        let path = Path::new(&known.file);
        self.0.write(path, text).map_err(|error| known.failed(&error))?;
        if rustix::process::geteuid().is_root() {
            let file = self.0.file(path, files::Rule::Any).map_err(|error| known.failed(&error))?;
            let found = rustix::fs::fstat(&file).map_err(|error| known.failed(&error))?;
            // The one that was just written, and no second name of something else.
            if found.st_uid != 0 || found.st_nlink != 1 {
                return Err(known.failed(&"somebody changed it at the same time"));
            }
            let folder = rustix::fs::fstat(&self.0).map_err(|error| known.failed(&error))?;
            std::os::unix::fs::fchown(&file, Some(folder.st_uid), Some(folder.st_gid))
                .map_err(|error| known.failed(&error))?;
        }
        Ok(())
    }

    fn remove(&self, known: &Known) -> Result<(), Failure> {
        self.0.remove(Path::new(&known.file)).map_err(|error| known.failed(&error))
    }
}

/// Gives something to the owner of the sandbox's home, if root made it.
pub(super) fn given(fd: std::os::fd::BorrowedFd<'_>, home: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let owner = std::fs::metadata(home)?;
    std::os::unix::fs::fchown(fd, Some(owner.uid()), Some(owner.gid()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_command_to_log_in_is_one_and_publishes_where_the_browser_comes_back_to() {
        let known = |name: &str| {
            let all = agents::Catalog::shipped().unwrap();
            let of = |agent: &Agent| Some(Known::of(agent, agent.login.as_ref()?).unwrap());
            all.iter()
                .filter_map(of)
                .collect::<Vec<_>>()
                .into_iter()
                .find(|login| login.name.ends_with(name))
                .unwrap()
        };
        let asks = |name: &str, line: &str| {
            let line: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            known(name).is_asked_for(&line)
        };
        for line in ["codex login", "codex login --device-auth"] {
            assert!(asks("Codex", line), "{line}");
        }
        for line in ["codex", "codex login status", "codex exec login", "codex -c a=b login"] {
            assert!(!asks("Codex", line), "{line}");
        }
        for line in ["claude /login", "claude auth login", "claude setup-token"] {
            assert!(asks("Claude Code", line), "{line}");
        }
        assert!(!asks("Claude Code", "claude auth status") && !asks("Claude Code", "claude -p /login"));
        assert_eq!(known("Codex").callbacks().collect::<Vec<_>>(), ["1455"]);
        for login in ["Codex", "Claude Code"].map(known) {
            let (usual, more) = (login.rule(false).unwrap(), login.rule(true).unwrap());
            assert_eq!(usual.paths, Some(vec![login.path.clone()]));
            assert_eq!(more.paths.unwrap().len(), 1 + login.more.len());
            rules::Rules::compile(vec![usual]).unwrap();
        }
    }
}
