//! Entries and logs hold no secret.

use std::fs;
use std::path::Path;

use api::{
    CreateKeyRequest, CreateRepoRequest, CreateUserRequest, CreateWorktreeRequest, Hidden, LoginRequest,
};
use tests::{Host, PASSWORD};

use crate::gateway_wire::ask;

/// Secrets of many kinds, made for this test and good for nothing.
fn planted() -> Vec<String> {
    let filler = |seed: u32, length: usize, alphabet: &str| -> String {
        let letters: Vec<char> = alphabet.chars().collect();
        let mut state = u64::from(seed) * 0x9e37_79b9 + 12_345;
        (0..length)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                letters[usize::try_from(state >> 33).unwrap() % letters.len()]
            })
            .collect()
    };
    const ALNUM: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let mut all = Vec::new();
    for n in 0..5 {
        all.push(format!("ghp_{}", filler(n, 36, ALNUM)));
        all.push(format!("AKIA{}", filler(n + 10, 16, UPPER)));
        all.push(format!("sk-ant-api03-{}", filler(n + 20, 93, ALNUM)));
        all.push(format!("xoxb-{}-{}", filler(n + 30, 12, "0123456789"), filler(n + 40, 24, ALNUM)));
        all.push(format!("glpat-{}", filler(n + 50, 20, ALNUM)));
        all.push(format!("sk_live_{}", filler(n + 60, 24, ALNUM)));
    }
    assert_eq!(all.len(), 30);
    all
}

/// Every file below a folder, with its bytes.
pub fn files(folder: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push((path.clone(), fs::read(&path).unwrap())),
        }
    }
    found.sort();
    found
}

/// LED-11: thirty secrets, sent wherever text can be sent, are in no segment and no log.
#[test]
fn led_11_planted_secrets_are_in_no_segment_and_no_log() {
    let mut host = Host::builder().set("limits.requests_per_minute", "0").set("log.level", "trace").start();
    let repo = host.repo("demo");
    let client = host.owner().client.clone();
    let json = ("content-type", "application/json");
    for (n, secret) in planted().iter().enumerate() {
        // Where text is kept or refused, as a value and as a name, in bodies, paths, queries and headers.
        let about = format!("use {secret} here");
        let body = CreateWorktreeRequest {
            repo: repo.clone(),
            name: format!("w-{n}"),
            about: about.clone(),
            tier: None,
            branch: None,
            base: None,
        };
        let made = client.create_worktree(&body).unwrap();
        client.update_worktree(&made.id, &format!("token={secret}")).unwrap();
        let named = |name: &str| CreateWorktreeRequest { name: name.to_owned(), ..body.clone() };
        drop(client.create_worktree(&named(secret)));
        drop(client.create_worktree(&CreateWorktreeRequest { tier: Some(secret.clone()), ..body.clone() }));
        drop(client.create_worktree(&CreateWorktreeRequest { repo: secret.clone(), ..body.clone() }));
        let user = CreateUserRequest {
            email: format!("u{n}@example.org"),
            name: secret.chars().take(80).collect(),
            role: secret.clone(),
            password: Some(Hidden(secret.clone())),
            bcrypt: None,
        };
        drop(client.create_user(&user));
        drop(client.create_user(&CreateUserRequest {
            email: secret.clone(),
            role: "member".into(),
            ..user.clone()
        }));
        drop(client.create_key(&CreateKeyRequest {
            label: secret.chars().take(80).collect(),
            scope: secret.clone(),
            days: None,
        }));
        drop(client.create_repo(&CreateRepoRequest {
            name: format!("r-{n}"),
            origin: format!("https://u:{secret}@forge.example/a"),
            ..Default::default()
        }));
        drop(client.create_repo(&CreateRepoRequest {
            name: secret.clone(),
            origin: "https://forge.example/a".into(),
            ..Default::default()
        }));
        drop(
            client
                .add_policy(secret, &format!("forbid(principal, action, resource) when {{ \"{secret}\" }};")),
        );
        drop(client.worktree(secret));
        drop(client.users(Some(&secret.chars().take(40).collect::<String>()), None, None));
        let odd = format!(r#"{{"{secret}":1,"name":{{"{secret}":"{secret}"}}}}"#);
        let reply = ask(&host, "POST", "/api/v1/repos", &[json, ("x-note", secret)], odd.as_bytes());
        assert!(!reply.text().contains(secret.as_str()), "{}", reply.text());
        drop(ask(
            &host,
            "DELETE",
            &format!("/api/v1/repos/{secret}?token={secret}"),
            &[("authorization", secret)],
            b"",
        ));
        if n < 3 {
            let login = LoginRequest {
                email: secret.clone(),
                password: Hidden(secret.clone()),
                totp: Some(Hidden(secret.clone())),
            };
            drop(host.anonymous().login(&login));
        }
    }
    let (access, refresh) = (client.token().unwrap().to_owned(), host.owner().tokens.refresh_token.0.clone());
    host.stop();
    let mut never = planted();
    never.extend([access, refresh, PASSWORD.to_owned()]);
    let stored = files(&host.data());
    assert!(
        stored
            .iter()
            .any(|(path, bytes)| path.extension().is_some_and(|kind| kind == "seg") && bytes.len() > 10_000)
    );
    for (path, bytes) in &stored {
        for secret in &never {
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{secret} is in {}", path.display());
        }
    }
    let log = host.log();
    for secret in &never {
        assert!(!log.contains(secret.as_str()), "{secret} is in the log");
    }
    host.start_daemon().unwrap();
    host.rebase();
    assert_eq!(
        host.owner().client.verify_ledger().unwrap().verdict,
        "intact",
        "the hash covers what is stored"
    );
}
