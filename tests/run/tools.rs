//! Programs that people work with, inside a sandbox of the profile that is used when none is named.

use crate::room::{Room, Said, Who, everyone};

/// A script inside; whether the programs that it needs are here.
fn inside(room: &Room, needs: &[&str], flags: &[&str], script: &str) -> Option<Said> {
    let is_there = |program: &&&str| {
        let found = room.host(&room.project, "sh").args(["-c", &format!("command -v {program}")]).output();
        !found.unwrap().status.success()
    };
    if let Some(missing) = needs.iter().find(is_there) {
        tests::cannot_run(&format!("`{missing}` is not installed"));
        return None;
    }
    let mut run = room.host(&room.project, room.program());
    run.arg("run").args(flags).args(["--", "sh", "-c", script]);
    Some(Said::of(&run.output().unwrap()))
}

#[test]
fn make_and_gcc_build_a_program_that_runs() {
    for who in everyone() {
        let room = Room::empty(who);
        room.file("Makefile", "hello: main.o words.o\n\t$(CC) -o $@ $^\n");
        room.file("main.c", "int puts(const char *); const char *words(void);\nint main(void) { return puts(words()) < 0; }\n");
        room.file("words.c", "const char *words(void) { return \"built inside\"; }\n");

        let Some(said) = inside(&room, &["make", "gcc"], &[], "make -j2 CC=gcc >&2 && ./hello") else {
            return;
        };

        assert_eq!(said.ok().out, "built inside\n", "{who:?}");
        assert!(room.project.join("hello").exists());
    }
}

#[test]
fn vim_changes_a_file_and_leaves_nothing_beside_it() {
    for who in everyone() {
        let room = Room::empty(who);
        let file = room.file("text", "one\ntwo\n");

        let script = "vim -es -u NONE -c '%s/two/three/' -c 'wq' text";
        let Some(said) = inside(&room, &["vim"], &[], script) else { return };

        said.ok();
        assert_eq!(std::fs::read_to_string(file).unwrap(), "one\nthree\n", "{who:?}");
        let names: Vec<_> =
            std::fs::read_dir(&room.project).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["text"], "{who:?}");
    }
}

#[test]
fn tmux_has_a_session_whose_terminal_is_typed_at() {
    for who in everyone() {
        let room = Room::empty(who);
        let script = "export TERM=screen; tmux -L own -f /dev/null new-session -d -x 100 -y 30 sh && tmux -L own ls && \
                      tmux -L own send-keys 'tty > at; stty size > size; echo typed > done' Enter && \
                      for n in $(seq 500); do [ -s done ] && break; sleep 0.02; done; cat at size done; tmux -L own kill-server";

        let Some(said) = inside(&room, &["tmux"], &[], script) else { return };

        let said = said.ok();
        for text in ["1 windows", "/dev/pts/", " 100\n", "typed\n"] {
            assert!(said.out.contains(text), "{who:?} `{text}`: {}", said.out);
        }
    }
}

#[test]
fn cargo_builds_and_tests_a_package() {
    // The toolchain that builds this test; a user that nobody is may not read root's.
    let cargo = std::path::Path::new(env!("CARGO"));
    let toolchain = cargo.parent().and_then(std::path::Path::parent).unwrap().to_str().unwrap();
    let is_own = |who: &Who| *who == Who::Root || !rustix::process::geteuid().is_root();
    for who in everyone().into_iter().filter(is_own) {
        let room = Room::empty(who);
        room.file("Cargo.toml", "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
        room.file("src/lib.rs", "#[test]\nfn two() {\n    assert_eq!(1 + 1, 2);\n}\n");
        room.file("src/main.rs", "fn main() {\n    println!(\"built inside\");\n}\n");
        let script =
            format!("PATH={toolchain}/bin:$PATH; cargo test -q --offline >&2 && cargo run -q --offline");

        let Some(said) = inside(&room, &["gcc"], &["--ro", toolchain], &script) else { return };

        assert_eq!(said.ok().out, "built inside\n", "{who:?}");
    }
}
