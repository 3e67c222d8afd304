//! Adds items to a run that was left open.

use super::event::{Refused, Step};
use super::row::Millis;
use super::{Now, Run};
use crate::check::Known;
use crate::name::{Actor, Hash};
use crate::plan::{Noun, Pinned, Plan};
use crate::request::Ref;
use crate::shared::Shared;
use crate::tree::Format;

impl Run {
    /// Adds the items of a document, which is checked like one that is submitted: all or nothing. Names that this run has
    /// resolved before mean the same.
    ///
    /// # Errors
    /// [`Refused::Closed`] or [`Refused::Faults`]; then nothing changed.
    pub fn extend(
        &mut self,
        at: Millis,
        by: &Actor,
        document: (&[u8], Format),
        resolve: impl FnMut(Noun, &Ref) -> Result<Hash, String>,
        shared: &mut Shared,
    ) -> Result<Step, Refused> {
        if !self.head.open || self.head.cancelled.is_some() || self.head.ended.is_some() {
            return Err(Refused::Closed);
        }
        let whole = self.rows.iter().filter(|row| row.definition.group.is_none());
        let known: Known =
            whole.map(|row| (row.definition.id.clone(), row.definition.leaves_a_product())).collect();
        let (bytes, format) = document;
        let plan = Plan::read_beside(bytes, format, Some((&known, self.taken())))?;
        let Pinned { plan, pins } = plan.pinned(self.head.pins.clone(), resolve)?;
        let mut now = Now::new(at, shared);
        now.step.head = self.head.pins != pins;
        self.head.pins = pins;
        for definition in plan.definitions {
            self.add(&mut now, definition, by.clone());
        }
        self.wire_all();
        self.settle(&mut now);
        Ok(now.step)
    }

    /// How many items there are, with those that patterns may still add.
    fn taken(&self) -> usize {
        let still =
            self.rows.iter().filter(|row| !row.progress.state.has_ended() && row.progress.elements.is_none());
        let may_add = |row: &super::Row| {
            let fix = crate::name::ItemId::member(&row.definition.id, "fix");
            if self.index.contains_key(&fix) { 0 } else { row.definition.may_add() }
        };
        still.map(may_add).fold(self.rows.len(), usize::saturating_add)
    }
}
