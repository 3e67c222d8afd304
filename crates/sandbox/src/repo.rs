//! The git boundary: what an agent sees of a repository, and how its commits leave.
//!
//! Flow: `.git` of the worktree -> [`Repository`] (a private layer over it for the run) -> a bundle made inside
//! ([`leave`]) -> what is new, looked through for what must not leave ([`looked`]), checked and taken over on the host ([`ingest`])
//! -> [`Commit`]s.
//!
//! Invariants: the host's `.git` is below the layer and never written from inside; git never runs on the host over
//! anything that an agent can write; on the host only `refs/palisade/<run>/` and the branch that was checked out
//! change, that one only forwards and only if nobody else moved it; objects are added, never removed. Where the changes of
//! the worktree are kept apart, the branch waits until they are applied ([`follow`]).
//! Of a repository of the daemon's, which many have worktrees of, the inside has its own worktree and what came from the origin, and nothing
//! else ([`view`]). Not here: nested repositories in the worktree ([`crate::ending`]).

mod bundle;
pub(crate) mod config;
pub(crate) mod follow;
mod ingest;
mod leave;
mod looked;
mod pinned;
mod place;
mod refs;
mod view;

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use follow::{Branch, FollowError};
pub use ingest::{Became, Commit};
pub(crate) use leave::PATIENCE;
pub use leave::TakeError;
pub use place::Unusable;

use crate::cut::Cut;
use crate::note::{self, Identity};
use crate::plan::{Access, Layer, Mount, Source};
use place::Place;
use refs::{Head, Id};
use view::View;

/// Whether the branch that is checked out may move with what was committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moves {
    /// The worktree is the host's own: what was committed lies there.
    Yes,
    /// The worktree's changes are kept apart, so commits are too.
    No,
    /// The same as yes if the index was not changed after this moment, at which its launcher was killed, and if that is known.
    IfUntouched(Option<SystemTime>),
}

/// The repository of a worktree, for one run. Its layer goes with the value, unless it is kept.
#[derive(Debug)]
pub(crate) struct Repository {
    worktree: PathBuf,
    place: Place,
    /// What was checked out on the host at launch.
    head: Head,
    /// What `.git` was at launch: device and inode.
    identity: (u64, u64),
    /// Where the layer, and what passes through, is kept.
    folder: PathBuf,
    moves: Moves,
    /// What is in the layer from the beginning.
    pinned: Vec<pinned::Pin>,
    /// What is below the layer, where others have worktrees of the same repository; none: the repository.
    view: Option<View>,
    is_kept: bool,
}

impl Drop for Repository {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = self.remove();
        }
    }
}

impl Repository {
    /// The repository of this worktree, with room for a layer below the run's folder; none if there is none.
    pub(crate) fn find(worktree: &Path, run_folder: &Path, moves: Moves) -> Result<Option<Self>, Unusable> {
        let Some(place) = Place::find(worktree)? else { return Ok(None) };
        let git = worktree.join(".git");
        let found = std::fs::symlink_metadata(&git).map_err(|error| Unusable::File(git, error))?;
        let folder = run_folder.join("git");
        let (identity, worktree) = ((found.dev(), found.ino()), worktree.to_owned());
        let (head, pinned) = (Head::Other, Vec::new());
        let mut made =
            Self { worktree, place, head, identity, folder, moves, pinned, view: None, is_kept: false };
        for path in [made.changes(), made.work()] {
            let make = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&path);
            make.map_err(|error| Unusable::File(path, error))?;
        }
        let failed = |error| Unusable::File(made.place.own.clone(), error);
        if view::is_ours(&made.place) {
            let _quiet = crate::changes::quiet(&made.worktree).map_err(failed)?;
            let (view, head) = View::make(&made.place, &made.shown()).map_err(failed)?;
            (made.view, made.head) = (Some(view), head);
            return Ok(Some(made));
        }
        (made.head, made.pinned) = match moves {
            Moves::Yes | Moves::IfUntouched(_) => {
                (refs::head(&made.place.own, &made.place.common).map_err(failed)?, Vec::new())
            }
            Moves::No => {
                let _quiet = crate::changes::quiet(&made.worktree).map_err(failed)?;
                pinned::pin(&made.place, &made.changes()).map_err(failed)?
            }
        };
        Ok(Some(made))
    }

    pub(crate) fn changes(&self) -> PathBuf {
        self.folder.join("changes")
    }

    fn work(&self) -> PathBuf {
        self.folder.join("work")
    }

    fn shown(&self) -> PathBuf {
        self.folder.join("view")
    }

    /// What is mounted for it: a layer over the repository, and the file that names it as it is.
    pub(crate) fn mounts(&self) -> Vec<Mount> {
        let common = &self.place.common;
        let layer = Mount {
            source: Source::Layer(Layer { stubs: None, changes: self.changes(), work: self.work() }),
            ..Mount::host(common, common, Access::Write)
        };
        let pointer = self.place.pointer.as_ref().map(|_| self.worktree.join(".git"));
        let pointer = pointer.map(|git| Mount::host(&git, &git, Access::Read));
        let below = match (&self.view, &pointer) {
            (Some(view), _) => Some(view.itself()),
            (None, Some(_)) => Some(Mount { owned: true, ..Mount::host(common, common, Access::Read) }),
            (None, None) => None,
        };
        let objects = self.view.iter().flat_map(View::objects);
        below.into_iter().chain([layer]).chain(pointer).chain(objects).collect()
    }

    /// Every commit that the inside knew at launch, as far as there is room: what it made leaves without these.
    fn known(&self) -> Vec<Id> {
        self.view.as_ref().map_or_else(|| refs::values(&self.place.common), View::values)
    }

    /// Whether `.git` of the worktree is still what it was at launch.
    pub(crate) fn is_as_it_was(&self) -> bool {
        let git = self.worktree.join(".git");
        let same =
            std::fs::symlink_metadata(&git).is_ok_and(|found| (found.dev(), found.ino()) == self.identity);
        let says = |pointer: &Vec<u8>| refs::small(&git).ok().flatten().as_ref() == Some(pointer);
        same && self.place.pointer.as_ref().is_none_or(says)
    }

    /// The same for a run whose launcher was killed, over the layer that it left; none if there is none any more. The layer stays until it
    /// is released.
    pub(crate) fn again(
        worktree: &Path,
        run_folder: &Path,
        noted: &note::Git,
        moves: Moves,
    ) -> Result<Option<Self>, Unusable> {
        let folder = run_folder.join("git");
        if folder.join("changes").symlink_metadata().is_err() {
            return Ok(None);
        }
        let git = worktree.join(".git");
        let failed = |error| Unusable::File(git.clone(), error);
        let place = Place::find(worktree)?.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        let found = std::fs::symlink_metadata(&git).map_err(failed)?;
        let is_same = Identity::of(&git).map_err(failed)? == noted.identity && place.pointer == noted.pointer;
        // What is not the same is nothing that there ever was.
        let identity = if is_same { (found.dev(), found.ino()) } else { (0, 0) };
        let id = |text: &String| refs::Id::parse(text.as_bytes());
        let head = match &noted.branch {
            Some((name, None)) => Head::Branch(name.clone(), None),
            Some((name, Some(text))) => {
                id(text).map_or(Head::Other, |id| Head::Branch(name.clone(), Some(id)))
            }
            None => Head::Other,
        };
        let view = match view::is_ours(&place) {
            true => Some(View::again(&place, &folder.join("view")).map_err(failed)?),
            false => None,
        };
        let (worktree, pinned) = (worktree.to_owned(), Vec::new());
        Ok(Some(Self { worktree, place, head, identity, folder, moves, pinned, view, is_kept: true }))
    }

    /// What must be known to do that.
    pub(crate) fn noted(&self) -> io::Result<note::Git> {
        let branch = match &self.head {
            Head::Branch(name, id) => Some((name.clone(), id.as_ref().map(|id| id.as_str().to_owned()))),
            Head::Other => None,
        };
        let identity = Identity::of(&self.worktree.join(".git"))?;
        Ok(note::Git { identity, pointer: self.place.pointer.clone(), branch })
    }

    /// Whether the branch moves with what was committed.
    fn may_move(&self) -> bool {
        match self.moves {
            Moves::Yes => true,
            Moves::No | Moves::IfUntouched(None) => false,
            Moves::IfUntouched(Some(since)) => {
                let changed =
                    std::fs::symlink_metadata(self.place.own.join("index")).ok().and_then(|found| {
                        let (seconds, nanoseconds) =
                            (u64::try_from(found.ctime()), u32::try_from(found.ctime_nsec()));
                        Some(UNIX_EPOCH + Duration::new(seconds.ok()?, nanoseconds.ok()?))
                    });
                changed.is_none_or(|changed| changed <= since)
            }
        }
    }

    /// What the sandbox that makes a bundle sees: the layer over the repository, and nothing of the worktree.
    fn bare_mounts(&self) -> Vec<Mount> {
        let common = &self.place.common;
        let below = Mount { owned: true, ..Mount::host(common, common, Access::Read) };
        let below = (self.place.pointer.is_none() && self.view.is_none()).then_some(below);
        below.into_iter().chain(self.mounts()).collect()
    }

    /// From now on somebody's work may be in the layer: it stays until that was taken over.
    pub(crate) fn hold(&mut self) {
        self.is_kept = true;
    }

    /// What was in the layer is taken over.
    pub(crate) fn release(&mut self) {
        self.is_kept = false;
    }

    /// Removes the layer, and the run's folder if that was all.
    fn remove(&self) -> io::Result<()> {
        ::files::remove::tree(&self.folder)?;
        if let Some(run) = self.folder.parent() {
            let _ = rustix::fs::rmdir(run);
        }
        Ok(())
    }
}

/// What was made to be shown of a repository; it goes with the value.
#[derive(Debug)]
pub(crate) struct Shown(PathBuf);

impl Drop for Shown {
    fn drop(&mut self) {
        let _ = ::files::remove::tree(&self.0);
    }
}

/// What is mounted of the repository of a worktree of which a part is given: to be read where all of it is, and nothing else.
pub(crate) fn cut(worktree: &Path, cut: &Cut, layer: &Path) -> Result<(Vec<Mount>, Option<Shown>), Unusable> {
    let Some(place) = Place::find(worktree)? else { return Ok((Vec::new(), None)) };
    let git = worktree.join(".git");
    let mut shown = None;
    let mounts = match (cut.shows_all(), cut.shows(Path::new(".git"))) {
        (true, _) => {
            let mut mounts = Vec::new();
            if view::is_ours(&place) {
                let failed = |error| Unusable::File(place.own.clone(), error);
                let folder = layer.join("view");
                shown = Some(Shown(folder.clone()));
                let _quiet = crate::changes::quiet(worktree).map_err(failed)?;
                let (view, _) = View::make(&place, &folder).map_err(failed)?;
                mounts.push(view.itself());
                mounts.extend(view.objects());
            } else if place.pointer.is_some() {
                mounts.push(Mount { owned: true, ..Mount::host(&place.common, &place.common, Access::Read) });
            }
            mounts.push(Mount { owned: true, ..Mount::host(&git, &git, Access::Read) });
            mounts
        }
        (false, true) => {
            vec![Mount { programs: false, ..Mount::own(Source::Nothing, git, Access::Read) }]
        }
        (false, false) => Vec::new(),
    };
    Ok((mounts, shown))
}

/// The `/etc/gitconfig` inside: who commits, and addresses that the proxy can carry.
///
/// `own` are the person's configuration files, the strongest last. They are read, not run: `include` is not followed.
pub(crate) fn settings(own: &[PathBuf]) -> Vec<u8> {
    let mut text = String::from(
        "[safe]\n\tdirectory = *\n\
         [url \"https://github.com/\"]\n\tinsteadOf = git@github.com:\n\tinsteadOf = ssh://git@github.com/\n",
    );
    let (mut name, mut address) = (None, None);
    for path in own {
        let entries =
            refs::small(path).ok().flatten().and_then(|bytes| config::parse(&bytes).ok()).unwrap_or_default();
        name = config::last(&entries, "user", "name").map(str::to_owned).or(name);
        address = config::last(&entries, "user", "email").map(str::to_owned).or(address);
    }
    text.push_str("[user]\n");
    for (key, value) in [("name", name), ("email", address)] {
        if let Some(value) = value.filter(|value| value.len() <= 1024) {
            text.push_str(&format!("\t{key} = {}\n", config::quoted(&value)));
        }
    }
    text.into_bytes()
}

/// A place for what goes to git, in a directory of ours.
fn exclusive(path: &Path) -> io::Result<File> {
    std::fs::OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// Where a person's own configuration is, the strongest last.
pub(crate) fn own_settings(
    home: &Path,
    base: Option<&OsStr>,
    repository: Option<&Repository>,
) -> Vec<PathBuf> {
    let base =
        base.map(PathBuf::from).filter(|base| base.is_absolute()).unwrap_or_else(|| home.join(".config"));
    let mut files = vec![base.join("git/config"), home.join(".gitconfig")];
    files.extend(repository.map(|repository| repository.place.common.join("config")));
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_inside_have_the_persons_name_and_nothing_else_of_theirs() {
        let home = tempfile::tempdir().unwrap();
        let (one, two) = (home.path().join("one"), home.path().join("two"));
        std::fs::write(&one, "[user]\nname = \"Ana \\\"A\\\" B\"\nemail = ana@old\n[alias]\nx = !evil\n")
            .unwrap();
        std::fs::write(&two, "[user]\nemail = ana@new\nsigningkey = K\n").unwrap();
        let text = String::from_utf8(settings(&[one, two, home.path().join("none")])).unwrap();
        assert!(text.ends_with("[user]\n\tname = \"Ana \\\"A\\\" B\"\n\temail = \"ana@new\"\n"), "{text}");
        assert!(!text.contains("evil") && !text.contains("signingkey"));
    }
}
