//! Shapes that are broken on purpose, each in one way, and whether the self-test finds it (SBX-12).
//!
//! A launcher has one thread, and a test has several: each case runs this same program again, which launches, and in
//! the sandbox once more, which attacks.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use super::*;
use crate::{RunId, Spec};

const FLAW: &str = "PROBE_TEST_FLAW";

/// A way to break a plan, and the attack that must find it.
type Flaw = (&'static str, &'static [&'static str], fn(Plan) -> Plan);

/// Puts one more mount over what is there.
fn over(mut plan: Plan, mount: Mount) -> Plan {
    plan.mounts.push(mount);
    plan
}

/// The host's own at its own place.
fn host(plan: Plan, path: &str, access: Access) -> Plan {
    over(plan, Mount::host(path, path, access))
}

/// None of them makes or changes anything on the host.
const FLAWS: &[Flaw] = &[
    ("without-landlock", &["read-without-a-rule"], |plan| plan.without(Part::Landlock)),
    ("without-seccomp", &["filter-is-off", "unshare-user", "keyring", "io-uring"], |plan| {
        plan.without(Part::Seccomp)
    }),
    ("without-read-only", &["write-what-is-to-be-read"], |plan| plan.without(Part::ReadOnly)),
    ("without-any-of-three", &["gain-privileges-by-exec"], |plan| {
        plan.without(Part::Landlock).without(Part::Seccomp).without(Part::NoNewPrivs)
    }),
    ("etc-of-the-host", &["see-host-places"], |plan| host(plan, "/etc", Access::Write)),
    ("proc-of-the-host", &["see-host-processes"], |plan| host(plan, "/proc", Access::Read)),
    ("dev-of-the-host", &["see-host-devices"], |plan| host(plan, "/dev", Access::Device)),
    ("sys-of-the-host", &["see-host-places", "see-host-kernel"], |plan| host(plan, "/sys", Access::Read)),
    ("tmp-of-the-host", &["see-host-places"], |plan| host(plan, "/tmp", Access::Write)),
    ("run-elsewhere", &["see-host-places"], |plan| {
        over(plan, Mount::host("/run", "/elsewhere", Access::Write))
    }),
    ("root-elsewhere", &["see-host-places"], |plan| over(plan, Mount::host("/", "/elsewhere", Access::Read))),
    ("kernel-files-shown", &["see-host-kernel"], |plan| {
        over(plan, Mount::own(crate::plan::Source::Processes, "/proc", Access::Read))
    }),
    ("system-can-be-written", &["write-system-mount"], |plan| host(plan, "/usr", Access::Write)),
];

/// A healthy plan.
fn healthy(folder: &Path) -> Plan {
    for name in ["home", "work", "data"] {
        fs::create_dir_all(folder.join(name)).unwrap();
    }
    let spec = Spec::closed(vec!["true".into()], folder.join("work"))
        .home(folder.join("home"), "/home/agent".into());
    spec.write(folder.join("work")).read(folder.join("data")).plan(RunId::new().unwrap()).unwrap()
}

fn self_test(folder: &Path) -> SelfTest {
    let words = ["probe::tests::inside", "--exact", "--ignored", "--nocapture", "--test-threads=1"];
    SelfTest::with(folder, std::env::current_exe().unwrap(), words.map(OsString::from).to_vec())
}

#[test]
#[ignore = "run by the others, inside a sandbox"]
fn inside() {
    // The harness has begun a line.
    println!();
    answer().unwrap();
}

#[test]
#[ignore = "run by the others, in a process of its own"]
fn launcher() {
    let wanted = std::env::var(FLAW).unwrap();
    println!();
    let folder = tempfile::tempdir().unwrap();
    let plan = healthy(folder.path());
    let flaw = FLAWS.iter().find(|(name, ..)| *name == wanted);
    let plan = flaw.map_or_else(|| plan.clone(), |(.., flaw)| flaw(plan.clone()));
    let test = self_test(folder.path());
    let started = std::time::Instant::now();
    let outcome = test.run(&plan);
    let took = started.elapsed();
    match outcome {
        Ok(all) => {
            for probed in all {
                println!("outcome {} {:?}", probed.name, probed.outcome);
            }
        }
        Err(error) => println!("refused {error}"),
    }
    println!("took {} us", took.as_micros());
    println!("ensured {}", test.ensure(&plan).is_ok());
    let names = || fs::read_dir(test.folder()).map_or(0, Iterator::count);
    println!("remembered {}", names());
    let started = std::time::Instant::now();
    println!("again {}", test.ensure(&plan).is_ok());
    println!("hit {} us", started.elapsed().as_micros());
    if flaw.is_some() {
        return;
    }
    let started = std::time::Instant::now();
    let hits = (0..100).filter(|_| test.ensure(&plan).is_ok()).count();
    println!("{hits} hits {} us", started.elapsed().as_micros());
}

/// What the launcher said, by its first words.
fn launch(flaw: &str) -> (String, BTreeMap<String, String>) {
    let words = ["probe::tests::launcher", "--exact", "--ignored", "--nocapture", "--test-threads=1"];
    let output = Command::new(std::env::current_exe().unwrap()).args(words).env(FLAW, flaw).output().unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let outcomes = text.lines().filter_map(|line| line.strip_prefix("outcome ")?.split_once(' '));
    let outcomes = outcomes.map(|(name, outcome)| (name.to_owned(), outcome.to_owned())).collect();
    (text, outcomes)
}

#[test]
fn sbx_12_a_healthy_shape_stands_against_every_attack_and_is_remembered() {
    let (text, outcomes) = launch("none");
    assert_eq!(outcomes.len(), ATTACKS.len(), "{text}");
    let through: Vec<_> = outcomes.iter().filter(|(_, outcome)| !outcome.starts_with("Refused")).collect();
    assert!(through.is_empty(), "{through:?}\n{text}");
    for said in ["ensured true", "remembered 1", "again true"] {
        assert!(text.lines().any(|line| line == said), "{said}: {text}");
    }
}

#[test]
fn sbx_12_a_shape_broken_on_purpose_is_found() {
    for (flaw, finds, _) in FLAWS {
        let (text, outcomes) = launch(flaw);
        assert_eq!(outcomes.len(), ATTACKS.len(), "{flaw}: {text}");
        for name in *finds {
            assert_eq!(outcomes.get(*name).map(String::as_str), Some("Through"), "{flaw}: {name}\n{text}");
        }
        // What was left out on purpose is excused; what is broken is never used, and never remembered.
        let excused = flaw.starts_with("without-");
        let said = [
            format!("ensured {excused}"),
            format!("remembered {}", i32::from(excused)),
            format!("again {excused}"),
        ];
        for said in said {
            assert!(text.lines().any(|line| line == said), "{flaw}: {said}\n{text}");
        }
    }
}

#[test]
fn sbx_12_every_excuse_is_true() {
    // What is excused when a part is left out is exactly what then gets through and else does not.
    for (flaw, part) in [
        ("without-landlock", Part::Landlock),
        ("without-seccomp", Part::Seccomp),
        ("without-read-only", Part::ReadOnly),
    ] {
        let (text, outcomes) = launch(flaw);
        for attack in ATTACKS.iter().filter(|attack| attack.only != Some(part)) {
            let outcome = outcomes.get(attack.name).cloned().unwrap_or_default();
            assert!(outcome.starts_with("Refused"), "{flaw}: {} {outcome}\n{text}", attack.name);
        }
    }
}

#[test]
fn sbx_12_an_attack_without_an_answer_counts_as_got_through() {
    let text = "running 1 test\nprobe kexec ok 1\nprobe chroot THROUGH\nprobe bpf ok 1\nprobe bpf THROUGH\nprobe perf ok x\n";
    let all = read_answers(text, &[]);
    let outcome = |name: &str| all.iter().find(|probed| probed.name == name).map(|probed| probed.outcome);
    assert_eq!(outcome("kexec"), Some(Outcome::Refused(1)));
    assert_eq!(outcome("chroot"), Some(Outcome::Through));
    for name in ["bpf", "perf", "keyring"] {
        assert_eq!(outcome(name), Some(Outcome::Unanswered), "{name}");
    }
    assert_eq!(all.iter().filter(|probed| probed.holds()).count(), 1);
}

#[test]
fn sbx_12_the_name_of_a_shape_holds_no_path_of_a_person() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (healthy(&folder.path().join("one")), healthy(&folder.path().join("other")));
    assert_eq!(shape::name(&one).unwrap(), shape::name(&other).unwrap());
    for (name, _, flaw) in FLAWS {
        assert_ne!(shape::name(&one).unwrap(), shape::name(&flaw(other.clone())).unwrap(), "{name}");
    }
}
