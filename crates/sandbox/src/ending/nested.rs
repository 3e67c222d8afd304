//! Git directories below the root of a worktree: a nested `.git`, and any directory that git takes for a repository.
//!
//! Flow: what changed in one -> which of its parts are put away. git starts programs that the configuration names and
//! hooks that lie there, also for a mere `git status` from a shell prompt. One that was there before keeps its commits;
//! only what can start something goes.
//!
//! Invariant: a configuration that this reader does not understand, or with a key that is not known to be harmless,
//! counts as harmful.

use std::ffi::{CStr, OsStr};
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{Dir, FileType, Mode, OFlags};

use super::stamp::{Seen, Stamp};
use super::walk::{Found, readable};
use crate::repo::config;

pub(super) const WHY: &str = "git runs programs that its config names, also from a shell prompt";

/// Which of the parts of a repository a directory has.
#[derive(Default)]
pub(super) struct Parts {
    head: bool,
    objects: bool,
    refs: bool,
    elsewhere: bool,
}

impl Parts {
    pub(super) fn note(&mut self, name: &[u8]) {
        match name {
            b"HEAD" => self.head = true,
            b"objects" => self.objects = true,
            b"refs" => self.refs = true,
            b"commondir" => self.elsewhere = true,
            _ => {}
        }
    }

    /// Whether git takes the directory for a repository, under whatever name.
    pub(super) fn make_a_repository(&self) -> bool {
        self.head && (self.elsewhere || (self.objects && self.refs))
    }
}

/// What is to be put away of a git directory that was there before, or that is no `.git`.
///
/// `may_be_moved` says that what is old in it may be new at this place. `strict` holds for a `.git`: a bare repository
/// that a test suite made may have settings, as long as they are harmless.
pub(super) fn judge(
    folder: BorrowedFd<'_>,
    path: &Path,
    own: Seen,
    may_be_moved: bool,
    strict: bool,
    since: Stamp,
) -> Vec<Found> {
    let mut found = Vec::new();
    let mut find =
        |name: &Path, why: &str| found.push(Found { path: path.join(name), why: why.into(), moves: true });
    let changed = |name: &CStr| Seen::at(folder, name, since).is_ok_and(|seen| seen.is_changed);
    let is_harmful = || !is_harmless(folder, strict);
    if if changed(c"config") { strict || is_harmful() } else { (may_be_moved || own.is_new) && is_harmful() }
    {
        find(Path::new("config"), WHY);
    }
    for name in [c"config.worktree", c"commondir", c"gitdir"] {
        if changed(name) || (may_be_moved && !strict && Seen::at(folder, name, since).is_ok()) {
            find(Path::new(OsStr::from_bytes(name.to_bytes())), "points git at another configuration");
        }
    }
    if changed(c"objects/info/alternates") {
        find(Path::new("objects/info/alternates"), "points git at objects elsewhere");
    }
    match Seen::at(folder, c"hooks", since) {
        Ok(seen) if seen.kind == FileType::Directory => {
            let hooks =
                readable(folder, c"hooks").and_then(|hooks| hooks_in(hooks.as_fd(), may_be_moved, since));
            match hooks {
                Ok(names) => names
                    .iter()
                    .for_each(|name| find(&Path::new("hooks").join(OsStr::from_bytes(name)), "git runs it")),
                Err(_) => find(Path::new("hooks"), "git runs what is in it"),
            }
        }
        Ok(seen) if seen.is_changed => find(Path::new("hooks"), "git runs what is in it"),
        _ => {}
    }
    found
}

/// Hooks that changed; all, if they may be new here.
fn hooks_in(hooks: BorrowedFd<'_>, all: bool, since: Stamp) -> rustix::io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(hooks)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_idle = matches!(name.to_bytes(), b"." | b"..") || name.to_bytes().ends_with(b".sample");
        if !is_idle && (all || Seen::at(hooks, name, since).is_ok_and(|seen| seen.is_changed)) {
            names.push(name.to_bytes().to_vec());
        }
    }
    Ok(names)
}

/// Settings that start nothing and point nowhere.
const HARMLESS: [(&str, &[&str]); 10] = [
    (
        "core",
        &[
            "abbrev",
            "autocrlf",
            "bare",
            "compression",
            "eol",
            "filemode",
            "ignorecase",
            "logallrefupdates",
            "precomposeunicode",
            "quotepath",
            "repositoryformatversion",
            "safecrlf",
            "sharedrepository",
            "symlinks",
        ],
    ),
    ("user", &["name", "email"]),
    ("init", &["defaultbranch"]),
    ("remote", &["fetch", "url", "tagopt", "prune", "mirror"]),
    ("branch", &["remote", "merge", "rebase", "description"]),
    ("submodule", &["url", "active", "branch"]),
    ("extensions", &["objectformat", "refstorage"]),
    ("pull", &["rebase", "ff"]),
    ("push", &["default"]),
    ("receive", &["denycurrentbranch", "denynonfastforwards", "denydeletes", "fsckobjects"]),
];

fn is_harmless(folder: BorrowedFd<'_>, is_named: bool) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(folder, "config", flags, Mode::empty()) {
        Ok(file) => std::fs::File::from(file),
        Err(rustix::io::Errno::NOENT) => return true,
        Err(_) => return false,
    };
    let mut bytes = Vec::new();
    let is_read = file.metadata().is_ok_and(|found| found.is_file())
        && file.take(1 << 20).read_to_end(&mut bytes).is_ok_and(|got| got < 1 << 20);
    let Ok(entries) = config::parse(&bytes) else { return false };
    is_read && entries.iter().all(|entry| is_idle(entry, is_named))
}

fn is_idle(entry: &config::Entry, is_named: bool) -> bool {
    let known = HARMLESS
        .iter()
        .any(|(section, keys)| entry.section == *section && keys.contains(&entry.key.as_str()));
    // Only a bare one has no worktree whose status could be asked for.
    let has_worktree = entry.section == "core" && entry.key == "bare" && entry.value != "true";
    known && !entry.value.contains("::") && (is_named || !has_worktree)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_settings_that_are_known_to_start_nothing_are_harmless() {
        let home = tempfile::tempdir().unwrap();
        let folder = std::fs::File::open(home.path()).unwrap();
        let bare = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n";
        assert!(is_harmless(folder.as_fd(), false));
        for (text, is_named, expected) in [
            (bare.to_owned(), false, true),
            (bare.replace("true", "false"), true, true),
            (bare.replace("bare = true", "bare = false"), false, false),
            (format!("{bare}[remote \"o\"]\n\turl = /x\n"), false, true),
            (format!("{bare}[remote \"o\"]\n\turl = ext::sh -c x\n"), false, false),
            (format!("{bare}[core]\n\tfsmonitor = x\n"), true, false),
            (format!("{bare}[core]\n\tworktree = ..\n"), true, false),
            (format!("{bare}[alias]\n\ts = !x\n"), true, false),
            (format!("{bare}[include]\n\tpath = x\n"), true, false),
            (format!("{bare}[filter \"x\"]\n\tclean = x\n"), true, false),
            (format!("{bare}[extensions]\n\tworktreeConfig = true\n"), true, false),
            (format!("{bare}[core\n"), true, false),
        ] {
            std::fs::write(home.path().join("config"), &text).unwrap();
            assert_eq!(is_harmless(folder.as_fd(), is_named), expected, "{text}");
        }
    }
}
