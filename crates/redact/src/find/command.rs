//! Passwords on command lines: `mysql -p…`, `docker login -p …`, `redis-cli -a …`, `htpasswd -b file name …`.
//!
//! The option wakes the finder; the words before it, back to the last option of its kind or the beginning of the command,
//! say whose option it is.

use super::value::is_harmless;
use super::{Body, Hit};
use crate::bytes::{at, line_start, skip_blanks, slice};

/// How far back the program may stand.
const REACH: usize = 160;
/// How far back is looked first.
const NEAR: usize = 16;
/// How much of a word is looked at.
const LOOK: usize = 64;

/// Whose password follows the word `login`.
const REGISTRIES: &[&str] =
    &["docker", "podman", "nerdctl", "skopeo", "buildah", "registry", "az", "oc", "cf"];

/// `start` is before the option: a blank or a quote.
pub(super) fn option(text: &[u8], start: usize) -> Option<Hit> {
    let letter_at = start + 2;
    let letter = at(text, letter_at)?;
    let after = at(text, letter_at + 1)?;
    let quote = at(text, start).filter(|byte| b"\"'".contains(byte));
    // `-p word`, `"-p", "word"`, `-pword`, `-p'word'`
    let (from, is_glued) = match (quote, after) {
        (None, b' ') => (skip_blanks(text, letter_at + 1, 8), false),
        (Some(quote), after) if quote == after => (next_argument(text, letter_at + 2, quote)?, false),
        _ => (letter_at + 1, true),
    };
    // Where one of its kind is near, nothing before that counts, not even where the line begins.
    let near = slice(text, start.saturating_sub(NEAR), start);
    let lead = match same_option(near, letter) {
        0 => slice(text, line_start(text, start, REACH), start),
        _ => near,
    };
    let lead = slice(lead, same_option(lead, letter), lead.len());
    let lead = slice(lead, begins_command(lead), lead.len());
    if !takes(lead, letter, is_glued) {
        return None;
    }
    secret(text, from, quote.filter(|_| is_glued))
}

/// Where the next word of a list begins.
fn next_argument(text: &[u8], from: usize, quote: u8) -> Option<usize> {
    let comma = skip_blanks(text, from, 8);
    let next = skip_blanks(text, comma + 1, 8);
    (at(text, comma) == Some(b',') && at(text, next) == Some(quote)).then_some(next)
}

/// After the last option with this letter: what stands before it was looked at there.
fn same_option(lead: &[u8], letter: u8) -> usize {
    let option = |window: &[u8]| matches!(window, [b' ' | b'"' | b'\'', b'-', found] if *found == letter);
    lead.windows(3).rposition(option).map_or(0, |place| place + 3)
}

/// After the last sign that ends a command.
fn begins_command(lead: &[u8]) -> usize {
    lead.iter().rposition(|byte| b"|;&`(\n".contains(byte)).map_or(0, |place| place + 1)
}

/// Whether one of these words is a program that takes a password with this option.
fn takes(lead: &[u8], letter: u8, is_glued: bool) -> bool {
    let words = lead.split(|byte| b" \t\"',[$".contains(byte)).filter(|word| !word.is_empty());
    let mut previous: &[u8] = b"";
    for word in words {
        let name = word.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let is = |names: &[&str]| names.iter().any(|one| name == one.as_bytes());
        let begins = |start: &str| name.starts_with(start.as_bytes());
        let is_login = name == b"login" && REGISTRIES.iter().any(|one| previous == one.as_bytes());
        let takes = match letter {
            b'p' if is_glued => begins("mysql") || begins("mariadb") || is(&["sshpass", "7z", "7za"]),
            b'p' => is_login || begins("mongo") || is(&["sshpass"]),
            b'P' if !is_glued => is(&["zip", "unzip"]),
            b'a' => is(&["redis-cli"]),
            b'w' => begins("ldap"),
            b'b' => is(&["curl"]),
            _ => false,
        };
        if takes {
            return true;
        }
        previous = name;
    }
    false
}

/// The word at `from`, if it is a secret. `quote` is what ends it where it began before.
pub(super) fn secret(text: &[u8], from: usize, quote: Option<u8>) -> Option<Hit> {
    let opened = at(text, from).filter(|byte| b"\"'".contains(byte));
    let start = from + usize::from(opened.is_some());
    let quote = opened.or(quote);
    let word = slice(text, start, start + LOOK);
    let is_over = |byte: &u8| match quote {
        Some(quote) => *byte == quote || *byte == b'\n',
        None => byte.is_ascii_whitespace() || b"\"'`|;&)".contains(byte),
    };
    let word = slice(word, 0, word.iter().position(is_over).unwrap_or(word.len()));
    let begins = at(word, 0)?;
    if b"-$<[{".contains(&begins) || is_harmless(word) || is_placeholder(word) {
        return None;
    }
    let body = quote.map_or(Body::Word, |quote| Body::Quoted { quote, escapes: 0 });
    let end = match quote {
        None if word.len() < LOOK => start + word.len(),
        _ => body.end(text, start),
    };
    Some(Hit::of(start, end, body))
}

/// `PASSWORD`, `password`: what a usage line says.
fn is_placeholder(word: &[u8]) -> bool {
    let is_all = |is: fn(&u8) -> bool| word.iter().all(|byte| is(byte) || b"_-".contains(byte));
    is_all(u8::is_ascii_uppercase)
        || ["password", "pass", "secret", "token"].iter().any(|p| word == p.as_bytes())
}

/// `htpasswd -b file name word`, where a name like `htpasswd` ends at `last`.
pub(super) fn htpasswd(text: &[u8], last: usize) -> Option<Hit> {
    let mut place = last;
    let mut plain = 0;
    let mut is_batch = false;
    for _ in 0..8 {
        let from = skip_blanks(text, place, 4);
        let end = from + slice(text, from, from + LOOK).iter().take_while(|byte| **byte > b' ').count();
        let word = slice(text, from, end);
        if from == place || word.is_empty() || word.starts_with(b"htpasswd") {
            return None;
        }
        if let Some(flags) = word.strip_prefix(b"-") {
            is_batch |= flags.contains(&b'b') && !flags.starts_with(b"-");
        } else {
            plain += 1;
            // With `-n` there is no file.
            if plain == 3 && is_batch {
                return secret(text, from, None);
            }
        }
        place = end;
    }
    None
}

/// `echo word | …` and `echo name:word | chpasswd`, where the program that reads it stands at `first`.
pub(super) fn piped(text: &[u8], first: usize) -> Option<Hit> {
    let start = line_start(text, first, REACH);
    let lead = slice(text, start, first);
    let pipe = memchr::memrchr(b'|', lead)?;
    let said = slice(lead, 0, pipe);
    let said_by = |echo: &[u8]| memchr::memmem::rfind(said, echo).map(|at| at + echo.len());
    let word = said_by(b"echo ").max(said_by(b"printf "))?;
    let from = start + skip_blanks(said, word, 4);
    let from = from + if slice(text, from, from + 3) == b"-n " { 3 } else { 0 };
    let hit = secret(text, from, None)?;
    // Who, and then the word.
    let colon = slice(text, hit.start, hit.end.min(hit.start + LOOK)).iter().position(|byte| *byte == b':');
    let is_account = at(text, first) == Some(b'c');
    let start = if is_account { hit.start + colon? + 1 } else { hit.start };
    (start < hit.end && hit.end <= start_of_pipe(text, first)).then_some(Hit::ended(start, hit.end))
}

fn start_of_pipe(text: &[u8], first: usize) -> usize {
    first
        - slice(text, first.saturating_sub(REACH), first)
            .iter()
            .rev()
            .take_while(|byte| **byte != b'|')
            .count()
}
