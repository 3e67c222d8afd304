//! What a profile's paths come to: for every path on the machine, what may be done there.
//!
//! The most exact rule counts. Invariant: `a.meet(b)` allows, at each path, the lesser of what both allow;
//! narrowing `/a` to `/a/b` keeps the wider path as the one to stay within.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::draft::Worktree;
use super::place::{Entry, Roots};

/// Rules by path. A path without a rule at or above it does not exist inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reach(BTreeMap<PathBuf, Rule>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    may: Worktree,
    within: PathBuf,
}

impl Reach {
    /// What a worktree and two lists come to.
    pub(super) fn new(roots: &Roots, worktree: Worktree, read: &[Entry], write: &[Entry]) -> Self {
        let mut reach = Self(BTreeMap::new());
        reach.set(Entry::whole(roots.worktree.clone()), worktree);
        read.iter().for_each(|entry| reach.set(entry.clone(), Worktree::Read));
        write.iter().for_each(|entry| reach.set(entry.clone(), Worktree::Write));
        reach
    }

    /// Puts a rule, in place of one for the same path.
    pub(super) fn set(&mut self, entry: Entry, may: Worktree) {
        self.0.insert(entry.path, Rule { may, within: entry.within });
    }

    /// Puts a rule, unless more is allowed there already.
    pub(super) fn raise(&mut self, entry: Entry, may: Worktree) {
        if self.at(&entry.path).is_none_or(|now| now < may) {
            self.set(entry, may);
        }
    }

    /// The rule that counts for a path.
    fn rule(&self, path: &Path) -> Option<&Rule> {
        path.ancestors().find_map(|above| self.0.get(above))
    }

    /// What may be done at a path; nothing if it does not exist inside.
    pub(super) fn at(&self, path: &Path) -> Option<Worktree> {
        self.rule(path).map(|rule| rule.may)
    }

    /// Whether there is a rule for this very path.
    pub(super) fn has(&self, path: &Path) -> bool {
        self.0.contains_key(path)
    }

    /// Drops rules; what they were for falls to the rule above.
    pub(super) fn retain(&mut self, keep: impl Fn(&Path) -> bool) {
        self.0.retain(|path, _| keep(path));
    }

    /// What both allow.
    ///
    /// The rules of either are the only places where the answer changes, so it is enough to ask there.
    pub(super) fn meet(&self, other: &Self) -> Self {
        let mut met = BTreeMap::new();
        for path in self.0.keys().chain(other.0.keys()) {
            if let (Some(mine), Some(yours)) = (self.rule(path), other.at(path)) {
                met.insert(path.clone(), Rule { may: mine.may.min(yours), within: mine.within.clone() });
            }
        }
        Self(met)
    }

    /// What a path must stay in: the highest place above it where an agent may have put a link.
    fn within(&self, path: &Path, rule: &Rule, roots: &Roots) -> PathBuf {
        let writable = |above: &&Path| {
            *above == roots.worktree || self.0.get(*above).is_some_and(|rule| rule.may == Worktree::Write)
        };
        let highest = path.ancestors().skip(1).filter(writable).last();
        match highest {
            Some(above) if rule.within.starts_with(above) => above.to_owned(),
            _ => rule.within.clone(),
        }
    }

    /// Back to a worktree and two lists.
    pub(super) fn split(&self, roots: &Roots) -> (Worktree, Vec<Entry>, Vec<Entry>) {
        let worktree = self.0.get(&roots.worktree).map_or(Worktree::Read, |rule| rule.may);
        let (mut read, mut write) = (Vec::new(), Vec::new());
        for (path, rule) in self.0.iter().filter(|(path, _)| **path != roots.worktree) {
            let entry = Entry { path: path.clone(), within: self.within(path, rule, roots) };
            match rule.may {
                // A layer of its own exists for the worktree only: elsewhere the lesser right is given.
                Worktree::Overlay if self.above(path) == Some(Worktree::Overlay) => {}
                Worktree::Read | Worktree::Overlay => read.push(entry),
                Worktree::Write => write.push(entry),
            }
        }
        (worktree, read, write)
    }

    /// Without rules that say what the one above says: each would cost a mount.
    pub(super) fn tidy(mut self, roots: &Roots) -> Self {
        let idle =
            |path: &PathBuf, rule: &Rule| *path != roots.worktree && self.above(path) == Some(rule.may);
        let idle: Vec<PathBuf> =
            self.0.iter().filter(|(path, rule)| idle(path, rule)).map(|(path, _)| path.clone()).collect();
        self.0.retain(|path, _| !idle.contains(path));
        self
    }

    fn above(&self, path: &Path) -> Option<Worktree> {
        path.parent().and_then(|parent| self.at(parent))
    }
}
