//! Rules about the files themselves.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

pub fn tracked() -> Vec<String> {
    let output = Command::new("git")
        .args(["ls-files", "-co", "--exclude-standard"])
        .current_dir(root())
        .output()
        .unwrap();
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .filter(|name| root().join(name).is_file())
        .collect()
}

pub fn text(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_default()
}

#[test]
fn every_rust_file_begins_with_what_it_is() {
    for name in tracked().iter().filter(|name| name.ends_with(".rs") && !name.contains("/ui/")) {
        assert!(text(name).starts_with("//!"), "{name} has no header");
    }
}

#[test]
fn no_file_of_the_product_has_outgrown_its_subject() {
    for name in tracked()
        .iter()
        .filter(|name| name.starts_with("crates/") && name.contains("/src/") && name.ends_with(".rs"))
    {
        let lines = text(name).lines().count();
        assert!(lines <= 600, "{name} has {lines} lines: what are its two subjects?");
    }
}

/// Where the kernel is called by hand, and where attacks on it are.
const UNSAFE: [&str; 3] = ["crates/sandbox/src/sys/", "crates/sandbox/init/", "tests/escape/"];

#[test]
fn there_is_no_unsafe_code() {
    let is_ours = |name: &&String| {
        let ours = name.starts_with("crates/") || name.starts_with("tests/");
        ours && name.ends_with(".rs") && !UNSAFE.iter().any(|folder| name.starts_with(folder))
    };
    // In two pieces, so that this line is not one of those it looks for.
    let block = concat!(" unsafe", " {");
    for name in tracked().iter().filter(is_ours) {
        let found =
            text(name).lines().any(|line| line.trim_start().starts_with("unsafe ") || line.contains(block));
        assert!(!found, "{name} has unsafe code");
    }
}

/// The files that may hold standard output and standard error in their hands. Everyone else speaks through them, so
/// that whatever is said passes the redactor.
const DOORS: [&str; 9] = [
    "crates/palisade/src/output.rs",
    "crates/server/src/logs.rs",
    // These speak through `logs::tell`; `up` also prints the one link that must leave with its secret.
    "crates/server/src/main.rs",
    "crates/server/src/offline.rs",
    "crates/server/src/up.rs",
    // Hands the descriptors themselves to a sandbox, and answers inside one with words of its own.
    "crates/sandbox/src/standard.rs",
    "crates/sandbox/src/probe.rs",
    // Hands standard output to the protocol, which is what it is for; its own words pass a redactor.
    "crates/agent/src/main.rs",
    // The stand-alone verifier, with a redactor of its own.
    "crates/ledger/src/bin/palisade-verify.rs",
];

#[test]
fn sec_16_text_leaves_by_few_doors() {
    let doors = [
        "io::stdout()",
        "io::stderr()",
        "stdout().lock",
        "stderr().lock",
        "println!",
        "print!(",
        ".print()",
        "dbg!(",
    ];
    let product =
        |name: &&String| name.starts_with("crates/") && name.contains("/src/") && name.ends_with(".rs");
    for name in tracked().iter().filter(product).filter(|name| !DOORS.contains(&name.as_str())) {
        let text = text(name);
        // Tests stand last in a file, or in files of their own.
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        // Descriptors by themselves are for handing on.
        let speaks = |line: &&str| {
            let line = line.replace("rustix::stdio::", "");
            doors.iter().any(|door| line.contains(door)) && !line.trim().starts_with("//")
        };
        let found = text.lines().find(speaks);
        let in_tests = name.contains("/tests/") || name.ends_with("/tests.rs");
        assert!(
            found.is_none() || in_tests,
            "{name} speaks past the redactor: {}",
            found.unwrap_or_default()
        );
    }
    for door in DOORS {
        assert!(!text(door).is_empty(), "{door} is not there any more");
    }
}

/// SEC-16: whatever panics, whoever runs the program is told nothing of what the panic was about but by the redactor. Process 1 of a
/// sandbox, which has no standard library, is no target of cargo; its panic says nothing.
#[test]
fn sec_16_every_program_of_ours_has_its_word_on_panics_first() {
    let mut programs = 0;
    for package in packages().iter().filter(|one| one["manifest_path"].as_str().unwrap().contains("/crates/"))
    {
        for target in package["targets"].as_array().unwrap().iter().filter(|one| one["kind"][0] == "bin") {
            let path = target["src_path"].as_str().unwrap();
            let text = std::fs::read_to_string(path).unwrap();
            let (_, main) = text.split_once("\nfn main() ").unwrap_or_else(|| panic!("{path} has no main"));
            let begins = main.lines().skip(1).map(str::trim).find(|line| !line.starts_with("//"));
            let begins = begins.unwrap_or_default();
            assert!(
                ["guard_panics(", "set_hook("].iter().any(|hook| begins.contains(hook)),
                "{path} begins with `{begins}`: a panic before its hook says whatever it likes"
            );
            programs += 1;
        }
    }
    assert!(programs >= 5, "only {programs} programs were looked at");
}

/// The parts of the product that start a program, and what it gets of the environment.
const STARTERS: [(&str, &str); 12] = [
    ("crates/runtime/src/trees/launcher.rs", "env_clear"),
    ("crates/runtime/src/trees/ssh.rs", "env_clear"),
    (
        "crates/agent/src/tools/minder.rs",
        "the environment that the agent chose for the minder and what it minds",
    ),
    ("crates/agent/src/beside.rs", "the environment that was chosen for the agent it stands beside"),
    ("crates/agent/src/tools/shell.rs", "env_clear"),
    ("crates/egress/src/front.rs", "env_clear"),
    ("crates/palisade/src/commands/launch.rs", "the daemon, which is set up by the caller's environment"),
    ("crates/palisade/src/commands/bring.rs", "env_clear"),
    ("crates/palisade/src/commands/setup.rs", "env_clear"),
    ("crates/sandbox/src/doctor/facts.rs", "env_clear"),
    ("crates/git/src/lib.rs", "env_clear"),
    (
        "crates/vault/src/source/program.rs",
        "a program of the operator's that finds the key by the daemon's environment",
    ),
];

#[test]
fn sec_09_every_program_that_we_start_has_a_scrubbed_environment() {
    let product =
        |name: &&String| name.starts_with("crates/") && name.contains("/src/") && name.ends_with(".rs");
    for name in tracked().iter().filter(product) {
        let text = text(name);
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        if !text.contains("Command::new(") || name.contains("/tests/") || name.ends_with("/tests.rs") {
            continue;
        }
        let known = STARTERS.iter().find(|(file, _)| file == name);
        let (_, how) = known.unwrap_or_else(|| panic!("{name} starts a program: with which environment?"));
        assert!(*how != "env_clear" || text.contains(".env_clear()"), "{name} gives its environment away");
    }
}

#[test]
fn documents_point_at_files_that_exist() {
    for name in tracked().iter().filter(|name| name.ends_with(".md")) {
        let folder = root().join(name).parent().map(Path::to_owned).unwrap();
        for link in text(name).split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let outside = link.contains("://") || link.starts_with('#');
            assert!(outside || folder.join(link).exists(), "{name} points at {link}");
        }
    }
}

#[test]
fn every_crate_of_the_map_exists_and_no_other() {
    let map = text("ARCHITECTURE.md");
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(map.contains(&format!("| `crates/{name}` |")), "{name} is not on the map");
    }
}

/// What cargo knows of the workspace.
fn packages() -> Vec<serde_json::Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .unwrap();
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    told["packages"].as_array().unwrap().clone()
}

#[test]
fn contributing_names_every_test_target() {
    let mut there: Vec<String> = Vec::new();
    for package in packages() {
        for target in package["targets"].as_array().unwrap().iter().filter(|one| one["kind"][0] == "test") {
            there.push(format!("{} {}", package["name"].as_str().unwrap(), target["name"].as_str().unwrap()));
        }
    }
    let contributing = text("CONTRIBUTING.md");
    let mut named: Vec<String> = Vec::new();
    for line in contributing.lines().filter(|line| line.starts_with("| `")) {
        let mut cells = line.split(" | ").map(|cell| cell.trim_matches(['|', ' ']));
        let package = cells.next().unwrap_or_default().trim_matches('`');
        let targets = cells.next().unwrap_or_default().split(", ");
        named.extend(targets.map(|target| format!("{package} {}", target.trim_matches('`'))));
    }
    there.sort();
    named.sort();
    assert_eq!(named, there, "CONTRIBUTING.md lists other test targets than there are");
}

#[test]
fn every_fuzz_target_is_one_that_can_be_run() {
    let manifest = text("fuzz/Cargo.toml");
    let paths = manifest.lines().filter_map(|line| line.strip_prefix("path = \"")?.strip_suffix('"'));
    let mut named: Vec<&str> = paths.collect();
    named.sort_unstable();
    let tracked = tracked();
    let of_fuzz = tracked.iter().filter_map(|name| name.strip_prefix("fuzz/"));
    let mut there: Vec<&str> = of_fuzz.filter(|name| name.ends_with(".rs")).collect();
    there.sort_unstable();
    assert_eq!(there, named, "`make fuzz` runs what `fuzz/Cargo.toml` names");
}
