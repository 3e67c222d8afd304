//! Values that stand in the lines below their name: lists, blocks of YAML, `name:` and then `value:`, parts of a form.
//!
//! Flow: a name at the end of its line -> [`Below`] -> the lines that follow, until one is no value.
//!
//! Invariant: a line that is no value is left to the other finders; no line is looked at twice here. Not here: key blocks,
//! which have lines of their own; a value goes on behind one ([`Below::has_key`]), as it does behind the mark for it.

use super::pem::{self, Rest};
use super::value::{self, Opening, Written};
use super::{Body, Hit};
use crate::MARK;
use crate::bytes::{at, before, is_one_of, line_end, line_start, mixed, skip_blanks, slice, stands_before};

/// Longest line that is taken for a value: longer than most are once what is known otherwise in them is masked, as they are
/// looked at again then.
const LONGEST: usize = 16 * 1024;
/// Most bytes before a name in its line.
const LEAD: usize = 96;
/// Most blanks around a sign.
const BLANKS: usize = 16;
/// What a key block begins with.
const BEGIN: &[u8] = b"-----BEGIN ";

/// What the last line of a key block ends with. What stands right behind it begins a line once the block is masked.
pub(super) const DASHES: &[u8] = b"-----";

/// What is awaited.
#[derive(Clone, Copy)]
pub(crate) struct Below {
    kind: Kind,
    /// Where the name stands in its line.
    column: usize,
    /// The first byte of that line, where it is a sign that all lines begin with, as in a diff.
    sign: u8,
    /// Lines that were no value so far.
    passed: u8,
    /// Whether it goes on behind a key block that stands where it ended.
    has_key: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// `name: |` and then text that is further in.
    Block,
    /// `name:` and then `- value` or one value.
    Items,
    /// `name: [` and then one value in each line.
    List,
    /// `name: DB_PASSWORD` and then `value: …`.
    Pair,
    /// `name="password"`, an empty line, and then the value.
    Form,
}

impl Below {
    /// What a name at `first..last` awaits, where its line ends without a value. `is_certain` is a name that means a secret
    /// and not several.
    pub(super) fn after(text: &[u8], first: usize, last: usize, is_certain: bool) -> Option<Self> {
        let is_quoted = at(text, last).is_some_and(|byte| is_one_of(byte, b"\"'"));
        let closed = last + usize::from(is_quoted);
        let sign = skip_blanks(text, closed, BLANKS);
        let kind = match at(text, sign)? {
            b':' | b'=' => {
                let from = skip_blanks(text, sign + 1, BLANKS);
                if !is_one_of(at(text, from)?, b"\n\r|>[(S") {
                    return None;
                }
                // `if password:` is code, `Password:` a sentence.
                let begins = value::begins_line(text, first) || behind_block(text, first).is_some();
                let is_key = is_quoted || begins && !value::is_capital(text, first);
                match at(text, from)? {
                    b'\n' | b'\r' if at(text, sign) == Some(b':') && is_key && ends_line(text, from) => {
                        Kind::Items
                    }
                    b'|' | b'>' if is_certain && is_key => {
                        let signs = slice(text, from + 1, from + 4).iter();
                        let signs = signs.take_while(|byte| b"+-123456789".contains(byte)).count();
                        ends_line(text, from + 1 + signs).then_some(Kind::Block)?
                    }
                    b'[' | b'(' if ends_line(text, from + 1) => Kind::List,
                    b'S' if slice(text, from, from + 5) == b"Some(" && ends_line(text, from + 5) => {
                        Kind::List
                    }
                    _ => return None,
                }
            }
            b'\n' | b'\r' if is_quoted && is_form(text, first) && ends_line(text, closed) => Kind::Form,
            b'\n' | b'\r' if is_named(text, first) && ends_line(text, sign) => Kind::Pair,
            b',' if is_quoted && is_named(text, first) && ends_line(text, sign + 1) => Kind::Pair,
            b'{' if is_quoted && ends_line(text, sign + 1) => {
                let lead = slice(text, line_start(text, first, LEAD), first);
                lead.starts_with(b"variable ").then_some(Kind::Pair)?
            }
            b'<' if slice(text, sign, sign + 6) == b"</key>" && ends_line(text, sign + 6) => Kind::Pair,
            _ => return None,
        };
        let start = line_start(text, first, LEAD);
        let start = behind_block(text, first).unwrap_or(start);
        // What was masked there was no indentation.
        if memchr::memmem::find(slice(text, start, first), MARK.as_bytes()).is_some() {
            return None;
        }
        let sign = at(text, start).filter(|byte| b"+-|>".contains(byte)).unwrap_or(b' ');
        Some(Self { kind, column: first - start, sign, passed: 0, has_key: false })
    }

    /// Whether the next line, which begins here, is not further in: then none is a value.
    pub(super) fn is_vain(&self, text: &[u8], next: usize) -> bool {
        matches!(self.kind, Kind::Block | Kind::Items | Kind::Form)
            && at(text, next).is_some_and(|byte| byte.is_ascii_alphanumeric())
    }

    /// Whether the lines go on behind a key block that stands where they ended.
    pub(super) const fn has_key(&self) -> bool {
        self.has_key
    }

    /// Goes on through the lines at `from`.
    pub(super) fn go_on(&mut self, text: &[u8], mut from: usize, hits: &mut Vec<Hit>) -> Rest {
        self.has_key = false;
        while from < text.len() {
            let end = line_end(text, from);
            let is_whole = matches!(self.kind, Kind::Block | Kind::Form);
            if end - from > LONGEST {
                return Rest::Ends(from);
            }
            let next = (end + 1).min(text.len());
            let line = slice(text, from, end);
            let lead = indentation(line, self.sign);
            let content = slice(line, lead, line.len()).trim_ascii_end();
            let start = from + lead;
            // A key block that a value is glued to has a finder of its own; one within a line that is a value as a whole has none.
            let begins = memchr::memmem::find(content, BEGIN);
            let key =
                begins.and_then(|place| pem::find(text, start + place + 1, start + place + BEGIN.len()));
            if let Some(hit) = self.item_key(key.as_ref(), content, start, lead) {
                self.passed = 0;
                if matches!(key, Some(pem::Found::Block(..))) {
                    self.has_key = true;
                    return Rest::Ends(hit.start);
                }
                hits.push(hit);
                from = next;
                continue;
            }
            let is_inside = is_whole && matches!(key, Some(pem::Found::Inline(_)));
            let is_apart = is_whole && matches!(key, Some(pem::Found::Block(..)));
            let block = begins.filter(|place| *place > 0 && !is_inside);
            let content = slice(content, 0, block.unwrap_or(content.len()));
            let next = block.map_or(next, |place| start + place);
            if content.is_empty() {
                self.passed += 1;
                if self.passed > 2 {
                    return Rest::Ends(from);
                }
                from = next;
                continue;
            }
            let hit = match self.kind {
                Kind::Block if lead <= self.column => None,
                Kind::Block if is_apart => {
                    if block.is_some() {
                        hits.push(Hit::ended(start, next));
                    }
                    (self.has_key, self.passed) = (true, 0);
                    return Rest::Ends(start + block.unwrap_or(0));
                }
                Kind::Block if holds_key(content) && !is_inside => None,
                Kind::Block => Some((start, start + content.len())),
                Kind::List => item(content).map(|(a, b)| (start + a, start + b)),
                Kind::Items => match content.strip_prefix(b"- ") {
                    Some(rest) if lead + 2 >= self.column => {
                        item(rest).map(|(a, b)| (start + 2 + a, start + 2 + b))
                    }
                    Some(_) => None,
                    None if lead > self.column && self.passed < 3 => {
                        // One value; nothing follows it.
                        if let Some((a, b)) = item(content) {
                            hits.push(Hit::ended(start + a, start + b));
                            return Rest::Ends(next);
                        }
                        None
                    }
                    None => None,
                },
                Kind::Pair => {
                    if is_about(content) {
                        self.passed += 1;
                        if self.passed > 3 {
                            return Rest::Ends(from);
                        }
                        from = next;
                        continue;
                    }
                    return match valued(slice(text, 0, end), start) {
                        Some(hit) => {
                            hits.push(hit);
                            Rest::Ends(hit.end)
                        }
                        None => Rest::Ends(from),
                    };
                }
                Kind::Form => {
                    let is_glued = is_apart && block.is_some();
                    let is_value = self.passed == 1 && (is_glued || !value::is_harmless(content));
                    if is_value {
                        hits.push(Hit::ended(start, start + content.len()));
                    }
                    return Rest::Ends(if is_value { next } else { from });
                }
            };
            let Some((a, b)) = hit else { return Rest::Ends(from) };
            hits.push(Hit::ended(a, b));
            if block.is_some() {
                return Rest::Ends(next);
            }
            self.passed = 0;
            from = next;
        }
        Rest::GoesOn
    }
}

impl Below {
    /// The key that is an item of its own, so that a mark stands there alone.
    fn item_key(&self, key: Option<&pem::Found>, content: &[u8], start: usize, lead: usize) -> Option<Hit> {
        let (pem::Found::Inline(hit) | pem::Found::Block(hit, _)) = key? else { return None };
        let first = match self.kind {
            Kind::List => start,
            Kind::Items if content.starts_with(b"- ") && lead + 2 >= self.column => start + 2,
            Kind::Block | Kind::Items | Kind::Pair | Kind::Form => return None,
        };
        (hit.start == first && hit.end == start + content.len()).then_some(*hit)
    }
}

/// Where a line begins once the key block before it is masked, if only what begins lines stands between that and a name.
fn behind_block(text: &[u8], first: usize) -> Option<usize> {
    let lead = slice(text, first.saturating_sub(BLANKS), first);
    // Most often there is no dash at all.
    if lead
        .first_chunk::<BLANKS>()
        .is_some_and(|lead| !lead.iter().fold(false, |has, byte| has | (*byte == b'-')))
    {
        return None;
    }
    let between = memchr::memmem::rfind(lead, DASHES).and_then(|place| lead.get(place + DASHES.len()..))?;
    value::may_begin_line(between).then(|| first - between.len())
}

/// Blanks in front, where the sign that all lines begin with is one.
fn indentation(line: &[u8], sign: u8) -> usize {
    let first = usize::from(at(line, 0) == Some(sign) && sign != b' ');
    // A list may begin with the same sign.
    let is_item = sign == b'-' && at(line, 1) == Some(b' ') && at(line, 2).is_some_and(|byte| byte > b' ');
    let first = if is_item { 0 } else { first };
    first + slice(line, first, line.len()).iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

/// Whether a line ends here, perhaps after blanks.
fn ends_line(text: &[u8], from: usize) -> bool {
    let from = skip_blanks(text, from, BLANKS);
    let from = from + usize::from(at(text, from) == Some(b'\r'));
    at(text, from) == Some(b'\n')
}

/// A key block, or what is put there later.
fn holds_key(content: &[u8]) -> bool {
    content.starts_with(b"---") || [&b"{{"[..], b"${", b"<%"].iter().any(|start| content.starts_with(start))
}

/// `name: NAME`, `"key": "NAME"`
fn is_named(text: &[u8], first: usize) -> bool {
    let lead = slice(text, line_start(text, first, LEAD), first);
    let lead = lead.strip_suffix(b"\"").or_else(|| lead.strip_suffix(b"'")).unwrap_or(lead);
    let Some(lead) = lead.trim_ascii_end().strip_suffix(b":") else { return false };
    let lead = lead.strip_suffix(b"\"").unwrap_or(lead);
    let from = lead.len().saturating_sub(4);
    let word = slice(lead, from, lead.len()).to_ascii_lowercase();
    let begins = |length: usize| {
        before(lead, lead.len().saturating_sub(length)).is_none_or(|byte| !byte.is_ascii_alphanumeric())
    };
    (word.ends_with(b"name") && begins(4)) || (word.ends_with(b"key") && begins(3))
}

fn is_form(text: &[u8], first: usize) -> bool {
    stands_before(text, first, b"form-data; name=\"")
}

/// A line that tells about a value: its type.
fn is_about(content: &[u8]) -> bool {
    let names: [&[u8]; 3] = [b"type ", b"sensitive ", b"nullable "];
    names.iter().any(|name| content.starts_with(name))
}

/// `value: …`, `"value": "…"`, `default = "…"`, `<string>…`
fn valued(text: &[u8], start: usize) -> Option<Hit> {
    if slice(text, start, start + 8) == b"<string>" {
        return value::find(text, start, start + 8, Written::Element);
    }
    let from = start + usize::from(at(text, start).is_some_and(|byte| b"\"'".contains(&byte)));
    let length = [5, 7].into_iter().find(|length| {
        let word = slice(text, from, from + length);
        word.eq_ignore_ascii_case(b"value") || word == b"default"
    })?;
    let end = from + length;
    let closed = end + usize::from(at(text, end).is_some_and(|byte| b"\"'".contains(&byte)));
    let sign = skip_blanks(text, closed, BLANKS);
    let is_sign = at(text, sign).is_some_and(|byte| b":=".contains(&byte));
    let value = skip_blanks(text, sign + 1, BLANKS);
    is_sign.then(|| value::find(text, from, value, Written::Set)).flatten()
}

/// Where the value of a list's line is, if it looks like a secret: `abc123`, `"abc123",`. A mark that stands there alone was
/// one; what stands beside a mark is left to the other finders.
fn item(content: &[u8]) -> Option<(usize, usize)> {
    if let Some(opening) = Opening::at(content, 0).filter(|_| at(content, 0) != Some(b'[')) {
        let end = opening.body().end(content, opening.start);
        // `"name": …` is a field of its own.
        let rest = slice(content, end + 1, content.len());
        let signs = rest.iter().take_while(|byte| b",;) \t\r".contains(byte)).count();
        let rest = slice(rest, signs, rest.len());
        let value = slice(content, opening.start, end);
        let is_secret = is_remark(rest) && is_secret(value) || rest.is_empty() && value == MARK.as_bytes();
        let end = if rest.is_empty() { end } else { content.len() };
        return is_secret.then_some((opening.start, end));
    }
    let end = Body::Word.end(content, 0);
    let rest = slice(content, end, content.len()).trim_ascii();
    let word = slice(content, 0, end);
    let word = word.strip_suffix(b",").unwrap_or(word);
    let end = if rest.is_empty() { word.len() } else { content.len() };
    // A key; not if it holds a value of its own, without which it would not end so.
    let is_key = word.ends_with(b":") && !word.iter().any(|byte| b"$=".contains(byte));
    let is_mark = rest.is_empty() && word == MARK.as_bytes();
    (is_mark || is_remark(rest) && is_secret(word) && !is_key).then_some((0, end))
}

/// Nothing, or a remark; that is masked with the value, since nobody else looks at the line.
fn is_remark(rest: &[u8]) -> bool {
    rest.is_empty() || rest.starts_with(b"#") || rest.starts_with(b"//")
}

/// Whether one of several values is a secret: more is asked of it than of one with a name of its own.
pub(super) fn is_secret(value: &[u8]) -> bool {
    value.len() >= 8
        && mixed(value)
        && value.iter().any(u8::is_ascii_digit)
        && !value.contains(&b' ')
        && !value::is_harmless(value)
        && !value::begins_reference(value)
        && !value::is_code(value)
}
