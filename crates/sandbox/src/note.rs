//! What the end of a run needs to know, on the disk: if the launcher is killed, another one ends the run.
//!
//! Flow: [`Note::begin`] writes `<state>/open/<run>` before anything is started -> [`Note::begun`] -> [`Note::done`]. Of a
//! launcher that was killed the note stays, and the process that keeps covers adds when the sandbox was gone:
//! [`cut_off`] -> [`CutOff::finish`] -> [`Ending`].
//!
//! Invariants: a note is locked as long as a process of the launcher's lives, so one that can be locked is nobody's. It stays until
//! everything was done that can be. Commits are taken over as at any end; the branch moves only if nobody used git meanwhile. What
//! was planted is put away only if it was last changed while the sandbox lived; what was changed later, or if nobody knows how long it
//! lived, is told and stays: it may be the person's own. What is in the place of a directory that the run had, and is another, is not
//! looked into. Not here: what is looked for ([`crate::ending`]), how commits leave ([`crate::repo`]).

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, CWD, FlockOperation, StatxFlags};
use serde::{Deserialize, Serialize};

use crate::changes::{escaped, unescaped};
use crate::ending::{Ending, Fate, Finding, Until, Watch, moment};
use crate::given::Prepared;
use crate::groups::Wanted;
use crate::plan::Limited;
use crate::profile::{Profile, Roots, Worktree};
use crate::repo::{Moves, Repository, TakeError};
use crate::{Ask, Control, Part, RunId, Spec};

/// The largest file that can be one of ours.
const MOST_BYTES: u64 = 1 << 20;
/// How long commits of a run that was cut off may take to leave: somebody waits who did not ask for it.
const PATIENCE: Duration = Duration::from_mins(1);
/// How long the rest of a killed launcher is waited for.
const WAIT: Duration = Duration::from_secs(5);

/// The first line of a note.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    /// Where the run works, escaped.
    worktree: String,
    /// Which directory that was.
    directory: Identity,
    /// Where it can write on the host, escaped, and which directory each was.
    roots: Vec<(String, Identity)>,
    /// Control files that its profile gives up.
    unprotect: Vec<String>,
    /// Its repository, if it has one.
    git: Option<Git>,
    /// Whether its changes of the worktree are kept apart.
    layered: bool,
    /// Layers of a sandbox that a person gave up.
    left_out: Vec<Part>,
}

/// Which directory, or file, something is.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Identity {
    /// Not the same after another start of the machine, or when it is mounted anew.
    device: (u32, u32),
    inode: u64,
    /// Numbers of inodes are given out again.
    born: (i64, u32),
}

impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        let is_known = self.born != (0, 0);
        let same = (self.inode, self.born) == (other.inode, other.born);
        // Nobody can say when something was made: to the nanosecond and with one number, two are one.
        same && (is_known || self.device == other.device)
    }
}

impl Eq for Identity {}

impl Identity {
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let wanted = StatxFlags::INO | StatxFlags::BTIME;
        let found = rustix::fs::statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, wanted)?;
        let born = (found.stx_btime.tv_sec, found.stx_btime.tv_nsec);
        Ok(Self { device: (found.stx_dev_major, found.stx_dev_minor), inode: found.stx_ino, born })
    }
}

/// What is to be known of a repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Git {
    /// What `.git` was.
    pub(crate) identity: Identity,
    /// What it said, if it is a file.
    pub(crate) pointer: Option<Vec<u8>>,
    /// The branch that was checked out, and the commit that it named.
    pub(crate) branch: Option<(String, Option<String>)>,
}

/// Seconds and nanoseconds since 1970, by the clock that files are stamped with.
type Moment = (u64, u32);

/// A later line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Later {
    /// The command was about to start; the entry of its launch, and whether something must not leave that only the launcher knows.
    Begun { at: Moment, launch: u64, seeks: bool },
    /// The sandbox was gone.
    Gone { at: Moment },
    /// The end is on the record, though not everything is done.
    Recorded,
}

/// The note of a run at work. It goes with the value, unless the run was begun and is not done.
#[derive(Debug)]
pub struct Note {
    path: PathBuf,
    file: File,
    is_begun: bool,
}

impl Drop for Note {
    fn drop(&mut self) {
        if !self.is_begun {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Note {
    /// Writes down what the end of this run needs; none if there is nothing to do then.
    ///
    /// # Errors
    /// When it cannot be written: nothing must be started then.
    pub fn begin(
        state: &Path,
        run: &RunId,
        profile: &Profile,
        prepared: &mut Prepared,
    ) -> io::Result<Option<Self>> {
        let watch = &prepared.watch;
        if watch.roots.is_empty() && watch.repository.is_none() {
            return Ok(None);
        }
        let root = |root: &PathBuf| Ok((escaped(root), Identity::of(root)?));
        let written = Written {
            worktree: escaped(&watch.worktree),
            directory: Identity::of(&watch.worktree)?,
            roots: watch.roots.iter().map(root).collect::<io::Result<_>>()?,
            unprotect: profile.unprotect.iter().map(ToString::to_string).collect(),
            git: watch.repository.as_ref().map(Repository::noted).transpose()?,
            layered: profile.worktree == Worktree::Overlay,
            left_out: prepared.spec.left_out().to_vec(),
        };
        let folder = folder(state);
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let path = folder.join(run.as_str());
        let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path)?;
        let note = Self { path, file, is_begun: false };
        rustix::fs::flock(&note.file, FlockOperation::NonBlockingLockExclusive)?;
        add(&note.file, &written)?;
        if let Some(guardian) = &mut prepared.guardian {
            guardian.notes(note.file.try_clone()?.into());
        }
        Ok(Some(note))
    }

    /// The command starts now. What it does from here on is seen to by somebody. Where something must not leave that only this process
    /// knows (`seeks`), commits stay where they are.
    ///
    /// # Errors
    /// When that cannot be written: the command must not start then.
    pub fn begun(&mut self, launch: u64, seeks: bool) -> io::Result<()> {
        add(&self.file, &Later::Begun { at: when(moment()), launch, seeks })?;
        // Where the power goes, too, somebody ends it: what it changes may be on the disk before this otherwise.
        self.file.sync_all()?;
        if let Some(folder) = self.path.parent() {
            File::open(folder)?.sync_all()?;
        }
        self.is_begun = true;
        Ok(())
    }

    /// The sandbox is gone: from now on others change what lies there.
    pub fn gone(&self) {
        // Without it nothing is moved that may be somebody else's.
        let _ = add(&self.file, &Later::Gone { at: when(moment()) });
    }

    /// Everything is done, and on the record.
    pub fn done(mut self) {
        self.is_begun = false;
    }
}

/// Adds that the sandbox was gone.
pub(crate) fn gone(note: &OwnedFd) {
    if let Ok(mut line) = serde_json::to_vec(&Later::Gone { at: when(moment()) }) {
        line.push(b'\n');
        let _ = rustix::io::write(note.as_fd(), &line);
    }
}

fn add(mut file: &File, line: &impl Serialize) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(line)?;
    bytes.push(b'\n');
    file.write_all(&bytes)
}

fn folder(state: &Path) -> PathBuf {
    state.join("open")
}

fn when(time: SystemTime) -> Moment {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    (since.as_secs(), since.subsec_nanos())
}

fn time((seconds, nanoseconds): Moment) -> SystemTime {
    UNIX_EPOCH.checked_add(Duration::new(seconds, nanoseconds)).unwrap_or(UNIX_EPOCH)
}

/// A run whose launcher was killed, and that nobody has ended yet. Nobody else does so while this value lives.
#[derive(Debug)]
pub struct CutOff {
    state: PathBuf,
    path: PathBuf,
    run: RunId,
    worktree: PathBuf,
    written: Written,
    begun: Option<(SystemTime, u64)>,
    gone: Option<SystemTime>,
    is_recorded: bool,
    /// Whether something must not leave that nobody knows any more.
    seeks: bool,
    file: File,
}

/// What was done about a run that was cut off.
#[derive(Debug)]
pub struct Late {
    /// As at any end.
    pub ending: Ending,
    /// Why something is left to be done when it is tried again.
    pub left: Option<String>,
    repository: Option<Repository>,
}

impl Late {
    /// What it committed is where it belongs: the layer goes.
    pub fn release(mut self) {
        let is_taken = self.ending.refused.is_none() && self.left.is_none();
        if let Some(repository) = self.repository.as_mut().filter(|_| is_taken) {
            repository.release();
        }
    }
}

/// Runs whose launcher was killed, among those that are wanted by the place where they worked and their name. What is no note
/// of ours is passed over.
///
/// # Errors
/// When the notes cannot be listed.
pub fn cut_off(state: &Path, is_wanted: impl Fn(&Path, &RunId) -> bool) -> io::Result<Vec<CutOff>> {
    let entries = match std::fs::read_dir(folder(state)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        found.extend(CutOff::read(state, &entry?.path(), &is_wanted));
    }
    Ok(found)
}

impl CutOff {
    fn read(state: &Path, path: &Path, is_wanted: &impl Fn(&Path, &RunId) -> bool) -> Option<Self> {
        let run: RunId = path.file_name()?.to_str()?.parse().ok()?;
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        let flags = i32::try_from(flags.bits()).unwrap_or_default();
        let open = OpenOptions::new().read(true).append(true).custom_flags(flags).open(path);
        let mut file = open.ok().filter(|file| file.metadata().is_ok_and(|found| found.is_file()))?;
        let mut first = String::new();
        (&mut file).take(MOST_BYTES).read_to_string(&mut first).ok()?;
        let written: Written = serde_json::from_str(first.lines().next()?).ok()?;
        let worktree = unescaped(&written.worktree)?;
        if !is_wanted(&worktree, &run) || !is_nobodys(&file, state, &run) {
            return None;
        }
        // Its launcher, or somebody who was quicker, has done everything.
        if file.metadata().ok()?.nlink() == 0 {
            return None;
        }
        // Once more, now that nobody adds to it.
        let mut text = String::new();
        file.rewind().ok()?;
        (&mut file).take(MOST_BYTES).read_to_string(&mut text).ok()?;
        let (state, path) = (state.to_owned(), path.to_owned());
        let (begun, gone, is_recorded, seeks) = (None, None, false, false);
        let mut cut = Self { state, path, run, worktree, written, begun, gone, is_recorded, seeks, file };
        for later in text.lines().skip(1).filter_map(|line| serde_json::from_str(line).ok()) {
            match later {
                Later::Begun { at, launch, seeks } => {
                    (cut.begun, cut.seeks) = (Some((time(at), launch)), seeks)
                }
                // The first: what comes later saw it later.
                Later::Gone { at } => cut.gone = cut.gone.or(Some(time(at))),
                Later::Recorded => cut.is_recorded = true,
            }
        }
        Some(cut)
    }

    /// Which run it is.
    #[must_use]
    pub fn run(&self) -> &RunId {
        &self.run
    }

    /// Where it worked.
    #[must_use]
    pub fn worktree(&self) -> &Path {
        &self.worktree
    }

    /// Whether its changes of the worktree are kept apart.
    #[must_use]
    pub fn is_layered(&self) -> bool {
        self.written.layered
    }

    /// The entry of its launch, if its command was started.
    #[must_use]
    pub fn launch(&self) -> Option<u64> {
        self.begun.map(|(_, launch)| launch)
    }

    /// How long its command ran, if that is known.
    #[must_use]
    pub fn lasted(&self) -> Option<Duration> {
        self.gone?.duration_since(self.begun?.0).ok()
    }

    /// Does what its launcher would have done: removes stubs, takes commits over, puts away what was planted.
    /// `home` is the person's.
    ///
    /// # Errors
    /// When what it worked in is not there or cannot be looked at; it can be tried again then.
    pub fn finish(&self, home: &Path) -> io::Result<Late> {
        let (commits, findings, carried) = (Vec::new(), Vec::new(), Vec::new());
        let ending = Ending { commits, refused: None, findings, carried };
        let mut late = Late { ending, left: None, repository: None };
        let relied = crate::worktree::relied_on(&self.state.join("stubs"), &self.worktree)?;
        let run_folder = crate::changes::folder(&self.state, &self.run);
        let Some((since, _)) = self.begun else {
            // Nothing was started, so nothing is in its layer.
            ::files::remove::tree(&run_folder.join("git"))?;
            let _ = rustix::fs::rmdir(&run_folder);
            return Ok(late);
        };
        self.is_there(&self.worktree)?;
        if Identity::of(&self.worktree)? != self.written.directory {
            late.ending.refused = Some((TakeError::Replaced, run_folder.join("git/changes")));
            let why = "another directory is in the place of the one that the run worked in, so it was not looked through";
            late.ending.findings.push(Finding {
                path: PathBuf::new(),
                why: why.into(),
                fate: Fate::Reported,
            });
            return Ok(late);
        }
        if let Some(git) = &self.written.git {
            self.is_there(&self.worktree.join(".git"))?;
            self.take(git, &run_folder, &mut late);
        }
        let roots = Roots { home: home.to_owned(), worktree: self.worktree.clone() };
        let profile = Profile::guarding(&roots, &self.written.unprotect).map_err(io::Error::other)?;
        let (same, others): (Vec<_>, Vec<_>) = self
            .written
            .roots
            .iter()
            .filter_map(|(root, identity)| Some((unescaped(root)?, identity)))
            .partition(|(root, identity)| Identity::of(root).is_ok_and(|found| found == **identity));
        let until = self.gone.map_or(Until::Unknown, Until::Moment);
        let same = same.into_iter().map(|(root, _)| root).collect();
        let is_known = late.repository.as_ref().is_some_and(Repository::is_as_it_was);
        let watch = Watch::over(since, until, &run_folder, same, self.worktree.clone(), is_known);
        let relied: Vec<PathBuf> = relied.into_iter().collect();
        late.ending.findings.extend(watch.look(&profile, &relied, None).0);
        let why = "another directory is there now, so it was not looked through";
        let other = |path| Finding { path, why: why.into(), fate: Fate::Reported };
        late.ending.findings.extend(others.into_iter().map(|(root, _)| other(root)));
        Ok(late)
    }

    fn is_there(&self, path: &Path) -> io::Result<()> {
        let found = path.symlink_metadata();
        found.map(|_| ()).map_err(|error| {
            let note = self.path.display();
            let why = format!(
                "`{}`: {error}; put it back, or remove `{note}` to give up what it did",
                path.display()
            );
            io::Error::new(error.kind(), why)
        })
    }

    /// Takes commits over.
    fn take(&self, git: &Git, run_folder: &Path, late: &mut Late) {
        // Whoever used git since may have thrown away what the branch would move to.
        let moves = if self.written.layered { Moves::No } else { Moves::IfUntouched(self.gone) };
        let layer = run_folder.join("git/changes");
        if self.seeks && layer.symlink_metadata().is_ok() {
            let why = "it had decoys that nobody knows any more, so what is in it cannot be told";
            late.ending.refused = Some((TakeError::Refused(why.into()), layer));
            return;
        }
        match Repository::again(&self.worktree, run_folder, git, moves) {
            Ok(Some(found)) => {
                match found.take(&self.second(), &self.run, PATIENCE, None) {
                    Ok(commits) => late.ending.commits = commits,
                    Err(error) if error.may_pass() => late.left = Some(error.to_string()),
                    Err(error) => late.ending.refused = Some((error, layer)),
                }
                late.repository = Some(found);
            }
            // Its commits were taken over before.
            Ok(None) => {}
            Err(error) => late.ending.refused = Some((TakeError::Refused(error.to_string()), layer)),
        }
    }

    /// What makes the bundle.
    fn second(&self) -> Spec {
        let wanted = Wanted { memory: Some(4 << 30), pids: Some(512), ..Wanted::default() };
        let spec = Spec::closed(Vec::new(), self.worktree.clone())
            .limit(Limited::Processes, 512)
            .limit(Limited::Core, 0)
            .together(wanted, false)
            .file("/etc/gitconfig", crate::repo::settings(&[]));
        self.written.left_out.iter().fold(spec, |spec, part| spec.without(*part))
    }

    /// Whether its end is on the record.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.is_recorded
    }

    /// Its end is on the record, and something is left to be done.
    ///
    /// # Errors
    /// When that cannot be noted.
    pub fn recorded(&self) -> io::Result<()> {
        add(&self.file, &Later::Recorded)?;
        self.file.sync_data()
    }

    /// Everything is done, and on the record.
    ///
    /// # Errors
    /// When the note cannot be removed; it is done again then.
    pub fn done(self) -> io::Result<()> {
        std::fs::remove_file(&self.path)
    }
}

/// Whether a note is nobody's, and ours from now on. That of a launcher which is gone is waited for: what it started ends as well.
fn is_nobodys(file: &File, state: &Path, run: &RunId) -> bool {
    let until = Instant::now() + WAIT;
    loop {
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return true,
            Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
        let lives = !matches!(Control::ask(&state.join("live"), run, Ask::Tell), Ok(None));
        if lives || Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adv_g05_a_directory_is_known_by_its_number_and_when_it_was_made_wherever_it_is_mounted() {
        let place = tempfile::tempdir().unwrap();
        let here = Identity::of(place.path()).unwrap();
        let elsewhere = Identity { device: (here.device.0, here.device.1 + 1), ..here };
        assert_eq!(here, Identity::of(place.path()).unwrap());
        if here.born != (0, 0) {
            assert_eq!(here, elsewhere, "the machine was started again");
        }
        let known = Identity { device: (8, 1), inode: 7, born: (1, 2) };
        for other in [
            Identity { inode: 8, ..known },
            Identity { born: (1, 3), ..known },
            Identity { born: (2, 2), ..known },
            Identity { born: (0, 0), ..known },
        ] {
            assert_ne!(known, other);
        }
        // Where nobody knows when it was made, a number alone says too little.
        let ageless = Identity { born: (0, 0), ..known };
        assert_eq!(ageless, Identity { born: (0, 0), ..known });
        assert_ne!(ageless, Identity { device: (8, 2), ..ageless });
        let another = tempfile::tempdir().unwrap();
        assert_ne!(here, Identity::of(another.path()).unwrap());
    }
}
