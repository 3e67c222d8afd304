//! Turns a plan into the name of its shape: what decides whether an attack gets through, without the person's paths.
//!
//! The name also holds the boot, the build and the user, so that a new kernel, a new program or another person means
//! a new test. Invariant: two plans of one name differ in paths of people, sizes and texts only.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::plan::{Mount, Plan, Source};

/// First parts of paths that mean the same on every machine; what is mounted there is part of the shape.
const SYSTEM: [&str; 16] = [
    "usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "opt", "nix", "etc", "dev", "proc", "sys", "run", "var",
    "boot",
];

/// Directories that belong to people below their first part.
const OF_PEOPLE: [&str; 3] = ["tmp", "home", "root"];

/// The name of this plan's shape, as a file name: the boot, a minus, the rest.
pub(crate) fn name(plan: &Plan) -> io::Result<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let build = std::fs::metadata("/proc/self/exe")?;
    let mut hash = Sha256::new();
    hash.update(boot.trim());
    for number in [build.dev(), build.ino(), build.size()] {
        hash.update(number.to_le_bytes());
    }
    for number in [build.mtime(), build.mtime_nsec(), build.ctime(), build.ctime_nsec()] {
        hash.update(number.to_le_bytes());
    }
    hash.update(rustix::process::geteuid().as_raw().to_le_bytes());
    hash.update(shape(plan));
    let boot: String = boot.chars().filter(char::is_ascii_hexdigit).take(8).collect();
    let rest = hex::encode(hash.finalize());
    Ok(format!("{boot}-{}", rest.get(..32).unwrap_or(&rest)))
}

/// The shape itself.
fn shape(plan: &Plan) -> String {
    let mut text = String::with_capacity(4096);
    let mut places = BTreeSet::new();
    for mount in &plan.mounts {
        let line = line(mount);
        if is_system(&mount.at) {
            let _ = writeln!(text, "{} {line}", mount.at.display());
        } else {
            places.insert(line);
        }
    }
    for line in places {
        let _ = writeln!(text, "place {line}");
    }
    let owns = plan.identity.owns.is_some();
    // The filter itself belongs to the build.
    let _ = writeln!(text, "{:?} {} {:?} {owns}", plan.left_out, plan.landlock, plan.tracing);
    text
}

fn is_system(at: &Path) -> bool {
    let mut parts = at.components().skip(1);
    match parts.next() {
        None => true,
        Some(first) if OF_PEOPLE.iter().any(|name| first.as_os_str() == *name) => parts.next().is_none(),
        Some(first) => SYSTEM.iter().any(|system| first.as_os_str() == *system),
    }
}

fn line(mount: &Mount) -> String {
    let source = match &mount.source {
        Source::Host(path) if *path == mount.at => "same",
        Source::Host(path) if is_system(path) => "system",
        Source::Host(_) => "other",
        Source::Memory(..) => "memory",
        Source::Processes => "processes",
        Source::Terminals => "terminals",
        Source::Nothing => "nothing",
        Source::Layer(_) => "layer",
    };
    format!("{source} {:?} {} {} {}", mount.access, mount.owned, mount.programs, mount.writable_anyway)
}
