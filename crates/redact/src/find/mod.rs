//! Finds secrets by their shape: anchors (literals, all searched at once) and a finder for each, and runs of
//! characters that look drawn by lot.
//!
//! Invariants, which keep the time linear: a finder that finds nothing has looked at a bounded number of
//! bytes around its anchor, or at none past the next sign that would stop it there again (a quote, an anchor of its
//! own kind); what a finder found is not searched again; lines of a certificate are read once. No finder looks past
//! a newline, but for the lines of a block.

mod anchors;
pub(crate) mod below;
mod command;
mod dull;
mod field;
mod header;
mod home;
mod list;
mod login;
mod look;
mod markup;
mod passing;
pub(crate) mod pem;
mod personal;
mod random;
mod token;
mod unseen;
mod url;
mod value;

pub(crate) use anchors::literals;
pub(crate) use home::Homes;
pub(crate) use random::is_run;
pub(crate) use unseen::{Seen, parted};

use crate::bytes::{ByteSet, at, before, line_end, line_start, slice, stands_before, until_blank};
use crate::machine::Carry;
use anchors::Anchors;
use below::Below;
use dull::Dull;

/// Fewest characters that are judged by their look.
pub(crate) const RANDOM: usize = random::LEAST;

/// What to mask.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hit {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// How the secret goes on if it reaches the end of a piece.
    pub(crate) body: Body,
    pub(crate) with: With,
}

impl Hit {
    /// A secret that is over where it ends.
    pub(crate) const fn ended(start: usize, end: usize) -> Self {
        Self { start, end, body: Body::Ended, with: With::Mark }
    }

    const fn of(start: usize, end: usize, body: Body) -> Self {
        Self { start, end, body, with: With::Mark }
    }
}

/// What stands in place of a hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum With {
    /// The mark.
    Mark,
    /// `~/`
    Home,
    /// Nothing: a line of a block whose first line is marked.
    Nothing,
}

/// What belongs to a secret once it has begun.
#[derive(Clone, Copy)]
pub(crate) enum Body {
    /// Nothing more.
    Ended,
    /// Bytes of a set.
    Of(&'static ByteSet),
    /// Everything up to a quote with at most so many backslashes before it.
    Quoted { quote: u8, escapes: usize },
    /// Everything up to a blank.
    Word,
    /// The rest of the line.
    Line,
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Body")
    }
}

impl Body {
    /// Where the body that starts at `from` ends.
    pub(crate) fn end(self, text: &[u8], from: usize) -> usize {
        let rest = slice(text, from, text.len());
        match self {
            Self::Ended => from,
            Self::Of(set) => set.run(text, from),
            Self::Word => from + until_blank(rest),
            Self::Line => from + memchr::memchr(b'\n', rest).unwrap_or(rest.len()),
            Self::Quoted { quote, escapes } => quoted_end(text, from, quote, escapes),
        }
    }
}

/// The first quote that closes: for a plain one, an even number of backslashes before it; for an escaped
/// one (JSON within JSON), no more backslashes than the opening quote had.
fn quoted_end(text: &[u8], from: usize, quote: u8, escapes: usize) -> usize {
    let mut backslashes = usize::from(before(text, from) == Some(b'\\'));
    let mut place = from;
    while let Some(byte) = at(text, place) {
        let closes = if escapes == 0 { backslashes % 2 == 0 } else { backslashes <= escapes };
        match byte {
            b'\n' => return place,
            byte if byte == quote && closes => match reopened(text, place, quote) * usize::from(escapes == 0)
            {
                0 => return place - backslashes.min(place - from).min(escapes),
                length => place += length,
            },
            b'\\' => backslashes += 1,
            _ => backslashes = 0,
        }
        place += 1;
    }
    text.len()
}

/// A shell's way to write a quote within quotes: `'it'\''s'`, `'it'"'"'s'`. How many bytes follow the first one.
/// Others write it twice: `'it''s'`; three close a text that three opened.
fn reopened(text: &[u8], place: usize, quote: u8) -> usize {
    if at(text, place + 1) == Some(quote)
        && at(text, place + 2).is_some_and(|byte| byte.is_ascii_alphanumeric())
    {
        return 1;
    }
    if quote != b'\'' {
        return 0;
    }
    match slice(text, place + 1, place + 5) {
        [b'\\', b'\'', b'\'', ..] => 3,
        [b'"', b'\'', b'"', b'\''] => 4,
        _ => 0,
    }
}

/// Which finder an anchor wakes.
#[derive(Clone, Copy)]
enum Kind {
    Token(&'static token::Rule),
    Field,
    Url,
    Bearer,
    Basic,
    Login,
    Option,
    Account,
    Sql,
    Pem,
    PemUrl,
    KeyBody,
    Home,
}

/// What was found in a unit.
#[derive(Default)]
pub(crate) struct Finds {
    pub(crate) hits: Vec<Hit>,
    /// Lines that are left out entirely.
    pub(crate) dropped: Vec<(usize, usize)>,
    /// Lines of certificates and public keys: what looks random there is none of our business.
    pub(crate) quiet: Vec<(usize, usize)>,
    /// Within the lines of a certificate where the unit ends.
    public: Option<pem::Block>,
    /// First lines of certificates: where they begin, and where the lines after them do.
    headings: Vec<(usize, usize)>,
}

impl Finds {
    /// Notes the lines of a certificate that go on or begin here.
    fn public(&mut self, text: &[u8], from: usize, mut block: pem::Block) {
        // Lines are read once, however many first lines stand among them.
        if self.quiet.last().is_some_and(|(start, end)| *start <= from && from < *end) {
            return;
        }
        let end = match block.end(text, from) {
            pem::Rest::Ends(end) => end,
            pem::Rest::GoesOn => {
                self.public = Some(block);
                text.len()
            }
        };
        self.quiet.push((from, end));
    }

    /// Goes on in a certificate that the unit before ended in.
    pub(crate) fn go_on(&mut self, text: &[u8], from: usize) {
        if let Some(block) = self.public.take() {
            self.public(text, from, block);
        }
    }

    /// A first line that something is masked in is another one afterwards: the lines after it are looked at as all others, so
    /// that masking twice is masking once. To be asked when all is found.
    pub(crate) fn reread(&mut self, text: &[u8], runs: &[(usize, usize)], limit: usize) {
        if self.headings.is_empty() {
            return;
        }
        self.hits.sort_unstable_by_key(|hit| (hit.start, hit.end));
        // How far what is masked reaches, of all and of marks: a home may stand before every line.
        let (mut passed, mut reach, mut marked) = (0, 0, 0);
        for number in 0..self.headings.len() {
            let Some((heading, from)) = self.headings.get(number).copied() else { break };
            while let Some(hit) = self.hits.get(passed).filter(|hit| hit.start < from) {
                reach = reach.max(hit.end);
                marked = if hit.with == With::Mark { marked.max(hit.end) } else { marked };
                passed += 1;
            }
            if reach <= heading && marked <= line_start(text, heading, heading) {
                continue;
            }
            let next = self.headings.get(number + 1).map_or(text.len(), |(_, next)| *next);
            let place = self.quiet.binary_search_by_key(&from, |(start, _)| *start);
            let Some((start, end)) = place.ok().and_then(|place| self.quiet.get_mut(place)) else { continue };
            let to = next.min(*end);
            if to == text.len() {
                self.public = None;
            }
            *start = to;
            let first = runs.partition_point(|(start, _)| *start < from);
            let lines = runs.iter().skip(first).take_while(|(start, _)| *start < to.min(limit));
            let found = self.hits.len();
            for (start, end) in lines.filter(|(start, end)| end - start >= RANDOM) {
                random::find(text, *start, *end, &mut self.hits);
            }
            // Those may reach into the next one.
            let new = self.hits.get(found..).unwrap_or_default();
            reach = new.iter().fold(reach, |reach, hit| reach.max(hit.end));
            marked = marked.max(reach);
        }
    }

    /// Whether this is in a certificate.
    pub(crate) fn is_quiet(&self, place: usize) -> bool {
        is_quiet(&self.quiet, place)
    }

    /// Starts anew, with a text of which so much is in a certificate.
    pub(crate) fn begin(&mut self, quiet: usize) {
        self.clear();
        self.public = None;
        if quiet > 0 {
            self.quiet.push((0, quiet));
        }
    }

    /// Forgets what the last unit held, and not what it ended in.
    pub(crate) fn clear(&mut self) {
        self.hits.clear();
        self.dropped.clear();
        self.quiet.clear();
        self.headings.clear();
    }
}

/// Finds what begins in `text[from..limit]`; it may end later.
pub(crate) fn families(
    text: &[u8],
    mut from: usize,
    limit: usize,
    homes: Option<&Homes>,
    carry: &mut Carry,
    finds: &mut Finds,
) {
    loop {
        let is_below = matches!(carry, Carry::Below(_));
        let (resumed, around) = resume(text, from, carry, &mut finds.hits);
        if resumed > from && !is_below {
            finds.dropped.push((from, resumed));
        }
        if matches!(carry, Carry::Below(_)) && resumed < text.len() {
            from = resumed; // After a key among lines below a name.
            continue;
        }
        if !matches!(carry, Carry::Nothing) {
            return; // All of it was in the block or the secret.
        }
        let Some(next) = until_block(text, resumed, limit, homes, carry, finds) else { return };
        if let (Some(below), Carry::Block(block)) = (around, &*carry)
            && next == line_end(text, resumed) + 1
        {
            *carry = Carry::Key(*block, below);
        }
        from = next;
        if from >= text.len() {
            return;
        }
    }
}

/// Where what was carried over ends; and lines below a name that go on behind the key block there.
fn resume(text: &[u8], from: usize, carry: &mut Carry, hits: &mut Vec<Hit>) -> (usize, Option<Below>) {
    let (rest, then, around) = match carry {
        Carry::Nothing => return (from, None),
        Carry::Body(body) => {
            let end = body.end(text, from);
            let rest = if end < text.len() { pem::Rest::Ends(end) } else { pem::Rest::GoesOn };
            (rest, Carry::Nothing, None)
        }
        Carry::Block(block) => (block.end(text, from), Carry::Nothing, None),
        Carry::Key(block, below) => (block.end(text, from), Carry::Below(*below), None),
        Carry::Below(below) => {
            let rest = below.go_on(text, from, hits);
            (rest, Carry::Nothing, below.has_key().then_some(*below))
        }
    };
    match rest {
        pem::Rest::Ends(end) => {
            *carry = then;
            (end, around)
        }
        pem::Rest::GoesOn => (text.len(), None),
    }
}

/// Finds everything up to the first block of key lines, which is carried on; where that block's lines begin.
fn until_block(
    text: &[u8],
    from: usize,
    limit: usize,
    homes: Option<&Homes>,
    carry: &mut Carry,
    finds: &mut Finds,
) -> Option<usize> {
    let mut last = (from, from);
    // Where anchors end that are of no name with a value.
    let mut nameless = from..from;
    let (mut dull, mut programless) = (Dull::default(), login::Programless::default());
    let mut anchors = Anchors::new(text, from);
    while let Some((start, end, kind)) = anchors.next() {
        if start >= limit {
            break;
        }
        if last.0 <= start && start < last.1 {
            anchors.skip_to(last.1.min(limit));
            continue;
        }
        let hit = match kind {
            Kind::Token(rule) => token::find(text, start, rule, &mut dull),
            Kind::Bearer => token::bearer(text, end),
            Kind::Basic => login::basic(text, start, end),
            Kind::Login => login::option(text, start, end, &mut programless),
            Kind::Option => command::option(text, start),
            Kind::Account => login::account(text, start),
            Kind::Sql => login::sql(text, start, end),
            Kind::Field if nameless.contains(&end) => None,
            Kind::Field => match field::find(text, start, end, &mut dull) {
                Some(field::Found::Hit(hit)) => Some(hit),
                Some(field::Found::Below(below)) => {
                    *carry = Carry::Below(below);
                    return Some(line_end(text, end) + 1);
                }
                Some(field::Found::Nameless(range)) => {
                    nameless = range;
                    None
                }
                None => None,
            },
            Kind::Url => url::find(text, start, end),
            Kind::PemUrl => pem::url(text, start, end),
            Kind::KeyBody => match pem::body(text, start) {
                Some(pem::Found::Block(hit, block)) => {
                    finds.hits.push(hit);
                    *carry = Carry::Block(block);
                    return Some(line_end(text, hit.end) + 1);
                }
                Some(pem::Found::Inline(hit)) => Some(hit),
                Some(pem::Found::Public(..) | pem::Found::PublicInline(_)) | None => None,
            },
            Kind::Home => homes.and_then(|_| home::find(text, start, end)),
            Kind::Pem => match pem::find(text, start, end) {
                Some(pem::Found::Inline(hit)) => Some(hit),
                Some(pem::Found::Block(hit, block)) => {
                    finds.hits.push(hit);
                    *carry = Carry::Block(block);
                    return Some(line_end(text, hit.end) + 1);
                }
                Some(pem::Found::Public(from, block)) => {
                    finds.headings.push((start, from));
                    finds.public(text, from, block);
                    None
                }
                Some(pem::Found::PublicInline(end)) => {
                    finds.quiet.push((start, end));
                    None
                }
                None => None,
            },
        };
        if let Some(hit) = hit {
            if hit.with == With::Mark {
                last = (hit.start, hit.end);
            }
            finds.hits.push(hit);
        }
    }
    None
}

/// Adds the runs that look drawn by lot.
pub(crate) fn random(text: &[u8], runs: &[(usize, usize)], limit: usize, finds: &mut Finds) {
    let before = finds.hits.len();
    let mut passed = 0;
    for (start, end) in runs.iter().filter(|(start, end)| end - start >= RANDOM && *start < limit) {
        // What is masked anyway is not judged. Hits are mostly in order; another one is found a second time.
        while passed < before && finds.hits.get(passed).is_some_and(|hit| hit.end <= *start) {
            passed += 1;
        }
        if !finds
            .hits
            .get(passed)
            .filter(|_| passed < before)
            .is_some_and(|hit| covers(text, hit, *start, *end))
        {
            random::find(text, *start, *end, &mut finds.hits);
        }
    }
    if finds.hits.len() == before || finds.quiet.is_empty() {
        return;
    }
    let quiet = &finds.quiet;
    let mut place = 0;
    finds.hits.retain(|hit| {
        place += 1;
        place <= before || !is_quiet(quiet, hit.start)
    });
}

/// Whether a hit masks a run and what would be masked with it, and is over within the text.
fn covers(text: &[u8], hit: &Hit, start: usize, end: usize) -> bool {
    hit.with == With::Mark && hit.start <= start && random::tail(text, end) <= hit.end && hit.end < text.len()
}

fn is_quiet(quiet: &[(usize, usize)], place: usize) -> bool {
    let after = quiet.partition_point(|(from, _)| *from <= place);
    after.checked_sub(1).and_then(|last| quiet.get(last)).is_some_and(|(_, to)| place < *to)
}

/// Adds what tells of a person.
pub(crate) fn personal(text: &[u8], from: usize, limit: usize, finds: &mut Finds) {
    personal::find(text, from, limit, &mut finds.hits);
}

/// Adds the homes that no anchor tells of.
pub(crate) fn homes(text: &[u8], from: usize, limit: usize, homes: &Homes, finds: &mut Finds) {
    homes.find(text, from, limit, &mut finds.hits);
}

/// Whether a word can begin here: after no letter or digit, or after one that belongs to an escape.
fn begins_word(text: &[u8], start: usize) -> bool {
    let Some(previous) = before(text, start) else { return true };
    if !(previous.is_ascii_alphanumeric() || previous == b'_') {
        return true;
    }
    // Most often none of them does.
    let lead = slice(text, start.saturating_sub(6), start);
    if previous != b'm' && !lead.iter().any(|byte| matches!(byte, b'\\' | b'%')) {
        return false;
    }
    let back = |n: usize| start.checked_sub(n).and_then(|position| at(text, position));
    let is_json_escape = matches!(previous, b'n' | b'r' | b't') && back(2) == Some(b'\\');
    let is_percent = back(3) == Some(b'%')
        && previous.is_ascii_hexdigit()
        && back(2).is_some_and(|b| b.is_ascii_hexdigit());
    // `\u0022`, `\x22`
    let is_hex = |n: usize| slice(text, start - n, start).iter().all(u8::is_ascii_hexdigit);
    let is_unicode = stands_before(text, start.saturating_sub(4), b"\\u") && is_hex(4);
    let is_byte = stands_before(text, start.saturating_sub(2), b"\\x") && is_hex(2);
    is_json_escape
        || is_unicode
        || is_byte
        || is_percent
        || (previous == b'm' && follows_colour(text, start - 1))
}

/// Whether the bytes before `m` are a terminal colour sequence, such as `ESC [ 1 ; 31`.
fn follows_colour(text: &[u8], m: usize) -> bool {
    let window = slice(text, m.saturating_sub(12), m);
    let digits = window.iter().rev().take_while(|byte| byte.is_ascii_digit() || **byte == b';').count();
    window.get(..window.len() - digits).is_some_and(|lead| lead.ends_with(b"\x1b["))
}
