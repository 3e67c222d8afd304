//! A policy can be tried before it is used, and the shipped templates can be put in force.

use std::collections::BTreeSet;

use api::CreateKeyRequest;
use serde_json::Value;
use tests::Host;

use crate::calls::{Stage, Who};

/// Runs the program as someone; its whole JSON document.
fn run(host: &Host, who: &Who, words: &[&str]) -> Value {
    let output = host
        .command("palisade")
        .args(["--json", "--url", host.base()])
        .args(words)
        .env("PALISADE_API_KEY", who.client.token().unwrap())
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{words:?}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn in_force(host: &Host, prefix: &str) -> BTreeSet<String> {
    let all = host.owner().client.policies().unwrap().items.into_iter().map(|policy| policy.id);
    all.filter(|id| id.starts_with(prefix)).collect()
}

fn by_key(who: &Who) -> Who {
    let body = CreateKeyRequest { label: "k".into(), scope: "admin".into(), days: None };
    let key = who.client.create_key(&body).unwrap();
    Who { client: who.client.with_token(&key.secret.0), ..who.clone() }
}

/// ACC-28: templates are listed and shown without a daemon, and put in force through the gate: once, whole, and
/// for everyone.
#[test]
fn acc_28_a_template_is_put_in_force_whole_and_once() {
    let host = Host::builder().set("limits.requests_per_minute", "0").start();
    let stage = Stage::new(&host);
    let (ana, bo) = (stage.person(), stage.of_role("member"));
    let key = by_key(&ana);
    let listed = host.command("palisade").args(["--json", "policy", "template", "list"]).output().unwrap();
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let names: Vec<&str> =
        listed["result"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["strict", "balanced", "permissive"], "{listed}");

    let refused = run(&host, &bo, &["policy", "template", "apply", "balanced"]);
    assert_eq!(refused["error"]["code"], "forbidden", "{refused}");
    assert!(in_force(&host, "balanced-").is_empty());
    let nothing = run(&host, &ana, &["policy", "template", "apply", "permissive"]);
    assert_eq!((nothing["ok"].as_bool(), in_force(&host, "permissive-").len()), (Some(true), 0));

    key.client.create_user(&stage.new_user()).unwrap();
    let applied = run(&host, &ana, &["policy", "template", "apply", "balanced"]);
    assert_eq!(applied["command"], "policy template apply", "{applied}");
    let added = applied["result"]["added"].as_array().unwrap().len();
    let shown = run(&host, &ana, &["policy", "template", "show", "balanced"]);
    assert_eq!(added, shown["result"]["policies"].as_array().unwrap().len());
    assert_eq!(in_force(&host, "balanced-").len(), added);
    let head = host.ledger_head();
    let again = run(&host, &ana, &["policy", "template", "apply", "balanced"]);
    assert_eq!(again["result"]["added"].as_array().map(Vec::len), Some(0), "{again}");
    assert_eq!(host.ledger_head(), head, "the second time does nothing at all");

    let told = key.client.create_user(&stage.new_user()).unwrap_err();
    assert_eq!(told.code(), Some(api::Code::Forbidden));
    assert!(told.to_string().contains("balanced-login-manages-people"), "{told}");
    ana.client.create_user(&stage.new_user()).unwrap();
    let last = run(&host, &key, &["policy", "template", "apply", "strict"]);
    assert_eq!(last["error"]["code"], "forbidden", "a key adds no policies any more: {last}");
}

/// ACC-28: a set of which one name stands for something else is refused whole.
#[test]
fn acc_28_a_set_that_does_not_fit_is_refused_whole() {
    let host = Host::builder().set("limits.requests_per_minute", "0").start();
    let stage = Stage::new(&host);
    let ana = stage.person();
    host.owner().client.add_policy("strict-owners-decide-over-worktrees", crate::calls::NOBODY).unwrap();
    let head = host.ledger_head();
    let refused = run(&host, &ana, &["policy", "template", "apply", "strict"]);
    assert_eq!((refused["ok"].as_bool(), refused["error"]["code"].as_str()), (Some(false), Some("usage")));
    assert_eq!(in_force(&host, "strict-").len(), 1, "nothing was added");
    assert_eq!(host.ledger_head(), head, "and nothing was tried");

    host.owner().client.remove_policy("strict-owners-decide-over-worktrees").unwrap();
    let admin = stage.of_role("admin");
    let tree = stage.worktree();
    assert_eq!(run(&host, &ana, &["policy", "template", "apply", "strict"])["ok"], true);
    let told = admin.client.delete_worktree(&tree).unwrap_err();
    assert!(told.to_string().contains("strict-owners-decide-over-worktrees"), "{told}");
    assert_eq!(admin.client.create_key(&crate::calls::new_key()).unwrap_err().status(), Some(403));
    host.owner().client.delete_worktree(&tree).unwrap();
}

/// ACC-28: `policy test` says allow or deny, by which rule, and changes nothing.
#[test]
fn acc_28_a_policy_is_tried_without_effect() {
    let host = Host::start();
    let stage = Stage::new(&host);
    let (ana, bo) = (stage.person(), stage.of_role("member"));
    let file = host.place().join("try.cedar");
    std::fs::write(&file, r#"forbid (principal, action == Action::"worktree.list", resource) unless { principal in Role::"admin" };"#)
        .unwrap();
    let head = host.ledger_head();
    let ask = |user: &str| {
        run(
            &host,
            &ana,
            &["policy", "test", file.to_str().unwrap(), "--user", user, "--action", "worktree.list"],
        )
    };
    let (denied, allowed) = (ask(&bo.id), ask(&ana.id));
    assert_eq!(
        (&denied["result"]["decision"], &denied["result"]["policies"][0]["id"]),
        (&"deny".into(), &"on-trial".into())
    );
    assert!(denied["result"]["because"].as_str().unwrap().contains("forbidden by on-trial"), "{denied}");
    assert_eq!(
        (&allowed["result"]["decision"], &allowed["result"]["policies"][0]["id"]),
        (&"allow".into(), &"everyone".into())
    );
    assert!(bo.client.worktrees(&api::WorktreeFilter::default()).is_ok(), "it was only a question");
    assert_eq!(host.ledger_head(), head, "and left nothing");
    std::fs::write(&file, "permit (principal, action, resource);").unwrap();
    assert_eq!(ask(&bo.id)["error"]["code"], "unprocessable", "what permits cannot be added, nor tried");
}
