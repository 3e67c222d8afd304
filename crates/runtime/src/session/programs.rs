//! The program of an agent: where it is on this machine -> what it is called inside, and what must be shown there for it to run.
//!
//! Invariant: what is shown is named by whoever set up `agents.path`, or belongs to what they put there: the folder, the package that
//! a link in it leads to, and the interpreter that the program names. All of it is read-only inside.

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::trees::Launcher;

/// The program of the built-in agent, which is beside the launcher.
pub(super) const BUILT_IN: &str = "palisade-agent";
/// What every sandbox sees of this machine.
const SEEN: [&str; 6] = ["/usr", "/bin", "/sbin", "/lib", "/opt", "/nix/store"];
/// Bytes of a program's first line.
const FIRST_LINE: u64 = 256;

/// A program that is there.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Installed {
    /// What is started inside.
    pub(super) program: String,
    /// What of this machine must be shown for it.
    pub(super) shows: Vec<PathBuf>,
}

/// The program of this name; none if it is not installed.
pub(super) fn installed(launcher: &Launcher, name: &str) -> Option<Installed> {
    let is_ours = name == BUILT_IN;
    let found = if is_ours { launcher.beside(name) } else { launcher.found(name) }?;
    let mut shows = Vec::new();
    let target = found.canonicalize().ok()?;
    if is_ours {
        show(&mut shows, &target);
        return Some(Installed { program: target.display().to_string(), shows });
    }
    show_folder(&mut shows, &found);
    show(&mut shows, &package(&target));
    if let Some(interpreter) = interpreter(launcher, &target) {
        show_folder(&mut shows, &interpreter);
        show(&mut shows, &package(&interpreter.canonicalize().unwrap_or(interpreter)));
    }
    // What lies where every sandbox sees it is found there by its name.
    let program = if is_seen(&found) { name.to_owned() } else { found.display().to_string() };
    Some(Installed { program, shows })
}

/// When the program of this name was last changed; none if it is not installed.
pub(super) fn changed(launcher: &Launcher, name: &str) -> Option<std::time::SystemTime> {
    let found = if name == BUILT_IN { launcher.beside(name) } else { launcher.found(name) }?;
    std::fs::metadata(found).ok()?.modified().ok()
}

fn is_seen(path: &Path) -> bool {
    SEEN.iter().any(|seen| path.starts_with(seen))
}

fn show(shows: &mut Vec<PathBuf>, path: &Path) {
    if !is_seen(path) && !shows.iter().any(|shown| path.starts_with(shown)) {
        shows.push(path.to_owned());
    }
}

fn show_folder(shows: &mut Vec<PathBuf>, program: &Path) {
    if let Some(folder) = program.parent() {
        show(shows, folder);
    }
}

/// Where a program's own parts are: the outermost `node_modules` around it, which has what it needs beside it, or itself alone.
fn package(target: &Path) -> PathBuf {
    let folders: Vec<&Path> = target.ancestors().collect();
    let outermost = folders.iter().rev().find(|folder| folder.ends_with("node_modules"));
    outermost.map_or_else(|| target.to_owned(), |folder| folder.to_path_buf())
}

/// What a script is carried out by, as its first line says.
fn interpreter(launcher: &Launcher, target: &Path) -> Option<PathBuf> {
    let mut start = Vec::new();
    std::fs::File::open(target).ok()?.take(FIRST_LINE).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split_whitespace();
    let program = Path::new(words.next()?);
    if !program.ends_with("env") {
        return Some(program.to_owned());
    }
    let name = words.find(|word| !word.starts_with('-') && !word.contains('='))?;
    launcher.found(name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn put(path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }

    /// SES-14: whatever way an agent was installed, all of it is there inside, and nothing else.
    #[test]
    fn ses_14_a_program_is_shown_with_its_package_and_its_interpreter() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (node, bin) = (root.join("node/bin"), root.join("npm/bin"));
        put(&root.join("npm/lib/node_modules/@x/agent/index.js"), "#!/usr/bin/env -S node --harmony\n");
        put(&root.join("npm/lib/node_modules/@x/agent/node_modules/part/index.js"), "");
        put(&root.join("versions/24/bin/node"), "\x7fELF");
        put(&bin.join("alone"), "\x7fELF");
        put(&bin.join("plain-text"), "");
        std::fs::set_permissions(bin.join("plain-text"), PermissionsExt::from_mode(0o644)).unwrap();
        std::fs::create_dir_all(&node).unwrap();
        symlink(root.join("versions/24/bin/node"), node.join("node")).unwrap();
        symlink("../lib/node_modules/@x/agent/index.js", bin.join("agent")).unwrap();
        let link = root.join("link");
        symlink(&bin, &link).unwrap();
        let path = format!(
            "relative:{}:{}:{}:/usr/bin",
            root.join("nowhere").display(),
            link.display(),
            node.display()
        );
        let launcher = Launcher::new(root.join("palisade"), &root.join("runs"), path, Vec::new(), None);
        let found = installed(&launcher, "agent").unwrap();
        assert_eq!(found.program, bin.join("agent").display().to_string());
        let expected =
            [bin.clone(), root.join("npm/lib/node_modules"), node, root.join("versions/24/bin/node")];
        assert_eq!(found.shows, expected);
        assert_eq!(installed(&launcher, "alone").unwrap().shows, [bin]);
        assert_eq!(
            installed(&launcher, "env").unwrap(),
            Installed { program: "env".into(), shows: Vec::new() }
        );
        for missing in ["nobody", "plain-text", "palisade-agent"] {
            assert_eq!(installed(&launcher, missing), None, "{missing}");
        }
    }
}
