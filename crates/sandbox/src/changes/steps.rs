//! Turns changes, and what a person asked for, into steps, or into the reasons why not.
//!
//! Invariants: control files and what is no plain file are never in a step unless a person says so; a tree is
//! removed whole only if nothing in it must stay; steps are in an order in which each can be done, directories'
//! final permissions last. Nothing is written here.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};

use super::apply::{Apply, Conflict, Left, Why};
use super::journal::{Act, Plain, Step};
use super::tree::{Root, Seen};
use super::{Change, Kind, What};
use crate::profile::Class;

/// What would be done.
#[derive(Debug, Default)]
pub(super) struct Planned {
    pub(super) steps: Vec<Step>,
    /// Directories whose times will change, as they are.
    pub(super) folders: Vec<(PathBuf, Seen)>,
    pub(super) left: Vec<Left>,
    pub(super) conflicts: Vec<Conflict>,
}

/// Files that we put there ourselves after the run began: path, inode, time of change.
pub(super) type Known = HashMap<PathBuf, (u64, i64)>;

/// What is looked at for a plan.
pub(super) struct Question<'a> {
    pub(super) changes: &'a [Change],
    pub(super) asked: &'a Apply<'a>,
    pub(super) host: &'a Root,
    pub(super) started: i64,
    pub(super) known: &'a Known,
    /// Whether the caller passes permissions.
    pub(super) is_root: bool,
}

impl Question<'_> {
    pub(super) fn plan(&self) -> io::Result<Planned> {
        let chosen = self.chosen();
        let mut planned = Planned::default();
        let mut put: HashMap<(u64, u64, u32), usize> = HashMap::new();
        let mut covered: Option<&Path> = None;
        let mut last = BTreeMap::new();
        for (index, change) in self.changes.iter().enumerate() {
            if !chosen.contains(&index) || covered.is_some_and(|above| change.path.starts_with(above)) {
                continue;
            }
            if let Some(why) = self.refused(change) {
                planned.left.push(Left { path: change.path.clone(), why });
                continue;
            }
            let has_tree = change.before.is_some_and(|face| face.what == What::Directory);
            let goes = matches!(change.kind, Kind::Deleted | Kind::TypeChanged);
            if has_tree && goes {
                let within = self.within(index);
                let stays = within.iter().find_map(|(index, inner)| {
                    if chosen.contains(index) { self.refused(inner) } else { Some(Why::NotChosen) }
                });
                match (stays, &change.kind) {
                    (None, _) => {
                        planned.conflicts.extend(within.iter().filter_map(|(_, inner)| self.conflict(inner)));
                        covered = Some(&change.path);
                    }
                    // What can go is told, and goes, one by one.
                    (Some(_), Kind::Deleted) => continue,
                    (Some(why), _) => {
                        planned.left.push(Left { path: change.path.clone(), why });
                        covered = Some(&change.path);
                        continue;
                    }
                }
            }
            planned.conflicts.extend(self.conflict(change));
            self.step(change, &mut planned.steps, &mut put, &mut last);
        }
        self.around(&mut planned, last)?;
        Ok(planned)
    }

    /// Which changes were asked for, with the directories that they need.
    fn chosen(&self) -> BTreeSet<usize> {
        let is_asked = |path: &Path| {
            self.asked.paths.is_empty() || self.asked.paths.iter().any(|asked| path.starts_with(asked))
        };
        let of: HashMap<&Path, usize> =
            self.changes.iter().enumerate().map(|(index, change)| (change.path.as_path(), index)).collect();
        let mut chosen = BTreeSet::new();
        for (index, change) in self.changes.iter().enumerate().filter(|(_, change)| is_asked(&change.path)) {
            chosen.insert(index);
            if change.after.is_none() {
                continue;
            }
            for above in change.path.ancestors().skip(1).filter_map(|above| of.get(above)) {
                let needs = self.changes.get(*above).is_some_and(|above| above.kind != Kind::ModeChanged);
                if !needs || !chosen.insert(*above) {
                    break;
                }
            }
        }
        chosen
    }

    /// The changes below a directory.
    fn within(&self, index: usize) -> Vec<(usize, &Change)> {
        let Some(top) = self.changes.get(index) else { return Vec::new() };
        let after = self.changes.iter().enumerate().skip(index + 1);
        after.take_while(|(_, change)| change.path.starts_with(&top.path)).collect()
    }

    fn refused(&self, change: &Change) -> Option<Why> {
        if let Some(face) = change.after.filter(|face| !face.what.is_plain()) {
            return Some(Why::NotPlain(face.what));
        }
        let control = (self.asked.control)(&change.path).filter(|control| control.class == Class::Hard);
        control.filter(|_| !self.asked.with_control).map(Why::Control)
    }

    /// Whether the host changed it since the run began, by somebody else's hand.
    fn conflict(&self, change: &Change) -> Option<Conflict> {
        let before = change.before?;
        // A directory's time tells of what is in it, and that is looked at by itself.
        let counts = before.what != What::Directory || change.kind == Kind::ModeChanged;
        let known = self.known.get(&change.path) == Some(&(before.seen.ino, before.seen.ctime));
        let is_late = before.seen.ctime > self.started && counts && !known;
        is_late.then(|| Conflict { path: change.path.clone() })
    }

    fn step(
        &self,
        change: &Change,
        steps: &mut Vec<Step>,
        put: &mut HashMap<(u64, u64, u32), usize>,
        last: &mut BTreeMap<PathBuf, u32>,
    ) {
        let path = change.path.clone();
        let (before, Some(after)) = (change.before, change.after) else {
            steps.extend(change.before.map(|old| Step { path, act: Act::Remove { old: old.seen } }));
            return;
        };
        let what = match after.what {
            What::Directory => Plain::Directory,
            What::Link => Plain::Link,
            What::File => Plain::File,
            What::Fifo | What::Socket | What::Device | What::TooLong => return,
        };
        if let (Kind::ModeChanged, Some(before)) = (&change.kind, before) {
            let from = before.seen.mode & 0o7777;
            if what == Plain::Directory {
                last.insert(path, from & 0o7000 | after.mode);
            } else if from & 0o777 != after.mode {
                steps.push(Step { path, act: Act::Mode { from, to: after.mode } });
            }
            return;
        }
        if what == Plain::Directory && after.mode & 0o700 != 0o700 {
            last.insert(path.clone(), after.mode);
        }
        let mut same_as = None;
        if what == Plain::File && after.seen.shared {
            let key = (after.seen.dev, after.seen.ino, after.mode);
            same_as = put.get(&key).copied();
            put.entry(key).or_insert(steps.len());
        }
        let act = Act::Put { what, mode: after.mode, old: before.map(|face| face.seen), same_as };
        steps.push(Step { path, act });
    }

    /// Directories that must be opened up for the steps, and the permissions that directories have in the end.
    fn around(&self, planned: &mut Planned, mut last: BTreeMap<PathBuf, u32>) -> io::Result<()> {
        let parents: BTreeSet<&Path> = planned.steps.iter().filter_map(|step| step.path.parent()).collect();
        let mut first = Vec::new();
        let puts =
            planned.steps.iter().filter(|step| matches!(step.act, Act::Put { what: Plain::Directory, .. }));
        let new: BTreeSet<PathBuf> = puts.map(|step| step.path.clone()).collect();
        let mut modes = HashMap::new();
        for path in parents.into_iter().filter(|path| !new.contains(*path)) {
            let seen = if path.as_os_str().is_empty() {
                Some(Seen::of(&self.host.itself()?))
            } else {
                self.host.seen(path)?
            };
            let Some(seen) = seen.filter(|seen| seen.what() == What::Directory) else { continue };
            planned.folders.push((path.to_owned(), seen));
            let from = seen.mode & 0o7777;
            if from & 0o300 != 0o300 && !self.is_root {
                first.push(Step { path: path.to_owned(), act: Act::Mode { from, to: from | 0o700 } });
                modes.insert(path.to_owned(), from | 0o700);
                last.entry(path.to_owned()).or_insert(from);
            }
        }
        planned.steps.splice(0..0, first.iter().cloned());
        shift(&mut planned.steps, first.len());
        // The deepest first: a directory that is closed lets nobody in any more.
        for (path, to) in last.into_iter().rev() {
            let from = match modes.get(&path) {
                Some(from) => *from,
                None if new.contains(&path) => to | 0o700,
                None => self.host.seen(&path)?.map_or(to, |seen| seen.mode & 0o7777),
            };
            if from != to {
                planned.steps.push(Step { path, act: Act::Mode { from, to } });
            }
        }
        Ok(())
    }
}

/// Numbers of former steps, after others were put before them.
fn shift(steps: &mut [Step], by: usize) {
    for step in steps {
        if let Act::Put { same_as: Some(number), .. } = &mut step.act {
            *number += by;
        }
    }
}
