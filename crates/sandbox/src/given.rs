//! Turns a resolved profile and the caller's surroundings into a [`Spec`].
//!
//! Invariant: the home inside is never the caller's home, only at its place.
//! Not here: the environment (`variables`), reading profiles from disk, the command line (`palisade`).

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use crate::cut::Cut;
use crate::ending::Watch;
use crate::groups::{Speed, Wanted};
use crate::guardian::Guardian;
use crate::plan::{Access, Limited};
use crate::profile::{Cpu, Entry, Layer, Profile, Worktree, find_toolchains};
use crate::repo::{self, Moves, Repository};
use crate::spec::{Spec, Unenforceable};
use crate::variables;
use crate::worktree::{Stubs, guard, hide, hide_linked};

/// Who asks, and where from.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Their home, without links.
    pub home: PathBuf,
    /// How they are called inside.
    pub user: String,
    /// Their environment.
    pub environment: BTreeMap<OsString, OsString>,
    /// Where they stand, without links.
    pub directory: PathBuf,
    /// The directory that is given to the command: the repository's, or where they stand.
    pub worktree: PathBuf,
    /// A directory of the host that is the home inside.
    pub private_home: PathBuf,
    /// Directories of ours that no sandbox is given: configuration, state, data.
    pub kept: Vec<PathBuf>,
    /// What is kept of this run, `<state>/runs/<run>`; layers keep their changes in it. It may not exist yet.
    pub run_folder: PathBuf,
    /// Where stubs are written down, `<state>/stubs`. It may not exist yet.
    pub stubs: PathBuf,
    /// The part of the worktree that is given; none: all of it.
    pub cut: Option<Cut>,
}

/// A spec, and what was put on the host for it; kept until the end of the run.
#[derive(Debug)]
pub struct Prepared {
    /// What the sandbox is to have.
    pub spec: Spec,
    /// What must be removed afterwards.
    pub stubs: Stubs,
    /// What the end of the run needs to know.
    pub watch: Watch,
    /// Variables that stayed outside although the profile passes all of them in; without their values.
    pub withheld: Vec<String>,
    /// What keeps covers in force; none when there is nothing to cover.
    pub(crate) guardian: Option<Guardian>,
}

impl Spec {
    /// What this profile gives this caller for this command.
    ///
    /// # Errors
    /// When a place of the profile cannot be given.
    pub fn of(profile: &Profile, caller: &Caller, command: Vec<OsString>) -> Result<Prepared, Unenforceable> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error: io::Error| Unenforceable::Path(path, error)
        };
        is_narrow(profile, caller)?;
        let limits = &profile.limits;
        let mut spec = Self::closed(command, caller.directory.clone())
            .user(caller.user.clone())
            .home(caller.private_home.clone(), caller.home.clone())
            .memory(limits.tmp)
            .wall(limits.wall)
            .added(limits.disk, limits.inodes)
            .limit(Limited::Files, limits.files)
            .limit(Limited::FileSize, limits.file_size)
            .limit(Limited::Processes, limits.pids)
            .limit(Limited::Core, 0)
            // The person may be allowed more than others: musicians are.
            .limit(Limited::Realtime, 0)
            .limit(Limited::Nice, 0);
        let wanted = Wanted {
            memory: Some(limits.memory),
            pids: Some(limits.pids),
            cpu: match limits.cpu {
                Cpu::All => None,
                Cpu::Thousandths(thousandths) => Some(u64::from(thousandths)),
            },
            io: limits.io.map(|bytes| Speed::of(&caller.worktree, bytes)),
        };
        spec = spec.together(wanted, profile.require.contains(&Layer::Cgroup));
        if profile.trace {
            spec = spec.tracing();
        }
        let mut stubs = Stubs::default();
        let mut guardian =
            Guardian::new(&caller.worktree, &profile.hidden).map_err(failed(&caller.worktree))?;
        let cut = caller.cut.as_ref().filter(|cut| !cut.is_whole());
        let shows = |path: &Path| match (cut, path.strip_prefix(&caller.worktree)) {
            (Some(cut), Ok(below)) => cut.shows(below),
            _ => true,
        };
        if cut.is_some() && profile.worktree != Worktree::Overlay {
            let why = io::Error::other("a part of it is given only as a layer; add `--overlay`");
            return Err(failed(&caller.worktree)(why));
        }
        spec = match profile.worktree {
            Worktree::Read => spec.read(caller.worktree.clone()),
            Worktree::Write => spec.write(caller.worktree.clone()),
            Worktree::Overlay => {
                let mounts =
                    crate::changes::layered(&caller.worktree, &caller.run_folder, &profile.protect, cut);
                spec.mounts(mounts.map_err(failed(&caller.worktree))?)
            }
        };
        let writes_in_it = profile.write.iter().any(|entry| entry.path.starts_with(&caller.worktree));
        // In a layer nothing shows on the host, so nothing is guarded there.
        if profile.worktree == Worktree::Write || (profile.worktree == Worktree::Read && writes_in_it) {
            let run = caller.run_folder.file_name().unwrap_or_default();
            let written: Vec<&Path> = match profile.worktree {
                Worktree::Write => vec![caller.worktree.as_path()],
                _ => profile.write.iter().map(|entry| entry.path.as_path()).collect(),
            };
            let read: Vec<&Path> = profile.read.iter().map(|entry| entry.path.as_path()).collect();
            let places = (written.as_slice(), read.as_slice());
            let (mounts, made) = guard(&caller.worktree, places, &profile.protect, &caller.stubs, run)
                .map_err(failed(&caller.worktree))?;
            guardian.stubs(&mounts);
            spec = spec.mounts(mounts);
            stubs = made;
            let held = profile.protect.iter().map(|protected| caller.worktree.join(&protected.path));
            guardian.holds(held.chain([caller.worktree.join(".git")]));
        }
        // Of a worktree that is cut a profile gives nothing more.
        let is_given = |entry: &&Entry| cut.is_none() || !entry.path.starts_with(&caller.worktree);
        let (read, write) = (profile.read.iter().filter(is_given), profile.write.iter().filter(is_given));
        for entry in read.clone().filter(|entry| entry.path.symlink_metadata().is_ok()) {
            spec = spec.entry(entry, Access::Read);
        }
        for entry in write.clone() {
            spec = spec.entry(entry, Access::Write);
        }
        let shown = read.chain(write).map(|entry| entry.path.as_path());
        guardian.gives(shown.clone());
        let mut covered: Vec<PathBuf> = Vec::new();
        for place in std::iter::once(caller.worktree.as_path()).chain(shown).filter(|path| path.is_dir()) {
            let mut hidden = hide(place, &mut guardian).map_err(failed(place))?;
            hidden.retain(|mount| shows(&mount.at));
            covered.extend(hidden.iter().map(|mount| mount.at.clone()));
            spec = spec.covers(hidden);
        }
        // After all places are known: a link in one may lead to another.
        let mut linked = hide_linked(&mut guardian);
        // In what is hidden already there is nothing left to hide, and nothing to put a mount on.
        let is_covered = |at: &Path| covered.iter().any(|hidden| at.starts_with(hidden));
        linked.retain(|mount| shows(&mount.at) && !is_covered(&mount.at));
        spec = spec.covers(linked);
        if profile.toolchains {
            let variable = |name: &str| caller.environment.get(OsStr::new(name)).map(PathBuf::from);
            for found in find_toolchains(&caller.home, &caller.home, &variable, &Path::exists) {
                spec = spec.toolchain(&found);
                if let Some((name, value)) = found.variable.and_then(|name| Some((name, variable(name)?))) {
                    spec = spec.variable(name, value);
                }
            }
        }
        let (repository, shown) = match cut {
            // Whoever could commit could change what is not theirs, and whoever sees the history sees every file.
            Some(cut) => {
                let layer = crate::changes::room(&caller.run_folder);
                let (mounts, shown) = repo::cut(&caller.worktree, cut, &layer)?;
                spec = spec.mounts(mounts);
                (None, shown)
            }
            None => (repository(profile, caller)?, None),
        };
        if let Some(repository) = &repository {
            spec = spec.mounts(repository.mounts());
        }
        let base = caller.environment.get(OsStr::new("XDG_CONFIG_HOME")).map(OsString::as_os_str);
        let own = repo::own_settings(&caller.home, base, repository.as_ref());
        // By name too: a git under /usr/local has its settings elsewhere.
        spec =
            spec.file("/etc/gitconfig", repo::settings(&own)).variable("GIT_CONFIG_SYSTEM", "/etc/gitconfig");
        let watch = Watch::new(profile, &caller.worktree, &caller.run_folder, repository, shown);
        let guardian = Some(guardian);
        let (spec, withheld) = variables::given(spec, profile, caller);
        Ok(Prepared { spec, stubs, watch, withheld, guardian })
    }
}

/// The repository of a worktree that can be written, kept apart; one that can only be read needs no layer.
fn repository(profile: &Profile, caller: &Caller) -> Result<Option<Repository>, Unenforceable> {
    let moves = match profile.worktree {
        Worktree::Read => return Ok(None),
        Worktree::Write => Moves::Yes,
        Worktree::Overlay => Moves::No,
    };
    if caller.run_folder.starts_with(&caller.worktree) {
        return Err(Unenforceable::TooWide(caller.worktree.clone(), "what palisade keeps of its runs"));
    }
    Ok(Repository::find(&caller.worktree, &caller.run_folder, moves)?)
}

/// A worktree that holds the caller's home, or the system, would give everything away; our own directories hold
/// keys, consents and what others runs left.
fn is_narrow(profile: &Profile, caller: &Caller) -> Result<(), Unenforceable> {
    let worktree = &caller.worktree;
    if caller.home.starts_with(worktree) {
        return Err(Unenforceable::TooWide(worktree.clone(), "your whole home directory"));
    }
    let given = profile.read.iter().chain(&profile.write).map(|entry| &entry.path).chain([worktree]);
    for path in given {
        // The homes of agents and the layers of runs are below the state; they are given as what they are.
        if caller.kept.iter().any(|kept| path.starts_with(kept) || kept.starts_with(path)) {
            return Err(Unenforceable::TooWide(path.clone(), "what Palisade itself keeps"));
        }
    }
    let system = ["/usr", "/etc", "/var", "/boot", "/dev", "/proc", "/sys", "/run", "/tmp", "/home"];
    if worktree == Path::new("/") || system.iter().any(|path| worktree == Path::new(path)) {
        return Err(Unenforceable::TooWide(worktree.clone(), "a directory of the system"));
    }
    Ok(())
}
