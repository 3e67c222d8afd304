//! ACC-01: what must not compile. An effect takes a permit by value, and only the gate can make one.

#![expect(
    clippy::unwrap_used,
    clippy::string_slice,
    reason = "a test that cannot read the sources ends here"
)]

use std::path::{Path, PathBuf};

/// What [`store::Store`] offers without a permit, and why each may. Everything else takes one, by value.
const WITHOUT_PERMIT: &[(&str, &str)] = &[
    // Beginning.
    ("start", "there is no gate yet: the gate reads its facts from what this makes"),
    ("master_key_name", "start compares it with the key that was given; names a key and holds none"),
    ("keep_master_key_name", "start writes it down once; what stands there stays"),
    ("key_ring", "start compares it with the ring that it opened; sealed bytes"),
    ("begin_key_ring", "start keeps the first one, sealed; what stands there stays"),
    ("seal_under", "start says which ring it opened; names no row"),
    ("ring_changed", "whether the ring is another by now: a word"),
    ("has_users", "start asks whether the ledger may be empty"),
    ("last_line", "start compares it with the ledger, before there is a gate"),
    ("lines_after", "start keeps aside what the ledger lost, before there is a gate"),
    ("forget_lines_after", "start, when a loss is accepted; that is on the record"),
    // The daemon's own care.
    ("kind", "a word for the engine"),
    ("ping", "readiness"),
    ("keep_hold", "keeps other daemons out"),
    ("confirm_hold", "lets writes go on after the hold was taken again"),
    ("is_tight", "whether there is room"),
    ("tallies", "counts for the metrics, which take a permit or are open by the settings; no row is told"),
    ("is_rationed", "whether that room was given"),
    ("make_room", "room for what narrows"),
    ("restock", "keeps room back"),
    ("publish", "wakes followers, and tells them a number"),
    ("follow", "a number that wakes followers; the events behind it take a permit"),
    ("forget_events", "old events go by their age"),
    ("index_entries", "the search index follows the ledger"),
    ("indexed_up_to", "how far it came: a number"),
    ("forget_entries_before", "the search index follows what the ledger dropped and signed for"),
    ("waiting_tasks", "what is next; each is begun by a permit"),
    ("tasks_at_work", "what the daemon compares with what it carries out"),
    (
        "abandon_task",
        "the daemon says of what nobody carries out that it failed, and closes what was asked there",
    ),
    ("reopen_interrupted", "start opens again what the end of the last daemon left half closed"),
    (
        "interrupted_endings",
        "start asks what was being done to worktrees by a permit when the last daemon ended",
    ),
    ("end_interrupted", "start brings that to its end, on the record; it takes what began by a permit"),
    ("sessions_in", "where the daemon says what became of that, and tidies up: ids, told to nobody"),
    ("is_over", "whether the daemon may remove the home of a session's agents: a word"),
    ("is_settled", "whether a worktree is being ended: nothing is told but that"),
    ("hold_session", "keeps back what nobody may begin"),
    ("due_notices", "ends that are to be told; each is told by a permit"),
    ("drop_notice", "what nobody may be told any more is not told"),
    ("last_step", "where the writer of steps goes on: a number"),
    (
        "append_steps",
        "what happened in tasks that were begun by a permit, and the daemon's own word about them",
    ),
    // What was begun by a permit goes on and ends.
    ("name_run", "takes the task that is at work"),
    ("carries_over", "takes the task that is at work"),
    ("repo_at_work", "takes the task that is at work"),
    ("keep_standing", "takes the task that is at work"),
    ("stay", "takes what began by a permit to end a worktree, and opens again what that closed"),
    ("who_asked", "takes the task that is at work"),
    ("end_task", "takes the task that is at work"),
    ("hold_task", "takes the task that is at work"),
    ("open_approval", "takes the task that is at work"),
    ("tell_of_network", "takes the task that is at work"),
    ("spend", "takes the task that is at work"),
    ("at_once", "how many may be at work at once, which the daemon compares with what is"),
    ("comes_from", "whose budgets hold for a session: ids, told to nobody"),
    ("pass_standings", "the same of a Pass, which says itself what may be spent"),
    ("standings", "what the daemon compares with what a task spends"),
    ("consents_to", "takes the task that is at work; each is used by a permit of who gave it"),
    ("decision", "takes the task that is at work"),
    ("expire_approval", "takes the task that is at work"),
    // Before a request is judged.
    ("answers", "a handle on remembered answers and nothing else"),
];

/// What `access` asks without a warrant: facts that a decision or a sign-in rests on, before there is a permit. None of
/// them writes.
const READS_FACTS: &[&str] = &[
    "user",
    "account",
    "account_of",
    "worktree",
    "session",
    "repo_exists",
    "key",
    "pass",
    "added_policies",
    "any_user",
    "bootstrap_fits",
    "refresh",
    "family_live",
    "pairing",
    "imported_cost",
];

#[test]
fn acc_01_no_effect_without_a_permit_and_no_permit_but_from_the_gate() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/*.rs");
}

struct Function {
    name: String,
    head: String,
    body: String,
}

/// The functions in blocks that begin with this line; of those, the ones whose first words are `vis`.
fn functions(block: &str, vis: &str) -> Vec<Function> {
    let mut found = Vec::new();
    for path in sources(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))) {
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains("\nimpl crate::") && !text.contains("\nimpl super::"), "not read: {path:?}");
        for inside in text.split(&format!("\n{block} {{\n")).skip(1) {
            let inside = inside.split("\n}\n").next().unwrap();
            for piece in format!("\n{inside}").split("\n    }").filter(|piece| piece.contains("fn ")) {
                let Some(start) = piece.find(&format!("\n    {vis}")) else { continue };
                let (head, body) = piece[start..].split_once(" {\n").unwrap();
                let name = head.split("fn ").nth(1).unwrap().split(['(', '<']).next().unwrap();
                found.push(Function { name: name.into(), head: head.into(), body: body.into() });
            }
        }
    }
    found
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let ours = files.into_iter().filter(|path| path.extension().is_some_and(|end| end == "rs"));
    ours.chain(folders.iter().flat_map(|folder| sources(folder))).collect()
}

/// Whether it takes a permit, and not only a look at one.
fn takes_permit(head: &str) -> bool {
    let (arguments, _) = head.split_once("->").unwrap_or((head, ""));
    arguments.contains(": Permit<")
}

/// An effect that is added without a permit is found here, and so is one without its line among those that must not
/// compile.
#[test]
fn acc_01_whatever_the_store_offers_takes_a_permit_unless_there_is_a_reason() {
    let listed = include_str!("ui/effects_without_permit.rs");
    let found = functions("impl Store", "pub ");
    let mut effects = 0;
    for Function { name, head, .. } in &found {
        assert!(!head.contains("&Permit<"), "`{name}` looks at a permit and does not use it up");
        let excused = WITHOUT_PERMIT.iter().any(|(one, _)| one == name);
        assert_ne!(takes_permit(head), excused, "`{name}`: a permit, or a reason, and not both");
        if takes_permit(head) {
            effects += 1;
            assert!(listed.contains(&format!("store.{name}(()")), "`{name}` has no line");
        }
    }
    assert!(effects > 36, "{effects} were found");
    for (name, reason) in WITHOUT_PERMIT {
        assert!(found.iter().any(|one| one.name == *name), "`{name}` is gone; take it from the list");
        assert!(!reason.is_empty(), "`{name}` has no reason");
    }
}

/// What authentication keeps takes a warrant instead.
#[test]
fn acc_01_what_access_itself_writes_takes_a_warrant() {
    let found = functions("impl Backing for Store", "async fn ");
    assert!(found.len() > 20, "{} were found", found.len());
    for Function { name, head, body } in &found {
        let reads = READS_FACTS.contains(&name.as_str());
        assert_ne!(head.contains("Warrant"), reads, "`{name}`: a warrant, or only a look at facts");
        assert!(!reads || !body.contains(".write()"), "`{name}` writes");
    }
}

/// The engine below, which knows no permits, does not leave the store; nor does a transaction.
#[test]
fn acc_01_the_store_gives_its_engine_to_nobody() {
    for Function { name, head, .. } in functions("impl Store", "pub ") {
        let (_, answer) = head.split_once("->").unwrap_or((head.as_str(), ""));
        let words: Vec<&str> = answer.split(|c: char| !c.is_alphanumeric()).collect();
        assert!(!words.contains(&"Engine") && !words.contains(&"Tx"), "`{name}` gives the engine away");
    }
}
