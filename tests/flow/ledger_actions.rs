//! Every decision and every effect is recorded: one allowed and one refused run of each action.

use std::collections::BTreeSet;

use access::{ACTIONS, Class};
use api::{
    AddSecretRequest, ChangePasswordRequest, ConfirmTotpRequest, CreateKeyRequest, CreateRepoRequest,
    CreateUserRequest, CreateWorktreeRequest, Hidden, LedgerFilter, LoginRequest, MintPassRequest,
    RotateRequest, TryPolicyRequest, UpdateUserRequest,
};
use tests::{Host, PASSWORD, Person};

/// Something on which to try everything.
struct Stage {
    host: Host,
    repo: String,
    made: std::cell::Cell<u32>,
    tree: std::cell::OnceCell<String>,
}

type Tried = Result<(), api::ClientError>;

impl Stage {
    fn fresh(&self) -> String {
        self.made.set(self.made.get() + 1);
        format!("n-{}", self.made.get())
    }

    fn someone(&self) -> String {
        let name = self.fresh();
        self.host.owner().client.create_user(&self.new_user(&name)).unwrap().id
    }

    fn new_user(&self, name: &str) -> CreateUserRequest {
        CreateUserRequest {
            email: format!("{name}@example.org"),
            name: name.to_owned(),
            role: "member".into(),
            password: Some(Hidden(PASSWORD.into())),
            bcrypt: None,
        }
    }

    fn new_secret(&self, owner: Option<&str>) -> AddSecretRequest {
        AddSecretRequest {
            name: self.fresh().to_uppercase().replace('-', "_"),
            value: Hidden("a value of no use".into()),
            owner: owner.map(str::to_owned),
            hosts: Vec::new(),
            expires: None,
            replace: false,
        }
    }

    /// An env, by name.
    fn env(&self) -> String {
        let env = crate::calls::new_env(&self.fresh());
        self.host.owner().client.register_env(&env).unwrap().name
    }

    /// A worktree with a tree.
    fn tree(&self) -> String {
        self.tree.get_or_init(|| self.host.tree(self.host.owner(), &self.fresh(), "session").id).clone()
    }

    /// A session of this person's.
    fn session(&self, who: &Person) -> String {
        who.client.create_session(&crate::calls::new_session(&self.tree())).unwrap().id
    }

    /// Waits until this is so.
    fn until<T>(&self, what: impl Fn() -> Option<T>) -> T {
        let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while std::time::Instant::now() < end {
            if let Some(found) = what() {
                return found;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        panic!("it did not come to be");
    }

    /// Has the daemon begin a task for this person; a task that it may not begin waits behind a hold.
    fn started(&self, who: &Person) -> Tried {
        let (session, head) = (self.session(who), self.host.ledger_head());
        who.client.prompt_session(&session, "say something").unwrap();
        let held = self.until(|| {
            let row = who.client.session(&session).unwrap();
            (row.at_work.is_none() && (row.queued == 0 || row.held.is_some())).then_some(row.held)
        });
        match held.as_deref() {
            // What became of it is on the record a moment later.
            None => self.until(|| {
                (decisions(&self.host, head, &who.id, "session.start").len() == 2).then_some(Ok(()))
            }),
            Some("refused") => Err(api::ClientError::Problem(Box::new(api::Problem {
                kind: String::new(),
                title: String::new(),
                status: 403,
                code: api::Code::Forbidden,
                detail: String::new(),
                request_id: String::new(),
                policies: Vec::new(),
            }))),
            Some(other) => panic!("{other}"),
        }
    }

    /// What waits for a person in a session of theirs.
    fn asked(&self, who: &Person) -> (String, api::Approval) {
        let session = self.session(who);
        who.client.prompt_session(&session, "ask note").unwrap();
        let asked = self.until(|| who.client.approvals(&session, false).unwrap().items.pop());
        (session, asked)
    }

    fn worktree(&self) -> String {
        self.host.owner().worktree(&self.repo, &self.fresh(), "session").id
    }

    /// Does one action as `who`. What it needs is made by the owner before.
    fn run(&self, action: &str, who: &Person) -> Tried {
        let client = &who.client;
        let own_key = || {
            let body = CreateKeyRequest { label: "k".into(), scope: "runs:read".into(), days: None };
            self.host.owner().client.create_key(&body).unwrap().key.id
        };
        let pass = MintPassRequest { label: "p".into(), grant: model::Grant::nothing(), minutes: None };
        match action {
            "status.read" => client.status().map(drop),
            "metrics.read" => client.metrics().map(drop),
            "event.follow" => client.ticket().map(drop),
            "signin.end" => client.logout(),
            "signin.end_all" => client.sign_out_user(&self.someone()),
            "password.change" => client.change_password(&ChangePasswordRequest {
                current: Hidden(PASSWORD.into()),
                new: Hidden(PASSWORD.into()),
                totp: None,
            }),
            "totp.change" => {
                let offer = client.offer_totp()?;
                let code = code(&offer.link.0);
                client.confirm_totp(&ConfirmTotpRequest {
                    handle: offer.handle,
                    code: Hidden(code),
                    password: Hidden(PASSWORD.into()),
                })
            }
            "user.list" => client.users(None, None, None).map(drop),
            "user.read" => client.user(&self.someone()).map(drop),
            "user.create" => client.create_user(&self.new_user(&self.fresh())).map(drop),
            "user.update" => client
                .update_user(
                    &self.someone(),
                    &UpdateUserRequest { name: Some("N".into()), ..UpdateUserRequest::default() },
                )
                .map(drop),
            "user.disable" => client.disable_user(&self.someone()),
            "user.delete" => client.delete_user(&self.someone()),
            "user.reset" => client.reset_password(&self.someone(), "another long password"),
            "key.list" => client.keys(&who.id, None).map(drop),
            "key.create" => client
                .create_key(&CreateKeyRequest { label: "k".into(), scope: "runs:read".into(), days: None })
                .map(drop),
            "pairing.offer" => client
                .offer_pairing(&CreateKeyRequest { label: "k".into(), scope: "runs:read".into(), days: None })
                .map(drop),
            "key.revoke" => client.revoke_key(&own_key()),
            "pass.list" => client.passes(&who.id, None).map(drop),
            "pass.mint" => client.mint_pass(&pass).map(drop),
            "pass.revoke" => {
                client.revoke_pass(&self.host.owner().client.mint_pass(&pass).unwrap().pass.id).map(drop)
            }
            "repo.list" => client.repos(None).map(drop),
            "repo.read" => client.repo(&self.repo).map(drop),
            "repo.create" => client
                .create_repo(&CreateRepoRequest {
                    name: self.fresh(),
                    origin: "https://forge.example/a/b".into(),
                    ..Default::default()
                })
                .map(drop),
            "repo.fetch" => client.fetch_repo(&self.host.local_repo(&self.fresh())).map(drop),
            "repo.delete" => client.delete_repo(&self.host.repo(&self.fresh())),
            "worktree.list" => client.worktrees(&api::WorktreeFilter::default()).map(drop),
            "worktree.read" => client.worktree(&self.worktree()).map(drop),
            "worktree.create" => {
                let body = CreateWorktreeRequest {
                    repo: self.repo.clone(),
                    name: self.fresh(),
                    about: String::new(),
                    tier: None,
                    branch: None,
                    base: None,
                };
                client.create_worktree(&body).map(drop)
            }
            "worktree.update" => client.update_worktree(&self.worktree(), "x").map(drop),
            "worktree.set_tier" => client.set_tier(&self.worktree(), "all").map(drop),
            "worktree.set_sharing" => client.set_sharing(&self.worktree(), true).map(drop),
            "worktree.set_owners" => client.add_owner(&self.worktree(), &self.someone()).map(drop),
            "worktree.archive" => client.archive_worktree(&self.worktree()).map(drop),
            "worktree.delete" => client.delete_worktree(&self.worktree()),
            "worktree.restore" => {
                let id = self.worktree();
                self.host.owner().client.archive_worktree(&id).unwrap();
                client.restore_worktree(&id).map(drop)
            }
            "worktree.merge" => client.merge_worktree(&self.tree(), &api::MergeRequest::default()).map(drop),
            "worktree.push" => client.push_worktree(&self.tree(), &api::PushRequest::default()).map(drop),
            "agent.check" => client.checked_agents().map(drop),
            "session.list" => client.sessions(&api::SessionFilter::default()).map(drop),
            "session.read" => client.session(&self.session(who)).map(drop),
            "session.create" => client.create_session(&crate::calls::new_session(&self.tree())).map(drop),
            "session.import" => client.import_session(&crate::calls::new_import(&self.tree())).map(drop),
            "session.prompt" => client.prompt_session(&self.session(who), "say something").map(drop),
            "session.start" => self.started(who),
            "budget.read" => client.budgets().map(drop),
            "budget.set" => client.set_budget(&crate::calls::budget(&self.session(who))).map(drop),
            "usage.read" => client.usage(None, None).map(drop),
            "consent.revoke" => {
                let (session, asked) = self.asked(who);
                let body = crate::calls::allow(&asked, Some("session"));
                self.host.owner().client.allow_approval(&session, &asked.id, &body).unwrap();
                let consent = who.client.consents(&session).unwrap().items.pop().unwrap().id;
                client.revoke_consent(&session, &consent).map(drop)
            }
            "session.fork" => client.fork_session(&self.session(who), &api::ForkRequest::default()).map(drop),
            "session.spawn" => {
                client.spawn_session(&self.session(who), &crate::calls::spawn("say something")).map(drop)
            }
            "session.reorder" => client.reorder_tasks(&self.session(who), Vec::new()).map(drop),
            "session.undo" => {
                let session = self.session(who);
                let task = who.client.prompt_session(&session, "write undo.txt words").unwrap();
                self.until(|| {
                    let all = who.client.tasks(&session, 0).unwrap().items;
                    all.into_iter().find(|one| one.id == task.id && one.ended_at.is_some())
                });
                client.undo_task(&session, &api::UndoRequest::default()).map(drop)
            }
            "session.resume" => client.resume_session(&self.session(who)).map(drop),
            "session.stop" => client.stop_session(&self.session(who)).map(drop),
            "session.close" => client.close_session(&self.session(who)).map(drop),
            "approval.allow" => {
                let (session, asked) = self.asked(who);
                let body = crate::calls::allow(&asked, None);
                client.allow_approval(&session, &asked.id, &body).map(drop)
            }
            "approval.deny" => {
                let (session, asked) = self.asked(who);
                client
                    .deny_approval(&session, &asked.id, &api::DenyRequest { effect: asked.effect })
                    .map(drop)
            }
            "artifact.list" => client.artifacts("env", None).map(drop),
            "artifact.read" => client.artifact("env", &self.env()).map(drop),
            "artifact.fetch" => {
                let (body, files) = crate::calls::new_capability(&self.fresh());
                self.host.owner().client.register_capability(&body, &files).unwrap();
                client.capability_file(&body.name, "notes/a.txt").map(drop)
            }
            "artifact.register" => client.register_env(&crate::calls::new_env(&self.fresh())).map(drop),
            "artifact.assign" => client.assign_artifact("env", &self.env(), &self.env()).map(drop),
            "artifact.revoke" => client.revoke_artifact("env", &self.env()).map(drop),
            "policy.read" => client.policies().map(drop),
            "policy.try" => client
                .try_policy(&TryPolicyRequest {
                    user: who.id.clone(),
                    action: "status.read".into(),
                    resource: "installation".into(),
                    role: None,
                    with: None,
                })
                .map(drop),
            "policy.add" => client.add_policy(&self.fresh(), &forbid(&self.someone(), "status.read")),
            "policy.remove" => {
                let id = self.fresh();
                self.host.owner().client.add_policy(&id, &forbid(&self.someone(), "status.read")).unwrap();
                client.remove_policy(&id)
            }
            "secret.list" => client.secrets(None, None).map(drop),
            "secret.add" => client.add_secret(&self.new_secret(None)).map(drop),
            "secret.remove" => {
                let kept = self.host.owner().client.add_secret(&self.new_secret(Some("daemon"))).unwrap();
                client.remove_secret("daemon", &kept.name)
            }
            "secret.lease" => {
                let kept = self.host.owner().client.add_secret(&self.new_secret(Some("daemon"))).unwrap();
                client.lend_secret(&crate::calls::listening(&kept.name)).map(drop)
            }
            "secret.rotate" => client.rotate_keys(&RotateRequest::default()).map(drop),
            "ledger.read" | "ledger.read_all" => client.ledger(&LedgerFilter::default()).map(drop),
            "ledger.verify" => client.verify_ledger().map(drop),
            "backup.create" => {
                client.backup().map(|mut all| drop(std::io::copy(&mut all, &mut std::io::sink())))
            }
            other => panic!("`{other}` has no run here; add one"),
        }
    }
}

fn forbid(user: &str, action: &str) -> String {
    format!("forbid (principal == User::\"{user}\", action == Action::\"{action}\", resource);")
}

/// The code of this moment for an `otpauth:` link, by `python3`: not by the code under test.
fn code(link: &str) -> String {
    let script = "import sys,hmac,base64,struct,time,urllib.parse as u\n\
        q=u.parse_qs(u.urlparse(sys.argv[1]).query);s=q['secret'][0]\n\
        k=base64.b32decode(s+'='*(-len(s)%8));a=q.get('algorithm',['SHA1'])[0].lower()\n\
        h=hmac.new(k,struct.pack('>Q',int(time.time())//int(q.get('period',['30'])[0])),a).digest()\n\
        o=h[-1]&15;d=int(q.get('digits',['6'])[0])\n\
        print(str((struct.unpack('>I',h[o:o+4])[0]&0x7fffffff)%10**d).zfill(d))";
    let output = std::process::Command::new("python3").args(["-c", script, link]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Entries of one principal about one action after `head`: decisions, in order.
fn decisions(host: &Host, head: u64, who: &str, action: &str) -> Vec<String> {
    let entries = host.since(head).into_iter();
    entries.filter(|entry| entry.who == who && entry.action == action).map(|entry| entry.decision).collect()
}

/// LED-01: an allowed run leaves its opening and its end (a read leaves nothing), a refused one exactly one entry.
#[test]
fn led_01_each_action_allowed_and_refused_leaves_the_declared_entries() {
    let host = Host::builder().set("limits.requests_per_minute", "0").start();
    let repo = host.repo("demo");
    let stage = Stage { host, repo, made: std::cell::Cell::new(0), tree: std::cell::OnceCell::new() };
    let mut covered = BTreeSet::new();
    let (one, other) = (stage.host.user("ana", "owner"), stage.host.user("vic", "owner"));
    for action in ACTIONS {
        // What ends or changes a login is done by someone new; `ledger.read` is for those who may not read all.
        let again = ["signin.end", "password.change", "totp.change"].contains(&action.name);
        let fresh = |role: &str| stage.host.user(&stage.fresh(), role);
        let ana = match action.name {
            "ledger.read" => fresh("member"),
            _ if again => fresh("owner"),
            _ => one.clone(),
        };
        // What added policies cannot take from owners is refused to an administrator.
        let owners = [
            "policy.read",
            "policy.try",
            "policy.remove",
            "user.list",
            "user.read",
            "user.update",
            "user.disable",
        ];
        let vic = match action.name {
            name if owners.contains(&name) => fresh("admin"),
            name if again || name == "ledger.read" => fresh("owner"),
            // What was forbidden before still is: whoever has a session must be able to open one.
            name if name.starts_with("session.") || name.starts_with("approval.") => fresh("owner"),
            _ => other.clone(),
        };
        let head = stage.host.ledger_head();
        let told = stage.run(action.name, &ana);
        // There is no origin on the network here; `tests/net` pushes.
        let fails = action.name == "worktree.push";
        match (fails, told) {
            (true, told) => assert_eq!(told.unwrap_err().status(), Some(409)),
            (false, told) => told.unwrap_or_else(|error| panic!("{}: {error}", action.name)),
        }
        let expected: &[&str] = match action.class {
            Class::Widens if fails => &["allowed", "failed"],
            Class::Read => &[],
            Class::Widens | Class::Narrows => &["allowed", "done"],
        };
        assert_eq!(decisions(&stage.host, head, &ana.id, action.name), expected, "{}", action.name);

        stage.host.owner().client.add_policy(&stage.fresh(), &forbid(&vic.id, action.name)).unwrap();
        if action.name == "ledger.read" {
            // Whoever may read all does not need it; take that away too.
            stage
                .host
                .owner()
                .client
                .add_policy(&stage.fresh(), &forbid(&vic.id, "ledger.read_all"))
                .unwrap();
        }
        let head = stage.host.ledger_head();
        let refused = stage.run(action.name, &vic);
        if action.name == "signin.end" {
            refused.unwrap(); // nobody can be kept from signing out
            assert_eq!(decisions(&stage.host, head, &vic.id, action.name), ["allowed", "done"]);
            covered.insert(action.name);
            continue;
        }
        if action.name == "ledger.read_all" {
            refused.unwrap(); // falls back to the own entries, which is no refusal
            assert_eq!(vic.client.export_ledger().map(drop).unwrap_err().status(), Some(403));
        } else {
            let status = refused.map(|()| 0).unwrap_or_else(|error| error.status().unwrap());
            assert!(status == 403 || status == 404, "{}: {status}", action.name);
        }
        assert_eq!(decisions(&stage.host, head, &vic.id, action.name), ["refused"], "{}", action.name);
        covered.insert(action.name);
    }
    assert_eq!(covered.len(), ACTIONS.len());
    let entries =
        stage.host.ledger(&LedgerFilter { decision: Some("refused".into()), ..LedgerFilter::default() });
    for entry in entries {
        let line: serde_json::Value = serde_json::from_str(&entry.line).unwrap();
        for field in ["seq", "at", "who", "action", "resource", "decision", "cause"] {
            assert!(!line[field].is_null(), "{field}: {line}");
        }
        assert_ne!(line["cause"], "", "{line}");
    }
    assert_eq!(stage.host.owner().client.verify_ledger().unwrap().verdict, "intact");
}

/// LED-01: failed sign-ins are counted, one entry per address and minute; a good one is recorded as it is.
#[test]
fn led_01_failed_sign_ins_are_counted() {
    let host = Host::start();
    let head = host.ledger_head();
    let try_it = |password: &str| {
        let body =
            LoginRequest { email: "owner@example.org".into(), password: Hidden(password.into()), totp: None };
        host.anonymous().login(&body).map(drop)
    };
    for _ in 0..4 {
        assert_eq!(try_it("wrong wrong wrong").unwrap_err().status(), Some(401));
    }
    try_it(PASSWORD).unwrap();
    let entries = host.since(head);
    let of = |action: &str| entries.iter().filter(|entry| entry.action == action).collect::<Vec<_>>();
    assert!(
        (1..=2).contains(&of("signin.refused").len()),
        "one per address and minute (two across a minute's end)"
    );
    assert_eq!(of("signin.refused")[0].resource, "127.0.0.1");
    assert_eq!(of("signin.refused")[0].who, "nobody");
    assert!(entries.iter().all(|entry| !entry.line.contains("wrong wrong")));
    let login: Vec<_> = of("signin.login").iter().map(|entry| entry.decision.as_str()).collect();
    assert_eq!(login, ["allowed", "done"]);
}
