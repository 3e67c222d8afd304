//! Makes a run from its records again.

use std::collections::HashMap;

use super::event::{Decision, Step};
use super::row::{Head, Millis, Row, State, Waits};
use super::{Now, Run};
use crate::document::{MOST_ITEMS, Over, Product};
use crate::plan::{Group, Kind};
use crate::shared::Shared;

/// Why records are not those of a run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRows {
    /// One is missing or stands elsewhere.
    #[error("the record of item {0} is missing")]
    Missing(usize),
    /// Too many, or two of one name.
    #[error("there are two records of `{0}`")]
    Doubled(String),
    /// An edge leads nowhere.
    #[error("`{0}` waits for something that has no record")]
    Edge(String),
    /// More than there can be.
    #[error("there are {0} records of items")]
    TooMany(usize),
}

impl Run {
    /// The run of these records, with its locks and places taken. Restore every run before one of them is resumed: what one
    /// holds, another may wait for.
    ///
    /// # Errors
    /// [`BadRows`]; then nothing is taken.
    pub fn restore(head: Head, mut rows: Vec<Row>, shared: &mut Shared) -> Result<Self, BadRows> {
        if rows.len() > MOST_ITEMS {
            return Err(BadRows::TooMany(rows.len()));
        }
        rows.sort_by_key(|row| row.index);
        let mut index = HashMap::new();
        for (place, row) in rows.iter().enumerate() {
            if usize::try_from(row.index) != Ok(place) {
                return Err(BadRows::Missing(place));
            }
            if index.insert(row.definition.id.clone(), place).is_some() {
                return Err(BadRows::Doubled(row.definition.id.to_string()));
            }
        }
        let dangling = rows.iter().find(|row| {
            let named = row.definition.after.iter().map(|edge| &edge.item);
            named.chain(&row.definition.group).any(|item| !index.contains_key(item))
        });
        if let Some(row) = dangling {
            return Err(BadRows::Edge(row.definition.id.to_string()));
        }
        let count = rows.len();
        let (dependents, parts) = (vec![Vec::new(); count], vec![Vec::new(); count]);
        let mut run = Self { head, rows, index, dependents, parts };
        run.wire_all();
        for row in &run.rows {
            let Some(task) = row.definition.task() else { continue };
            if row.progress.holds {
                shared.hold(&run.holder(row), &task.locks);
            }
            if row.is_at_work() {
                shared.enter(&run.holder(row), &task.queue);
            }
        }
        Ok(run)
    }

    /// What is to be done first after a restart: everything that was decided and may not have been done is asked about or
    /// decided again.
    pub fn resume(&mut self, at: Millis, shared: &mut Shared) -> Step {
        let mut now = Now::new(at, shared);
        for place in 0..self.rows.len() {
            let Some(row) = self.rows.get(place) else { continue };
            let item = row.definition.id.clone();
            match (row.progress.dispatch, &row.progress.waits) {
                (_, Some(Waits::Elements)) => self.fetch_again(&mut now, place),
                (_, Some(_)) => self.ask_again(&mut now, place),
                (Some(dispatch), None) if row.progress.state == State::Running => {
                    now.decide(Decision::Check { item: item.clone(), dispatch });
                    if row.progress.stopping.is_some() {
                        now.decide(Decision::Stop { item, dispatch });
                    }
                }
                (_, None) => {}
            }
            now.look.insert(place);
        }
        self.settle(&mut now);
        now.step
    }

    fn fetch_again(&self, now: &mut Now<'_>, place: usize) {
        let Some(row) = self.rows.get(place) else { return };
        let Kind::Group(Group::MapReduce { over: Over::Output { item, path, .. }, .. }) =
            &row.definition.kind
        else {
            return;
        };
        if let Ok(list) = self.product(item, &Product::Output(path.clone()), "list") {
            now.decide(Decision::Fetch { item: row.definition.id.clone(), list });
        }
    }
}
