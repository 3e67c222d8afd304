//! The redactor: the known values, and the machine run over a text at hand.

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

use crate::known::{Known, LearnError};
use crate::machine::{Edit, End, Machine};

/// Masks secrets in text. Clones are cheap and share what was learned.
#[derive(Clone, Default)]
pub struct Redactor {
    known: Arc<ArcSwap<Known>>,
    learning: Arc<Mutex<()>>,
    masked: Arc<AtomicU64>,
}

impl Redactor {
    /// Masks every family; knows no particular value yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// From now on masks this exact value too, and its base64, hex, JSON and URL-encoded forms.
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
        // One at a time: learners build on each other, readers never wait.
        let _turn = self.learning.lock().unwrap_or_else(PoisonError::into_inner);
        let next = self.known.load().with(values)?;
        self.known.store(Arc::new(next));
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
        let known = self.known.load();
        let (mut machine, mut edits, mut from) = (Machine::default(), Vec::new(), 0);
        while let Some(next) = machine.step(&known, text, from, End::OfText, &mut edits) {
            from = next;
        }
        if edits.is_empty() {
            return Cow::Borrowed(text);
        }
        self.count(&edits);
        let mut out = Vec::with_capacity(text.len());
        Edit::apply(&edits, text, 0, text.len(), &mut out);
        Cow::Owned(out)
    }

    /// How many secrets this redactor and its clones have masked so far.
    #[must_use]
    pub fn masked(&self) -> u64 {
        self.masked.load(Ordering::Relaxed)
    }

    pub(crate) fn count(&self, edits: &[Edit]) {
        let marks = edits.iter().filter(|edit| edit.is_marked).count();
        self.masked.fetch_add(u64::try_from(marks).unwrap_or(0), Ordering::Relaxed);
    }

    pub(crate) fn known(&self) -> Arc<Known> {
        self.known.load_full()
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redactor(***)")
    }
}
