//! Turns a `.env` file into names and values, and values into handles.
//!
//! What is understood: `NAME=value`, `export NAME=value`, values in single or double quotes (in double ones `\n`, `\"`,
//! `\\` and `\$`; both may span lines), comments. Nothing is expanded or run. What is not understood is refused with its
//! line, never guessed.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use api::Hidden;
use zeroize::Zeroizing;

/// What stands in a file instead of a value.
const HANDLE: &str = "secret://";

/// Longer is no such file.
const MOST: u64 = 1 << 20;

/// One line that holds a value, or several that hold one.
#[derive(PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) value: Hidden,
    /// Where the value stands in the text, with its quotes.
    at: std::ops::Range<usize>,
}

impl Entry {
    pub(super) fn is_handle(&self) -> bool {
        self.value.0.starts_with(HANDLE)
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("name", &self.name).field("at", &self.at).finish_non_exhaustive()
    }
}

/// The text of a plain file; nothing is waited for.
pub(super) fn read(file: &Path) -> io::Result<Zeroizing<String>> {
    let bytes = files::read(file, MOST, files::Rule::Any)?;
    String::from_utf8(bytes).map(Zeroizing::new).map_err(|error| {
        drop(Zeroizing::new(error.into_bytes()));
        io::Error::other("it is not text")
    })
}

/// Every entry that counts; an error is the number of the line that makes no sense.
pub(super) fn parse(text: &str) -> Result<Vec<Entry>, usize> {
    let mut found: Vec<Entry> = Vec::new();
    for entry in every(text)? {
        // Of one name the last counts, as it does for a shell.
        found.retain(|earlier| earlier.name != entry.name);
        found.push(entry);
    }
    found.retain(|entry| !entry.value.0.is_empty());
    Ok(found)
}

/// Every entry, in the order of the text.
fn every(text: &str) -> Result<Vec<Entry>, usize> {
    let mut found: Vec<Entry> = Vec::new();
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let number = text.get(..at).unwrap_or_default().matches('\n').count() + 1;
        let line = rest.split('\n').next().unwrap_or_default();
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            at += line.len() + 1;
            continue;
        }
        let (before, _) = line.split_once('=').ok_or(number)?;
        let name = before.trim();
        let name = name.strip_prefix("export ").map_or(name, str::trim);
        let fits = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if !fits {
            return Err(number);
        }
        let from = at + before.len() + 1;
        let after = text.get(from..).unwrap_or_default();
        let blank = after.len() - after.trim_start_matches([' ', '\t']).len();
        let from = from + blank;
        let (value, length) = value(text.get(from..).unwrap_or_default()).ok_or(number)?;
        found.push(Entry { name: name.to_owned(), value, at: from..from + length });
        let end = from + length;
        at = text.get(end..).and_then(|rest| rest.find('\n')).map_or(text.len(), |to| end + to + 1);
    }
    Ok(found)
}

/// A value, and how many bytes of the text it takes.
fn value(text: &str) -> Option<(Hidden, usize)> {
    match text.chars().next() {
        Some('\'') => {
            let inside = text.get(1..)?;
            let end = inside.find('\'')?;
            only_comment(inside.get(end + 1..)?)?;
            Some((Hidden(inside.get(..end)?.to_owned()), end + 2))
        }
        Some('"') => {
            // No longer than what is left, so that it is not moved and left behind.
            let mut made = Hidden(String::with_capacity(text.len()));
            let mut letters = text.char_indices().skip(1);
            loop {
                match letters.next()? {
                    (end, '"') => {
                        only_comment(text.get(end + 1..)?)?;
                        return Some((made, end + 1));
                    }
                    (_, '\\') => match letters.next()?.1 {
                        'n' => made.0.push('\n'),
                        'r' => made.0.push('\r'),
                        't' => made.0.push('\t'),
                        c @ ('"' | '\\' | '$' | '`') => made.0.push(c),
                        other => made.0.extend(['\\', other]),
                    },
                    (_, c) => made.0.push(c),
                }
            }
        }
        _ => {
            let line = text.split('\n').next().unwrap_or_default();
            let plain = line.find(" #").map_or(line, |end| line.get(..end).unwrap_or(line)).trim_end();
            Some((Hidden(plain.to_owned()), plain.len()))
        }
    }
}

/// Nothing but a comment follows a closing quote.
fn only_comment(rest: &str) -> Option<()> {
    let rest = rest.split('\n').next().unwrap_or_default().trim();
    (rest.is_empty() || rest.starts_with('#')).then_some(())
}

/// Puts handles in the place of these values, and of all earlier ones of their names, in one step; everything else of
/// the file stays. Says how many values that is.
pub(super) fn rewrite(file: &Path, text: &str, entries: &[Entry]) -> io::Result<usize> {
    let all = every(text).map_err(|_| io::Error::other("it makes no sense"))?;
    let handles: usize = all.iter().map(|entry| HANDLE.len() + entry.name.len()).sum();
    // Room for all of it up front: what stays in the file may be secret too.
    let mut made = Zeroizing::new(String::with_capacity(text.len() + handles));
    let (mut last, mut stay) = (0, 0);
    for entry in all {
        if entry.value.0.is_empty() || entry.is_handle() {
            continue;
        }
        if !entries.iter().any(|kept| kept.name == entry.name) {
            stay += 1;
            continue;
        }
        made.push_str(text.get(last..entry.at.start).unwrap_or_default());
        made.push_str(&format!("{HANDLE}{}", entry.name));
        last = entry.at.end;
    }
    made.push_str(text.get(last..).unwrap_or_default());
    let meta = std::fs::symlink_metadata(file)?;
    if !meta.is_file() || meta.nlink() != 1 {
        return Err(io::Error::other("it is a link, or has other names; nothing was changed"));
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let draft = folder.join(format!(".palisade-env-{}", std::process::id()));
    let write = || -> io::Result<()> {
        let mut new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        new.write_all(made.as_bytes())?;
        new.set_permissions(std::fs::Permissions::from_mode(meta.permissions().mode() & 0o777))?;
        new.sync_all()?;
        // Somebody may have saved it meanwhile: what they wrote is not lost to what was read before.
        if *read(file)? != text {
            return Err(io::Error::other("it was changed meanwhile; nothing was changed"));
        }
        std::fs::rename(&draft, file)?;
        std::fs::File::open(folder)?.sync_all()
    };
    write().inspect_err(|_| drop(std::fs::remove_file(&draft)))?;
    Ok(stay)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sec_08_what_people_write_is_understood() {
        let text = "# a comment\nA=plain # and a word\nexport B='sing le'\nC=\"dou\\\"ble\\n$HOME\"\n\n  D = x\nE=\nPEM=\"-----BEGIN\nbody\n-----END\"\nA=last\nF=a#b\n";
        let found = parse(text).unwrap();
        let pairs: Vec<_> = found.iter().map(|one| (one.name.as_str(), one.value.0.as_str())).collect();
        assert_eq!(
            pairs,
            [
                ("B", "sing le"),
                ("C", "dou\"ble\n$HOME"),
                ("D", "x"),
                ("PEM", "-----BEGIN\nbody\n-----END"),
                ("A", "last"),
                ("F", "a#b")
            ]
        );
        assert_eq!(parse("").unwrap(), []);
    }

    #[test]
    fn sec_08_what_is_not_understood_is_refused_with_its_line() {
        for (text, line) in [
            ("A=1\nnot a line\n", 2),
            ("A=1\n\n1B=2\n", 3),
            ("A='open\n", 1),
            ("A=\"open\n", 1),
            ("A='a'b\n", 1),
            ("A-B=1", 1),
            ("=1", 1),
        ] {
            assert_eq!(parse(text), Err(line), "{text:?}");
        }
    }

    #[test]
    fn sec_08_handles_take_the_place_of_values_and_of_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(".env");
        let text = "# keep\nA='one' # why\nPORT=80\nB=two\n";
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        let mut found = parse(text).unwrap();
        found.retain(|entry| entry.name != "PORT");
        assert_eq!(rewrite(&file, text, &found).unwrap(), 1, "the port stays");
        let made = std::fs::read_to_string(&file).unwrap();
        assert_eq!(made, "# keep\nA=secret://A # why\nPORT=80\nB=secret://B\n");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(parse(&made).unwrap().iter().filter(|entry| entry.name != "PORT").all(Entry::is_handle));
        assert!(rewrite(&file, text, &found).is_err(), "it is not what was read");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "and no draft stays");
    }

    #[test]
    fn sec_08_an_earlier_value_of_the_same_name_does_not_stay() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(".env");
        let text = "A='earlier'\nB=two\nA=secret://A\nexport A=\"the\nlast\" # why\nC=gone\nC=\n";
        std::fs::write(&file, text).unwrap();
        let found = parse(text).unwrap();
        assert_eq!(found.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["B", "A"]);
        let only: Vec<_> = found.into_iter().filter(|entry| entry.name == "A").collect();
        assert_eq!(rewrite(&file, text, &only).unwrap(), 2, "of B, and of C, which counts for nothing");
        let made = std::fs::read_to_string(&file).unwrap();
        assert_eq!(made, "A=secret://A\nB=two\nA=secret://A\nexport A=secret://A # why\nC=gone\nC=\n");
    }

    #[test]
    fn sec_08_only_a_plain_file_of_some_size_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        assert!(read(&pipe).is_err(), "and nobody waits for a writer");
        let long = folder.path().join("long");
        std::fs::write(&long, vec![b'#'; 1 << 20]).unwrap();
        assert_eq!(read(&long).unwrap().len(), 1 << 20);
        std::fs::write(&long, vec![b'#'; (1 << 20) + 1]).unwrap();
        assert!(read(&long).is_err());
    }

    #[test]
    fn sec_07_debug_shows_no_value() {
        let found = parse("A=marmalade-quilt\n").unwrap();
        let shown = format!("{found:?}");
        assert!(shown.contains("\"A\"") && !shown.contains("marmalade"), "{shown}");
    }
}
