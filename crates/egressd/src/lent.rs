//! Secrets that are lent to a sandbox: it holds words that stand for them, and they are put in on the way out.
//!
//! Flow: a request that may go -> which of these words does it carry? -> for the host that a word is bound to, over TLS,
//! the secret takes its place; anywhere else the request is refused and told of. What comes back loses the secret again.
//! Invariants: a secret goes to a host that it is bound to and to no other; a word in disguise (in base 64, 32 or 16, in base 64
//! twice, in UTF-16, escaped, backwards, cut into pieces) is found and never put in; an answer has as many bytes as it had.

mod bound;
mod hide;
mod login;
mod sign;
mod theft;
mod written;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use egress::control::Loan;
use egress::decoys::{Decoys, Scan};
use egress::http1::{Request, Resource};
use egress::writings::{disguised, escaped};
use rules::Rules;
use zeroize::Zeroizing;

pub(crate) use self::bound::Towards;
use crate::escapes::{self, unescaped};
pub(crate) use hide::Hide;
pub(crate) use written::Written;

/// What stands in an answer where a secret was.
const MASK: u8 = b'*';

/// Headers that ask for a part of an answer: the usual ones, the one from before there was a usual one, which servers still
/// take, and that of Azure's storage, which goes before the usual one there.
pub(crate) const RANGES: [&str; 4] = ["range", "if-range", "request-range", "x-ms-range"];

/// What was found where it must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Astray {
    /// Which secret.
    pub(crate) name: String,
    /// Where it was.
    pub(crate) place: &'static str,
}

impl Astray {
    pub(crate) fn why(&self) -> String {
        let Self { name, place } = self;
        format!(
            "the {place} carries what stands for the secret `{name}`, which is bound to other hosts or paths, was taken back, or must be sent plainly"
        )
    }
}

/// All secrets that are lent to one sandbox.
pub(crate) struct Lent {
    loans: Vec<Loan>,
    /// For each loan: which paths of which hosts it is bound to, besides hosts with all their paths.
    paths: Vec<Rules>,
    words: Finder,
    values: Finder,
    /// The last decoy that was on its way out, until that is told.
    stolen: Arc<Mutex<Option<String>>>,
    decoys: Decoys,
}

impl std::fmt::Debug for Lent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lent").field("count", &self.loans.len()).finish_non_exhaustive()
    }
}

/// Finds texts in many writings.
struct Finder {
    search: Option<AhoCorasick>,
    /// For each pattern: whose it is, and whether it is the plain writing.
    whose: Vec<(usize, bool)>,
    patterns: Vec<Zeroizing<Vec<u8>>>,
    /// Which of them begin with each byte.
    begin: Vec<Vec<usize>>,
    longest: usize,
}

impl Finder {
    fn new<'a>(texts: impl Iterator<Item = &'a [u8]>) -> Self {
        let (mut whose, mut patterns) = (Vec::new(), Vec::new());
        for (at, text) in texts.enumerate() {
            for (place, writing) in disguised(text).into_iter().enumerate() {
                whose.push((at, place == 0));
                patterns.push(Zeroizing::new(writing));
            }
        }
        let search = AhoCorasick::builder()
            .kind(login::kind(&patterns))
            .match_kind(MatchKind::LeftmostLongest)
            .build(patterns.iter().map(|pattern| pattern.as_slice()));
        let longest = patterns.iter().map(|pattern| pattern.len()).max().unwrap_or(0);
        let mut begin = vec![Vec::new(); 1 << u8::BITS];
        for (at, pattern) in patterns.iter().enumerate() {
            let first = pattern.first().and_then(|first| begin.get_mut(usize::from(*first)));
            first.into_iter().for_each(|those| those.push(at));
        }
        Self { search: search.ok().filter(|_| !patterns.is_empty()), whose, patterns, begin, longest }
    }

    /// Where something was found, whose it is, and whether it is written plainly.
    fn all<'a>(
        &'a self,
        bytes: &'a [u8],
    ) -> impl Iterator<Item = (std::ops::Range<usize>, usize, bool)> + 'a {
        let found = self.search.iter().flat_map(move |search| search.find_iter(bytes));
        found.filter_map(|found| {
            let (whose, is_plain) = *self.whose.get(found.pattern().as_usize())?;
            Some((found.range(), whose, is_plain))
        })
    }

    /// How many of the last bytes may be the beginning of something, escaped or not.
    fn unfinished(&self, bytes: &[u8]) -> usize {
        let cut = escapes::unfinished(bytes);
        let whole = bytes.get(..bytes.len() - cut).unwrap_or_default();
        let hidden = match unescaped(whole) {
            Some(plain) => {
                let length = plain.bytes.len();
                plain.written(&(length - self.begun(&plain.bytes)..length)).len() + cut
            }
            None if cut > 0 => self.begun(whole) + cut,
            None => 0,
        };
        hidden.max(self.begun(bytes))
    }

    /// The same for bytes as they are.
    fn begun(&self, bytes: &[u8]) -> usize {
        let most = self.longest.saturating_sub(1).min(bytes.len());
        let begins = |count: &usize| {
            let tail = bytes.get(bytes.len() - count..).unwrap_or_default();
            let those = tail.first().and_then(|first| self.begin.get(usize::from(*first)));
            let mut those = those.into_iter().flatten().filter_map(|at| self.patterns.get(*at));
            those.any(|pattern| pattern.len() > tail.len() && pattern.starts_with(tail))
        };
        (1..=most).rev().find(begins).unwrap_or(0)
    }
}

impl Lent {
    pub(crate) fn new(loans: Vec<Loan>) -> Self {
        let words = Finder::new(loans.iter().map(|loan| loan.word.as_bytes()));
        // What is a decoy's stands for nothing, and may come back.
        let real = loans.iter().map(|loan| if loan.is_decoy { b"" } else { loan.value.reveal().as_bytes() });
        let values = Finder::new(real);
        let decoys = loans.iter().filter(|loan| loan.is_decoy);
        let decoys = Decoys::new(decoys.map(|loan| (loan.name.as_str(), loan.word.as_str())));
        let paths = bound::paths(&loans);
        Self { loans, paths, words, values, stolen: Arc::default(), decoys }
    }

    /// Whether nothing is lent.
    pub(crate) fn is_empty(&self) -> bool {
        self.loans.is_empty()
    }

    fn astray(&self, whose: usize, place: &'static str) -> Astray {
        let loan = self.loans.get(whose);
        let name = loan.map(|loan| loan.name.clone()).unwrap_or_default();
        if loan.is_some_and(|loan| loan.is_decoy) {
            *self.stolen.lock().unwrap_or_else(PoisonError::into_inner) = Some(name.clone());
        }
        Astray { name, place }
    }

    /// Puts secrets in the place of their words; none if there are no words.
    fn swapped(
        &self,
        bytes: &[u8],
        towards: Towards<'_>,
        place: &'static str,
        write: impl Fn(&str) -> Vec<u8>,
    ) -> Result<Option<Zeroizing<Vec<u8>>>, Astray> {
        if let Some(name) = self.decoys.within(bytes) {
            return Err(self.theft(name, place));
        }
        let mut out: Option<Zeroizing<Vec<u8>>> = None;
        let mut at = 0;
        for (range, whose, is_plain) in self.words.all(bytes) {
            let fits = |loan: &Loan| is_plain && !loan.signs && login::has_value(loan, place);
            let goes = |loan: &&Loan| fits(loan) && self.may_go(whose, towards);
            let loan = self.loans.get(whose).filter(goes);
            let Some(loan) = loan else { return Err(self.astray(whose, place)) };
            let out = out.get_or_insert_with(Zeroizing::default);
            out.extend_from_slice(bytes.get(at..range.start).unwrap_or_default());
            match loan.in_content || !is_content(place) {
                true => out.extend_from_slice(&write(loan.value.reveal())),
                false => out.extend(range.clone().map(|_| MASK)),
            }
            at = range.end;
        }
        if let Some(out) = &mut out {
            out.extend_from_slice(bytes.get(at..).unwrap_or_default());
        }
        match self.behind_escapes(bytes) {
            Some(whose) => Err(self.astray(whose, place)),
            None => Ok(out),
        }
    }

    /// Whose word is there once escapes are read, and not before.
    fn behind_escapes(&self, bytes: &[u8]) -> Option<usize> {
        let plain = unescaped(bytes)?;
        let mut shown: Vec<usize> = self.words.all(bytes).map(|(_, whose, _)| whose).collect();
        let mut hidden = self.words.all(&plain.bytes).map(|(_, whose, _)| whose);
        hidden.find(|whose| match shown.iter().position(|one| one == whose) {
            Some(at) => {
                shown.swap_remove(at);
                false
            }
            None => true,
        })
    }

    /// Puts secrets into the head of a request that may go. True if one was put in.
    pub(crate) fn fill(&self, request: &mut Request, towards: Towards<'_>) -> Result<bool, Astray> {
        let mut filled = false;
        if let Some(resource) = request.target.resource().map(|resource| resource.as_str().to_owned()) {
            let new =
                self.swapped(resource.as_bytes(), towards, "address", |value| escaped(value).into_bytes())?;
            if let Some(new) = new {
                let odd = |_| Astray { name: String::new(), place: "address" };
                request.set_resource(Resource::parse(&new).map_err(odd)?);
                filled = true;
            }
        }
        let mut changes: HashMap<(String, Vec<u8>), Zeroizing<Vec<u8>>> = HashMap::new();
        for (name, value) in request.fields.iter() {
            if let Some((_, whose, _)) = self.words.all(name.as_bytes()).next() {
                return Err(self.astray(whose, "name of a header"));
            }
            let new = match basic(name, value) {
                Some(plain) => self
                    .swapped(&plain, towards, "header", |value| value.as_bytes().to_vec())?
                    .map(|plain| Zeroizing::new(format!("Basic {}", STANDARD.encode(&*plain)).into_bytes())),
                None => self.swapped(value, towards, "header", |value| value.as_bytes().to_vec())?,
            };
            if let Some(new) = new {
                changes.insert((name.to_owned(), value.to_vec()), new);
            }
        }
        if !changes.is_empty() {
            let change = |name: &str, value: &[u8]| {
                changes.get(&(name.to_owned(), value.to_vec())).map(|new| new.to_vec())
            };
            let odd = |_| Astray { name: String::new(), place: "header" };
            request.fields.rewrite(change).map_err(odd)?;
            filled = true;
        }
        // What comes back must be readable for us.
        let odd = |_| Astray { name: String::new(), place: "header" };
        if request.fields.remove("accept-encoding") > 0 || filled {
            request.fields.set("Accept-Encoding", b"identity").map_err(odd)?;
        }
        if request.fields.remove("grpc-accept-encoding") > 0 {
            request.fields.set("grpc-accept-encoding", b"identity").map_err(odd)?;
        }
        // A part of an answer may end in the middle of a secret, where nobody would know it.
        if self.may_return(towards) {
            for name in RANGES {
                request.fields.remove(name);
            }
        }
        Ok(filled)
    }

    /// Puts secrets into content that is there as a whole.
    pub(crate) fn fill_content(
        &self,
        content: &[u8],
        written: Written,
        towards: Towards<'_>,
    ) -> Result<Option<Zeroizing<Vec<u8>>>, Astray> {
        self.swapped(content, towards, "content", |value| written.write(value))
    }

    /// Puts secrets into a message of a WebSocket.
    pub(crate) fn fill_message(
        &self,
        text: &str,
        towards: Towards<'_>,
    ) -> Result<Option<Zeroizing<Vec<u8>>>, Astray> {
        let is_json = text.trim_ascii_start().starts_with(['{', '[', '"']);
        let written = if is_json { Written::Json } else { Written::Plain };
        self.swapped(text.as_bytes(), towards, "message", |value| written.write(value))
    }

    /// Looks for words in content that passes by.
    pub(crate) fn watch(&self) -> Watch<'_> {
        Watch { lent: self, tail: Vec::new(), scan: self.decoys.scan() }
    }

    /// Takes secrets out of an answer that passes by.
    pub(crate) fn mask(&self) -> Mask<'_> {
        Mask { lent: self, held: Zeroizing::default(), found: None }
    }

    /// Takes secrets out of something short; the name of one that was there.
    pub(crate) fn masked(&self, bytes: &[u8]) -> Option<(Vec<u8>, String)> {
        let mut masked = None;
        let shown = self.values.all(bytes).map(|(range, of, _)| (range, of));
        let plain = unescaped(bytes);
        let hidden = plain.iter().flat_map(|plain| {
            self.values.all(&plain.bytes).map(|(range, of, _)| (plain.written(&range), of))
        });
        for (range, of) in shown.chain(hidden) {
            let (out, whose) = masked.get_or_insert_with(|| (bytes.to_vec(), of));
            out.get_mut(range).into_iter().flatten().for_each(|byte| *byte = MASK);
            *whose = of;
        }
        masked.map(|(out, of)| (out, self.astray(of, "answer").name))
    }
}

/// Looks for words in content that passes by, wherever it is cut.
pub(crate) struct Watch<'a> {
    lent: &'a Lent,
    tail: Vec<u8>,
    scan: Scan<'a>,
}

impl Watch<'_> {
    pub(crate) fn look(&mut self, data: &[u8]) -> Result<(), Astray> {
        if let Some(name) = self.scan.look(data) {
            return Err(self.lent.theft(name, "content"));
        }
        self.tail.extend_from_slice(data);
        let shown = self.lent.words.all(&self.tail).map(|(_, whose, _)| whose).next();
        if let Some(whose) = shown.or_else(|| self.lent.behind_escapes(&self.tail)) {
            return Err(self.lent.astray(whose, "content"));
        }
        let keeps = self.lent.words.longest.saturating_mul(escapes::LONGEST);
        self.tail.drain(..self.tail.len().saturating_sub(keeps));
        Ok(())
    }
}

/// Takes secrets out of an answer that passes by, wherever it is cut.
pub(crate) struct Mask<'a> {
    lent: &'a Lent,
    held: Zeroizing<Vec<u8>>,
    /// The name of a secret that was there.
    pub(crate) found: Option<String>,
}

impl Mask<'_> {
    /// The bytes that can be passed on now. At the end, all of them.
    pub(crate) fn pass<'d>(&mut self, data: &'d [u8], is_end: bool) -> Cow<'d, [u8]> {
        let lent = self.lent;
        let is_clean = || lent.masked(data).is_none() && (is_end || lent.values.unfinished(data) == 0);
        if self.held.is_empty() && is_clean() {
            return data.into();
        }
        self.held.extend_from_slice(data);
        if let Some((masked, name)) = self.lent.masked(&self.held) {
            (self.held, self.found) = (Zeroizing::new(masked), Some(name));
        }
        let keeps = if is_end { 0 } else { self.lent.values.unfinished(&self.held) };
        let goes = self.held.len() - keeps;
        self.held.drain(..goes).collect::<Vec<u8>>().into()
    }
}

/// Whether this place is read by whoever answers, and not only by what lets requests in.
fn is_content(place: &str) -> bool {
    matches!(place, "content" | "message")
}

/// The user and password of a Basic header.
fn basic(name: &str, value: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    if !name.eq_ignore_ascii_case("authorization") {
        return None;
    }
    let (scheme, code) = value.split_at_checked(6)?;
    let code = scheme.eq_ignore_ascii_case(b"basic ").then_some(code)?;
    STANDARD.decode(code.trim_ascii()).ok().map(Zeroizing::new)
}

#[cfg(test)]
mod escaped;

#[cfg(test)]
mod tests {
    use super::*;
    use egress::control::Value;
    use rules::Host;

    pub(super) const WORD: &str = "sk-ant-api03-WORDwordWORDword0123456789";
    pub(super) const SECRET: &str = "sk-ant-api03-Secret/secret+SECRET~0987654";

    pub(super) fn lent() -> Lent {
        let hosts = vec![("api.test".to_owned(), 443)];
        Lent::new(vec![Loan {
            name: "KEY".into(),
            word: WORD.into(),
            value: Value::new(SECRET.into()),
            hosts,
            in_content: true,
            ..Loan::default()
        }])
    }

    pub(super) fn host(name: &str) -> Host {
        name.parse().unwrap()
    }

    pub(super) fn filled(request: &str, to: &str, is_private: bool) -> Result<(bool, String), Astray> {
        let mut request = Request::parse(request.as_bytes()).unwrap();
        let host = host(to);
        let filled = lent().fill(&mut request, Towards { host: &host, port: 443, path: "/", is_private })?;
        let mut out = Vec::new();
        request.write(&mut out);
        Ok((filled, String::from_utf8(out).unwrap()))
    }

    #[test]
    fn egr_13_a_word_becomes_the_secret_for_its_host_only() {
        let basic = STANDARD.encode(format!("user:{WORD}"));
        let places = [
            format!("GET /x HTTP/1.1\r\nHost: api.test\r\nx-api-key: {WORD}\r\n\r\n"),
            format!("GET /x HTTP/1.1\r\nHost: api.test\r\nAuthorization: Bearer {WORD}\r\n\r\n"),
            format!("GET /x HTTP/1.1\r\nHost: api.test\r\nAuthorization: Basic {basic}\r\n\r\n"),
            format!("GET /x?key={WORD}&y=1 HTTP/1.1\r\nHost: api.test\r\n\r\n"),
            format!("GET /{WORD}/x HTTP/1.1\r\nHost: api.test\r\n\r\n"),
        ];
        for request in &places {
            let (was_filled, text) = filled(request, "api.test", true).unwrap();
            assert!(was_filled && !text.contains(WORD), "{request}");
            let code = STANDARD.encode(format!("user:{SECRET}"));
            assert!([SECRET, &escaped(SECRET), &code].iter().any(|form| text.contains(form)), "{text}");
            // To another host, or where others can read it, it does not go.
            assert!(filled(request, "other.test", true).is_err(), "{request}");
            assert!(filled(request, "api.test", false).is_err(), "{request}");
        }
        assert!(!filled("GET / HTTP/1.1\r\nHost: api.test\r\n\r\n", "other.test", false).unwrap().0);
    }

    #[test]
    fn adv_c02_a_word_in_disguise_is_found_and_never_put_in() {
        let word = WORD.as_bytes();
        let own = lent();
        for writing in disguised(word).iter().skip(1) {
            let within = [&b"in content: "[..], writing.as_slice(), b"."].concat();
            for step in [1, 7, 1000] {
                let mut watch = own.watch();
                assert!(within.chunks(step).try_for_each(|some| watch.look(some)).is_err(), "{within:?}");
            }
            // No header has these.
            if writing.contains(&0) {
                continue;
            }
            let text = String::from_utf8(writing.clone()).unwrap();
            let request = format!("GET /x HTTP/1.1\r\nHost: api.test\r\nx-note: a{text}b\r\n\r\n");
            for to in ["api.test", "other.test"] {
                assert!(filled(&request, to, true).is_err(), "{text} to {to}");
            }
        }
        for before in ["", "x", "xy"] {
            let code = STANDARD.encode(format!("{before}{WORD}tail"));
            assert!(lent().words.all(code.as_bytes()).next().is_some(), "{before:?}");
        }
    }

    #[test]
    fn adv_c02_a_word_that_is_cut_into_pieces_is_found() {
        let (lent, text) = (lent(), format!("some {WORD} more"));
        for cut in 1..text.len() {
            let (one, two) = text.as_bytes().split_at(cut);
            let mut watch = lent.watch();
            assert!(watch.look(one).and_then(|()| watch.look(two)).is_err(), "cut at {cut}");
            let mut watch = lent.watch();
            let bytewise = text.as_bytes().chunks(1).try_for_each(|byte| watch.look(byte));
            assert!(bytewise.is_err());
        }
        let mut watch = lent.watch();
        assert!(watch.look(&vec![b'x'; 100_000]).is_ok());
    }

    #[test]
    fn adv_c03_an_answer_loses_the_secret_wherever_it_is_cut_and_keeps_its_length() {
        let (lent, text) =
            (lent(), format!("{{\"you sent\": \"{SECRET}\", \"in hex\": \"{}\"}} end", hex(SECRET)));
        for cut in 0..=text.len() {
            let (one, two) = text.as_bytes().split_at(cut);
            let mut mask = lent.mask();
            let mut out = mask.pass(one, false).into_owned();
            out.extend_from_slice(&mask.pass(two, true));
            let out = String::from_utf8(out).unwrap();
            assert_eq!(out.len(), text.len());
            assert!(!out.contains(SECRET) && !out.contains(&hex(SECRET)), "{out}");
            assert!(out.starts_with("{\"you sent\": \"***") && out.ends_with("***\"} end"), "{out}");
            assert_eq!(mask.found.as_deref(), Some("KEY"));
        }
        // However a server writes it, and as we wrote it.
        let json = SECRET.replace('/', "\\/");
        for text in
            [escaped(SECRET), json, SECRET.chars().rev().collect(), STANDARD.encode(format!("x{SECRET}y"))]
        {
            let (out, name) = lent.masked(format!("a {text} b").as_bytes()).unwrap();
            let out = String::from_utf8(out).unwrap();
            assert!(out.contains("****") && name == "KEY", "{text}: {out}");
            assert!(!out.contains(&text[8..20]), "{text}: {out}");
        }
        // What is no secret waits for nothing.
        assert_eq!(*lent.mask().pass(b"data: hello\n\n", false), *b"data: hello\n\n");
    }

    fn hex(text: &str) -> String {
        text.bytes().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn adv_c02_to_look_for_words_takes_as_long_as_there_is_content() {
        let hosts = vec![("api.test".to_owned(), 443)];
        let word = |at: usize| format!("{WORD}{at:04}");
        let loan = |at| Loan {
            word: word(at),
            value: Value::new(format!("{SECRET}{at:04}")),
            hosts: hosts.clone(),
            ..Loan::default()
        };
        let lent = Lent::new((0..20).map(loan).collect());
        // Nearly a word over and over, plainly and in the disguises that are longest.
        let mut near: Vec<u8> = disguised(word(0).as_bytes())
            .into_iter()
            .flat_map(|mut one| {
                one.pop();
                one.push(b'!');
                one
            })
            .collect();
        near.extend_from_slice(b"%73\\u0073");
        let all = near.repeat((64 << 10) / near.len());
        let times = |count: usize| {
            let looks = || {
                let (mut watch, mut mask) = (lent.watch(), lent.mask());
                let begun = std::time::Instant::now();
                for some in (0..count).flat_map(|_| all.chunks(4 << 10)) {
                    watch.look(some).unwrap();
                    mask.pass(some, false);
                }
                begun.elapsed()
            };
            (0..3).map(|_| looks()).min().unwrap()
        };
        let (one, eight) = (times(1), times(8));
        assert!(eight < one * 20, "eight times as much takes {eight:?} instead of {one:?}");
    }
}
