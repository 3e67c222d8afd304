//! The redactor: what it knows, and the machine run over a text at hand.

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

use crate::find::With;
use crate::known::LearnError;
use crate::machine::{Also, Edit, End, Machine, Rules};
use crate::patterns::{BadPattern, Patterns};
use crate::search::{Place, Search};

/// Masks secrets in text. Clones are cheap and share what was learned and the patterns; what is masked beside secrets
/// is each clone's own.
#[derive(Clone, Default)]
pub struct Redactor {
    rules: Arc<ArcSwap<Rules>>,
    changing: Arc<Mutex<()>>,
    masked: Arc<AtomicU64>,
    also: Also,
}

impl Redactor {
    /// Masks secrets of every family; knows no particular value yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Also turns home paths into `~/`, so that paths do not name people.
    #[must_use]
    pub fn with_home_paths(mut self) -> Self {
        self.also.homes.get_or_insert_default();
        self
    }

    /// As [`Self::with_home_paths`], and this folder is a home too, wherever it is.
    #[must_use]
    pub fn with_home(mut self, home: &[u8]) -> Self {
        self.also.homes = Some(self.also.homes.take().unwrap_or_default().and(home));
        self
    }

    /// For what others will read: as [`Self::with_home_paths`], and the home of whoever runs this, if it is known, is one
    /// too.
    #[must_use]
    pub fn for_others(self, own_home: Option<&std::path::Path>) -> Self {
        match own_home {
            Some(home) => self.with_home(home.as_os_str().as_encoded_bytes()),
            None => self.with_home_paths(),
        }
    }

    /// Also masks cards, e-mail addresses, phone and social security numbers, and addresses of hosts.
    #[must_use]
    pub fn with_personal_data(mut self) -> Self {
        self.also.personal = true;
        self
    }

    /// From now on masks this exact value too, however a program writes it: as base64, hex (also in pairs), JSON, URLs,
    /// strings of shells and programs, markup, UTF-16, and base64 or URLs twice over. Of a value that is broken into lines
    /// a piece of twenty bytes or more is found in each of them; a value of fewer than eight bytes is refused, as it occurs
    /// by chance.
    ///
    /// # Errors
    /// [`LearnError`]; then the value will not be masked, and the caller must not use it as a secret.
    pub fn learn(&self, value: &[u8]) -> Result<(), LearnError> {
        self.learn_all(&[value])
    }

    /// Learns many values for the price of one; all or none.
    ///
    /// # Errors
    /// [`LearnError`] when one of them cannot be learned.
    pub fn learn_all(&self, values: &[&[u8]]) -> Result<(), LearnError> {
        self.change(|rules| {
            let known = rules.known.with(values)?;
            Ok(Rules { known, patterns: rules.patterns.clone() })
        })
    }

    /// The value is no secret any more. One that was learned twice must be forgotten twice; one that is not known
    /// is no error.
    pub fn forget(&self, value: &[u8]) {
        self.forget_all(&[value]);
    }

    /// Whether a value of this length can be learned; nothing is learned by asking.
    ///
    /// # Errors
    /// When it is too short or too long.
    pub fn fits(value: &[u8]) -> Result<(), LearnError> {
        crate::known::fits(value)
    }

    /// Forgets many values for the price of one.
    pub fn forget_all(&self, values: &[&[u8]]) {
        let forgotten: Result<(), std::convert::Infallible> = self.change(|rules| {
            Ok(Rules { known: rules.known.without(values), patterns: rules.patterns.clone() })
        });
        let Ok(()) = forgotten;
    }

    /// Replaces the patterns that people added; it holds from the next line on. Those that cannot be used are told, the
    /// others are in force.
    #[must_use = "a pattern that is not in force masks nothing"]
    pub fn set_patterns<'a>(&self, patterns: impl IntoIterator<Item = &'a str>) -> Vec<BadPattern> {
        let (patterns, bad) = Patterns::new(patterns);
        let set: Result<(), std::convert::Infallible> =
            self.change(|rules| Ok(Rules { known: rules.known.clone(), patterns }));
        let Ok(()) = set;
        bad
    }

    /// One at a time: changes build on each other, readers never wait.
    fn change<E>(&self, next: impl FnOnce(&Rules) -> Result<Rules, E>) -> Result<(), E> {
        let _turn = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let next = next(&self.rules.load())?;
        self.rules.store(Arc::new(next));
        Ok(())
    }

    /// The text with every secret masked; borrowed when there was none.
    #[must_use]
    pub fn scrub<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.scrub_bytes(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            // A learned value that is not UTF-8 can end inside a character; nothing else can.
            Cow::Owned(bytes) => Cow::Owned(
                String::from_utf8(bytes)
                    .unwrap_or_else(|bad| String::from_utf8_lossy(bad.as_bytes()).into_owned()),
            ),
        }
    }

    /// The bytes with every secret masked; borrowed when there was none.
    #[must_use]
    pub fn scrub_bytes<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        let rules = self.rules.load();
        let (mut machine, mut from) = (Machine::borrowed(), 0);
        let mut out: Option<Vec<u8>> = None;
        while let Some(next) = machine.step(&rules, &self.also, text, from, End::OfText) {
            if out.is_some() || !machine.edits().is_empty() {
                let out = out.get_or_insert_with(|| {
                    let mut out = Vec::with_capacity(text.len());
                    out.extend_from_slice(crate::bytes::slice(text, 0, from));
                    out
                });
                self.count(machine.edits());
                machine.emit(&rules, &self.also, text, from, next, out);
            }
            from = next;
        }
        machine.give_back();
        out.map_or(Cow::Borrowed(text), Cow::Owned)
    }

    /// Where the secrets of a text are.
    #[must_use]
    pub fn find(&self, text: &[u8]) -> Vec<Place> {
        let mut places = Vec::new();
        let mut search = Search::new(self.clone());
        search.feed(text, |place| places.push(place));
        search.finish(|place| places.push(place));
        places
    }

    /// How many secrets this redactor and its clones have masked so far.
    #[must_use]
    pub fn masked(&self) -> u64 {
        self.masked.load(Ordering::Relaxed)
    }

    pub(crate) fn count(&self, edits: &[Edit]) {
        let marks = edits.iter().filter(|edit| edit.with == With::Mark).count();
        if marks > 0 {
            self.masked.fetch_add(u64::try_from(marks).unwrap_or(0), Ordering::Relaxed);
        }
    }

    pub(crate) fn rules(&self) -> Arc<Rules> {
        self.rules.load_full()
    }

    pub(crate) const fn also(&self) -> &Also {
        &self.also
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redactor(***)")
    }
}
