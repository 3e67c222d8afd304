//! Checks what the items of a document say about each other: names, edges, needs, cycles, how many there are.
//!
//! Invariant: time is proportional to the document, whatever stands in it.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use crate::document::{Document, Item, MOST_ITEMS, Need, On, Over, Task, Work};
use crate::fault::What;
use crate::graph::components;
use crate::name::ItemId;
use crate::read::Reader;

/// For how many unknown names a similar one is looked for.
const MOST_SUGGESTIONS: usize = 20;
/// How many names of a cycle are told.
const MOST_OF_CYCLE: usize = 12;

/// Items that are there already: those of the run that is extended, and whether each leaves a product.
pub(crate) type Known = BTreeMap<ItemId, bool>;

/// How many items a document makes, with those that its patterns may add.
pub(crate) fn count(document: &Document) -> usize {
    let of = |item: &Item| match &item.work {
        None | Some(Work::One(_)) => 1,
        // The group, its stages, the gate; the fix and the second gate if it comes to that.
        Some(Work::Pipeline { stages, .. }) => stages.len().saturating_add(4),
        Some(Work::MapReduce { over: Over::These(all), .. }) => all.len().saturating_add(2),
        Some(Work::MapReduce { over: Over::Output { most, .. }, .. }) => {
            usize::try_from(*most).unwrap_or(usize::MAX).saturating_add(2)
        }
        Some(Work::Quorum { reviewers, .. }) => reviewers.len().saturating_add(1),
    };
    document.items.iter().map(of).fold(0, usize::saturating_add)
}

/// Checks it; `taken` is how many items there are already, with what they may add.
pub(crate) fn check(reader: &mut Reader, document: &Document, known: &Known, taken: usize) {
    let mut check = Check::new(reader, document, known);
    let mut targets = Vec::with_capacity(document.items.len());
    for (number, item) in document.items.iter().enumerate() {
        targets.push(check.edges(number, item));
        check.needs(item);
    }
    check.cycles(&targets);
    let count = taken.saturating_add(count(document));
    if count > MOST_ITEMS {
        reader.faults.add("/items", What::TooManyItems { count, most: MOST_ITEMS });
    }
}

struct Check<'a> {
    reader: &'a mut Reader,
    document: &'a Document,
    known: &'a Known,
    /// Where each name stands among the items; of a name that stands twice the first.
    index: HashMap<&'a str, usize>,
    /// By which item each was named last, so that one that names it twice is seen.
    named_by: Vec<Option<usize>>,
    suggestions: usize,
}

impl<'a> Check<'a> {
    fn new(reader: &'a mut Reader, document: &'a Document, known: &'a Known) -> Self {
        let mut index = HashMap::new();
        let mut alike: HashMap<String, (&ItemId, &str)> =
            known.keys().map(|id| (id.as_str().to_ascii_lowercase(), (id, ""))).collect();
        for (number, item) in document.items.iter().enumerate() {
            match alike.get(&item.id.as_str().to_ascii_lowercase()) {
                None => {
                    alike.insert(item.id.as_str().to_ascii_lowercase(), (&item.id, &item.at));
                    index.insert(item.id.as_str(), number);
                }
                Some((other, first)) => {
                    let (id, first) = (item.id.to_string(), (*first).to_owned());
                    let what = if **other == item.id {
                        What::DuplicateId { id, first }
                    } else {
                        What::AlikeId { id, other: other.to_string(), first }
                    };
                    reader.faults.add(format!("{}/id", item.at), what);
                }
            }
        }
        let named_by = vec![None; document.items.len()];
        Self { reader, document, known, index, named_by, suggestions: 0 }
    }

    fn is_there(&self, id: &ItemId) -> bool {
        self.index.contains_key(id.as_str()) || self.known.contains_key(id)
    }

    fn unknown(&mut self, at: String, id: &ItemId) {
        let near = self.near(id.as_str());
        self.reader.faults.add(at, What::UnknownItem { id: id.to_string(), near });
    }

    /// A name that may have been meant: the group of a part, or one that differs a little.
    fn near(&mut self, id: &str) -> Option<String> {
        if let Some((group, _)) = id.split_once('/').filter(|(group, _)| self.index.contains_key(group)) {
            return Some(group.to_owned());
        }
        self.suggestions += 1;
        if self.suggestions > MOST_SUGGESTIONS {
            return None;
        }
        let all = self.document.items.iter().map(|item| item.id.as_str());
        let all = all.chain(self.known.keys().map(ItemId::as_str));
        let found = all.map(|other| (distance(id, other), other)).min();
        found
            .filter(|(distance, _)| *distance <= 2 && *distance < id.len())
            .map(|(_, other)| other.to_owned())
    }

    /// Checks the edges of an item; the items that they lead to. There can be very many: each name is looked up once.
    fn edges(&mut self, own: usize, item: &Item) -> Vec<usize> {
        let mut targets = Vec::with_capacity(item.after.len());
        // Those that are not items of this document.
        let mut others = HashSet::new();
        for (number, edge) in &item.after {
            let at = || format!("{}/after/{number}", item.at);
            let target = self.index.get(edge.item.as_str()).copied();
            let is_twice = match target.and_then(|target| self.named_by.get_mut(target)) {
                Some(by) => by.replace(own) == Some(own),
                None => !others.insert(edge.item.as_str()),
            };
            if is_twice {
                self.reader.faults.add(at(), What::Twice(edge.item.to_string()));
            } else if target.is_none() && !self.known.contains_key(&edge.item) {
                self.unknown(at(), &edge.item);
            }
            targets.extend(target);
        }
        targets
    }

    fn needs(&mut self, item: &Item) {
        if matches!(&item.work, Some(Work::One(Task { needs, .. })) if needs.is_empty()) {
            return;
        }
        let edges: HashMap<&str, On> =
            item.after.iter().map(|(_, edge)| (edge.item.as_str(), edge.on)).collect();
        let own = |part: &str| ItemId::member(&item.id, part);
        match &item.work {
            None => {}
            Some(Work::One(task)) => self.needs_of(&edges, &task.needs, &[]),
            Some(Work::Pipeline { stages, gate, fix }) => {
                let mut before: Vec<ItemId> = Vec::new();
                for (id, task) in stages {
                    self.needs_of(&edges, &task.needs, &before);
                    before.push(own(id));
                }
                self.needs_of(&edges, &gate.needs, &before);
                before.push(own("gate"));
                self.needs_of(&edges, &fix.needs, &before);
            }
            Some(Work::MapReduce { over, map, reduce }) => {
                if let Over::Output { item: from, .. } = over {
                    self.need(&edges, from, &format!("{}/over/item", item.at), &[]);
                }
                self.needs_of(&edges, &map.needs, &[]);
                self.needs_of(&edges, &reduce.needs, &[own("map")]);
            }
            Some(Work::Quorum { reviewers, .. }) => {
                reviewers.iter().for_each(|task| self.needs_of(&edges, &task.needs, &[]));
            }
        }
    }

    fn needs_of(&mut self, edges: &HashMap<&str, On>, needs: &[Need], own: &[ItemId]) {
        for need in needs {
            self.need(edges, &need.item, &need.at.0, own);
        }
    }

    fn need(&mut self, edges: &HashMap<&str, On>, from: &ItemId, at: &str, own: &[ItemId]) {
        if own.contains(from) {
            return;
        }
        if !self.is_there(from) {
            return self.unknown(at.to_owned(), from);
        }
        let what = match edges.get(from.as_str()) {
            None => What::NeedWithoutDependency(from.to_string()),
            Some(On::Ended) => What::NeedOfFailure(from.to_string()),
            Some(On::Done) if self.leaves_nothing(from) => What::NoProduct(from.to_string()),
            Some(On::Done) => return,
        };
        self.reader.faults.add(at, what);
    }

    fn leaves_nothing(&self, id: &ItemId) -> bool {
        match self.index.get(id.as_str()).and_then(|number| self.document.items.get(*number)) {
            Some(item) => matches!(item.work, Some(Work::Quorum { .. })),
            None => self.known.get(id) == Some(&false),
        }
    }

    /// One fault for each set of items that wait for each other. What is there already waits for nothing new.
    fn cycles(&mut self, edges: &[Vec<usize>]) {
        let mut cycles: Vec<Vec<usize>> = Vec::new();
        for component in components(edges) {
            let is_cycle = match component.as_slice() {
                [one] => edges.get(*one).is_some_and(|targets| targets.contains(one)),
                _ => true,
            };
            if is_cycle {
                cycles.push(shortest(edges, &component));
            }
        }
        cycles.sort();
        for cycle in cycles {
            let items: Vec<&Item> =
                cycle.iter().filter_map(|number| self.document.items.get(*number)).collect();
            let Some(first) = items.first() else { continue };
            self.reader.faults.add(format!("{}/after", first.at), What::Cycle(named(&items)));
        }
    }
}

/// `a waits for b, b for a`, as an arrow for each wait.
fn named(items: &[&Item]) -> String {
    let mut names: Vec<String> =
        items.iter().take(MOST_OF_CYCLE).map(|item| format!("`{}`", item.id)).collect();
    if items.len() > MOST_OF_CYCLE {
        names.push(format!("{} more", items.len() - MOST_OF_CYCLE));
    }
    names.extend(items.first().map(|item| format!("`{}`", item.id)));
    names.join(" → ")
}

/// The shortest way from the first item of a component back to it.
fn shortest(edges: &[Vec<usize>], component: &[usize]) -> Vec<usize> {
    let inside: HashSet<usize> = component.iter().copied().collect();
    let Some(start) = component.iter().copied().min() else { return Vec::new() };
    let (mut came, mut open) = (HashMap::new(), VecDeque::from([start]));
    while let Some(one) = open.pop_front() {
        for next in edges.get(one).into_iter().flatten().copied().filter(|next| inside.contains(next)) {
            if next == start {
                let mut way = vec![one];
                let mut at = one;
                while let Some(before) = came.get(&at) {
                    way.push(*before);
                    at = *before;
                }
                way.reverse();
                return way;
            }
            if next != start && !came.contains_key(&next) {
                came.insert(next, one);
                open.push_back(next);
            }
        }
    }
    vec![start]
}

/// How many letters have to be changed, added or removed. Names are short.
fn distance(one: &str, other: &str) -> usize {
    if one.len().abs_diff(other.len()) > 2 {
        return usize::MAX;
    }
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (number, letter) in one.chars().enumerate() {
        let mut corner = number;
        let mut left = number + 1;
        let mut next = vec![left];
        for (other_letter, above) in other.iter().zip(row.iter().skip(1)) {
            let same = corner + usize::from(letter != *other_letter);
            left = same.min(above + 1).min(left + 1);
            corner = *above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (one, other, expected) in
            [("build", "build", 0), ("build", "biuld", 2), ("build", "buil", 1), ("a", "b", 1), ("", "ab", 2)]
        {
            assert_eq!(distance(one, other), expected, "{one} {other}");
        }
    }
}
