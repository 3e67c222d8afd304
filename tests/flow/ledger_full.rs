//! No record, no effect: a full disk, a lost key. What only narrows happens all the same.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::Command;

use api::{CreateWorktreeRequest, LedgerFilter, UpdateUserRequest, WorktreeFilter};
use tests::Host;

use crate::gateway_wire::{ask, until};

/// A folder on a small disk of its own, if we may mount one; it is gone when this ends.
pub struct Disk {
    folder: tempfile::TempDir,
    mounted: bool,
}

impl Disk {
    pub fn small(size: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = format!("size={size},mode=700");
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "palisade-test"])
            .arg(folder.path())
            .output();
        Self { folder, mounted: mount.is_ok_and(|mount| mount.status.success()) }
    }

    /// The same with a file system as people have it, on which sandboxes can be made.
    pub fn ordinary(megabytes: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let image = tempfile::NamedTempFile::new().unwrap();
        image.as_file().set_len(megabytes << 20).unwrap();
        let done = |command: &mut Command| command.output().is_ok_and(|done| done.status.success());
        let mounted = done(Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0"]).arg(image.path()))
            && done(Command::new("mount").args(["-o", "loop"]).arg(image.path()).arg(folder.path()));
        // The mount keeps the file.
        Self { folder, mounted }
    }

    /// Whether it is a disk of its own: only root can mount one. Where it is not, that is told.
    pub fn is_own(&self) -> bool {
        if !self.mounted {
            tests::cannot_run("a small disk cannot be mounted, so nothing is tried on a full one");
        }
        self.mounted
    }

    /// A private folder on it.
    pub fn folder(&self) -> PathBuf {
        let inside = self.folder.path().join("home");
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&inside).unwrap();
        inside
    }

    /// Leaves no byte free.
    pub fn fill(&self) {
        assert!(self.mounted, "not a disk of its own");
        let filler = fs::File::create(self.folder.path().join("filler")).unwrap();
        let mut writer = &filler;
        let piece = vec![0u8; 4096];
        while std::io::Write::write_all(&mut writer, &piece).is_ok() {}
    }

    /// Takes what became free since.
    pub fn fill_again(&self) {
        let filler = self.folder.path().join("filler");
        let mut filler = fs::OpenOptions::new().append(true).open(filler).unwrap();
        let piece = vec![0u8; 4096];
        while std::io::Write::write_all(&mut filler, &piece).is_ok() {}
    }

    pub fn free(&self) {
        fs::remove_file(self.folder.path().join("filler")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.mounted {
            drop(Command::new("umount").arg("-l").arg(self.folder.path()).status());
        }
    }
}

/// LED-02: on a full disk nothing widens and the caller learns why; reads go on; what narrows is done and
/// recorded; and when there is room again, everything goes on without repair.
#[test]
fn led_02_a_full_disk_refuses_what_widens_and_does_what_narrows() {
    let disk = Disk::small("32m");
    if !disk.is_own() {
        return; // only root can mount a small disk; the ledger's and the store's own tests inject the same
    }
    let mut host = Host::builder().in_folder(&disk.folder()).set("limits.requests_per_minute", "0").start();
    let repo = host.repo("demo");
    let worktree = host.owner().worktree(&repo, "one", "session");
    let (bo, cy) = (host.user("bo", "member"), host.user("cy", "member"));
    let (di, ed) = (host.user("di", "admin"), host.user("ed", "member"));
    host.owner().client.add_owner(&worktree.id, &di.id).unwrap();
    let worktree = host.owner().client.worktree(&worktree.id).unwrap();
    let key = host
        .owner()
        .client
        .create_key(&api::CreateKeyRequest { label: "k".into(), scope: "admin".into(), days: None })
        .unwrap();
    let second = host.owner().login(&host);
    disk.fill();

    let create = |name: &str| {
        let body = CreateWorktreeRequest {
            repo: repo.clone(),
            name: name.into(),
            about: String::new(),
            tier: None,
            branch: None,
            base: None,
        };
        host.owner().client.create_worktree(&body)
    };
    let client = &host.owner().client;
    for _ in 0..3 {
        for refused in [
            create("two").map(drop),
            client.update_worktree(&worktree.id, "changed").map(drop),
            client.set_tier(&worktree.id, "all").map(drop),
            client.add_owner(&worktree.id, &cy.id).map(drop),
            client.update_user(&ed.id, &role("admin")).map(drop),
            // Lower than now, and not the lowest: by the time it is written it may be a raise.
            client.set_tier(&worktree.id, "view").map(drop),
            client.update_user(&di.id, &role("member")).map(drop),
            // The lowest, and something else with it.
            client
                .update_user(&di.id, &UpdateUserRequest { enabled: Some(true), ..role("viewer") })
                .map(drop),
            client
                .create_repo(&api::CreateRepoRequest {
                    name: "r".into(),
                    origin: "https://forge.example/a/b".into(),
                    ..Default::default()
                })
                .map(drop),
            client.reset_password(&bo.id, "another long password").map(drop),
            client.backup().map(drop),
        ] {
            let error = refused.unwrap_err();
            assert_eq!(error.status(), Some(503), "{error}");
        }
    }
    assert_eq!(client.worktree(&worktree.id).unwrap(), worktree, "reads go on and nothing changed");
    assert_eq!(client.worktrees(&WorktreeFilter::default()).unwrap().items, std::slice::from_ref(&worktree));
    assert_eq!(client.repos(None).unwrap().items.len(), 1);
    assert!(client.ledger(&LedgerFilter::default()).is_ok(), "also of the ledger");
    assert!(host.anonymous().ready().unwrap().checks.iter().any(|check| !check.ok), "and readiness says so");

    client.disable_user(&bo.id).unwrap();
    assert_eq!(bo.client.whoami().unwrap_err().status(), Some(401), "narrowing took effect");
    client.revoke_key(&key.key.id).unwrap();
    assert_eq!(host.anonymous().with_token(&key.secret.0).whoami().unwrap_err().status(), Some(401));
    second.client.logout().unwrap();
    assert_eq!(second.client.whoami().unwrap_err().status(), Some(401));
    client.sign_out_user(&cy.id).unwrap();
    assert_eq!(cy.client.whoami().unwrap_err().status(), Some(401));
    assert_eq!(client.set_tier(&worktree.id, "none").unwrap().tier, "none");
    assert_eq!(ed.client.worktree(&worktree.id).unwrap_err().status(), Some(404), "the tier took effect");
    assert_eq!(di.client.worktree(&worktree.id).unwrap().owners.len(), 2);
    assert!(!client.remove_owner(&worktree.id, &di.id).unwrap().owners.contains(&di.id));
    assert_eq!(client.update_user(&di.id, &role("viewer")).unwrap().role, "viewer");
    assert_eq!(di.client.whoami().unwrap_err().status(), Some(401), "who is demoted signs in again");
    for _ in 0..20 {
        assert_eq!(create("three").unwrap_err().status(), Some(503), "the room is not for what widens");
    }
    client.archive_worktree(&worktree.id).unwrap();

    disk.free();
    until("there is room again", || host.anonymous().ready().unwrap().status == "ok");
    until("writes go on", || create("four").is_ok());
    let entries =
        |action: &str| host.ledger(&LedgerFilter { action: Some(action.into()), ..LedgerFilter::default() });
    for (action, resource) in [
        ("user.disable", &bo.id),
        ("key.revoke", &key.key.id),
        ("signin.end_all", &cy.id),
        ("worktree.archive", &worktree.id),
        ("worktree.set_tier", &worktree.id),
        ("worktree.set_owners", &worktree.id),
        ("user.update", &di.id),
    ] {
        let found = entries(action);
        assert!(
            found.iter().any(|entry| entry.resource == *resource && entry.decision == "allowed"),
            "{action}: {found:?}"
        );
    }
    assert_eq!(entries("signin.end").len(), 2, "allowed, done");
    let done = |action: &str| entries(action).iter().filter(|entry| entry.decision == "done").count();
    assert_eq!((done("worktree.set_tier"), done("user.update")), (1, 1), "nothing that widens was done");
    let report = client.verify_ledger().unwrap();
    assert_eq!((report.verdict.as_str(), report.findings.len()), ("intact", 0), "{report:?}");

    host.restart();
    assert_eq!(host.owner().client.verify_ledger().unwrap().verdict, "intact");
    let there: Vec<String> = host
        .owner()
        .client
        .worktrees(&WorktreeFilter::default())
        .unwrap()
        .items
        .into_iter()
        .map(|w| w.name)
        .collect();
    assert_eq!(there, ["four"], "`one` is archived, the refused ones never were");
    assert!(!host.owner().client.user(&bo.id).unwrap().enabled);
    assert_eq!(host.owner().client.user(&di.id).unwrap().role, "viewer");
    let narrowed = host.owner().client.worktree(&worktree.id).unwrap();
    assert_eq!((narrowed.tier.as_str(), narrowed.owners.len()), ("none", 1));
}

fn role(word: &str) -> UpdateUserRequest {
    UpdateUserRequest { role: Some(word.into()), ..UpdateUserRequest::default() }
}

/// LED-02: a daemon that is killed on a full disk comes back on it, narrows, and forgets nothing.
#[test]
fn led_02_a_kill_on_a_full_disk_loses_no_narrowing() {
    let disk = Disk::small("32m");
    if !disk.is_own() {
        return;
    }
    let mut host = Host::builder().in_folder(&disk.folder()).start();
    let bo = host.user("bo", "member");
    disk.fill();
    host.owner().client.disable_user(&bo.id).unwrap();
    host.kill();
    disk.free();
    host.start_daemon().unwrap();
    host.rebase();
    assert!(!host.owner().client.user(&bo.id).unwrap().enabled);
    let filter = LedgerFilter { action: Some("user.disable".into()), ..LedgerFilter::default() };
    assert!(host.ledger(&filter).iter().any(|entry| entry.resource == bo.id), "{:?}", host.ledger(&filter));
    assert_eq!(host.owner().client.verify_ledger().unwrap().verdict, "intact");
}

/// LED-02, GTW-14: a key does not keep what only narrows this time from happening on a full disk, and lets nothing
/// through that widens.
#[test]
fn led_02_a_keyed_act_that_narrows_this_time_happens_on_a_full_disk() {
    let disk = Disk::small("32m");
    if !disk.is_own() {
        return; // only root can mount a small disk
    }
    let host = Host::builder().in_folder(&disk.folder()).start();
    let repo = host.repo("demo");
    let worktree = host.owner().worktree(&repo, "one", "session");
    let (bo, cy) = (host.user("bo", "member"), host.user("cy", "member"));
    host.owner().client.add_owner(&worktree.id, &bo.id).unwrap();
    disk.fill();
    let keyed = |method: &str, path: String, body: &str| {
        let key = format!("{method}{path}{body}").replace(['"', '{', '}'], "");
        let headers = [("content-type", "application/json"), ("Idempotency-Key", key.as_str())];
        ask(&host, method, &path, &headers, body.as_bytes()).status
    };
    let tier = || format!("/api/v1/worktrees/{}/tier", worktree.id);
    let owner = |id: &str| format!("/api/v1/worktrees/{}/owners/{id}", worktree.id);
    let user = |id: &str| format!("/api/v1/users/{id}");
    for _ in 0..2 {
        assert_eq!(keyed("PUT", tier(), r#"{"tier":"all"}"#), 503);
        assert_eq!(keyed("PUT", owner(&cy.id), ""), 503);
        assert_eq!(keyed("PATCH", user(&cy.id), r#"{"role":"admin"}"#), 503);
        assert_eq!(keyed("PATCH", user(&cy.id), r#"{"name":"Cyrus"}"#), 503);
    }
    let client = &host.owner().client;
    assert_eq!(client.worktree(&worktree.id).unwrap().tier, "session", "nothing changed");

    assert_eq!(keyed("PUT", tier(), r#"{"tier":"none"}"#), 200);
    assert_eq!(keyed("DELETE", owner(&bo.id), ""), 200);
    assert_eq!(keyed("PATCH", user(&cy.id), r#"{"role":"viewer"}"#), 200);
    let narrowed = client.worktree(&worktree.id).unwrap();
    assert_eq!((narrowed.tier.as_str(), narrowed.owners.len()), ("none", 1));
    assert_eq!(client.user(&cy.id).unwrap().role, "viewer");
    assert_eq!(keyed("PUT", tier(), r#"{"tier":"all"}"#), 503, "the room is not for what widens");
}
