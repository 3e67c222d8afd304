//! The mount table of a sandbox, as the kernel tells it and as the plan comes to it.
//!
//! Invariant: a table that was read ahead counts only as long as the kernel says that nothing was mounted, unmounted or
//! set otherwise in that namespace since it was opened. The kernel does not say that a directory above a mount got another
//! name: whoever reads ahead by more than the moment in which process 1 comes to stand looks himself whether each mount is
//! still where it was.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Process, strange};
use crate::plan::{Access, Mount, Plan, Source};
use crate::receipt::Mounts;

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
        let text = super::text(super::bytes(&file)?);
        let table = found(&text, &plan.mounts)?;
        let planned = in_short(&planned(plan, &table));
        Ok(Self { found: in_short(&table), planned, file })
    }

    /// Whether nothing changed since it was read.
    pub(super) fn holds(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.file, PollFlags::PRI)], Some(&now)) == Ok(0)
    }
}

/// One mount of a table. A start has some sixty of them twice, and waits: nothing is copied that need not be.
struct Row<'a> {
    target: Cow<'a, str>,
    kind: &'a str,
    flags: Flags,
}

/// Which of [`COUNTED`] a mount has, one bit each.
type Flags = u8;

/// What a directory of the host is called, whatever it is kept on.
const HOST: &str = "host";

/// The options that are counted, in order.
const COUNTED: [&str; 4] = ["nodev", "noexec", "nosuid", "ro"];

fn flags<'a>(options: impl Iterator<Item = &'a str>) -> Flags {
    let bit = |option| COUNTED.iter().position(|counted| *counted == option).map_or(0, |place| 1 << place);
    options.map(bit).fold(0, |flags, bit| flags | bit)
}

/// The table in short.
fn in_short(table: &[Row<'_>]) -> Mounts {
    Mounts::of_rows(table.iter().map(|row| (&*row.target, words(row))).collect())
}

/// What a mount is, its part, its flags in order. What part of its file system it shows is not told apart: it is empty.
fn words<'a>(row: &'a Row<'_>) -> Vec<&'a str> {
    let has = COUNTED.iter().enumerate().filter(|(place, _)| row.flags & (1 << place) != 0);
    [row.kind, ""].into_iter().chain(has.map(|(_, option)| *option)).collect()
}

/// The mount table, without what differs from run to run.
fn found<'a>(text: &'a str, mounts: &[Mount]) -> io::Result<Vec<Row<'a>>> {
    let mut table = Vec::with_capacity(mounts.len() + 1);
    // What a host directory is kept on is the host's business; what is ours is named.
    let ours = ["tmpfs", "proc", "devpts", "overlay"];
    // Of each place, the kinds that its mounts are to have.
    let mut kinds: HashMap<Cow<'_, str>, Vec<&str>> = HashMap::with_capacity(mounts.len());
    for planned in mounts.iter().map(planned_row) {
        kinds.entry(planned.target).or_default().push(planned.kind);
    }
    for line in text.lines() {
        let mut words = line.split(' ').skip(4);
        let (Some(at), Some(options)) = (words.next(), words.next()) else {
            return Err(strange("mountinfo"));
        };
        let kind = words.skip_while(|word| *word != "-").nth(1);
        let Some(kind) = kind else { return Err(strange("mountinfo")) };
        table.push(Row { target: unescaped(at), kind, flags: flags(options.split(',')) });
    }
    // Later ones are above earlier ones: what is ours is found first, and what is left is the host's, also a directory that is
    // kept in memory or on a layer of somebody else's.
    for row in table.iter_mut().rev() {
        let is_ours = ours.contains(&row.kind);
        let mut wanted = kinds.get_mut(&*row.target);
        let mut takes = |kind: &str| {
            let place = wanted.as_ref().and_then(|kinds| kinds.iter().position(|one| *one == kind));
            place.zip(wanted.as_mut()).map(|(place, kinds)| kinds.swap_remove(place)).is_some()
        };
        let is_own = is_ours && takes(row.kind);
        let is_host = !is_own && takes(HOST);
        if is_host || !is_ours {
            row.kind = HOST;
        }
    }
    Ok(table)
}

/// A path as `mountinfo` writes it, with three octal digits for what would break the line.
fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
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
    Cow::Owned(String::from_utf8_lossy(&out).into_owned())
}

/// The table that the plan comes to. What is mounted below a directory of the host comes along with it; it is
/// expected where it is, provided that it has the attributes of what brought it.
fn planned<'a>(plan: &'a Plan, found: &'a [Row<'a>]) -> Vec<Row<'a>> {
    let root = flags(["ro", "nosuid", "nodev"].into_iter());
    let mut table = Vec::with_capacity(found.len());
    table.push(Row { target: Cow::Borrowed("/"), kind: "tmpfs", flags: root });
    table.extend(plan.mounts.iter().map(planned_row));
    let known: HashSet<&str> = table.iter().map(|known| &*known.target).collect();
    let brought = |(place, extra): &(usize, &Row<'_>)| {
        let target = &*extra.target;
        // What the host has at a place of the plan lies below what was put there: it is older, and stands before it.
        let is_covered = || {
            let count = |rows: &[Row<'_>]| rows.iter().filter(|row| row.target == target).count();
            found.get(place + 1..).is_some_and(|later| count(later) >= count(&table))
        };
        let is_known = known.contains(target);
        if is_known && !is_covered() {
            return false;
        }
        let brings = |mount: &&Mount| {
            matches!(mount.source, Source::Host(_))
                && Path::new(target).starts_with(&mount.at)
                && (!is_known || mount.at != Path::new(target))
        };
        let has_all = |mount: &Mount| planned_row(mount).flags & !extra.flags == 0;
        plan.mounts.iter().rfind(brings).is_some_and(has_all)
    };
    let again =
        |row: &'a Row<'a>| Row { target: Cow::Borrowed(&*row.target), kind: row.kind, flags: row.flags };
    let brought: Vec<Row<'a>> = found.iter().enumerate().filter(brought).map(|(_, row)| again(row)).collect();
    table.extend(brought);
    table
}

fn planned_row(mount: &Mount) -> Row<'_> {
    let kind = match &mount.source {
        Source::Host(_) => HOST,
        Source::Memory(..) | Source::Nothing | Source::Skeleton(_) => "tmpfs",
        Source::Processes => "proc",
        Source::Terminals => "devpts",
        Source::Layer(_) | Source::Part { .. } => "overlay",
    };
    let read = (mount.access == Access::Read && !mount.writable_anyway).then_some("ro");
    let devices = (mount.access != Access::Device).then_some("nodev");
    let programs = (!mount.programs).then_some("noexec");
    let flags = flags([read, devices, programs, Some("nosuid")].into_iter().flatten());
    Row { target: mount.at.to_string_lossy(), kind, flags }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receipt::MountEntry;

    fn row(target: &'static str, options: &str) -> Row<'static> {
        Row { target: Cow::Borrowed(target), kind: "host", flags: flags(options.split(',')) }
    }

    /// Receipts of before and after are compared by it.
    #[test]
    fn a_table_in_short_is_that_of_its_entries() {
        let entry = |target: &str, flags: &[&str]| MountEntry {
            target: target.into(),
            kind: "host".into(),
            root: String::new(),
            flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
        };
        let rows =
            [row("/usr", "ro,nosuid,nodev,relatime"), row("/a b", "rw,noexec,nosuid"), row("/c", "rw")];
        let entries = [
            entry("/usr", &["nodev", "nosuid", "ro"]),
            entry("/a b", &["noexec", "nosuid"]),
            entry("/c", &[]),
        ];
        assert_eq!(in_short(&rows), Mounts::over(&entries));
    }

    #[test]
    fn every_counted_option_counts_and_no_other() {
        let short = |options: &str| in_short(&[row("/usr", options)]);
        let all = short("ro,nosuid,nodev,noexec");
        for without in ["nosuid,nodev,noexec", "ro,nodev,noexec", "ro,nosuid,noexec", "ro,nosuid,nodev"] {
            assert_ne!(short(without), all, "{without}");
        }
        assert_eq!(short("noexec,relatime,nodev,ro,nosuid"), all);
    }

    /// A worktree that is kept in memory: what is below its layer is the host's, whatever it is kept on.
    #[test]
    fn a_directory_of_the_host_is_one_on_any_file_system() {
        for kind in ["ext4", "tmpfs", "overlay"] {
            let line =
                |at: &str, options: &str, kind: &str| format!("1 2 0:1 / {at} {options} - {kind} x rw\n");
            let text = [
                line("/w", "ro,nosuid,nodev", kind),
                line("/w", "rw,nosuid,nodev", "overlay"),
                line("/w/.env", "ro,nosuid,nodev,noexec", "tmpfs"),
            ];
            let rows = kinds_of(&text.concat());
            assert_eq!(rows, [("/w", "host"), ("/w", "overlay"), ("/w/.env", "tmpfs")].map(owned), "{kind}");
        }
        // What the host had at the place of a mount of ours stands before it.
        let text = "1 2 0:1 / /tmp rw - tmpfs x rw\n2 2 0:1 / /w rw - tmpfs x rw\n3 2 0:1 / /w rw - tmpfs x rw\n\
                    4 2 0:1 / /w rw - overlay x rw\n";
        let expected = [("/tmp", "tmpfs"), ("/w", "tmpfs"), ("/w", "host"), ("/w", "overlay")].map(owned);
        assert_eq!(kinds_of(text), expected);
    }

    fn owned((at, kind): (&str, &str)) -> (String, String) {
        (at.to_owned(), kind.to_owned())
    }

    fn kinds_of(text: &str) -> Vec<(String, String)> {
        let layer = crate::plan::Layer { stubs: None, changes: "/c".into(), work: "/k".into() };
        let mounts = [
            Mount::host("/w", "/w", Access::Read),
            Mount::own(Source::Layer(layer), "/w", Access::Write),
            Mount::own(Source::Nothing, "/w/.env", Access::Read),
        ];
        let rows = found(text, &mounts).unwrap();
        rows.iter().map(|row| owned((&row.target, row.kind))).collect()
    }

    #[test]
    fn what_mountinfo_escapes_is_read_back() {
        assert_eq!(unescaped("/a\\040b\\134c"), "/a b\\c");
        assert_eq!(unescaped("/plain"), "/plain");
        assert_eq!(unescaped("/cut\\04"), "/cut\\04");
    }
}
