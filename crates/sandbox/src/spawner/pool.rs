//! Sandboxes that are made ahead of time up to the point where the command matters.
//!
//! Flow: [`Waiting::new`] (namespaces, owners, groups, a root with the system in it) -> [`Waiting::complete`] (the
//! plan and its descriptors, over the line) -> process 1. Invariant: what waits holds nothing of anyone: no worktree,
//! no environment, no name.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use serde::{Deserialize, Serialize};

use super::message;
use crate::files;
use crate::groups::{Groups, Wanted};
use crate::inside::{self, Broken, Given};
use crate::launch::{LaunchError, NAMESPACES, Owners, Refused, Tree, map, opened, ready};
use crate::line::{Line, Word};
use crate::plan::{Identity, Plan};
use crate::root::FromHost;
use crate::sys::process::{Side, fork, leave};

/// A half-made sandbox.
#[derive(Debug)]
pub(super) struct Waiting {
    tree: Tree,
    line: Line,
    groups: Groups,
    identity: Identity,
}

/// A sandbox that stands, and what belongs to it.
#[derive(Debug)]
pub(super) struct Standing {
    pub(super) tree: Tree,
    pub(super) line: Line,
    pub(super) groups: Groups,
}

/// What goes over the line besides descriptors.
#[derive(Serialize, Deserialize)]
struct Handover {
    plan: Plan,
    /// For each mount of the plan's own: how many descriptors of it come along, none if the inside opens it.
    opened: Option<Vec<u8>>,
}

/// The most descriptors that one packet carries; the kernel takes 253.
const MOST_DESCRIPTORS: usize = 250;

impl Waiting {
    /// Makes one. `init` is process 1 in its sealed memory file.
    pub(super) fn new(name: &str, identity: Identity, init: &OwnedFd) -> io::Result<Self> {
        let (near, far) = Line::pair()?;
        let every = Wanted { memory: Some(0), pids: Some(0), cpu: Some(0) };
        let mut groups = Groups::new(name, every);
        let tasks = std::mem::take(&mut groups.tasks);
        match fork(NAMESPACES, groups.unified.as_ref().map(AsFd::as_fd))? {
            Side::Child => {
                drop(near);
                let broken = match wait(&identity, &far, init.as_fd(), &tasks) {
                    Ok(never) => match never {},
                    Err(broken) => broken,
                };
                far.tell_broken(&broken);
                leave(125)
            }
            Side::Parent(pid, pidfd) => {
                drop((far, tasks));
                let tree = Tree::new(pid, pidfd)?;
                if identity.owns.is_some() {
                    map(
                        tree.pid,
                        (identity.user, identity.host_user),
                        (identity.group, identity.host_group),
                    )?;
                    near.owners_are_known()?;
                }
                Ok(Self { tree, line: near, groups, identity })
            }
        }
    }

    /// Who the processes will be.
    pub(super) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Gives it its plan; it stands when this comes back.
    pub(super) fn complete(
        mut self,
        plan: &Plan,
        owners: Option<&Owners>,
        standard: &[OwnedFd; 3],
    ) -> Result<Standing, LaunchError> {
        let opened = opened(plan, owners)?;
        self.groups.limit(plan.together);
        match self.line.hear().map_err(LaunchError::Line)? {
            Word::Base => {}
            Word::Broken(broken) => return Err(LaunchError::Inside(Refused::from(broken))),
            _ => return Err(LaunchError::Line(io::Error::from_raw_os_error(libc::EPIPE))),
        }
        hand_over(&self.line, plan, opened.as_deref(), standard).map_err(LaunchError::Line)?;
        ready(&self.line)?;
        Ok(Standing { tree: self.tree, line: self.line, groups: self.groups })
    }
}

fn hand_over(
    line: &Line,
    plan: &Plan,
    opened: Option<&[FromHost]>,
    standard: &[OwnedFd; 3],
) -> io::Result<()> {
    let mut fds: Vec<BorrowedFd<'_>> = standard.iter().map(AsFd::as_fd).collect();
    let counts = opened.map(|all| {
        let of_each = all.iter().map(|one| match one {
            FromHost::Tree(tree) => vec![tree.as_fd()],
            FromHost::Layer(stubs, changes, work) => {
                stubs.iter().chain([changes, work]).map(AsFd::as_fd).collect()
            }
            FromHost::None => Vec::new(),
        });
        of_each
            .map(|of_one| {
                let count = u8::try_from(of_one.len()).unwrap_or(0);
                fds.extend(of_one);
                count
            })
            .collect()
    });
    if fds.len() > MOST_DESCRIPTORS {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "more places than one sandbox can have"));
    }
    let plan = Handover { plan: plan.clone(), opened: counts };
    message::send(line.as_fd(), &plan, &fds)
}

/// In the child: everything that does not depend on the command, then a wait for what it is.
fn wait(
    identity: &Identity,
    line: &Line,
    init: BorrowedFd<'_>,
    tasks: &[OwnedFd],
) -> Result<std::convert::Infallible, Broken> {
    let strange =
        |what: &str| Broken { step: inside::Step::Init, what: what.to_owned(), error: libc::EBADMSG };
    let root = inside::begin(identity, line, tasks, &files::base())?;
    line.base_is_made().map_err(|_| strange("launcher"))?;
    let (handover, fds) = message::receive::<Handover>(line.as_fd()).map_err(|_| strange("launcher"))?;
    let Handover { plan, opened } = handover.ok_or_else(|| strange("plan"))?;
    let mut fds = fds.into_iter();
    let standard: Vec<OwnedFd> = fds.by_ref().take(3).collect();
    let Ok(standard) = <[OwnedFd; 3]>::try_from(standard) else { return Err(strange("descriptors")) };
    let opened = opened.map(|counts| counts.into_iter().map(|count| taken(&mut fds, count)).collect());
    let mut given = Given {
        plan: &plan,
        line: line.again().map_err(|_| strange("line"))?,
        init,
        opened,
        standard: standard.each_ref().map(|fd| Some(fd.as_fd())),
        groups: Vec::new(),
    };
    inside::finish(&mut given, root)
}

fn taken(fds: &mut impl Iterator<Item = OwnedFd>, count: u8) -> FromHost {
    match (count, fds.next_if(count > 0)) {
        (1, Some(tree)) => FromHost::Tree(tree),
        (2, Some(changes)) => fds.next().map_or(FromHost::None, |work| FromHost::Layer(None, changes, work)),
        (3, Some(stubs)) => match (fds.next(), fds.next()) {
            (Some(changes), Some(work)) => FromHost::Layer(Some(stubs), changes, work),
            _ => FromHost::None,
        },
        _ => FromHost::None,
    }
}

/// Takes the next one only if there is to be one.
trait NextIf: Iterator {
    fn next_if(&mut self, wanted: bool) -> Option<Self::Item> {
        if wanted { self.next() } else { None }
    }
}

impl<I: Iterator> NextIf for I {}
