//! Who and what stands beside every attack: files and refs, a process, and an honest sandbox of the same user.
//!
//! Flow: [`Bystanders::around`] (before) -> the attack and its control -> [`Bystanders::assert_unharmed`]. `both!`
//! does this for every test, so a row needs to say only what is particular to it.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;

use crate::kit::{Snapshot, Stage, Victim, finished, read_line};

/// What an attack on the kernel or the system would change.
const SYSTEM: [&str; 2] = ["/etc/passwd", "/etc/hosts"];
const KERNEL: [&str; 3] =
    ["/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hostname"];

pub(crate) struct Bystanders {
    folder: tempfile::TempDir,
    files: Snapshot,
    system: [Snapshot; 2],
    kernel: [Vec<u8>; 3],
    process: Victim,
    honest: Victim,
}

impl Bystanders {
    pub(crate) fn around(stage: &Stage) -> Self {
        let folder = stage.another_folder();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        file("files/.git/HEAD", "ref: refs/heads/main\n");
        file("files/.git/refs/heads/main", "1111111111111111111111111111111111111111\n");
        file("files/.git/config", "[core]\n");
        file("files/notes.txt", "a person's\n");
        file("project/made", "");
        stage.own_all(folder.path());
        // Under another name: the attacks' own processes are found by the path of the stage.
        let mut honest = stage.palisade(&[], &["cat"]);
        honest.arg0("palisade").current_dir(folder.path().join("project"));
        honest.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut honest = Victim(honest.spawn().unwrap());
        speak(&mut honest, "before");
        Self {
            files: Snapshot::of(&folder.path().join("files")),
            folder,
            system: SYSTEM.map(|path| Snapshot::of(Path::new(path))),
            kernel: KERNEL.map(|path| std::fs::read(path).unwrap_or_default()),
            process: stage.victim(),
            honest,
        }
    }

    /// Everything is as it was, and the sandbox beside it works to its end.
    pub(crate) fn assert_unharmed(mut self) {
        self.files.assert_same(&self.folder.path().join("files"));
        for (before, path) in self.system.iter().zip(SYSTEM) {
            before.assert_same(Path::new(path));
        }
        assert_eq!(KERNEL.map(|path| std::fs::read(path).unwrap_or_default()), self.kernel);
        self.process.assert_unharmed();
        speak(&mut self.honest, "after");
        drop(self.honest.0.stdin.take());
        finished(&mut self.honest.0).assert_code(0);
        let left = std::fs::read_dir(self.folder.path().join("project")).unwrap();
        let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["made"], "the honest sandbox's project has more in it than before");
    }
}

/// What is said to `cat` comes back.
fn speak(honest: &mut Victim, word: &str) {
    honest.0.stdin.as_mut().unwrap().write_all(format!("{word}\n").as_bytes()).unwrap();
    let answer = read_line(&mut honest.0);
    assert_eq!(answer, word, "the honest sandbox does not answer");
}
