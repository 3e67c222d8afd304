//! What happens after the command has ended: commits leave, and what an agent may have planted is put away.
//!
//! Flow: [`Watch`] (from before the launch) -> [`Prepared::finish`] -> [`Ending`] (commits, findings).
//!
//! Invariants: it runs when no process of the sandbox is left; what is put away is named; the command's exit code is
//! not touched. What cannot be looked at or moved is told, never passed over. Not here: the root's `.git`
//! ([`crate::repo`]), what is a control file ([`crate::profile`]).

mod nested;
mod quarantine;
mod stamp;
mod walk;

use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use crate::RunId;
use crate::given::Prepared;
use crate::profile::{Profile, Worktree};
use crate::repo::{Commit, PATIENCE, Repository, Shown, TakeError};
use crate::sought::{Carried, Seeks};
use crate::worktree::Left;
use quarantine::Quarantine;
use stamp::Stamp;
pub(crate) use stamp::now as moment;
use walk::{Found, Rule, Walk};

/// What must be known from before the launch.
#[derive(Debug)]
pub struct Watch {
    /// By the clock of file systems.
    since: SystemTime,
    /// The same moment by the clocks that tell whether that one was set back.
    wall: SystemTime,
    begun: Instant,
    run_folder: PathBuf,
    /// The worktree first, if its files are the host's own and can be written; then other places that can.
    pub(crate) roots: Vec<PathBuf>,
    pub(crate) worktree: PathBuf,
    pub(crate) repository: Option<Repository>,
    /// What is shown of a repository that cannot be written to; until the end of the run.
    #[expect(dead_code, reason = "it is removed with the value")]
    shown: Option<Shown>,
    /// Whether `.git` is what it was, where somebody else has the repository.
    git_is_known: bool,
    until: Until,
}

/// Until when a change is the agent's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// The sandbox was there until now.
    Now,
    /// It was gone then.
    Moment(SystemTime),
    /// Nobody knows.
    Unknown,
}

impl Until {
    /// Why a thing that was found stays where it is, if it does.
    fn spares(self, root: BorrowedFd<'_>, path: &Path) -> Option<&'static str> {
        match self {
            Self::Now => None,
            Self::Moment(gone) if stamp::is_changed_after(root, path, Stamp::of(gone)) => {
                Some("changed again since the run, so it may be yours")
            }
            Self::Moment(_) => None,
            Self::Unknown => Some("nobody saw when the run was over, so it may be yours"),
        }
    }
}

/// What was found at one place, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Relative to the worktree, or absolute outside it.
    pub path: PathBuf,
    /// What it is, and who would act on it.
    pub why: String,
    /// What became of it.
    pub fate: Fate,
}

/// What became of a thing that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is here now.
    Quarantined(PathBuf),
    /// It is where it was: worth a look.
    Reported,
    /// It should have been moved and could not be, for this reason.
    Stays(String),
}

/// What came of the end of a run.
#[derive(Debug)]
pub struct Ending {
    /// Branches with new commits.
    pub commits: Vec<Commit>,
    /// Why commits were not taken over, and where they are kept.
    pub refused: Option<(TakeError, PathBuf)>,
    /// What was found.
    pub findings: Vec<Finding>,
    /// What must not leave, and where it was about to.
    pub carried: Vec<Carried>,
}

impl Watch {
    /// Begins before anything is started.
    pub(crate) fn new(
        profile: &Profile,
        worktree: &Path,
        run_folder: &Path,
        repository: Option<Repository>,
        shown: Option<Shown>,
    ) -> Self {
        let own = (profile.worktree == Worktree::Write).then(|| worktree.to_owned());
        let others = profile.write.iter().map(|entry| entry.path.clone());
        let mut roots: Vec<PathBuf> = own.into_iter().collect();
        for other in others.filter(|path| path.is_dir()) {
            if !roots.iter().any(|root| other.starts_with(root)) {
                roots.push(other);
            }
        }
        Self {
            since: stamp::now(),
            wall: SystemTime::now(),
            begun: Instant::now(),
            run_folder: run_folder.to_owned(),
            roots,
            worktree: worktree.to_owned(),
            repository,
            shown,
            git_is_known: false,
            until: Until::Now,
        }
    }

    /// The same for a run that is over, and that worked in these places.
    pub(crate) fn over(
        since: SystemTime,
        until: Until,
        run_folder: &Path,
        roots: Vec<PathBuf>,
        worktree: PathBuf,
        git_is_known: bool,
    ) -> Self {
        let (wall, begun, run_folder) = (SystemTime::now(), Instant::now(), run_folder.to_owned());
        let (repository, shown) = (None, None);
        Self { since, wall, begun, run_folder, roots, worktree, repository, shown, git_is_known, until }
    }

    /// The command starts now: what was changed before was changed by somebody else.
    pub(crate) fn begin(&mut self) {
        (self.since, self.wall, self.begun) = (stamp::now(), SystemTime::now(), Instant::now());
    }

    /// The moment from which a change is the agent's. A clock that was set back meanwhile takes it along.
    fn since(&self) -> Stamp {
        let went = SystemTime::now().duration_since(self.wall).unwrap_or_default();
        let lost = self.begun.elapsed().saturating_sub(went);
        Stamp::of(self.since.checked_sub(lost).unwrap_or(self.since))
    }

    /// Puts away what was planted.
    /// Stubs that another run relies on are left where they are.
    pub(crate) fn look(
        &self,
        profile: &Profile,
        shared: &[PathBuf],
        sought: Option<&dyn Seeks>,
    ) -> (Vec<Finding>, Vec<Carried>) {
        let since = self.since();
        let is_as_it_was = self.repository.as_ref().is_some_and(Repository::is_as_it_was);
        let git_is_known = self.git_is_known || is_as_it_was;
        let (mut findings, mut carried) = (Vec::new(), Vec::new());
        for (number, root) in self.roots.iter().enumerate() {
            let is_worktree = *root == self.worktree;
            let git_is_known = is_worktree && git_is_known;
            let rule = Rule { profile, since, is_worktree, git_is_known, sought };
            let shown = |path: &Path| if is_worktree { path.to_owned() } else { root.join(path) };
            let quarantine = Quarantine::new(&self.run_folder, if is_worktree { None } else { Some(number) });
            let mut walk = match Walk::new(root, rule) {
                Ok(walk) => walk,
                Err(error) => {
                    findings.push(not_looked_at(shown(Path::new("")), &error));
                    continue;
                }
            };
            let looked = walk.look();
            carried.append(&mut walk.carried);
            for Found { path, why, moves } in std::mem::take(&mut walk.found) {
                if shared.contains(&root.join(&path)) {
                    continue;
                }
                let fate = if !moves {
                    Fate::Reported
                } else if let Some(why) = self.until.spares(walk.root(), &path) {
                    Fate::Stays(why.into())
                } else {
                    match quarantine.take(walk.root(), &path) {
                        Ok(place) => Fate::Quarantined(place),
                        Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                        Err(error) => Fate::Stays(error.to_string()),
                    }
                };
                findings.push(Finding { path: shown(&path), why, fate });
            }
            if let Err(error) = looked {
                findings.push(not_looked_at(shown(Path::new("")), &error));
            }
        }
        (findings, carried)
    }
}

fn not_looked_at(path: PathBuf, error: &io::Error) -> Finding {
    Finding {
        path,
        why: "could not be looked through to the end".into(),
        fate: Fate::Stays(error.to_string()),
    }
}

/// What is told of stubs that could not be removed and that nothing else was told of.
fn left_behind(worktree: &Path, left: io::Result<Left>, told: &[Finding]) -> Vec<Finding> {
    let filled = match left {
        Ok(left) => left.filled,
        Err(error) => {
            let why = "stubs could not be removed; `palisade doctor` removes them".into();
            return vec![Finding { path: PathBuf::new(), why, fate: Fate::Stays(error.to_string()) }];
        }
    };
    let shown = filled.iter().map(|path| path.strip_prefix(worktree).unwrap_or(path).to_owned());
    let new = shown
        .filter(|path| !told.iter().any(|told| told.path.starts_with(path)) && worktree.join(path).exists());
    let why =
        || "a directory that palisade made; something was put into it during the run, so it stays".into();
    new.map(|path| Finding { path, why: why(), fate: Fate::Reported }).collect()
}

impl Prepared {
    /// The command starts now. Before that nobody inside could change anything.
    pub fn begin(&mut self) {
        self.watch.begin();
        if let Some(repository) = &mut self.watch.repository {
            repository.hold();
        }
    }

    /// Ends the run: takes commits over, removes stubs, puts away what was planted. Commits that carry what is sought are not
    /// taken over, and files whose names do are put away.
    #[must_use]
    pub fn finish(self, profile: &Profile, run: &RunId, sought: Option<&dyn Seeks>) -> Ending {
        let Self { spec, mut stubs, mut watch, withheld: _, guardian: _ } = self;
        let mut ending =
            Ending { commits: Vec::new(), refused: None, findings: Vec::new(), carried: Vec::new() };
        if let Some(repository) = &mut watch.repository {
            match repository.take(&spec, run, PATIENCE, sought) {
                Ok(commits) => {
                    ending.commits = commits;
                    repository.release();
                }
                Err(error) => {
                    if let TakeError::Carries(carried) = &error {
                        ending.carried.push(carried.clone());
                    }
                    ending.refused = Some((error, repository.changes()));
                    repository.hold();
                }
            }
        }
        // What is still there after this is not ours.
        let left = stubs.end();
        let shared = left.as_ref().map_or(&[][..], |left| &left.shared);
        let (findings, carried) = watch.look(profile, shared, sought);
        ending.findings = findings;
        ending.carried.extend(carried);
        ending.findings.extend(left_behind(&watch.worktree, left, &ending.findings));
        ending
    }
}
