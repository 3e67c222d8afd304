//! Reads git's configuration files without git: bytes -> entries.
//!
//! Invariant: reading starts nothing and follows nothing, so `include` is an entry like any other. What this reader
//! does not understand is an error, so that a caller who looks for harm can take it for harm.

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// In lower case.
    pub(crate) section: String,
    /// As it is written, or empty.
    pub(crate) sub: String,
    /// In lower case.
    pub(crate) key: String,
    /// A key without a value is true.
    pub(crate) value: String,
}

/// Why a file cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {0} is not understood")]
pub(crate) struct Malformed(usize);

/// All settings, in order.
pub(crate) fn parse(bytes: &[u8]) -> Result<Vec<Entry>, Malformed> {
    let text = String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)).into_owned();
    let mut reader = Reader { rest: text.chars().peekable(), line: 1 };
    let (mut entries, mut section) = (Vec::new(), None);
    while let Some(next) = reader.rest.peek().copied() {
        match next {
            c if c.is_ascii_whitespace() => drop(reader.take()),
            '#' | ';' => reader.skip_line(),
            '[' => section = Some(reader.heading()?),
            c if c.is_ascii_alphabetic() => {
                let (section, sub) = section.clone().ok_or(Malformed(reader.line))?;
                let (key, value) = reader.setting()?;
                entries.push(Entry { section, sub, key, value });
            }
            _ => return Err(Malformed(reader.line)),
        }
    }
    Ok(entries)
}

/// The last value of a key; the last counts.
pub(crate) fn last<'a>(entries: &'a [Entry], section: &str, key: &str) -> Option<&'a str> {
    let found = |entry: &&Entry| entry.section == section && entry.sub.is_empty() && entry.key == key;
    entries.iter().rev().find(found).map(|entry| entry.value.as_str())
}

struct Reader<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    line: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self) -> Option<char> {
        let taken = self.rest.next();
        self.line += usize::from(taken == Some('\n'));
        taken
    }

    fn skip_line(&mut self) {
        while self.take().is_some_and(|c| c != '\n') {}
    }

    /// `[section]`, `[section "sub"]` or the old `[section.sub]`.
    fn heading(&mut self) -> Result<(String, String), Malformed> {
        let (mut name, mut sub) = (String::new(), String::new());
        self.take();
        loop {
            match self.take() {
                Some(']') if !name.is_empty() => break,
                Some(c) if c.is_ascii_alphanumeric() || c == '-' || c == '.' => {
                    name.push(c.to_ascii_lowercase())
                }
                Some(' ' | '\t') if !name.is_empty() => {
                    sub = self.quoted()?;
                    break;
                }
                _ => return Err(Malformed(self.line)),
            }
        }
        match name.split_once('.') {
            Some((name, old)) => Ok((name.to_owned(), old.to_owned())),
            None => Ok((name, sub)),
        }
    }

    /// The rest of a heading, from before the quotation mark on.
    fn quoted(&mut self) -> Result<String, Malformed> {
        let mut text = String::new();
        while matches!(self.rest.peek(), Some(' ' | '\t')) {
            self.take();
        }
        if self.take() != Some('"') {
            return Err(Malformed(self.line));
        }
        loop {
            match self.take() {
                Some('"') => break,
                Some('\\') => text.push(self.take().ok_or(Malformed(self.line))?),
                None | Some('\n') => return Err(Malformed(self.line)),
                Some(c) => text.push(c),
            }
        }
        if self.take() == Some(']') { Ok(text) } else { Err(Malformed(self.line)) }
    }

    fn setting(&mut self) -> Result<(String, String), Malformed> {
        let mut key = String::new();
        while let Some(c) = self.rest.peek().copied().filter(|c| c.is_ascii_alphanumeric() || *c == '-') {
            self.take();
            key.push(c.to_ascii_lowercase());
        }
        while matches!(self.rest.peek(), Some(' ' | '\t' | '\r')) {
            self.take();
        }
        match self.take() {
            None | Some('\n') => Ok((key, "true".into())),
            Some('#' | ';') => {
                self.skip_line();
                Ok((key, "true".into()))
            }
            Some('=') => Ok((key, self.value()?)),
            Some(_) => Err(Malformed(self.line)),
        }
    }

    fn value(&mut self) -> Result<String, Malformed> {
        let (mut text, mut is_quoted, mut kept) = (String::new(), false, 0);
        loop {
            match self.take() {
                None if is_quoted => return Err(Malformed(self.line)),
                Some('\n') if is_quoted => return Err(Malformed(self.line)),
                None | Some('\n') => break,
                Some('#' | ';') if !is_quoted => {
                    self.skip_line();
                    break;
                }
                Some('"') => {
                    is_quoted = !is_quoted;
                    kept = text.len();
                }
                Some('\\') => {
                    match self.take() {
                        Some('\n') => continue,
                        Some('\r') if self.rest.peek() == Some(&'\n') => {
                            self.take();
                            continue;
                        }
                        Some('n') => text.push('\n'),
                        Some('t') => text.push('\t'),
                        Some('b') => text.push('\u{8}'),
                        Some(c @ ('\\' | '"')) => text.push(c),
                        _ => return Err(Malformed(self.line)),
                    }
                    kept = text.len();
                }
                Some(c) if c.is_ascii_whitespace() && !is_quoted => {
                    if !text.is_empty() {
                        text.push(c);
                    }
                }
                Some(c) => {
                    text.push(c);
                    kept = text.len();
                }
            }
        }
        text.truncate(kept);
        Ok(text)
    }
}

/// A value as git reads it back, on one line.
pub(crate) fn quoted(value: &str) -> String {
    let clean = value.chars().filter(|c| !c.is_control());
    let escaped: String =
        clean.flat_map(|c| if c == '"' || c == '\\' { vec!['\\', c] } else { vec![c] }).collect();
    format!("\"{escaped}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Result<Vec<String>, Malformed> {
        let entries = parse(text.as_bytes())?;
        Ok(entries.into_iter().map(|e| format!("{}|{}|{}={}", e.section, e.sub, e.key, e.value)).collect())
    }

    #[test]
    fn settings_are_read_as_git_reads_them() {
        for (text, expected) in [
            ("[user]\n\tname = Ana B\n", vec!["user||name=Ana B"]),
            ("[user] name = Ana # who\n", vec!["user||name=Ana"]),
            ("[User]\nNAME=\"a # b\" ; c\n", vec!["user||name=a # b"]),
            ("[remote \"a.B\\\"c\"]\nurl = x\\ty\\\n z\n", vec!["remote|a.B\"c|url=x\ty z"]),
            ("[branch.Main]\nrebase\n", vec!["branch|main|rebase=true"]),
            ("; all\n[core]\n bare = false\r\n", vec!["core||bare=false"]),
        ] {
            assert_eq!(told(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        for text in
            ["name = x\n", "[core\nbare=1\n", "[]\n", "[a]\nb=\"c\n", "[a]\n\\\n", "[a]\nb c\n", "[a \"b]\n"]
        {
            assert!(told(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for value in ["Ana", "a \"b\" \\c", " x ", "# no", "é"] {
            let text = format!("[user]\nname = {}\n", quoted(value));
            assert_eq!(last(&parse(text.as_bytes()).unwrap(), "user", "name"), Some(value));
        }
        assert_eq!(quoted("a\n[alias]\nx"), "\"a[alias]x\"");
    }
}
