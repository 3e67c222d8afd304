//! Landlock: what files may be reached, whatever the mounts say.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use super::{checked, owned};

const VERSION: u32 = 1;
const PATH_BENEATH: u32 = 1;

#[repr(C)]
struct RulesetAttr {
    handled_fs: u64,
    handled_net: u64,
    scoped: u64,
}

#[repr(C, packed)]
struct PathAttr {
    allowed: u64,
    parent: i32,
}

/// The version of Landlock that this kernel speaks; none if it has none or it is switched off.
pub(crate) fn version() -> Option<u32> {
    // SAFETY: with this flag the kernel reads nothing.
    let version = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<RulesetAttr>(), 0, VERSION)
    };
    u32::try_from(version).ok().filter(|version| *version > 0)
}

/// Rules being gathered.
pub(crate) struct Ruleset(OwnedFd);

impl Ruleset {
    /// Everything handled is refused until a rule allows it.
    pub(crate) fn new(version: u32, handled: u64, scopes: u64) -> io::Result<Self> {
        let attr = RulesetAttr { handled_fs: handled, handled_net: 0, scoped: scopes };
        // Older kernels know fewer fields and refuse longer structures.
        let size = if version >= 6 {
            24
        } else if version >= 4 {
            16
        } else {
            8
        };
        // SAFETY: `size` is at most the size of `attr`, which outlives the call.
        owned(unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, &raw const attr, size, 0) }).map(Self)
    }

    /// Allows this much at and beneath a place.
    pub(crate) fn allow(&self, place: BorrowedFd<'_>, rights: u64) -> io::Result<()> {
        let attr = PathAttr { allowed: rights, parent: place.as_raw_fd() };
        // SAFETY: the structure is the one that belongs to this kind of rule and outlives the call.
        checked(unsafe {
            libc::syscall(libc::SYS_landlock_add_rule, self.0.as_raw_fd(), PATH_BENEATH, &raw const attr, 0)
        })?;
        Ok(())
    }

    /// Puts the rules in force for this process, for good.
    pub(crate) fn enforce(self) -> io::Result<()> {
        // SAFETY: no pointers.
        checked(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, self.0.as_raw_fd(), 0) })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use super::*;
    use crate::wall;

    /// Asks for what each right that no mount holds is about, and prints the errors.
    const TRIES: &str = r#"
import fcntl, os, socket, sys
def tried(what):
    try:
        what()
        return 0
    except OSError as error:
        return error.errno
wanted = socket.socket(socket.AF_UNIX)
null = os.open("/dev/null", os.O_RDWR)
print(tried(lambda: wanted.connect("\0" + sys.argv[1])), tried(lambda: os.kill(os.getppid(), 0)),
      tried(lambda: fcntl.ioctl(null, 0x5401, bytes(64))))
"#;

    #[test]
    fn sbx_02_both_scopes_and_devices_hold_without_any_namespace() {
        let Some(version) = version().filter(|version| *version >= 6) else { return };
        let name = format!("palisade-scopes-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let _listener = UnixListener::bind_addr(&address).unwrap();
        let said = |handled: u64, scopes: u64| {
            let rules = Ruleset::new(version, handled, scopes).unwrap();
            let mut python = Command::new("python3");
            python.args(["-c", TRIES, &name]);
            // SAFETY: two calls without pointers between fork and exec.
            unsafe {
                python.pre_exec(move || {
                    rustix::thread::set_no_new_privs(true)?;
                    let rules = rustix::io::fcntl_dupfd_cloexec(&rules.0, 3)?;
                    Ruleset(rules).enforce()
                });
            }
            String::from_utf8(python.output().unwrap().stdout).unwrap().trim().to_owned()
        };
        let devices = 1 << wall::RIGHTS.iter().position(|right| *right == "ioctl_dev").unwrap();
        let (handled, scopes) = (wall::handled(version) & devices, wall::scopes(version));
        let (refused, access, strange) = (libc::EPERM, libc::EACCES, libc::ENOTTY);
        assert_eq!(said(handled, scopes), format!("{refused} {refused} {access}"));
        // The control: with another right, the same is had, and the device itself says that it is no terminal.
        assert_eq!(said(devices >> 1, 0), format!("0 0 {strange}"));
    }
}
