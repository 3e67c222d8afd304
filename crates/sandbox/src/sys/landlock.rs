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
