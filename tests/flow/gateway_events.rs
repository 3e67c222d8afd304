//! Events resume from a cursor, without gap or double, and stop with the right to read them.

use std::io::{BufRead, BufReader, Read};
use std::time::{Duration, Instant};

use api::Event;
use tests::{Host, Person, scale};

use crate::gateway_socket::{closed, open, text};
use crate::gateway_wire::{ask, psql, until};

/// Server-sent events, one at a time.
struct Stream(std::io::Lines<BufReader<Box<dyn Read + Send>>>);

impl Stream {
    fn follow(who: &Person, after: Option<i64>) -> Self {
        Self(BufReader::new(Box::new(who.client.events(after).unwrap()) as Box<dyn Read + Send>).lines())
    }

    /// The next event's name and data.
    fn next(&mut self) -> Option<(String, String)> {
        let mut name = String::new();
        loop {
            let line = self.0.next()?.ok()?;
            if let Some(rest) = line.strip_prefix("event: ") {
                name = rest.to_owned();
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return Some((name, data.to_owned()));
            }
        }
    }

    fn event(&mut self) -> Event {
        let (name, data) = self.next().expect("an event");
        serde_json::from_str(&data).unwrap_or_else(|_| panic!("{name}: {data}"))
    }
}

/// Many changes of one worktree, from four clients at once.
fn change(host: &Host, worktree: &str, count: usize) {
    std::thread::scope(|scope| {
        for lane in 0..4 {
            scope.spawn(move || {
                for n in (lane..count).step_by(4) {
                    host.owner().client.update_worktree(worktree, &format!("change {n}")).unwrap();
                }
            });
        }
    });
}

fn last(host: &Host) -> i64 {
    let mut probe = Stream::follow(host.owner(), Some(0));
    let worktree =
        host.owner().worktree(&host.repo(&format!("probe-{}", host.ledger_head())), "w", "session").id;
    loop {
        let event = probe.event();
        if event.worktree.as_deref() == Some(&worktree) {
            return event.seq;
        }
    }
}

/// GTW-06: a client far behind catches up while others go on writing; it may break off and resume anywhere.
#[test]
fn gtw_06_a_client_far_behind_catches_up_without_gap_or_double() {
    let host = Host::builder().set("limits.requests_per_minute", "0").start();
    let repo = host.repo("demo");
    let worktree = host.owner().worktree(&repo, "one", "session").id;
    let many = scale(10_000, 500);
    change(&host, &worktree, many);
    let end = last(&host);
    assert!(end > i64::try_from(many).unwrap());

    std::thread::scope(|scope| {
        let writer = scope.spawn(|| change(&host, &worktree, 100));
        let goal = end + 100;
        // Over server-sent events, broken off every 97 events.
        let (mut seen, mut stream) = (0, Stream::follow(host.owner(), Some(0)));
        while seen < goal {
            let event = stream.event();
            assert_eq!(event.seq, seen + 1, "no gap, no double");
            seen = event.seq;
            if seen % 97 == 0 {
                stream = Stream::follow(host.owner(), Some(seen));
            }
        }
        writer.join().unwrap();
        // Over a socket, talking all the while.
        let (mut seen, mut socket) = (0, open(&host, host.owner(), "?after=0"));
        while seen < goal {
            let said = text(&mut socket);
            if said.contains("pong") {
                continue;
            }
            let event: Event = serde_json::from_str(&said).unwrap();
            assert_eq!(event.seq, seen + 1, "no gap, no double");
            seen = event.seq;
            if seen % 10 == 0 && seen < 5_000 {
                socket.send(tungstenite::Message::text(r#"{"type":"ping"}"#)).unwrap();
            }
            if seen % 211 == 0 {
                socket = open(&host, host.owner(), &format!("?after={seen}"));
            }
        }
    });
    let resumed = ask_stream(&host, &[("last-event-id", "5")]);
    assert!(resumed.contains("id: 6"), "a browser's own way to resume: {resumed}");
    assert_eq!(ask(&host, "GET", "/api/v1/events", &[("last-event-id", "x")], b"").status, 422);
    assert_eq!(ask(&host, "GET", "/api/v1/events?after=99999999", &[], b"").status, 422, "never given out");
    assert_eq!(ask(&host, "GET", "/api/v1/events?after=-1", &[], b"").status, 422);
}

fn ask_stream(host: &Host, headers: &[(&str, &str)]) -> String {
    let answer = host.owner().client.send("GET", "/api/v1/events", headers, Vec::new()).unwrap();
    let mut reader = answer.into_body().into_reader();
    let mut piece = vec![0; 4_096];
    let mut all = String::new();
    while !all.contains("\n\n") {
        let count = reader.read(&mut piece).unwrap();
        all.push_str(&String::from_utf8_lossy(&piece[..count]));
    }
    all
}

/// GTW-06: a cursor older than what is kept says so, on both surfaces; one that has seen all goes on.
#[test]
fn gtw_06_a_cursor_that_is_too_old_says_so() {
    let url = tests::database();
    let host =
        Host::builder().set("store.url", &url).variable("PALISADE_MASTER_KEY", &tests::master_key()).start();
    let repo = host.repo("demo");
    let worktree = host.owner().worktree(&repo, "one", "session").id;
    for n in 0..10 {
        host.owner().client.update_worktree(&worktree, &format!("{n}")).unwrap();
    }
    let end: i64 = psql(&url, "SELECT value FROM counters WHERE name = 'events'").parse().unwrap();
    psql(&url, "DELETE FROM events WHERE seq <= 5");
    let gone = host.owner().client.events(Some(3)).map(drop).unwrap_err();
    assert_eq!((gone.status(), gone.code()), (Some(410), Some(api::Code::Gone)));
    assert_eq!(Stream::follow(host.owner(), Some(5)).event().seq, 6, "the first that is kept");
    let bearer = format!("Bearer {}", host.owner().client.token().unwrap());
    let refused = crate::gateway_socket::dial(
        &host,
        "?after=3",
        &[("origin", host.base()), ("authorization", &bearer)],
    );
    assert_eq!(refused.unwrap_err(), 410);

    psql(&url, "DELETE FROM events");
    assert_eq!(host.owner().client.events(Some(end - 1)).map(drop).unwrap_err().status(), Some(410));
    let mut up_to_date = Stream::follow(host.owner(), Some(end));
    host.owner().client.update_worktree(&worktree, "new").unwrap();
    assert_eq!(up_to_date.event().seq, end + 1, "who saw everything missed nothing");
}

/// GTW-06, IDN-07: a right that is lost stops delivery within a second, on both surfaces.
#[test]
fn gtw_06_a_lost_right_stops_the_stream() {
    let host = Host::start();
    let bo = host.user("bo", "member");
    let repo = host.repo("demo");
    let worktree = host.owner().worktree(&repo, "one", "view").id;
    let other = host.owner().worktree(&repo, "two", "view").id;
    let (mut stream, mut socket) = (Stream::follow(&bo, None), open(&host, &bo, ""));
    host.owner().client.update_worktree(&worktree, "seen").unwrap();
    assert_eq!(stream.event().worktree.as_deref(), Some(worktree.as_str()));
    assert!(text(&mut socket).contains(&worktree));

    host.owner().client.set_tier(&worktree, "none").unwrap();
    host.owner().client.update_worktree(&worktree, "not for bo").unwrap();
    host.owner().client.update_worktree(&other, "for bo").unwrap();
    assert_eq!(stream.event().worktree.as_deref(), Some(other.as_str()), "nothing of the first in between");
    assert!(text(&mut socket).contains(&other));

    let start = Instant::now();
    host.owner().client.disable_user(&bo.id).unwrap();
    assert_eq!(stream.next().unwrap().0, "ended");
    assert!(stream.next().is_none(), "the stream is over");
    assert_eq!(closed(&mut socket), 1008);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

/// GTW-06: the same when only the credential goes: a revoked key, a login that was signed out.
#[test]
fn gtw_06_a_revoked_credential_stops_the_stream() {
    let host = Host::start();
    let bo = host.user("bo", "member");
    let key = bo
        .client
        .create_key(&api::CreateKeyRequest { label: "k".into(), scope: "runs:read".into(), days: None })
        .unwrap();
    let by_key = Person { client: host.anonymous().with_token(&key.secret.0), ..bo.clone() };
    let second = bo.login(&host);
    let (mut keyed, mut signed) = (Stream::follow(&by_key, None), Stream::follow(&second, None));
    bo.client.revoke_key(&key.key.id).unwrap();
    assert_eq!(keyed.next().unwrap().0, "ended");
    second.client.logout().unwrap();
    assert_eq!(signed.next().unwrap().0, "ended");
    assert!(bo.client.whoami().is_ok(), "the other login goes on");
    until("their places are free", || host.owner().client.metrics().unwrap().contains("palisade_sockets 0"));
}

/// ACC-04, ACC-06, ACC-14: that something waits, and that it was decided, is told to those who may read its worktree at that moment, by a live event
/// and by the list of all that waits, and to nobody else.
#[test]
fn acc_06_what_waits_is_told_live_to_those_who_may_read_it() {
    let host = crate::sessions::quiet();
    let owner = host.owner();
    let (member, stranger) = (host.user("member", "member"), host.user("stranger", "member"));
    let shown = host.tree(&member, "demo", "view").id;
    let hidden = host.tree(owner, "other", "none").id;
    let mut streams = [owner, &member, &stranger].map(|who| Stream::follow(who, None));
    let ask = |who: &Person, worktree: &str| {
        let session = who.client.create_session(&crate::calls::new_session(worktree)).unwrap().id;
        who.client.prompt_session(&session, "ask first").unwrap();
        let one = crate::sessions::until("it is asked", || {
            who.client.approvals(&session, false).unwrap().items.pop()
        });
        (session, one)
    };
    let (secret, one) = ask(owner, &hidden);
    let (open, two) = ask(&member, &shown);
    let listed = |who: &Person| -> Vec<String> {
        who.client.open_approvals().unwrap().items.into_iter().map(|one| one.id).collect()
    };
    assert_eq!(listed(owner), [two.id.clone(), one.id.clone()], "the newest first");
    for who in [&member, &stranger] {
        assert_eq!(listed(who), std::slice::from_ref(&two.id), "the other is not there for them");
    }
    owner.client.deny_approval(&secret, &one.id, &api::DenyRequest { effect: one.effect.clone() }).unwrap();
    member.client.deny_approval(&open, &two.id, &api::DenyRequest { effect: two.effect.clone() }).unwrap();
    assert_eq!(listed(owner), [""; 0]);
    // What all may read stands at the end of what each was told.
    let mut until = |end: &str| {
        streams.each_mut().map(|stream| {
            let mut told = Vec::new();
            loop {
                let event = stream.event();
                if event.worktree.as_deref() == Some(end) {
                    return told;
                }
                if event.kind.starts_with("approval.") {
                    told.push((event.kind, event.session.unwrap()));
                }
            }
        })
    };
    let before = until(&host.tree(owner, "third", "session").id);
    // Whoever lost the right to read it is told nothing of what comes then.
    member.client.set_tier(&shown, "none").unwrap();
    let (_, three) = ask(&member, &shown);
    assert_eq!((listed(&member), listed(&stranger)), (vec![three.id.clone()], Vec::new()));
    let after = until(&host.tree(owner, "fourth", "session").id);
    let of = |told: &[Vec<(String, String)>; 3], session: &str| -> [Vec<String>; 3] {
        told.each_ref().map(|told| {
            told.iter().filter(|(_, about)| about == session).map(|(kind, _)| kind.clone()).collect()
        })
    };
    let both = || vec!["approval.opened".to_owned(), "approval.decided".to_owned()];
    assert_eq!(of(&before, &secret), [both(), Vec::new(), Vec::new()]);
    assert_eq!(of(&before, &open), [both(), both(), both()]);
    let opened = vec!["approval.opened".to_owned()];
    assert_eq!(of(&after, &three.session), [opened.clone(), opened, Vec::new()]);
}
