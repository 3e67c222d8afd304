//! What the built-in patterns do while they run: how a group ends, and which parts it makes.
//!
//! Invariants: what a group makes has ids that follow from it alone, in an order that follows from it alone; a pipeline is mended
//! once, a quorum has one round, and a list has at most as many elements as were counted when the plan was checked.

use super::row::{Cause, State, Verdict, Waits, Why};
use super::{Now, Refused, Row, Run};
use crate::document::{MOST_ITEMS, Over, Task};
use crate::name::ItemId;
use crate::plan::{Definition, Group, Kind, done, mapper, part, use_all, with_element};
use crate::request::{MOST_INPUT, json_length};

impl Run {
    /// Ends a group if its parts say how.
    pub(super) fn judge(&mut self, now: &mut Now<'_>, place: usize) {
        let Some(row) = self.rows.get(place).filter(|row| !row.progress.state.has_ended()) else { return };
        let id = row.definition.id.clone();
        let Kind::Group(group) = &row.definition.kind else { return };
        match group {
            Group::Quorum { threshold, .. } => {
                let threshold = *threshold;
                self.count_votes(now, place, threshold);
            }
            Group::MapReduce { .. } => {
                if self.state_of(&ItemId::member(&id, "reduce")) == Some(State::Done) {
                    self.end(now, place, State::Done, None);
                } else {
                    self.end_by_parts(now, place);
                }
            }
            Group::Pipeline { last, gate, fix } => {
                let (last, gate, fix) = (last.clone(), gate.clone(), fix.clone());
                self.judge_pipeline(now, place, &last, &gate, &fix);
            }
        }
    }

    fn state_of(&self, item: &ItemId) -> Option<State> {
        self.item(item).map(|row| row.progress.state)
    }

    /// Ends a group as its worst part did, if one did not end well.
    fn end_by_parts(&mut self, now: &mut Now<'_>, place: usize) {
        let parts = self.parts.get(place).into_iter().flatten().filter_map(|part| self.rows.get(*part));
        let mut worst: Option<(&Row, State)> = None;
        for row in parts {
            let weight = |state: State| match state {
                State::Failed => 3,
                State::Denied => 2,
                State::Cancelled => 1,
                State::Pending | State::Ready | State::Running | State::Done | State::Skipped => 0,
            };
            let state = row.progress.state;
            if weight(state) > worst.map_or(0, |(_, state)| weight(state)) {
                worst = Some((row, state));
            }
        }
        let Some((row, state)) = worst else { return };
        let detail = format!("`{}` is {}", row.definition.id, state.word());
        self.end(now, place, state, Some(Why { cause: Cause::Part, detail, by: None }));
    }

    fn judge_pipeline(&mut self, now: &mut Now<'_>, place: usize, last: &ItemId, gate: &Task, fix: &Task) {
        let Some(row) = self.rows.get(place) else { return };
        let (id, added_by) = (row.definition.id.clone(), row.added_by.clone());
        let said = |name: &str| {
            let row = self.item(&ItemId::member(&id, name))?;
            (row.progress.state == State::Done).then_some(row.progress.verdict)
        };
        match (said("gate"), said("gate-2")) {
            (Some(Some(Verdict::Approve)), _) | (_, Some(Some(Verdict::Approve))) => {
                self.end(now, place, State::Done, None);
            }
            (_, Some(_)) => {
                let detail = "the gate rejected it twice".to_owned();
                let why = Why { cause: Cause::Rejected, detail, by: None };
                self.end(now, place, State::Failed, Some(why));
            }
            (Some(_), None) if self.item(&ItemId::member(&id, "fix")).is_none() => {
                let mended = part(&id, "fix", vec![done(&ItemId::member(&id, "gate"))], fix.clone());
                // The second gate judges what the fix made.
                let mut again = gate.clone();
                for need in again.needs.iter_mut().filter(|need| need.item == *last) {
                    need.item = mended.id.clone();
                }
                let again = part(&id, "gate-2", vec![done(&mended.id)], again);
                for definition in [mended, again] {
                    let place = self.add(now, definition, added_by.clone());
                    self.wire(place);
                }
            }
            (Some(_) | None, None) => self.end_by_parts(now, place),
        }
    }

    /// Ends a quorum as soon as nothing more can change it. Who failed, was denied or skipped does not approve.
    fn count_votes(&mut self, now: &mut Now<'_>, place: usize, threshold: u32) {
        let (mut yes, mut open) = (0_u32, 0_u32);
        for part in self.parts.get(place).into_iter().flatten().filter_map(|part| self.rows.get(*part)) {
            let progress = &part.progress;
            match progress.state {
                State::Done if progress.verdict == Some(Verdict::Approve) => yes = yes.saturating_add(1),
                State::Pending | State::Ready | State::Running => open = open.saturating_add(1),
                State::Done | State::Failed | State::Skipped | State::Cancelled | State::Denied => {}
            }
        }
        if yes >= threshold {
            self.end(now, place, State::Done, None);
        } else if yes.saturating_add(open) < threshold {
            let detail = format!("{yes} approve, {threshold} must");
            let why = Why { cause: Cause::Rejected, detail, by: None };
            self.end(now, place, State::Failed, Some(why));
        }
    }

    /// Whether an item waits for parts that are not made yet.
    pub(super) fn is_held(&self, row: &Row) -> bool {
        let group = row.definition.group.as_ref().and_then(|group| self.item(group));
        group.is_some_and(|group| {
            let makes = matches!(
                group.definition.kind,
                Kind::Group(Group::MapReduce { over: Over::Output { .. }, .. })
            );
            makes && group.progress.elements.is_none()
        })
    }

    /// Makes a part for each element of a list.
    pub(super) fn elements(
        &mut self,
        now: &mut Now<'_>,
        item: &ItemId,
        found: Result<Vec<serde_json::Value>, String>,
    ) -> Result<(), Refused> {
        let place = self.place(item)?;
        let row = self.rows.get(place).filter(|row| row.progress.waits == Some(Waits::Elements));
        let row = row.ok_or_else(|| Refused::NotWaiting(item.clone()))?;
        let Kind::Group(Group::MapReduce { over: Over::Output { most, .. }, map }) = &row.definition.kind
        else {
            return Err(Refused::NotWaiting(item.clone()));
        };
        let (map, added_by, most) = (map.clone(), row.added_by.clone(), *most);
        match found.and_then(|list| self.fits(list, most)) {
            Err(detail) => {
                let why = Why { cause: Cause::BadList, detail, by: None };
                self.end(now, place, State::Failed, Some(why));
            }
            Ok(list) => {
                let after = self.rows.get(place).map(|row| row.definition.after.clone()).unwrap_or_default();
                let parts: Vec<Definition> = list
                    .iter()
                    .enumerate()
                    .map(|(number, one)| {
                        part(item, &mapper(number), after.clone(), with_element(&map, number, one))
                    })
                    .collect();
                self.join(now, item, &parts);
                for definition in parts {
                    self.add(now, definition, added_by.clone());
                }
                self.wire_all();
                if let Some(progress) = self.progress(now, place) {
                    progress.waits = None;
                    progress.elements = u32::try_from(list.len()).ok();
                }
            }
        }
        Ok(())
    }

    fn fits(&self, list: Vec<serde_json::Value>, most: u32) -> Result<Vec<serde_json::Value>, String> {
        let is_long = u32::try_from(list.len()).map_or(true, |count| count > most);
        if is_long || self.rows.len().saturating_add(list.len()) > MOST_ITEMS {
            return Err(format!("the list has {} elements, at most {most} were announced", list.len()));
        }
        if list.iter().map(json_length).fold(0, usize::saturating_add) > MOST_INPUT {
            return Err(format!("the list has more than {MOST_INPUT} bytes"));
        }
        Ok(list)
    }

    /// Lets the last part of a map wait for all others and use what they leave.
    fn join(&mut self, now: &mut Now<'_>, group: &ItemId, parts: &[Definition]) {
        let Some(place) = self.index.get(&ItemId::member(group, "reduce")).copied() else { return };
        let Some(row) = self.rows.get_mut(place) else { return };
        row.definition.after.extend(parts.iter().map(|part| done(&part.id)));
        if let Kind::Task(task) = &mut row.definition.kind {
            use_all(task, group, parts.len());
        }
        now.step.rows.insert(place);
        now.look.insert(place);
    }
}
