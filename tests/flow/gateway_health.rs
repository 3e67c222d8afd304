//! Health tells the truth, and metrics tell it to those who may know.

use tests::Host;

use crate::gateway_wire::{psql, until};
use crate::ledger_full::Disk;

fn broken(host: &Host) -> Vec<String> {
    // Status and body of one answer: a moment later the daemon may have recovered.
    let mut answer = host.anonymous().send("GET", "/readyz", &[], Vec::new()).unwrap();
    let health: api::Health = answer.body_mut().read_json().unwrap();
    let broken: Vec<String> =
        health.checks.iter().filter(|check| !check.ok).map(|check| check.name.clone()).collect();
    assert_eq!(answer.status() == 200, broken.is_empty(), "{health:?}");
    let place = host.place().display().to_string();
    assert!(
        health
            .checks
            .iter()
            .all(|check| check.ok == check.detail.is_empty() && !check.detail.contains(&place)),
        "{health:?}"
    );
    broken
}

/// GTW-11: the key, the store and the ledger broken in turn are named, and come back by themselves.
#[test]
fn gtw_11_readiness_names_what_is_broken() {
    let url = tests::database();
    let disk = Disk::small("24m");
    let mut host = Host::builder()
        .in_folder(&disk.folder())
        .set("store.url", &url)
        .set("limits.requests_per_minute", "0")
        .stopped();
    let key = host.place().join("given.key");
    std::fs::write(&key, tests::master_key()).unwrap();
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    host.set("key.file", key.to_str().unwrap());
    host.start_daemon().unwrap();
    host.claim();
    assert!(broken(&host).is_empty());

    let aside = key.with_extension("aside");
    std::fs::rename(&key, &aside).unwrap();
    assert_eq!(broken(&host), ["keys"]);
    std::fs::write(&key, tests::master_key()).unwrap();
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    assert_eq!(broken(&host), ["keys"], "another key is not the key");
    std::fs::rename(&aside, &key).unwrap();
    assert!(broken(&host).is_empty());

    let name = url.rsplit('/').next().unwrap().split('?').next().unwrap();
    let admin = url.replacen(&format!("/{name}"), "/postgres", 1);
    psql(&admin, &format!("ALTER DATABASE \"{name}\" WITH ALLOW_CONNECTIONS false"));
    psql(&admin, &format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"));
    assert_eq!(broken(&host), ["store"]);
    psql(&admin, &format!("ALTER DATABASE \"{name}\" WITH ALLOW_CONNECTIONS true"));
    until("the store is back", || broken(&host).is_empty());

    if disk.is_own() {
        disk.fill();
        // The last page of the segment has some room left; then there is none.
        let make = |n| {
            let body = api::CreateRepoRequest {
                name: format!("x-{n}"),
                origin: "https://forge.example/a/b".into(),
                ..Default::default()
            };
            host.owner().client.create_repo(&body)
        };
        let refused = (0..40).find_map(|n| make(n).err()).unwrap();
        assert_eq!(refused.status(), Some(503));
        assert_eq!(broken(&host), ["ledger"]);
        disk.free();
        until("the ledger is back", || broken(&host).is_empty());
    }
    assert_eq!(host.anonymous().send("GET", "/livez", &[], Vec::new()).unwrap().status(), 200);
}

/// GTW-12: metrics need a credential and the right; labels are few and name nobody.
#[test]
fn gtw_12_metrics_need_a_credential_and_name_nobody() {
    let host = Host::start();
    let bo = host.user("bo", "member");
    let repo = host.repo("demo");
    let worktree = host.owner().worktree(&repo, "one", "session").id;
    host.owner().client.worktree(&worktree).unwrap();
    drop(host.owner().client.send("GET", "/not/a/route/of-ours", &[], Vec::new()));
    drop(host.owner().client.send("BREW", "/api/v1/whoami", &[], Vec::new()));
    assert_eq!(host.anonymous().metrics().unwrap_err().status(), Some(401));
    assert_eq!(bo.client.metrics().unwrap_err().status(), Some(403));
    let text = host.owner().client.metrics().unwrap();
    for name in [
        "palisade_requests_total",
        "palisade_request_seconds",
        "palisade_refusals_total",
        "palisade_sockets",
        "palisade_connections",
    ] {
        assert!(text.contains(name), "{name} is not in\n{text}");
    }
    for id in [&worktree, &repo, &bo.id, &host.owner().id, "of-ours", "BREW", "example.org", "127.0.0.1"] {
        assert!(!text.contains(id), "{id} is in\n{text}");
    }
    assert!(text.contains(r#"operation="worktrees_read""#));
}
