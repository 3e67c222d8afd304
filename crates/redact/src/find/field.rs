//! Values by the name in front of them: `password=…`, `"api_key": "…"`, `--token …`, `<secret>…</secret>`.
//!
//! The name decides whether it is a secret; how it is written decides where the value is and how sure
//! we are ([`Written`]); [`super::value`] decides whether that value is one.

use super::value::{self, Written};
use super::{Hit, header};
use crate::bytes::{ByteSet, at, before, line_start, mixed, skip_blanks, slice, stands_before};

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
const ENDINGS: &[&str] = &[
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
];

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
const WHICH: &[&str] = &[
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
];

/// Names whose whole line is the value.
const HEADERS: &[&str] = &["authorization", "cookie"];

/// Longest part of a name that is looked at before the anchor.
const REACH: usize = 48;
/// No secret name goes on this long after its last anchor.
const TAIL: usize = 24;
/// Most blanks around a separator.
const BLANKS: usize = 16;

static NAME: ByteSet = ByteSet::alphanumeric_and(b"_-.");

pub(super) fn find(text: &[u8], start: usize, end: usize) -> Option<Hit> {
    // Some anchors hold the sign after the name.
    let end = end - usize::from(before(text, end).is_some_and(|byte| b"=:\"".contains(&byte)));
    let tail = slice(text, end, end + TAIL).iter().take_while(|byte| NAME.has(**byte)).count();
    if tail == TAIL {
        return None;
    }
    let last = end + tail;
    // `..=` and `::Name` are code.
    if before(text, last) == Some(b'.') && at(text, last) == Some(b'=') {
        return None;
    }
    let left = slice(text, start.saturating_sub(REACH), start);
    let first = unescaped(text, start - left.iter().rev().take_while(|byte| NAME.has(**byte)).count());
    if stands_before(text, first, b"::") {
        return None;
    }
    // The anchor of the last word of a name does the work for the whole name.
    let mut plain = [0; 2 * REACH];
    let spelled = shortened(slice(text, first, last));
    let name = normal(spelled, &mut plain);
    let ends = |ending: &&str| name.ends_with(ending.as_bytes());
    if HEADERS.iter().any(ends) {
        return header::find(text, first, last);
    }
    let is_whole = WHOLE.iter().any(|whole| name == whole.as_bytes());
    let is_pass = is_pass(spelled, name);
    let one = name.strip_suffix(b"s").unwrap_or(name);
    let ends_one = |ending: &&str| one.ends_with(ending.as_bytes());
    let is_certain = ENDINGS.iter().any(ends) || is_whole || is_pass || is_pw(spelled, name);
    if !(is_certain || ENDINGS.iter().chain(VAGUE).any(ends_one)) {
        return None;
    }
    let (from, written) = separator(text, first, last)?;
    // The folder that a shell is in.
    let is_folder = at(text, from).is_some_and(|byte| b"/~$.".contains(&byte))
        || slice(text, from + 1, from + 3) == b":\\";
    if matches!(name, b"pwd" | b"oldpwd") && is_folder {
        return None;
    }
    let is_key =
        KEYS.iter().any(|key| name == key.as_bytes()) && (spelled.contains(&b'-') || spelled == b"Apikey");
    let written = match written {
        Written::Told | Written::Line | Written::Passed if is_key => Written::Header,
        written => written,
    };
    if name == b"pass" && matches!(written, Written::Line | Written::Told) && at(text, first) != Some(b'p') {
        return None; // What tests say.
    }
    let hit = value::find(text, first, from, written)?;
    // `pass=12 fail=0`, `auth: basic`, `sig=1` are about something else.
    let secret = slice(text, hit.start, hit.end);
    let is_other = match name {
        b"auth" | b"sig" => secret.len() < 12 || !mixed(secret),
        _ if is_pass => secret.iter().all(u8::is_ascii_digit),
        // `tokens: 4096`, `credentials: 'include'`
        _ if !is_certain => secret.len() < 8 || !mixed(secret) || !secret.iter().any(u8::is_ascii_digit),
        _ => false,
    };
    (!is_other).then_some(hit)
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
    let numberless = |name: &'_ [u8]| {
        let digits = name.iter().rev().take(3).take_while(|byte| byte.is_ascii_digit()).count();
        name.len() - digits
    };
    let is_sign = |byte: Option<u8>| byte.is_some_and(|byte| b"_-.".contains(&byte));
    let short = slice(name, 0, numberless(name));
    let which = WHICH.iter().find(|word| {
        let lead = short.len().saturating_sub(word.len());
        slice(short, lead, short.len()).eq_ignore_ascii_case(word.as_bytes()) && is_sign(before(short, lead))
    });
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

fn normal<'a>(name: &[u8], into: &'a mut [u8]) -> &'a [u8] {
    let kept = name.iter().filter(|byte| !matches!(byte, b'_' | b'-' | b'.'));
    let mut length = 0;
    for (slot, byte) in into.iter_mut().zip(kept) {
        *slot = byte.to_ascii_lowercase();
        length += 1;
    }
    into.get(..length).unwrap_or_default()
}

/// Where the value starts, and how it is written.
pub(super) fn separator(text: &[u8], first: usize, last: usize) -> Option<(usize, Written)> {
    // `"name"`, `'name'`, `\"name\"`, `['name']`
    let slashes = slice(text, last, last + 4).iter().take_while(|byte| **byte == b'\\').count();
    let is_quote = |position| at(text, position).is_some_and(|byte| b"\"'`".contains(&byte));
    let closed = if is_quote(last + slashes) { last + slashes + 1 } else { last };
    let closed = if at(text, closed) == Some(b']') { closed + 1 } else { closed };
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
        (b'=', Some(b'>')) | (b':', Some(b'=')) => (sign + 2, Written::Assigned),
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
        (b':', Some(b':' | b'/')) => return None,
        // `a:b:secret:c`
        (b':', _) if before(text, first) == Some(b':') => return None,
        (b':', _) if value::begins_line(text, first) => (sign + 1, Written::Line),
        (b':', _) => (sign + 1, Written::Told),
        (b'%', Some(b'3')) if at(text, sign + 2).is_some_and(|byte| b"DdAa".contains(&byte)) => {
            (sign + 3, Written::Set)
        }
        (b'>', _) if before(text, first) == Some(b'<') => (sign + 1, Written::Element),
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
    let is_first =
        first.checked_sub(2).and_then(|place| at(text, place)).is_some_and(|b| b"([{".contains(&b));
    let next = at(text, skip_blanks(text, from, BLANKS));
    is_first && next.is_some_and(|byte| b"\"'".contains(&byte))
}

/// A name, a blank and a value: `ENV API_KEY …`, `login ana password …`, `PASSWORD '…'`, `the password is …`.
fn by_blank(text: &[u8], first: usize, last: usize, sign: usize) -> Option<(usize, Written)> {
    let name = slice(text, first, last);
    let is_password = ends_so(name, b"password");
    if stands_before(text, first, b"ENV ") || stands_before(text, first, b"ARG ") {
        return Some((sign, Written::Set));
    }
    let told = [&b"is "[..], b"was ", b"is: "]
        .into_iter()
        .find(|word| slice(text, sign, sign + word.len()) == *word);
    let is_header = [&b"authorization"[..], b"cookie"].iter().any(|header| ends_so(name, header));
    if let Some(word) = told.filter(|_| !is_header) {
        return Some((skip_blanks(text, sign + word.len(), BLANKS), Written::Told));
    }
    let mut words = slice(text, line_start(text, first, 2 * REACH), first).rsplit(|byte| *byte == b' ');
    // The blank before the name, then who, then `login`.
    let is_netrc = words.nth(2) == Some(b"login");
    let is_sql = at(text, sign) == Some(b'\'');
    (is_password && (is_netrc || is_sql)).then_some((sign, Written::Set))
}

fn ends_so(name: &[u8], end: &[u8]) -> bool {
    name.len()
        .checked_sub(end.len())
        .is_some_and(|from| slice(name, from, name.len()).eq_ignore_ascii_case(end))
}
