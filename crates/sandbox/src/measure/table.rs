//! The mount table of a sandbox, as the kernel tells it and as the plan comes to it.
//!
//! Invariant: a table that was read ahead counts only as long as the kernel says that nothing was mounted, unmounted or
//! set otherwise in that namespace since it was opened. The kernel does not say that a directory above a mount got another
//! name: whoever reads ahead looks himself whether each mount is still where it was.

use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Process, strange};
use crate::plan::{Access, Mount, Plan, Source};
use crate::receipt::{MountEntry, Mounts};

/// What is mounted, in short, and what was to be.
#[derive(Debug)]
pub(crate) struct Table {
    file: OwnedFd,
    pub(super) found: Mounts,
    pub(super) planned: Mounts,
}

impl Table {
    /// Reads the table of a sandbox that stands.
    pub(crate) fn of(pid: rustix::process::Pid, plan: &Plan) -> io::Result<Self> {
        Self::read(&Process::of(pid)?, plan)
    }

    pub(super) fn read(process: &Process, plan: &Plan) -> io::Result<Self> {
        let file = process.open("mountinfo")?;
        let table = found(&super::text(super::bytes(&file)?), plan)?;
        let planned = Mounts::over(&planned_table(plan, &table));
        Ok(Self { file, found: Mounts::over(&table), planned })
    }

    /// Whether nothing changed since it was read.
    pub(super) fn holds(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.file, PollFlags::PRI)], Some(&now)) == Ok(0)
    }
}

/// The mount table, without what differs from run to run.
fn found(text: &str, plan: &Plan) -> io::Result<Vec<MountEntry>> {
    let mut table = Vec::new();
    for line in text.lines() {
        let mut words = line.split(' ').skip(4);
        let (Some(at), Some(options)) = (words.next(), words.next()) else {
            return Err(strange("mountinfo"));
        };
        let kind = line.split_once(" - ").and_then(|(_, rest)| rest.split(' ').next());
        let Some(kind) = kind else { return Err(strange("mountinfo")) };
        table.push(entry(&unescaped(at), kind, options.split(',')));
    }
    // What a host directory is kept on is the host's business; what is ours is named.
    let ours = ["tmpfs", "proc", "devpts", "overlay"];
    let (mut host, mut own) = (HashSet::new(), HashSet::new());
    for planned in &plan.mounts {
        let kind = if matches!(planned.source, Source::Host(_)) { &mut host } else { &mut own };
        kind.insert(planned.at.to_string_lossy());
    }
    for mount in &mut table {
        let of_host = host.contains(mount.target.as_str()) && !own.contains(mount.target.as_str());
        if of_host || !ours.contains(&mount.kind.as_str()) {
            mount.kind = "host".into();
        }
    }
    Ok(table)
}

fn entry<'a>(at: &str, kind: &str, options: impl Iterator<Item = &'a str>) -> MountEntry {
    let counted = ["ro", "nosuid", "nodev", "noexec"];
    let flags = options.filter(|option| counted.contains(option)).map(str::to_owned).collect();
    MountEntry { target: at.to_owned(), kind: kind.to_owned(), root: String::new(), flags }
}

/// A path as `mountinfo` writes it, with three octal digits for what would break the line.
fn unescaped(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        let octal = (*first == b'\\').then(|| more.get(..3)).flatten();
        let byte = octal.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match byte {
            Some(byte) => {
                out.push(byte);
                rest = more.get(3..).unwrap_or_default();
            }
            None => {
                out.push(*first);
                rest = more;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The table that the plan comes to. What is mounted below a directory of the host comes along with it; it is
/// expected where it is, provided that it has the attributes of what brought it.
fn planned_table(plan: &Plan, found: &[MountEntry]) -> Vec<MountEntry> {
    let mut table = vec![entry("/", "tmpfs", ["ro", "nosuid", "nodev"].into_iter())];
    table.extend(plan.mounts.iter().map(planned_entry));
    let count = |table: &[MountEntry], target: &str| table.iter().filter(|at| at.target == target).count();
    let known: HashSet<&str> = table.iter().map(|known| known.target.as_str()).collect();
    let brought = |(place, extra): &(usize, &MountEntry)| {
        let target = extra.target.as_str();
        // What the host has at a place of the plan lies below what was put there: it is older, and stands before it.
        if known.contains(target) {
            let later = found.get(place + 1..).map_or(0, |rest| count(rest, target));
            if later < count(&table, target) {
                return false;
            }
        }
        let brings = |mount: &&Mount| {
            matches!(mount.source, Source::Host(_))
                && Path::new(target).starts_with(&mount.at)
                && (!known.contains(target) || mount.at != Path::new(target))
        };
        let by = plan.mounts.iter().rfind(brings);
        by.is_some_and(|mount| planned_entry(mount).flags.is_subset(&extra.flags))
    };
    let brought: Vec<MountEntry> =
        found.iter().enumerate().filter(brought).map(|(_, extra)| extra.clone()).collect();
    table.extend(brought);
    table
}

fn planned_entry(mount: &Mount) -> MountEntry {
    let kind = match &mount.source {
        Source::Host(_) => "host",
        Source::Memory(..) | Source::Nothing => "tmpfs",
        Source::Processes => "proc",
        Source::Terminals => "devpts",
        Source::Layer(_) => "overlay",
    };
    let read = (mount.access == Access::Read && !mount.writable_anyway).then_some("ro");
    let devices = (mount.access != Access::Device).then_some("nodev");
    let programs = (!mount.programs).then_some("noexec");
    entry(&mount.at.to_string_lossy(), kind, [read, devices, programs, Some("nosuid")].into_iter().flatten())
}
