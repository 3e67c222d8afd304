//! ACC-01, read from the sources: every use case asks the gate for its caller, and what the gate gave is spent.
//!
//! That an effect cannot be called without its permit is the compiler's matter (`store/tests/misuse.rs`); that a use
//! case reaches nothing beside those effects is looked at here.

use std::collections::BTreeMap;
use std::path::Path;

/// Public functions of the runtime that act for nobody in particular, and why each may.
const FOR_NO_CALLER: &[(&str, &str)] = &[
    ("boot", "there is no gate yet"),
    ("auth", "authentication: it makes the principals"),
    ("gate", "the gate itself"),
    ("clock", "the time"),
    ("ring", "seals what the server keeps; it reaches no row"),
    ("answers", "a handle on remembered answers and nothing else"),
    ("keep_house", "the daemon's own care"),
    ("shut_down", "the daemon's own end"),
    ("watch_hold", "the daemon's own care"),
    ("watch_record", "the daemon's own care"),
    ("drop_old_entries", "the daemon's own care, on the record by the ledger"),
    ("checks", "readiness, which tells no secret to those who watch"),
    ("vitals", "takes the permit of the metrics, or is the scraper that the settings let in"),
    ("with_lease", "a consumer looks at what was lent to it, which took a permit"),
    ("masking", "looks at a value that the caller has, and keeps nothing"),
    ("end_leases_of", "a consumer is over; nothing is told"),
    ("end_lease", "a consumer is over; nothing is told"),
    ("pair", "a device that has a code and is not signed in yet"),
];

/// Use cases that name a caller and hand the question on.
const HAND_ON: &[(&str, &str)] = &[
    ("refuse_malformed", "writes a refusal down and does nothing else"),
    ("worktree_log", "reads the worktree by the use case for that, then its repository"),
    ("worktree_diff", "reads the worktree by the use case for that, then its repository"),
    ("worktree_files", "reads the worktree by the use case for that, then its tree"),
    ("worktree_file", "reads the worktree by the use case for that, then its tree"),
    ("prompt_session", "hands on to what queues every prompt, which takes the act through the gate"),
    ("allow_approval", "hands on to what carries out every allowing, which takes the act through the gate"),
    ("lend_longer", "lends by the use case for that, and keeps one of the two loans"),
    ("offer_totp", "reads the caller by the use case for that"),
    ("confirm_totp", "proves the caller again, then changes by a use case"),
    ("remove_totp", "proves the caller again, then changes by a use case"),
];

/// The sources of a crate, each with its name; without the tests in them.
fn sources(folder: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".rs") && name != "tests.rs" {
                found.push((name, std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    assert!(found.len() > 10, "{folder} was found");
    found
}

/// The public functions of `impl Runtime`: name, head, body.
fn use_cases() -> BTreeMap<String, (String, String)> {
    let mut found = BTreeMap::new();
    for (_, text) in sources("runtime") {
        for block in text.split("\nimpl Runtime {").skip(1) {
            let block = block.split("\n}").next().unwrap();
            // Where one function ends the next begins, whether public or not.
            for function in block.split("\n    }\n") {
                let Some(start) = function.find("\n    pub ") else { continue };
                let (head, body) = function[start..].split_once(" {\n").unwrap();
                let name = head.split("fn ").nth(1).unwrap().split(['(', '<']).next().unwrap();
                assert!(
                    found.insert(name.to_owned(), (head.to_owned(), body.to_owned())).is_none(),
                    "{name}"
                );
            }
        }
    }
    found
}

#[test]
fn acc_01_every_use_case_takes_a_caller_through_the_gate() {
    let found = use_cases();
    assert!(found.len() > 40, "{}", found.len());
    let listed = |list: &[(&str, &str)], name: &str| list.iter().any(|(one, _)| *one == name);
    for (name, (head, body)) in &found {
        if listed(FOR_NO_CALLER, name) {
            assert!(!head.contains("Principal"), "`{name}` has a caller");
            continue;
        }
        assert!(head.contains("who: &Principal"), "`{name}` names no caller and is not listed with a reason");
        let asks = ["self.look(", "this.look(", ".perform(", ".perform_noting("];
        let asks = asks.iter().any(|ask| body.contains(ask));
        assert!(asks || listed(HAND_ON, name), "`{name}` does not ask the gate");
    }
    for (name, reason) in FOR_NO_CALLER.iter().chain(HAND_ON) {
        assert!(found.contains_key(*name), "`{name}` is gone; take it from the list");
        assert!(!reason.is_empty());
    }
}

#[test]
fn acc_01_no_use_case_drops_its_permit_or_goes_around_the_handles_that_take_one() {
    for (name, text) in sources("runtime") {
        for (at, _) in text.match_indices(".look(") {
            let (before, after) = text.split_at(at);
            let statement =
                [before.rsplit([';', '{', '}']).next().unwrap(), after.split(';').next().unwrap()];
            let dropped = statement.iter().any(|part| part.contains("drop") || part.contains("let _"));
            assert!(!dropped, "{name} drops a permit: {}", statement.concat());
        }
        for around in ["gate.ledger()", "gate().ledger()", "engine.write(", "engine.row(", "engine.rows("] {
            assert!(!text.contains(around), "{name}: `{around}` needs no permit");
        }
        let opens = ["boot.rs", "restore.rs"].contains(&name.as_str());
        assert!(opens || !text.contains("open_engine("), "{name} opens the database beside the store");
        let engine = text.contains("Engine::open_");
        assert!(name == "boot.rs" || !engine, "{name} opens the database beside the store");
    }
    for (name, text) in sources("server") {
        for around in [".ledger()", "gate().authorize", "gate().close", "open_engine", "runtime::Store"] {
            assert!(!text.contains(around), "server, {name}: `{around}` goes around the use cases");
        }
        let scrapes = text.contains("MetricsReader::Scraper");
        assert!(
            name == "scrape.rs" || !scrapes,
            "server, {name}: only the scraper's listener asks without a permit"
        );
    }
}
