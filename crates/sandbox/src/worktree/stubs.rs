//! Stubs on the host, and which run relies on which of them.
//!
//! Flow: [`Stubs::begin`] (removes what dead runs left, reads what living ones rely on) -> [`Stubs::make`] ->
//! [`Stubs::end`]. The book of a worktree is a directory, `<state>/stubs/<hash>`, with a page for each run: a file of
//! paths, each ended by a zero. Whoever reads or changes the book holds a lock on the directory; a run is alive as long
//! as its page is locked, and the kernel lets that lock go when the launcher dies.
//!
//! Invariants: a stub is an empty directory that is on a page before it is made; it is removed by `rmdir`, which
//! removes nothing else, and only when no living run has it on its page. It is never used again: another run that sees
//! the worktree from above may still hold it open.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

const MODE: Mode = Mode::from_raw_mode(0o755);

/// Stubs of one run; removed with the value, as far as nobody else relies on them.
#[derive(Debug, Default)]
pub struct Stubs(Option<Page>);

/// The page of one run.
#[derive(Debug)]
struct Page {
    book: PathBuf,
    name: PathBuf,
    file: File,
    /// What other living runs rely on.
    others: BTreeSet<PathBuf>,
}

/// What is still there after the end of a run.
#[derive(Debug, Default)]
pub(crate) struct Left {
    /// Somebody put something into these.
    pub(crate) filled: Vec<PathBuf>,
    /// Other runs rely on these.
    pub(crate) shared: Vec<PathBuf>,
}

/// The lock on a book; let go with the value.
pub(crate) struct Open(#[expect(dead_code, reason = "held, not used")] OwnedFd);

impl Stubs {
    /// Opens the book of a worktree and begins a page in it, named for the run.
    pub(crate) fn begin(books: &Path, worktree: &Path, run: &OsStr) -> io::Result<(Self, Open)> {
        let book = book_of(books, worktree);
        let open = lock(&book)?;
        let others = clean(&book, None)?;
        // Two that have no run of their own must still differ.
        let mut own = run.to_owned();
        own.push(format!(".{}", std::process::id()));
        let name = book.join(own);
        let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&name)?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok((Self(Some(Page { book, name, file, others })), open))
    }

    /// Whether another living run made this one.
    pub(crate) fn is_shared(&self, at: &Path) -> bool {
        self.0.as_ref().is_some_and(|page| page.others.contains(at))
    }

    /// Relies on a stub that is there.
    pub(crate) fn note(&self, at: &Path) -> io::Result<()> {
        self.note_all(std::iter::once(at))
    }

    /// Relies on these, or will: what is on the page and was never made does no harm.
    pub(crate) fn note_all<'a>(&self, all: impl Iterator<Item = &'a Path>) -> io::Result<()> {
        let Some(page) = &self.0 else { return Ok(()) };
        let lines: Vec<u8> =
            all.flat_map(|at| at.as_os_str().as_bytes().iter().copied().chain([0])).collect();
        (&page.file).write_all(&lines)
    }

    /// What keeps the page locked.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(|page| page.file.as_fd())
    }

    /// The book, held open.
    pub(crate) fn hold_book(&self) -> Option<OwnedFd> {
        let page = self.0.as_ref()?;
        rustix::fs::open(&page.book, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()
    }

    /// Makes a stub.
    pub(crate) fn make(&self, at: &Path) -> io::Result<()> {
        self.make_all(&[at.to_owned()])
    }

    /// Makes many.
    pub(crate) fn make_all(&self, all: &[PathBuf]) -> io::Result<()> {
        self.note_all(all.iter().map(PathBuf::as_path))?;
        let mut folders = Folders::default();
        for at in all {
            let (above, name) = folders.of(at)?;
            rustix::fs::mkdirat(above, name, MODE)?;
        }
        Ok(())
    }

    /// Removes what nobody relies on.
    pub(crate) fn end(&mut self) -> io::Result<Left> {
        let Some(page) = self.0.take() else { return Ok(Left::default()) };
        let _open = lock(&page.book)?;
        let others = clean(&page.book, Some(&page.name))?;
        let own = read(&page.name)?;
        let shared = own.iter().filter(|path| others.contains(*path)).cloned().collect();
        let left = Left { filled: remove(&own, &others), shared };
        fs::remove_file(&page.name)?;
        // Only when it was the last page.
        let _ = rustix::fs::rmdir(&page.book);
        Ok(left)
    }
}

impl Drop for Stubs {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Removes what runs that died left in any worktree, and their control groups; names what was removed in worktrees. For
/// `palisade doctor`.
#[must_use]
pub fn sweep(state: &Path) -> Vec<PathBuf> {
    crate::groups::sweep();
    let mut removed = Vec::new();
    for book in fs::read_dir(state.join("stubs")).into_iter().flatten().flatten() {
        let book = book.path();
        let Ok(_open) = lock(&book) else { continue };
        let before: Vec<PathBuf> =
            pages(&book).into_iter().flatten().flat_map(|page| read(&page).unwrap_or_default()).collect();
        if clean(&book, None).is_ok() {
            removed.extend(before.into_iter().filter(|path| path.symlink_metadata().is_err()));
        }
        let _ = rustix::fs::rmdir(&book);
    }
    removed
}

/// What living runs rely on in a worktree; what dead ones left there is removed.
pub(crate) fn relied_on(books: &Path, worktree: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let book = book_of(books, worktree);
    if !book.exists() {
        return Ok(BTreeSet::new());
    }
    let _open = lock(&book)?;
    let relied = clean(&book, None)?;
    // Only when there is no page in it.
    let _ = rustix::fs::rmdir(&book);
    Ok(relied)
}

fn book_of(books: &Path, worktree: &Path) -> PathBuf {
    let hash = crate::profile::ContentHash::of(worktree.as_os_str().as_bytes()).to_string();
    books.join(hash.get(..24).unwrap_or(&hash))
}

/// Locks a book; made when there is none.
fn lock(book: &Path) -> io::Result<Open> {
    loop {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(book)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = match rustix::fs::open(book, flags, Mode::empty()) {
            Err(Errno::NOENT) => continue,
            other => other?,
        };
        rustix::fs::flock(&folder, FlockOperation::LockExclusive)?;
        // Whoever had it before may have removed it.
        let own = rustix::fs::fstat(&folder)?;
        if fs::symlink_metadata(book)
            .is_ok_and(|there| (there.dev(), there.ino()) == (own.st_dev, own.st_ino))
        {
            return Ok(Open(folder));
        }
    }
}

fn pages(book: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(book)?.map(|entry| Ok(entry?.path())).collect()
}

/// What living runs rely on, besides the one that asks; the pages of dead ones go, and their stubs.
fn clean(book: &Path, own: Option<&Path>) -> io::Result<BTreeSet<PathBuf>> {
    let (mut living, mut dead) = (BTreeSet::new(), Vec::new());
    for page in pages(book)?.into_iter().filter(|page| Some(page.as_path()) != own) {
        let file = File::open(&page)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => dead.push(page),
            Err(Errno::WOULDBLOCK) => living.extend(read(&page)?),
            Err(error) => return Err(error.into()),
        }
    }
    let mut kept = living.clone();
    if let Some(own) = own {
        kept.extend(read(own)?);
    }
    for page in dead {
        // What somebody put something into stays, and is theirs from now on.
        drop(remove(&read(&page)?, &kept));
        fs::remove_file(page)?;
    }
    Ok(living)
}

fn read(page: &Path) -> io::Result<Vec<PathBuf>> {
    let bytes = fs::read(page)?;
    // What follows the last zero was never finished.
    let ended = bytes
        .iter()
        .rposition(|byte| *byte == 0)
        .map_or(&[][..], |last| bytes.get(..last).unwrap_or_default());
    let mut found: Vec<&[u8]> = Vec::new();
    for line in ended.split(|byte| *byte == 0).filter(|line| !line.is_empty()) {
        if !found.contains(&line) {
            found.push(line);
        }
    }
    Ok(found.into_iter().map(|line| PathBuf::from(OsStr::from_bytes(line))).collect())
}

/// Removes stubs that nobody relies on; which have something in them.
fn remove(paths: &[PathBuf], kept: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
    let mut filled = Vec::new();
    // Deeper ones first: what was made anew later may lie above.
    let mut paths: Vec<&PathBuf> = paths.iter().filter(|path| !kept.contains(*path)).collect();
    paths.sort_by_cached_key(|path| std::cmp::Reverse(path.components().count()));
    let mut folders = Folders::default();
    for path in paths {
        let removed = folders
            .of(path)
            .and_then(|(above, name)| Ok(rustix::fs::unlinkat(above, name, AtFlags::REMOVEDIR)?));
        if removed
            .is_err_and(|error| matches!(Errno::from_io_error(&error), Some(Errno::NOTEMPTY | Errno::EXIST)))
        {
            filled.push(path.clone());
        }
    }
    filled
}

/// The directory that a stub is in, and its name.
fn split(at: &Path) -> io::Result<(&Path, &OsStr)> {
    at.parent().zip(at.file_name()).ok_or_else(|| Errno::INVAL.into())
}

/// A directory, reached without following a link.
fn folder(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?)
}

/// Directories that are opened once: most stubs lie in the same one.
#[derive(Default)]
struct Folders(Option<(PathBuf, OwnedFd)>);

impl Folders {
    fn of<'a>(&mut self, at: &'a Path) -> io::Result<(BorrowedFd<'_>, &'a OsStr)> {
        let (above, name) = split(at)?;
        if self.0.as_ref().is_none_or(|(known, _)| known != above) {
            self.0 = Some((above.to_owned(), folder(above)?));
        }
        let (_, folder) = self.0.as_ref().ok_or(Errno::INVAL)?;
        Ok((folder.as_fd(), name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scene() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (state, worktree) = (root.join("state"), root.join("w"));
        fs::create_dir_all(&worktree).unwrap();
        (folder, state, worktree)
    }

    fn begun(state: &Path, worktree: &Path, run: &str) -> Stubs {
        Stubs::begin(&state.join("stubs"), worktree, OsStr::new(run)).unwrap().0
    }

    #[test]
    fn a_stub_goes_with_its_run_and_what_is_in_one_stays() {
        let (_folder, state, worktree) = scene();
        let mut stubs = begun(&state, &worktree, "one");
        let (plain, filled) = (worktree.join(".envrc"), worktree.join(".vscode"));
        stubs.make(&plain).unwrap();
        stubs.make(&filled).unwrap();
        fs::write(filled.join("x"), "").unwrap();
        assert_eq!(stubs.end().unwrap().filled, std::slice::from_ref(&filled));
        assert!(!plain.exists() && filled.join("x").exists());
        assert!(
            !state.join("stubs").read_dir().unwrap().any(|_| true),
            "the book is gone with its last page"
        );
    }

    #[test]
    fn a_stub_stays_as_long_as_another_run_relies_on_it() {
        let (_folder, state, worktree) = scene();
        let at = worktree.join(".envrc");
        let mut first = begun(&state, &worktree, "one");
        first.make(&at).unwrap();
        let mut second = begun(&state, &worktree, "two");
        assert!(second.is_shared(&at));
        second.note(&at).unwrap();
        assert_eq!(first.end().unwrap().shared, std::slice::from_ref(&at));
        assert!(at.exists());
        assert!(second.end().unwrap().shared.is_empty());
        assert!(!at.exists());
    }

    #[test]
    fn what_a_dead_run_left_goes_at_the_next_start_and_by_a_sweep() {
        for sweeps in [false, true] {
            let (_folder, state, worktree) = scene();
            let (deep, at) = (worktree.join("a"), worktree.join("a/b"));
            let mut stubs = begun(&state, &worktree, "one");
            stubs.make(&deep).unwrap();
            stubs.make(&at).unwrap();
            assert!(sweep(&state).is_empty(), "it is alive");
            // As the kernel does for one that was killed: the lock goes, the page stays.
            stubs.0 = None;
            if sweeps {
                assert_eq!(sweep(&state), [deep.clone(), at]);
            } else {
                drop(begun(&state, &worktree, "two"));
            }
            assert!(!deep.exists());
        }
    }

    #[test]
    fn a_page_that_was_cut_is_read_as_far_as_it_goes() {
        let (_folder, state, worktree) = scene();
        fs::create_dir_all(&state).unwrap();
        fs::write(state.join("page"), b"/w/a\0/w/b\0/w/").unwrap();
        assert_eq!(read(&state.join("page")).unwrap(), [PathBuf::from("/w/a"), "/w/b".into()]);
        drop(worktree);
    }
}
