//! A part of a worktree: what of it is there inside, and what of that may be changed.
//!
//! Flow: words such as `ro:/src` (`/` is the worktree) -> [`Cut`] -> mounts over the worktree's layer: a skeleton with nothing in it,
//! and on that the parts that are given.
//!
//! Invariants: what is not given is not there, also what appears later; no link leads to a part; what is kept out stays out; a control file is
//! never more than read. Not here: who is given what (`access`), the repository ([`crate::repo`]).

use std::io;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::plan::{Access, Mount, Source};
use crate::profile::Protected;

/// Text that is no part of a worktree.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no part of a worktree: expected `ro:/path` or `rw:/path`, or `/path` to keep it out, without `.`, `..` or `//`"
)]
pub struct BadPart(String);

/// A part of a worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Paths below the worktree, the shortest first; the empty one is all of it.
    gives: Vec<(PathBuf, Access)>,
    keeps_out: Vec<PathBuf>,
}

/// What is at a path of a worktree.
enum There {
    Folder,
    File,
    /// Nothing, or nothing that could be given.
    Nothing,
}

impl Cut {
    /// What is given, less what is kept out.
    ///
    /// # Errors
    /// Which of the words is no part.
    pub fn parse(given: &[String], kept_out: &[String]) -> Result<Self, BadPart> {
        let mut gives = Vec::new();
        for word in given {
            let (access, path) = match word.split_once(':') {
                Some(("ro", path)) => (Access::Read, path),
                Some(("rw", path)) => (Access::Write, path),
                _ => return Err(BadPart(word.clone())),
            };
            gives.push((below(path).ok_or_else(|| BadPart(word.clone()))?, access));
        }
        gives.sort_by_key(|(path, _)| path.components().count());
        let keeps_out = kept_out.iter().map(|word| below(word).ok_or_else(|| BadPart(word.clone())));
        Ok(Self { gives, keeps_out: keeps_out.collect::<Result<_, _>>()? })
    }

    /// Whether it is the whole worktree, to be written.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.keeps_out.is_empty() && self.is_given(Path::new(""), Access::Write)
    }

    /// Whether everything can be read: then so can its history.
    pub(crate) fn shows_all(&self) -> bool {
        self.keeps_out.is_empty() && self.shows(Path::new(""))
    }

    /// Whether a path below the worktree is there inside.
    pub(crate) fn shows(&self, path: &Path) -> bool {
        self.is_given(path, Access::Read) && !self.keeps_out.iter().any(|out| path.starts_with(out))
    }

    fn is_given(&self, path: &Path, access: Access) -> bool {
        let gives = |(part, given): &(PathBuf, Access)| {
            path.starts_with(part) && (access == Access::Read || *given == Access::Write)
        };
        self.gives.iter().any(gives)
    }

    /// The mounts over the layer of a worktree. `stub` makes an empty directory below the layer for a path that is not there.
    pub(crate) fn mounts(
        &self,
        worktree: &Path,
        protect: &[Protected],
        stub: &dyn Fn(&Path) -> io::Result<bool>,
    ) -> io::Result<Vec<Mount>> {
        let mut skeleton: Vec<(PathBuf, bool)> = Vec::new();
        let mut parts: Vec<(&Path, Access)> = Vec::new();
        for (path, access) in self.gives.iter().filter(|(path, _)| self.shows(path)) {
            let is_folder = match there(worktree, path)? {
                There::Folder => true,
                There::File => false,
                There::Nothing => continue,
            };
            if !parts.iter().any(|(above, _)| path.starts_with(above)) {
                skeleton.push((path.clone(), is_folder));
            }
            let first = path.components().next();
            let is_git = first.is_some_and(|first| first.as_os_str().eq_ignore_ascii_case(".git"));
            let is_control = is_git || protect.iter().any(|one| one.holds(path));
            parts.push((path, if is_control { Access::Read } else { *access }));
        }
        if parts.is_empty() {
            return Err(io::Error::other("nothing of what is given of this worktree is there"));
        }
        let mut mounts = Vec::new();
        if parts.iter().all(|(path, _)| !path.as_os_str().is_empty()) {
            mounts.push(Mount {
                programs: false,
                ..Mount::own(Source::Skeleton(skeleton), worktree, Access::Read)
            });
        }
        for (path, access) in parts {
            let source = Source::Part { layer: worktree.to_owned(), path: path.to_owned() };
            mounts.push(Mount::own(source, at(worktree, path), access));
        }
        for out in self.keeps_out.iter().filter(|out| self.is_given(out, Access::Read)) {
            let nothing =
                || Mount { programs: false, ..Mount::own(Source::Nothing, at(worktree, out), Access::Read) };
            match std::fs::symlink_metadata(worktree.join(out)) {
                Ok(found) if found.is_symlink() => {
                    let why = format!("`{}` is a link, so it cannot be kept out", out.display());
                    return Err(io::Error::other(why));
                }
                Ok(_) => mounts.push(nothing()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    if stub(out)? {
                        mounts.push(nothing());
                    }
                }
                // What is above it is no directory: it cannot be made.
                Err(error) if error.kind() == io::ErrorKind::NotADirectory => {}
                Err(error) => return Err(error),
            }
        }
        Ok(mounts)
    }
}

/// A place below the worktree, or the worktree.
fn at(worktree: &Path, path: &Path) -> PathBuf {
    if path.as_os_str().is_empty() { worktree.to_owned() } else { worktree.join(path) }
}

/// A path as it is written, below the worktree.
fn below(text: &str) -> Option<PathBuf> {
    let rest = text.strip_prefix('/')?;
    let is_plain = rest.split('/').all(|part| !matches!(part, "" | "." | "..")) && !rest.contains('\0');
    let path = PathBuf::from(rest);
    let is_below = path.components().all(|part| matches!(part, Component::Normal(_)));
    (rest.is_empty() || (is_plain && is_below)).then_some(path)
}

/// What is at a path, without following a link.
fn there(worktree: &Path, path: &Path) -> io::Result<There> {
    let open = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let root = rustix::fs::open(worktree, open | OFlags::DIRECTORY, Mode::empty())?;
    if path.as_os_str().is_empty() {
        return Ok(There::Folder);
    }
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let found = match rustix::fs::openat2(&root, path, open, Mode::empty(), resolve) {
        Ok(found) => found,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(There::Nothing),
        Err(error) => return Err(error.into()),
    };
    Ok(match FileType::from_raw_mode(rustix::fs::fstat(&found)?.st_mode) {
        FileType::Directory => There::Folder,
        FileType::RegularFile => There::File,
        _ => There::Nothing,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(all: &[&str]) -> Vec<String> {
        all.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn acc_26_what_is_no_part_is_refused() {
        for bad in [
            "",
            "src",
            "/src",
            "rw:src",
            "rw:",
            "rx:/src",
            "rw:/a/../b",
            "rw:/./a",
            "rw://a",
            "rw:/a/",
            "rw:/a\0",
        ] {
            assert!(Cut::parse(&words(&[bad]), &[]).is_err(), "{bad:?}");
        }
        for bad in ["", "a", "rw:/a", "/a/..", "/a/"] {
            assert!(Cut::parse(&words(&["rw:/"]), &words(&[bad])).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn acc_26_of_a_tree_only_what_is_given_is_there() {
        let cut = Cut::parse(&words(&["rw:/src", "ro:/docs/a.md", "ro:/src/own"]), &words(&["/src/own/key"]))
            .unwrap();
        for (path, is_there) in [
            ("src", true),
            ("src/deep/x", true),
            ("srcs", false),
            ("", false),
            ("docs", false),
            ("docs/a.md", true),
            ("docs/a.md2", false),
            ("src/own", true),
            ("src/own/key", false),
            ("src/own/key/below", false),
        ] {
            assert_eq!(cut.shows(Path::new(path)), is_there, "{path}");
        }
        assert!(!cut.is_whole() && !cut.shows_all());
        let all = |given: &[&str], out: &[&str]| Cut::parse(&words(given), &words(out)).unwrap();
        assert!(all(&["rw:/"], &[]).is_whole());
        assert!(all(&["ro:/", "rw:/src"], &[]).shows_all() && !all(&["ro:/"], &[]).is_whole());
        assert!(!all(&["rw:/"], &["/x"]).is_whole() && !all(&["rw:/"], &["/x"]).shows_all());
    }

    /// What is given and kept out is kept out; links lead nowhere; a control file is read at most.
    #[test]
    fn acc_26_the_mounts_of_a_part_are_what_is_given_less_what_is_kept_out() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path();
        for name in ["src", "secret", ".vscode", ".git"] {
            std::fs::create_dir(tree.join(name)).unwrap();
        }
        std::fs::write(tree.join("one.txt"), "").unwrap();
        std::os::unix::fs::symlink("secret", tree.join("link")).unwrap();
        let protect = [Protected::parse(".vscode/").unwrap()];
        let made = |given: &[&str], out: &[&str]| {
            let cut = Cut::parse(&words(given), &words(out)).unwrap();
            let mounts = cut.mounts(tree, &protect, &|_| Ok(true))?;
            let one = |mount: &Mount| {
                let at = mount.at.strip_prefix(tree).unwrap().display().to_string();
                let kind = match &mount.source {
                    Source::Skeleton(_) => "skeleton",
                    Source::Part { .. } => "part",
                    _ => "nothing",
                };
                let write = if mount.access == Access::Write { " rw" } else { "" };
                format!("{kind} {at}{write}")
            };
            io::Result::Ok(mounts.iter().map(one).collect::<Vec<_>>())
        };
        assert_eq!(
            made(&["rw:/src", "ro:/one.txt"], &[]).unwrap(),
            ["skeleton ", "part src rw", "part one.txt"]
        );
        assert_eq!(
            made(&["ro:/", "rw:/src"], &["/secret"]).unwrap(),
            ["part ", "part src rw", "nothing secret"]
        );
        assert_eq!(
            made(&["rw:/src", "rw:/link", "rw:/gone"], &["/src/new"]).unwrap(),
            ["skeleton ", "part src rw", "nothing src/new"]
        );
        assert_eq!(
            made(&["rw:/.vscode", "rw:/.git"], &[]).unwrap(),
            ["skeleton ", "part .vscode", "part .git"]
        );
        assert!(made(&["rw:/src"], &["/src"]).is_err(), "nothing is left");
        assert!(made(&["rw:/link/x", "rw:/gone"], &[]).is_err());
        assert!(made(&["rw:/"], &["/link"]).is_err(), "a link cannot be covered");
    }
}
