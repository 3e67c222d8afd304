//! The objects of a repository of ours, apart by whose they are: what came from its origin in one place ([`Stores::base`]), what each
//! tree added in one of its own ([`Stores::own`]), and what was made of both (joined branches) where git keeps objects.
//!
//! Whoever is given the first and one of the second has the whole history of one tree and nothing of the others. The repository itself
//! finds all of it, as alternates. Invariants: the base has everything that a branch of the origin reaches before that branch is
//! written down; objects are added, never removed; a place is known to the repository before an object is put there, and as long as
//! one is there.
//! Not here: who is given which ([`crate`] knows of no sandboxes).

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::repository::RepositoryError;
use crate::{Git, GitError};

/// Where they lie in a git directory.
const PLACE: &str = "palisade";
/// What is about to be put somewhere begins with this.
const NEW: &str = "new-";
/// Branches of where a repository came from.
const THEIRS: &str = "refs/remotes/origin/";
/// How long somebody else who changes something is waited for.
const WAIT: Duration = if cfg!(test) { Duration::from_secs(2) } else { Duration::from_mins(2) };
/// What nobody finished in this time is nobody's any more.
const STALE: Duration = Duration::from_hours(24);
/// The longest list of alternates that is read.
const MOST_LISTED: u64 = 16 << 20;

/// Where the objects of a repository of ours are.
#[derive(Debug)]
pub struct Stores {
    directory: PathBuf,
    git: Git,
}

/// Of several who change something here, one does.
struct Alone(#[expect(dead_code, reason = "it is locked for as long as it is open")] File);

impl Stores {
    /// Whether this is the git directory of a repository that has its objects apart.
    #[must_use]
    pub fn are_in(directory: &Path) -> bool {
        directory.join(PLACE).is_dir()
    }

    /// Those of a git directory; made where they are not there yet.
    pub fn of(directory: &Path) -> Result<Self, RepositoryError> {
        let git = Git::find(directory).ok_or(RepositoryError::NoGit)?;
        let stores = Self { directory: directory.to_owned(), git };
        if !stores.base().is_dir() {
            stores.begin()?;
        }
        Ok(stores)
    }

    /// All of them but those that lie where git keeps objects.
    #[must_use]
    pub fn all(&self) -> PathBuf {
        self.directory.join(PLACE)
    }

    /// What came from the origin.
    #[must_use]
    pub fn base(&self) -> PathBuf {
        self.directory.join(PLACE).join("base")
    }

    /// What one tree added; its name is that of its directory.
    #[must_use]
    pub fn own(&self, tree: &str) -> PathBuf {
        self.directory.join(PLACE).join("own").join(tree)
    }

    /// Where it is written down up to which commit a tree's own place is known to have everything.
    fn noted(&self, tree: &str) -> PathBuf {
        self.directory.join(PLACE).join("tips").join(tree)
    }

    /// Git, which finds everything and puts what is new into one of these places.
    #[must_use]
    pub fn filling(&self, place: &Path) -> Git {
        self.git.apart(place, &[self.directory.join("objects")])
    }

    /// Has the base hold everything that these commits reach.
    pub(crate) fn complete_base(&self, tips: &[String], known: &[String]) -> Result<(), RepositoryError> {
        let base = self.base();
        self.complete(&base, &self.git.apart(&base, &[]), tips, known)
    }

    /// Has the place of a tree hold everything that its commit, if there is one, reaches and the base has not. `known` are commits whose
    /// history the base has.
    pub fn complete_own(
        &self,
        tree: &str,
        tip: Option<&str>,
        known: &[String],
    ) -> Result<(), RepositoryError> {
        let own = self.own(tree);
        {
            let _alone = self.alone()?;
            self.folder(&own.join("pack"))?;
            self.register(&format!("../{PLACE}/own/{tree}"))?;
        }
        let Some(tip) = tip else { return Ok(()) };
        // What was looked at before needs no git: each start waits for this.
        let noted = self.noted(tree);
        if known.iter().any(|id| id == tip) || std::fs::read_to_string(&noted).is_ok_and(|seen| seen == tip) {
            return Ok(());
        }
        let sees = self.git.apart(&own, &[self.base()]);
        self.complete(&own, &sees, &[tip.to_owned()], known)?;
        self.folder(&self.directory.join(PLACE).join("tips"))?;
        self.write(&noted, tip.as_bytes())
    }

    /// Makes the place of what came from the origin, with what came from there before.
    fn begin(&self) -> Result<(), RepositoryError> {
        self.folder(&self.directory.join(PLACE).join("own"))?;
        let _alone = self.alone()?;
        let (base, coming) = (self.base(), self.directory.join(PLACE).join("base.coming"));
        if base.is_dir() {
            return Ok(());
        }
        self.folder(&coming.join("pack"))?;
        let said = self.ask(&self.git, &["for-each-ref", "--format=%(objectname)", THEIRS], None)?;
        let tips: Vec<String> = String::from_utf8_lossy(&said).lines().map(str::to_owned).collect();
        if !tips.is_empty() {
            self.complete(&coming, &self.git.apart(&coming, &[]), &tips, &[])?;
        }
        self.register(&format!("../{PLACE}/base"))?;
        std::fs::rename(&coming, &base).map_err(|error| RepositoryError::File(coming, error))
    }

    /// Puts what these commits reach, and the known ones do not, into a place, unless whoever sees that place only has all of it.
    fn complete(
        &self,
        place: &Path,
        sees: &Git,
        tips: &[String],
        known: &[String],
    ) -> Result<(), RepositoryError> {
        if tips.is_empty() || self.is_whole(sees, tips, known)? {
            return Ok(());
        }
        // A known one that is not all there after all leaves too much out.
        for known in [known, &[]] {
            let into = place.join("pack/pack").display().to_string();
            let words = ["pack-objects", "--revs", "--quiet", "--delta-base-offset", &into];
            self.ask(&self.git, &words, Some(&listed(tips, known)))?;
            if self.is_whole(sees, tips, known)? {
                return Ok(());
            }
        }
        Err(RepositoryError::Refused("objects of a branch are missing".into()))
    }

    /// Whether everything that these commits reach, and the known ones do not, is in sight.
    fn is_whole(&self, sees: &Git, tips: &[String], known: &[String]) -> Result<bool, RepositoryError> {
        let input = crate::input(listed(tips, known).as_bytes()).map_err(GitError::from)?;
        let directory = format!("--git-dir={}", self.directory.display());
        let words = [directory.as_str(), "rev-list", "--objects", "--quiet", "--stdin"];
        Ok(sees.run(&[], &words, input)?.ok)
    }

    fn ask(&self, git: &Git, words: &[&str], input: Option<&str>) -> Result<Vec<u8>, RepositoryError> {
        let input = match input {
            Some(text) => crate::input(text.as_bytes()).map_err(GitError::from)?,
            None => Stdio::null(),
        };
        let directory = format!("--git-dir={}", self.directory.display());
        let said = git.run(&[], &[&[directory.as_str()][..], words].concat(), input)?;
        if said.ok { Ok(said.out) } else { Err(RepositoryError::Refused(said.err)) }
    }

    fn alone(&self) -> Result<Alone, RepositoryError> {
        let path = self.directory.join(PLACE).join("lock");
        let locked = || -> io::Result<File> {
            let file = std::fs::OpenOptions::new().write(true).create(true).truncate(false).open(&path)?;
            let until = Instant::now() + WAIT;
            loop {
                match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                    Ok(()) => return Ok(file),
                    Err(Errno::WOULDBLOCK | Errno::INTR) if Instant::now() < until => {
                        std::thread::sleep(Duration::from_millis(10));
                    }
                    Err(Errno::WOULDBLOCK) => {
                        let why = "somebody else is at work in it, and takes long; try again";
                        return Err(io::Error::new(io::ErrorKind::WouldBlock, why));
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        };
        Ok(Alone(locked().map_err(|error| RepositoryError::File(path.clone(), error))?))
    }

    /// Has the repository find what is in a place; the name is relative to its own objects.
    fn register(&self, name: &str) -> Result<(), RepositoryError> {
        let info = self.directory.join("objects/info");
        let list = info.join("alternates");
        let failed = |error| RepositoryError::File(list.clone(), error);
        let known = listed_in(&list).map_err(failed)?;
        if known.lines().any(|line| line == name) {
            return Ok(());
        }
        self.folder(&info)?;
        self.write(&list, format!("{known}{name}\n").as_bytes())
    }

    /// Takes away the places of trees that are gone, where nothing was put, and what somebody left who did not come to an end.
    pub(crate) fn reclaim(&self) -> Result<(), RepositoryError> {
        let _alone = self.alone()?;
        let is_gone = |name: &str| !self.directory.join("worktrees").join(name).exists();
        let gone: Vec<String> =
            names(&self.all().join("own")).filter(|name| is_gone(name) && is_bare(&self.own(name))).collect();
        for name in &gone {
            let own = self.own(name);
            // Nothing but empty directories: what is put there meanwhile stays.
            for folder in [own.join("pack"), own.join("info"), own.clone()] {
                let _ = std::fs::remove_dir(folder);
            }
        }
        // As long as one is there it is in the list.
        let gone: Vec<String> = gone.into_iter().filter(|name| !self.own(name).exists()).collect();
        if !gone.is_empty() {
            let list = self.directory.join("objects/info/alternates");
            let known = listed_in(&list).map_err(|error| RepositoryError::File(list.clone(), error))?;
            let place = |line: &str| line.strip_prefix(&format!("../{PLACE}/own/")).map(str::to_owned);
            let stays = |line: &&str| place(line).is_none_or(|name| !gone.contains(&name));
            let left: String = known.lines().filter(stays).map(|line| format!("{line}\n")).collect();
            self.write(&list, left.as_bytes())?;
        }
        for name in &gone {
            let _ = std::fs::remove_file(self.noted(name));
        }
        for name in names(&self.all()).filter(|name| name.starts_with(NEW)) {
            let path = self.all().join(name);
            let age = path.symlink_metadata().and_then(|found| found.modified()).map(|at| at.elapsed());
            if matches!(age, Ok(Ok(age)) if age > STALE) {
                let _ = std::fs::remove_file(path);
            }
        }
        Ok(())
    }

    /// A file, whole or as it was, of whoever the repository belongs to. Many may write the same one at once.
    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), RepositoryError> {
        let failed = |error| RepositoryError::File(path.to_owned(), error);
        let mut name = [0; 16];
        getrandom::fill(&mut name).map_err(|error| failed(io::Error::other(error.to_string())))?;
        let new = self.all().join(format!("{NEW}{:032x}", u128::from_ne_bytes(name)));
        let written = || -> io::Result<()> {
            let mut file = File::create_new(&new)?;
            file.write_all(bytes)?;
            file.sync_data()?;
            self.hand_over(&new)?;
            std::fs::rename(&new, path)
        };
        written().map_err(|error| {
            let _ = std::fs::remove_file(&new);
            failed(error)
        })
    }

    /// A directory and those above it, of whoever the repository belongs to.
    fn folder(&self, path: &Path) -> Result<(), RepositoryError> {
        let made = |path: &Path| -> io::Result<()> {
            match std::fs::DirBuilder::new().mode(0o755).create(path) {
                Ok(()) => self.hand_over(path),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                Err(error) => Err(error),
            }
        };
        let mut missing: Vec<&Path> = path.ancestors().take_while(|above| !above.is_dir()).collect();
        missing.reverse();
        missing.into_iter().try_for_each(made).map_err(|error| RepositoryError::File(path.to_owned(), error))
    }

    fn hand_over(&self, path: &Path) -> io::Result<()> {
        if !rustix::process::geteuid().is_root() {
            return Ok(());
        }
        let owner = std::fs::metadata(&self.directory)?;
        std::os::unix::fs::lchown(path, Some(owner.uid()), Some(owner.gid()))
    }
}

/// The lines of a list of alternates; none if it is not there.
fn listed_in(list: &Path) -> io::Result<String> {
    match std::fs::metadata(list) {
        Ok(found) if found.len() > MOST_LISTED => Err(io::ErrorKind::FileTooLarge.into()),
        Ok(_) => std::fs::read_to_string(list),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error),
    }
}

fn names(folder: &Path) -> impl Iterator<Item = String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok())
}

/// Whether there is no object in a place.
fn is_bare(place: &Path) -> bool {
    let known = ["pack", "info"];
    place.is_dir()
        && names(place)
            .all(|name| known.contains(&name.as_str()) && names(&place.join(name)).next().is_none())
}

/// Commits, and those that are left out, as git reads them.
fn listed(tips: &[String], known: &[String]) -> String {
    let mut text: String = tips.iter().map(|id| format!("{id}\n")).collect();
    text.extend(known.iter().map(|id| format!("^{id}\n")));
    text
}

#[cfg(test)]
mod tests;
