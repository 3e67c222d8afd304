//! Decoys in what a run leaves behind: what is looked for there, and what is recorded of it.
//!
//! Not here: where it is looked for, and what becomes of what carries one ([`sandbox::Seeks`]).

use egress::decoys::{Decoys, Scan};
use sandbox::{Carried, Looks, RunId, Seeks};

use super::{Summary, seen};
use crate::commands::record::OwnRecord;
use crate::failure::Failure;
use crate::output;

/// Decoys, as whoever looks through what is left of a run takes them.
struct Left<'a>(&'a Decoys);

impl Seeks for Left<'_> {
    fn begin(&self) -> Box<dyn Looks + '_> {
        Box::new(Passing(self.0.scan()))
    }
}

struct Passing<'a>(Scan<'a>);

impl Looks for Passing<'_> {
    fn look(&mut self, piece: &[u8]) -> Option<String> {
        self.0.look(piece).map(str::to_owned)
    }
}

impl Summary {
    /// What must not be in what a run leaves behind; none if there is no such thing.
    pub(in crate::commands) fn sought(&self) -> Option<Box<dyn Seeks + '_>> {
        (!self.decoys.is_empty()).then(|| Box::new(Left(&self.decoys)) as Box<dyn Seeks>)
    }

    /// Records what of it was found there. `tells`: whether the person is told too.
    pub(in crate::commands) fn carried(
        &mut self,
        carried: &[Carried],
        record: &OwnRecord,
        run: &RunId,
        tells: bool,
    ) -> Result<(), Failure> {
        let mut drafts = Vec::new();
        for one in carried {
            let what = one.to_string();
            if self.findings.contains(&what) {
                continue;
            }
            if tells {
                output::tell(&format!("found: {what}"));
            }
            drafts.push(seen::carried(run, one, &what));
            self.findings.push(what);
        }
        if drafts.is_empty() { Ok(()) } else { record.append_all(&drafts) }
    }
}
