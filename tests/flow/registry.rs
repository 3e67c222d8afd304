//! What people register for workers: versions that stay, names that move, nothing kept that does not do.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use api::{
    CapabilityFile, Client, EnvSecret, Hidden, LedgerFilter, RegisterCapabilityRequest, RegisterEnvRequest,
    RotateRequest,
};
use serde_json::{Map, Value, json};
use tests::{Host, scale};

use crate::calls::{new_capability, new_env, new_subagent};
use crate::secrets::{is_in, palisade};

/// What all files of a capability may have.
const MOST: usize = 50 * 1_024 * 1_024;
/// A value of no known shape, so that only its being secret keeps it away.
pub(crate) const VALUE: &str = "marmalade-quilt-zebra-4711";

fn fields(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn capability(
    name: &str,
    document: Value,
    files: &[(&str, &[u8])],
) -> (RegisterCapabilityRequest, Vec<Vec<u8>>) {
    let about = |(path, content): &(&str, &[u8])| CapabilityFile {
        path: (*path).to_owned(),
        bytes: content.len() as u64,
        executable: path.ends_with(".sh"),
    };
    let body = RegisterCapabilityRequest {
        name: name.to_owned(),
        document: fields(document),
        files: files.iter().map(about).collect(),
        accept_credentials: false,
        dry_run: false,
    };
    (body, files.iter().map(|(_, content)| content.to_vec()).collect())
}

pub(crate) fn env(name: &str, document: Value, inline: &[(&str, &str, Option<i64>)]) -> RegisterEnvRequest {
    let inline = inline.iter().map(|(variable, value, ttl_seconds)| {
        (
            (*variable).to_owned(),
            EnvSecret { value: Hidden((*value).into()), ttl_seconds: *ttl_seconds, renew: false },
        )
    });
    RegisterEnvRequest { document: fields(document), inline: inline.collect(), ..new_env(name) }
}

/// What is registered, by name; and how many entries the ledger has.
pub(crate) fn standing(host: &Host, kind: &str) -> Vec<(String, String)> {
    let page = host.owner().client.artifacts(kind, None).unwrap();
    page.items.into_iter().map(|one| (one.name, one.hash)).collect()
}

/// A token of a known shape, made of two pieces so that it stands nowhere.
fn token() -> String {
    format!("{}{}", "ghp_", "a8Bc3dE5fG7hI9jK1lM2nO4pQ6rS8tU0vW1x")
}

/// Does the same on SQLite and on PostgreSQL.
pub(crate) fn on_both(run: impl Fn(&mut Host)) {
    for mut host in [
        Host::builder().set("limits.requests_per_minute", "0").start(),
        Host::builder().set("limits.requests_per_minute", "0").on_postgresql().start(),
    ] {
        run(&mut host);
    }
}

/// REG-01: equal content in any order is one version; what was registered comes back byte by byte.
#[test]
fn reg_01_a_capability_is_its_files_whatever_order_they_came_in() {
    on_both(|host| {
        let client = host.owner().client.clone();
        let large: Vec<u8> = (0..700_000_u32).flat_map(u32::to_le_bytes).collect();
        let files: Vec<(&str, &[u8])> = vec![
            ("bin/setup.sh", b"#!/bin/sh\nexit 0\n"),
            ("notes/a.md", b"the same"),
            ("notes/b.md", b"the same"),
            ("empty", b""),
            ("large.bin", &large),
        ];
        let document = json!({
            "setup": "bin/setup.sh", "tools": {"allow": ["read", "edit"], "deny": ["shell"]},
            "mcp": {"docs": {"command": ["docs-server", "--stdio"], "env": {"MODE": "fast"}}},
            "notifications": [{"url": "https://hooks.example.org/a", "on": ["failed", "finished"]}],
        });
        let (body, contents) = capability("lint", document.clone(), &files);
        let first = client.register_capability(&body, &contents).unwrap();
        assert!(
            first.changed && first.before.is_none() && first.bytes as usize == large.len() + 33,
            "{first:?}"
        );

        let mut turned = files.clone();
        turned.reverse();
        let other = json!({
            "notifications": [{"on": ["finished", "failed"], "url": "https://hooks.example.org/a"}],
            "mcp": {"docs": {"env": {"MODE": "fast"}, "command": ["docs-server", "--stdio"]}},
            "tools": {"deny": ["shell", "shell"], "allow": ["edit", "read"]}, "setup": "bin/setup.sh",
        });
        let (body, contents) = capability("lint", other, &turned);
        let again = client.register_capability(&body, &contents).unwrap();
        assert_eq!((&again.hash, again.changed), (&first.hash, false));
        assert_eq!(client.artifact_history("capability", "lint").unwrap().items.len(), 1, "nothing changed");

        let shown = client.artifact("capability", "lint").unwrap();
        let document = shown.document.unwrap();
        let hash = |path: &str| document["files"][path]["hash"].as_str().unwrap().to_owned();
        assert_eq!(hash("notes/a.md"), hash("notes/b.md"), "one content, one blob");
        assert_eq!(document["files"]["bin/setup.sh"]["executable"], true);
        for (path, content) in &files {
            assert_eq!(client.capability_file(&first.hash, path).unwrap(), *content, "{path}");
        }
        // One byte or one mode is another version.
        let mut changed = files.clone();
        changed[1].1 = b"the sAme";
        let (body, contents) = capability("lint", json!({}), &changed);
        let moved = client.register_capability(&body, &contents).unwrap();
        assert!(moved.hash != first.hash && moved.before.as_ref() == Some(&first.hash));
    });
}

/// REG-01: 50 MiB pass, and one byte more is an error of its own before anything is kept.
#[test]
fn reg_01_fifty_mebibytes_and_no_byte_more() {
    let host = Host::start();
    let client = &host.owner().client;
    let most = vec![7_u8; MOST];
    let (body, contents) = capability("large", json!({}), &[("a", &most[..MOST - 1]), ("b", b"x")]);
    let made = client.register_capability(&body, &contents).unwrap();
    assert_eq!(made.bytes as usize, MOST);
    assert_eq!(client.capability_file("large", "a").unwrap().len(), MOST - 1);
    let before = standing(&host, "capability");
    let (body, contents) = capability("larger", json!({}), &[("a", &most), ("b", b"x")]);
    let refused = client.register_capability(&body, &contents).unwrap_err();
    assert_eq!(
        (refused.status(), refused.code()),
        (Some(413), Some(api::Code::PayloadTooLarge)),
        "{refused}"
    );
    assert_eq!(standing(&host, "capability"), before);
}

/// REG-01: paths that lead elsewhere, or that cannot be laid out, are refused before anything is kept, all of them at once.
#[test]
fn reg_01_paths_that_lead_elsewhere_are_refused_and_nothing_is_kept() {
    let host = Host::start();
    let client = &host.owner().client;
    let bad: [&[(&str, &[u8])]; 9] = [
        &[("../a", b"x")],
        &[("a/../../b", b"x")],
        &[("/etc/cron.d/a", b"x")],
        &[("a\0b", b"x")],
        &[("a", b"x"), ("a", b"y")],
        &[("a", b"x"), ("a/b", b"y")],
        &[("a//b", b"x")],
        &[("./a", b"x")],
        &[("", b"x")],
    ];
    for files in bad {
        let head = host.ledger_head();
        let (body, contents) = capability("bad", json!({}), files);
        let refused = client.register_capability(&body, &contents).unwrap_err();
        assert_eq!(refused.status(), Some(422), "{files:?}: {refused}");
        let entries = host.since(head);
        assert_eq!(entries.len(), 1, "{files:?}");
        assert_eq!(
            (entries[0].action.as_str(), entries[0].decision.as_str()),
            ("artifact.register", "refused")
        );
    }
    let (body, contents) =
        capability("bad", json!({"setup": "none"}), &[("../a", b"x"), ("b/../c", b"y"), ("ok", b"")]);
    let told = client.register_capability(&body, &contents).unwrap_err().to_string();
    for place in ["files/../a", "files/b/../c", "`setup`"] {
        assert!(told.contains(place), "{told}");
    }
    // A link on the person's own disk does not even leave it.
    let folder = host.place().join("linked");
    std::fs::create_dir(&folder).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", folder.join("passwd")).unwrap();
    let output = palisade(&host, client, &["capability", "register", "bad", folder.to_str().unwrap()], "");
    assert!(String::from_utf8_lossy(&output.stderr).contains("`passwd` is a link"), "{output:?}");
    // More or fewer bytes than were said.
    for wrong in [&b"xyz"[..], b"x"] {
        let (body, _) = capability("bad", json!({}), &[("a", b"xy")]);
        let refused = client.register_capability(&body, &[wrong.to_vec()]).unwrap_err();
        assert_eq!(refused.status(), Some(422), "{refused}");
    }
    assert!(standing(&host, "capability").is_empty());
}

/// REG-02: credentials are found in files and values, told by place and few characters; an opt-out is on the ledger.
#[test]
fn reg_02_credentials_are_caught_and_an_opt_out_is_on_the_ledger() {
    let host = Host::start();
    let client = &host.owner().client;
    let token = token();
    let text = format!("[forge]\ntoken = {token}\n");
    let (body, contents) =
        capability("forge", json!({}), &[("conf/app.ini", text.as_bytes()), ("ok", b"plain")]);
    let refused = client.register_capability(&body, &contents).unwrap_err();
    let told = refused.to_string();
    assert_eq!(refused.status(), Some(422), "{told}");
    assert!(told.contains("`files/conf/app.ini`: line 2"), "{told}");
    assert!(!told.contains(&token[..9]), "at most 8 characters: {told}");

    let refused =
        client.register_env(&env("forge", json!({"values": {"FORGE_TOKEN": token}}), &[])).unwrap_err();
    assert!(refused.to_string().contains("`values.FORGE_TOKEN`"), "{refused}");
    let mut subagent = new_subagent("forge");
    subagent.document.insert("systemPrompt".into(), format!("Use {token} to sign in.").into());
    let refused = client.register_subagent(&subagent).unwrap_err();
    assert!(refused.to_string().contains("`systemPrompt`"), "{refused}");
    for kind in ["capability", "subagent", "env"] {
        assert!(standing(&host, kind).is_empty());
    }

    let body = RegisterCapabilityRequest { accept_credentials: true, ..body };
    client.register_capability(&body, &contents).unwrap();
    let entries =
        host.ledger(&LedgerFilter { action: Some("artifact.register".into()), ..LedgerFilter::default() });
    assert!(entries.iter().any(|entry| entry.line.contains("credentials_accepted")), "{entries:?}");
    assert!(entries.iter().all(|entry| !entry.line.contains(&token)), "the ledger does not repeat it");
}

/// REG-02: what only the name it stands under, or the words before it, tell to be a credential is caught as well, and masked
/// where it was accepted and is shown.
#[test]
fn reg_02_a_credential_is_known_by_its_name_and_by_the_words_before_it() {
    let host = Host::start();
    let client = &host.owner().client;
    let servers =
        json!({"mcp": {"docs": {"command": ["docs", "--token", VALUE], "env": {"API_KEY": VALUE}}}});
    let (mut body, contents) = capability("docs", servers, &[("a", b"plain")]);
    let told = client.register_capability(&body, &contents).unwrap_err().to_string();
    for place in ["`mcp.docs.command`: line 1", "`mcp.docs.env.API_KEY`: line 1"] {
        assert!(told.contains(place), "{told}");
    }
    let mut subagent = new_subagent("docs");
    subagent.document.insert("verify".into(), json!({"command": ["check", "--password", VALUE]}));
    let told = client.register_subagent(&subagent).unwrap_err().to_string();
    assert!(told.contains("`verify.command`: line 1"), "{told}");
    for kind in ["capability", "subagent"] {
        assert!(standing(&host, kind).is_empty());
    }

    body.accept_credentials = true;
    client.register_capability(&body, &contents).unwrap();
    let mut shown = env("docs", json!({"values": {"DB_PASSWORD": VALUE, "LEVEL": "debug"}}), &[]);
    shown.accept_credentials = true;
    client.register_env(&shown).unwrap();
    let shown = client.artifact("capability", "docs").unwrap().document.unwrap();
    assert_eq!(
        shown["mcp"]["docs"],
        json!({"command": ["docs", "--token", "***"], "env": {"API_KEY": "***"}})
    );
    let shown = client.artifact("env", "docs").unwrap().document.unwrap();
    assert_eq!(shown["values"], json!({"DB_PASSWORD": "***", "LEVEL": "debug"}));
    let entries =
        host.ledger(&LedgerFilter { action: Some("artifact.register".into()), ..LedgerFilter::default() });
    assert!(entries.iter().any(|one| one.line.contains(r#""credentials_accepted":"2""#)), "{entries:?}");
    assert!(entries.iter().all(|one| !one.line.contains(VALUE)), "{entries:?}");
}

/// REG-02: at least eleven kinds of credentials.
#[test]
fn reg_02_many_kinds_of_credentials_are_known() {
    let host = Host::start();
    let client = &host.owner().client;
    let b64 = "abcdEFGH1234ijklMNOP5678qrstUVWX90yzABCD";
    // Each of two pieces, so that none of them stands here.
    let samples: [(&str, String); 12] = [
        ("github", token()),
        ("aws id", format!("{}{}", "AKIA", "Z7QW2NDR5TYU8KLM")),
        ("anthropic", format!("{}{}", "sk-ant-api03-", b64.repeat(2))),
        ("openai", format!("{}{}", "sk-proj-", b64.repeat(2))),
        ("slack", format!("{}{}", "xoxb-", "123456789012-1234567890123-AbCdEfGhIjKlMnOpQrStUvWx")),
        ("stripe", format!("{}{}", "sk_live_", "4eC39HqLyjWDarjtT1zdp7dcQw8")),
        ("google", format!("{}{}", "AIza", "SyA8b7C6d5E4f3G2h1I0jK9lM8nO7pQ6rS5")),
        ("gitlab", format!("{}{}", "glpat-", "xY7zW6vU5tS4rQ3pO2nM")),
        ("npm", format!("{}{}", "npm_", "a8Bc3dE5fG7hI9jK1lM2nO4pQ6rS8tU0vW1x")),
        (
            "jwt",
            format!(
                "{}{}",
                "eyJhbGciOiJIUzI1NiJ9.",
                "eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
            ),
        ),
        (
            "key block",
            format!("-----BEGIN {} KEY-----\nMIIEowIBAAKCAQEA{b64}\n-----END {0} KEY-----\n", "RSA PRIVATE"),
        ),
        ("login in an address", format!("postgres://admin:{}@db.example.org/app", "s8Kf93hTq2Lm")),
    ];
    let missed: Vec<&str> = samples
        .iter()
        .filter(|(_, text)| {
            let (body, contents) = capability("scan", json!({}), &[("a.txt", text.as_bytes())]);
            client.register_capability(&body, &contents).is_ok()
        })
        .map(|(name, _)| *name)
        .collect();
    assert!(missed.is_empty(), "{missed:?}");
}

/// REG-03: a subagent needs a prompt or a template, and 100 orders of its capabilities are one version.
#[test]
fn reg_03_a_subagent_needs_a_prompt_and_its_hash_ignores_order() {
    on_both(|host| {
        let client = host.owner().client.clone();
        let names: Vec<String> = (0..5).map(|n| format!("cap-{n}")).collect();
        for name in &names {
            let (body, contents) = new_capability(name);
            client.register_capability(&body, &contents).unwrap();
        }
        let mut body = new_subagent("reviewer");
        body.document = fields(json!({"agent": "fake", "capabilities": names}));
        let refused = client.register_subagent(&body).unwrap_err().to_string();
        assert!(
            refused.contains("`systemPrompt`: expected `systemPrompt`, `template`, or both"),
            "{refused}"
        );

        let (mut seen, mut order) = (BTreeSet::new(), names.clone());
        let allow = json!({
            "envs": ["b", "a"], "capabilities": ["cap-1", "cap-0"], "hosts": ["*.example.org", "forge.example"],
            "secrets": ["TOKEN"], "callbackHosts": ["hooks.example.org"], "timeoutSeconds": 600,
            "resources": {"cpu": 2, "memory": 1_073_741_824_i64}, "targets": ["native"],
            "images": [format!("worker@sha256:{}", "0".repeat(64))],
        });
        for turn in 0..100 {
            order.rotate_left(turn % 5);
            order.swap(turn % 4, (turn * 3) % 5);
            body.document = fields(json!({
                "systemPrompt": "Review what changed.", "agent": "fake", "model": "standard", "capabilities": order,
                "verify": {"command": ["make", "test"], "timeoutSeconds": 300},
                "needs": {"paths": ["src"], "programs": ["git", "make"], "gitHistory": true}, "allow": allow,
            }));
            seen.insert(client.register_subagent(&body).unwrap().hash);
        }
        assert_eq!(seen.len(), 1, "100 orders, one hash");

        // Everything that is wrong is told at once, each with its place.
        body.document = fields(json!({
            "template": "Do {{input.what}}.", "agent": "no-such-agent", "surprise": 1, "capabilities": ["not-there"],
            "verify": {"command": [], "timeoutSeconds": 0}, "needs": {"programs": "git"},
            "allow": {"timeoutSeconds": 86_401, "hosts": ["not a host"], "images": ["worker:latest"], "more": {}},
        }));
        let told = client.register_subagent(&body).unwrap_err().to_string();
        for place in [
            "`surprise`",
            "`verify.command`",
            "`verify.timeoutSeconds`",
            "`needs.programs`",
            "`allow.timeoutSeconds`",
            "`allow.hosts.0`",
            "`allow.images`",
            "`allow.more`",
            "`agent`",
            "`capabilities`",
        ] {
            assert!(told.contains(place), "{place}: {told}");
        }
    });
}

/// REG-04: an inline secret goes into the vault and is in no version; another value is another version, the same is the same.
#[test]
fn reg_04_an_inline_secret_is_in_the_vault_and_in_no_version() {
    on_both(|host| {
        let client = host.owner().client.clone();
        let document = json!({"values": {"LOG_LEVEL": "debug"}, "secrets": {"FORGE": "FORGE_TOKEN"}});
        let first =
            client.register_env(&env("staging", document.clone(), &[("TOKEN", VALUE, None)])).unwrap();
        let again =
            client.register_env(&env("staging", document.clone(), &[("TOKEN", VALUE, None)])).unwrap();
        assert_eq!((&again.hash, again.changed), (&first.hash, false));
        let shown = client.artifact("env", "staging").unwrap().document.unwrap();
        let name = shown["secrets"]["TOKEN"].as_str().unwrap().to_owned();
        assert!(name.starts_with("ENV_TOKEN_") && shown["secrets"]["FORGE"] == "FORGE_TOKEN", "{shown}");
        assert!(!is_in(VALUE, shown.to_string().as_bytes()));
        let kept = client.secrets(Some("daemon"), None).unwrap().items;
        assert!(kept.len() == 1 && kept[0].name == name, "{kept:?}");

        let other =
            client.register_env(&env("staging", document, &[("TOKEN", "another value", Some(60))])).unwrap();
        assert!(other.hash != first.hash && other.before.as_ref() == Some(&first.hash));
        assert_eq!(client.secrets(Some("daemon"), None).unwrap().items.len(), 2);
        assert!(client.secrets(Some("daemon"), None).unwrap().items.iter().any(|one| one.expires.is_some()));
        // What cannot be: a variable with two sources, a name that is none.
        for (document, inline) in [
            (json!({"values": {"A": "x"}}), vec![("A", VALUE, None)]),
            (json!({"values": {"A": "x"}, "secrets": {"A": "B"}}), vec![]),
            (json!({}), vec![("not a name", VALUE, None)]),
            (json!({}), vec![("A", "", None)]),
            (json!({}), vec![("A", VALUE, Some(0))]),
            (json!({"values": {"A": 1}}), vec![]),
            (json!({"inline": {}}), vec![]),
            // A value where a name should be.
            (json!({"secrets": {"A": token()}}), vec![]),
        ] {
            let refused = client.register_env(&env("bad", document.clone(), &inline)).unwrap_err();
            assert_eq!(refused.status(), Some(422), "{document}: {refused}");
            assert!(!refused.to_string().contains(VALUE));
        }
        assert_eq!(
            client.secrets(Some("daemon"), None).unwrap().items.len(),
            2,
            "nothing else came into the vault"
        );
        let entries = host.ledger(&LedgerFilter { limit: Some(1_000), ..LedgerFilter::default() });
        assert!(entries.iter().all(|entry| !is_in(VALUE, entry.line.as_bytes())));
        assert!(!is_in(VALUE, host.log().as_bytes()));
    });
}

/// REG-05: names point and versions stay: registering and assigning move a name, old hashes still resolve, history tells.
#[test]
fn reg_05_names_move_and_versions_stay() {
    on_both(|host| {
        let client = host.owner().client.clone();
        let made =
            |text: &str| client.register_env(&env("staging", json!({"values": {"A": text}}), &[])).unwrap();
        let (one, two) = (made("1"), made("2"));
        assert_eq!(two.before.as_ref(), Some(&one.hash));
        for version in [&one, &two] {
            assert_eq!(client.artifact("env", &version.hash).unwrap().hash, version.hash);
        }
        assert_eq!(client.artifact("env", "staging").unwrap().hash, two.hash);
        let back = client.assign_artifact("env", "staging", &one.hash).unwrap();
        assert!(back.changed && back.before.as_ref() == Some(&two.hash));
        assert!(
            !client.assign_artifact("env", "staging", &one.hash).unwrap().changed,
            "the same again changes nothing"
        );
        client.assign_artifact("env", "production", "staging").unwrap();
        assert_eq!(client.artifact("env", &one.hash).unwrap().names, ["production", "staging"]);
        let told: Vec<_> = client.artifact_history("env", "staging").unwrap().items;
        let told: Vec<_> = told.iter().map(|change| (change.change.as_str(), change.hash.as_str())).collect();
        assert_eq!(told, [("assign", &*one.hash), ("register", &*two.hash), ("register", &*one.hash)]);
        // A kind is a namespace of its own.
        assert_eq!(client.artifact("capability", "staging").unwrap_err().status(), Some(404));
        assert_eq!(client.artifact("subagent", &one.hash).unwrap_err().status(), Some(404));
        assert_eq!(client.assign_artifact("capability", "x", &one.hash).unwrap_err().status(), Some(404));
        host.restart();
        assert_eq!(host.owner().client.artifact("env", "production").unwrap().hash, one.hash);
    });
}

/// REG-05: twenty who register the same at once get one version; twenty who register different things all get theirs.
#[test]
fn reg_05_many_at_once_leave_one_version_of_each_content() {
    on_both(|host| {
        let client = host.owner().client.clone();
        let many = scale(200, 20);
        let hashes: BTreeMap<usize, String> = std::thread::scope(|scope| {
            let all: Vec<_> = (0..many)
                .map(|n| {
                    let client = client.clone();
                    scope.spawn(move || {
                        let body = env("shared", json!({"values": {"N": (n % 2).to_string()}}), &[]);
                        // One that lost a race is told so, and the same again is done.
                        let made = (0..20).find_map(|_| client.register_env(&body).ok());
                        (n, made.unwrap().hash)
                    })
                })
                .collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert_eq!(hashes.values().collect::<BTreeSet<_>>().len(), 2);
        assert_eq!(standing(host, "env").len(), 1);
    });
}

/// REG-08, as far as there is something that uses versions: by name, by hash and by content a revoked one is refused, at once.
#[test]
fn reg_08_a_revoked_version_cannot_be_used() {
    on_both(|host| {
        let client = host.owner().client.clone();
        let (body, contents) = new_capability("lint");
        let made = client.register_capability(&body, &contents).unwrap();
        client.register_subagent(&uses("before", "lint")).unwrap();
        let began = Instant::now();
        assert!(client.revoke_artifact("capability", "lint").unwrap().revoked_at.is_some());
        for (way, refused) in [
            ("by name", client.register_subagent(&uses("after", "lint")).unwrap_err()),
            ("by hash", client.register_subagent(&uses("after", &made.hash)).unwrap_err()),
            ("another name", client.assign_artifact("capability", "other", &made.hash).unwrap_err()),
            ("the same content", client.register_capability(&body, &contents).unwrap_err()),
        ] {
            assert!(refused.to_string().contains("revoked"), "{way}: {refused}");
        }
        assert!(
            began.elapsed() < Duration::from_secs(5),
            "five times the promise, on a machine with much to do"
        );
        // It is there to be looked at, and says so; revoking it again is harmless.
        assert!(client.artifact("capability", &made.hash).unwrap().revoked_at.is_some());
        assert!(client.artifacts("capability", None).unwrap().items[0].revoked_at.is_some());
        client.revoke_artifact("capability", &made.hash).unwrap();
        let told = client.artifact_history("capability", "lint").unwrap().items;
        assert_eq!(told.iter().map(|one| one.change.as_str()).collect::<Vec<_>>(), ["revoke", "register"]);
        host.restart();
        let client = host.owner().client.clone();
        assert!(
            client.register_subagent(&uses("after", "lint")).unwrap_err().to_string().contains("revoked")
        );
    });
}

fn uses(name: &str, capability: &str) -> api::RegisterSubagentRequest {
    let mut body = new_subagent(name);
    body.document.insert("capabilities".into(), json!([capability]));
    body
}

/// REG-09: a manifest deploys everything; the second time nothing changes; a dry run tells and changes nothing; an error stops it.
#[test]
fn reg_09_a_manifest_deploys_everything_and_stops_at_the_first_error() {
    let host = Host::start();
    let client = host.owner().client.clone();
    let place = host.place().join("deploy");
    let write = |path: &str, text: &str| {
        let path = place.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("lint/run.sh", "#!/bin/sh\n");
    write("lint/capability.toml", "about = \"lints\"\nsetup = \"run.sh\"\n[tools]\nallow = [\"read\"]\n");
    write(
        "reviewer.toml",
        "systemPrompt = \"Review.\"\nagent = \"fake\"\ncapabilities = [\"lint\"]\n[allow]\nenvs = [\"staging\"]\n",
    );
    write("staging.json", r#"{"values": {"LEVEL": "debug"}}"#);
    write(
        "all.toml",
        "[capabilities.lint]\ndirectory = \"lint\"\n[subagents.reviewer]\ndocument = \"reviewer.toml\"\n[envs.staging]\ndocument = \"staging.json\"\n[envs.inside.values]\nA = \"b\"\n",
    );
    let deploy = |more: &[&str]| {
        let manifest = place.join("all.toml");
        let output =
            palisade(&host, &client, &[&["--json", "deploy", manifest.to_str().unwrap()], more].concat(), "");
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let names = |told: &Value, key: &str| -> Vec<(String, bool)> {
        let all = told["result"].as_array().unwrap_or_else(|| panic!("{told}"));
        all.iter()
            .map(|one| (one["name"].as_str().unwrap().to_owned(), one[key].as_bool().unwrap()))
            .collect()
    };
    let every =
        |is: bool| ["lint", "reviewer", "inside", "staging"].map(|name| (name.to_owned(), is)).to_vec();

    assert_eq!(names(&deploy(&["--dry-run"]), "changed"), every(true));
    for kind in ["capability", "subagent", "env"] {
        assert!(standing(&host, kind).is_empty(), "a dry run changes nothing");
    }
    assert_eq!(names(&deploy(&[]), "changed"), every(true), "in order: capabilities, subagents, envs");
    let before: Vec<_> = ["capability", "subagent", "env"].map(|kind| standing(&host, kind)).to_vec();
    assert_eq!(names(&deploy(&[]), "changed"), every(false), "the second run changes nothing");

    write("lint/run.sh", "#!/bin/sh\nexit 0\n");
    let told = deploy(&["--dry-run"]);
    assert_eq!(names(&told, "changed").iter().filter(|(_, changed)| *changed).count(), 1, "{told}");
    assert_eq!(["capability", "subagent", "env"].map(|kind| standing(&host, kind)).to_vec(), before);

    write("reviewer.toml", "agent = \"fake\"\n");
    let told = deploy(&[]);
    let why = told["error"]["message"].as_str().unwrap_or_else(|| panic!("{told}"));
    assert!(why.contains("subagent reviewer") && why.contains("done before it: capability lint"), "{why}");
    assert_eq!((standing(&host, "subagent"), standing(&host, "env")), (before[1].clone(), before[2].clone()));
}

/// What was registered is sealed: nothing of it is on the disk or in the database; new keys carry it over; a backup holds it.
#[test]
fn reg_01_what_is_kept_is_sealed_and_goes_through_rotation_and_backup() {
    let mut host = Host::builder().set("limits.requests_per_minute", "0").start();
    let client = host.owner().client.clone();
    let text = format!("{VALUE}\n").repeat(40_000);
    let (body, contents) = capability("kept", json!({"about": VALUE}), &[("a.txt", text.as_bytes())]);
    client.register_capability(&body, &contents).unwrap();
    loop {
        let step = client.rotate_keys(&RotateRequest::default()).unwrap();
        if step.finished {
            break;
        }
    }
    assert_eq!(client.capability_file("kept", "a.txt").unwrap(), text.as_bytes());
    let mut backup = Vec::new();
    std::io::copy(&mut client.backup().unwrap(), &mut backup).unwrap();
    assert!(!is_in(VALUE, &backup));
    host.restart();
    let client = host.owner().client.clone();
    assert_eq!(client.capability_file("kept", "a.txt").unwrap(), text.as_bytes());
    host.stop();
    for (path, bytes) in crate::ledger_secrets::files(&host.data()) {
        assert!(!is_in(VALUE, &bytes), "{path:?}");
    }

    let url = tests::database();
    let host =
        Host::builder().set("store.url", &url).variable("PALISADE_MASTER_KEY", &tests::master_key()).start();
    let client = &host.owner().client;
    client.register_capability(&body, &contents).unwrap();
    assert!(!is_in(VALUE, tests::dump(&url).as_bytes()), "also in PostgreSQL");
    assert_eq!(client.capability_file("kept", "a.txt").unwrap(), text.as_bytes());
    damaged(client, &url);
}

/// A part that somebody changed, exchanged or took away in the database is noticed.
fn damaged(client: &Client, url: &str) {
    for sql in [
        "UPDATE artifact_parts SET sealed = overlay(sealed PLACING '\\x00' FROM 200) WHERE part = 1",
        "DELETE FROM artifact_parts WHERE part = 1",
        "DELETE FROM artifact_parts",
    ] {
        crate::gateway_wire::psql(url, sql);
        let refused = client.capability_file("kept", "a.txt").unwrap_err();
        assert_eq!(refused.status(), Some(409), "{sql}: {refused}");
    }
}

/// SEC-04: what a rotation of the keys cannot open it tells and leaves, and carries over everything else; it goes on where it was
/// interrupted, and what is registered again is whole again.
#[test]
fn sec_04_a_damaged_artifact_is_told_and_keeps_no_rotation_from_its_end() {
    let url = tests::database();
    let limits = Host::builder().set("limits.requests_per_minute", "0");
    let mut host = limits.set("store.url", &url).set("key.file", "given.key").stopped();
    vault::source::create_file(&host.place().join("given.key")).unwrap();
    host.start_daemon().unwrap();
    host.claim();
    let client = host.owner().client.clone();
    let whole = b"whole ".repeat(100_000);
    let files: [(&str, &[u8]); 2] = [("a.txt", &whole), ("b.txt", b"broken soon")];
    let (body, contents) = capability("kept", json!({}), &files);
    let kept = client.register_capability(&body, &contents).unwrap().hash;
    // More than one step takes.
    let envs: Vec<String> = (0..205)
        .map(|n| {
            client.register_env(&env("staging", json!({"values": {"N": n.to_string()}}), &[])).unwrap().hash
        })
        .collect();
    let content = client.artifact("capability", "kept").unwrap().document.unwrap()["files"]["b.txt"]["hash"]
        .as_str()
        .unwrap()
        .to_owned();
    let break_one = |table: &str, column: &str, of: &str| {
        let flip = format!(
            "set_byte({column}, octet_length({column}) - 1, get_byte({column}, octet_length({column}) - 1) # 1)"
        );
        crate::gateway_wire::psql(&url, &format!("UPDATE {table} SET {column} = {flip} WHERE {of}"));
    };
    break_one("artifacts", "document", &format!("hash = '{}'", envs[0]));
    break_one("artifact_parts", "sealed", &format!("blob = '{content}'"));

    let step = client.rotate_keys(&RotateRequest::default()).unwrap();
    assert!(!step.finished && step.left > 0, "{step:?}");
    host.restart();
    let client = host.owner().client.clone();
    let head = host.ledger_head();
    let output = palisade(&host, &client, &["--json", "secret", "rotate"], "");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let names = [format!("content {content}"), format!("env {}", envs[0])];
    assert_eq!(
        (&told["result"]["finished"], &told["result"]["damaged"], &told["result"]["damaged_first"]),
        (&json!(true), &json!(2), &json!(names)),
        "{told}"
    );
    let entries = host.since(head);
    let closing =
        entries.iter().rfind(|one| one.action == "secret.rotate" && one.decision == "done").unwrap();
    assert!(names.iter().all(|name| closing.line.contains(name)), "{closing:?}");

    // Everything else is whole; what was broken says so.
    for hash in &envs[1..] {
        assert!(client.artifact("env", hash).is_ok(), "{hash}");
    }
    assert_eq!(client.capability_file(&kept, "a.txt").unwrap(), whole);
    for refused in
        [client.artifact("env", &envs[0]).map(drop), client.capability_file(&kept, "b.txt").map(drop)]
    {
        assert_eq!(refused.unwrap_err().status(), Some(409));
    }
    // The same again mends it, under the keys of now.
    client.register_env(&env("mended", json!({"values": {"N": "0"}}), &[])).unwrap();
    client.register_capability(&body, &contents).unwrap();
    assert_eq!(client.artifact("env", &envs[0]).unwrap().hash, envs[0]);
    assert_eq!(client.capability_file(&kept, "b.txt").unwrap(), b"broken soon");
    assert_eq!(client.capability_file(&kept, "a.txt").unwrap(), whole);
}

/// The commands, as a person types them.
#[test]
fn reg_05_the_commands_do_what_the_api_does() {
    let host = Host::start();
    let client = host.owner().client.clone();
    let run = |words: &[&str], input: &str| {
        let output = palisade(&host, &client, &[&["--json"], words].concat(), input);
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(told["ok"] == true, "{words:?}: {told}");
        told["result"].clone()
    };
    let place = host.place().join("here");
    std::fs::create_dir_all(place.join("cap/bin")).unwrap();
    std::fs::write(place.join("cap/bin/tool"), "x").unwrap();
    let at = |name: &str| place.join(name).to_str().unwrap().to_owned();
    std::fs::write(place.join("env.toml"), "[values]\nLEVEL = \"debug\"\n").unwrap();
    let made = run(&["capability", "register", "tool", &at("cap")], "");
    assert_eq!(run(&["capability", "list"], "")[0]["hash"], made["hash"]);
    assert!(run(&["capability", "show", "tool"], "")["document"]["files"]["bin/tool"].is_object());
    run(&["capability", "fetch", "tool", "bin/tool", "--output", &at("out")], "");
    assert_eq!(std::fs::read(Path::new(&at("out"))).unwrap(), b"x");
    let env =
        run(&["env", "register", "staging", &at("env.toml"), "--secret", "TOKEN", "--ttl", "60"], VALUE);
    let shown = run(&["env", "show", "staging"], "").to_string();
    assert!(shown.contains("\"from\":\"ENV_TOKEN_") && !shown.contains(VALUE), "{shown}");
    run(&["env", "assign", "other", env["hash"].as_str().unwrap()], "");
    assert_eq!(run(&["env", "history", "other"], "").as_array().unwrap().len(), 1);
    assert!(run(&["env", "revoke", "staging"], "")["revoked_at"].is_i64());
    let plain = palisade(&host, &client, &["env", "list"], "");
    assert!(String::from_utf8_lossy(&plain.stdout).contains("revoked"), "{plain:?}");
}

/// What the documentation shows is taken as it stands there.
#[test]
fn reg_09_the_documents_of_the_documentation_are_taken() {
    let host = Host::start();
    let client = host.owner().client.clone();
    let place = host.place().join("shown");
    std::fs::create_dir_all(place.join("lint/bin")).unwrap();
    std::fs::write(place.join("lint/bin/setup.sh"), "#!/bin/sh\n").unwrap();
    let text = include_str!("../../docs/registry.md");
    let shown: Vec<&str> =
        text.split("```toml\n").skip(1).map(|block| block.split("```").next().unwrap()).collect();
    let names = ["lint/capability.toml", "reviewer.toml", "staging.toml", "all.toml"];
    assert_eq!(shown.len(), names.len());
    for (name, text) in names.iter().zip(shown) {
        std::fs::write(place.join(name), text).unwrap();
    }
    let manifest = place.join("all.toml");
    let output = palisade(&host, &client, &["deploy", manifest.to_str().unwrap()], "");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(said.lines().count(), 3, "{said}");
}
