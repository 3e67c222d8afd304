//! ADV-P13: what holds around every process of a tree is what the receipt claims, and no other receipt is believed.

use std::collections::BTreeMap;
use std::fs;
use std::process::Stdio;

use sandbox::receipt::{MountEntry, Mounts};
use serde_json::Value;

use crate::kit::{Output, Stage, both, finish, finished, read_line};

/// Children, grandchildren, daemons and sessions of their own: a hundred with the shell.
const CROWD: &str = "for n in $(seq 60); do sleep 600 & done; for n in $(seq 20); do (sleep 600 &) ; done; \
                     for n in $(seq 19); do setsid sleep 600 & done; echo up; read line; kill -9 -1";

fn palisade(stage: &Stage, words: &[&str]) -> Output {
    let mut command = stage.command(stage.at("palisade"));
    command.args(words);
    finish(command)
}

/// The receipt of the last run, verified.
fn receipt(stage: &Stage, run: &str) -> Value {
    let shown = palisade(stage, &["--json", "receipt", "show", run]).assert_code(0);
    let document: Value = serde_json::from_str(&shown.stdout).unwrap();
    document["result"].clone()
}

/// The runs of this stage that have a receipt.
fn runs(stage: &Stage) -> Vec<String> {
    let receipts = fs::read_dir(stage.at("state/palisade/receipts")).unwrap();
    let name =
        |entry: fs::DirEntry| entry.file_name().into_string().unwrap().trim_end_matches(".json").to_owned();
    receipts.map(|entry| name(entry.unwrap())).collect()
}

/// What the host's kernel says of one process, in the words of the receipt.
fn facts(pid: u32) -> Option<BTreeMap<String, String>> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap_or("?");
        line.split_whitespace().next().unwrap_or("?").to_owned()
    };
    let mut facts: BTreeMap<String, String> = [
        ("host_uid", "Uid"),
        ("host_gid", "Gid"),
        ("seccomp.mode", "Seccomp"),
        ("seccomp.filters", "Seccomp_filters"),
        ("capabilities.inheritable", "CapInh"),
        ("capabilities.permitted", "CapPrm"),
        ("capabilities.effective", "CapEff"),
        ("capabilities.bounding", "CapBnd"),
        ("capabilities.ambient", "CapAmb"),
    ]
    .map(|(name, line)| (name.to_owned(), field(line)))
    .into();
    facts.insert("no_new_privs".into(), (field("NoNewPrivs") == "1").to_string());
    for (name, link) in [
        ("user", "user"),
        ("mount", "mnt"),
        ("pid", "pid"),
        ("network", "net"),
        ("ipc", "ipc"),
        ("uts", "uts"),
        ("cgroup", "cgroup"),
    ] {
        let link = fs::read_link(format!("/proc/{pid}/ns/{link}")).ok()?.to_string_lossy().into_owned();
        let inode = link.split_once('[').unwrap().1.trim_end_matches(']').to_owned();
        facts.insert(format!("namespaces.{name}"), inode);
    }
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let files = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    facts.insert("limits.files".into(), files.split_whitespace().nth(1).unwrap().to_owned());
    Some(facts)
}

/// The mount table of a process: in short as in the receipt, and word for word.
fn mounts(stage: &Stage, pid: u32) -> Option<(Mounts, String)> {
    let text = fs::read_to_string(format!("/proc/{pid}/mountinfo")).ok()?;
    let table: Vec<MountEntry> = text
        .lines()
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let (target, kind) =
                (words[4].to_owned(), line.split_once(" - ").unwrap().1.split(' ').next().unwrap());
            // Memory, processes and terminals of its own; everything else is the host's, whatever that keeps it on.
            let own = ["/", "/tmp", "/var/tmp", "/dev/shm", "/dev/pts", "/proc"].contains(&target.as_str())
                || target.starts_with("/proc/")
                || (target.starts_with(&stage.path("work/")) && kind == "tmpfs");
            let flags = words[5].split(',').filter(|flag| ["ro", "nosuid", "nodev", "noexec"].contains(flag));
            let flags = flags.map(str::to_owned).collect();
            MountEntry {
                target,
                kind: if own { kind } else { "host" }.to_owned(),
                root: String::new(),
                flags,
            }
        })
        .collect();
    Some((Mounts::over(&table), text))
}

fn value(receipt: &Value, name: &str) -> String {
    let found = name.split('.').fold(&receipt["facts"], |value, part| &value[part]);
    let found = if found["value"]["value"].is_null() { &found["value"] } else { &found["value"]["value"] };
    found.as_str().map_or_else(|| found.to_string(), str::to_owned)
}

/// Everyone in the receipt's process namespace is as the receipt says.
fn compare(stage: &Stage, flags: &[&str]) -> Value {
    let before = if stage.at("state/palisade/receipts").exists() { runs(stage) } else { Vec::new() };
    let mut run = stage.palisade(flags, &["bash", "-c", CROWD]);
    run.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut run = run.spawn().unwrap();
    assert_eq!(read_line(&mut run), "up");
    let id = runs(stage).into_iter().find(|id| !before.contains(id)).unwrap();
    let receipt = receipt(stage, &id);
    let space = value(&receipt, "namespaces.pid");
    let is_inside = |pid: &u32| {
        let link = fs::read_link(format!("/proc/{pid}/ns/pid")).unwrap_or_default();
        link.to_string_lossy() == format!("pid:[{space}]")
    };
    let numbers = fs::read_dir("/proc").unwrap().flatten();
    let all: Vec<u32> =
        numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_inside).collect();
    assert!(all.len() >= 100, "only {} processes", all.len());
    let mut tables = std::collections::BTreeSet::new();
    for pid in all {
        for (name, found) in facts(pid).unwrap() {
            assert_eq!(found, value(&receipt, &name), "{name} of {pid}");
        }
        let (short, text) = mounts(stage, pid).unwrap();
        assert_eq!(short.sha256.to_string(), receipt["facts"]["mounts"]["value"]["sha256"], "{text}");
        assert_eq!(u64::from(short.count), receipt["facts"]["mounts"]["value"]["count"]);
        tables.insert(text);
    }
    assert_eq!(tables.len(), 1, "they do not see the same");
    drop(run.stdin.take());
    finished(run);
    receipt
}

both! {
    fn adv_p13_a_every_process_of_a_hundred_is_what_the_receipt_says(stage) {
        let receipt = compare(stage, &[]);

        assert_eq!((value(&receipt, "seccomp.mode"), value(&receipt, "no_new_privs")), ("2".into(), "true".into()));
    }

    fn adv_p13_b_control_a_receipt_of_less_says_less(stage) {
        // With a layer off on purpose, the same comparison holds, and the claim is another one.
        let receipt = compare(stage, &["--allow-degraded", "seccomp"]);

        assert_eq!(value(&receipt, "seccomp.mode"), "0");
        assert!(receipt["degraded"].to_string().contains("seccomp"), "{receipt}");
    }

    fn adv_p13_c_a_forged_receipt_fails(stage) {
        stage.run(&["true"]).assert_code(0);
        stage.run_with(&["--allow-degraded", "seccomp"], &["true"]).assert_code(0);
        let all = runs(stage);
        let path = |id: &str| stage.at(&format!("state/palisade/receipts/{id}.json"));
        let verify = |id: &str| palisade(stage, &["receipt", "verify", id]);
        for id in &all {
            // The control: as they were written, they hold.
            assert_eq!(verify(id).code, 0, "{:?}", verify(id));
        }
        let id = all.iter().find(|id| !fs::read_to_string(path(id)).unwrap().contains("\"degraded\":[]")).unwrap();
        let honest = fs::read_to_string(path(id)).unwrap();
        let forgeries = [
            ("another number", honest.replacen("\"value\":0", "\"value\":2", 1)),
            ("cut", honest[..honest.len() / 2].to_owned()),
            ("empty", String::new()),
            ("one digit", flipped(&honest)),
        ];
        for (what, forged) in forgeries {
            assert_ne!(forged, honest, "{what}");
            fs::write(path(id), forged).unwrap();
            assert_ne!(verify(id).code, 0, "{what}: {:?}", verify(id));
        }
        fs::write(path(id), &honest).unwrap();
        assert_eq!(verify(id).code, 0);
        // One that the command itself wrote, with the text of an honest one and a name that nobody knows.
        let made_up = honest.replace(id.as_str(), "run_00000000000000000000000000000000");
        stage.file("work/forged.json", made_up);
        let forged = palisade(stage, &["receipt", "verify", "--file", &stage.path("work/forged.json")]);
        assert_ne!(forged.code, 0, "{forged:?}");
    }

    fn adv_p13_d_the_receipt_of_another_run_is_not_taken_for_this_ones(stage) {
        stage.run_with(&["--allow-degraded", "seccomp"], &["true"]).assert_code(0);
        stage.run(&["true"]).assert_code(0);
        let path = |id: &str| stage.at(&format!("state/palisade/receipts/{id}.json"));
        let degraded = |id: &&String| !fs::read_to_string(path(id)).unwrap().contains("\"degraded\":[]");
        let (less, whole): (Vec<String>, Vec<String>) = runs(stage).into_iter().partition(|id| degraded(&id));
        fs::copy(path(&whole[0]), path(&less[0])).unwrap();

        let verified = palisade(stage, &["receipt", "verify", &less[0]]);

        assert_ne!(verified.code, 0, "{verified:?}");
        // The control: under its own name it is believed.
        assert_eq!(palisade(stage, &["receipt", "verify", &whole[0]]).code, 0);
    }
}

/// The same text with another digit in the middle of it.
fn flipped(text: &str) -> String {
    let at = text.bytes().enumerate().skip(text.len() / 2).find(|(_, byte)| byte.is_ascii_digit()).unwrap().0;
    let digit = if &text[at..=at] == "0" { "1" } else { "0" };
    format!("{}{digit}{}", &text[..at], &text[at + 1..])
}
