//! What goes wrong before a command can start: places that are not there, cannot be read or are full, too many processes, a layer that
//! the kernel does not make. Each ends with 125 and a sentence, and leaves nothing mounted, running or lying about.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::room::{Room, Said, Who, everyone};
use crate::started::having;

/// Nothing of a room is mounted on the host or still at work.
#[track_caller]
fn assert_nothing_left(room: &Room, told: &str) {
    let place = room.home().display().to_string();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(&place), "{told}: mounted:\n{mounts}");
    let until = std::time::Instant::now() + std::time::Duration::from_secs(5);
    while !having(&room.program().display().to_string()).is_empty() {
        assert!(std::time::Instant::now() < until, "{told}: something is still at work");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// A shell script of the person's, from the directory that it is started in, with `$P` for the program.
fn scripted(room: &Room, directory: &Path, script: &str) -> Said {
    let mut command = room.host(directory, "sh");
    command.env("P", room.program()).args(["-c", script]);
    Said::of(&command.output().unwrap())
}

#[track_caller]
fn assert_refused(room: &Room, said: &Said, word: &str) {
    let told = format!("{:?}: {:?} {} {}", room.who, said.code, said.out, said.err);
    assert_eq!(said.code, Some(125), "{told}");
    assert!(said.err.starts_with("palisade: ") && said.err.contains(word), "`{word}`: {told}");
    assert!(!room.project.join("it-ran").exists() && !said.out.contains("it-ran"), "{told}");
    assert_nothing_left(room, &told);
}

#[test]
fn sbx_08_a_directory_that_is_gone_or_cannot_be_read_starts_nothing() {
    for who in everyone() {
        let room = Room::empty(who);
        let gone =
            scripted(&room, &room.project, "mkdir d && cd d && rmdir ../d && exec $P run -- echo it-ran");
        assert_refused(&room, &gone, "director");
        // Root reads everything.
        if who != Who::Root {
            let shut = "mkdir shut && cd shut && chmod 0 ../shut && exec $P run -- echo it-ran";
            let shut = scripted(&room, &room.project, shut);
            assert_refused(&room, &shut, "shut");
        }
    }
}

#[test]
fn sbx_08_a_directory_that_was_reached_by_a_link_is_the_one_that_it_leads_to() {
    for who in everyone() {
        let room = Room::empty(who);
        room.file("sub/one", "1");
        let script =
            "ln -s project ../link && cd ../link/sub && exec $P run -- sh -c 'cat one; pwd -P; echo 2 > two'";
        let said = scripted(&room, &room.project, script).ok();
        assert!(said.out.starts_with('1') && said.out.trim_end().ends_with("/project/sub"), "{}", said.out);
        assert_eq!(std::fs::read_to_string(room.project.join("sub/two")).unwrap(), "2\n");
        assert_nothing_left(&room, &said.out);
    }
}

/// A file system of this size over a place, in a mount namespace of the script's own; then the script as the person.
fn on_a_full_disk(room: &Room, place: &Path, size: &str, script: &str) -> Option<Said> {
    if !rustix::process::geteuid().is_root() {
        tests::cannot_run("a file system that is full can only be mounted by root");
        return None;
    }
    let id = match room.who {
        Who::Root => 0,
        Who::User(user) => user,
    };
    let mounts = format!(
        "mkdir -p {0} && mount -t tmpfs -o size={size},uid={id},gid={id},mode=0755 none {0} && cd {1} && exec setpriv --reuid {id} \
         --regid {id} --clear-groups -- sh -c \"$SCRIPT\"",
        place.display(),
        room.project.display(),
    );
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-ec", &mounts]).stdin(Stdio::null());
    command.env_clear().env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    command.env("HOME", room.home()).env("P", room.program()).env("SCRIPT", script);
    Some(Said::of(&command.output().unwrap()))
}

#[test]
fn sbx_08_a_full_disk_starts_nothing_and_says_so() {
    for who in everyone() {
        let room = Room::empty(who);
        let state = room.home().join(".local/state");
        std::fs::create_dir_all(&state).unwrap();
        for path in [room.home().join(".local"), state.clone()] {
            room.own(&path);
        }
        let fills =
            "dd if=/dev/zero of=$HOME/.local/state/all bs=4k 2> /dev/null; exec $P run -- touch it-ran";
        let Some(said) = on_a_full_disk(&room, &state, "1m", fills) else { return };
        assert_refused(&room, &said, "space");
        // The same disk with room on it: it was that.
        let empty = "exec $P run -- touch it-ran";
        on_a_full_disk(&room, &state, "64m", empty).unwrap().ok();
        assert!(room.project.join("it-ran").exists());
    }
}

#[test]
fn sbx_08_without_a_process_to_be_had_nothing_starts() {
    for who in everyone() {
        // The kernel counts processes of users, and not those of root.
        if who == Who::Root {
            continue;
        }
        let room = Room::empty(who);
        let said = scripted(&room, &room.project, "exec bash -c 'ulimit -u 1; exec $P run -- touch it-ran'");
        assert_refused(&room, &said, "process");
        scripted(&room, &room.project, "exec $P run -- touch it-ran").ok();
        assert!(room.project.join("it-ran").exists(), "the control");
    }
}

/// What a person gets to see whose worktree lies on so many layers.
fn on_layers(room: &Room, second: &str, options: &str) -> Said {
    let id = match room.who {
        Who::Root => 0,
        Who::User(user) => user,
    };
    let mounts = format!(
        "mount -t tmpfs none /mnt && cd /mnt && mkdir a b c d e f g && mount -t overlay none -o lowerdir=a,upperdir=b,workdir=c d && \
         mkdir d/w && chown {id}:{id} d/w && mount {second} e && cd e/w && \
         exec setpriv --reuid {id} --regid {id} --clear-groups -- $P run {options} -- sh -c 'echo it-ran'"
    );
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-ec", &mounts]).stdin(Stdio::null()).env("P", room.program());
    Said::of(&command.env("HOME", room.home()).output().unwrap())
}

#[test]
fn sbx_10_where_the_kernel_makes_no_layer_nothing_starts_and_the_layer_is_named() {
    if !rustix::process::geteuid().is_root() {
        return tests::cannot_run("only root can mount layers over layers, of which the kernel takes two");
    }
    for who in everyone() {
        let room = Room::empty(who);
        let twice = "-t overlay none -o lowerdir=d,upperdir=f,workdir=g";
        let said = on_layers(&room, twice, "--overlay");
        if who == Who::Root {
            assert_refused(&room, &said, "idmapped mounts: ");
            assert!(
                said.err.contains("/mnt/e/w` lies on") && said.err.contains("to fix it: "),
                "{}",
                said.err
            );
            continue;
        }
        assert_refused(&room, &said, "overlay: ");
        assert!(said.err.contains("to fix it: "), "{}", said.err);
        let once = on_layers(&room, "--bind d", "--overlay").ok();
        assert!(once.out.contains("it-ran"), "the control: one layer below");
    }
}

#[test]
fn sbx_08_a_state_that_others_may_write_or_a_file_in_its_place_is_told() {
    for who in everyone() {
        let room = Room::empty(who);
        let local = room.home().join(".local");
        std::fs::write(&local, "a file").unwrap();
        room.own(&local);
        let said = room.run("touch it-ran");
        assert_refused(&room, &said, ".local");
        std::fs::remove_file(&local).unwrap();
        std::fs::create_dir(&local).unwrap();
        std::fs::set_permissions(&local, PermissionsExt::from_mode(0o755)).unwrap();
        room.own(&local);
        room.run("touch it-ran").ok();
    }
}
