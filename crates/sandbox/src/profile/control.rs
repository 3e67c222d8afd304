//! Files that make a program on the host act: the list of them, and whether a path is one.
//!
//! Source: `profiles/control.toml`; `table` is made from it. Invariant: names are compared without regard to
//! ASCII capitals, since some file systems hold them equal. Not here: masking, watching, quarantine.

use super::place::{Kind, Protected};
use super::table::CONTROL;

/// A file or directory that a host program acts on.
#[derive(Debug, PartialEq, Eq)]
pub struct Control {
    /// Relative to the worktree, or to any directory in it; `*` stands for any run of characters.
    pub path: &'static str,
    /// What the program expects there.
    pub kind: Kind,
    /// What is done about it.
    pub class: Class,
    /// Where it counts.
    pub at: At,
    /// Which program acts, and when.
    pub why: &'static str,
}

/// What is done about a control file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Cannot be made or changed; found at the end of a run below the root, it is put in quarantine.
    Hard,
    /// Ordinary work at times: reported at the end of a run when it changed.
    Watch,
}

/// Where a control file counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// At the root of the worktree only.
    Root,
    /// Below the root only: at the root it is kept apart by other means.
    Nested,
    /// At any depth.
    Any,
    /// At the root, when the worktree is somebody's home.
    Home,
}

/// All of them.
#[must_use]
pub fn controls() -> &'static [Control] {
    CONTROL
}

/// What no profile lets an agent plant at the root, unless a person says otherwise.
pub(super) fn protected(is_home: bool) -> impl Iterator<Item = Protected> {
    let counts = move |control: &&Control| match control.at {
        At::Root | At::Any => control.class == Class::Hard,
        At::Home => control.class == Class::Hard && is_home,
        At::Nested => false,
    };
    CONTROL
        .iter()
        .filter(counts)
        .map(|control| Protected { path: control.path.to_owned(), kind: control.kind })
}

/// The control file that a path below the worktree is, or lies in. The sternest, if it is several.
pub(super) fn control_of<'a>(
    path: &'a [u8],
    is_home: bool,
    counts: impl Fn(&Control) -> bool + 'a,
) -> Option<&'static Control> {
    let parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).collect();
    let found = CONTROL.iter().filter(|control| is_in(control, &parts, is_home) && counts(control));
    found.min_by_key(|control| control.class == Class::Watch)
}

fn is_in(control: &Control, parts: &[&[u8]], is_home: bool) -> bool {
    let wanted = control.path.split('/').count();
    let starts = parts.len().checked_sub(wanted).map_or(0..0, |last| 0..last + 1);
    let (first, rest) = match control.at {
        At::Root => (true, false),
        At::Home => (is_home, false),
        At::Nested => (false, true),
        At::Any => (true, true),
    };
    starts.filter(|start| if *start == 0 { first } else { rest }).any(|start| {
        let names = control.path.split('/').zip(parts.iter().skip(start));
        names.into_iter().all(|(pattern, name)| super::names::glob(pattern.as_bytes(), name))
    })
}
