//! A sandbox that is begun before it is known what for: namespaces, and the root that every sandbox has.
//!
//! Flow: [`Begun::new`] (a process with namespaces of its own begins to build) -> meanwhile the launcher finds out what
//! is to run -> [`Plan::launch_in`] (the plan and its descriptors, over the line) -> [`Coming`] (the launcher is free
//! until process 1 stands) -> [`Held`]. A spawner keeps some begun ones in its pool.
//!
//! Invariants: what is begun holds nothing of anyone (no worktree, no environment, no name) and runs no code but
//! ours; without a plan nothing is started in it; it ends with its value.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::event::PollFlags;
use rustix::fs::{Mode, OFlags};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use serde::{Deserialize, Serialize};

use crate::files::{self, Base};
use crate::filter::{Filter, Tracing};
use crate::groups::{Groups, Wanted};
use crate::inside::{self, Broken, Given};
use crate::launch::{
    Handed, Held, InsideEnds, LONGEST, LaunchError, NAMESPACES, Owners, Tree, map, opened, ready,
    ready_after, sealed_init, within,
};
use crate::line::Line;
use crate::measure::{self, Table};
use crate::permit::Permit;
use crate::plan::{Identity, Mount, Part, Plan};
use crate::receipt::RunId;
use crate::root::FromHost;
use crate::spec::identity_for;
use crate::standard::Standard;
use crate::sys;
use crate::sys::process::{Side, fork, leave};

/// A sandbox that is begun.
#[derive(Debug)]
pub struct Begun {
    tree: Tree,
    line: Line,
    groups: Groups,
    identity: Identity,
    /// What it has already.
    base: Vec<Mount>,
    /// Who owns what is given, where that was made ahead.
    owners: Option<Owners>,
}

/// What goes over the line besides descriptors.
#[derive(Serialize, Deserialize)]
struct Handover<P> {
    plan: P,
    /// Which of standard input, output and error come along; the others are the terminal.
    standard: [bool; 3],
    /// For each mount of the plan's own, whether a descriptor of it comes along; none if the inside opens them all.
    opened: Option<Vec<bool>>,
    /// How many groups of version 1 are still to be entered.
    groups: usize,
    /// Whether somebody wants to hear that the root is complete.
    tells: bool,
}

/// The most descriptors in one packet (the kernel takes 253), and the most bytes.
const MOST_DESCRIPTORS: usize = 128;
const MOST_BYTES: usize = 16 * 1024;

impl Begun {
    /// Begins one for a run of this process, in a directory whose owner will be the owner inside.
    ///
    /// # Errors
    /// When the kernel refuses new namespaces, or the directory cannot be looked at.
    pub fn new(permit: Permit, run: &RunId, directory: &Path) -> Result<Self, LaunchError> {
        use std::os::unix::fs::MetadataExt;
        let Permit { .. } = permit;
        // Whoever started the launcher may have left something open, which is not for the programs that it starts: git, and the
        // proxy.
        sys::keep_from(3).map_err(|error| LaunchError::Prepare("descriptors", error))?;
        let owner = std::fs::metadata(directory)
            .map_err(|error| LaunchError::Prepare("the current directory", error))?;
        let identity = identity_for((owner.uid(), owner.gid()), 0);
        let usual = Wanted { memory: Some(0), pids: Some(0), ..Wanted::default() };
        Self::with(run, identity, usual, files::base())
    }

    /// The same for other limits, around another base.
    fn with(run: &RunId, identity: Identity, wanted: Wanted, base: Base) -> Result<Self, LaunchError> {
        let init = sealed_init().map_err(|error| LaunchError::Prepare("process 1", error))?;
        let groups = Groups::unified(&format!("palisade-{run}"), wanted);
        Self::made(groups, identity, &init, base, None)
    }

    /// One for a pool: in groups for whatever limits come. `init` is process 1 in its sealed memory file.
    pub(crate) fn ahead(name: &str, identity: Identity, init: &OwnedFd) -> Result<Self, LaunchError> {
        let every = Wanted { memory: Some(0), pids: Some(0), cpu: Some(0), io: None };
        let mut groups = Groups::unified(name, every);
        groups.more(every);
        let tasks = std::mem::take(&mut groups.tasks);
        let mut begun = Self::made(groups, identity, init, files::base(), Some(tasks))?;
        begun.owners = owners(&begun.identity)?;
        Ok(begun)
    }

    fn made(
        groups: Groups,
        identity: Identity,
        init: &OwnedFd,
        base: Base,
        tasks: Option<Vec<OwnedFd>>,
    ) -> Result<Self, LaunchError> {
        let (near, far) = Line::pair().map_err(LaunchError::Line)?;
        match fork(NAMESPACES, groups.unified.as_ref().map(AsFd::as_fd)).map_err(LaunchError::Namespaces)? {
            Side::Child => {
                drop(near);
                let broken = match build(&identity, &far, init.as_fd(), tasks.as_deref(), &base) {
                    Ok(never) => match never {},
                    Err(broken) => broken,
                };
                far.tell_broken(&broken);
                leave(125)
            }
            Side::Parent(pid, pidfd) => {
                drop((far, tasks));
                let mut tree = Tree::new(pid, pidfd).map_err(LaunchError::Namespaces)?;
                if identity.owns.is_some() {
                    let user = (identity.user, identity.host_user);
                    if let Err(error) = map(tree.pid, user, (identity.group, identity.host_group)) {
                        // It may have failed by itself, and told why.
                        tree.end();
                        return Err(match ready(&near) {
                            Err(told @ LaunchError::Inside(_)) => told,
                            _ => LaunchError::Prepare("owners", error),
                        });
                    }
                    heard(near.owners_are_known())?;
                }
                Ok(Self { tree, line: near, groups, identity, base: base.mounts, owners: None })
            }
        }
    }

    /// Who the processes will be.
    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The mounts that it has already.
    pub(crate) fn base(&self) -> &[Mount] {
        &self.base
    }

    /// Whether it was begun as this plan wants it.
    fn fits(&self, plan: &Plan) -> bool {
        plan.has(Part::ReadOnly) && self.groups.has(plan.together)
    }

    /// Gives it its plan, and groups for the limits that have none yet.
    pub(crate) fn give(
        mut self,
        plan: &Plan,
        standard: &InsideEnds,
        tells: bool,
    ) -> Result<Filled, LaunchError> {
        let owners = match self.owners.take().filter(|_| self.identity == plan.identity) {
            Some(owners) => Some(owners),
            None => owners(&plan.identity)?,
        };
        let opened = opened(plan, owners.as_ref())?;
        self.groups.more(plan.together);
        self.groups.limit(plan.together);
        if plan.requires_groups && self.groups.enforced.len() < plan.together.count() {
            return Err(LaunchError::Groups);
        }
        if plan.together.io.is_some() && !self.groups.holds("io") {
            return Err(LaunchError::Speed);
        }
        let tasks = std::mem::take(&mut self.groups.tasks);
        heard(hand_over(&self.line, plan, opened.as_deref(), standard, &tasks, tells))?;
        Ok(Filled { tree: self.tree, line: self.line, groups: self.groups })
    }
}

/// Whether it could be said; to one that is gone too, because that has told why, and is heard later.
fn heard(said: rustix::io::Result<()>) -> Result<(), LaunchError> {
    match said {
        Ok(()) | Err(rustix::io::Errno::PIPE | rustix::io::Errno::CONNRESET) => Ok(()),
        Err(rustix::io::Errno::TIMEDOUT) => Err(LaunchError::Late),
        Err(error) => Err(LaunchError::Line(error.into())),
    }
}

/// Who owns what is given, if that is not simply the caller.
fn owners(identity: &Identity) -> Result<Option<Owners>, LaunchError> {
    let owners = identity.owns.map(|_| Owners::new(identity)).transpose();
    owners.map_err(|error| LaunchError::Prepare("owners", error))
}

/// A sandbox that has its plan, and what belongs to it.
#[derive(Debug)]
pub(crate) struct Filled {
    pub(crate) tree: Tree,
    pub(crate) line: Line,
    pub(crate) groups: Groups,
}

impl Filled {
    /// Its mounts, which stay as long as somebody has this.
    pub(crate) fn mounts(&self) -> Option<OwnedFd> {
        let path = format!("/proc/{}/ns/mnt", self.tree.pid.as_raw_pid());
        rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
    }
}

/// A sandbox that has its plan and does not stand yet.
#[derive(Debug)]
pub struct Coming {
    plan: Plan,
    of: Filled,
    standard: Standard,
}

impl Plan {
    /// Makes the sandbox, up to the moment before the command.
    ///
    /// # Errors
    /// When a layer cannot be made; nothing is left behind.
    pub fn launch(self, permit: Permit, standard: Standard) -> Result<Held, LaunchError> {
        let Permit { .. } = permit;
        let begun = self.begun()?;
        self.give(begun, standard)?.held()
    }

    /// The same in a sandbox that is begun, if it was begun as this plan wants it; else in a new one.
    ///
    /// # Errors
    /// As [`Plan::launch`].
    pub fn launch_in(self, begun: Begun, standard: Standard) -> Result<Coming, LaunchError> {
        let begun = if begun.fits(&self) {
            begun
        } else {
            drop(begun);
            self.begun()?
        };
        self.give(begun, standard)
    }

    fn begun(&self) -> Result<Begun, LaunchError> {
        let mut base = files::base();
        if !self.has(Part::ReadOnly) {
            base.mounts = self.mounts.iter().filter(|mount| mount.base).cloned().collect();
        }
        Begun::with(&self.run, self.identity.clone(), self.together, base)
    }

    fn give(self, begun: Begun, mut standard: Standard) -> Result<Coming, LaunchError> {
        let prepare = |what: &'static str| move |error: io::Error| LaunchError::Prepare(what, error);
        let inside = standard.inside().map_err(prepare("standard input and output"))?;
        let of = begun.give(&self, &inside, true)?;
        measure::prepare(&self);
        Ok(Coming { plan: self, of, standard })
    }
}

impl Coming {
    /// What it is made of.
    pub(crate) fn filled(&self) -> &Filled {
        &self.of
    }

    /// Waits until process 1 stands and every layer is on.
    ///
    /// # Errors
    /// When a layer cannot be made; nothing is left behind.
    pub fn held(self) -> Result<Held, LaunchError> {
        let Self { plan, of, standard } = self;
        let mut table = None;
        let Handed { terminal, sockets } =
            ready_after(&of.line, || table = Table::of(of.tree.pid, &plan).ok())?;
        Ok(Held { plan, tree: of.tree, line: of.line, standard, terminal, sockets, groups: of.groups, table })
    }
}

/// In packets: descriptors first (standard ones, groups, mounts), then the plan.
fn hand_over(
    line: &Line,
    plan: &Plan,
    opened: Option<&[FromHost]>,
    standard: &InsideEnds,
    tasks: &[OwnedFd],
    tells: bool,
) -> rustix::io::Result<()> {
    let mounts = opened.unwrap_or_default().iter().filter_map(FromHost::descriptor);
    let fds = standard.0.iter().flatten().chain(tasks).map(AsFd::as_fd).chain(mounts);
    let fds: Vec<BorrowedFd<'_>> = fds.collect();
    let handover = Handover {
        plan,
        standard: standard.0.each_ref().map(Option::is_some),
        opened: opened.map(|all| all.iter().map(|one| one.descriptor().is_some()).collect()),
        groups: tasks.len(),
        tells,
    };
    let mut bytes = Vec::with_capacity(MOST_BYTES);
    serde_json::to_writer(&mut bytes, &handover).map_err(|_| rustix::io::Errno::INVAL)?;
    for some in fds.chunks(MOST_DESCRIPTORS) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut with = SendAncillaryBuffer::new(&mut space);
        if !with.push(SendAncillaryMessage::ScmRights(some)) {
            return Err(rustix::io::Errno::NOBUFS);
        }
        send(line, b'D', &[], &mut with)?;
    }
    let mut parts = bytes.chunks(MOST_BYTES).peekable();
    while let Some(part) = parts.next() {
        let kind = if parts.peek().is_some() { b'C' } else { b'L' };
        send(line, kind, part, &mut SendAncillaryBuffer::default())?;
    }
    Ok(())
}

fn send(
    line: &Line,
    kind: u8,
    bytes: &[u8],
    with: &mut SendAncillaryBuffer<'_, '_, '_>,
) -> rustix::io::Result<()> {
    let parts = [io::IoSlice::new(std::slice::from_ref(&kind)), io::IoSlice::new(bytes)];
    loop {
        match rustix::net::sendmsg(line.as_fd(), &parts, with, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Err(rustix::io::Errno::INTR) => {}
            // It is full: the other end takes nothing, perhaps because somebody stopped it.
            Err(rustix::io::Errno::AGAIN) => match within(line.as_fd(), PollFlags::OUT, LONGEST) {
                Ok(true) => {}
                Ok(false) | Err(_) => return Err(rustix::io::Errno::TIMEDOUT),
            },
            other => return other.map(drop),
        }
    }
}

/// What [`hand_over`] sent.
fn taken_over(line: &Line) -> io::Result<(Handover<Plan>, Vec<OwnedFd>)> {
    let (mut fds, mut text, mut bytes) = (Vec::new(), Vec::new(), vec![0u8; MOST_BYTES + 1]);
    loop {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut with = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [io::IoSliceMut::new(&mut bytes)];
        let got = match rustix::net::recvmsg(line.as_fd(), &mut parts, &mut with, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other?.bytes,
        };
        for message in with.drain() {
            if let RecvAncillaryMessage::ScmRights(some) = message {
                fds.extend(some);
            }
        }
        let Some((kind, part)) = bytes.get(..got).and_then(<[u8]>::split_first) else {
            return Err(rustix::io::Errno::PIPE.into());
        };
        text.extend_from_slice(part);
        match kind {
            b'D' | b'C' => {}
            b'L' => return Ok((serde_json::from_slice(&text)?, fds)),
            _ => return Err(rustix::io::Errno::BADMSG.into()),
        }
    }
}

/// In the child: everything that does not depend on the command, then a wait for what it is.
fn build(
    identity: &Identity,
    line: &Line,
    init: BorrowedFd<'_>,
    tasks: Option<&[OwnedFd]>,
    base: &Base,
) -> Result<std::convert::Infallible, Broken> {
    let strange =
        |what: &str| Broken { step: inside::Step::Init, what: what.to_owned(), error: libc::EBADMSG };
    // What else the launcher has open, and there may be much of it, is not for here.
    let kept: Vec<BorrowedFd<'_>> =
        [line.as_fd(), init].into_iter().chain(tasks.unwrap_or_default().iter().map(AsFd::as_fd)).collect();
    sys::watch::close_but(&kept).map_err(|_| strange("descriptors"))?;
    let root = inside::begin(identity, line, tasks, base)?;
    // While the plan is on its way: there are two filters, and it wants one of them.
    for tracing in [Tracing::Own, Tracing::Refused] {
        let _ = Filter::of(tracing);
    }
    let (handover, fds) = taken_over(line).map_err(|_| strange("plan"))?;
    let Handover { plan, standard, opened, groups, tells } = handover;
    let mut fds = fds.into_iter();
    let mut next = |is_there: bool| match is_there {
        true => fds.next().map(Some).ok_or_else(|| strange("descriptors")),
        false => Ok(None),
    };
    let standard = [next(standard[0])?, next(standard[1])?, next(standard[2])?];
    let groups: Result<Vec<_>, Broken> = (0..groups).map(|_| next(true)).collect();
    let groups = groups?.into_iter().flatten().collect();
    let tree = |fd: Option<OwnedFd>| fd.map_or(FromHost::None, FromHost::Tree);
    let opened = opened.map(|all| all.into_iter().map(|one| next(one).map(tree)).collect());
    let opened: Option<Vec<FromHost>> = opened.transpose()?;
    let mut given = Given {
        plan: &plan,
        line: line.again().map_err(|_| strange("line"))?,
        init,
        opened,
        standard: standard.each_ref().map(|fd| fd.as_ref().map(AsFd::as_fd)),
        groups,
        tells,
    };
    let broken = match inside::finish(&mut given, root, tasks.is_none()) {
        Ok(never) => match never {},
        Err(broken) => broken,
    };
    // On the line that it has now: the number of the other may be somebody else's.
    given.line.tell_broken(&broken);
    leave(125)
}
