//! Values by the name in front of them: `password=…`, `"api_key": "…"`, `--token …`, `<secret>…</secret>`.
//!
//! The name decides whether it is a secret; how it is written decides where the value is and how sure
//! we are ([`Written`]); [`super::value`] decides whether that value is one.

use std::ops::Range;

use super::below::{Below, DASHES};
use super::dull::Dull;
use super::value::{self, Written};
use super::{Hit, command, header, markup, passing};
use crate::bytes::{
    ByteSet, at, before, is_one_of, line_end, line_start, mixed, skip_blanks, slice, stands_before,
};
use crate::words::Words;

/// Anchors: every secret name contains one of these.
pub(super) const WORDS: &[&str] = &[
    "pass",
    "pwd",
    "secret",
    "token",
    "key",
    "auth",
    "cookie",
    "sig=",
    "signature=",
    "jwt",
    "psk",
    "sessid",
    "jsessionid",
    "ct.sid",
    "mnemonic",
    "credential",
    "pw=",
    "pw:",
    "pw\"",
];

/// A name is secret if it ends so, in lower case and without `_`, `-` and `.`.
static ENDINGS: Words = Words::of(&[
    "password",
    "passwd",
    "pwd",
    "passphrase",
    "passcode",
    "passwordhash",
    "secret",
    "clientsecret",
    "secretkeybase",
    "token",
    "apikey",
    "accesskey",
    "privatekey",
    "secretkey",
    "authkey",
    "signingkey",
    "encryptionkey",
    "masterkey",
    "accountkey",
    "sharedkey",
    "sharedaccesskey",
    "sessionkey",
    "deploykey",
    "appkey",
    "openaikey",
    "anthropickey",
    "sshkey",
    "servicekey",
    "storagekey",
    "licensekey",
    "hmackey",
    "aeskey",
    "presharedkey",
    "privkey",
    "adminkey",
    "integrationkey",
    "writekey",
    "subscriptionkey",
    "functionskey",
    "consumerkey",
    "clientkey",
    "serverkey",
    "instrumentationkey",
    "roottoken",
    "passwordconfirmation",
    "psk",
    "jwt",
    "phpsessid",
    "jsessionid",
    "connectsid",
    "mnemonic",
    "amzsignature",
    "googsignature",
]);

/// Whole names; what ends so may be anything.
const WHOLE: &[&str] = &["auth", "sig", "pass"];

/// What stands before `pass` where that means a password and no `bypass`.
const PASSES: &[&str] = &[
    "db", "user", "my", "root", "smtp", "ftp", "key", "store", "admin", "mail", "ssh", "login", "sudo",
    "redis", "pg",
];

/// What stands before `pw`, or nothing.
const PWS: &[&str] = &["", "db", "user", "root", "admin", "bind"];

/// Names that mean more than a secret: only what looks drawn by lot is one.
const VAGUE: &[&str] = &["credential"];

/// Headers that are keys, without `-`. They are so wherever they stand.
const KEYS: &[&str] =
    &["xapikey", "xauthtoken", "xauthkey", "apikey", "xgoogapikey", "xopenaikey", "xanthropickey"];

/// What may stand after the name of a secret: which of them it is.
static WHICH: Words = Words::of(&[
    "prod",
    "production",
    "prd",
    "dev",
    "staging",
    "stage",
    "stg",
    "old",
    "live",
    "sandbox",
    "backup",
    "primary",
    "secondary",
    "qa",
    "uat",
    "value",
]);

/// Longest part of a name that is looked at before the anchor.
const REACH: usize = 48;
/// No secret name goes on this long after its last anchor.
const TAIL: usize = 24;
/// Most blanks around a separator.
pub(super) const BLANKS: usize = 16;
/// How many letters and digits of a name count, the last ones: no word of a list is longer.
const SIGNIFICANT: usize = 32;
/// How much of a value is looked at to tell whether it is about something else.
pub(super) const LOOK: usize = 128;
/// Most bytes before the first of a value: quotes, backslashes, what is around them.
pub(super) const OPENING: usize = 32;

static NAME: ByteSet = ByteSet::alphanumeric_and(b"_-.");
/// What may stand right behind a name that a value follows, wherever that is.
static BEHIND: ByteSet = ByteSet::of(b"\"'`\\&]% \t=:?|<>\n\r");

pub(super) enum Found {
    Hit(Hit),
    /// The value stands in the lines that follow.
    Below(Below),
    /// Nothing, as the name goes on for too long, and so do those of all anchors that end here.
    Nameless(Range<usize>),
}

pub(super) fn find(text: &[u8], start: usize, end: usize, dull: &mut Dull) -> Option<Found> {
    // Some anchors hold the sign after the name.
    let end = end - usize::from(before(text, end).is_some_and(|byte| is_one_of(byte, b"=:\"")));
    let tail = slice(text, end, end + TAIL).iter().take_while(|byte| NAME.has(**byte)).count();
    if tail == TAIL {
        return Some(Found::Nameless(end..NAME.run(text, end + TAIL) - TAIL + 1));
    }
    let last = end + tail;
    // Most names have no value.
    let is_named = at(text, last).is_some_and(|byte| BEHIND.has(byte));
    if !is_named && !is_piped(text, last) {
        return None;
    }
    // `..=` and `::Name` are code.
    if before(text, last) == Some(b'.') && at(text, last) == Some(b'=') {
        return None;
    }
    let first = unescaped(text, begin(text, start));
    // A key of what, is not said.
    if tail == 0 && first == start && slice(text, start, end).eq_ignore_ascii_case(b"key") {
        return None;
    }
    if stands_before(text, first, b"::") {
        return None;
    }
    if passing::is(text, (start, end), (first, last), dull) {
        return None;
    }
    // The whole line is its value.
    if tail == 0 && slice(text, start, end).eq_ignore_ascii_case(b"cookie") {
        return header::find(text, first, last, dull).map(Found::Hit);
    }
    // The anchor of the last word of a name does the work for the whole name.
    let mut plain = [0; SIGNIFICANT];
    let whole = slice(text, first, last);
    // An anchor at the end says no number, and not which.
    let spelled = if tail == 0 { whole } else { shortened(whole) };
    let name = normal(spelled, &mut plain);
    let ends = |ending: &&str| name.ends_with(ending.as_bytes());
    let final_letter = name.last().copied();
    // Their whole line is the value.
    let is_header = match final_letter {
        Some(b'e') => name.ends_with(b"cookie"),
        Some(b'n') => name.ends_with(b"authorization"),
        _ => false,
    };
    if is_header {
        return header::find(text, first, last, dull).map(Found::Hit);
    }
    // `process.env.AUTH`
    let last_part = || spelled.rsplit(|byte| *byte == b'.').next().unwrap_or_default();
    let is_whole =
        WHOLE.iter().filter(|whole| whole.as_bytes().last().copied() == final_letter).any(|whole| {
            ends(whole) && (name.len() == whole.len() || last_part().eq_ignore_ascii_case(whole.as_bytes()))
        });
    let is_pass = is_pass(spelled, name);
    let is_certain = ENDINGS.end(name) || is_whole || is_pass || is_pw(spelled, name);
    let is_several = || {
        let one = name.strip_suffix(b"s");
        let is_vague = |ending: &&str| one.unwrap_or(name).ends_with(ending.as_bytes());
        one.is_some_and(|one| ENDINGS.end(one)) || VAGUE.iter().any(is_vague)
    };
    if !is_certain && !is_several() {
        return None;
    }
    if let Some(below) = Below::after(text, first, last, is_certain) {
        let is_vain = below.is_vain(text, line_end(text, last) + 1);
        return (!is_vain).then_some(Found::Below(below));
    }
    if let Some(hit) = aside(text, first, last, name) {
        return Some(Found::Hit(hit));
    }
    let (from, written) = separator(text, first, last)?;
    if matches!(name, b"pwd" | b"oldpwd") && is_folder(text, from) {
        return None;
    }
    let may_be_key = spelled.contains(&b'-') || spelled == b"Apikey";
    let is_key = may_be_key && KEYS.iter().any(|key| name == key.as_bytes());
    let written = match written {
        Written::Told | Written::Line | Written::Passed if is_key => Written::Header,
        written => written,
    };
    if name == b"pass" && matches!(written, Written::Line | Written::Told) && at(text, first) != Some(b'p') {
        return None; // What tests say.
    }
    // `pass=12 fail=0`, `auth: basic`, `sig=1` are about something else.
    let is_other = |secret: &[u8]| match name {
        _ if is_whole && !is_pass => secret.len() < 12 || !mixed(secret),
        // The key of a keyboard, in HTML.
        b"accesskey" => secret.len() < 8,
        _ if is_pass => secret.len() < LOOK && secret.iter().all(u8::is_ascii_digit),
        // `MODE_PSK = 7,`
        _ if written == Written::Assigned && secret.len() < 4 => secret.iter().all(u8::is_ascii_digit),
        // `tokens: 4096`, `credentials: 'include'`
        _ if !is_certain => secret.len() < 8 || !mixed(secret) || !secret.iter().any(u8::is_ascii_digit),
        _ => false,
    };
    // Of what is long the first bytes decide, before its end is looked for: so nothing long is looked at in vain.
    let near = slice(text, 0, from + OPENING + LOOK);
    // Not in a list, where a secret may come far behind; and not what is assigned, where a short one counts as it is.
    let is_vague = is_whole && !is_pass || !is_certain && written != Written::Assigned;
    if is_vague && at(text, from) != Some(b'[') && dull.is(text, from, near.len()) {
        return None;
    }
    let is_open = || memchr::memchr(b'\n', slice(near, from, near.len())).is_none();
    if (is_whole || !is_certain) && is_open() {
        let begun = value::find(near, first, from, written);
        let is_long = |hit: &Hit| hit.end - hit.start >= LOOK;
        if begun.is_some_and(|hit| is_long(&hit) && is_other(slice(near, hit.start, hit.start + LOOK))) {
            return None;
        }
    }
    let hit = value::find(text, first, from, written)?;
    (!is_other(slice(text, hit.start, hit.end.min(hit.start + LOOK)))).then_some(Found::Hit(hit))
}

/// Where a name begins that has an anchor at `start`. A key block ends before a name.
fn begin(text: &[u8], start: usize) -> usize {
    let lead = slice(text, start.saturating_sub(REACH), start);
    let (mut length, mut dashes) = (0, 0);
    for byte in lead.iter().rev().take_while(|byte| NAME.has(**byte)) {
        dashes = if *byte == b'-' { dashes + 1 } else { 0 };
        length += 1;
        if dashes == DASHES.len() {
            return start + DASHES.len() - length;
        }
    }
    start - length
}

/// Whether a program has this name that reads a secret, whatever stands behind it.
fn is_piped(text: &[u8], last: usize) -> bool {
    let name = slice(text, last.saturating_sub(6), last);
    name == b"-stdin" || name.eq_ignore_ascii_case(b"passwd")
}

/// The folder that a shell is in: `/src`, `"/src"`, `C:\src`, and `PWD=/src` after `grep PWD:`.
fn is_folder(text: &[u8], from: usize) -> bool {
    let from = from + usize::from(at(text, from).is_some_and(|byte| b"\"'".contains(&byte)));
    at(text, from).is_some_and(|byte| b"/~$.".contains(&byte))
        || slice(text, from + 1, from + 3) == b":\\"
        || [&b"PWD="[..], b"OLDPWD="].iter().any(|name| slice(text, from, from + name.len()) == *name)
}

/// Where no sign stands between a name and its value, or another word stands there.
fn aside(text: &[u8], first: usize, last: usize, name: &[u8]) -> Option<Hit> {
    if name == b"htpasswd" {
        return command::htpasswd(text, last);
    }
    if name == b"chpasswd" {
        return command::piped(text, first);
    }
    let is_stdin = slice(text, last.saturating_sub(6), last) == b"-stdin";
    if is_stdin {
        return command::piped(text, first);
    }
    let is_quoted = at(text, last) == Some(b'"');
    if is_quoted {
        return markup::attribute(text, first, last + 1).or_else(|| value_before(text, first, last + 1));
    }
    None
}

/// `"value": "…", "name": "DB_PASSWORD"}`
fn value_before(text: &[u8], first: usize, closed: usize) -> Option<Hit> {
    if at(text, skip_blanks(text, closed, BLANKS)) != Some(b'}') {
        return None;
    }
    let lead = slice(text, first.saturating_sub(2 * REACH), first);
    let comma = memchr::memrchr(b',', lead)?;
    let named = slice(lead, comma + 1, lead.len()).trim_ascii();
    if ![&b"\"name\""[..], b"\"key\""].iter().any(|key| named.starts_with(key)) {
        return None;
    }
    let said = slice(lead, 0, comma);
    let key = b"\"value\":";
    let place = said.windows(key.len()).rposition(|window| window == key)?;
    let from = skip_blanks(text, first - lead.len() + place + key.len(), BLANKS);
    value::find(text, first, from, Written::Set)
}

/// `DB_PASS`, `dbPass`, `dbpass`, and not `bypass`.
fn is_pass(written: &[u8], name: &[u8]) -> bool {
    let Some(lead) = name.strip_suffix(b"pass") else { return false };
    let before_pass = written.len().checked_sub(5).and_then(|place| at(written, place));
    let is_part = before_pass.is_some_and(|byte| matches!(byte, b'_' | b'-' | b'.'));
    let is_camel = before_pass.is_some_and(|byte| byte.is_ascii_lowercase())
        && at(written, written.len() - 4) == Some(b'P');
    is_part || is_camel || lead.is_empty() || PASSES.iter().any(|word| lead == word.as_bytes())
}

/// `PW`, `ROOT_PW`, `bindpw`
fn is_pw(spelled: &[u8], name: &[u8]) -> bool {
    let is_part = spelled.len().checked_sub(3).and_then(|place| at(spelled, place));
    let Some(lead) = name.strip_suffix(b"pw") else { return false };
    is_part.is_some_and(|byte| b"_-.".contains(&byte)) || PWS.iter().any(|word| lead == word.as_bytes())
}

/// Without a number and without a word that says which: `API_KEY_PROD`, `PASSWORD_1`, `token2`.
fn shortened(name: &[u8]) -> &[u8] {
    let name = name.strip_suffix(b"-stdin").unwrap_or(name);
    let numberless = |name: &'_ [u8]| {
        let digits = name.iter().rev().take(3).take_while(|byte| byte.is_ascii_digit()).count();
        name.len() - digits
    };
    let is_sign = |byte: Option<u8>| byte.is_some_and(|byte| b"_-.".contains(&byte));
    let short = slice(name, 0, numberless(name));
    let which =
        WHICH.ending(short).find(|word| is_sign(before(short, short.len().saturating_sub(word.len()))));
    let short = slice(short, 0, short.len() - which.map_or(0, |word| word.len() + 1));
    slice(short, 0, numberless(short))
}

/// Past the rest of an escape in front of the name: `\nname`, `%0Aname`.
fn unescaped(text: &[u8], first: usize) -> usize {
    let is_break = at(text, first).is_some_and(|byte| b"nrt".contains(&byte));
    match before(text, first) {
        Some(b'\\') if is_break => first + 1,
        Some(b'%') => first + 2,
        _ => first,
    }
}

fn normal<'a>(name: &[u8], into: &'a mut [u8; SIGNIFICANT]) -> &'a [u8] {
    let kept = name.iter().rev().filter(|byte| !matches!(byte, b'_' | b'-' | b'.'));
    let mut first = SIGNIFICANT;
    for (slot, byte) in into.iter_mut().rev().zip(kept) {
        *slot = byte.to_ascii_lowercase();
        first -= 1;
    }
    into.get(first..).unwrap_or_default()
}

/// Where the value starts, and how it is written.
pub(super) fn separator(text: &[u8], first: usize, last: usize) -> Option<(usize, Written)> {
    // `"name"`, `'name'`, `\"name\"`, `['name']`
    let slashes = slice(text, last, last + 4).iter().take_while(|byte| **byte == b'\\').count();
    let is_quote = |position| at(text, position).is_some_and(|byte| is_one_of(byte, b"\"'`"));
    let closed = if is_quote(last + slashes) { last + slashes + 1 } else { last + entity(text, last) };
    let closed = match slice(text, closed, closed + 3) {
        [b']', ..] => closed + 1,
        [b'%', b'5', b'D' | b'd'] => closed + 3,
        _ => closed,
    };
    let is_option = at(text, first) == Some(b'-');
    let is_quoted = closed > last;

    let sign = skip_blanks(text, closed, BLANKS);
    let spaced = |after| {
        if sign > closed || skip_blanks(text, after, 1) > after { Written::Assigned } else { Written::Set }
    };
    let (after, written) = match (at(text, sign)?, at(text, sign + 1)) {
        // `SomeSecret => …` is an arm of a match.
        (b'=', Some(b'>')) if !is_quoted && at(text, first).is_some_and(|byte| byte.is_ascii_uppercase()) => {
            return None;
        }
        (b'=', Some(b'=')) => (sign + 2 + usize::from(at(text, sign + 2) == Some(b'=')), Written::Compared),
        (b'=', Some(b'>')) | (b':' | b'?', Some(b'=')) => (sign + 2, Written::Assigned),
        (b'!', Some(b'=')) if sign > closed => (sign + 2, Written::Compared),
        // `NAME || "…"`, `NAME ||= "…"`, `NAME ?? "…"`
        (b'|', Some(b'|')) | (b'?', Some(b'?')) => {
            (sign + 2 + usize::from(at(text, sign + 2) == Some(b'=')), Written::Compared)
        }
        // `${NAME:-…}`
        (b':', Some(b'-')) if before(text, first) == Some(b'{') => (sign + 2, Written::Set),
        (b':', Some(b'?' | b'+')) if before(text, first) == Some(b'{') => return None,
        // `| name | … |`
        (b'|', _) if before(text, first) == Some(b' ') && is_cell(text, first, sign) => {
            (sign + 1, Written::Told)
        }
        (b'<', _) if markup::after_key(text, last).is_some() => {
            (markup::after_key(text, last)?, Written::Element)
        }
        // `SECRET`: `secret` explains a word.
        (b':', _)
            if before(text, closed) == Some(b'`')
                && at(text, skip_blanks(text, sign + 1, BLANKS)) == Some(b'`') =>
        {
            return None;
        }
        (b'=', _) => (sign + 1, spaced(sign + 1)),
        (b':', _) if is_quoted => (sign + 1, Written::Keyed),
        // `name::other` is code, `name://` an address.
        (b':', Some(b':')) => return None,
        (b':', Some(b'/')) if at(text, sign + 2) == Some(b'/') => return None,
        // `$token:expr`
        (b':', Some(next)) if before(text, first) == Some(b'$') && next != b' ' => return None,
        // `a:b:secret:c`
        (b':', _) if before(text, first) == Some(b':') => return None,
        (b':', _) if value::begins_line(text, first) => (sign + 1, Written::Line),
        (b':', _) => (sign + 1, Written::Told),
        (b'%', Some(b'3')) if at(text, sign + 2).is_some_and(|byte| b"DdAa".contains(&byte)) => {
            (sign + 3, Written::Set)
        }
        (b'>', _) if markup::begins_element(text, first) => (sign + 1, Written::Element),
        _ if sign > closed && markup::begins_element(text, first) => {
            (markup::inside(text, sign)?, Written::Element)
        }
        // `<entry key="password">…`, `<setting name="Password" …><value>…`
        (b'>', _) if is_quoted => (markup::described(text, first, sign)?, Written::Element),
        (byte, _) if is_quoted && sign > closed && byte.is_ascii_alphabetic() => {
            (markup::described(text, first, sign)?, Written::Element)
        }
        // `{"name": "DB_PASSWORD", "value": "…"}`
        (b',', _) if is_quoted && valued(text, sign + 1).is_some() => (valued(text, sign + 1)?, Written::Set),
        // `<add key="Password" value="…"/>`
        (b'v' | b'V', _)
            if is_quoted
                && sign > closed
                && slice(text, sign, sign + 7).eq_ignore_ascii_case(b"value=\"") =>
        {
            (sign + 6, Written::Set)
        }
        // `["--token", "…"]`
        (b',', _) if is_option && is_quoted => (sign + 1, Written::Set),
        // `Set("X-Api-Key", "…")`, `('Authorization', 'Bearer …')`
        (b',', _) if is_quoted && is_argument(text, first, sign + 1) => (sign + 1, Written::Passed),
        _ if is_option && sign > closed => (sign, Written::Set),
        _ if sign > closed => return by_blank(text, first, last, sign),
        _ => return None,
    };
    Some((skip_blanks(text, after, BLANKS), written))
}

/// Where the value stands if `"value":` stands here.
fn valued(text: &[u8], from: usize) -> Option<usize> {
    let from = skip_blanks(text, from, BLANKS);
    let opening = value::Opening::at(text, from)?.start;
    let end = opening + b"value".len();
    let is_value = slice(text, opening, end).eq_ignore_ascii_case(b"value");
    let slashes = slice(text, end, end + 4).iter().take_while(|byte| **byte == b'\\').count();
    let closed = end + slashes + 1;
    let is_closed = before(text, closed).is_some_and(|byte| b"\"'".contains(&byte));
    let colon = skip_blanks(text, closed, BLANKS);
    (is_value && is_closed && at(text, colon) == Some(b':')).then_some(colon + 1)
}

/// Whether a quoted name is the first of some values in brackets, and another in quotes follows.
fn is_argument(text: &[u8], first: usize, from: usize) -> bool {
    let lead = slice(text, first.saturating_sub(5), first.saturating_sub(1));
    let lead = lead.strip_suffix(b"b").unwrap_or(lead).trim_ascii_end();
    let is_first = lead.last().is_some_and(|byte| b"([{".contains(byte));
    let next = skip_blanks(text, from, BLANKS);
    let next = next + usize::from(at(text, next) == Some(b'b'));
    is_first && at(text, next).is_some_and(|byte| b"\"'".contains(&byte))
}

/// A name, a blank and a value: `ENV API_KEY …`, `login ana password …`, `PASSWORD '…'`, `the password is …`.
fn by_blank(text: &[u8], first: usize, last: usize, sign: usize) -> Option<(usize, Written)> {
    let name = slice(text, first, last);
    let is_password = ends_so(name, b"password");
    // The last letter of a word that says so: most often it is another.
    let may_be_set =
        matches!(slice(text, first.saturating_sub(2), first), [b'V' | b'G' | b't' | b'x', b' '] | b"/:");
    if may_be_set && (stands_before(text, first, b"ENV ") || stands_before(text, first, b"ARG ")) {
        return Some((sign, Written::Set));
    }
    // `aws configure set NAME …`, `gh secret set NAME --body …`, `setx NAME …`
    if may_be_set && ["set ", "setx ", "/:"].iter().any(|word| stands_before(text, first, word.as_bytes())) {
        let body =
            [&b"--body "[..], b"-b "].into_iter().find(|body| slice(text, sign, sign + body.len()) == *body);
        return Some((
            sign + body.map_or(0, <[u8]>::len),
            if body.is_some() { Written::Set } else { Written::Told },
        ));
    }
    // `{:password "…"}`
    if before(text, first) == Some(b':') && at(text, sign) == Some(b'"') {
        return Some((sign, Written::Set));
    }
    if let Some(value) = said_for(text, sign, is_password) {
        return Some(value);
    }
    let told = [&b"is "[..], b"was ", b"is: "]
        .into_iter()
        .filter(|_| at(text, sign).is_some_and(|byte| is_one_of(byte, b"iw")))
        .find(|word| slice(text, sign, sign + word.len()) == *word);
    let is_header = || [&b"authorization"[..], b"cookie"].iter().any(|header| ends_so(name, header));
    if let Some(word) = told.filter(|_| !is_header()) {
        return Some((skip_blanks(text, sign + word.len(), BLANKS), Written::Told));
    }
    if !is_password {
        return None;
    }
    let mut words = slice(text, line_start(text, first, 2 * REACH), first).rsplit(|byte| *byte == b' ');
    // The blank before the name, then who, then `login`.
    let is_netrc = words.nth(2) == Some(b"login") || words.nth(1) == Some(b"login");
    let is_capital = name.iter().all(u8::is_ascii_uppercase);
    let is_sql = at(text, sign) == Some(b'\'') || (is_capital && at(text, sign) == Some(b'"'));
    if is_netrc || is_sql {
        return Some((sign, Written::Set));
    }
    // `password …` and nothing else in the line, as in `.netrc` and properties.
    let word = slice(text, sign, sign + 2 * REACH).iter().take_while(|byte| **byte > b' ').count();
    let is_alone =
        matches!(at(text, sign + word), None | Some(b'\n' | b'\r')) && value::begins_line(text, first);
    let is_small = name.first().is_some_and(u8::is_ascii_lowercase);
    (is_alone && is_small).then_some((sign, Written::Told))
}

/// `password for ana: …`, `SET PASSWORD FOR 'ana'@'%' = …`
fn said_for(text: &[u8], sign: usize, is_password: bool) -> Option<(usize, Written)> {
    let said = slice(text, sign, sign + REACH);
    let is_for = said.get(..4).is_some_and(|word| word.eq_ignore_ascii_case(b"for "));
    if !is_password || !(is_for || said.starts_with(b"(again)")) {
        return None;
    }
    let place = said.iter().position(|byte| b":=\n".contains(byte))?;
    let from = skip_blanks(text, sign + place + 1, BLANKS);
    match said.get(place)? {
        b'=' => Some((from, Written::Set)),
        b':' => Some((from, Written::Told)),
        _ => None,
    }
}

/// Whether a name stands alone in a cell of a table, and another cell follows.
fn is_cell(text: &[u8], first: usize, bar: usize) -> bool {
    let lead = slice(text, first.saturating_sub(BLANKS), first).trim_ascii_end();
    let next = slice(text, bar + 1, bar + 1 + REACH);
    lead.last() == Some(&b'|') && next.trim_ascii_start().iter().take_while(|byte| **byte > b' ').count() >= 8
}

/// How long the quote is that markup writes here: `&quot;`.
fn entity(text: &[u8], from: usize) -> usize {
    let quotes: [&[u8]; 5] = [b"&quot;", b"&#34;", b"&#39;", b"&apos;", b"&#x27;"];
    if at(text, from) != Some(b'&') {
        return 0;
    }
    quotes
        .iter()
        .find(|quote| slice(text, from, from + quote.len()) == **quote)
        .map_or(0, |quote| quote.len())
}

fn ends_so(name: &[u8], end: &[u8]) -> bool {
    name.len()
        .checked_sub(end.len())
        .is_some_and(|from| slice(name, from, name.len()).eq_ignore_ascii_case(end))
}
