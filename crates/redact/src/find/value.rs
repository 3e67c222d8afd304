//! Where the value of a secret name ends, and whether it is one.

use super::{Body, Hit, list};
use crate::bytes::{ByteSet, at, before, is_one_of, skip_blanks, slice, stands_before, until_blank};
use crate::words::Words;

/// How a value is written after its name: how sure we are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    /// `name=value`, `"name": value`, `--name value`: a value for certain.
    Set,
    /// `"name": value`: a number, or code; text would have quotes.
    Keyed,
    /// `name = value`: a value, or code.
    Assigned,
    /// `name == value`: code, or a value in quotes.
    Compared,
    /// `f("name", "value")`: a value, or another name.
    Passed,
    /// `Name-Of-Header: value`, wherever it stands.
    Header,
    /// `name: value` where a line begins: a value, or a sentence.
    Line,
    /// `… name: value` within a line: a sentence, or a value.
    Told,
    /// `<name>value</name>`
    Element,
}

/// An opening quote, perhaps with backslashes and a string prefix in front.
pub(super) struct Opening {
    pub(super) start: usize,
    quote: u8,
    escapes: usize,
}

impl Opening {
    pub(super) fn at(text: &[u8], from: usize) -> Option<Self> {
        let from = from + wrapped(text, from);
        let has_prefix = at(text, from).is_some_and(|byte| is_one_of(byte, b"bfruN@"));
        let is_quote = |byte: Option<u8>| byte.filter(|byte| is_one_of(*byte, b"\"'`"));
        let from = if has_prefix && is_quote(at(text, from + 1)).is_some() { from + 1 } else { from };
        let escapes = slice(text, from, from + 8).iter().take_while(|byte| **byte == b'\\').count();
        let quote = is_quote(at(text, from + escapes))?;
        let three = [quote; 3];
        if escapes == 0 && slice(text, from, from + 3) == three && at(text, from + 3) != Some(quote) {
            return Some(Self { start: from + 3, quote, escapes });
        }
        Some(Self { start: from + escapes + 1, quote, escapes })
    }

    pub(super) const fn body(&self) -> Body {
        Body::Quoted { quote: self.quote, escapes: self.escapes }
    }
}

/// How long what stands around a quoted value is: `["`, `Some("`, `[]string{"`.
fn wrapped(text: &[u8], from: usize) -> usize {
    const AROUND: &[&[u8]] =
        &[b"[]string{", b"Some(", b"Sensitive(", b"Secret(", b"String::from(", b"PASSWORD("];
    match slice(text, from, from + 2) {
        [b'[', b' '] => 2,
        [b'[', next] if *next != b']' => 1,
        [b'['] => 1,
        [b'S' | b'P' | b'[', ..] => {
            let around = AROUND.iter().find(|around| slice(text, from, from + around.len()) == **around);
            around.map_or(usize::from(at(text, from) == Some(b'[')), |around| around.len())
        }
        _ => 0,
    }
}

/// How much of a value is looked at to tell whether it is one.
pub(super) const LOOK: usize = 64;

static PATH: ByteSet = ByteSet::alphanumeric_and(b"_.:");
static NAME: ByteSet = ByteSet::alphanumeric_and(b"_-.");

/// `first` is where the name begins, `from` where the value does.
pub(super) fn find(text: &[u8], first: usize, from: usize, written: Written) -> Option<Hit> {
    if at(text, from) == Some(b'[') && at(text, from + 1) != Some(b']') && written != Written::Element {
        return match written {
            Written::Header => {
                list::brackets(text, from).filter(|hit| !is_header(slice(text, hit.start, hit.end)))
            }
            _ => list::find(text, from).or_else(|| only(text, first, from, written)),
        };
    }
    one(text, first, from, written)
}

/// A list of one, whose name says enough.
fn only(text: &[u8], first: usize, from: usize, written: Written) -> Option<Hit> {
    let opening = Opening::at(text, from)?;
    let end = opening.body().end(text, opening.start);
    // A feature of a package.
    let is_feature = slice(text, opening.start, opening.start + 4) == b"dep:";
    (at(text, end + 1) == Some(b']') && !is_feature).then(|| one(text, first, from, written)).flatten()
}

fn one(text: &[u8], first: usize, from: usize, written: Written) -> Option<Hit> {
    const DATA: &[u8] = b"<![CDATA[";
    let is_data = written == Written::Element && slice(text, from, from + DATA.len()) == DATA;
    let from = if is_data { from + DATA.len() } else { from };
    if let Some(opening) = Opening::at(text, from).filter(|_| written != Written::Element) {
        // `ask("Password: ")?`: the quote closes a string that the name stands in.
        if at(text, opening.start).is_some_and(|byte| b"),;]".contains(&byte)) {
            return None;
        }
        let body = opening.body();
        let end = body.end(text, opening.start);
        let value = slice(text, opening.start, end);
        // `event.key === 'Enter'`
        let head = slice(value, 0, LOOK);
        let is_word = match written {
            Written::Compared => !looks_random(head),
            // `the next token is `union``
            Written::Told if before(text, opening.start) == Some(b'`') => !looks_random(head),
            Written::Passed => !looks_random(head) || head.contains(&b' '),
            Written::Header => is_header(head),
            _ => false,
        };
        let is_secret = !is_word && !is_harmless(value);
        let goes_on = written == Written::Set && at(text, end + 1).is_some_and(|b| b.is_ascii_alphanumeric());
        if is_secret && goes_on && at(text, end).is_some_and(|byte| b"\"'".contains(&byte)) {
            // A shell's word is not over at the quote. The mark takes its first quote along: it has no last one.
            return Some(Hit::of(from, word_end(text, end + 1, b""), Body::Word));
        }
        return is_secret.then_some(Hit::of(opening.start, end, body));
    }
    // `&quot;…&quot;`
    let is_marked_up = is_entity(text, from);
    let from = if is_marked_up {
        from + slice(text, from, from + 6).iter().position(|b| *b == b';')? + 1
    } else {
        from
    };
    let written = if is_marked_up { Written::Set } else { written };
    let head = slice(text, from, from + LOOK);
    let word = slice(head, 0, until_blank(head));
    // Most often this alone decides.
    match written {
        Written::Compared | Written::Passed => return None,
        Written::Told if !looks_random(word) => return None,
        _ => {}
    }
    if word.is_empty()
        || is_structure(word, written)
        || is_harmless(word)
        || is_blank_to_fill(head)
        || begins_reference(word)
        || is_declaration(slice(text, from, from + 2 * LOOK), word, written)
        || is_same_name(slice(text, first, NAME.run(slice(text, 0, first + LOOK), first)), word)
    {
        return None;
    }
    if written == Written::Element {
        let body = Body::Quoted { quote: b'<', escapes: 0 };
        let end = body.end(text, from);
        // `From<Password> for Thing` is no element.
        let is_element =
            slice(text, end, end + 2) == b"</" || is_data || (end == text.len() && looks_random(word));
        return is_element.then(|| Hit::of(from, end, body));
    }
    let is_secret = match written {
        Written::Set | Written::Element => true,
        Written::Compared | Written::Passed => false,
        Written::Header => {
            (word.len() >= 8 || looks_random(word) || begins_line(text, first)) && !is_code(word)
        }
        Written::Assigned => {
            let is_name = is_identifier(word)
                && (word.contains(&b'_') || is_declared(text, first) || is_member(text, first));
            !(is_code(word) || is_constant(word) || is_name)
        }
        Written::Keyed => !is_code(word) && !is_identifier(word),
        // A comma after a name: a field of a structure.
        Written::Line if word.ends_with(b",") && is_identifier(word) => false,
        Written::Line => {
            // `"passwd:shell"`
            let is_apart = before(text, from).is_some_and(|byte| byte.is_ascii_whitespace());
            (looks_random(word) || is_apart && !is_capital(text, first)) && !is_code(word)
        }
        Written::Told => looks_random(word) && !is_code(word),
    };
    if !is_secret {
        return None;
    }
    let is_passphrase = written == Written::Line && !looks_random(word) && !has_mark_after(head, word.len());
    let body = if is_passphrase { Body::Line } else { Body::Word };
    let end = if is_passphrase {
        body.end(text, from).min(trimmed(text, from))
    } else {
        word_end(text, from, word)
    };
    (end > from && !is_harmless(slice(text, from, end))).then_some(Hit::of(from, end, body))
}

/// The name of another header: `Content-Type`, `x-request-id`.
fn is_header(value: &[u8]) -> bool {
    value.iter().all(|byte| byte.is_ascii_alphabetic() || *byte == b'-')
        && (value.contains(&b'-') || value.first().is_some_and(u8::is_ascii_uppercase))
}

/// `password=password`, `token=this.token`: a name in place of a value.
fn is_same_name(name: &[u8], word: &[u8]) -> bool {
    static OVER: ByteSet = ByteSet::of(b",;)]}|&?:(");
    let lead = word.iter().take_while(|byte| is_one_of(**byte, b"&*!")).count();
    let end = PATH.run(word, lead);
    if at(word, end).is_some_and(|byte| !OVER.has(byte)) {
        return false;
    }
    let path = slice(word, lead, end);
    let last = path.rsplit(|byte| *byte == b'.').next().unwrap_or_default();
    let (mut of_name, mut of_last, mut length) = (backwards(name), backwards(last), 0);
    let is_end_of_name = loop {
        match (of_last.next(), of_name.next()) {
            (None, _) => break true,
            (Some(_), None) => break false,
            (Some(letter), Some(other)) if letter != other => return false,
            (Some(_), Some(_)) => length += 1,
        }
    };
    if is_end_of_name {
        return length >= 3;
    }
    let length = length + 1 + of_last.count();
    length >= 3 && path.len() > length
}

/// Its letters and digits without regard to case, the last one first.
fn backwards(text: &[u8]) -> impl Iterator<Item = u8> {
    text.iter().rev().filter(|byte| byte.is_ascii_alphanumeric()).map(u8::to_ascii_lowercase)
}

/// `${…`, `$(…`, `{{…`, `!vault`, `op://…`: what will be put there is not here.
pub(super) fn begins_reference(word: &[u8]) -> bool {
    // Most often the first byte alone decides.
    if !word.first().is_some_and(|byte| is_one_of(*byte, b"${#<osvf!")) {
        return false;
    }
    let starts: [&[u8]; 9] =
        [b"${", b"$(", b"{{", b"#{", b"<%", b"op://", b"secret://", b"vault://", b"file://"];
    let is_tag =
        word.strip_prefix(b"!").is_some_and(|tag| !tag.is_empty() && tag.iter().all(u8::is_ascii_alphabetic));
    // `{name}` of a format
    let is_blank = word.strip_prefix(b"{").is_some_and(|rest| {
        let name =
            rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || b"_.:?#".contains(byte)).count();
        at(rest, name) == Some(b'}')
    });
    is_tag || is_blank || starts.iter().any(|start| word.starts_with(start))
}

/// A type, a pointer or a block where a value would stand: `name: *mut Thing`, `NAME: u32 = 7`, `name: Thing {`,
/// `<Name = u8>`, `name: UINT32,`.
fn is_declaration(rest: &[u8], word: &[u8], written: Written) -> bool {
    if matches!(written, Written::Set | Written::Element | Written::Header | Written::Passed) {
        return false;
    }
    let bare = slice(word, word.iter().take_while(|byte| b"*&".contains(byte)).count(), word.len());
    let starts: [&[u8]; 5] = [b"::", b"http://", b"https://", b"/*", b"//"];
    let words: [&[u8]; 4] = [b"impl", b"dyn", b"mut", b"const"];
    let may_start = word.first().is_some_and(|byte| is_one_of(*byte, b":h/"));
    if may_start && starts.iter().any(|start| word.starts_with(start))
        || words.contains(&word)
        || is_primitive(word)
        || is_variable(word)
        || bare.len() < word.len() && is_identifier(bare)
    {
        return true;
    }
    let is_name = |name: &[u8]| name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_:".contains(byte));
    let after = slice(rest, word.len(), word.len() + 3);
    if is_name(word) && (after == b" = " || after.starts_with(b" {")) {
        return true;
    }
    if let Some(name) = word.strip_suffix(b">").filter(|_| written == Written::Assigned) {
        return is_name(name);
    }
    // `DWORD64,`, `Colon2,`
    let name = word.strip_suffix(b",").unwrap_or_default();
    let letters =
        slice(name, 0, name.len() - name.iter().rev().take_while(|byte| byte.is_ascii_digit()).count());
    let is_type = letters.iter().all(u8::is_ascii_uppercase) && name.len() - letters.len() <= 3
        || is_identifier(letters) && is_capital(letters, 0) && name.len() - letters.len() <= 2;
    let is_constant = name.contains(&b'_')
        && name.iter().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || *b == b'_');
    letters.len() > 1 && (is_type || is_constant)
}

/// `$name`, `$name->field`, `$name::other`: a variable of Perl or PHP.
fn is_variable(word: &[u8]) -> bool {
    let Some(name) = word.strip_prefix(b"$") else { return false };
    let length = name.iter().take_while(|byte| byte.is_ascii_lowercase() || **byte == b'_').count();
    let rest = slice(name, length, name.len());
    length > 1
        && (matches!(rest, [] | [b',' | b';' | b')' | b'[', ..])
            || rest.starts_with(b"->")
            || rest.starts_with(b"::"))
}

/// `self.name`, `this.name`, `$name`
fn is_member(text: &[u8], first: usize) -> bool {
    let starts: [&[u8]; 3] = [b"self.", b"this.", b"cls."];
    starts.iter().any(|start| slice(text, first, first + start.len()) == *start)
        || before(text, first) == Some(b'$')
}

/// `u8`, `i32,`, `f64;`, `char;`
fn is_primitive(word: &[u8]) -> bool {
    let word = slice(word, 0, word.iter().position(|byte| b",;".contains(byte)).unwrap_or(word.len()));
    let sizes: [&[u8]; 6] = [b"8", b"16", b"32", b"64", b"128", b"size"];
    let is_number =
        word.first().is_some_and(|byte| b"iuf".contains(byte)) && sizes.contains(&slice(word, 1, word.len()));
    is_number || word == b"char"
}

/// `let name`, `const name`
fn is_declared(text: &[u8], first: usize) -> bool {
    let words: [&[u8]; 6] = [b"let ", b"const ", b"var ", b"mut ", b"val ", b"static "];
    words.iter().any(|word| stands_before(text, first, word))
}

/// `PASSWORD_CHANGE`
fn is_constant(word: &[u8]) -> bool {
    let word =
        slice(word, 0, word.len() - word.iter().rev().take_while(|byte| b",;)".contains(byte)).count());
    word.contains(&b'_') && word.iter().all(|byte| byte.is_ascii_uppercase() || *byte == b'_')
}

/// A name as programs have them, and nothing that a lot would draw.
pub(super) fn is_identifier(word: &[u8]) -> bool {
    let word =
        slice(word, 0, word.len() - word.iter().rev().take_while(|byte| b",;)]}".contains(byte)).count());
    word.first().is_some_and(|byte| byte.is_ascii_alphabetic() || b"_$".contains(byte))
        && word.iter().all(|byte| byte.is_ascii_alphabetic() || b"_$.".contains(byte))
}

/// `<your key here>`
fn is_blank_to_fill(head: &[u8]) -> bool {
    let inside = head.strip_prefix(b"<").and_then(|rest| {
        rest.iter()
            .position(|byte| !(byte.is_ascii_alphabetic() || b" _-".contains(byte)))
            .map(|end| (rest, end))
    });
    inside.is_some_and(|(rest, end)| at(rest, end) == Some(b'>'))
}

/// An opening bracket or a block sign rather than a value.
fn is_structure(word: &[u8], written: Written) -> bool {
    let is_sign = matches!(word.first(), Some(b'{' | b'[' | b'(' | b'|' | b'&' | b'>'));
    let is_alone = word.len() <= 2 || matches!(at(word, 1), Some(b'"' | b'\'' | b'{' | b'['));
    is_sign && (is_alone || written != Written::Set)
}

/// A first word that ends a sentence or a list entry: only the word is the value.
fn has_mark_after(head: &[u8], word: usize) -> bool {
    before(head, word).is_some_and(|byte| b",;".contains(&byte))
}

/// The end of the line without a carriage return.
fn trimmed(text: &[u8], from: usize) -> usize {
    let end = Body::Line.end(text, from);
    from + slice(text, from, end).trim_ascii_end().len()
}

/// The end of an unquoted value. `;`, `&` and `,` end it only where another field or a blank follows;
/// a scheme word takes the word after it along.
fn word_end(text: &[u8], from: usize, word: &[u8]) -> usize {
    let is_scheme = [&b"bearer"[..], b"basic", b"token", b"digest"]
        .iter()
        .any(|scheme| word.eq_ignore_ascii_case(scheme));
    let from_next = skip_blanks(text, from + word.len(), 8);
    let start = if is_scheme && from_next > from + word.len() { from_next } else { from };
    for (offset, byte) in slice(text, start, text.len()).iter().enumerate() {
        let end = start + offset;
        match byte {
            b' ' if before(text, end) == Some(b'\\') && at(text, end + 1).is_some_and(|b| b > b' ') => {}
            byte if byte.is_ascii_whitespace() => return unclosed(text, start, end),
            // A shell goes on: `abc'def'ghi`, `abc\ def`
            b'"' | b'\'' if at(text, end + 1).is_some_and(|next| next.is_ascii_alphanumeric()) => {}
            b'"' | b'\'' | b'`' | b'<' => return unclosed(text, start, end),
            b'\\' if at(text, end + 1).is_some_and(|next| b"nrt\"'".contains(&next)) => {
                return unclosed(text, start, end);
            }
            // `[…](…?token=…)](…)`
            b')' if at(text, end + 1) == Some(b']') => return unclosed(text, start, end),
            b'&' if is_entity(text, end) => return unclosed(text, start, end),
            b'&' | b';' | b',' if another_follows(text, end + 1) => return unclosed(text, start, end),
            _ => {}
        }
    }
    unclosed(text, start, text.len())
}

/// A quote as markup writes it closes a value that began with one.
fn is_entity(text: &[u8], at: usize) -> bool {
    text.get(at) == Some(&b'&')
        && [&b"&quot;"[..], b"&#34;", b"&#39;", b"&apos;"]
            .iter()
            .any(|quote| slice(text, at, at + quote.len()) == *quote)
}

/// Without brackets and stops that belong to the text around the value.
fn unclosed(text: &[u8], from: usize, end: usize) -> usize {
    let value = slice(text, from, end);
    let closing = value.iter().rev().take(4).take_while(|byte| b")]},;".contains(byte)).count();
    end - closing.min(value.len().saturating_sub(1))
}

fn another_follows(text: &[u8], from: usize) -> bool {
    let rest = slice(text, from, from + LOOK);
    let name =
        rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || b"_-.%[]".contains(byte)).count();
    match rest.get(name) {
        None => name == 0,
        Some(b'=' | b':') => name > 0,
        Some(byte) => name == 0 && (byte.is_ascii_whitespace() || b"\"'`".contains(byte)),
    }
}

/// Indentation, list signs and opening brackets.
static BEFORE: ByteSet = ByteSet::of(b" \t-{,+<>|#*\"'");

/// Whether a name behind this would be the first of its line.
pub(super) fn may_begin_line(lead: &[u8]) -> bool {
    lead.iter().all(|byte| BEFORE.has(*byte))
}

/// Whether only indentation, list signs and opening brackets stand before this in its line.
pub(super) fn begins_line(text: &[u8], first: usize) -> bool {
    let lead = slice(text, first.saturating_sub(LOOK), first);
    let signs = lead.iter().rev().take_while(|byte| BEFORE.has(**byte)).count();
    match lead.len().checked_sub(signs + 1).and_then(|at| lead.get(at)) {
        None => first <= LOOK && signs == lead.len(),
        Some(byte) => *byte == b'\n' || *byte == b'\r',
    }
}

pub(super) fn is_capital(text: &[u8], first: usize) -> bool {
    at(text, first).is_some_and(|byte| byte.is_ascii_uppercase())
        && at(text, first + 1).is_some_and(|byte| byte.is_ascii_lowercase())
}

/// A digit, a sign that words do not have, or a capital after a small letter.
pub(super) fn looks_random(word: &[u8]) -> bool {
    // All but these: . - _ ' /
    static SIGN: ByteSet = ByteSet::of(b"0123456789!\"#$%&()*+,:;<=>?@[\\]^`{|}~");
    // What follows a closing quote is not of the value.
    let word = slice(word, 0, word.iter().position(|byte| is_one_of(*byte, b"\"`")).unwrap_or(word.len()));
    let stops = word.iter().rev().take_while(|byte| is_one_of(**byte, b".,;:!?)")).count();
    let word = slice(word, 0, word.len() - stops);
    if word.len() < 6 {
        return false;
    }
    let mut previous = 0;
    word.iter().any(|byte| {
        let has_capital_inside = byte.is_ascii_uppercase() && u8::is_ascii_lowercase(&previous);
        previous = *byte;
        has_capital_inside || SIGN.has(*byte)
    })
}

/// A call, an index, a path of names, or a type.
pub(super) fn is_code(word: &[u8]) -> bool {
    let stops = word.iter().rev().take_while(|byte| b",;)".contains(byte)).count();
    let word = slice(word, word.iter().take_while(|byte| b"&*!".contains(byte)).count(), word.len() - stops);
    if stops > 0
        && word.first().is_some_and(u8::is_ascii_uppercase)
        && word.iter().all(u8::is_ascii_alphabetic)
    {
        return true;
    }
    let names = PATH.run(word, 0);
    let starts = word.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
    // `made.secret.0`: a part may be a number, and has no digit otherwise.
    let is_part = |part: &[u8]| !part.iter().any(u8::is_ascii_digit) || part.iter().all(u8::is_ascii_digit);
    let is_path =
        names == word.len() && word.contains(&b'.') && word.split(|byte| *byte == b'.').all(is_part)
            || slice(word, 0, names).windows(2).any(|pair| pair == b"::");
    let is_macro =
        at(word, names) == Some(b'!') && at(word, names + 1).is_none_or(|byte| b"([{=".contains(&byte));
    let is_call = is_macro || matches!(at(word, names), Some(b'(' | b'[' | b'<'));
    starts && (is_path || (is_call && names > 1))
}

/// Values that say that there is none, name a type, or stand for one to be filled in.
pub(super) fn is_harmless(value: &[u8]) -> bool {
    static WORDS: Words = Words::of(&[
        "true",
        "false",
        "null",
        "none",
        "nil",
        "undefined",
        "string",
        "str",
        "&str",
        "bool",
        "boolean",
        "number",
        "int",
        "integer",
        "object",
        "any",
        "bytes",
        "required",
        "optional",
        "hidden",
        "redacted",
        "[redacted]",
        "yes",
        "no",
        "read",
        "write",
        "await",
        "async",
        "new",
        "function",
        "lambda",
        "typeof",
        "yield",
        "match",
        "self",
        "this",
        "if",
        "unsafe",
        "files",
        "pass",
        "fail",
        "eof",
    ]);
    if value.len() > LOOK {
        return false;
    }
    let value = value.trim_ascii();
    let stops = value.iter().rev().take_while(|byte| is_one_of(**byte, b",;:})]")).count();
    let bare = slice(value, 0, value.len() - stops);
    if bare.is_empty() || bare.iter().all(|byte| *byte == b'*') {
        return true;
    }
    WORDS.has(bare) || is_reference(value)
}

/// `$NAME`, `${…}`, `$(…)`, `{{…}}`, `<…>`, `%s`, `{}`
fn is_reference(value: &[u8]) -> bool {
    let wraps = |open: &[u8], close: &[u8]| value.starts_with(open) && value.ends_with(close);
    let is_variable = value.strip_prefix(b"$").is_some_and(|name| {
        let name = name.strip_prefix(b"env:").unwrap_or(name);
        let is_name = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_';
        let length = name.iter().take_while(|byte| is_name(byte)).count();
        // `$2";` too: what follows is of the text around it.
        length > 0 && !slice(name, length, name.len()).iter().any(u8::is_ascii_alphanumeric)
    });
    let pairs: [(&[u8], &[u8]); 5] =
        [(b"${", b"}"), (b"$(", b")"), (b"{{", b"}}"), (b"<", b">"), (b"{", b"}")];
    is_variable
        || pairs.iter().any(|(open, close)| wraps(open, close))
        || matches!(value, b"%s" | b"%v" | b"%r" | b"%d" | b"?")
        || is_version(value)
        || is_colour(value)
}

/// `7.5`
fn is_version(value: &[u8]) -> bool {
    value.len() <= 8
        && value.contains(&b'.')
        && value.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')
}

/// `#dddddd`
fn is_colour(value: &[u8]) -> bool {
    matches!(value.len(), 4 | 7)
        && value.first() == Some(&b'#')
        && slice(value, 1, 7).iter().all(u8::is_ascii_hexdigit)
}
