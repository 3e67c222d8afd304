//! Builds the root of a sandbox from nothing: what is not mounted does not exist.
//!
//! Flow: [`Root::new`] (what every sandbox has; done ahead for sandboxes that wait in a pool) ->
//! [`Root::complete`] (what this plan adds, then the old root goes). Runs inside the new namespaces.
//!
//! Invariant: no link is followed on the way to a place inside, so a hostile tree cannot send a mount elsewhere.
//! Not here: what is mounted ([`crate::plan`], [`crate::files`]).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags};

use crate::files::Base;
use crate::inside::{At as _, Broken, Step};
use crate::plan::{Layer, Mount, Plan, Source};
use crate::sys::{self, Attributes};

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

/// A path of the host, without following a link, if it is beneath a place that it must not leave; none if it is not.
pub(crate) fn place(within: Option<&Path>, path: &Path) -> rustix::io::Result<Option<OwnedFd>> {
    let Some(within) = within else { return Ok(None) };
    let Some(rest) = path.strip_prefix(within).ok().filter(|rest| !rest.as_os_str().is_empty()) else {
        return Ok(None);
    };
    let open = OFlags::PATH | OFlags::CLOEXEC;
    let base = rustix::fs::open(within, open, Mode::empty())?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(&base, rest, open | OFlags::NOFOLLOW, Mode::empty(), resolve).map(Some)
}

/// The number of the mount at a place inside, if it is what it would be made from now.
pub(crate) fn current(mount: &Mount, root: BorrowedFd<'_>) -> Option<u64> {
    let there = beneath(root, &mount.at).ok()?;
    let wanted = rustix::fs::StatxFlags::BASIC_STATS | rustix::fs::StatxFlags::MNT_ID;
    let found = rustix::fs::statx(&there, "", rustix::fs::AtFlags::EMPTY_PATH, wanted).ok()?;
    // A mount whose place was taken away is gone, and what is there instead may be the same file, with other rights.
    if !found.stx_attributes.contains(rustix::fs::StatxAttributes::MOUNT_ROOT) {
        return None;
    }
    if let Source::Host(path) = &mount.source {
        let host = match place(mount.within.as_deref(), path).ok()? {
            Some(place) => rustix::fs::fstat(place),
            None => rustix::fs::lstat(path),
        };
        let (host, inside) = (host.ok()?, rustix::fs::fstat(&there).ok()?);
        if (host.st_dev, host.st_ino) != (inside.st_dev, inside.st_ino) {
            return None;
        }
    }
    Some(found.stx_mnt_id)
}

/// A copy of a mount of the host, or of what is at a place beneath one.
pub(crate) fn copy(mount: &Mount, path: &Path, owners: Option<BorrowedFd<'_>>) -> io::Result<OwnedFd> {
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let tree = match place(mount.within.as_deref(), path)? {
        Some(place) => rustix::mount::open_tree(&place, "", flags | OpenTreeFlags::AT_EMPTY_PATH)?,
        None => rustix::mount::open_tree(CWD, path, flags | OpenTreeFlags::AT_SYMLINK_NOFOLLOW)?,
    };
    // A link itself can be opened too; it is no place to give.
    if FileType::from_raw_mode(rustix::fs::fstat(&tree)?.st_mode) == FileType::Symlink {
        return Err(rustix::io::Errno::LOOP.into());
    }
    let owners = owners.filter(|_| mount.owned);
    let (set, private) = (mount.attributes(), true);
    sys::set_attributes(
        tree.as_fd(),
        Attributes { set, private, recursive: true, owners, ..Attributes::default() },
    )?;
    Ok(tree)
}

/// A root that is being built, over the old one.
#[derive(Debug)]
pub(crate) struct Root(OwnedFd);

impl Root {
    /// The part that every sandbox has: system directories, devices, processes.
    pub(crate) fn new(base: &Base) -> Result<Self, Broken> {
        let memory = [("size", "4m"), ("nr_inodes", "4096"), ("mode", "0755")];
        let attributes = sys::NO_SUID | sys::NO_DEVICES;
        let root = Self(new("tmpfs", &memory, attributes).at(Step::Root, "tmpfs")?);
        // It must be somewhere before it can become the root. Over the old root it covers nothing: paths still begin
        // below it.
        put(&root.0, CWD, Path::new("/")).at(Step::Root, "/")?;
        for folder in &base.folders {
            folders(root.0.as_fd(), folder).at(Step::Root, folder)?;
        }
        for (at, to) in &base.links {
            rustix::fs::symlinkat(to, &root.0, relative(at)).at(Step::Root, at)?;
        }
        for (at, bytes) in &base.files {
            file(root.0.as_fd(), at, bytes).at(Step::Root, at)?;
        }
        for mount in &base.mounts {
            let from = from_host(mount, None).at(Step::Mount, &mount.at)?;
            root.mount(mount, from)?;
        }
        Ok(root)
    }

    /// What this plan adds; then it becomes the root, and the old one is gone.
    pub(crate) fn complete(self, plan: &Plan, opened: Option<Vec<FromHost>>) -> Result<(), Broken> {
        for (at, bytes) in &plan.files {
            file(self.0.as_fd(), at, bytes).at(Step::Root, at)?;
        }
        let opened: Result<Vec<FromHost>, Broken> = match opened {
            Some(opened) => Ok(opened),
            None => {
                plan.own_mounts().map(|mount| from_host(mount, None).at(Step::Mount, &mount.at)).collect()
            }
        };
        let mut layers = Vec::new();
        for (mount, from) in plan.own_mounts().zip(opened?) {
            if let Source::Part { layer, path } = &mount.source {
                let tree = part(mount, &layers, layer, path).at(Step::Mount, &mount.at)?;
                let target = beneath(self.0.as_fd(), &mount.at).at(Step::Mount, &mount.at)?;
                put(&tree, target.as_fd(), Path::new("")).at(Step::Mount, &mount.at)?;
                continue;
            }
            let tree = self.mount(mount, from)?;
            // By this a part of it is found when it is covered.
            if let (Source::Layer(_), Some(tree)) = (&mount.source, tree) {
                layers.push((mount.at.as_path(), tree));
            }
        }
        let whole = Attributes { set: sys::READ_ONLY, private: true, ..Attributes::default() };
        sys::set_attributes(self.0.as_fd(), whole).at(Step::Root, "/")?;
        rustix::process::fchdir(&self.0).at(Step::Root, "/")?;
        rustix::process::pivot_root(".", ".").at(Step::Root, "/")?;
        rustix::mount::unmount(".", UnmountFlags::DETACH).at(Step::Root, "/")?;
        rustix::process::chdir("/").at(Step::Root, "/")
    }

    /// Mounts it; the mount, where it is not a cover.
    fn mount(&self, mount: &Mount, from: FromHost) -> Result<Option<OwnedFd>, Broken> {
        let root = self.0.as_fd();
        if mount.source == Source::Nothing {
            let target = beneath(root, &mount.at).at(Step::Mount, &mount.at)?;
            let tree = nothing(mount, root, target.as_fd()).at(Step::Mount, &mount.at)?;
            put(&tree, target.as_fd(), Path::new("")).at(Step::Mount, &mount.at)?;
            return Ok(None);
        }
        let tree = match (&mount.source, from) {
            (Source::Layer(of), FromHost::Tree(room)) => in_room(mount, of, root, &room),
            (_, FromHost::Tree(tree)) => Ok(tree),
            (_, FromHost::None) => made(mount),
        };
        let step = if matches!(mount.source, Source::Layer(_)) { Step::Layer } else { Step::Mount };
        let tree = tree.at(step, &mount.at)?;
        let target = target(root, mount, tree.as_fd()).at(Step::Mount, &mount.at)?;
        put(&tree, target.as_fd(), Path::new("")).at(Step::Mount, &mount.at)?;
        Ok(Some(tree))
    }
}

/// Beneath the root, whatever the path says.
fn relative(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

pub(crate) fn put(tree: &OwnedFd, to: BorrowedFd<'_>, path: &Path) -> rustix::io::Result<()> {
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
    /// Nothing.
    None,
}

impl FromHost {
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Tree(tree) => Some(tree.as_fd()),
            Self::None => None,
        }
    }
}

/// Opens what a mount needs of the host.
pub(crate) fn from_host(mount: &Mount, owners: Option<BorrowedFd<'_>>) -> io::Result<FromHost> {
    match &mount.source {
        Source::Host(path) => copy(mount, path, owners).map(FromHost::Tree),
        // The folder that its directories are in: overlayfs takes only what is mounted in its own namespace, and the
        // host's root opens this in another one.
        Source::Layer(layer) => {
            let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
            let room = layer.changes.parent().unwrap_or(&layer.changes);
            let room = rustix::mount::open_tree(CWD, room, flags | OpenTreeFlags::AT_SYMLINK_NOFOLLOW)?;
            let set = sys::NO_SUID | sys::NO_DEVICES;
            sys::set_attributes(room.as_fd(), Attributes { set, private: true, ..Attributes::default() })?;
            Ok(FromHost::Tree(room))
        }
        Source::Memory(..)
        | Source::Processes
        | Source::Terminals
        | Source::Nothing
        | Source::Part { .. }
        | Source::Skeleton(_) => Ok(FromHost::None),
    }
}

/// Where the folder of a layer is mounted while the layer is made.
const ROOM: &str = "/.layer";

/// A layer, from the folder that its directories are in.
fn in_room(mount: &Mount, of: &Layer, root: BorrowedFd<'_>, room: &OwnedFd) -> io::Result<OwnedFd> {
    folders(root, Path::new(ROOM))?;
    put(room, beneath(root, Path::new(ROOM))?.as_fd(), Path::new(""))?;
    let open = |path: &Path| {
        let name = path.file_name().unwrap_or_default();
        rustix::fs::openat(
            room,
            name,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        )
    };
    let stubs = of.stubs.as_deref().map(open).transpose()?;
    let made = layer(mount, root, stubs.as_ref(), &open(&of.changes)?, &open(&of.work)?)?;
    // The layer holds them by itself; nothing of the folder stays in sight.
    rustix::mount::unmount(
        format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(room)),
        UnmountFlags::DETACH,
    )?;
    rustix::fs::unlinkat(root, relative(Path::new(ROOM)), rustix::fs::AtFlags::REMOVEDIR)?;
    Ok(made)
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

/// Nothing, to be mounted over `target`.
pub(crate) fn nothing(mount: &Mount, root: BorrowedFd<'_>, target: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let there = rustix::fs::fstat(target)?.st_mode;
    let is_directory = FileType::from_raw_mode(there) == FileType::Directory;
    let empty = if is_directory { ".empty/folder" } else { ".empty/file" };
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let tree = rustix::mount::open_tree(root, empty, flags)?;
    let private = Attributes { set: mount.attributes(), private: true, ..Attributes::default() };
    sys::set_attributes(tree.as_fd(), private)?;
    Ok(tree)
}

/// A part of a layer that was mounted at `place`, as a mount of its own.
fn part(mount: &Mount, layers: &[(&Path, OwnedFd)], place: &Path, path: &Path) -> io::Result<OwnedFd> {
    let layer = layers.iter().rev().find(|(at, _)| *at == place).ok_or(rustix::io::Errno::BADF)?;
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    let tree = match path.as_os_str().is_empty() {
        true => rustix::mount::open_tree(&layer.1, "", flags)?,
        false => rustix::mount::open_tree(beneath(layer.1.as_fd(), path)?, "", flags)?,
    };
    if FileType::from_raw_mode(rustix::fs::fstat(&tree)?.st_mode) == FileType::Symlink {
        return Err(rustix::io::Errno::LOOP.into());
    }
    let private = Attributes { set: mount.attributes(), private: true, ..Attributes::default() };
    sys::set_attributes(tree.as_fd(), private)?;
    Ok(tree)
}

/// A directory with empty places in it, which nobody can write to any more.
fn skeleton(places: &[(std::path::PathBuf, bool)], attributes: u64) -> io::Result<OwnedFd> {
    let memory = [("size", "1m"), ("nr_inodes", "16384"), ("mode", "0755")];
    let tree = new("tmpfs", &memory, attributes & !sys::READ_ONLY)?;
    for (path, is_folder) in places {
        match (is_folder, path.parent()) {
            (true, _) => folders(tree.as_fd(), path)?,
            (false, above) => {
                above.map_or(Ok(()), |above| folders(tree.as_fd(), above))?;
                file(tree.as_fd(), path, b"")?;
            }
        }
    }
    let whole = Attributes { set: attributes, private: true, ..Attributes::default() };
    sys::set_attributes(tree.as_fd(), whole)?;
    Ok(tree)
}

/// As many files as it has pages: what is empty takes memory of the kernel's that its size does not count.
fn inodes(size: u64) -> u64 {
    (size / 4096).max(1024)
}

/// The mount, if it is the sandbox's own.
fn made(mount: &Mount) -> io::Result<OwnedFd> {
    let attributes = mount.attributes();
    match &mount.source {
        Source::Host(_) | Source::Layer(_) | Source::Nothing | Source::Part { .. } => {
            Err(rustix::io::Errno::BADF.into())
        }
        Source::Skeleton(places) => skeleton(places, attributes),
        Source::Memory(size, mode) => {
            let (inodes, size, mode) = (inodes(*size).to_string(), size.to_string(), format!("{mode:o}"));
            new("tmpfs", &[("size", &size), ("nr_inodes", &inodes), ("mode", &mode)], attributes)
        }
        Source::Processes => new("proc", &[], attributes),
        Source::Terminals => new("devpts", &[("ptmxmode", "0666"), ("mode", "0620")], attributes),
    }
}

/// What is at a path inside, without following links: a hostile tree cannot send a mount elsewhere.
pub(crate) fn beneath(root: BorrowedFd<'_>, path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(
        root,
        relative(path),
        OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
        flags,
    )
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

/// Makes a directory and those above it that are missing, without following links.
fn folders(root: BorrowedFd<'_>, path: &Path) -> rustix::io::Result<()> {
    let path = relative(path);
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
    let opened = if above.as_os_str().is_empty() {
        None
    } else {
        Some(match beneath(root, above) {
            Err(rustix::io::Errno::NOENT) => {
                folders(root, above)?;
                beneath(root, above)?
            }
            other => other?,
        })
    };
    let parent = opened.as_ref().map_or(root, AsFd::as_fd);
    match rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(rustix::io::Errno::EXIST | rustix::io::Errno::ROFS) => Ok(()),
        Err(error) => Err(error),
    }
}

fn file(root: BorrowedFd<'_>, path: &Path, bytes: &[u8]) -> rustix::io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS;
    let file = rustix::fs::openat2(root, relative(path), flags, Mode::from_raw_mode(0o644), resolve)?;
    write_whole(file.as_fd(), bytes)
}

/// Writes all of it: what is nearly full takes a part first, and refuses the rest.
fn write_whole(to: BorrowedFd<'_>, mut rest: &[u8]) -> rustix::io::Result<()> {
    while !rest.is_empty() {
        match rustix::io::write(to, rest) {
            Ok(0) => return Err(rustix::io::Errno::NOSPC),
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_in_part_only_is_not_taken_for_written() {
        let (_reads, writes) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap();
        assert_eq!(write_whole(writes.as_fd(), b"some"), Ok(()));
        assert_eq!(write_whole(writes.as_fd(), &vec![7; 1 << 20]), Err(rustix::io::Errno::AGAIN));
    }

    #[test]
    fn memory_for_files_holds_as_many_as_it_has_pages() {
        assert_eq!((inodes(64 << 20), inodes(8 << 30), inodes(0)), (16_384, 2_097_152, 1024));
    }
}
