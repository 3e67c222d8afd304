//! What is shown of a repository of the daemon's, which many have worktrees of that must not see each other: a git directory made
//! for one run, in which only its own worktree and branch are, and what came from the origin.
//!
//! Flow: the git directory of the repository -> [`View`], files in the run's folder that are mounted in its place, with stores of objects
//! below it that are only read ([`Stores`]): of a worktree its own and the origin's; of the repository itself, where the daemon
//! fetches and pushes, all. Invariants: no reference, index or log of another worktree is in it, and no object of one in that of a
//! worktree; it is of one moment, whatever others do to the repository meanwhile. Not here: a person's own repository, which is shown as it
//! is ([`super::Repository`]).

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use ::git::{Git, Stores};

use super::config;
use super::place::Place;
use super::refs::{self, Head, Id};
use crate::plan::{Access, Mount};

/// What is shown of the worktree's own directory.
const OWN: [&str; 4] = ["HEAD", "commondir", "gitdir", "index"];
/// Branches of where it came from.
const THEIRS: &str = "refs/remotes/";
/// Where all objects are for the repository itself: beside its own, so that what they say of other places is right.
const ALL: &str = "all";

/// What is mounted in the place of a repository.
#[derive(Debug)]
pub(super) struct View {
    folder: PathBuf,
    common: PathBuf,
    stores: Stores,
    /// The name of the worktree's own directory; none: it is for the repository itself.
    tree: Option<String>,
}

/// Whether a repository is one of the daemon's.
pub(super) fn is_ours(place: &Place) -> bool {
    let says = || {
        let entries = config::parse(&refs::small(&place.common.join("config")).ok()??).ok()?;
        config::last(&entries, "palisade", "origin").map(drop)
    };
    Stores::are_in(&place.common) || says().is_some()
}

impl View {
    /// Makes it in a directory that is not there yet; what is checked out. Nobody applies anything meanwhile.
    pub(super) fn make(place: &Place, folder: &Path) -> io::Result<(Self, Head)> {
        let made = Self::of(place, folder)?;
        let head = refs::head(&place.own, &place.common)?;
        let theirs = refs::named(&place.common, THEIRS)?;
        let writes = Writes { folder, like: std::fs::metadata(&place.common)? };
        for path in ["", "objects/pack", "objects/info", "refs/heads", "refs/tags"] {
            writes.folder(Path::new(path))?;
        }
        for file in ["HEAD", "config"] {
            writes.copy(&place.common.join(file), Path::new(file))?;
        }
        let mut packed = String::from("# pack-refs with: sorted\n");
        packed.extend(theirs.iter().map(|(name, id)| format!("{} {name}\n", id.as_str())));
        writes.file(Path::new("packed-refs"), packed.as_bytes())?;
        if let Some(tree) = &made.tree {
            let known: Vec<String> = theirs.iter().map(|(_, id)| id.as_str().to_owned()).collect();
            let tip = match &head {
                Head::Branch(_, tip) => tip.clone(),
                Head::Other => refs::detached(&place.own)?,
            };
            let tip = tip.as_ref().map(Id::as_str);
            made.stores.complete_own(tree, tip, &known).map_err(io::Error::other)?;
            if let Head::Branch(name, Some(id)) = &head {
                let line = format!("{}\n", id.as_str());
                writes.file(&Path::new("refs/heads").join(name), line.as_bytes())?;
            }
            let own = Path::new("worktrees").join(tree);
            for file in OWN {
                writes.copy(&place.own.join(file), &own.join(file))?;
            }
        }
        let mut alternates = String::new();
        for (_, at) in made.places() {
            let at = at.strip_prefix(&place.common).map_err(io::Error::other)?;
            writes.folder(at)?;
            // What holds other stores is none itself.
            if place.common.join(at) != made.stores.all() {
                alternates.push_str(&format!("../{}\n", at.display()));
            }
        }
        writes.file(Path::new("objects/info/alternates"), alternates.as_bytes())?;
        Ok((made, head))
    }

    /// The one that was made for a run whose launcher was killed.
    pub(super) fn again(place: &Place, folder: &Path) -> io::Result<Self> {
        std::fs::symlink_metadata(folder)?;
        Self::of(place, folder)
    }

    fn of(place: &Place, folder: &Path) -> io::Result<Self> {
        let stores = Stores::of(&place.common).map_err(io::Error::other)?;
        let tree = match place.own == place.common {
            true => None,
            false => {
                let name = place.own.file_name().and_then(std::ffi::OsStr::to_str);
                let odd = || io::Error::other("its directory has a name that cannot be used");
                Some(name.ok_or_else(odd)?.to_owned())
            }
        };
        Ok(Self { folder: folder.to_owned(), common: place.common.clone(), stores, tree })
    }

    /// Objects, and where they are inside.
    fn places(&self) -> [(PathBuf, PathBuf); 2] {
        let same = |path: PathBuf| (path.clone(), path);
        match &self.tree {
            Some(tree) => [same(self.stores.base()), same(self.stores.own(tree))],
            None => [same(self.stores.all()), (self.common.join("objects"), self.common.join(ALL))],
        }
    }

    /// Every commit that is known in it.
    pub(super) fn values(&self) -> Vec<Id> {
        refs::values(&self.folder)
    }

    /// git, as it takes over what comes out: it puts what is new where it belongs.
    pub(super) fn takes(&self) -> Git {
        match &self.tree {
            Some(tree) => self.stores.filling(&self.stores.own(tree)),
            None => self.stores.filling(&self.stores.base()),
        }
    }

    /// Where that is which what comes out may be built on: the worktree's and the origin's, and nobody else's.
    pub(super) fn grounds(&self) -> Vec<PathBuf> {
        let own = self.tree.iter().map(|tree| self.stores.own(tree));
        own.chain([self.stores.base()]).collect()
    }

    /// Where something can be put for a moment that only the daemon writes.
    pub(super) fn room(&self) -> PathBuf {
        self.stores.all()
    }

    /// It, in the place of the repository.
    pub(super) fn itself(&self) -> Mount {
        Mount { owned: true, ..Mount::host(&self.folder, &self.common, Access::Read) }
    }

    /// The objects that are below it.
    pub(super) fn objects(&self) -> [Mount; 2] {
        self.places().map(|(from, at)| Mount {
            owned: true,
            programs: false,
            ..Mount::host(from, at, Access::Read)
        })
    }
}

/// Makes files that belong to whom those belong that they stand for.
struct Writes<'a> {
    folder: &'a Path,
    like: std::fs::Metadata,
}

impl Writes<'_> {
    fn folder(&self, path: &Path) -> io::Result<()> {
        let (mut at, mut all) = (self.folder.to_owned(), vec![self.folder.to_owned()]);
        for part in path.components() {
            at.push(part);
            all.push(at.clone());
        }
        for path in all {
            match std::fs::create_dir(&path) {
                Ok(()) => {
                    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
                    self.hand_over(&path)?;
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn file(&self, path: &Path, mut bytes: &[u8]) -> io::Result<()> {
        self.put(path, &mut bytes).map(drop)
    }

    /// What is not there is not there.
    fn copy(&self, from: &Path, path: &Path) -> io::Result<()> {
        let mut from = match File::open(from) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        };
        let file = self.put(path, &mut from)?;
        // git tells by the time of its index which files it must look at.
        file.set_modified(from.metadata()?.modified()?)
    }

    fn put(&self, path: &Path, from: &mut dyn io::Read) -> io::Result<File> {
        if let Some(above) = path.parent() {
            self.folder(above)?;
        }
        let path = self.folder.join(path);
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).open(&path)?;
        io::copy(from, &mut file)?;
        file.flush()?;
        file.set_permissions(std::fs::Permissions::from_mode(0o644))?;
        self.hand_over(&path)?;
        Ok(file)
    }

    fn hand_over(&self, path: &Path) -> io::Result<()> {
        match rustix::process::geteuid().is_root() {
            true => std::os::unix::fs::lchown(path, Some(self.like.uid()), Some(self.like.gid())),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git(folder: &Path, arguments: &[&str]) -> String {
        let mut command = std::process::Command::new("git");
        command.env_clear().env("PATH", "/usr/bin:/bin").current_dir(folder);
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "Ana").env(format!("GIT_{who}_EMAIL"), "ana@host.example");
        }
        let out = command.args(arguments).output().unwrap();
        assert!(out.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).trim_end().to_owned()
    }

    #[test]
    fn adv_g04_a_worktree_on_no_branch_has_what_is_checked_out() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        ::git::Repository::make(&root.join("ours")).unwrap();
        let tree = root.join("tree");
        let path = tree.display().to_string();
        let ours = root.join("ours");
        let zero = git(&ours, &["commit-tree", "4b825dc642cb6eb9a060e54bf8d69288fbee4904", "-m", "zero"]);
        git(&ours, &["worktree", "add", "-q", "-b", "mine", &path, &zero]);
        std::fs::write(tree.join("file"), "one\n").unwrap();
        git(&tree, &["add", "file"]);
        git(&tree, &["commit", "-qm", "one"]);
        let tip = git(&tree, &["rev-parse", "HEAD"]);
        git(&tree, &["checkout", "-q", "--detach"]);
        let place = Place::find(&tree).unwrap().unwrap();
        let (view, head) = View::make(&place, &root.join("view")).unwrap();
        assert_eq!(head, Head::Other);
        let there = root.join("there");
        git(&root, &["init", "-q", "--bare", "there"]);
        let grounds: String = view.grounds().iter().map(|ground| format!("{}\n", ground.display())).collect();
        std::fs::write(there.join("objects/info/alternates"), grounds).unwrap();
        assert_eq!(git(&there, &["show", &format!("{tip}:file")]), "one");
    }
}
