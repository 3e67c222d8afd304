//! What code that a model wrote is kept from, beside what the sandbox keeps it from: the network, and files elsewhere.
//!
//! Holds for the thread that takes it and whatever that starts. A kernel that cannot do all of it is an error.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus,
    path_beneath_rules,
};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

/// What interpreters are made of.
const SYSTEM: [&str; 7] =
    ["/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime", "/dev/urandom"];

/// What may be touched: the place of the code, and the directory of the session.
pub(super) struct Wall {
    pub(super) code: PathBuf,
    pub(super) writable: bool,
}

impl Wall {
    /// As one argument of the minder.
    pub(super) fn word(wall: Option<&Self>) -> std::ffi::OsString {
        let Some(wall) = wall else { return "none".into() };
        let mut word = std::ffi::OsString::from(if wall.writable { "rw:" } else { "ro:" });
        word.push(&wall.code);
        word
    }

    /// What such an argument says.
    pub(super) fn parsed(word: &str) -> Option<Option<Self>> {
        match word.split_once(':') {
            None => (word == "none").then_some(None),
            Some((access @ ("ro" | "rw"), code)) => {
                Some(Some(Self { code: PathBuf::from(code), writable: access == "rw" }))
            }
            Some(_) => None,
        }
    }

    /// Takes everything else from this thread.
    pub(super) fn stand(&self, cwd: &Path) -> io::Result<()> {
        // The third version is the first that also keeps files from being emptied.
        let all = AccessFs::from_all(ABI::V3);
        let read = AccessFs::from_read(ABI::V3);
        let own = if self.writable { all } else { read };
        let status = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(all)
            .and_then(Ruleset::create)
            .and_then(|rules| rules.add_rules(path_beneath_rules(SYSTEM, read)))
            .and_then(|rules| rules.add_rules(path_beneath_rules(["/dev/null"], all)))
            .and_then(|rules| rules.add_rules(path_beneath_rules([&self.code], read)))
            .and_then(|rules| rules.add_rules(path_beneath_rules([cwd], own)))
            .and_then(|rules| rules.restrict_self())
            .map_err(io::Error::other)?;
        if status.ruleset != RulesetStatus::FullyEnforced || !status.no_new_privs {
            return Err(io::Error::other("the kernel keeps files only in part"));
        }
        let program: BpfProgram = filter()?.try_into().map_err(io::Error::other)?;
        seccompiler::apply_filter(&program).map_err(io::Error::other)
    }
}

/// No sockets, nor the queue that makes them without a call.
fn filter() -> io::Result<SeccompFilter> {
    let calls = [libc::SYS_socket, libc::SYS_io_uring_setup];
    let rules: BTreeMap<i64, _> = calls.into_iter().map(|call| (call, Vec::new())).collect();
    let refused = SeccompAction::Errno(libc::EACCES.unsigned_abs());
    let here = std::env::consts::ARCH.try_into().map_err(io::Error::other)?;
    SeccompFilter::new(rules, SeccompAction::Allow, refused, here).map_err(io::Error::other)
}
