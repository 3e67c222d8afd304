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
}

impl Wanted {
    /// How many limits there are to be.
    pub(crate) fn count(&self) -> usize {
        [self.memory, self.pids, self.cpu].iter().flatten().count()
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

/// One file to write into a group: of which limit, which file, what.
struct Setting {
    name: &'static str,
    controller: &'static str,
    v1: &'static str,
    v2: &'static str,
    value: String,
    v2_value: String,
}

const PERIOD: u64 = 100_000;

fn settings(wanted: Wanted) -> Vec<Setting> {
    let mut all = Vec::new();
    let mut push = |name, controller, v1, v2, value: String, v2_value: Option<String>| {
        let v2_value = v2_value.unwrap_or_else(|| value.clone());
        all.push(Setting { name, controller, v1, v2, value, v2_value });
    };
    if let Some(bytes) = wanted.memory {
        // The kernel counts pages and gives whole ones back.
        let bytes = (bytes & !4095).to_string();
        push("memory", "memory", "memory.limit_in_bytes", "memory.max", bytes, None);
    }
    if let Some(pids) = wanted.pids {
        push("pids", "pids", "pids.max", "pids.max", pids.to_string(), None);
    }
    if let Some(cpu) = wanted.cpu {
        let quota = (cpu * PERIOD / 1000).max(1000).to_string();
        let v2 = format!("{quota} {PERIOD}");
        push("cpu", "cpu", "cpu.cfs_quota_us", "cpu.max", quota, Some(v2));
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
                (Some(folder), _) => self.set(&folder, setting.name, setting.v2, &setting.v2_value),
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

    /// A group of version 2, in the nearest of the groups above that is ours to divide.
    fn make_unified(&mut self, root: &Path, place: &str, settings: &[Setting]) {
        for above in Path::new(place.trim_start_matches('/')).ancestors() {
            let folder = root.join(above).join(&self.name);
            if fs::create_dir(&folder).is_err() {
                continue;
            }
            let lacks = |setting: &Setting| !folder.join(setting.v2).exists();
            let is_last = above.as_os_str().is_empty();
            if !is_last && root.join(above).join("memory.max").exists() && settings.iter().any(lacks) {
                // Controllers are not handed on here; further up they may be.
                let _ = fs::remove_dir(&folder);
                continue;
            }
            self.folders.push(folder.clone());
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            self.unified = rustix::fs::open(&folder, flags, Mode::empty()).ok();
            self.unified_at = Some(folder);
            return;
        }
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
    fn set(&mut self, folder: &Path, name: &'static str, file: &str, value: &str) {
        let path = folder.join(file);
        let written =
            fs::OpenOptions::new().write(true).open(&path).and_then(|mut to| to.write_all(value.as_bytes()));
        if written.is_ok() && fs::read_to_string(&path).is_ok_and(|found| found.trim() == value) {
            self.enforced.push(Enforced { name, value: value.to_owned() });
        }
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
