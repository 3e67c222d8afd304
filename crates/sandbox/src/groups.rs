//! Control groups: limits that count every process of a sandbox together, on either version of the interface.
//!
//! Flow: [`Wanted`] -> [`Groups`] (directories made, limits written) -> the first process enters as it is made ->
//! dropped: removed. Version 2 is entered by the fork itself; version 1 by the child, which writes `0` into
//! descriptors that were opened before (moving another process costs ten times as much).
//!
//! Invariant: [`Groups::enforced`] names a limit only after the kernel gave the same number back. Without
//! delegation there is nothing here, and the receipt says so.

use std::fs;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

const TREE: &str = "/sys/fs/cgroup";

/// What is to be limited together.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Wanted {
    pub(crate) memory: Option<u64>,
    pub(crate) pids: Option<u64>,
    /// Thousandths of a core.
    pub(crate) cpu: Option<u64>,
    pub(crate) io: Option<Speed>,
}

/// How fast a disk may be read, and as fast written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Speed {
    /// The disk, as the kernel numbers it; none: what is given lies on no disk that can be slowed down.
    pub(crate) disk: Option<(u32, u32)>,
    /// In a second.
    pub(crate) bytes: u64,
}

impl Speed {
    /// So many bytes in a second for the disk that a place lies on.
    pub(crate) fn of(place: &Path, bytes: u64) -> Self {
        Self { disk: disk_of(place, Path::new("/sys/dev/block")), bytes }
    }
}

/// The disk of a place. Only whole disks are slowed down, so a part of one stands for all of it; file systems that
/// are on no disk, or on several, have numbers that no disk has.
fn disk_of(place: &Path, devices: &Path) -> Option<(u32, u32)> {
    let device = rustix::fs::stat(place).ok()?.st_dev;
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let own = devices.join(format!("{major}:{minor}")).canonicalize().ok()?;
    if !own.join("partition").exists() {
        return Some((major, minor));
    }
    let whole = fs::read_to_string(own.parent()?.join("dev")).ok()?;
    let (major, minor) = whole.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

impl Wanted {
    /// How many limits there are to be.
    pub(crate) fn count(&self) -> usize {
        [self.memory, self.pids, self.cpu].iter().flatten().count() + usize::from(self.io.is_some())
    }
}

/// A limit that holds, with the number that the kernel gave back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Enforced {
    pub(crate) name: &'static str,
    pub(crate) value: String,
}

/// The groups of one sandbox; removed with the value.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    name: String,
    /// Where this process is, as the kernel tells it.
    own: String,
    folders: Vec<PathBuf>,
    /// The group of version 2, for the fork.
    pub(crate) unified: Option<OwnedFd>,
    unified_at: Option<PathBuf>,
    /// Groups of version 1, by controller.
    v1: Vec<(&'static str, PathBuf)>,
    /// `tasks` of each group of version 1, for the child.
    pub(crate) tasks: Vec<OwnedFd>,
    pub(crate) enforced: Vec<Enforced>,
}

/// What to write into a group: of which limit, which files, what.
struct Setting {
    name: &'static str,
    /// Of version 1.
    controller: &'static str,
    v1: &'static [&'static str],
    v2: &'static str,
    value: String,
    v2_value: String,
}

const PERIOD: u64 = 100_000;

fn settings(wanted: Wanted) -> Vec<Setting> {
    let mut all = Vec::new();
    let mut push = |name, controller, v1: &'static [_], v2, value: String, v2_value: Option<String>| {
        let v2_value = v2_value.unwrap_or_else(|| value.clone());
        all.push(Setting { name, controller, v1, v2, value, v2_value });
    };
    if let Some(bytes) = wanted.memory {
        // The kernel counts pages and gives whole ones back.
        let bytes = (bytes & !4095).to_string();
        push("memory", "memory", &["memory.limit_in_bytes"], "memory.max", bytes, None);
    }
    if let Some(pids) = wanted.pids {
        push("pids", "pids", &["pids.max"], "pids.max", pids.to_string(), None);
    }
    if let Some(cpu) = wanted.cpu {
        let quota = (cpu * PERIOD / 1000).max(1000).to_string();
        let v2 = format!("{quota} {PERIOD}");
        push("cpu", "cpu", &["cpu.cfs_quota_us"], "cpu.max", quota, Some(v2));
    }
    if let Some(Speed { disk: Some((major, minor)), bytes }) = wanted.io {
        // Version 1 slows down what goes to the disk at once; what is written back later is nobody's there.
        const V1: &[&str] = &["blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device"];
        let v2 = format!("{major}:{minor} rbps={bytes} wbps={bytes}");
        push("io", "blkio", V1, "io.max", format!("{major}:{minor} {bytes}"), Some(v2));
    }
    all
}

impl Groups {
    /// Makes the group of version 2 that this process may make for what is wanted, without limits yet.
    pub(crate) fn unified(name: &str, wanted: Wanted) -> Self {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mut groups = Self::default();
        groups.name = name.to_owned();
        groups.own = own;
        let place = groups.own.lines().find_map(|line| line.strip_prefix("0::")).map(str::to_owned);
        if let (Some(root), Some(place)) = (unified_root(), place) {
            groups.make_unified(&root, &place, &settings(wanted));
        }
        groups
    }

    /// Makes the groups of version 1 that are still wanted.
    pub(crate) fn more(&mut self, wanted: Wanted) {
        for setting in &settings(wanted) {
            let is_there = self.v1.iter().any(|(controller, _)| *controller == setting.controller)
                || self.unified_at.as_ref().is_some_and(|folder| folder.join(setting.v2).exists());
            if !is_there {
                let _ = self.make_v1(setting);
            }
        }
    }

    /// Whether what was made serves these limits as well as something made for them would.
    pub(crate) fn has(&self, wanted: Wanted) -> bool {
        let Some(folder) = &self.unified_at else { return true };
        let serves =
            |setting: &Setting| folder.join(setting.v2).exists() || self.place(setting.controller).is_some();
        settings(wanted).iter().all(serves)
    }

    /// Where this process is in the tree of a controller of version 1.
    fn place(&self, controller: &str) -> Option<&str> {
        self.own.lines().find_map(|line| {
            let (controllers, place) = line.split_once(':')?.1.split_once(':')?;
            controllers.split(',').any(|one| one == controller).then_some(place)
        })
    }

    /// Sets the limits; those that may not be set are not among the enforced.
    pub(crate) fn limit(&mut self, wanted: Wanted) {
        for setting in settings(wanted) {
            let v2 = self.unified_at.as_ref().filter(|folder| folder.join(setting.v2).exists()).cloned();
            let v1 = self.v1.iter().find(|(controller, _)| *controller == setting.controller);
            match (v2, v1.map(|(_, folder)| folder.clone())) {
                (Some(folder), _) => self.set(&folder, setting.name, &[setting.v2], &setting.v2_value),
                (None, Some(folder)) => self.set(&folder, setting.name, setting.v1, &setting.value),
                (None, None) => {}
            }
        }
    }

    /// Enters the groups of this name, wherever there are some; slow, and for one process only.
    pub(crate) fn enter(name: &str) -> io::Result<()> {
        for folder in named(name)? {
            fs::write(folder.join("cgroup.procs"), "0")?;
        }
        Ok(())
    }

    /// Removes groups of this name that a killed launcher left; what still has processes stays.
    pub(crate) fn forget(name: &str) {
        for folder in named(name).unwrap_or_default() {
            let _ = rustix::fs::rmdir(folder);
        }
    }

    /// Whether a controller is counted by the group of version 2.
    pub(crate) fn is_unified(&self, controller: &str) -> bool {
        self.unified_at.is_some() && !self.v1.iter().any(|(own, _)| *own == controller)
    }

    /// How they are called.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// A group of version 2, in the nearest of the groups above that is ours to divide and holds every limit; where none
    /// does, in the nearest that holds most of them.
    fn make_unified(&mut self, root: &Path, place: &str, settings: &[Setting]) {
        let mut best: Option<(usize, PathBuf)> = None;
        for above in Path::new(place.trim_start_matches('/')).ancestors() {
            let folder = root.join(above).join(&self.name);
            if fs::create_dir(&folder).is_err() {
                continue;
            }
            let lacks = settings.iter().filter(|setting| !folder.join(setting.v2).exists()).count();
            let is_last = above.as_os_str().is_empty();
            if lacks > 0 && (best.is_some() || (!is_last && root.join(above).join("memory.max").exists())) {
                // Some controllers are not handed on here; further up they may be.
                let _ = fs::remove_dir(&folder);
                if best.as_ref().is_none_or(|(fewest, _)| lacks < *fewest) {
                    best = Some((lacks, folder));
                }
                continue;
            }
            self.divided(folder);
            return;
        }
        if let Some((_, folder)) = best.filter(|(_, folder)| fs::create_dir(folder).is_ok()) {
            self.divided(folder);
        }
    }

    fn divided(&mut self, folder: PathBuf) {
        self.folders.push(folder.clone());
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        self.unified = rustix::fs::open(&folder, flags, Mode::empty()).ok();
        self.unified_at = Some(folder);
    }

    /// A group of version 1 for one limit.
    fn make_v1(&mut self, setting: &Setting) -> io::Result<()> {
        let Some(place) = self.place(setting.controller) else { return Ok(()) };
        let above = Path::new(TREE).join(setting.controller).join(place.trim_start_matches('/'));
        let folder = above.join(&self.name);
        fs::create_dir(&folder)?;
        self.folders.push(folder.clone());
        self.tasks.push(rustix::fs::open(
            folder.join("tasks"),
            OFlags::WRONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )?);
        self.v1.push((setting.controller, folder));
        Ok(())
    }

    /// Writes a limit, and believes it when it can be read back.
    fn set(&mut self, folder: &Path, name: &'static str, files: &[&str], value: &str) {
        let holds = |file: &&str| {
            let path = folder.join(file);
            let mut to = fs::OpenOptions::new().write(true).open(&path)?;
            to.write_all(value.as_bytes())?;
            Ok::<_, io::Error>(says(&fs::read_to_string(&path)?, value))
        };
        if files.iter().all(|file| holds(file).unwrap_or(false)) {
            self.enforced.push(Enforced { name, value: value.to_owned() });
        }
    }

    /// Where the time is told that every process took of the processor, and what stands before the number.
    pub(crate) fn time(&self) -> Option<(PathBuf, &'static str)> {
        let unified = self.unified_at.iter().map(|folder| (folder.join("cpu.stat"), "usage_usec "));
        // Both controllers of version 1 are often one.
        let v1 = self.v1.iter().filter(|(controller, _)| *controller == "cpu");
        let v1 = v1.map(|(_, folder)| (folder.join("cpuacct.usage"), ""));
        unified.chain(v1).find(|(file, _)| file.exists())
    }

    /// Whether a limit is held.
    pub(crate) fn holds(&self, name: &str) -> bool {
        self.enforced.iter().any(|enforced| enforced.name == name)
    }

    /// Stops every process of the sandbox where it is, or lets them go on; none if there is no group for it.
    pub(crate) fn freeze(&self, frozen: bool) -> Option<io::Result<()>> {
        let path = self.unified_at.as_ref()?.join("cgroup.freeze");
        Some(fs::write(path, if frozen { "1" } else { "0" }))
    }

    /// Whether they are to stand still; none if there is no group for it.
    pub(crate) fn is_frozen(&self) -> Option<bool> {
        let path = self.unified_at.as_ref()?.join("cgroup.freeze");
        Some(fs::read_to_string(path).is_ok_and(|text| text.trim() == "1"))
    }

    /// Whether they do.
    pub(crate) fn is_still(&self) -> bool {
        let Some(folder) = &self.unified_at else { return false };
        fs::read_to_string(folder.join("cgroup.events"))
            .is_ok_and(|text| text.lines().any(|line| line == "frozen 1"))
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for folder in &self.folders {
            // The last process may still be leaving.
            for _ in 0..100 {
                match rustix::fs::rmdir(folder) {
                    Err(rustix::io::Errno::BUSY) => std::thread::sleep(std::time::Duration::from_millis(1)),
                    _ => break,
                }
            }
        }
    }
}

/// Whether what was read back is what was written. A file about disks has a line for each, and names more than was said.
fn says(found: &str, value: &str) -> bool {
    let is_line = |line: &str| {
        let mut more = line.split_whitespace();
        value.split_whitespace().all(|word| more.any(|other| other == word))
    };
    found.trim() == value || (value.contains(':') && found.lines().any(is_line))
}

/// The groups of this name, from where this process is upwards.
fn named(name: &str) -> io::Result<Vec<PathBuf>> {
    let found = |places: Vec<PathBuf>| {
        places.into_iter().map(|above| above.join(name)).find(|folder| folder.is_dir())
    };
    Ok(places()?.into_iter().filter_map(found).collect())
}

/// For each tree: where this process is in it, and everything above.
fn places() -> io::Result<Vec<Vec<PathBuf>>> {
    let own = fs::read_to_string("/proc/self/cgroup")?;
    let unified = unified_root();
    let places = own.lines().filter_map(|line| {
        let (controllers, place) = line.split_once(':')?.1.split_once(':')?;
        let tree = match (controllers.is_empty(), &unified) {
            (true, Some(root)) => root.clone(),
            (true, None) => return None,
            (false, _) => Path::new(TREE).join(controllers),
        };
        let place = Path::new(place.trim_start_matches('/'));
        Some(place.ancestors().map(|above| tree.join(above)).collect())
    });
    Ok(places.collect())
}

/// Removes groups that killed launchers and spawners left; how many. What has processes cannot be removed, and what
/// is new may be about to get some.
pub(crate) fn sweep() -> usize {
    let is_ours = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(PREFIX);
    let is_old = |entry: &fs::DirEntry| {
        let age = entry.metadata().and_then(|found| found.modified()).map(|at| at.elapsed());
        age.is_ok_and(|age| age.is_ok_and(|age| age > NEW))
    };
    let all = places().unwrap_or_default().into_iter().flatten();
    let entries = all.flat_map(|place| fs::read_dir(place).into_iter().flatten().flatten());
    entries
        .filter(|entry| is_ours(entry) && is_old(entry))
        .filter(|entry| rustix::fs::rmdir(entry.path()).is_ok())
        .count()
}

/// What our groups are called begins so.
const PREFIX: &str = "palisade-";
/// A group of this age has been entered, or will never be.
const NEW: std::time::Duration = std::time::Duration::from_secs(30);

/// Where version 2 is mounted, alone or beside version 1.
fn unified_root() -> Option<PathBuf> {
    const VERSION_2: i64 = 0x6367_7270;
    let is_v2 = |path: &Path| rustix::fs::statfs(path).is_ok_and(|found| found.f_type == VERSION_2);
    [PathBuf::from(TREE), Path::new(TREE).join("unified")].into_iter().find(|path| is_v2(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(disk: Option<(u32, u32)>) -> Wanted {
        Wanted { io: Some(Speed { disk, bytes: 1 << 20 }), ..Wanted::default() }
    }

    /// A group whose files are plain ones: what is written is what is read.
    fn group(version_2: bool, files: &[&str]) -> (tempfile::TempDir, Groups) {
        let folder = tempfile::tempdir().unwrap();
        files.iter().for_each(|file| fs::write(folder.path().join(file), "").unwrap());
        let mut groups = Groups::default();
        if version_2 {
            groups.unified_at = Some(folder.path().to_owned());
        } else {
            groups.v1.push(("blkio", folder.path().to_owned()));
        }
        (folder, groups)
    }

    #[test]
    fn sbx_07_the_speed_of_a_disk_is_one_line_of_version_2() {
        let (folder, mut groups) = group(true, &["io.max"]);
        groups.limit(wanted(Some((8, 16))));
        let written = fs::read_to_string(folder.path().join("io.max")).unwrap();
        assert_eq!(written, "8:16 rbps=1048576 wbps=1048576");
        assert!(groups.holds("io"));
    }

    #[test]
    fn sbx_07_the_speed_of_a_disk_is_two_files_of_version_1() {
        let files = ["blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device"];
        let (folder, mut groups) = group(false, &files);
        groups.limit(wanted(Some((253, 0))));
        for file in files {
            assert_eq!(fs::read_to_string(folder.path().join(file)).unwrap(), "253:0 1048576");
        }
        assert!(groups.holds("io"));
        // One of both is not what was asked for.
        let (_folder, mut groups) = group(false, &files[..1]);
        groups.limit(wanted(Some((253, 0))));
        assert!(!groups.holds("io"));
    }

    #[test]
    fn sbx_07_one_limit_that_cannot_be_held_takes_no_other_along() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("user/session")).unwrap();
        for group in ["user", "user/session"] {
            fs::write(folder.path().join(group).join("memory.max"), "max").unwrap();
        }
        let mut groups = Groups::default();
        groups.name = "run".into();
        // At the top nobody but root makes one.
        fs::write(folder.path().join("run"), "").unwrap();
        let wanted = Wanted { memory: Some(1 << 30), cpu: Some(500), ..Wanted::default() };
        groups.make_unified(folder.path(), "/user/session", &settings(wanted));
        assert_eq!(groups.unified_at, Some(folder.path().join("user/session/run")));
    }

    #[test]
    fn sbx_07_what_is_on_no_disk_is_held_by_nothing_and_still_counts_as_wanted() {
        let (folder, mut groups) = group(true, &["io.max"]);
        groups.limit(wanted(None));
        assert_eq!(fs::read_to_string(folder.path().join("io.max")).unwrap(), "");
        assert!(!groups.holds("io") && wanted(None).count() == 1);
    }

    #[test]
    fn the_kernel_names_more_than_was_said_and_other_disks() {
        let value = "8:16 rbps=5 wbps=5";
        for (found, same) in [
            ("8:16 rbps=5 wbps=5 riops=max wiops=max\n", true),
            ("8:0 rbps=9 wbps=9 riops=max wiops=max\n8:16 rbps=5 wbps=5 riops=max wiops=max\n", true),
            ("8:16 rbps=5 wbps=max riops=max wiops=max\n", false),
            ("8:0 rbps=5 wbps=5 riops=max wiops=max\n", false),
            ("8:16 rbps=55 wbps=5\n", false),
            ("", false),
        ] {
            assert_eq!(says(found, value), same, "{found:?}");
        }
        assert!(says("512\n", "512") && !says("512 100000", "512"));
    }

    #[test]
    fn a_part_of_a_disk_stands_for_all_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let device = rustix::fs::stat(folder.path()).unwrap().st_dev;
        let number = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
        let devices = folder.path().join("block");
        let part = folder.path().join("sda/sda1");
        fs::create_dir_all(&part).unwrap();
        fs::create_dir(&devices).unwrap();
        assert_eq!(disk_of(folder.path(), &devices), None, "no disk has this number");
        std::os::unix::fs::symlink(&part, devices.join(&number)).unwrap();
        assert_eq!(
            disk_of(folder.path(), &devices),
            Some((rustix::fs::major(device), rustix::fs::minor(device)))
        );
        fs::write(part.join("partition"), "1\n").unwrap();
        fs::write(folder.path().join("sda/dev"), "8:32\n").unwrap();
        assert_eq!(disk_of(folder.path(), &devices), Some((8, 32)));
    }
}
