//! Reads the head of a bundle that came out of a sandbox: hostile bytes -> what it offers, or a refusal.
//!
//! Invariant: only branches and `HEAD` are offered, under names that cannot point elsewhere; a bundle with anything
//! else is refused whole, because git itself would not have made it. What follows the head is a pack; git checks it
//! ([`super::ingest`]).

use std::io::{self, BufRead};

use super::refs::{Id, is_branch};

/// The most that a head may be long, and the most that it may offer.
const MOST_BYTES: u64 = 4 << 20;
const MOST_TIPS: usize = 4096;
const MOST_NEEDED: usize = 1 << 16;

/// Why a bundle is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadBundle {
    /// It is none.
    #[error("what came out is no bundle")]
    NoBundle,
    /// A line of its head.
    #[error("line {0} of the bundle's head is not what git writes")]
    Line(usize),
    /// A reference that is no branch.
    #[error("the bundle offers `{0}`, which is no branch")]
    Name(String),
    /// Too much.
    #[error("the bundle offers too many references")]
    TooMany,
    /// It ends before its pack.
    #[error("the bundle ends too early")]
    Short,
    /// It could not be read.
    #[error("the bundle cannot be read: {0}")]
    Read(#[from] io::Error),
}

/// What a bundle offers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    /// Short names of branches, and what they name.
    pub(crate) branches: Vec<(String, Id)>,
    /// What is checked out.
    pub(crate) head: Option<Id>,
    /// Where the pack begins.
    pub(crate) pack: u64,
}

/// Reads up to the pack.
pub(crate) fn read(from: impl BufRead) -> Result<Offer, BadBundle> {
    let mut from = from.take(MOST_BYTES);
    let mut offer = Offer { branches: Vec::new(), head: None, pack: 0 };
    let (mut number, mut needed, mut length) = (0, 0usize, None);
    loop {
        let mut line = Vec::new();
        offer.pack += u64::try_from(from.read_until(b'\n', &mut line)?).unwrap_or(u64::MAX);
        number += 1;
        let Some(line) = line.strip_suffix(b"\n") else {
            return Err(if number == 1 { BadBundle::NoBundle } else { BadBundle::Short });
        };
        let id = |bytes: &[u8]| {
            Id::parse(bytes).filter(|id| *length.get_or_insert(id.as_str().len()) == id.as_str().len())
        };
        match (number, line) {
            (1, b"# v2 git bundle" | b"# v3 git bundle") => {}
            (1, _) => return Err(BadBundle::NoBundle),
            (_, b"") => return if offer.pack < MOST_BYTES { Ok(offer) } else { Err(BadBundle::Short) },
            (_, b"@object-format=sha1" | b"@object-format=sha256") => {}
            (_, [b'-', rest @ ..]) => {
                let mut id = id;
                needed += 1;
                let end = rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len());
                rest.get(..end).and_then(&mut id).ok_or(BadBundle::Line(number))?;
            }
            (_, line) => {
                let mut id = id;
                let at = line.iter().position(|byte| *byte == b' ').ok_or(BadBundle::Line(number))?;
                let (tip, name) = line.split_at_checked(at).ok_or(BadBundle::Line(number))?;
                let (tip, name) =
                    (id(tip).ok_or(BadBundle::Line(number))?, name.get(1..).unwrap_or_default());
                match name.strip_prefix(b"refs/heads/") {
                    Some(branch) if is_branch(branch) => {
                        offer.branches.push((String::from_utf8_lossy(branch).into_owned(), tip));
                    }
                    None if name == b"HEAD" => offer.head = Some(tip),
                    _ => return Err(BadBundle::Name(shown(name))),
                }
            }
        }
        if offer.branches.len() > MOST_TIPS || needed > MOST_NEEDED {
            return Err(BadBundle::TooMany);
        }
    }
}

/// A hostile name, as it can be shown.
fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).chars().take(100).map(|c| if c.is_control() { '·' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

    fn of(text: &str) -> Result<Offer, String> {
        read(text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_bundle_offers_branches_and_the_head() {
        let offer = of(&format!("# v2 git bundle\n-{A} one\n{A} refs/heads/a/b\n{A} HEAD\n\nPACK")).unwrap();
        assert_eq!(offer.branches, [("a/b".to_owned(), Id::parse(A.as_bytes()).unwrap())]);
        assert!(offer.head.is_some());
        assert_eq!(offer.pack, 16 + 46 + 56 + 46 + 1);
    }

    #[test]
    fn adv_g03_a_bundle_that_git_would_not_write_is_refused() {
        let long = "b".repeat(64);
        for (body, expected) in [
            (format!("{A} refs/heads/../../x\n\n"), "no branch"),
            (format!("{A} refs/heads/a\0b\n\n"), "no branch"),
            (format!("{A} refs/heads/a\u{1b}[2J\n\n"), "a·[2J"),
            (format!("{A} refs/heads/--upload-pack=x\n\n"), "no branch"),
            (format!("{A} refs/tags/v1\n\n"), "`refs/tags/v1`"),
            (format!("{A} refs/replace/{A}\n\n"), "no branch"),
            (format!("{A} refs/notes/commits\n\n"), "no branch"),
            (format!("{A} refs/stash\n\n"), "no branch"),
            (format!("{A} refs/heads/a\n{long} refs/heads/b\n\n"), "line 3"),
            ("xyz refs/heads/a\n\n".to_owned(), "line 2"),
            ("@filter=blob:none\n\n".to_owned(), "line 2"),
            (format!("{A} refs/heads/a\n"), "too early"),
            (format!("{A} refs/heads/a\n").repeat(5000), "too many"),
            (format!("-{A}\n").repeat(1 << 17), "too early"),
        ] {
            let told = of(&format!("# v2 git bundle\n{body}")).unwrap_err();
            assert!(told.contains(expected) || told.contains("too many"), "{told}, not {expected}");
        }
        for garbage in ["", "hello\n", "# v9 git bundle\n\n", "\0\0\0\0", "PACK"] {
            assert_eq!(of(garbage).unwrap_err(), "what came out is no bundle");
        }
        assert!(read(io::repeat(b'x').take(1 << 30).chain(io::empty()).take(1 << 30).buffered()).is_err());
    }

    /// Any reader, in pieces.
    trait Buffered: Read + Sized {
        fn buffered(self) -> io::BufReader<Self> {
            io::BufReader::new(self)
        }
    }
    impl<R: Read> Buffered for R {}
}
