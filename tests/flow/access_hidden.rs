//! What is hidden stays hidden everywhere, and what was given can be taken back.

use api::{Client, CreateKeyRequest, CreateWorktreeRequest, LedgerFilter, UpdateUserRequest, WorktreeFilter};
use serde_json::Value;
use tests::{Host, Person};

fn forbid(host: &Host, id: &str, who: &Person, action: &str, resource: &str) {
    let text = format!(
        "forbid (principal == User::\"{}\", action == Action::\"{action}\", resource == {resource});",
        who.id
    );
    host.owner().client.add_policy(id, &text).unwrap();
}

/// The lines of the caller's own refusals about one thing, without what differs from entry to entry.
fn own_lines(client: &Client, id: &str) -> Vec<String> {
    let filter = LedgerFilter { resource: Some(id.into()), ..LedgerFilter::default() };
    let entries = client.ledger(&filter).unwrap().items;
    let plain = |entry: &api::LedgerEntry| {
        let mut line: Value = serde_json::from_str(&entry.line).unwrap();
        let fields = line.as_object_mut().unwrap();
        for differs in ["seq", "at", "mac", "prev", "hash"] {
            fields.remove(differs);
        }
        line.to_string().replace(id, "ID")
    };
    entries.iter().map(plain).collect()
}

#[test]
fn acc_04_the_own_ledger_does_not_tell_hidden_from_absent() {
    let host = Host::start();
    let repo = host.repo("demo");
    let hidden = host.owner().worktree(&repo, "hidden", "none").id;
    let foreign_key = {
        let body = CreateKeyRequest { label: "k".into(), scope: "runs:read".into(), days: None };
        host.owner().client.create_key(&body).unwrap().key.id
    };
    let bo = host.user("bo", "member");
    let invented = "0123456789abcdef0123456789abcdef";
    for (real, made_up) in [(hidden, format!("wt_{invented}")), (foreign_key, format!("key_{invented}"))] {
        let prefix = real.split('_').next().unwrap().to_owned();
        let made_up = made_up.replace("wt_", &format!("{prefix}_"));
        for id in [&real, &made_up] {
            let statuses = if prefix == "key" {
                vec![bo.client.revoke_key(id).unwrap_err().status()]
            } else {
                vec![
                    bo.client.worktree(id).unwrap_err().status(),
                    bo.client.delete_worktree(id).unwrap_err().status(),
                    bo.client.set_tier(id, "all").unwrap_err().status(),
                ]
            };
            assert!(statuses.iter().all(|status| *status == Some(404)));
        }
        let (real, made_up) = (own_lines(&bo.client, &real), own_lines(&bo.client, &made_up));
        assert!(!real.is_empty());
        assert_eq!(real, made_up, "what one may read of oneself tells nothing more than the answers did");
    }
}

#[test]
fn acc_05_lists_and_acts_leave_out_what_a_policy_hides() {
    let host = Host::start();
    let (seen, unseen) = (host.repo("seen"), host.repo("unseen"));
    let (bo, cy) = (host.user("bo", "member"), host.user("cy", "member"));
    forbid(&host, "no-repo", &bo, "repo.read", &format!("Repo::\"{unseen}\""));
    forbid(&host, "no-cy", &bo, "user.read", &format!("User::\"{}\"", cy.id));

    let repos: Vec<_> = bo.client.repos(None).unwrap().items.into_iter().map(|one| one.id).collect();
    assert_eq!(repos, std::slice::from_ref(&seen));
    let users = bo.client.users(None, None, None).unwrap().items;
    assert!(users.iter().all(|one| one.id != cy.id) && users.len() == 2);
    assert_eq!(bo.client.users(None, None, Some(1)).unwrap().items.len(), 1, "pages are filled");

    let make = |repo: &str| {
        let body = CreateWorktreeRequest {
            repo: repo.to_owned(),
            name: "x".into(),
            about: String::new(),
            tier: None,
            branch: None,
            base: None,
        };
        bo.client.create_worktree(&body)
    };
    let hidden = make(&unseen).unwrap_err();
    let absent = make("repo_0123456789abcdef0123456789abcdef").unwrap_err();
    assert_eq!((hidden.status(), hidden.code()), (absent.status(), absent.code()));
    let made = make(&seen).unwrap();
    let hidden = bo.client.add_owner(&made.id, &cy.id).unwrap_err();
    let absent = bo.client.add_owner(&made.id, "usr_0123456789abcdef0123456789abcdef").unwrap_err();
    assert_eq!((hidden.status(), hidden.code()), (absent.status(), absent.code()));
    assert_eq!(bo.client.worktrees(&WorktreeFilter::default()).unwrap().items.len(), 1);
}

#[test]
fn idn_07_keys_end_with_everything_else_that_is_open() {
    let host = Host::start();
    let owner = &host.owner().client;
    let role = |word: &str| UpdateUserRequest { role: Some(word.into()), ..Default::default() };
    type Ending<'a> = (&'a str, Box<dyn Fn(&Person) + 'a>);
    let endings: Vec<Ending<'_>> = vec![
        ("everywhere", Box::new(|one| one.client.logout_everywhere().unwrap())),
        ("reset", Box::new(|one| owner.reset_password(&one.id, "another long password").unwrap())),
        ("role", Box::new(|one| drop(owner.update_user(&one.id, &role("admin")).unwrap()))),
        (
            "disable and enable",
            Box::new(|one| {
                owner.disable_user(&one.id).unwrap();
                let enable = UpdateUserRequest { enabled: Some(true), ..Default::default() };
                owner.update_user(&one.id, &enable).unwrap();
            }),
        ),
    ];
    for (n, (what, end)) in endings.into_iter().enumerate() {
        let one = host.user(&format!("user{n}"), "member");
        let body = CreateKeyRequest { label: "k".into(), scope: "admin".into(), days: Some(365) };
        let key = host.anonymous().with_token(&one.client.create_key(&body).unwrap().secret.0);
        key.whoami().unwrap();
        end(&one);
        assert_eq!(key.whoami().unwrap_err().status(), Some(401), "{what}");
    }
}

#[test]
fn idn_10_no_added_policy_locks_the_owner_out() {
    let host = Host::start();
    let admin = host.user("ada", "admin");
    admin.client.add_policy("nobody", "forbid (principal, action, resource);").unwrap();
    assert_eq!(admin.client.policies().unwrap_err().status(), Some(403));
    let owner = &host.owner().client;
    assert_eq!(owner.status().unwrap_err().status(), Some(403), "it is in force");
    assert!(owner.policies().unwrap().items.iter().any(|policy| policy.id == "nobody"));
    owner.disable_user(&admin.id).unwrap();
    owner.remove_policy("nobody").unwrap();
    owner.status().unwrap();

    let deep = format!(
        "forbid (principal, action, resource) when {{ {}true{} }};",
        "(".repeat(999),
        ")".repeat(999)
    );
    assert_eq!(owner.add_policy("deep", &deep).unwrap_err().status(), Some(422));
    let head = host.ledger_head();
    let question = api::TryPolicyRequest {
        user: host.owner().id.clone(),
        action: "status.read".into(),
        resource: "installation".into(),
        role: None,
        with: Some(api::AddPolicyRequest { id: "deep".into(), text: deep }),
    };
    assert_eq!(owner.try_policy(&question).unwrap_err().status(), Some(422), "and the daemon lives");
    owner.status().unwrap();
    assert_eq!(host.ledger_head(), head, "a question leaves nothing");
}

#[test]
fn acc_04_the_name_of_a_hidden_worktree_is_not_taken() {
    let host = Host::builder().set("limits.requests_per_minute", "0").start();
    let repo = host.repo("demo");
    let hidden = host.owner().worktree(&repo, "plans", "none").id;
    drop(host.owner().worktree(&repo, "open", "view"));
    let bo = host.user("bo", "member");
    let make = |client: &Client, name: &str| {
        let body = CreateWorktreeRequest {
            repo: repo.clone(),
            name: name.to_owned(),
            about: String::new(),
            tier: None,
            branch: None,
            base: None,
        };
        client.create_worktree(&body)
    };
    let own = make(&bo.client, "plans").unwrap();
    assert_ne!(own.id, hidden);
    assert_eq!(make(&bo.client, "plans").unwrap_err().status(), Some(409), "the own one is known");
    assert_eq!(make(&bo.client, "open").unwrap_err().status(), Some(409), "and so is what one may see");
    assert_eq!(make(&host.owner().client, "plans").unwrap_err().status(), Some(409), "the owner sees both");

    // Of many who want one name, one gets it.
    let tries: Vec<_> = (0..tests::scale(50, 8))
        .map(|n| {
            let client = if n % 2 == 0 { bo.client.clone() } else { host.owner().client.clone() };
            let body = CreateWorktreeRequest {
                repo: repo.clone(),
                name: "race".into(),
                about: String::new(),
                tier: None,
                branch: None,
                base: None,
            };
            std::thread::spawn(move || client.create_worktree(&body).is_ok())
        })
        .collect();
    assert_eq!(tries.into_iter().map(|one| one.join().unwrap()).filter(|won| *won).count(), 1);
}

/// A repetition is answered only to the very credential that asked first, and not after a right was lost.
#[test]
fn gtw_14_a_repetition_is_for_the_same_credential_and_the_same_rights() {
    let host = Host::start();
    let repo = host.repo("demo");
    let (ana, bo) = (host.user("ana", "member"), host.user("bo", "member"));
    let headers = [("content-type", "application/json"), ("Idempotency-Key", "one")];
    let key = br#"{"label":"k","scope":"runs:read"}"#.to_vec();
    let status = |client: &Client, path: &str, body: &[u8], method: &str| {
        let answer = client.send(method, path, &headers, body.to_vec()).unwrap();
        (answer.status().as_u16(), answer.headers().contains_key("idempotent-replay"))
    };
    assert_eq!(status(&ana.client, "/api/v1/keys", &key, "POST"), (201, false));
    assert_eq!(status(&ana.client, "/api/v1/keys", &key, "POST"), (201, true));
    let elsewhere = ana.login(&host);
    assert_eq!(
        status(&elsewhere.client, "/api/v1/keys", &key, "POST"),
        (201, false),
        "another login, another key"
    );

    let made = ana.worktree(&repo, "shared", "all").id;
    let path = format!("/api/v1/worktrees/{made}");
    let about = br#"{"about":"x"}"#;
    assert_eq!(status(&bo.client, &path, about, "PATCH"), (200, false));
    assert_eq!(status(&bo.client, &path, about, "PATCH"), (200, true));
    ana.client.set_tier(&made, "none").unwrap();
    assert_eq!(status(&bo.client, &path, about, "PATCH").0, 404, "the right is gone, and so is the answer");

    // A Pass that its holder narrowed is another credential.
    let grant = serde_json::json!({"label": "p", "grant": {"tools": {"allow": ["api.*"]}, "depth": 2}});
    let grant = serde_json::from_value(grant).unwrap();
    let pass = ana.client.mint_pass(&grant).unwrap().token.into_text();
    let narrowed = access::pass::PassToken::parse(&pass)
        .unwrap()
        .attenuate(&"tool api.worktree.read".parse().unwrap())
        .unwrap()
        .to_text();
    let child = br#"{"label":"child","grant":{"tools":{"allow":["api.*"]}}}"#;
    let wide = host.anonymous().with_token(&pass);
    assert_eq!(status(&wide, "/api/v1/passes", child, "POST"), (201, false));
    let narrow = host.anonymous().with_token(narrowed.expose());
    assert_eq!(status(&narrow, "/api/v1/passes", child, "POST").0, 404, "not what the wider one was told");
}
