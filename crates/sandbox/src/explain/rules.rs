//! What of a plan can refuse something, made askable: mounts, masks, protected names, both walls, limits.
//!
//! Invariant: answers come from the plan that was launched and from the profile it was made of; nothing here looks
//! at the machine. Not here: what a refusal is called ([`super::judge`]).

use std::path::{Path, PathBuf};

use super::judge::{Node, Want};
use super::verdict;
use crate::filter::Filter;
use crate::plan::{Access, Limited, Mount, Part, Plan, Source};
use crate::profile::{Profile, controls};

/// What holds in one run.
#[derive(Debug)]
pub(super) struct Rules<'a> {
    pub(super) plan: &'a Plan,
    pub(super) profile: &'a Profile,
    pub(super) worktree: &'a Path,
    pub(super) home: &'a Path,
    /// Groups that the processes inside have besides their first one.
    pub(super) groups: Vec<u32>,
    filter: Filter,
}

impl<'a> Rules<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        profile: &'a Profile,
        worktree: &'a Path,
        home: &'a Path,
        groups: Vec<u32>,
    ) -> Self {
        Self { plan, profile, worktree, home, groups, filter: Filter::new(plan.tracing) }
    }

    /// The mount that a path inside lies on; none is the root.
    pub(super) fn cover(&self, path: &Path) -> Option<&'a Mount> {
        let above = self.plan.mounts.iter().filter(|mount| path.starts_with(&mount.at));
        // Of those at the same place the one that was made last is on top.
        above.max_by_key(|mount| mount.at.components().count())
    }

    /// Whether a path of the host is the same path inside.
    pub(super) fn gives(&self, path: &Path) -> bool {
        self.cover(path).is_some_and(|mount| match &mount.source {
            Source::Host(from) => *from == mount.at,
            Source::Layer(_)
            | Source::Part { .. }
            | Source::Processes
            | Source::Terminals
            | Source::Nothing => true,
            Source::Memory(..) | Source::Skeleton(_) => false,
        })
    }

    /// The mask that a path lies on, and whether the profile hides the name.
    pub(super) fn mask(&self, path: &Path) -> Option<&'a Path> {
        self.cover(path).filter(|mount| mount.source == Source::Nothing).map(|mount| mount.at.as_path())
    }

    /// Whether there is any mask at all.
    pub(super) fn has_masks(&self) -> bool {
        self.plan.mounts.iter().any(|mount| mount.source == Source::Nothing)
    }

    /// Whether the profile hides files of this name.
    pub(super) fn hides(&self, path: &Path) -> bool {
        use std::os::unix::ffi::OsStrExt;
        path.file_name().is_some_and(|name| self.profile.hidden.hides(name.as_bytes()))
    }

    /// The protected name that a path is or lies in, and why it is protected.
    pub(super) fn protected(&self, path: &Path) -> Option<(String, &'static str)> {
        let rest = path.strip_prefix(self.worktree).ok()?;
        let found = self.profile.protect.iter().find(|protected| protected.holds(rest))?;
        let why = controls().iter().find(|control| control.path.eq_ignore_ascii_case(&found.path));
        Some((found.to_string(), why.map_or("the profile names it", |control| control.why)))
    }

    /// What the filter answers, if it is on and answers at all.
    pub(super) fn filtered(&self, number: u32, arguments: &[u64; 6]) -> Option<i32> {
        if !self.plan.has(Part::Seccomp) {
            return None;
        }
        verdict::refused_with(self.filter.instructions(), number, arguments)
    }

    /// Whether Landlock lets this be done; it looks at the rules of everything above together.
    pub(super) fn wall_allows(&self, path: &Path, want: Want) -> bool {
        let of = |access: Access| match (access, want) {
            (_, Want::Look | Want::Ask | Want::Enter | Want::Change | Want::Own | Want::Connect) => true,
            (Access::Write, _) => true,
            (Access::Read, Want::Read | Want::Execute) => true,
            (Access::Device, Want::Read | Want::Write) => true,
            (Access::Read | Access::Device, _) => false,
        };
        let needs_none =
            matches!(want, Want::Look | Want::Ask | Want::Enter | Want::Change | Want::Own | Want::Connect);
        !self.plan.has(Part::Landlock)
            || needs_none
            || self.plan.rules().iter().any(|(at, access)| path.starts_with(at) && of(*access))
    }

    /// Whether owner and mode of a file let the processes inside do this.
    pub(super) fn mode_allows(&self, node: &Node, want: Want) -> bool {
        let bit = match want {
            Want::Read => 4,
            Want::Write | Want::Make | Want::Remove | Want::Move | Want::Connect => 2,
            Want::Execute | Want::Enter => 1,
            Want::Look | Want::Ask => return true,
            Want::Change | Want::Own => return node.owner == self.plan.identity.host_user,
        };
        let identity = &self.plan.identity;
        let shift = if node.owner == identity.host_user {
            6
        } else if node.group == identity.host_group || self.groups.contains(&node.group) {
            3
        } else {
            0
        };
        (node.mode >> shift) & bit != 0
    }

    /// The same, if the file were given to be written: root's sandboxes then own what the worktree's owner owns.
    pub(super) fn would_allow(&self, node: &Node, want: Want) -> bool {
        let identity = &self.plan.identity;
        match identity.owns {
            Some((owner, _)) if node.owner == owner => {
                self.mode_allows(&Node { owner: identity.host_user, ..*node }, want)
            }
            Some(_) | None => self.mode_allows(node, want),
        }
    }

    /// How much of something a process may have.
    pub(super) fn limit(&self, of: Limited) -> Option<u64> {
        self.plan.limits.iter().find(|limit| limit.of == of).map(|limit| limit.most)
    }

    /// How a mount is called.
    pub(super) fn describe(&self, path: &Path) -> String {
        let Some(mount) = self.cover(path) else {
            return "it lies outside everything that is given; the root of the sandbox is read-only".into();
        };
        let at = mount.at.display();
        match &mount.source {
            Source::Host(_) if mount.base => {
                format!("`{at}` is the system's and mounted read-only in every sandbox")
            }
            Source::Host(_) if mount.at == self.worktree => {
                format!("the profile `{}` mounts the worktree read-only", self.profile.name)
            }
            Source::Host(_) | Source::Layer(_) | Source::Part { .. } => format!("`{at}` is given read-only"),
            Source::Processes => "`/proc` is read-only in every sandbox".into(),
            Source::Terminals | Source::Memory(..) => format!("`{at}` is the sandbox's own"),
            Source::Nothing => format!("`{at}` is covered by nothing"),
            Source::Skeleton(_) => format!("only a part of `{at}` is given"),
        }
    }

    /// How a path is named in a flag: from the home, if it is there.
    pub(super) fn named(&self, path: &Path) -> String {
        let text = match path.strip_prefix(self.home) {
            Ok(rest) if !rest.as_os_str().is_empty() => PathBuf::from("~").join(rest),
            _ => path.to_owned(),
        };
        text.to_string_lossy().into_owned()
    }
}
