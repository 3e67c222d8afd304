//! What the new process does between its first moment and process 1: names and limits itself, gives everything up.
//!
//! Flow: a fork with new namespaces -> owners -> root of its own -> terminal -> limits -> no capabilities ->
//! Landlock -> seccomp -> process 1 from the sealed memory file.
//!
//! Invariant: any failure is told to the launcher with the step it belongs to, and nothing of the command has
//! run. Not here: building the root ([`crate::root`]), deciding what is in
//! it ([`crate::plan`]), checking what came of it.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};

use crate::files::Base;
use crate::filter::Filter;
use crate::line::Line;
use crate::plan::{Identity, Part, Plan};
use crate::root::{FromHost, Root};
use crate::{sys, wall};

/// What the host is called inside.
const HOST_NAME: &CStr = c"palisade";

/// What was being done when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Namespaces,
    Owners,
    Host,
    Loopback,
    Capture,
    Root,
    Mount,
    Layer,
    Terminal,
    Limits,
    Command,
    Directory,
    Privileges,
    Landlock,
    Seccomp,
    Init,
}

/// Why the inside could not be made.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) step: Step,
    pub(crate) what: String,
    pub(crate) error: i32,
}

/// Says which step an error belongs to.
pub(crate) trait At<T> {
    fn at(self, step: Step, what: impl AsRef<Path>) -> Result<T, Broken>;
}

impl<T, E: Into<io::Error>> At<T> for Result<T, E> {
    fn at(self, step: Step, what: impl AsRef<Path>) -> Result<T, Broken> {
        self.map_err(|error| Broken {
            step,
            what: what.as_ref().to_string_lossy().into_owned(),
            error: error.into().raw_os_error().unwrap_or(0),
        })
    }
}

/// What the launcher prepared.
pub(crate) struct Given<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) line: Line,
    /// Process 1, in its sealed memory file.
    pub(crate) init: BorrowedFd<'a>,
    /// What the mounts are made from, in their order, where only the host's root could open it.
    pub(crate) opened: Option<Vec<FromHost>>,
    /// What becomes standard input, output and error; none: the terminal.
    pub(crate) standard: [Option<BorrowedFd<'a>>; 3],
    /// Control groups of the first version to enter.
    pub(crate) groups: Vec<OwnedFd>,
    /// Whether the launcher is told when the root is complete.
    pub(crate) tells: bool,
}

/// The part that does not depend on the command: can be done ahead of time.
///
/// `groups` are those of the first version to enter; none if they come with the plan.
pub(crate) fn begin(
    identity: &Identity,
    line: &Line,
    groups: Option<&[OwnedFd]>,
    base: &Base,
) -> Result<Root, Broken> {
    sys::process::reset_signals();
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .at(Step::Owners, "parent")?;
    // Out of the caller's session: its terminal is not ours, and its signals do not reach us.
    rustix::process::setsid().at(Step::Owners, "session")?;
    sys::process::own_namespaces().or_else(|(kind, error)| Err(error).at(Step::Namespaces, kind))?;
    own(identity, line)?;
    // A change of the user forgets whose end is ours.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .at(Step::Owners, "parent")?;
    groups.map_or(Ok(()), enter_groups)?;
    sys::process::name_host(HOST_NAME).at(Step::Host, "host name")?;
    sys::net::raise_loopback().at(Step::Loopback, "lo")?;
    give_up_more()?;
    Root::new(base)
}

/// The rest, up to process 1; `enters` its groups if that was not done before.
pub(crate) fn finish(
    given: &mut Given<'_>,
    root: Root,
    enters: bool,
) -> Result<std::convert::Infallible, Broken> {
    if enters || !given.groups.is_empty() {
        enter_groups(&given.groups)?;
    }
    if let Some(captured) = &given.plan.captured {
        let sockets = crate::capture::open(captured).at(Step::Capture, "rules")?;
        given.line.give_sockets(&sockets).at(Step::Capture, "launcher")?;
    }
    root.complete(given.plan, std::mem::take(&mut given.opened))?;
    if given.tells {
        given.line.tell_rooted().at(Step::Root, "launcher")?;
    }
    dress(given)
}

/// In a sandbox that stands already: the same person, the same walls, another command.
pub(crate) fn join(given: &mut Given<'_>) -> Result<std::convert::Infallible, Broken> {
    sys::process::reset_signals();
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .at(Step::Owners, "parent")?;
    rustix::process::setsid().at(Step::Owners, "session")?;
    let identity = &given.plan.identity;
    if identity.owns.is_some() {
        sys::process::no_groups().at(Step::Owners, "groups")?;
        sys::process::become_user(identity.user, identity.group).at(Step::Owners, "user")?;
        // A change of the user forgets whose end is ours.
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
            .at(Step::Owners, "parent")?;
    }
    give_up_more()?;
    dress(given)
}

/// Everything that is done inside the root: terminal, limits, descriptors, then no privilege and both walls.
fn dress(given: &mut Given<'_>) -> Result<std::convert::Infallible, Broken> {
    let plan = given.plan;
    let terminal = if given.standard.iter().any(Option::is_none) { Some(terminal(given)?) } else { None };
    limit(plan)?;
    // A sandbox can stand before it is known what for; process 1 is told then.
    let path = if plan.command.is_empty() { None } else { Some(find(plan)?) };
    rustix::process::chdir(&plan.directory).at(Step::Directory, &plan.directory)?;
    let arguments = arguments(plan, path.as_deref());
    let environment: Vec<CString> =
        plan.environment.iter().filter_map(|text| CString::new(text.as_bytes()).ok()).collect();
    let init = descriptors(given, terminal.as_ref())?;
    // The number it had is closed; what breaks from here on is told on the one that process 1 will have.
    std::mem::forget(std::mem::replace(&mut given.line, Line::of(sys::process::adopt(3))));
    give_up()?;
    if plan.has(Part::NoNewPrivs) || plan.has(Part::Landlock) || plan.has(Part::Seccomp) {
        rustix::thread::set_no_new_privs(true).at(Step::Privileges, "no_new_privs")?;
    }
    if plan.has(Part::Landlock) {
        wall::raise(plan).at(Step::Landlock, "rules")?;
    }
    if plan.has(Part::Seccomp) {
        sys::load_filter(Filter::of(plan.tracing).0.instructions()).at(Step::Seccomp, "filter")?;
    }
    Err(sys::process::become_program(init.as_fd(), &arguments, &environment)).at(Step::Init, "process 1")
}

/// Becomes the user of the plan: by itself where it is the caller, else once the launcher has said who is who.
fn own(identity: &Identity, line: &Line) -> Result<(), Broken> {
    if identity.owns.is_some() {
        line.wait_for_owners().at(Step::Owners, "launcher")?;
        sys::process::no_groups().at(Step::Owners, "groups")?;
        return sys::process::become_user(identity.user, identity.group).at(Step::Owners, "user");
    }
    write("/proc/self/setgroups", "deny").at(Step::Owners, "groups")?;
    let line = |inside: u32, outside: u32| format!("{inside} {outside} 1");
    write("/proc/self/uid_map", &line(identity.user, identity.host_user)).at(Step::Owners, "users")?;
    write("/proc/self/gid_map", &line(identity.group, identity.host_group)).at(Step::Owners, "groups")
}

fn write(path: &str, text: &str) -> rustix::io::Result<()> {
    let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, text.as_bytes())?;
    Ok(())
}

fn enter_groups(groups: &[OwnedFd]) -> Result<(), Broken> {
    for group in groups {
        rustix::io::write(group, b"0").at(Step::Limits, "control group")?;
    }
    sys::process::leave_groups().at(Step::Limits, "control group namespace")
}

/// A terminal of the sandbox's own; its other end goes to the launcher.
fn terminal(given: &Given<'_>) -> Result<OwnedFd, Broken> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let near = rustix::fs::open("/dev/pts/ptmx", flags, Mode::empty()).at(Step::Terminal, "/dev/pts/ptmx")?;
    rustix::pty::unlockpt(&near).at(Step::Terminal, "unlock")?;
    let far = rustix::pty::ioctl_tiocgptpeer(
        &near,
        rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY,
    )
    .at(Step::Terminal, "peer")?;
    given.line.give_terminal(near.as_fd()).at(Step::Terminal, "launcher")?;
    Ok(far)
}

fn limit(plan: &Plan) -> Result<(), Broken> {
    for limit in &plan.limits {
        // A limit that is already lower stays: raising needs a privilege, and lower is what was asked for too.
        let now = rustix::process::getrlimit(limit.of.resource());
        let most = Some(now.maximum.map_or(limit.most, |hard| hard.min(limit.most)));
        let limits = rustix::process::Rlimit { current: most, maximum: most };
        rustix::process::setrlimit(limit.of.resource(), limits)
            .at(Step::Limits, format!("{:?}", limit.of))?;
    }
    Ok(())
}

/// The program of the command, as the inside sees it.
fn find(plan: &Plan) -> Result<PathBuf, Broken> {
    let name = plan.command.first().map(OsString::as_os_str).unwrap_or_default();
    let lookup = |path: &Path| -> Result<(), rustix::io::Errno> {
        rustix::fs::access(path, rustix::fs::Access::EXEC_OK)?;
        let mode = rustix::fs::stat(path)?.st_mode;
        match FileType::from_raw_mode(mode) {
            FileType::Directory => Err(rustix::io::Errno::ACCESS),
            _ => Ok(()),
        }
    };
    if name.as_bytes().contains(&b'/') {
        let path = plan.directory.join(name);
        return lookup(&path).map(|()| path).at(Step::Command, Path::new(name));
    }
    let mut refused = rustix::io::Errno::NOENT;
    for folder in std::env::split_paths(&plan.search).filter(|folder| folder.is_absolute()) {
        match lookup(&folder.join(name)) {
            Ok(()) => return Ok(folder.join(name)),
            Err(rustix::io::Errno::ACCESS) => refused = rustix::io::Errno::ACCESS,
            Err(_) => {}
        }
    }
    Err(refused).at(Step::Command, Path::new(name))
}

/// What process 1 is started with: its own name, the program's path, the command.
fn arguments(plan: &Plan, path: Option<&Path>) -> Vec<CString> {
    let words = std::iter::once(OsStr::new("palisade-init")).chain(path.map(Path::as_os_str));
    let words = words.chain(plan.command.iter().map(OsString::as_os_str));
    words.filter_map(|word| CString::new(word.as_bytes()).ok()).collect()
}

/// Puts standard input, output, error and the line in their places and closes everything else.
fn descriptors(given: &Given<'_>, terminal: Option<&OwnedFd>) -> Result<OwnedFd, Broken> {
    const FREE: i32 = 16;
    let high = |fd: BorrowedFd<'_>| rustix::io::fcntl_dupfd_cloexec(fd, FREE).at(Step::Init, "descriptors");
    let mut standard = Vec::new();
    for given in given.standard {
        match given.or(terminal.map(AsFd::as_fd)) {
            Some(fd) => standard.push(high(fd)?),
            None => return Err(rustix::io::Errno::BADF).at(Step::Init, "descriptors"),
        }
    }
    let (line, init) = (high(given.line.as_fd())?, high(given.init)?);
    for (number, fd) in (0..).zip(standard.iter()) {
        sys::process::place(fd.as_fd(), number, false).at(Step::Init, "descriptors")?;
    }
    sys::process::place(line.as_fd(), 3, false).at(Step::Init, "descriptors")?;
    sys::process::place(init.as_fd(), 4, true).at(Step::Init, "descriptors")?;
    std::mem::forget((standard, line, init));
    sys::close_from(5).at(Step::Init, "descriptors")?;
    Ok(sys::process::adopt(4))
}

/// Gives up the ways to get a privilege; those that one has stay.
fn give_up_more() -> Result<(), Broken> {
    use rustix::thread::CapabilitySet;
    for number in 0..64 {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            Ok(()) => {}
            Err(rustix::io::Errno::INVAL) => break,
            Err(error) => return Err(error).at(Step::Privileges, "bounding set"),
        }
    }
    rustix::thread::clear_ambient_capability_set().at(Step::Privileges, "ambient set")
}

/// Gives up every privilege.
fn give_up() -> Result<(), Broken> {
    use rustix::thread::{CapabilitySet, CapabilitySets};
    let none = CapabilitySet::empty();
    let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, none).at(Step::Privileges, "capabilities")
}
