//! Reads the references of a repository of the host from its files: no process is started at launch.
//!
//! Flow: `HEAD`, `refs/`, `packed-refs` -> [`Head`] and the [`Id`]s that are known. Repositories with reftables have
//! none of these files; for them git is asked.

use std::io;
use std::path::Path;

use ::git::Git;

/// The most that is read of one file.
const MOST_BYTES: u64 = 64 << 20;
/// The most values that git is told to leave out: a bundle that lacks some is larger, not wrong.
pub(crate) const MOST_VALUES: usize = 16_000;

/// The name of an object: 40 or 64 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id(String);

impl Id {
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let is_hex = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
        let fits = matches!(text.len(), 40 | 64) && text.iter().all(is_hex);
        fits.then(|| Self(String::from_utf8_lossy(text).into_owned()))
    }

    /// What git says for "there is none", as long as this one.
    pub(crate) fn none_like(&self) -> String {
        "0".repeat(self.0.len())
    }

    /// The tree without entries, in the same format.
    pub(crate) fn empty_tree_like(&self) -> &'static str {
        if self.0.len() == 40 {
            "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
        } else {
            "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// What is checked out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// This branch, by its short name; without a commit before its first.
    Branch(String, Option<Id>),
    /// A commit, or something that is no branch.
    Other,
}

/// What is checked out where `own` is the git directory of the worktree and `common` that of the repository.
pub(crate) fn head(own: &Path, common: &Path) -> io::Result<Head> {
    if common.join("reftable").is_dir() {
        return asked(own);
    }
    let Some(bytes) = small(&own.join("HEAD"))? else { return Ok(Head::Other) };
    let name = bytes
        .strip_prefix(b"ref:")
        .map(<[u8]>::trim_ascii)
        .and_then(|name| name.strip_prefix(b"refs/heads/"));
    let Some(name) = name.filter(|name| is_branch(name)) else { return Ok(Head::Other) };
    let name = String::from_utf8_lossy(name).into_owned();
    let full = format!("refs/heads/{name}");
    if let Some(bytes) = small(&common.join(&full))? {
        // A branch that names another is not followed: it is never moved.
        return Ok(Id::parse(bytes.trim_ascii()).map_or(Head::Other, |id| Head::Branch(name, Some(id))));
    }
    let packed = small(&common.join("packed-refs"))?.unwrap_or_default();
    let found = packed_values(&packed).find(|(_, known)| *known == full.as_bytes()).map(|(id, _)| id);
    Ok(Head::Branch(name, found))
}

/// The commit that is checked out where no branch is; none if `HEAD` is anything else.
pub(crate) fn detached(own: &Path) -> io::Result<Option<Id>> {
    Ok(small(&own.join("HEAD"))?.and_then(|bytes| Id::parse(bytes.trim_ascii())))
}

fn asked(own: &Path) -> io::Result<Head> {
    let Some(git) = Git::find(own) else { return Ok(Head::Other) };
    let line = |arguments: &[&str]| git.line(own, arguments).map_err(io::Error::other);
    let Some(full) = line(&["symbolic-ref", "-q", "HEAD"])? else { return Ok(Head::Other) };
    let Some(name) = full.strip_prefix("refs/heads/").filter(|name| is_branch(name.as_bytes())) else {
        return Ok(Head::Other);
    };
    let id = line(&["rev-parse", "-q", "--verify", &full])?.and_then(|text| Id::parse(text.as_bytes()));
    Ok(Head::Branch(name.to_owned(), id))
}

/// The references that are files below a directory of ours, by their names there.
pub(crate) fn below(root: &Path) -> Vec<(String, Id)> {
    let (mut found, mut folders) = (Vec::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(root).ok().and_then(Path::to_str).map(str::to_owned);
            let id = small(&path).ok().flatten().and_then(|bytes| Id::parse(bytes.trim_ascii()));
            found.extend(name.zip(id));
        }
    }
    found
}

/// The references below a place of a repository of ours, by their whole names, in their order.
pub(crate) fn named(common: &Path, place: &str) -> io::Result<Vec<(String, Id)>> {
    let packed = small(&common.join("packed-refs"))?.unwrap_or_default();
    let packed = packed_values(&packed).filter_map(|(id, name)| Some((std::str::from_utf8(name).ok()?, id)));
    let mut all: std::collections::BTreeMap<String, Id> =
        packed.filter(|(name, _)| name.starts_with(place)).map(|(name, id)| (name.to_owned(), id)).collect();
    // A file of its own is newer than what is packed.
    all.extend(below(&common.join(place)).into_iter().map(|(name, id)| (format!("{place}{name}"), id)));
    Ok(all.into_iter().collect())
}

/// Every commit that a reference of the host names now, as far as there is room.
pub(crate) fn values(common: &Path) -> Vec<Id> {
    let mut found = Vec::new();
    if common.join("reftable").is_dir() {
        let lines = Git::find(common)
            .and_then(|git| git.line(common, &["for-each-ref", "--format=%(objectname)"]).ok());
        found.extend(
            lines.flatten().unwrap_or_default().lines().filter_map(|line| Id::parse(line.as_bytes())),
        );
    } else {
        let mut folders = vec![common.join("refs")];
        while let Some(folder) = folders.pop() {
            let Ok(entries) = std::fs::read_dir(&folder) else { continue };
            for entry in entries.flatten() {
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                    Ok(kind) if kind.is_file() => {
                        found.extend(
                            small(&entry.path())
                                .ok()
                                .flatten()
                                .and_then(|bytes| Id::parse(bytes.trim_ascii())),
                        );
                    }
                    _ => {}
                }
            }
        }
        let packed = small(&common.join("packed-refs")).ok().flatten().unwrap_or_default();
        found.extend(packed_values(&packed).map(|(id, _)| id));
        let own = small(&common.join("HEAD")).ok().flatten();
        found.extend(own.and_then(|bytes| Id::parse(bytes.trim_ascii())));
    }
    found.sort_unstable();
    found.dedup();
    found.truncate(MOST_VALUES);
    found
}

/// The lines `<id> <name>`.
fn packed_values(bytes: &[u8]) -> impl Iterator<Item = (Id, &[u8])> {
    bytes.split(|byte| *byte == b'\n').filter_map(|line| {
        let at = line.iter().position(|byte| *byte == b' ')?;
        let (id, name) = line.split_at_checked(at)?;
        Some((Id::parse(id)?, name.trim_ascii()))
    })
}

/// Whether git would take this for the name of a branch, and a terminal would show it as it is.
pub(crate) fn is_branch(name: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(name) else { return false };
    let part = |part: &str| !part.is_empty() && !part.starts_with(['.', '-']) && !part.ends_with(".lock");
    let bad = |c: char| c.is_control() || c.is_whitespace() || "~^:?*[\\".contains(c);
    !text.is_empty()
        && text.len() <= 200
        && !text.contains(bad)
        && !text.contains("..")
        && !text.contains("@{")
        && !text.ends_with('.')
        && text != "@"
        && text.split('/').all(part)
}

/// A file that is a file; none if there is nothing.
pub(crate) fn small(path: &Path) -> io::Result<Option<Vec<u8>>> {
    use std::io::Read;
    use std::os::unix::fs::OpenOptionsExt;
    let file = match std::fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let found = file.metadata()?;
    if !found.is_file() {
        return Ok(None);
    }
    if found.len() > MOST_BYTES {
        return Err(io::Error::other("is too large to be what its name says"));
    }
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_branches_cannot_point_elsewhere_or_move_a_cursor() {
        for good in ["main", "feature/one", "über", "a.b", "x@y"] {
            assert!(is_branch(good.as_bytes()), "{good}");
        }
        let bad: [&[u8]; 17] = [
            b"",
            b"../x",
            b"a/../b",
            b"a..b",
            b".a",
            b"a/.b",
            b"a.lock",
            b"a/",
            b"/a",
            b"a//b",
            b"-x",
            b"a b",
            b"a\nb",
            b"a\x1b[2J",
            b"a\0b",
            b"a~1",
            b"\xff",
        ];
        for bad in bad {
            assert!(!is_branch(bad), "{bad:?}");
        }
    }

    #[test]
    fn packed_references_are_read() {
        let id = "a".repeat(40);
        let text = format!("# pack-refs with: peeled\n{id} refs/heads/main\n{id} refs/tags/v1\n^{id}\n");
        let names: Vec<_> = packed_values(text.as_bytes()).map(|(_, name)| name.to_vec()).collect();
        assert_eq!(names, [b"refs/heads/main".to_vec(), b"refs/tags/v1".to_vec()]);
    }
}
