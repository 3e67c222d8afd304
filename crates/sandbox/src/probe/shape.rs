//! Turns a plan into the name of its shape: what decides whether an attack gets through, without the person's paths.
//!
//! The name also holds the boot, the build and the user, so that a new kernel, a new program or another person means
//! a new test. Invariant: two plans of one name differ in paths of people, sizes and texts only.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::filter::Tracing;
use crate::plan::{Access, Mount, Plan, Source};

/// First parts of paths that mean the same on every machine; what is mounted there is part of the shape.
const SYSTEM: [&str; 16] = [
    "usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "opt", "nix", "etc", "dev", "proc", "sys",
    "run", "var", "boot",
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

/// The shape itself, as bytes that only this program reads.
pub(crate) fn shape(plan: &Plan) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(4096);
    let mut places: BTreeSet<[u8; 6]> = BTreeSet::new();
    for mount in &plan.mounts {
        let code = code(mount);
        if mount.base || is_system(&mount.at) {
            bytes.extend_from_slice(mount.at.as_os_str().as_bytes());
            bytes.push(0);
            bytes.extend_from_slice(&code);
        } else {
            places.insert(code);
        }
    }
    bytes.push(0);
    bytes.extend(places.into_iter().flatten());
    bytes.push(0);
    bytes.extend(plan.left_out.iter().flat_map(|part| part.word().bytes()));
    // The filter itself belongs to the build.
    let traces = plan.tracing == Tracing::Own;
    bytes.extend([0, u8::from(traces), u8::from(plan.identity.owns.is_some())]);
    bytes.extend(plan.landlock.to_le_bytes());
    // A network is one shape, whatever it reaches, and with ways in it is another.
    let network = plan.captured.as_ref().map_or(0, |captured| 1 + u8::from(captured.ways_in));
    bytes.push(network);
    bytes
}

fn is_system(at: &Path) -> bool {
    let text = at.as_os_str().as_bytes();
    let mut parts = text.split(|byte| *byte == b'/').filter(|part| !part.is_empty());
    match parts.next() {
        None => true,
        Some(first) if OF_PEOPLE.iter().any(|name| first == name.as_bytes()) => parts.next().is_none(),
        Some(first) => SYSTEM.iter().any(|system| first == system.as_bytes()),
    }
}

/// What a mount shows and allows, in six bytes.
fn code(mount: &Mount) -> [u8; 6] {
    let source = match &mount.source {
        Source::Host(path) if path.as_os_str() == mount.at.as_os_str() => 0,
        Source::Host(path) if is_system(path) => 1,
        Source::Host(_) => 2,
        Source::Memory(..) => 3,
        Source::Processes => 4,
        Source::Terminals => 5,
        Source::Nothing => 6,
        Source::Layer(_) => 7,
        Source::Part { .. } => 8,
        Source::Skeleton(_) => 9,
    };
    let access = match mount.access {
        Access::Read => 0,
        Access::Write => 1,
        Access::Device => 2,
    };
    let flags = [mount.owned, mount.programs, mount.writable_anyway, mount.base].map(u8::from);
    [source, access, flags[0], flags[1], flags[2], flags[3]]
}
