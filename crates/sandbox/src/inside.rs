//! What the new process does between its first moment and process 1: builds the root, names and limits itself,
//! gives everything up.
//!
//! Flow: a fork with new namespaces -> owners -> root of its own -> terminal -> limits -> no capabilities ->
//! Landlock -> seccomp -> process 1 from the sealed memory file.
//!
//! Invariant: any failure is told to the launcher with the step it belongs to, and nothing of the command has
//! run. Not here: deciding what is mounted ([`crate::plan`]), checking what came of it.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags,
};

use crate::line::Line;
use crate::plan::{Mount, Part, Plan, Source};
use crate::sys::{self, Attributes};
use crate::wall;

/// What was being done when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Owners,
    Host,
    Loopback,
    Root,
    Mount,
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
trait At<T> {
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
}

/// Runs in the new process and never comes back.
pub(crate) fn enter(mut given: Given<'_>) -> ! {
    let broken = match make(&mut given) {
        Ok(never) => match never {},
        Err(broken) => broken,
    };
    given.line.tell_broken(&broken);
    sys::process::leave(125)
}

fn make(given: &mut Given<'_>) -> Result<std::convert::Infallible, Broken> {
    let plan = given.plan;
    sys::process::reset_signals();
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .at(Step::Owners, "parent")?;
    // Out of the caller's session: its terminal is not ours, and its signals do not reach us.
    rustix::process::setsid().at(Step::Owners, "session")?;
    own(given)?;
    enter_groups(&given.groups)?;
    let name = CString::new(plan.host_name.as_str()).unwrap_or_default();
    sys::process::name_host(&name).at(Step::Host, "host name")?;
    sys::net::raise_loopback().at(Step::Loopback, "lo")?;
    let opened = std::mem::take(&mut given.opened);
    root(plan, opened)?;
    let terminal = if given.standard.iter().any(Option::is_none) { Some(terminal(given)?) } else { None };
    limit(plan)?;
    let path = find(plan)?;
    rustix::process::chdir(&plan.directory).at(Step::Directory, &plan.directory)?;
    let arguments = arguments(plan, &path);
    let environment: Vec<CString> =
        plan.environment.iter().filter_map(|text| CString::new(text.as_bytes()).ok()).collect();
    let init = descriptors(given, terminal.as_ref())?;
    give_up()?;
    if plan.has(Part::NoNewPrivs) || plan.has(Part::Landlock) || plan.has(Part::Seccomp) {
        rustix::thread::set_no_new_privs(true).at(Step::Privileges, "no_new_privs")?;
    }
    if plan.has(Part::Landlock) {
        wall::raise(plan).at(Step::Landlock, "rules")?;
    }
    if plan.has(Part::Seccomp) {
        sys::load_filter(plan.filter.instructions()).at(Step::Seccomp, "filter")?;
    }
    Err(sys::process::become_program(init.as_fd(), &arguments, &environment)).at(Step::Init, "process 1")
}

/// Becomes the user of the plan: by itself where it is the caller, else once the launcher has said who is who.
fn own(given: &Given<'_>) -> Result<(), Broken> {
    let identity = &given.plan.identity;
    if identity.owns.is_some() {
        given.line.wait_for_owners().at(Step::Owners, "launcher")?;
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

/// A new file system of this kind, with options, as a mount that is nowhere yet.
fn new(kind: &str, options: &[(&str, &str)], attributes: u64) -> io::Result<OwnedFd> {
    let file_system = rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        rustix::mount::fsconfig_set_string(file_system.as_fd(), *key, *value)?;
    }
    created(&file_system, attributes)
}

/// The file system that was configured, as a mount that is nowhere yet.
fn created(file_system: &OwnedFd, attributes: u64) -> io::Result<OwnedFd> {
    rustix::mount::fsconfig_create(file_system.as_fd())?;
    let attributes = MountAttrFlags::from_bits_retain(u32::try_from(attributes).unwrap_or(0));
    Ok(rustix::mount::fsmount(file_system.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

/// A copy of a mount of the host, or of what is at a place beneath one.
pub(crate) fn copy(mount: &Mount, path: &Path, owners: Option<BorrowedFd<'_>>) -> io::Result<OwnedFd> {
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let tree = match mount.within.as_deref().and_then(|within| Some((within, path.strip_prefix(within).ok()?))) {
        Some((within, rest)) if !rest.as_os_str().is_empty() => {
            let open = OFlags::PATH | OFlags::CLOEXEC;
            let base = rustix::fs::open(within, open, Mode::empty())?;
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
            let place = rustix::fs::openat2(&base, rest, open | OFlags::NOFOLLOW, Mode::empty(), resolve)?;
            rustix::mount::open_tree(&place, "", flags | OpenTreeFlags::AT_EMPTY_PATH)?
        }
        _ => rustix::mount::open_tree(CWD, path, flags | OpenTreeFlags::AT_SYMLINK_NOFOLLOW)?,
    };
    let owners = owners.filter(|_| mount.owned);
    let (set, private) = (mount.attributes(), true);
    sys::set_attributes(tree.as_fd(), Attributes { set, private, recursive: true, owners, ..Attributes::default() })?;
    Ok(tree)
}

/// Builds the root from nothing and makes it ours.
fn root(plan: &Plan, opened: Option<Vec<FromHost>>) -> Result<(), Broken> {
    let memory = [("size", "4m"), ("nr_inodes", "4096"), ("mode", "0755")];
    let attributes = sys::NO_SUID | sys::NO_DEVICES;
    let root = new("tmpfs", &memory, attributes).at(Step::Root, "tmpfs")?;
    // What comes from the host is opened first: the new root will cover a part of it.
    let opened: Result<Vec<FromHost>, Broken> = match opened {
        Some(opened) => Ok(opened),
        None => plan.mounts.iter().map(|mount| from_host(mount, None).at(Step::Mount, &mount.at)).collect(),
    };
    let opened = opened?;
    // It must be somewhere before it can become the root; the host's own root is covered only in this namespace.
    put(&root, CWD, Path::new("/tmp")).at(Step::Root, "/tmp")?;
    for folder in &plan.folders {
        folders(root.as_fd(), folder).at(Step::Root, folder)?;
    }
    for (at, to) in &plan.links {
        let _ = at.parent().map(|parent| folders(root.as_fd(), parent));
        rustix::fs::symlinkat(to, &root, relative(at)).at(Step::Root, at)?;
    }
    for (at, bytes) in &plan.files {
        let _ = at.parent().map(|parent| folders(root.as_fd(), parent));
        file(root.as_fd(), at, bytes).at(Step::Root, at)?;
    }
    for (mount, opened) in plan.mounts.iter().zip(opened) {
        let tree = match opened {
            FromHost::Tree(tree) => Ok(tree),
            FromHost::Layer(stubs, changes, work) => layer(mount, root.as_fd(), stubs.as_ref(), &changes, &work),
            FromHost::None => made(mount, root.as_fd()),
        };
        let tree = tree.at(Step::Mount, &mount.at)?;
        let target = target(root.as_fd(), mount, tree.as_fd()).at(Step::Mount, &mount.at)?;
        put(&tree, target.as_fd(), Path::new("")).at(Step::Mount, &mount.at)?;
    }
    let whole = Attributes { set: sys::READ_ONLY, private: true, ..Attributes::default() };
    sys::set_attributes(root.as_fd(), whole).at(Step::Root, "/")?;
    rustix::process::fchdir(&root).at(Step::Root, "/")?;
    rustix::process::pivot_root(".", ".").at(Step::Root, "/")?;
    rustix::mount::unmount(".", UnmountFlags::DETACH).at(Step::Root, "/")?;
    rustix::process::chdir("/").at(Step::Root, "/")
}

/// Beneath the root, whatever the path says.
fn relative(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

fn put(tree: &OwnedFd, to: BorrowedFd<'_>, path: &Path) -> rustix::io::Result<()> {
    let mut flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    if path.as_os_str().is_empty() {
        flags |= MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    }
    rustix::mount::move_mount(tree, "", to, path, flags)
}

/// What of the host a mount is made from.
pub(crate) enum FromHost {
    /// The mount itself.
    Tree(OwnedFd),
    /// The directories of a layer, whatever covers them later: stubs, changes, work.
    Layer(Option<OwnedFd>, OwnedFd, OwnedFd),
    /// Nothing.
    None,
}

/// Opens what a mount needs of the host.
pub(crate) fn from_host(mount: &Mount, owners: Option<BorrowedFd<'_>>) -> io::Result<FromHost> {
    let open = |path: &Path| {
        rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
    };
    match &mount.source {
        Source::Host(path) => copy(mount, path, owners).map(FromHost::Tree),
        Source::Layer(layer) => {
            let stubs = layer.stubs.as_deref().map(open).transpose()?;
            Ok(FromHost::Layer(stubs, open(&layer.changes)?, open(&layer.work)?))
        }
        Source::Memory(..) | Source::Processes | Source::Terminals | Source::Nothing => Ok(FromHost::None),
    }
}

/// A layer over what is mounted at its place.
fn layer(
    mount: &Mount,
    root: BorrowedFd<'_>,
    stubs: Option<&OwnedFd>,
    changes: &OwnedFd,
    work: &OwnedFd,
) -> io::Result<OwnedFd> {
    // By descriptor, because the paths may be covered by now; the host's /proc is still where it was.
    let named = |fd: BorrowedFd<'_>| format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&fd));
    let there = beneath(root, &mount.at)?;
    let mut below = named(there.as_fd());
    if let Some(stubs) = stubs {
        below = format!("{}:{below}", named(stubs.as_fd()));
    }
    let file_system = rustix::mount::fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_set_string(file_system.as_fd(), "lowerdir", below.as_str())?;
    rustix::mount::fsconfig_set_string(file_system.as_fd(), "upperdir", named(changes.as_fd()).as_str())?;
    rustix::mount::fsconfig_set_string(file_system.as_fd(), "workdir", named(work.as_fd()).as_str())?;
    rustix::mount::fsconfig_set_flag(file_system.as_fd(), "userxattr")?;
    created(&file_system, mount.attributes())
}

/// The mount, if it is the sandbox's own.
fn made(mount: &Mount, root: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let attributes = mount.attributes();
    match &mount.source {
        Source::Host(_) | Source::Layer(_) => Err(rustix::io::Errno::BADF.into()),
        Source::Memory(size, mode) => {
            let (size, mode) = (size.to_string(), format!("{mode:o}"));
            new("tmpfs", &[("size", &size), ("mode", &mode)], attributes)
        }
        Source::Processes => new("proc", &[], attributes),
        Source::Terminals => new("devpts", &[("ptmxmode", "0666"), ("mode", "0620")], attributes),
        Source::Nothing => {
            let there = rustix::fs::fstat(beneath(root, &mount.at)?)?.st_mode;
            let is_directory = FileType::from_raw_mode(there) == FileType::Directory;
            let empty = if is_directory { ".empty/folder" } else { ".empty/file" };
            let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
            let tree = rustix::mount::open_tree(root, empty, flags)?;
            let private = Attributes { set: attributes, private: true, ..Attributes::default() };
            sys::set_attributes(tree.as_fd(), private)?;
            Ok(tree)
        }
    }
}

/// What is at a path inside, without following links: a hostile tree cannot send a mount elsewhere.
fn beneath(root: BorrowedFd<'_>, path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(root, relative(path), OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty(), flags)
}

/// The place of a mount; made when it is not there.
fn target(root: BorrowedFd<'_>, mount: &Mount, tree: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
    match beneath(root, &mount.at) {
        Err(rustix::io::Errno::NOENT) => {}
        other => return other,
    }
    let mode = rustix::fs::fstat(tree)?.st_mode;
    if FileType::from_raw_mode(mode) == FileType::Directory {
        folders(root, &mount.at)?;
    } else {
        if let Some(parent) = mount.at.parent() {
            folders(root, parent)?;
        }
        file(root, &mount.at, b"")?;
    }
    beneath(root, &mount.at)
}

/// Makes a directory and those above it, one by one, without following links.
fn folders(root: BorrowedFd<'_>, path: &Path) -> rustix::io::Result<()> {
    let mut above = PathBuf::new();
    for part in relative(path).components() {
        let parent = if above.as_os_str().is_empty() { None } else { Some(beneath(root, &above)?) };
        let parent = parent.as_ref().map_or(root, AsFd::as_fd);
        let name: &OsStr = part.as_os_str();
        match rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(rustix::io::Errno::EXIST | rustix::io::Errno::ROFS) => {}
            Err(error) => return Err(error),
        }
        above.push(name);
    }
    Ok(())
}

fn file(root: BorrowedFd<'_>, path: &Path, bytes: &[u8]) -> rustix::io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS;
    let file = rustix::fs::openat2(root, relative(path), flags, Mode::from_raw_mode(0o644), resolve)?;
    if !bytes.is_empty() {
        rustix::io::write(&file, bytes)?;
    }
    Ok(())
}

/// A terminal of the sandbox's own; its other end goes to the launcher.
fn terminal(given: &Given<'_>) -> Result<OwnedFd, Broken> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let near = rustix::fs::open("/dev/pts/ptmx", flags, Mode::empty()).at(Step::Terminal, "/dev/pts/ptmx")?;
    rustix::pty::unlockpt(&near).at(Step::Terminal, "unlock")?;
    let far = rustix::pty::ioctl_tiocgptpeer(&near, rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY)
        .at(Step::Terminal, "peer")?;
    given.line.give_terminal(near.as_fd()).at(Step::Terminal, "launcher")?;
    Ok(far)
}

fn limit(plan: &Plan) -> Result<(), Broken> {
    for limit in &plan.limits {
        // A limit that is already lower stays: raising needs a privilege, and lower is what was asked for too.
        let now = rustix::process::getrlimit(limit.resource);
        let most = Some(now.maximum.map_or(limit.most, |hard| hard.min(limit.most)));
        let limits = rustix::process::Rlimit { current: most, maximum: most };
        rustix::process::setrlimit(limit.resource, limits).at(Step::Limits, format!("{:?}", limit.resource))?;
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
fn arguments(plan: &Plan, path: &Path) -> Vec<CString> {
    let words = [OsStr::new("palisade-init"), path.as_os_str()];
    let words = words.into_iter().chain(plan.command.iter().map(OsString::as_os_str));
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

/// Gives up every privilege, and the ways to get one.
fn give_up() -> Result<(), Broken> {
    use rustix::thread::{CapabilitySet, CapabilitySets};
    for number in 0..64 {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            Ok(()) => {}
            Err(rustix::io::Errno::INVAL) => break,
            Err(error) => return Err(error).at(Step::Privileges, "bounding set"),
        }
    }
    rustix::thread::clear_ambient_capability_set().at(Step::Privileges, "ambient set")?;
    let none = CapabilitySet::empty();
    let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, none).at(Step::Privileges, "capabilities")
}
