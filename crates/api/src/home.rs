//! Whose paths are shortened: the folder of whoever runs this.
//!
//! Invariant: the word of the environment is believed only for a folder that could be the caller's home. Whoever can set a
//! variable must not make the paths of a machine, or of other people, disappear from a record behind `~/`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// What belongs to the machine and is nobody's home, whatever a variable says.
const SYSTEM: [&str; 12] =
    ["bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "proc", "run", "sbin", "sys", "usr"];

/// The home of whoever runs this process, as `HOME` says it, if that could be one.
#[must_use]
pub fn own_home() -> Option<PathBuf> {
    let home = PathBuf::from(std::env::var_os("HOME")?);
    // As long as nobody knows who this is, nobody is at home.
    let caller = std::fs::metadata("/proc/self").ok()?.uid();
    let owner = match std::fs::metadata(&home) {
        Ok(found) => Some(found.uid()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        // What cannot be looked at is somebody else's.
        Err(_) => return None,
    };
    could_be_home(&home, caller, owner).then_some(home)
}

/// Whether a folder could be the home of this user. One that is not there hides nothing; one that is belongs to them, and
/// what root has is mostly not root's home.
fn could_be_home(home: &Path, caller: u32, owner: Option<u32>) -> bool {
    let mut steps = Vec::new();
    for component in home.components() {
        match component {
            Component::RootDir => {}
            Component::Normal(name) => steps.push(name),
            Component::CurDir | Component::ParentDir | Component::Prefix(_) => return false,
        }
    }
    let Some(first) = steps.first() else { return false };
    // Whoever looks for it in a text takes these off its end.
    let is_cut =
        trimmed(home.as_os_str()).as_bytes().last().is_some_and(|last| b"\\ \t\n\x0c\r".contains(last));
    let is_plain = home.is_absolute()
        && !is_cut
        && home.components().collect::<PathBuf>().as_os_str() == trimmed(home.as_os_str());
    // Services have their homes below `var`, and root has none there.
    let is_the_machines = SYSTEM.iter().any(|name| first == name) || (caller == 0 && first == &"var");
    let is_theirs = owner.is_none_or(|owner| owner == caller);
    is_plain && is_theirs && !is_the_machines && (caller != 0 || steps.len() > 1 || first == &"root")
}

/// Without the slashes at its end.
fn trimmed(path: &OsStr) -> &OsStr {
    let bytes = path.as_bytes();
    let end = bytes.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    OsStr::from_bytes(bytes.get(..end).unwrap_or(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sec_14_only_what_could_be_a_home_is_shortened() {
        for (home, caller, owner, expected) in [
            ("/home/ana", 1000, Some(1000), true),
            ("/home/ana/", 1000, Some(1000), true),
            ("/data/people/ana", 1000, None, true),
            ("/app", 1000, Some(1000), true),
            ("/var/lib/palisade", 990, Some(990), true),
            ("/root", 0, Some(0), true),
            ("/srv/ana", 0, Some(0), true),
            // What would hide the paths of everybody.
            ("/", 0, Some(0), false),
            ("//", 1000, Some(0), false),
            ("", 1000, None, false),
            ("/.", 1000, None, false),
            ("/home/ana/..", 1000, Some(0), false),
            ("/home/./ana", 1000, Some(1000), false),
            ("//home/ana", 1000, Some(1000), false),
            ("src", 1000, Some(1000), false),
            ("./src", 1000, Some(1000), false),
            // What is somebody else's, or the machine's.
            ("/srv", 1000, Some(0), false),
            ("/home", 1000, Some(0), false),
            ("/home/bo", 1000, Some(1001), false),
            ("/srv", 0, Some(0), false),
            ("/usr/bin", 0, Some(0), false),
            ("/etc/palisade", 0, Some(0), false),
            ("/usr/local/x", 1000, Some(1000), false),
            ("/var/lib", 0, Some(0), false),
            // What is another path to whoever looks for it.
            ("/usr ", 1000, None, false),
            ("/usr\\", 1000, None, false),
            ("/etc\n", 1000, None, false),
            ("/home/ana \\/", 1000, None, false),
        ] {
            assert_eq!(could_be_home(Path::new(home), caller, owner), expected, "{home:?} of {caller}");
        }
    }
}
