//! Entries proved elsewhere, from a bundle alone; and a record that was changed while the daemon was down.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use api::{LedgerFilter, MintPassRequest};
use tests::{Host, PASSWORD, program};

use crate::gateway_wire::until;
use crate::ledger_secrets::files;

fn palisade(host: &Host, words: &[&str]) -> Output {
    let mut command = host.command("palisade");
    command.args(["--url", host.base()]).args(words).output().unwrap()
}

fn sign_in(host: &Host) {
    let mut command = host.command("palisade");
    command.args(["--url", host.base(), "login", "--email", "owner@example.org", "--password-stdin"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(format!("{PASSWORD}\n").as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
}

/// What the stand-alone verifier says of a bundle: its exit code and its words.
fn verify(bundle: &Path, trust: Option<&Path>) -> (Option<i32>, String) {
    let mut command = Command::new(program("palisade-verify"));
    command.arg("--bundle").arg(bundle).env_clear();
    if let Some(trust) = trust {
        command.arg("--trust").arg(trust);
    }
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

fn manifest(bundle: &Path) -> serde_json::Value {
    serde_json::from_slice(&fs::read(bundle.join("manifest.json")).unwrap()).unwrap()
}

/// LED-10: daemon, client and verifier: what was granted and done is proved from the bundle alone, and changing
/// any one part of it breaks that.
#[test]
fn led_10_a_bundle_of_the_real_daemon_is_proved_elsewhere() {
    let host = Host::start();
    sign_in(&host);
    let repo = host.repo("demo");
    for n in 0..5 {
        drop(host.owner().worktree(&repo, &format!("w-{n}"), "session"));
    }
    let grant = MintPassRequest { label: "p".into(), grant: model::Grant::nothing(), minutes: None };
    let pass = host.owner().client.mint_pass(&grant).unwrap().pass.id;
    host.owner().client.revoke_pass(&pass).unwrap();

    let folder = tempfile::tempdir().unwrap();
    let (bundle, trust) = (folder.path().join("bundle"), folder.path().join("trust.json"));
    fs::write(&trust, palisade(&host, &["ledger", "trust"]).stdout).unwrap();
    let head = host.ledger_head();
    let made = palisade(&host, &["ledger", "export", "--bundle", bundle.to_str().unwrap(), "--about", &pass]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let note: Vec<_> =
        host.since(head).into_iter().filter(|entry| entry.action == "ledger.read_all").collect();
    assert_eq!(note.len(), 1, "one entry says who took it");
    assert_eq!((note[0].decision.as_str(), &note[0].who), ("noted", &host.owner().id));

    let (code, text) = verify(&bundle, Some(&trust));
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("verdict: intact\nclaim: tamper-detecting"), "{text}");
    assert_eq!(verify(&bundle, None).0, Some(2), "without trust it cannot be checked");
    let listed = manifest(&bundle);
    assert_eq!(
        listed["entries"].as_array().unwrap().len(),
        4,
        "minted and revoked, begun and done: {listed}"
    );
    let inputs: Vec<_> =
        listed["inputs"].as_array().unwrap().iter().map(|it| it["kind"].as_str().unwrap()).collect();
    assert_eq!(inputs, ["grant", "policies"]);
    let stored = crate::ledger_search::segments(&host.data().join("ledger"));
    let entries = fs::read_to_string(bundle.join("entries.jsonl")).unwrap();
    assert!(entries.lines().all(|line| stored.contains(line)), "what is proved is what is stored");

    let all = files(&bundle);
    assert_eq!(all.len(), 6, "{all:?}");
    for (path, bytes) in &all {
        for place in (0..bytes.len()).step_by((bytes.len() / 20).max(1)) {
            let mut changed = bytes.clone();
            changed[place] ^= 1;
            fs::write(path, changed).unwrap();
            let (code, text) = verify(&bundle, Some(&trust));
            assert_eq!(code, Some(1), "{} byte {place}: {text}", path.display());
        }
        fs::remove_file(path).unwrap();
        let (code, text) = verify(&bundle, Some(&trust));
        assert_eq!(code, Some(1), "without {}: {text}", path.display());
        fs::write(path, bytes).unwrap();
    }
    assert_eq!(verify(&bundle, Some(&trust)).0, Some(0));
    let words =
        ["ledger", "verify", "--bundle", bundle.to_str().unwrap(), "--trust", trust.to_str().unwrap()];
    assert!(palisade(&host, &words).status.success(), "the client says the same");
}

/// LED-10: a range is whole by its numbers; an existing target, a refusal or nothing to prove leave nothing behind.
#[test]
fn led_10_a_bundle_is_there_whole_or_not_at_all() {
    let host = Host::start();
    sign_in(&host);
    drop(host.repo("demo"));
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let names = || fs::read_dir(folder.path()).unwrap().count();
    let export = |name: &str, more: &[&str]| {
        let target = path(name);
        palisade(&host, &[&["ledger", "export", "--bundle", target.as_str()], more].concat())
    };
    assert_eq!(export("none", &["--about", "wt_nobody"]).status.code(), Some(1));
    assert_eq!(names(), 0);
    assert!(export("range", &["--from", "2", "--to", "4"]).status.success());
    fs::write(path("trust.json"), host.owner().client.ledger_trust().unwrap().trust).unwrap();
    let (code, text) = verify(&PathBuf::from(path("range")), Some(Path::new(&path("trust.json"))));
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("scope: entries 2 to 4; none is left out"), "{text}");
    let before = files(folder.path());
    let head = host.ledger_head();
    assert_eq!(export("range", &[]).status.code(), Some(1), "the target exists");
    assert_eq!(files(folder.path()), before);
    assert_eq!(host.ledger_head(), head, "and nothing was taken");

    let bo = host.user("bo", "member");
    assert_eq!(bo.client.export_bundle(None, None, None).map(drop).unwrap_err().status(), Some(403));
    let owner = &host.owner().client;
    for query in
        ["as=bundle&from=0", "as=bundle&about=", "about=x", "as=files&from=1", "as=tar", "as=bundle&x=1"]
    {
        let path = format!("/api/v1/ledger/export?{query}");
        assert_eq!(owner.send("GET", &path, &[], Vec::new()).unwrap().status(), 422, "{query}");
    }
}

/// LED-06: a change before the last checkpoint, which opening does not read, is found by the daemon itself soon
/// after its start: in the log, on the ledger, in status and metrics; and it keeps nobody out.
#[test]
fn led_06_a_ledger_changed_while_the_daemon_was_down_is_reported_after_the_start() {
    let mut host = Host::start();
    let known = |host: &Host| host.owner().client.status().unwrap().ledger;
    until("the first check ends", || known(&host) == "intact");
    assert!(host.owner().client.metrics().unwrap().contains("palisade_ledger_intact 1"));
    drop(host.repo("demo"));
    host.stop();
    let segment = fs::read_dir(host.data().join("ledger/segments")).unwrap().next().unwrap().unwrap().path();
    let mut changed = fs::read(&segment).unwrap();
    let place = changed.len() / 2;
    changed[place] ^= 1;
    fs::write(&segment, &changed).unwrap();

    host.start_daemon().unwrap();
    host.rebase();
    until("the change is reported", || known(&host) == "tampered");
    assert!(host.owner().client.metrics().unwrap().contains("palisade_ledger_intact 0"));
    let check = LedgerFilter { action: Some("ledger.check".into()), ..LedgerFilter::default() };
    until("it is on the ledger", || {
        host.owner().client.ledger(&check).is_ok_and(|page| page.items.len() == 1)
    });
    assert!(host.log().contains("tampered with"), "{}", host.log());
    let ready = host.anonymous().send("GET", "/readyz", &[], Vec::new()).unwrap();
    assert_eq!(ready.status(), 200, "the owner is not locked out");
    drop(host.repo("another"));
}

/// LED-10, LED-11: the hash by which an entry names an input, and the one in the note of an export, are no secrets: the
/// redactor leaves them alone.
#[test]
fn led_10_the_redactor_leaves_hashes_of_inputs_alone() {
    let redactor = redact::Redactor::new();
    for number in 0..200u32 {
        let named = ledger::reference(&number.to_be_bytes());
        assert_eq!(redactor.scrub(&named), named);
        let hash = named.rsplit(':').next().unwrap();
        assert_eq!(redactor.scrub(hash), hash);
    }
}
