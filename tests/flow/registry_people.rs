//! Only people set what a worker is: everything that defines, by every surface, by whoever is no person.

use std::collections::BTreeMap;

use tests::Host;

use crate::calls::{CALLS, Stage, Who, committed, described, new_session};
use crate::sessions::{ended, quiet, said, steps};
use crate::surfaces::{by_pass, ways};

/// What defines: who may do what, where work comes from, what a worker is, and what it is given.
const DEFINES: &[&str] = &[
    "artifacts_register_capability",
    "artifacts_register_subagent",
    "artifacts_register_env",
    "artifacts_assign",
    "artifacts_revoke",
    "repos_create",
    "repos_fetch",
    "repos_delete",
    "policies_add",
    "policies_remove",
    "users_create",
    "users_update",
    "users_delete",
    "users_disable",
    "users_reset_password",
    "keys_create",
    "keys_revoke",
    "keys_offer_pairing",
    "secrets_add",
    "secrets_remove",
    "secrets_rotate",
    "budgets_set",
    "worktrees_set_tier",
    "worktrees_set_sharing",
    "worktrees_add_owner",
    "worktrees_remove_owner",
    "backup_create",
];

/// Asks the daemon from inside a sandbox, with a credential of a person that it should never have had.
const INSIDE: &str = r#"
import json, socket, sys
asked = json.loads(sys.argv[1])
for method, path in asked["calls"]:
    for address in asked["addresses"]:
        try:
            with socket.create_connection((address, asked["port"]), timeout=2) as one:
                body = "{}"
                lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{asked['port']}", f"Authorization: Bearer {asked['token']}",
                         "Content-Type: application/json", f"Content-Length: {len(body)}", "Connection: close", "", body]
                one.sendall("\r\n".join(lines).encode())
                print("CALL", "ANSWERED", one.recv(100).split(b"\r\n")[0].decode())
        except OSError as error:
            print("CALL", "refused", type(error).__name__)
"#;

fn state(host: &Host) -> BTreeMap<&'static str, Vec<String>> {
    let client = &host.owner().client;
    let named = |kind: &str| {
        let all = client.artifacts(kind, None).unwrap().items;
        all.into_iter().map(|one| format!("{} {} {:?}", one.name, one.hash, one.revoked_at)).collect()
    };
    [("capability", named("capability")), ("subagent", named("subagent")), ("env", named("env"))].into()
}

/// REG-06: no Pass, whatever it names, and nothing inside a sandbox sets what a worker is.
#[test]
fn reg_06_only_people_write_what_a_worker_is() {
    let host = quiet();
    let stage = Stage::new(&host);
    let api = described(&committed());
    let (mut tried, mut done) = (0, Vec::new());
    for operation in DEFINES {
        assert!(CALLS.iter().any(|call| call.operation == *operation), "{operation}");
        let one = &api[*operation];
        let agent = by_pass(&stage);
        for way in ways(&stage, &agent, operation, one) {
            let before = state(&host);
            let outcome = (way.run)(&Who { client: agent.client.clone(), ..way.who.clone() });
            tried += 1;
            if outcome.is_none() || state(&host) != before {
                done.push(format!("{operation} {}: {outcome:?}", way.surface));
            }
        }
    }
    // Over the WebSocket and the stream nothing can be asked for at all: a Pass does not even get a ticket.
    let agent = by_pass(&stage);
    for refused in [
        agent.client.ticket().map(drop),
        agent.client.socket(None).map(drop),
        agent.client.follow(None).map(drop),
    ] {
        tried += 1;
        if refused.is_ok() {
            done.push("live".into());
        }
    }
    let inside = from_inside(&host, &api);
    tried += inside.len();
    done.extend(inside.into_iter().filter(|line| line.contains("ANSWERED")));
    assert!(done.is_empty(), "{done:?}");
    assert!(tried >= 120, "{tried}");
    println!("REG-06: 0 of {tried} succeeded");
}

/// Every one of them by hand, from inside a session's sandbox, with the owner's own token.
fn from_inside(host: &Host, api: &BTreeMap<String, crate::calls::Described>) -> Vec<String> {
    let owner = host.owner();
    let worktree = host.tree(owner, "inside", "none").id;
    let shell = api::CreateSessionRequest {
        agent: "command".into(),
        command: vec!["sh".into()],
        ..new_session(&worktree)
    };
    let session = owner.client.create_session(&shell).unwrap().id;
    let calls: Vec<_> = DEFINES.iter().map(|id| (api[*id].method.clone(), api[*id].path.clone())).collect();
    let port: u16 = host.base().rsplit(':').next().unwrap().parse().unwrap();
    let asked = serde_json::json!({
        "calls": calls, "port": port, "token": owner.client.token().unwrap(),
        "addresses": ["127.0.0.1", "::1", "host.palisade.local"],
    });
    let program = format!("python3 - '{asked}' <<'END'{INSIDE}END\n");
    let task = owner.client.prompt_session(&session, &program).unwrap();
    let ended = ended(owner, &session, &task.id);
    let told = said(&steps(owner, &session));
    assert_eq!(ended.state, "done", "{told}");
    let lines: Vec<String> =
        told.lines().filter(|line| line.starts_with("CALL")).map(str::to_owned).collect();
    assert_eq!(lines.len(), DEFINES.len() * 3, "{told}");
    lines
}
