//! Secrets that are lent to runs: on a line of the same user, by the gate, and in no answer.

use std::io::Read;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::{Duration, Instant};

use api::{Client, LendSecretRequest};
use tests::{Host, Person};

use crate::secrets::{VALUE, secret};

/// A run that listens.
struct Run {
    listener: UnixListener,
    line: String,
}

impl Run {
    fn new() -> Self {
        let line = model::SecretId::random().to_string().split_once('_').unwrap().1.to_owned();
        let address = SocketAddr::from_abstract_name(format!("{}{line}", api::LINE)).unwrap();
        Self { listener: UnixListener::bind_addr(&address).unwrap(), line }
    }

    fn wants(&self, name: &str, host: &str) -> LendSecretRequest {
        LendSecretRequest {
            name: name.into(),
            worktree: None,
            hosts: vec![host.into()],
            run: format!("run_{}", "a".repeat(32)),
            line: self.line.clone(),
            seconds: None,
        }
    }

    /// What came, and the line that it came on.
    fn got(&self) -> (String, UnixStream) {
        let (mut line, _) = self.listener.accept().unwrap();
        line.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut length = [0; 4];
        line.read_exact(&mut length).unwrap();
        let mut value = vec![0; usize::try_from(u32::from_be_bytes(length)).unwrap()];
        line.read_exact(&mut value).unwrap();
        (String::from_utf8(value).unwrap(), line)
    }

    fn is_left_alone(&self) -> bool {
        self.listener.set_nonblocking(true).unwrap();
        let came = self.listener.accept();
        self.listener.set_nonblocking(false).unwrap();
        // Whoever connected and said nothing gave nothing.
        came.is_err() || came.is_ok_and(|(mut line, _)| line.read(&mut [0]).is_ok_and(|got| got == 0))
    }
}

/// Waits until the daemon ends a line.
fn ends(line: &mut UnixStream) -> bool {
    line.read(&mut [0]).is_ok_and(|got| got == 0)
}

fn lent(client: &Client, name: &str, worktree: Option<&str>) -> (String, String) {
    let run = Run::new();
    let wants =
        LendSecretRequest { worktree: worktree.map(str::to_owned), ..run.wants(name, "api.example.org:443") };
    let told = client.lend_secret(&wants).unwrap();
    (told.source, run.got().0)
}

fn of(host: &Host, head: u64) -> Vec<(String, serde_json::Value)> {
    let entries = host.since(head).into_iter().filter(|entry| entry.action == "secret.lease");
    entries.map(|entry| (entry.decision, serde_json::from_str(&entry.line).unwrap())).collect()
}

/// SEC-05: the value that counts is lent, and the record says for whom, for what and from where.
#[test]
fn sec_05_the_secret_that_counts_is_lent_on_the_line_and_in_no_answer() {
    let host = Host::builder()
        .set("log.level", "trace")
        .variable("PALISADE_SECRET_KEY", "of the environment")
        .start();
    let owner = host.owner().client.clone();
    let repo = host.repo("demo");
    let tree = host.owner().worktree(&repo, "tree", "session").id;
    assert_eq!(lent(&owner, "KEY", Some(&tree)), ("environment".into(), "of the environment".into()));
    for (whose, source) in [(Some("daemon"), "daemon"), (Some(tree.as_str()), "worktree"), (None, "user")] {
        owner.add_secret(&secret("KEY", &format!("{VALUE} of {source}"), whose)).unwrap();
        let head = host.ledger_head();
        assert_eq!(lent(&owner, "KEY", Some(&tree)), (source.into(), format!("{VALUE} of {source}")));
        let entries = of(&host, head);
        assert_eq!(
            entries.iter().map(|(decision, _)| decision.as_str()).collect::<Vec<_>>(),
            ["allowed", "done"]
        );
        let (opened, closed) = (&entries[0].1, &entries[1].1);
        assert_eq!(opened["detail"]["hosts"], "api.example.org:443", "{opened}");
        assert_eq!(opened["detail"]["consumer"], format!("run_{}", "a".repeat(32)), "{opened}");
        assert_eq!(closed["detail"]["source"], source, "{closed}");
        assert!(!opened.to_string().contains(VALUE) && !closed.to_string().contains(VALUE));
    }
    // Outside the worktree its secret does not count.
    owner.remove_secret(&host.owner().id, "KEY").unwrap();
    assert_eq!(lent(&owner, "KEY", None).0, "daemon");
    // And by the answer, nothing.
    let run = Run::new();
    let body = serde_json::to_vec(&run.wants("KEY", "api.example.org")).unwrap();
    let mut answer =
        owner.send("POST", "/api/v1/secrets/lend", &[("content-type", "application/json")], body).unwrap();
    let text = answer.body_mut().read_to_string().unwrap();
    assert!(answer.status() == 200 && !text.contains(VALUE), "{text}");
    assert!(run.got().0.contains(VALUE));
    assert!(!host.log().contains(VALUE));
}

/// SEC-06: for its hosts, to the same user, with the right to it; each refusal is on the record once, and gives nothing.
#[test]
fn sec_06_what_is_not_lent_is_refused_and_recorded_and_nothing_goes_out() {
    let host = Host::start();
    let owner = host.owner().client.clone();
    owner.add_secret(&secret("KEY", VALUE, Some("daemon"))).unwrap();
    let (viewer, member) = (host.user("vic", "viewer"), host.user("mem", "member"));
    let repo = host.repo("demo");
    let hidden = host.owner().worktree(&repo, "hidden", "none").id;
    owner.add_secret(&secret("OF_THE_TREE", VALUE, Some(&hidden))).unwrap();
    let run = Run::new();
    let good = run.wants("KEY", "api.example.org:443");
    let nobody = LendSecretRequest { line: "0".repeat(32), ..good.clone() };
    let elsewhere = run.wants("KEY", "evil.example:443");
    let hosts = |hosts: &[&str]| LendSecretRequest {
        hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
        ..good.clone()
    };
    let in_hidden =
        LendSecretRequest { worktree: Some(hidden), ..run.wants("OF_THE_TREE", "api.example.org") };
    let cases: Vec<(&Person, LendSecretRequest, u16, &[&str])> = vec![
        (&viewer, good.clone(), 403, &["refused"]),
        (&member, in_hidden, 404, &["refused"]),
        (host.owner(), run.wants("ABSENT", "api.example.org"), 404, &["allowed", "failed"]),
        (host.owner(), elsewhere, 409, &["allowed", "failed"]),
        (host.owner(), hosts(&["api.example.org:443", "evil.example:443"]), 409, &["allowed", "failed"]),
        (host.owner(), nobody, 422, &["refused"]),
        (host.owner(), hosts(&[]), 422, &["refused"]),
        (host.owner(), hosts(&["*.example.org"]), 422, &["refused"]),
        (host.owner(), hosts(&["api.example.org"; 33]), 422, &["refused"]),
        (host.owner(), LendSecretRequest { run: "run_../x".into(), ..good.clone() }, 422, &["refused"]),
        (
            host.owner(),
            LendSecretRequest { line: "../../run/docker.sock".into(), ..good.clone() },
            422,
            &["refused"],
        ),
        (host.owner(), LendSecretRequest { seconds: Some(86_401), ..good.clone() }, 422, &["refused"]),
        (host.owner(), LendSecretRequest { name: "1 BAD".into(), ..good.clone() }, 422, &["refused"]),
    ];
    for (who, body, status, expected) in cases {
        let head = host.ledger_head();
        let told = who.client.lend_secret(&body).unwrap_err();
        assert_eq!(told.status(), Some(status), "{body:?}: {told}");
        let entries = of(&host, head);
        let decisions: Vec<&str> = entries.iter().map(|(decision, _)| decision.as_str()).collect();
        assert_eq!(decisions, expected, "{body:?}: {told}");
        assert!(run.is_left_alone(), "{body:?}");
    }
    // Where nobody said a host, it may go to any; where somebody did, within that.
    owner.lend_secret(&good).unwrap();
    assert_eq!(run.got().0, VALUE);
}

/// SEC-06: a daemon for several people lends nothing to the runs of its clients, whoever asks.
#[test]
fn sec_06_in_team_mode_nothing_is_lent_to_runs() {
    let host =
        Host::builder().set("mode", "team").variable("PALISADE_MASTER_KEY", &tests::master_key()).start();
    host.owner().client.add_secret(&secret("KEY", VALUE, None)).unwrap();
    let (run, head) = (Run::new(), host.ledger_head());
    let told = host.owner().client.lend_secret(&run.wants("KEY", "api.example.org")).unwrap_err();
    assert!(told.status() == Some(422) && told.to_string().contains("team mode"), "{told}");
    assert!(run.is_left_alone());
    assert_eq!(
        of(&host, head).iter().map(|(decision, _)| decision.as_str()).collect::<Vec<_>>(),
        ["refused"]
    );
}

/// SEC-06: a line ends with the secret, with the right, with the credential and with the daemon.
#[test]
fn sec_06_a_line_ends_with_what_the_lease_rests_on() {
    let mut host = Host::start();
    let owner = host.owner().client.clone();
    let member = host.user("mem", "member");
    let borrow = |client: &Client| {
        let run = Run::new();
        client.lend_secret(&run.wants("KEY", "api.example.org")).unwrap();
        run.got().1
    };
    owner.add_secret(&secret("KEY", VALUE, Some("daemon"))).unwrap();
    let key = owner
        .create_key(&api::CreateKeyRequest { label: "k".into(), scope: "admin".into(), days: None })
        .unwrap();
    let with_key = host.anonymous().with_token(&key.secret.0);

    let (mut by_member, mut by_key, mut stays) = (borrow(&member.client), borrow(&with_key), borrow(&owner));
    let begun = Instant::now();
    owner.revoke_key(&key.key.id).unwrap();
    assert!(ends(&mut by_key));
    let forbid = format!(
        "forbid (principal == User::\"{}\", action == Action::\"secret.lease\", resource);",
        member.id
    );
    owner.add_policy("no-loans", &forbid).unwrap();
    assert!(ends(&mut by_member));
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    // The others' go on.
    stays.set_nonblocking(true).unwrap();
    assert_eq!(stays.read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    stays.set_nonblocking(false).unwrap();
    owner.remove_secret("daemon", "KEY").unwrap();
    assert!(ends(&mut stays));

    owner.add_secret(&secret("KEY", VALUE, Some("daemon"))).unwrap();
    let mut killed = borrow(&owner);
    host.kill();
    assert!(ends(&mut killed));
}
