//! What nobody knows, tried over every surface: no effect, and a refusal that says so.

use api::LedgerFilter;
use serde_json::{Value, json};
use tests::{Host, scale};
use tungstenite::Message;

use crate::calls::{Described, Stage, Who, committed, described};
use crate::gateway_socket::{open, text};
use crate::gateway_wire::{request, speak};
use crate::surfaces::{typed, words};

/// Words that nobody knows, the same in every run.
struct Names(u64);

impl Names {
    fn next(&mut self) -> u64 {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn one_of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[usize::try_from(self.next() % all.len() as u64).unwrap()]
    }

    /// A word: of an action, of a route, or with characters that might mean something to somebody.
    fn word(&mut self) -> String {
        let part = format!("{:x}", self.next() % 0xffff_ffff);
        match self.next() % 6 {
            0 => format!("worktree.{part}"),
            1 => format!("{part}.delete"),
            2 => format!("x{part}"),
            3 => format!("api.{part}*"),
            4 => format!("{part}'--"),
            _ => format!("..{part}"),
        }
    }

    /// An id of the right shape that nothing has, or something that is no id.
    fn id(&mut self, prefix: &str) -> String {
        match self.next() % 4 {
            0 => format!("{prefix}_{:x}", self.next()),
            1 => format!("{prefix}_"),
            _ => format!("{prefix}_{:016x}{:016x}", self.next(), self.next()),
        }
    }
}

fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Everything that an effect would change, as the owner sees it.
fn everything(host: &Host) -> Value {
    let client = &host.owner().client;
    let id = &host.owner().id;
    let worktrees =
        api::WorktreeFilter { archived: true, limit: Some(100), ..api::WorktreeFilter::default() };
    json!({
        "users": client.users(None, None, Some(100)).unwrap(),
        "repos": client.repos(None).unwrap(),
        "worktrees": client.worktrees(&worktrees).unwrap(),
        "keys": client.keys(id, None).unwrap(),
        "passes": client.passes(id, None).unwrap(),
        "policies": client.policies().unwrap(),
        "secrets": client.secrets(None, None).unwrap(),
    })
}

/// Nothing was done after `head`: what was begun came to nothing, and everything is as it was.
fn no_effect(host: &Host, head: u64, before: &Value, surface: &str) {
    let since = |decision: &str| {
        let filter = LedgerFilter { decision: Some(decision.into()), ..LedgerFilter::default() };
        host.ledger(&filter).into_iter().filter(|entry| entry.seq > head).collect::<Vec<_>>()
    };
    assert!(since("done").is_empty(), "{surface}: {:?}", since("done"));
    // The one act whose thing only the store knows: it is begun on a name and fails there.
    let begun: Vec<String> = since("allowed").into_iter().map(|entry| entry.action).collect();
    assert!(begun.iter().all(|action| action == "policy.remove"), "{surface}: {begun:?}");
    assert_eq!(begun.len(), since("failed").len(), "{surface}");
    assert_eq!(&everything(host), before, "{surface}: something changed");
}

/// ACC-02: names of actions, routes and things that nobody knows, over every surface: no effect.
#[test]
fn acc_02_what_nobody_knows_has_no_effect_on_any_surface() {
    let host = Host::builder().set("limits.requests_per_minute", "0").start();
    let stage = Stage::new(&host);
    drop((stage.worktree(), stage.someone(), stage.key(), stage.pass(), stage.policy()));
    let (owner, me) = (stage.owner().clone(), host.owner().id.clone());
    let who = Who { id: me.clone(), client: owner.clone() };
    let token = owner.token().unwrap();
    let mut names = Names(0x0005_eed0_f9a1_15ad);
    let many = scale(500, 25);
    let (head, before) = (host.ledger_head(), everything(&host));
    let api = described(&committed());
    let prefixes = [
        ("{user}", "usr"),
        ("{worktree}", "wt"),
        ("{repo}", "rep"),
        ("{key}", "key"),
        ("{pass}", "pas"),
        ("{policy}", "p"),
        ("{owner}", "usr"),
        ("{name}", "n"),
    ];
    let named: Vec<&Described> = api.values().filter(|one| one.path.contains('{')).collect();

    // HTTP by hand: routes, things and actions.
    for n in 0..many {
        let method = names.one_of(&["GET", "POST", "PUT", "PATCH", "DELETE", "BREW"]).to_owned();
        let (method, path, body) = match n % 4 {
            0 => (method, format!("/api/v1/{}", escaped(&names.word())), "{}".to_owned()),
            1 => (method, format!("/{}/{}", escaped(&names.word()), escaped(&names.word())), String::new()),
            2 => {
                let one = named[usize::try_from(names.next() % named.len() as u64).unwrap()];
                let mut path = one.path.clone();
                for (parameter, prefix) in prefixes {
                    path = path.replace(parameter, &names.id(prefix));
                }
                let body = names.one_of(&["{\"name\":\"x\"}", "{\"tier\":\"all\"}", "{\"about\":\"x\"}", ""]);
                (one.method.clone(), path, body.to_owned())
            }
            _ => {
                let body = json!({ "user": me, "action": names.word(), "resource": names.id("wt") });
                ("POST".to_owned(), "/api/v1/policies/try".to_owned(), body.to_string())
            }
        };
        let bytes =
            request(&host, token, &method, &path, &[("content-type", "application/json")], body.as_bytes());
        let reply = speak(&host, &bytes);
        assert!((400..500).contains(&reply.status), "{method} {path} {body}: {reply:?}");
        reply.problem();
    }
    no_effect(&host, head, &before, "by hand");

    // The client: things and actions; routes it cannot invent.
    for n in 0..many {
        let wt = names.id("wt");
        let told = match n % 10 {
            0 => owner.delete_worktree(&wt),
            1 => owner.set_tier(&wt, "all").map(drop),
            2 => owner.add_owner(&wt, &me).map(drop),
            3 => owner.delete_user(&names.id("usr")),
            4 => owner.disable_user(&names.word()),
            5 => owner.revoke_key(&names.id("key")),
            6 => owner.revoke_pass(&names.id("pas")).map(drop),
            7 => owner.delete_repo(&names.id("rep")),
            8 => owner.remove_policy(&names.word()),
            _ => owner
                .try_policy(&api::TryPolicyRequest { action: names.word(), ..crate::calls::question(&me) })
                .map(drop),
        };
        let status = told.unwrap_err().status();
        assert!(status.is_some_and(|status| (400..500).contains(&status)), "{n}: {status:?}");
    }
    no_effect(&host, head, &before, "the client");

    // The program: commands, things and actions.
    for n in 0..many {
        let (a, b) = (names.word(), names.word());
        let words = match n % 6 {
            0 => words([&a]),
            1 => words([names.one_of(&["user", "key", "pass", "repo", "worktree", "policy", "ledger"]), &a]),
            2 => words(["worktree", "delete", &names.id("wt")]),
            3 => words(["user", "disable", &names.id("usr")]),
            4 => words(["policy", "explain", "--user", &me, "--action", &a]),
            _ => words(["policy", "template", "apply", &b]),
        };
        assert!(typed(&host, &who, &words).is_some(), "{:?} did something", words.words);
    }
    no_effect(&host, head, &before, "the program");

    // Server-sent events: cursors, parameters, and paths below.
    for n in 0..many {
        let (query, header) = match n % 4 {
            0 => (format!("?{}=1", escaped(&names.word())), None),
            1 => (format!("?after={}", escaped(&names.word())), None),
            2 => (format!("/{}", escaped(&names.word())), None),
            _ => (String::new(), Some(names.word())),
        };
        let path = format!("/api/v1/events{query}");
        let headers: Vec<(&str, &str)> = header.iter().map(|text| ("last-event-id", text.as_str())).collect();
        let reply = speak(&host, &request(&host, token, "GET", &path, &headers, b""));
        assert!((400..500).contains(&reply.status), "{path}: {reply:?}");
    }
    no_effect(&host, head, &before, "server-sent events");

    // The socket: messages that would be acts, if there were any.
    let mut socket = open(&host, host.owner(), "");
    for _ in 0..many {
        let message = json!({
            "type": names.word(), "action": names.one_of(&["worktree.delete", "user.create", "policy.remove"]),
            "resource": names.id("wt"), "id": names.word()
        });
        socket.send(Message::text(message.to_string())).unwrap();
        assert!(text(&mut socket).contains(r#""type":"error""#), "{message}");
    }
    no_effect(&host, head, &before, "the socket");
    assert_eq!(owner.verify_ledger().unwrap().verdict, "intact");
}
