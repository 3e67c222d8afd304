//! Turns the command line's options into a [`Draft`]: the person's last word on a profile.
//!
//! Not here: making a path that was typed absolute; the command does that, since it knows where it stands.

use super::draft::{Draft, Network, Worktree};
use super::environment;
use super::names::{BadText, NamePattern, Variable};
use super::place::Place;

/// The options, as typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// `--ro PATH`
    pub ro: Vec<String>,
    /// `--rw PATH`
    pub rw: Vec<String>,
    /// `--env NAME`, `--env 'LC_*'` or `--env NAME=value`
    pub env: Vec<String>,
    /// `--inherit-env`
    pub inherit: bool,
    /// `--show NAME`
    pub show: Vec<String>,
    /// `--limit memory=2g,pids=512`
    pub limit: Vec<String>,
    /// `--overlay`
    pub overlay: bool,
    /// `--offline`
    pub offline: bool,
}

/// Why an option is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlagError {
    /// A value that does not do.
    #[error("`{0}`: {1}")]
    Bad(&'static str, BadText),
    /// No such limit.
    #[error("`--limit`: there is no limit `{0}`; `palisade profile keys` lists all")]
    NoLimit(String),
    /// Two options that contradict each other.
    #[error("`{0}` is given to `{1}` and to `{2}`; keep one")]
    Conflict(String, &'static str, &'static str),
}

impl Flags {
    /// What the options say.
    pub fn parse(&self) -> Result<Draft, FlagError> {
        let places = |flag, texts: &[String]| -> Result<Option<Vec<Place>>, FlagError> {
            let all: Result<Vec<_>, _> = texts.iter().map(|text| Place::parse(text)).collect();
            let all = all.map_err(|why| FlagError::Bad(flag, why))?;
            Ok((!all.is_empty()).then_some(all))
        };
        let mut draft = Draft {
            read: places("--ro", &self.ro)?,
            write: places("--rw", &self.rw)?,
            worktree: self.overlay.then_some(Worktree::Overlay),
            inherit: self.inherit.then_some(true),
            network: self.offline.then_some(Network::None),
            ..Draft::default()
        };
        if let Some(both) =
            draft.write.iter().flatten().find(|w| draft.read.iter().flatten().any(|r| r == *w))
        {
            return Err(FlagError::Conflict(both.to_string(), "--ro", "--rw"));
        }
        let show: Result<Vec<_>, _> = self.show.iter().map(|text| NamePattern::parse(text)).collect();
        draft.show = show.map_err(|why| FlagError::Bad("--show", why))?;
        self.env(&mut draft)?;
        self.limits(&mut draft)?;
        Ok(draft)
    }

    fn env(&self, draft: &mut Draft) -> Result<(), FlagError> {
        let bad = |why| FlagError::Bad("--env", why);
        let mut passed = Vec::new();
        for text in &self.env {
            match text.split_once('=') {
                None => passed.push(Variable::parse(text).map_err(bad)?),
                Some((name, value)) => {
                    let name = Variable::parse(name).map_err(bad)?.to_string();
                    if name.ends_with('*') {
                        return Err(bad(BadText::expected("`NAME=value`", &name)));
                    }
                    environment::settable(&name).map_err(bad)?;
                    let value = environment::value(value).map_err(bad)?;
                    if draft.set.insert(name.clone(), value).is_some() {
                        return Err(FlagError::Conflict(name, "--env", "--env"));
                    }
                }
            }
        }
        draft.environment = (!passed.is_empty()).then_some(passed);
        Ok(())
    }

    fn limits(&self, draft: &mut Draft) -> Result<(), FlagError> {
        let mut seen = Vec::new();
        for part in self.limit.iter().flat_map(|list| list.split(',')) {
            let bad = |why| FlagError::Bad("--limit", why);
            let pair = part.split_once('=');
            let (name, value) = pair.ok_or_else(|| bad(BadText::expected("`memory=2g,pids=512`", part)))?;
            if seen.contains(&name) {
                return Err(FlagError::Conflict(name.to_owned(), "--limit", "--limit"));
            }
            seen.push(name);
            if !draft.limits.put(name, value).map_err(bad)? {
                return Err(FlagError::NoLimit(super::names::shown(name)));
            }
        }
        Ok(())
    }
}
