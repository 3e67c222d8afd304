//! Turns layers into one [`Profile`] for this machine.
//!
//! Order: built-in, the person's own profiles on top of it, the project's file, the command line. The person's
//! layers may widen; the project's only narrows, and what it asks for is applied after consent or left pending.
//! Invariant: without consent no project makes any part of a profile wider (`sbx_13` tests each part).

use std::path::{Path, PathBuf};

use super::builtin;
use super::control::{self, Class};
use super::document::{self, DocumentError};
use super::draft::{Draft, Layer, Network, Worktree};
use super::environment::{LONGEST, MOST_SET};
use super::limits::{Host, Limits};
use super::names::{BadText, Hidden, Name, Variable};
use super::place::{Entry, Place, Protected, Roots};
use super::project::{Ask, ContentHash, Project};
use super::reach::Reach;
use super::{Profile, Resolved};

/// How many own profiles may stand on each other.
const MOST_BASES: usize = 8;

/// The bytes of a person's own profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// For messages.
    pub file: PathBuf,
    /// What is in it.
    pub bytes: Vec<u8>,
}

/// What a profile is made of.
#[derive(Clone, Copy)]
pub struct Layers<'a> {
    /// The profile's name.
    pub name: &'a str,
    /// Reads a person's own profile, `<config>/profiles/NAME.toml`; `None` if there is none.
    pub own: &'a dyn Fn(&Name) -> std::io::Result<Option<Document>>,
    /// The project's file, if it has one.
    pub project: Option<&'a Project>,
    /// Whether the person consented to a project's file with this content.
    pub consent: &'a dyn Fn(&ContentHash) -> bool,
    /// The command line.
    pub flags: &'a Draft,
    /// What shares are of.
    pub host: &'a Host,
    /// What paths are from.
    pub roots: &'a Roots,
}

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// Not a name.
    #[error("profile: {0}")]
    Name(#[from] BadText),
    /// No such profile.
    #[error("there is no profile `{0}`; `palisade profile list` shows all")]
    Missing(Name),
    /// A base that is not there.
    #[error("{0}:{1}: there is no profile `{2}` to start from; `palisade profile list` shows all")]
    NoBase(PathBuf, usize, Name),
    /// A profile of one's own that starts from nothing.
    #[error("{0}: `base` is missing; start from `strict`, `dev`, `read-only` or a profile of your own")]
    Baseless(PathBuf),
    /// The name in the document is another.
    #[error("{0}: `name` is `{1}`, the file is for `{2}`; make both the same")]
    OtherName(PathBuf, Name, Name),
    /// A profile that starts from itself.
    #[error("{0}:{1}: `{2}` starts from itself, or from more than {MOST_BASES} others; change `base`")]
    Circle(PathBuf, usize, Name),
    /// A built-in profile that does not parse: this program is not as it was built.
    #[error("a built-in profile is damaged: {0}; install Palisade again")]
    Damaged(BadText),
    /// A document that is wrong.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// A document that cannot be read.
    #[error("profile `{0}` cannot be read")]
    Unreadable(Name, #[source] std::io::Error),
    /// One path in two lists, written in two ways.
    #[error("`{0}` is in `read` and in `write` of the same layer, written in two ways; keep one")]
    Twice(PathBuf),
    /// A path that the same profile protects.
    #[error("`{0}` cannot be written: it is protected, or in `.git`; name it in `unprotect`, or take it out")]
    Guarded(PathBuf),
    /// Too many variables.
    #[error("{0} variables have a value of their own; at most {MOST_SET} can")]
    ManySet(usize),
    /// A variable with too long a value, which is not repeated.
    #[error("the value of `{0}` has more than {1} characters; `limits.variable` can be up to {LONGEST}")]
    LongSet(String, u64),
    /// Roots that are none.
    #[error("`{0}` must be an absolute path without `.` or `..`")]
    Root(PathBuf),
}

impl Profile {
    /// What the layers come to, and what is left to ask the person.
    pub fn resolve(layers: &Layers<'_>) -> Result<Resolved, ResolveError> {
        for root in [&layers.roots.home, &layers.roots.worktree] {
            if !super::place::is_rooted(root) {
                return Err(ResolveError::Root(root.clone()));
            }
        }
        let name = Name::parse(layers.name)?;
        let mut profile = Self::floor(name.clone(), layers.roots);
        for draft in bases(&name, layers.own)?.iter().rev() {
            profile.change(draft, layers)?;
        }
        let mut pending = Vec::new();
        if let Some(project) = layers.project {
            profile.narrow(&project.narrows, layers);
            if project.asks.is_empty() || (layers.consent)(&project.hash) {
                profile.widen(&project.wants, layers);
            } else {
                pending = project.asks.clone();
            }
        }
        profile.change(layers.flags, layers)?;
        if profile.set.len() > MOST_SET {
            return Err(ResolveError::ManySet(profile.set.len()));
        }
        let most = profile.limits.variable;
        let is_long = |value: &str| u64::try_from(value.chars().count()).unwrap_or(u64::MAX) > most;
        if let Some((name, _)) = profile.set.iter().find(|(_, value)| is_long(value)) {
            return Err(ResolveError::LongSet(name.clone(), most));
        }
        let reach = profile.reach(layers.roots).tidy(layers.roots);
        profile.put(&reach, layers.roots);
        Ok(Resolved { profile, pending })
    }

    /// What guards a worktree where nothing else is known of a run than the control files that it gives up.
    ///
    /// # Errors
    /// As [`Profile::resolve`].
    pub fn guarding(roots: &Roots, unprotect: &[String]) -> Result<Self, ResolveError> {
        let layers = Layers {
            name: "dev",
            own: &|_| Ok(None),
            project: None,
            consent: &|_| false,
            flags: &Draft::default(),
            host: &Host { memory: 1 << 30, cores: 1 },
            roots,
        };
        let mut profile = Self::resolve(&layers)?.profile;
        profile.unprotect = unprotect.iter().filter_map(|text| Protected::parse(text).ok()).collect();
        Ok(profile)
    }

    /// The least there is: what built-in profiles add to.
    fn floor(name: Name, roots: &Roots) -> Self {
        let at_home = roots.worktree == roots.home;
        Self {
            name,
            worktree: Worktree::Read,
            read: Vec::new(),
            write: Vec::new(),
            hidden: Hidden::default(),
            protect: control::protected(at_home).collect(),
            unprotect: Vec::new(),
            environment: Vec::new(),
            inherit: false,
            set: Default::default(),
            toolchains: false,
            trace: false,
            network: Network::None,
            rules: Vec::new(),
            presets: Default::default(),
            limits: Limits::LEAST,
            require: Layer::ALWAYS.into_iter().collect(),
            at_home,
        }
    }

    /// A person's layer: what it says replaces, and what it lists is added.
    fn change(&mut self, draft: &Draft, layers: &Layers<'_>) -> Result<(), ResolveError> {
        let mut reach = self.reach(layers.roots);
        if let Some(worktree) = draft.worktree {
            reach.set(Entry::whole(layers.roots.worktree.clone()), worktree);
        }
        let (read, write) = (placed(&draft.read, layers.roots), placed(&draft.write, layers.roots));
        if let Some(twice) = write.iter().find(|w| read.iter().any(|r| r.path == w.path)) {
            return Err(ResolveError::Twice(twice.path.clone()));
        }
        self.add(draft);
        if let Some(guarded) = write.iter().find(|entry| self.guards(&entry.path, layers.roots)) {
            return Err(ResolveError::Guarded(guarded.path.clone()));
        }
        let own = layers.roots.worktree.as_path();
        for (list, may) in [(read, Worktree::Read), (write, Worktree::Write)] {
            // The worktree by its whole path is still set by `worktree`.
            list.into_iter().filter(|entry| entry.path != own).for_each(|entry| reach.set(entry, may));
        }
        self.put(&reach, layers.roots);
        self.inherit = draft.inherit.unwrap_or(self.inherit);
        self.toolchains = draft.toolchains.unwrap_or(self.toolchains);
        self.trace = draft.trace.unwrap_or(self.trace);
        self.network = draft.network.unwrap_or(self.network);
        self.limits = draft.limits.on(layers.host, &self.limits);
        for (name, value) in &draft.set {
            self.set.insert(name.clone(), value.clone());
        }
        Ok(())
    }

    /// A project's layer: the meet of what holds and what it says.
    fn narrow(&mut self, draft: &Draft, layers: &Layers<'_>) {
        let roots = layers.roots;
        let (read, write) = (placed(&draft.read, roots), placed(&draft.write, roots));
        let worktree = draft.worktree.unwrap_or(Worktree::Write);
        let mut said = match (&draft.read, &draft.write) {
            // What is listed to be read may be written as far as it could before.
            (Some(_), None) => Reach::new(roots, worktree, &[], &read),
            _ => Reach::new(roots, worktree, &read, &write),
        };
        if draft.read.is_none() {
            let rest = if draft.write.is_none() { Worktree::Write } else { Worktree::Read };
            said.set(Entry::whole(PathBuf::from("/")), rest);
        }
        // Each rule becomes a mount, and a mount of its own would lift what is protected or hidden there out of it.
        let before = self.reach(roots);
        let mut met = before.meet(&said);
        met.retain(|path| before.has(path) || !(self.guards(path, roots) || self.hides(path)));
        self.put(&met, roots);
        self.toolchains &= draft.toolchains.unwrap_or(true);
        self.trace &= draft.trace.unwrap_or(true);
        self.network = self.network.min(draft.network.unwrap_or(self.network));
        self.limits = self.limits.meet(&draft.limits.on(layers.host, &self.limits));
        if let Some(only) = &draft.environment {
            let met =
                self.environment.iter().flat_map(|mine| only.iter().filter_map(|other| mine.meet(other)));
            // Of everything, what is listed is left.
            let all = only.iter().filter(|other| self.inherit && other.is_among_all()).cloned();
            self.environment = widest(met.chain(all).collect());
            self.inherit = false;
        }
        self.inherit &= draft.inherit.unwrap_or(true);
        // The rest of these lists is empty in a project's file, or narrows.
        self.add(&Draft { environment: None, show: Vec::new(), unprotect: Vec::new(), ..draft.clone() });
    }

    /// What a project asked for and a person consented to: never takes anything away.
    fn widen(&mut self, draft: &Draft, layers: &Layers<'_>) {
        self.add(draft);
        let mut reach = self.reach(layers.roots);
        for (list, may) in [(&draft.read, Worktree::Read), (&draft.write, Worktree::Write)] {
            let given = |entry: &Entry| !self.guards(&entry.path, layers.roots);
            placed(list, layers.roots).into_iter().filter(given).for_each(|entry| reach.raise(entry, may));
        }
        self.put(&reach, layers.roots);
        self.inherit |= draft.inherit.unwrap_or(false);
        self.toolchains |= draft.toolchains.unwrap_or(false);
        self.trace |= draft.trace.unwrap_or(false);
        self.limits = self.limits.join(&draft.limits.on(layers.host, &self.limits));
        for (name, value) in &draft.set {
            self.set.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }

    /// The lists that every layer adds to.
    fn add(&mut self, draft: &Draft) {
        self.hidden.add(&draft.hide);
        self.hidden.except(&draft.show);
        let same = |a: &Protected, b: &Protected| a.path.eq_ignore_ascii_case(&b.path);
        for path in &draft.protect {
            self.unprotect.retain(|open| !same(open, path));
            if !self.protect.iter().any(|held| same(held, path)) {
                self.protect.push(path.clone());
            }
        }
        for path in &draft.unprotect {
            self.protect.retain(|held| !same(held, path));
            if !self.unprotect.iter().any(|open| same(open, path)) {
                self.unprotect.push(path.clone());
            }
        }
        if let Some(passed) = &draft.environment {
            self.environment = widest(self.environment.drain(..).chain(passed.iter().cloned()).collect());
        }
        self.require.extend(&draft.require);
        for rule in &draft.rules {
            if !self.rules.contains(rule) {
                self.rules.push(rule.clone());
            }
        }
        self.presets.extend(draft.presets.iter().cloned());
    }

    /// Whether a path is a control file of the worktree, lies in one, or in a `.git`.
    pub(super) fn guards(&self, path: &Path, roots: &Roots) -> bool {
        let Ok(below) = path.strip_prefix(&roots.worktree) else { return false };
        let git = below.iter().any(|part| part.eq_ignore_ascii_case(".git"));
        let hard = || self.control_of(below).is_some_and(|control| control.class == Class::Hard);
        git || self.protect.iter().any(|held| held.holds(below)) || hard()
    }

    fn hides(&self, path: &Path) -> bool {
        path.iter().any(|part| self.hidden.hides(part.as_encoded_bytes()))
    }

    pub(super) fn reach(&self, roots: &Roots) -> Reach {
        Reach::new(roots, self.worktree, &self.read, &self.write)
    }

    fn put(&mut self, reach: &Reach, roots: &Roots) {
        (self.worktree, self.read, self.write) = reach.split(roots);
    }
}

fn placed(list: &Option<Vec<Place>>, roots: &Roots) -> Vec<Entry> {
    list.iter().flatten().map(|place| place.at(roots)).collect()
}

/// In order and without what another one covers.
fn widest(mut all: Vec<Variable>) -> Vec<Variable> {
    all.sort();
    all.dedup();
    let open: Vec<Variable> = all.iter().filter(|one| one.is_open()).cloned().collect();
    all.retain(|one| !open.iter().any(|other| other != one && other.covers(one)));
    all
}

/// A profile and all that it starts from, the topmost first.
fn bases(
    name: &Name,
    own: &dyn Fn(&Name) -> std::io::Result<Option<Document>>,
) -> Result<Vec<Draft>, ResolveError> {
    let mut found: Vec<(Name, Draft)> = Vec::new();
    let mut next = Some((name.clone(), PathBuf::new(), 0));
    while let Some((name, from, line)) = next.take() {
        if found.len() > MOST_BASES || found.iter().any(|(seen, _)| *seen == name) {
            return Err(ResolveError::Circle(from, line, name));
        }
        let (file, draft) = match builtin::draft(&name) {
            Some(draft) => (PathBuf::from(name.as_str()), draft.map_err(ResolveError::Damaged)?),
            None => {
                let document = own(&name).map_err(|error| ResolveError::Unreadable(name.clone(), error))?;
                let missing = || match line {
                    0 => ResolveError::Missing(name.clone()),
                    line => ResolveError::NoBase(from, line, name.clone()),
                };
                let Document { file, bytes } = document.ok_or_else(missing)?;
                let draft = own_draft(&bytes, &file, &name)?;
                (file, draft)
            }
        };
        next = draft.base.clone().map(|(base, line)| (base, file, line));
        found.push((name, draft));
    }
    Ok(found.into_iter().map(|(_, draft)| draft).collect())
}

fn own_draft(bytes: &[u8], file: &Path, name: &Name) -> Result<Draft, ResolveError> {
    let draft = document::person(bytes, file)?;
    match &draft.name {
        Some(other) if other != name => {
            Err(ResolveError::OtherName(file.to_owned(), other.clone(), name.clone()))
        }
        _ if draft.base.is_none() => Err(ResolveError::Baseless(file.to_owned())),
        _ => Ok(draft),
    }
}

/// Checks a person's own profile without placing it: for editors and `palisade profile check`.
pub fn check(bytes: &[u8], file: &Path, name: &Name) -> Result<(), ResolveError> {
    if builtin::draft(name).is_some() {
        return Err(ResolveError::Name(BadText(format!(
            "`{name}` is a built-in profile; choose another name"
        ))));
    }
    own_draft(bytes, file, name).map(|_| ())
}

/// What is pending, in words.
#[must_use]
pub fn pending_notice(pending: &[Ask]) -> Option<String> {
    let asks: Vec<String> = pending.iter().map(ToString::to_string).collect();
    (!asks.is_empty()).then(|| {
        format!(
            "this project asks for more and did not get it: {}; see `palisade profile consent`",
            asks.join(", ")
        )
    })
}
