//! Launches a command in a sandbox that lacks a wall: the positive control of the escape tests.
//!
//! `bare [--without landlock|seccomp|read-only|no-new-privs]… --home DIR [--ro DIR]… [--rw DIR]… -- CMD…`, started in
//! the directory that the command is to stand in. The exit code is the command's.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use sandbox::{Part, RunId, Spec, Standard};

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let (mut parts, mut read, mut write, mut home) = (Vec::new(), Vec::new(), Vec::new(), None);
    let mut command: Vec<OsString> = Vec::new();
    while let Some(word) = words.next() {
        let mut path = || PathBuf::from(words.next().unwrap());
        match word.as_str() {
            "--without" => parts.push(part(path().to_str().unwrap())),
            "--home" => home = Some(path()),
            "--ro" => read.push(path()),
            "--rw" => write.push(path()),
            "--" => command = words.by_ref().map(Into::into).collect(),
            other => panic!("there is no option {other}"),
        }
    }
    let directory = std::env::current_dir().unwrap();
    let mut spec = Spec::closed(command, directory).variable("PATH", "/usr/bin:/bin");
    spec = spec.home(home.unwrap(), "/home/agent".into());
    for path in read {
        spec = spec.read(path);
    }
    for path in write {
        spec = spec.write(path);
    }
    let mut plan = spec.plan(RunId::new().unwrap()).unwrap();
    for part in parts {
        plan = plan.without(part);
    }
    let standard = Standard::of_this_process().unwrap();
    let ended = plan
        .launch(sandbox::Permit::own_process(), standard)
        .and_then(sandbox::Held::go)
        .unwrap()
        .wait()
        .unwrap();
    ExitCode::from(ended.code())
}

fn part(name: &str) -> Part {
    match name {
        "landlock" => Part::Landlock,
        "seccomp" => Part::Seccomp,
        "read-only" => Part::ReadOnly,
        "no-new-privs" => Part::NoNewPrivs,
        other => panic!("there is no part {other}"),
    }
}
