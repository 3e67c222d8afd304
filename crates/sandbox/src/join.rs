//! One more command in a sandbox that is at work, behind the same walls.
//!
//! Flow: the plan of the running sandbox (told by its launcher) -> a process that enters its namespaces and groups
//! -> its child, which is inside, gives everything up as the first command did and becomes the new command. The
//! process between speaks as process 1 does, so [`Running`](crate::Running) serves both.
//!
//! Invariant: what joins has no right that the first command had not: the same user, rules, filter and limits. It
//! ends with the sandbox.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::process::{Pid, Signal, WaitOptions};

use crate::groups::Groups;
use crate::inside::{self, Broken, Given, Step};
use crate::launch::{Handed, Held, LaunchError, Tree, ready, sealed_init};
use crate::line::Line;
use crate::permit::Permit;
use crate::plan::Plan;
use crate::standard::Standard;
use crate::sys;
use crate::sys::process::{Side, enter, fork, leave};

impl Plan {
    /// The same walls around another command.
    #[must_use]
    pub fn with_command(mut self, command: Vec<OsString>) -> Self {
        self.command = command;
        self
    }

    /// Enters the sandbox whose process 1 the host numbers `init`; the command waits for the word to go.
    ///
    /// # Errors
    /// When it is gone, or belongs to somebody else.
    pub fn join(self, permit: Permit, init: i32, mut standard: Standard) -> Result<Held, LaunchError> {
        let Permit { .. } = permit;
        let prepare = |what: &'static str| move |error: io::Error| LaunchError::Prepare(what, error);
        let init = Pid::from_raw(init).ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH));
        let init = init
            .and_then(|init| Ok(rustix::process::pidfd_open(init, rustix::process::PidfdFlags::empty())?));
        let init = init.map_err(prepare("the sandbox"))?;
        let program = sealed_init().map_err(prepare("process 1"))?;
        let (near, far) = Line::pair().map_err(LaunchError::Line)?;
        let ends = standard.inside().map_err(prepare("standard input and output"))?;
        match fork(0, None).map_err(LaunchError::Namespaces)? {
            Side::Child => {
                drop(near);
                let standard = ends.0.each_ref().map(|end| end.as_ref().map(AsFd::as_fd));
                let line = far.again();
                let given = Given {
                    plan: &self,
                    line: far,
                    init: program.as_fd(),
                    opened: None,
                    standard,
                    groups: Vec::new(),
                    tells: false,
                };
                match line {
                    Ok(line) => between(given, &line, &init),
                    Err(_) => leave(125),
                }
            }
            Side::Parent(pid, pidfd) => {
                drop((far, ends));
                let tree = Tree::new(pid, pidfd).map_err(LaunchError::Namespaces)?;
                let Handed { terminal, sockets } = ready(&near)?;
                Ok(Held {
                    plan: self,
                    tree,
                    line: near,
                    standard,
                    terminal,
                    sockets,
                    groups: Groups::default(),
                    table: None,
                })
            }
        }
    }
}

/// The process between: in the sandbox's namespaces, and still the launcher's own code. Its child is inside.
fn between(mut given: Given<'_>, line: &Line, init: &OwnedFd) -> ! {
    let broken = match joined(&mut given, line, init) {
        Ok(never) => match never {},
        Err(broken) => broken,
    };
    line.tell_broken(&broken);
    leave(125)
}

fn joined(given: &mut Given<'_>, line: &Line, init: &OwnedFd) -> Result<std::convert::Infallible, Broken> {
    let broken = |what: &str, error: io::Error| Broken {
        step: Step::Owners,
        what: what.to_owned(),
        error: error.raw_os_error().unwrap_or(0),
    };
    // What else the launcher has open is not for here: whoever holds an end of a pipe keeps its other end waiting.
    let ours = [given.line.as_fd(), line.as_fd(), given.init, init.as_fd()];
    let kept = given.standard.into_iter().flatten().chain(ours);
    let kept: Vec<BorrowedFd<'_>> = kept.collect();
    sys::watch::close_but(&kept).map_err(|error| broken("descriptors", error))?;
    // This process still has the launcher's memory, and soon it is among strangers who have the same user: nobody may
    // look into it.
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
        .map_err(|error| broken("memory", error.into()))?;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| broken("parent", error.into()))?;
    Groups::enter(&format!("palisade-{}", given.plan.run))
        .map_err(|error| broken("control groups", error))?;
    enter(init.as_fd()).map_err(|error| broken("namespaces", error))?;
    // The number space of processes is entered by children only.
    match fork(0, None).map_err(|error| broken("child", error))? {
        Side::Child => match inside::join(given) {
            Ok(never) => match never {},
            Err(broken) => {
                given.line.tell_broken(&broken);
                leave(125)
            }
        },
        Side::Parent(pid, _pidfd) => {
            // The child speaks for itself until it is ready, and process 1 of ours speaks after it.
            sys::watch::close_but(&[]).map_err(|error| broken("descriptors", error))?;
            let child = Pid::from_raw(pid)
                .ok_or_else(|| broken("child", io::Error::from_raw_os_error(libc::ECHILD)))?;
            while rustix::process::waitpid(Some(child), WaitOptions::empty()).err()
                == Some(rustix::io::Errno::INTR)
            {}
            leave(0)
        }
    }
}
