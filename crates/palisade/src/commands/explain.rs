//! What `palisade run --explain` says when the command has ended.
//!
//! Flow: [`Observer`] -> lines on standard error, and a value for `--json`. Invariant: the exit code is the
//! command's own, whatever is told. Not here: what refused what (`sandbox`).

use sandbox::{Ended, Observer, Weight};
use serde_json::{Value, json};

use crate::output;

/// The most lines; `--json` has all.
const MOST_LINES: usize = 15;

/// Tells what was refused; the same for programs, nothing where nobody asked.
pub(super) fn tell(observer: Option<Observer>, ended: Option<Ended>, is_json: bool) -> Value {
    let Some(observer) = observer else { return Value::Null };
    let explained = match observer.explained() {
        Ok(explained) => explained,
        Err(error) => {
            output::tell(&error.to_string());
            return Value::Null;
        }
    };
    let failed = ended != Some(Ended::Code(0));
    let worth: Vec<_> = explained.worth_telling(failed).collect();
    if worth.is_empty() {
        output::tell("explain: nothing was refused");
    }
    for denial in worth.iter().take(MOST_LINES) {
        output::tell(&denial.to_string());
    }
    let more = worth.len().saturating_sub(MOST_LINES);
    let how = if is_json { "below" } else { "`--json` lists them" };
    if more > 0 {
        output::tell(&format!("explain: {more} more; {how}"));
    }
    if worth.iter().all(|denial| denial.weight == Weight::Absent) && !worth.is_empty() {
        output::tell("explain: these were only looked for; many programs look for more than they need");
    }
    if explained.dropped > 0 {
        output::tell(&format!("explain: {} further refusals were not kept", explained.dropped));
    }
    json!(explained.denials)
}
