//! Reads typed values out of a tree, and goes on after a fault: whoever reads gets nothing for that value and all the others.

use crate::fault::{Faults, What};
use crate::tree::{Fields, Tree};

/// A place in the document, on the stack: it becomes a text only when something is wrong there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At<'a> {
    up: Option<&'a Self>,
    step: Step<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Top,
    Key(&'a str),
    Index(usize),
}

impl<'a> At<'a> {
    pub(crate) const TOP: At<'static> = At { up: None, step: Step::Top };

    pub(crate) fn key(&'a self, key: &'a str) -> At<'a> {
        At { up: Some(self), step: Step::Key(key) }
    }

    pub(crate) fn index(&'a self, index: usize) -> At<'a> {
        At { up: Some(self), step: Step::Index(index) }
    }

    /// The JSON pointer.
    pub(crate) fn pointer(&self) -> String {
        let mut pointer = self.up.map(Self::pointer).unwrap_or_default();
        match self.step {
            Step::Top => {}
            // A key is the document's, and can be of any length.
            Step::Key(key) => {
                pointer.push_str(&format!("/{}", cut(key).replace('~', "~0").replace('/', "~1")))
            }
            Step::Index(index) => pointer.push_str(&format!("/{index}")),
        }
        pointer
    }
}

/// The beginning of a text of the document, for a message.
pub(crate) fn cut(text: &str) -> String {
    const MOST: usize = 80;
    let mut chars = text.chars();
    let mut cut: String = chars.by_ref().take(MOST).collect();
    if chars.next().is_some() {
        cut.push('…');
    }
    cut
}

/// What is read, and what was wrong with it so far.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    pub(crate) faults: Faults,
}

/// One table, whose keys are known.
#[derive(Clone, Copy)]
pub(crate) struct Table<'t> {
    fields: &'t Fields,
}

impl<'t> Table<'t> {
    pub(crate) fn get(&self, key: &str) -> Option<&'t Tree> {
        // What is null is not there.
        let found = self.fields.fields.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| value).filter(|value| **value != Tree::Null)
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &'t str> {
        self.fields.fields.iter().map(|(key, _)| key.as_str())
    }
}

impl Reader {
    pub(crate) fn fault(&mut self, at: &At<'_>, what: What) {
        self.faults.add(at.pointer(), what);
    }

    fn kind(&mut self, at: &At<'_>, expected: &'static str, tree: &Tree) {
        self.fault(at, What::Kind { expected, found: tree.kind() });
    }

    /// A table with no keys but these.
    pub(crate) fn table<'t>(
        &mut self,
        at: &At<'_>,
        tree: &'t Tree,
        known: &'static [&'static str],
    ) -> Option<Table<'t>> {
        let table = self.any_table(at, tree)?;
        for key in table.keys().filter(|key| !known.contains(key)) {
            self.fault(&at.key(key), What::UnknownKey { key: cut(key), known });
        }
        Some(table)
    }

    /// A table whose keys are names.
    pub(crate) fn any_table<'t>(&mut self, at: &At<'_>, tree: &'t Tree) -> Option<Table<'t>> {
        let Tree::Table(fields) = tree else {
            self.kind(at, "a table", tree);
            return None;
        };
        for key in &fields.doubled {
            self.fault(at, What::DoubledKey(cut(key)));
        }
        Some(Table { fields })
    }

    /// The value of a key that must be there.
    pub(crate) fn required<'t>(
        &mut self,
        at: &At<'_>,
        table: Table<'t>,
        key: &'static str,
    ) -> Option<&'t Tree> {
        let found = table.get(key);
        if found.is_none() {
            self.fault(at, What::Missing(key));
        }
        found
    }

    pub(crate) fn text<'t>(&mut self, at: &At<'_>, tree: &'t Tree) -> Option<&'t str> {
        let Tree::Text(text) = tree else {
            self.kind(at, "a text", tree);
            return None;
        };
        Some(text)
    }

    /// A text that `fits`.
    pub(crate) fn word(
        &mut self,
        at: &At<'_>,
        tree: &Tree,
        expected: &'static str,
        fits: impl FnOnce(&str) -> bool,
    ) -> Option<String> {
        let text = self.text(at, tree)?;
        if !fits(text) {
            self.fault(at, What::Word { found: cut(text), expected });
            return None;
        }
        Some(text.to_owned())
    }

    /// A text that is parsed.
    pub(crate) fn parsed<T>(
        &mut self,
        at: &At<'_>,
        tree: &Tree,
        expected: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let text = self.text(at, tree)?;
        let parsed = parse(text);
        if parsed.is_none() {
            self.fault(at, What::Word { found: cut(text), expected });
        }
        parsed
    }

    pub(crate) fn is(&mut self, at: &At<'_>, tree: &Tree) -> Option<bool> {
        let Tree::Bool(is) = tree else {
            self.kind(at, "true or false", tree);
            return None;
        };
        Some(*is)
    }

    pub(crate) fn number(&mut self, at: &At<'_>, tree: &Tree, least: u64, most: u64) -> Option<u64> {
        let found = match tree {
            Tree::Natural(number) if (least..=most).contains(number) => return Some(*number),
            Tree::Natural(number) => number.to_string(),
            Tree::Negative(number) => number.to_string(),
            Tree::Float(_) | Tree::Null | Tree::Bool(_) | Tree::Text(_) | Tree::List(_) | Tree::Table(_) => {
                self.kind(at, "a whole number", tree);
                return None;
            }
        };
        self.fault(at, What::Bounds { found, least, most });
        None
    }

    /// A list of so many. What is beyond the bound is not looked at.
    pub(crate) fn list<'t>(
        &mut self,
        at: &At<'_>,
        tree: &'t Tree,
        least: usize,
        most: usize,
    ) -> Option<&'t [Tree]> {
        let Tree::List(all) = tree else {
            self.kind(at, "a list", tree);
            return None;
        };
        if !self.count(at, all.len(), least, most) {
            return None;
        }
        Some(all)
    }

    /// Whether so many are within bounds.
    pub(crate) fn count(&mut self, at: &At<'_>, count: usize, least: usize, most: usize) -> bool {
        let fits = (least..=most).contains(&count);
        if !fits {
            self.fault(at, What::Count { count, least, most });
        }
        fits
    }

    /// Any value, for whoever reads it later. Keys that stand twice are told at any depth: two readers could see two values.
    pub(crate) fn opaque(&mut self, at: &At<'_>, tree: &Tree) -> serde_json::Value {
        self.doubled(at, tree);
        tree.to_json()
    }

    fn doubled(&mut self, at: &At<'_>, tree: &Tree) {
        match tree {
            Tree::List(all) => {
                all.iter().enumerate().for_each(|(index, one)| self.doubled(&at.index(index), one));
            }
            Tree::Table(table) => {
                table.doubled.iter().for_each(|key| self.fault(at, What::DoubledKey(cut(key))));
                table.fields.iter().for_each(|(key, one)| self.doubled(&at.key(key), one));
            }
            Tree::Null
            | Tree::Bool(_)
            | Tree::Natural(_)
            | Tree::Negative(_)
            | Tree::Float(_)
            | Tree::Text(_) => {}
        }
    }
}
