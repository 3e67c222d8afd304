//! Refusals that come in numbers (nobody could be named for the call, or the caller comes too often): counted,
//! and written down once per caller and minute.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use ledger::{Decision, Draft, Ledger};
use model::Millis;

use crate::record::append_narrowing;

const MINUTE: Millis = 60_000;
/// More addresses than this in one minute share one count.
const MOST: usize = 4_096;

/// Refusals of one kind.
#[derive(Debug)]
pub(crate) struct Strangers {
    ledger: Arc<Ledger>,
    action: &'static str,
    seen: Mutex<HashMap<String, Seen>>,
}

#[derive(Debug)]
struct Seen {
    minute: Millis,
    /// How many came after the one that was written down.
    more: u64,
}

impl Strangers {
    pub(crate) fn new(ledger: Arc<Ledger>, action: &'static str) -> Self {
        Self { ledger, action, seen: Mutex::default() }
    }

    /// Counts a refusal; the first of an address in a minute is written down at once.
    pub(crate) async fn refused(&self, address: &str, what: &str, now: Millis) {
        // `what` is always a word of ours, never the caller's.
        let labels = [("action", self.action.to_owned()), ("what", what.replace(' ', "_"))];
        metrics::counter!("palisade_strangers_refused_total", &labels).increment(1);
        if let Some(earlier) = self.count(address, now / MINUTE) {
            self.write(address, what, earlier).await;
        }
    }

    /// Writes down what is counted and whose minute is over.
    pub(crate) async fn flush(&self, now: Millis) {
        let over: Vec<(String, u64)> = {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            let minute = now / MINUTE;
            let over = seen.iter().filter(|(_, one)| one.minute < minute && one.more > 0);
            let over = over.map(|(address, one)| (address.clone(), one.more)).collect();
            seen.retain(|_, one| one.minute >= minute);
            over
        };
        for (address, more) in over {
            self.write(&address, "repeated", more).await;
        }
    }

    /// How many went before without an entry, if this one gets an entry.
    fn count(&self, address: &str, minute: Millis) -> Option<u64> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let key = if seen.len() >= MOST && !seen.contains_key(address) { "many addresses" } else { address };
        match seen.get_mut(key) {
            Some(one) if one.minute == minute => {
                one.more += 1;
                None
            }
            Some(one) => {
                let earlier = one.more;
                *one = Seen { minute, more: 0 };
                Some(earlier)
            }
            None => {
                seen.insert(key.to_owned(), Seen { minute, more: 0 });
                Some(0)
            }
        }
    }

    async fn write(&self, address: &str, what: &str, earlier: u64) {
        let (who, on) =
            if address.starts_with("usr_") { (address, "installation") } else { ("nobody", address) };
        let draft = Draft::new(who, self.action, Decision::Refused)
            .on(on.to_owned())
            .because(what.to_owned())
            .with("not_written", earlier.to_string());
        if let Err(error) = append_narrowing(&self.ledger, draft).await {
            tracing::error!(%error, "a refusal could not be recorded");
        }
    }
}
