//! What the host says about itself, and which of it explains an error of the kernel.
//!
//! Flow: [`Clues::read`] -> [`Clues::blame`] (pure). Invariant: every error gets a cause and something to do, the most
//! exact one that the clues allow.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::spec::FIRST_OWN_USER;

/// A wall that can be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wall {
    /// User namespaces.
    UserNamespaces,
    /// Another kind of namespace.
    Namespace(&'static str),
    /// The new interface for mounts.
    Mounts,
    /// A `/proc` of its own.
    Processes,
    /// Terminals of its own.
    Terminal,
    /// Landlock.
    Landlock,
    /// The filter of system calls.
    Seccomp,
    /// Giving up privileges.
    Privileges,
    /// Private layers over directories.
    Overlay,
    /// Limits that count processes together.
    ControlGroups,
    /// Mounts with other owners.
    Owners,
    /// Process 1 from memory.
    Init,
}

impl Wall {
    /// As people read it.
    #[must_use]
    pub fn layer(self) -> &'static str {
        match self {
            Self::UserNamespaces => "user namespaces",
            Self::Namespace("mount") => "mount namespace",
            Self::Namespace("pid") => "pid namespace",
            Self::Namespace("network") => "network namespace",
            Self::Namespace("ipc") => "ipc namespace",
            Self::Namespace("uts") => "uts namespace",
            Self::Namespace(_) => "cgroup namespace",
            Self::Mounts => "mounts",
            Self::Processes => "mount of /proc",
            Self::Terminal => "terminals",
            Self::Landlock => "landlock",
            Self::Seccomp => "seccomp",
            Self::Privileges => "no_new_privs",
            Self::Overlay => "overlay",
            Self::ControlGroups => "control groups",
            Self::Owners => "idmapped mounts",
            Self::Init => "process 1",
        }
    }

    /// How the kernel spells this namespace in the names of its settings.
    fn spelled(self) -> &'static str {
        match self {
            Self::Namespace("mount") => "mnt",
            Self::Namespace("network") => "net",
            Self::Namespace(name) => name,
            _ => "user",
        }
    }
}

/// What `user.max_*_namespaces` there are.
const COUNTED: [&str; 7] = ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"];
/// How many namespaces of a kind are enough for most.
const ENOUGH: u64 = 15_000;

/// Which layer is missing, why, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remedy {
    /// The layer.
    pub layer: &'static str,
    /// What stands in the way.
    pub cause: String,
    /// A command or a setting.
    pub fix: String,
}

/// What the host says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clues {
    /// Whether the caller is root.
    pub root: bool,
    /// Whether this is a user namespace that lacks the users which sandboxes of root have.
    pub lacks_users: bool,
    /// The kernel's release.
    pub kernel: String,
    /// `kernel.unprivileged_userns_clone`, where there is one.
    pub userns_clone: Option<u64>,
    /// `user.max_*_namespaces`, by what stands for the star.
    pub most: BTreeMap<&'static str, u64>,
    /// `kernel.apparmor_restrict_unprivileged_userns`, where there is one.
    pub apparmor_userns: Option<u64>,
    /// `vm.memfd_noexec`, where there is one.
    pub memfd_noexec: Option<u64>,
    /// The `AppArmor` profile of this process.
    pub apparmor_profile: Option<String>,
    /// Whether a filter of system calls is on this process already.
    pub filtered: bool,
    /// The outer container, by its kind.
    pub container: Option<&'static str>,
    /// The security modules in force, where they can be read.
    pub modules: Option<String>,
    /// Where this program is.
    pub program: PathBuf,
}

impl Clues {
    /// Reads them.
    #[must_use]
    pub fn read() -> Self {
        Self::below(Path::new("/"))
    }

    /// The same from another root.
    pub(crate) fn below(root: &Path) -> Self {
        let text = |path: &str| fs::read_to_string(root.join(path)).ok().map(|text| text.trim().to_owned());
        let number = |path: &str| text(path).and_then(|text| text.parse().ok());
        let status = text("proc/self/status").unwrap_or_default();
        let mode = status.lines().find_map(|line| line.strip_prefix("Seccomp:"));
        let profile = text("proc/self/attr/apparmor/current").or_else(|| text("proc/self/attr/current"));
        Self {
            root: rustix::process::geteuid().is_root(),
            lacks_users: text("proc/self/uid_map").is_some_and(|map| !holds_users(&map)),
            kernel: text("proc/sys/kernel/osrelease").unwrap_or_default(),
            userns_clone: number("proc/sys/kernel/unprivileged_userns_clone"),
            most: COUNTED
                .into_iter()
                .filter_map(|kind| Some((kind, number(&format!("proc/sys/user/max_{kind}_namespaces"))?)))
                .collect(),
            apparmor_userns: number("proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
            memfd_noexec: number("proc/sys/vm/memfd_noexec"),
            apparmor_profile: profile.filter(|text| !text.is_empty() && !text.starts_with("unconfined")),
            filtered: mode.is_some_and(|mode| mode.trim() == "2"),
            container: container(root, &text),
            modules: text("sys/kernel/security/lsm"),
            program: std::env::current_exe().unwrap_or_else(|_| "/usr/bin/palisade".into()),
        }
    }

    /// The release as two numbers.
    fn version(&self) -> (u32, u32) {
        let mut parts = self.kernel.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok());
        (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
    }

    /// What explains that this wall could not be raised.
    #[must_use]
    pub fn blame(&self, wall: Wall, error: i32) -> Remedy {
        let (cause, fix) = self.explained(wall, error);
        Remedy { layer: wall.layer(), cause, fix }
    }

    fn explained(&self, wall: Wall, error: i32) -> (String, String) {
        let is_refusal = matches!(error, libc::EPERM | libc::EACCES);
        let said = said(error);
        match wall {
            Wall::UserNamespaces | Wall::Owners if self.root && self.lacks_users && is_refusal => (
                format!("this is root of a user namespace without the users that sandboxes of root have ({said})"),
                "start palisade there as an ordinary user, or as root outside of it: a container that is not rootless, no \
                 `unshare --map-root-user`"
                    .into(),
            ),
            Wall::UserNamespaces | Wall::Namespace(_) => self.namespaces(wall, error),
            Wall::Landlock => self.landlock(error),
            Wall::Processes if is_refusal && (self.container.is_some() || self.filtered) => (
                format!("{} hides parts of /proc, and then the kernel lets nobody mount a new one ({said})", self.outer()),
                "start the container with `--security-opt systempaths=unconfined` (docker), `--security-opt \
                 unmask=ALL` (podman) or `procMount: Unmasked` (Kubernetes)"
                    .into(),
            ),
            Wall::Mounts | Wall::Processes | Wall::Terminal | Wall::Overlay | Wall::Owners
                if is_refusal && self.is_restricted_by_apparmor() =>
            {
                self.apparmor()
            }
            Wall::Overlay => self.overlay(error),
            Wall::ControlGroups => (
                format!("limits by control groups are required, and this user may divide none ({said})"),
                "start it as `systemd-run --user --scope -p Delegate=yes palisade run …`, or have an administrator \
                 delegate memory, pids, cpu and io to `user@.service`"
                    .into(),
            ),
            Wall::Init if self.memfd_noexec == Some(2) => (
                "`vm.memfd_noexec` is 2, so nothing can be started from memory".into(),
                sysctl("vm.memfd_noexec", 1),
            ),
            Wall::Seccomp if matches!(error, libc::EINVAL | libc::ENOSYS) && !self.filtered => (
                format!("the kernel takes no filters ({said})"),
                "use a kernel with CONFIG_SECCOMP_FILTER=y".into(),
            ),
            Wall::Mounts | Wall::Owners if error == libc::ENOSYS && !self.filtered => (
                format!("kernel {} lacks the mount interface of Linux 5.12 ({said})", self.kernel),
                "use a kernel of 5.12 or later".into(),
            ),
            _ if self.filtered && (is_refusal || error == libc::ENOSYS) => self.filter_outside(&said),
            Wall::Mounts if matches!(error, libc::ENOENT | libc::ENOTDIR | libc::ELOOP) => (
                format!("a path that is to be shown cannot be used ({said})"),
                "check the paths given with `--ro`, `--rw` and in the profile".into(),
            ),
            _ => (
                format!("the kernel refused it ({said})"),
                "look for a denial with `sudo journalctl -k -n 50`, and see what `palisade doctor` says".into(),
            ),
        }
    }

    fn namespaces(&self, wall: Wall, error: i32) -> (String, String) {
        let said = said(error);
        let refused = matches!(error, libc::EPERM | libc::EACCES);
        // Each other namespace comes with a user namespace.
        let none = [Wall::UserNamespaces, wall].into_iter().find(|wall| self.most(*wall) == Some(0));
        if let Some(wall) = none.or((error == libc::ENOSPC).then_some(wall)) {
            let (key, most) = (format!("user.max_{}_namespaces", wall.spelled()), self.most(wall));
            let cause = match most {
                Some(0) => format!("`{key}` is 0 ({said})"),
                Some(most) => format!("`{key}` is {most}, and so many are in use ({said})"),
                None => format!("as many are in use as `{key}` allows ({said})"),
            };
            return (cause, sysctl(&key, most.unwrap_or(0).saturating_mul(2).max(ENOUGH)));
        }
        if self.userns_clone == Some(0) && !self.root && refused {
            let cause = format!("`kernel.unprivileged_userns_clone` is 0 ({said})");
            return (cause, sysctl("kernel.unprivileged_userns_clone", 1));
        }
        if refused && self.is_restricted_by_apparmor() {
            return self.apparmor();
        }
        if self.filtered && (refused || error == libc::ENOSYS) {
            return self.filter_outside(&said);
        }
        match error {
            libc::EINVAL | libc::ENOSYS => (
                format!("kernel {} was built without {} ({said})", self.kernel, wall.layer()),
                "use a kernel with CONFIG_NAMESPACES=y, CONFIG_USER_NS=y, CONFIG_PID_NS=y and CONFIG_NET_NS=y".into(),
            ),
            libc::EAGAIN => (
                format!("no further process can be made ({said})"),
                "end some processes, or raise the limit that is reached: `ulimit -u`, `pids.max` of the control group, or \
                 `kernel.pid_max`"
                    .into(),
            ),
            libc::EUSERS => (
                "user namespaces are nested 32 deep already".into(),
                "start palisade outside of the other sandboxes".into(),
            ),
            _ => (
                format!("the kernel refused it ({said}); perhaps this is a chroot, or a security module objects"),
                "start palisade outside of a chroot, and look for a denial with `sudo journalctl -k -n 50`".into(),
            ),
        }
    }

    fn most(&self, wall: Wall) -> Option<u64> {
        self.most.get(wall.spelled()).copied()
    }

    fn landlock(&self, error: i32) -> (String, String) {
        let said = said(error);
        match error {
            libc::EOPNOTSUPP => {
                let modules = self.modules.clone().unwrap_or_default();
                let list = if modules.is_empty() { "yama,apparmor".to_owned() } else { modules };
                (
                    format!("it is built in and switched off: it is not in the list of `lsm=` ({said})"),
                    format!(
                        "add `lsm=landlock,{list}` to the kernel's command line (GRUB_CMDLINE_LINUX in \
                         /etc/default/grub, then `sudo update-grub`) and start the machine again"
                    ),
                )
            }
            libc::ENOSYS if !self.filtered || self.version() < (5, 13) => (
                format!("kernel {} does not have it ({said})", self.kernel),
                "use a kernel of 5.13 or later with CONFIG_SECURITY_LANDLOCK=y".into(),
            ),
            _ if self.filtered => self.filter_outside(&said),
            _ => (
                format!("the kernel refused it ({said})"),
                "look for a denial with `sudo journalctl -k -n 50`".into(),
            ),
        }
    }

    fn overlay(&self, error: i32) -> (String, String) {
        let said = said(error);
        match error {
            libc::ENODEV => {
                ("the kernel's overlay module is not loaded".into(), "sudo modprobe overlay".into())
            }
            libc::EPERM | libc::EACCES if self.version() < (5, 11) => (
                format!("kernel {} lets only root mount an overlay ({said})", self.kernel),
                "use a kernel of 5.11 or later".into(),
            ),
            libc::EPERM | libc::EACCES | libc::ENOSYS if self.filtered => self.filter_outside(&said),
            _ => (
                format!(
                    "the file system of the state directory cannot hold a layer, or the worktree lies on two already ({said})"
                ),
                "put the state on ext4, xfs, btrfs or tmpfs (set XDG_STATE_HOME to a directory there), and the worktree on a disk or \
                 a volume"
                    .into(),
            ),
        }
    }

    fn is_restricted_by_apparmor(&self) -> bool {
        // Our own profile lifts the restriction, so something else is in the way.
        let is_ours =
            self.apparmor_profile.as_deref().is_some_and(|profile| profile.starts_with("palisade ("));
        let restricts = self.apparmor_userns.is_some_and(|value| value > 0);
        !self.root && !is_ours && (restricts || self.confined_by().is_some())
    }

    /// The profile of this process, if it keeps it from anything.
    fn confined_by(&self) -> Option<&str> {
        self.apparmor_profile.as_deref().filter(|profile| !profile.ends_with("(unconfined)"))
    }

    fn apparmor(&self) -> (String, String) {
        match self.confined_by() {
            // Whoever is confined stays so, whatever profile the program itself has.
            Some(profile) => (
                format!("the AppArmor profile `{profile}` is on this process"),
                "start palisade outside of the program that this profile is for, or let an administrator add `userns,` \
                 to the profile"
                    .into(),
            ),
            None => (
                "`kernel.apparmor_restrict_unprivileged_userns` is on and no AppArmor profile lets palisade use user \
                 namespaces"
                    .into(),
                format!("sudo -H '{}' setup apparmor", self.program.display()),
            ),
        }
    }

    fn outer(&self) -> String {
        self.container
            .map_or_else(|| "the outer sandbox".into(), |kind| format!("the outer container ({kind})"))
    }

    fn filter_outside(&self, said: &str) -> (String, String) {
        let fix = match self.container {
            Some("docker" | "podman" | "containerd") => {
                "start the container with `--security-opt seccomp=unconfined`, or with a profile that allows clone3, \
                 unshare, mount, fsopen, open_tree, move_mount, mount_setattr, pivot_root, landlock_* and seccomp"
            }
            Some("kubernetes") => "set `securityContext.seccompProfile.type: Unconfined` for the container",
            _ => {
                "start palisade outside of it, or let its filter allow clone3, mount, landlock_* and seccomp"
            }
        };
        (format!("a seccomp filter of {} refuses it ({said})", self.outer()), fix.into())
    }
}

/// Whether a map of users has those that sandboxes of root have.
fn holds_users(map: &str) -> bool {
    let holds = |line: &str| {
        let mut numbers = line.split_whitespace().map(|word| word.parse::<u64>().unwrap_or(0));
        let (first, count) = (numbers.next().unwrap_or(0), numbers.nth(1).unwrap_or(0));
        (first..first.saturating_add(count)).contains(&u64::from(FIRST_OWN_USER))
    };
    map.lines().any(holds)
}

fn said(error: i32) -> String {
    if error == 0 { "no error was told".into() } else { io::Error::from_raw_os_error(error).to_string() }
}

/// Now, and after the next start.
fn sysctl(key: &str, value: u64) -> String {
    format!(
        "sudo sysctl -w {key}={value} && echo '{key} = {value}' | sudo tee -a /etc/sysctl.d/90-palisade.conf"
    )
}

fn container(root: &Path, text: &dyn Fn(&str) -> Option<String>) -> Option<&'static str> {
    if root.join(".dockerenv").exists() {
        return Some("docker");
    }
    if root.join("run/.containerenv").exists() {
        return Some("podman");
    }
    if root.join("var/run/secrets/kubernetes.io").exists() {
        return Some("kubernetes");
    }
    let groups = text("proc/1/cgroup").unwrap_or_default();
    let kinds = [("docker", "docker"), ("kubepods", "kubernetes"), ("libpod", "podman"), ("lxc", "lxc")];
    kinds.into_iter().find(|(mark, _)| groups.contains(mark)).map(|(_, kind)| kind)
}
