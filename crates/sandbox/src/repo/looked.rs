//! Looks through a bundle before anything of it is taken over: for what must not leave, and, where others have worktrees of the
//! repository, for what is only theirs: [`Offer`] and its pack -> [`Carried`].
//!
//! git indexes the pack into a place of its own and writes every object out: commits, names of files, contents. Invariants: what
//! is looked through is what would be taken over, and the host's repository is only read; what cannot be looked through as a
//! whole is not taken over; whoever knows the name of an object of somebody else's gets nothing by naming it. Not here: what is looked for ([`crate::Seeks`]).

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::ops::ControlFlow;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::Repository;
use super::bundle::Offer;
use super::ingest::IngestError;
use super::view::View;
use crate::sought::{Carried, Looks, Seeks, Sink};
use ::git::{Git, GitError, in_directory};

/// The most bytes of objects that are looked through.
const MOST_BYTES: u64 = 1 << 30;
/// The longest list of names that is kept as a whole.
const MOST_NAMES: usize = if cfg!(test) { 4096 } else { 64 << 20 };

/// What in it must not leave.
pub(super) fn look(
    of: &Repository,
    git: &Git,
    offer: &Offer,
    from: &mut File,
    sought: Option<&dyn Seeks>,
) -> Result<Option<Carried>, IngestError> {
    let within = |name: &str| sought.and_then(|sought| sought.within(name.as_bytes()));
    if let Some(name) = offer.branches.iter().find_map(|(branch, _)| within(branch)) {
        return Ok(Some(Carried { name, sink: Sink::Branch }));
    }
    let place = Place::made(of)?;
    let common = &of.place.common;
    let grounds = of.view.as_ref().map_or_else(|| vec![common.join("objects")], View::grounds);
    let git = git.apart(&place.0, &grounds);
    let [directory, nowhere] = in_directory(common);
    let in_it = |words: &[&'static str]| -> Vec<String> {
        let first = [directory.clone(), nowhere.clone()];
        first.into_iter().chain(words.iter().map(|word| (*word).to_owned())).collect()
    };
    from.seek(SeekFrom::Start(offer.pack))?;
    let indexes = in_it(&["index-pack", "--stdin", "--fix-thin", "--max-input-size=2147483648"]);
    let said = git.run(&[], &borrowed(&indexes), Stdio::from(from.try_clone()?))?;
    if !said.ok {
        return Err(IngestError::Refused(said.err));
    }
    if of.view.is_some() {
        let tips = offer.branches.iter().map(|(_, id)| id).chain(&offer.head);
        let mut asked: String = tips.map(|id| format!("{}\n", id.as_str())).collect();
        asked.extend(of.known().iter().map(|id| format!("^{}\n", id.as_str())));
        let walks = in_it(&["rev-list", "--objects", "--quiet", "--stdin"]);
        if !git.pass(&borrowed(&walks), asked.as_bytes(), |_| ControlFlow::Continue(()))? {
            return Err(IngestError::Refused("objects are missing".into()));
        }
    }
    let Some(sought) = sought else { return Ok(None) };
    let lists = in_it(&["show-index"]);
    // A list that is not whole is none.
    let listed = match git.run(&[], &borrowed(&lists), Stdio::from(place.index()?)) {
        Err(GitError::TooMuch) => return Err(IngestError::Unlooked),
        other => other?,
    };
    let ids: Vec<&[u8]> = listed
        .out
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.split(|byte| *byte == b' ').nth(1))
        .collect();
    // As long as the name of an object is in a tree.
    let length = ids.first().map_or(0, |id| id.len() / 2);
    let mut objects = Objects::new(sought, length);
    let writes = in_it(&["cat-file", "--batch", "--buffer"]);
    let whole = git.pass(&borrowed(&writes), &ids.join(&b"\n"[..]), |piece| objects.take(piece))?;
    let is_whole = listed.ok && whole && objects.is_whole() && objects.count == ids.len();
    match objects.found {
        Some(found) => Ok(Some(found)),
        None if is_whole => Ok(None),
        None => Err(IngestError::Unlooked),
    }
}

fn borrowed(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

/// A directory of objects that goes with the value.
struct Place(PathBuf);

impl Place {
    /// Where git, as the owner of the repository, can write.
    fn made(of: &Repository) -> io::Result<Self> {
        let owner = std::fs::metadata(&of.place.common)?;
        let is_anothers = rustix::process::geteuid().is_root() && owner.uid() != 0;
        let mut name = [0; 16];
        getrandom::fill(&mut name).map_err(|error| io::Error::other(error.to_string()))?;
        let name = format!("palisade-{}", hex::encode(name));
        // Ours may lie where only we can look.
        let above = match &of.view {
            Some(view) => view.room(),
            None if is_anothers => std::env::temp_dir(),
            None => of.folder.clone(),
        };
        let place = Self(above.join(name));
        let make = |path: &Path| std::fs::DirBuilder::new().mode(0o700).create(path);
        make(&place.0)?;
        make(&place.0.join("pack"))?;
        if is_anothers {
            for path in [place.0.join("pack"), place.0.clone()] {
                std::os::unix::fs::lchown(path, Some(owner.uid()), Some(owner.gid()))?;
            }
        }
        Ok(place)
    }

    /// The index of the one pack that there is.
    fn index(&self) -> io::Result<File> {
        let entries = std::fs::read_dir(self.0.join("pack"))?;
        let is_index = |path: &PathBuf| path.extension().is_some_and(|end| end == "idx");
        let found = entries.flatten().map(|entry| entry.path()).find(is_index);
        File::open(found.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = ::files::remove::tree(&self.0);
    }
}

/// What kind of object comes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Its names are looked at when it is whole.
    Tree,
    Blob,
    /// A commit, or a tag.
    Text,
}

/// Where in what `cat-file --batch` writes we are.
enum At<'a> {
    /// In the line before an object.
    Head(Vec<u8>),
    /// In an object, with so many bytes to come.
    Object { kind: Kind, left: u64, looks: Box<dyn Looks + 'a>, tree: Vec<u8> },
    /// Before the line that ends it.
    End,
    /// It was not understood.
    Lost,
}

/// Objects as they come.
struct Objects<'a> {
    sought: &'a dyn Seeks,
    /// Bytes of the name of an object.
    length: usize,
    at: At<'a>,
    seen: u64,
    /// Those that ended.
    count: usize,
    found: Option<Carried>,
}

impl<'a> Objects<'a> {
    fn new(sought: &'a dyn Seeks, length: usize) -> Self {
        Self { sought, length, at: At::Head(Vec::new()), seen: 0, count: 0, found: None }
    }

    /// Whether everything that was begun has ended.
    fn is_whole(&self) -> bool {
        matches!(&self.at, At::Head(head) if head.is_empty())
    }

    /// Takes what came; breaks when there is something, or no more is looked at.
    fn take(&mut self, mut piece: &[u8]) -> ControlFlow<()> {
        self.seen = self.seen.saturating_add(u64::try_from(piece.len()).unwrap_or(u64::MAX));
        if self.seen > MOST_BYTES {
            self.at = At::Lost;
        }
        while !piece.is_empty() {
            match &mut self.at {
                At::Head(head) => {
                    let end = piece.iter().position(|byte| *byte == b'\n');
                    let (line, rest) = piece.split_at(end.unwrap_or(piece.len()));
                    head.extend(line);
                    piece = rest.get(1..).unwrap_or_default();
                    if end.is_some() {
                        self.at = begun(head, self.sought);
                    } else if head.len() > 256 {
                        self.at = At::Lost;
                    }
                }
                At::Object { kind, left, looks, tree } => {
                    let some = usize::try_from(*left).unwrap_or(usize::MAX).min(piece.len());
                    let (own, rest) = piece.split_at(some);
                    *left -= u64::try_from(some).unwrap_or_default();
                    piece = rest;
                    let (is_over, sink) = (*left == 0, sink(*kind));
                    let found = match kind {
                        Kind::Tree if tree.len() + own.len() > MOST_NAMES => Err(Odd),
                        Kind::Tree => {
                            tree.extend(own);
                            if is_over { in_names(tree, self.length, looks.as_mut()) } else { Ok(None) }
                        }
                        Kind::Blob | Kind::Text => Ok(looks.look(own)),
                    };
                    match found {
                        Ok(Some(name)) => {
                            self.found = Some(Carried { name, sink });
                            return ControlFlow::Break(());
                        }
                        Ok(None) if is_over => self.at = At::End,
                        Ok(None) => {}
                        Err(Odd) => self.at = At::Lost,
                    }
                }
                At::End => {
                    piece = piece.get(1..).unwrap_or_default();
                    self.at = At::Head(Vec::new());
                    self.count += 1;
                }
                At::Lost => return ControlFlow::Break(()),
            }
        }
        ControlFlow::Continue(())
    }
}

fn sink(kind: Kind) -> Sink {
    match kind {
        Kind::Tree => Sink::FileName,
        Kind::Blob => Sink::Content,
        Kind::Text => Sink::Commit,
    }
}

/// After a line `<id> <kind> <length>`.
fn begun<'a>(head: &[u8], sought: &'a dyn Seeks) -> At<'a> {
    let text = String::from_utf8_lossy(head);
    let mut words = text.split(' ').skip(1);
    let kind = match words.next() {
        Some("tree") => Kind::Tree,
        Some("blob") => Kind::Blob,
        Some("commit" | "tag") => Kind::Text,
        _ => return At::Lost,
    };
    match words.next().and_then(|length| length.parse::<u64>().ok()) {
        Some(0) => At::End,
        Some(left) => At::Object { kind, left, looks: sought.begin(), tree: Vec::new() },
        None => At::Lost,
    }
}

/// A tree that is none, or too long to be looked through.
struct Odd;

/// In the names of a tree: a mode, a blank, a name, a zero, and the bytes of an object's name, of this length.
fn in_names(mut tree: &[u8], length: usize, looks: &mut dyn Looks) -> Result<Option<String>, Odd> {
    while !tree.is_empty() {
        let (name, rest) = name(tree, length).ok_or(Odd)?;
        if let Some(found) = looks.look(name).or_else(|| looks.look(b"/")) {
            return Ok(Some(found));
        }
        tree = rest;
    }
    Ok(None)
}

fn name(tree: &[u8], length: usize) -> Option<(&[u8], &[u8])> {
    let blank = tree.iter().position(|byte| *byte == b' ')?;
    let is_mode = blank > 0 && tree.iter().take(blank).all(u8::is_ascii_digit);
    let rest = tree.get(blank + 1..).filter(|_| is_mode)?;
    let zero = rest.iter().position(|byte| *byte == 0)?;
    Some((rest.get(..zero)?, rest.get(zero + 1 + length..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks for one word.
    struct Word;

    struct Seen(Vec<u8>);

    impl Seeks for Word {
        fn begin(&self) -> Box<dyn Looks + '_> {
            Box::new(Seen(Vec::new()))
        }
    }

    impl Looks for Seen {
        fn look(&mut self, piece: &[u8]) -> Option<String> {
            self.0.extend(piece);
            self.0.windows(5).any(|five| five == b"DECOY").then(|| "WORD".to_owned())
        }
    }

    fn batch(objects: &[(&str, &[u8])]) -> Vec<u8> {
        let mut all = Vec::new();
        for (kind, bytes) in objects {
            all.extend(format!("{} {kind} {}\n", "a".repeat(40), bytes.len()).into_bytes());
            all.extend(*bytes);
            all.push(b'\n');
        }
        all
    }

    fn found(all: &[u8], each: usize) -> (Option<Sink>, bool) {
        let mut objects = Objects::new(&Word, 20);
        let _ = all.chunks(each).try_for_each(|piece| objects.take(piece));
        (objects.found.as_ref().map(|found| found.sink), objects.is_whole())
    }

    #[test]
    fn sec_19_each_kind_of_object_is_looked_through_wherever_it_is_cut() {
        let tree = |name: &[u8]| [b"100644 ", name, b"\0", &[b'7'; 20]].concat();
        let both = [tree(b"a"), tree(b"x-DECOY-y")].concat();
        for each in [1, 3, 7, 1000] {
            let honest: [(&str, &[u8]); 4] = [
                ("commit", b"tree x\n\nDECO Y"),
                ("tree", &tree(b"DECO")),
                ("blob", b""),
                ("blob", b"\n\0DEC"),
            ];
            assert_eq!(found(&batch(&honest), each), (None, true));
            for (kind, bytes, sink) in [
                ("commit", &b"tree x\n\na DECOY\n"[..], Sink::Commit),
                ("tag", b"DECOY", Sink::Commit),
                ("tree", &both, Sink::FileName),
                ("blob", b"some DECOY", Sink::Content),
            ] {
                let all = batch(&[honest[0], honest[2], (kind, bytes), honest[1]]);
                assert_eq!(found(&all, each).0, Some(sink), "{kind} {each}");
            }
        }
    }

    #[test]
    fn sec_19_what_is_cut_or_not_understood_is_not_taken_for_looked_through() {
        let whole = batch(&[("blob", b"abc"), ("commit", b"x")]);
        for cut in 1..whole.len() {
            let (_, is_whole) = found(&whole[..cut], 16);
            // After an object and its end it is whole, as far as this can be known here.
            assert_eq!(is_whole, cut == batch(&[("blob", b"abc")]).len(), "{cut}");
        }
        for strange in ["aaaa missing\n", "\n", "x blob y\n", "x blob -1\n"] {
            assert!(!found(strange.as_bytes(), 5).1, "{strange}");
        }
        assert!(!found(&[b'x'; 1000], 10).1);
    }

    #[test]
    fn sec_19_a_tree_is_read_by_its_names_or_it_is_not_looked_through() {
        for length in [20, 32] {
            let entry = |name: &str| [b"40000 ", name.as_bytes(), b"\0", &vec![b' '; length]].concat();
            let of = |tree: &[u8]| in_names(tree, length, &mut Seen(Vec::new()));
            let tree = [entry("a b"), entry("DECOY")].concat();
            assert!(matches!(of(&tree), Ok(Some(name)) if name == "WORD"));
            assert!(matches!(of(&entry("DEC")), Ok(None)));
            for strange in [&tree[..tree.len() - 1], b"x", b"40000", b" a\0", b"4x 1\0", b"40000 a"] {
                assert!(of(strange).is_err(), "{strange:?}");
            }
        }
        // One that reads as names of either length is read by that of its repository.
        let seven = |count: usize| vec![b'7'; count];
        let both = [
            b"1 a\0".to_vec(),
            seven(20),
            b"1 b\0".to_vec(),
            seven(8),
            b"1 DECOY\0".to_vec(),
            seven(4),
            b"1 ccccc\0".to_vec(),
            seven(20),
        ]
        .concat();
        assert!(matches!(in_names(&both, 20, &mut Seen(Vec::new())), Ok(None)));
        assert!(matches!(in_names(&both, 32, &mut Seen(Vec::new())), Ok(Some(_))));
    }

    #[test]
    fn sec_19_a_tree_that_is_too_long_is_not_taken_for_looked_through() {
        let entry = |name: &str| [b"100644 ", name.as_bytes(), b"\0", &[b'7'; 20]].concat();
        let long: Vec<u8> = (0..200).flat_map(|number| entry(&format!("name-{number}"))).collect();
        for tree in [[entry("DECOY"), long.clone()].concat(), [long, entry("DECOY")].concat()] {
            assert!(tree.len() > MOST_NAMES);
            for each in [64, 1000, 1 << 20] {
                let (found, is_whole) = found(&batch(&[("tree", &tree), ("blob", b"x")]), each);
                assert!(found.is_none() && !is_whole, "{each}");
            }
        }
    }
}
