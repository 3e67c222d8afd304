//! Every operation of the API as one call of the typed client, with what it needs made before.
//!
//! The table is checked against docs/openapi.json and against the daemon's own counters by
//! `gtw_15_the_client_covers_every_operation`; other files here use it to try everything once.

use std::cell::{Cell, OnceCell};
use std::collections::BTreeMap;

use api::{
    AddSecretRequest, AllowRequest, BootstrapRequest, ChangePasswordRequest, Client, ClientError,
    ConfirmTotpRequest, CreateKeyRequest, CreateRepoRequest, CreateSessionRequest, CreateUserRequest,
    CreateWorktreeRequest, DenyRequest, ForkRequest, Hidden, LedgerFilter, LendSecretRequest, LoginRequest,
    MergeRequest, MintPassRequest, PushRequest, RemoveTotpRequest, RotateRequest, SessionFilter,
    SpawnRequest, TryPolicyRequest, UndoRequest, UpdateUserRequest, WorktreeFilter,
};
use tests::{Host, PASSWORD};

/// What cannot be done without an origin on the network; `tests/net` does it.
pub const NEEDS_NETWORK: &[&str] = &["worktrees_push"];

/// What every secret of the vault is here.
pub const KEPT: &str = "kept and told to nobody at all";

/// Another good password.
pub const OTHER: &str = "another long password";

/// A daemon on which to try things, and names that nobody used yet.
pub struct Stage<'a> {
    pub host: &'a Host,
    pub repo: String,
    made: Cell<u32>,
    tree: OnceCell<String>,
}

/// Who calls.
#[derive(Clone, Debug)]
pub struct Who {
    pub id: String,
    pub client: Client,
}

impl Stage<'_> {
    /// On a daemon that has an owner.
    pub fn new(host: &Host) -> Stage<'_> {
        Stage { host, repo: host.repo("stage"), made: Cell::new(0), tree: OnceCell::new() }
    }

    /// On a daemon that nobody owns yet.
    pub fn unclaimed(host: &Host) -> Stage<'_> {
        Stage { host, repo: String::new(), made: Cell::new(0), tree: OnceCell::new() }
    }

    pub fn fresh(&self) -> String {
        self.made.set(self.made.get() + 1);
        format!("n-{}", self.made.get())
    }

    pub fn owner(&self) -> &Client {
        &self.host.owner().client
    }

    /// Someone new who may do everything, signed in.
    pub fn person(&self) -> Who {
        self.of_role("owner")
    }

    /// Someone new with this role, signed in.
    pub fn of_role(&self, role: &str) -> Who {
        let made = self.host.user(&self.fresh(), role);
        Who { id: made.id, client: made.client }
    }

    /// Someone new who never signs in.
    pub fn someone(&self) -> String {
        // A hash is kept as it is, which is quicker than making one.
        let body = CreateUserRequest { password: None, bcrypt: Some(hash()), ..self.new_user() };
        self.owner().create_user(&body).unwrap().id
    }

    pub fn new_user(&self) -> CreateUserRequest {
        let name = self.fresh();
        CreateUserRequest {
            email: format!("{name}@example.org"),
            name,
            role: "member".into(),
            password: Some(Hidden(PASSWORD.into())),
            bcrypt: None,
        }
    }

    pub fn new_repo(&self) -> CreateRepoRequest {
        CreateRepoRequest {
            name: self.fresh(),
            origin: "https://forge.example/a/b".into(),
            ..Default::default()
        }
    }

    pub fn new_worktree(&self) -> CreateWorktreeRequest {
        CreateWorktreeRequest {
            repo: self.repo.clone(),
            name: self.fresh(),
            about: String::new(),
            tier: Some("view".into()),
            branch: None,
            base: None,
        }
    }

    /// An env, by name.
    pub fn env(&self) -> String {
        self.owner().register_env(&new_env(&self.fresh())).unwrap().name
    }

    /// A subagent, by name.
    pub fn subagent(&self) -> String {
        self.owner().register_subagent(&new_subagent(&self.fresh())).unwrap().name
    }

    /// A capability with one file, by name.
    pub fn capability(&self) -> String {
        let (body, files) = new_capability(&self.fresh());
        self.owner().register_capability(&body, &files).unwrap().name
    }

    /// A repository of this machine, not fetched yet.
    pub fn local_repo(&self) -> String {
        self.host.local_repo(&self.fresh())
    }

    /// A worktree with a tree.
    pub fn tree(&self) -> String {
        let repo = self.local_repo();
        self.owner().fetch_repo(&repo).unwrap();
        self.owner().create_worktree(&CreateWorktreeRequest { repo, ..self.new_worktree() }).unwrap().id
    }

    /// A session of this caller's, with the agent that does what its prompt says; of the owner's, if the caller may have none.
    pub fn session(&self, who: &Who) -> String {
        self.session_by(who).1
    }

    /// The same, and whoever opened it.
    pub fn session_by(&self, who: &Who) -> (Client, String) {
        let worktree = self.tree.get_or_init(|| {
            let tree = self.tree();
            self.owner().set_tier(&tree, "session").unwrap();
            tree
        });
        self.session_in(who, worktree)
    }

    fn session_in(&self, who: &Who, worktree: &str) -> (Client, String) {
        let new = new_session(worktree);
        match who.client.create_session(&new) {
            Ok(made) => (who.client.clone(), made.id),
            Err(_) => (self.owner().clone(), self.owner().create_session(&new).unwrap().id),
        }
    }

    /// A session with a task that does not end by itself.
    pub fn at_work(&self, who: &Who) -> (String, String) {
        let (by, session) = self.session_by(who);
        let task = by.prompt_session(&session, "stall here").unwrap().id;
        (session, task)
    }

    /// A session with a task that ran and changed something, in a worktree where nobody else is at work.
    pub fn ran(&self, who: &Who) -> String {
        let tree = self.tree();
        self.owner().set_tier(&tree, "session").unwrap();
        let (by, session) = self.session_in(who, &tree);
        by.prompt_session(&session, "write ran.txt words").unwrap();
        for _ in 0..6_000 {
            let task = by.tasks(&session, 0).unwrap().items.pop().unwrap();
            if task.state == "done" {
                return session;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("it did not end: {:?}", by.steps(&session, 0));
    }

    /// A session where somebody consented to more than one effect.
    pub fn consented(&self, who: &Who) -> (String, String) {
        let (session, asked) = self.asked(who);
        self.owner().allow_approval(&session, &asked.id, &allow(&asked, Some("session"))).unwrap();
        let consent = self.owner().consents(&session).unwrap().items.pop().unwrap().id;
        (session, consent)
    }

    /// What waits for a person in a session.
    pub fn asked(&self, who: &Who) -> (String, api::Approval) {
        let (by, session) = self.session_by(who);
        by.prompt_session(&session, "ask note").unwrap();
        let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while std::time::Instant::now() < until {
            if let Some(one) = by.approvals(&session, false).unwrap().items.pop() {
                return (session, one);
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        panic!("nothing was asked: {:?}", by.steps(&session, 0));
    }

    /// An approval that there could be.
    pub fn no_approval(&self) -> String {
        model::ApprovalId::random().to_string()
    }

    pub fn worktree(&self) -> String {
        self.owner().create_worktree(&self.new_worktree()).unwrap().id
    }

    pub fn archived_worktree(&self) -> String {
        self.owner().archive_worktree(&self.worktree()).unwrap().id
    }

    /// A worktree with a second owner.
    pub fn shared_worktree(&self) -> (String, String) {
        let (worktree, user) = (self.worktree(), self.someone());
        self.owner().add_owner(&worktree, &user).unwrap();
        (worktree, user)
    }

    pub fn spare_repo(&self) -> String {
        self.owner().create_repo(&self.new_repo()).unwrap().id
    }

    pub fn key(&self) -> String {
        self.owner().create_key(&new_key()).unwrap().key.id
    }

    pub fn pass(&self) -> String {
        self.owner().mint_pass(&new_pass()).unwrap().pass.id
    }

    /// A secret that nobody has yet.
    pub fn new_secret(&self) -> AddSecretRequest {
        AddSecretRequest {
            name: self.fresh().to_uppercase().replace('-', "_"),
            value: Hidden(KEPT.into()),
            owner: None,
            hosts: vec!["api.example.org".into()],
            expires: None,
            replace: false,
        }
    }

    /// The name of a secret of the installation.
    pub fn secret(&self) -> String {
        let body = AddSecretRequest { owner: Some("daemon".into()), ..self.new_secret() };
        self.owner().add_secret(&body).unwrap().name
    }

    /// A secret of the installation, for a run that listens.
    pub fn loan(&self) -> LendSecretRequest {
        listening(&self.secret())
    }

    /// A policy in force that touches nobody.
    pub fn policy(&self) -> String {
        let id = self.fresh();
        self.owner().add_policy(&id, NOBODY).unwrap();
        id
    }

    pub fn setup(&self) -> BootstrapRequest {
        BootstrapRequest {
            secret: Hidden(self.host.secret().unwrap_or_default().to_owned()),
            email: "owner@example.org".into(),
            name: "Owner".into(),
            password: Hidden(PASSWORD.into()),
        }
    }
}

/// A hash of no password that anybody knows, as other programs make them.
pub fn hash() -> Hidden {
    Hidden(format!("$2b$12${}", "a".repeat(53)))
}

/// A policy that forbids something to nobody who exists.
pub const NOBODY: &str =
    r#"forbid (principal == User::"nobody", action == Action::"status.read", resource);"#;

/// What allows an effect.
pub fn allow(one: &api::Approval, scope: Option<&str>) -> AllowRequest {
    let once = AllowRequest::once(one.effect.clone(), "yes".into());
    AllowRequest { scope: scope.map(str::to_owned), ..once }
}

/// A budget that nobody will spend.
pub fn budget(session: &str) -> api::SetBudgetRequest {
    api::SetBudgetRequest {
        scope: "session".into(),
        owner: session.into(),
        kind: "calls".into(),
        seconds: 60,
        most: Some(1_000_000),
    }
}

/// What opens a session for another.
pub fn spawn(prompt: &str) -> SpawnRequest {
    SpawnRequest {
        prompt: Hidden(prompt.to_owned()),
        agent: None,
        title: None,
        mode: None,
        model: None,
        command: Vec::new(),
        report: true,
    }
}

pub fn new_session(worktree: &str) -> CreateSessionRequest {
    CreateSessionRequest {
        worktree: worktree.to_owned(),
        agent: "fake".into(),
        title: None,
        mode: None,
        model: None,
        command: Vec::new(),
    }
}

pub fn new_import(worktree: &str) -> api::ImportRequest {
    let line = r#"{"type":"user","message":{"content":"hello"}}"#;
    api::ImportRequest {
        worktree: worktree.to_owned(),
        session: None,
        title: None,
        after: 0,
        lines: vec![api::Hidden(line.to_owned())],
        lost: Vec::new(),
        last: true,
    }
}

/// An env that nobody registered before.
pub fn new_env(name: &str) -> api::RegisterEnvRequest {
    let document = serde_json::json!({ "about": name, "values": { "LOG_LEVEL": "debug" } });
    api::RegisterEnvRequest {
        name: name.to_owned(),
        document: document.as_object().unwrap().clone(),
        inline: BTreeMap::new(),
        accept_credentials: false,
        dry_run: false,
    }
}

/// A subagent that nobody registered before.
pub fn new_subagent(name: &str) -> api::RegisterSubagentRequest {
    let document = serde_json::json!({ "about": name, "systemPrompt": "Do what is asked.", "agent": "fake" });
    api::RegisterSubagentRequest {
        name: name.to_owned(),
        document: document.as_object().unwrap().clone(),
        accept_credentials: false,
        dry_run: false,
        planned: Vec::new(),
    }
}

/// A capability that nobody registered before, and its files.
pub fn new_capability(name: &str) -> (api::RegisterCapabilityRequest, Vec<Vec<u8>>) {
    let files = vec![format!("the notes of {name}\n").into_bytes()];
    let about = files.iter().map(|file| api::CapabilityFile {
        path: "notes/a.txt".into(),
        bytes: file.len() as u64,
        executable: false,
    });
    let body = api::RegisterCapabilityRequest {
        name: name.to_owned(),
        document: serde_json::Map::new(),
        files: about.collect(),
        accept_credentials: false,
        dry_run: false,
    };
    (body, files)
}

pub fn new_key() -> CreateKeyRequest {
    CreateKeyRequest { label: "k".into(), scope: "runs:read".into(), days: None }
}

pub fn new_pass() -> MintPassRequest {
    let grant = serde_json::json!({
        "paths": {"allow": ["rw:/work"]}, "hosts": {"allow": ["forge.example"]},
        "tools": {"allow": ["api.worktree.read"], "deny": ["api.worktree.delete"]}, "budget": {"tokens": 7}
    });
    MintPassRequest { label: "p".into(), grant: serde_json::from_value(grant).unwrap(), minutes: None }
}

pub fn question(user: &str) -> TryPolicyRequest {
    TryPolicyRequest {
        user: user.to_owned(),
        action: "status.read".into(),
        resource: "installation".into(),
        role: None,
        with: None,
    }
}

pub fn new_password() -> ChangePasswordRequest {
    ChangePasswordRequest { current: Hidden(PASSWORD.into()), new: Hidden(OTHER.into()), totp: None }
}

/// The code of so many steps from now for an `otpauth:` link, by `python3`: not by the code under test.
pub fn code(link: &str, steps: u32) -> String {
    let script = "import sys,hmac,base64,struct,time,urllib.parse as u\n\
        q=u.parse_qs(u.urlparse(sys.argv[1]).query);s=q['secret'][0]\n\
        k=base64.b32decode(s+'='*(-len(s)%8));a=q.get('algorithm',['SHA1'])[0].lower()\n\
        t=int(time.time())//int(q.get('period',['30'])[0])+int(sys.argv[2])\n\
        h=hmac.new(k,struct.pack('>Q',t),a).digest()\n\
        o=h[-1]&15;d=int(q.get('digits',['6'])[0])\n\
        print(str((struct.unpack('>I',h[o:o+4])[0]&0x7fffffff)%10**d).zfill(d))";
    let output = std::process::Command::new("python3")
        .args(["-c", script, link, &steps.to_string()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// What turns one-time passwords on for this caller, and a code for later.
fn totp(who: &Who) -> (ConfirmTotpRequest, String) {
    let offer = who.client.offer_totp().unwrap();
    let body = ConfirmTotpRequest {
        handle: offer.handle,
        code: Hidden(code(&offer.link.0, 0)),
        password: Hidden(PASSWORD.into()),
    };
    (body, code(&offer.link.0, 1))
}

type Run = Box<dyn Fn(&Client) -> Result<(), ClientError>>;

/// One operation and the client's method for it.
pub struct Call {
    /// Its id in the API description.
    pub operation: &'static str,
    /// The client's method.
    pub method: &'static str,
    /// Makes what it needs; what comes back makes the one call.
    pub prepare: fn(&Stage<'_>, &Who) -> Run,
}

macro_rules! calls {
    ($stage:ident, $who:ident; $($operation:literal => $({ $($before:tt)* })? $method:ident ( $($argument:expr),* );)+) => {
        /// Every operation there is.
        pub const CALLS: &[Call] = &[$(Call {
            operation: $operation,
            method: stringify!($method),
            prepare: |$stage, $who| {
                let _ = (&$stage, &$who);
                $($($before)*)?
                Box::new(move |client: &Client| client.$method($($argument),*).map(|_| ()))
            },
        }),+];
    };
}

calls! { s, who;
    "health_healthz" => health();
    "health_livez" => live();
    "health_readyz" => ready();
    "setup_page" => setup_page("pbs_x");
    "setup_submit" => { let body = s.setup(); } fill_setup(&body);
    "auth_bootstrap" => { let body = s.setup(); } bootstrap(&body);
    "auth_login" => {
        let body = LoginRequest { email: "owner@example.org".into(), password: Hidden(PASSWORD.into()), totp: None };
    } login(&body);
    "auth_refresh" => { let token = s.host.owner().login(s.host).tokens.refresh_token.into_text(); } refresh(&token);
    "auth_pair" => { let code = s.owner().offer_pairing(&new_key()).unwrap().code.into_text(); } pair(&code);
    "auth_logout" => logout();
    "auth_logout_everywhere" => logout_everywhere();
    "auth_change_password" => change_password(&new_password());
    "auth_offer_totp" => offer_totp();
    "auth_confirm_totp" => { let (body, _) = totp(who); } confirm_totp(&body);
    "auth_remove_totp" => {
        let (body, later) = totp(who);
        who.client.confirm_totp(&body).unwrap();
        let body = RemoveTotpRequest { password: Hidden(PASSWORD.into()), totp: Hidden(later) };
    } remove_totp(&body);
    "auth_whoami" => whoami();
    "status_status" => status();
    "status_openapi" => openapi();
    "status_metrics" => metrics();
    "events_ticket" => ticket();
    "events_stream" => follow(None);
    "events_socket" => socket(None);
    "users_list" => users(None, None, None);
    "users_create" => { let body = s.new_user(); } create_user(&body);
    "users_read" => { let id = s.someone(); } user(&id);
    "users_update" => {
        let id = s.someone();
        let body = UpdateUserRequest { name: Some("N".into()), ..UpdateUserRequest::default() };
    } update_user(&id, &body);
    "users_delete" => { let id = s.someone(); } delete_user(&id);
    "users_disable" => { let id = s.someone(); } disable_user(&id);
    "users_reset_password" => { let id = s.someone(); } reset_password(&id, OTHER);
    "users_sign_out" => { let id = s.someone(); } sign_out_user(&id);
    "keys_list" => { let id = who.id.clone(); } keys(&id, None);
    "keys_create" => create_key(&new_key());
    "keys_offer_pairing" => offer_pairing(&new_key());
    "keys_revoke" => { let id = s.key(); } revoke_key(&id);
    "passes_list" => { let id = who.id.clone(); } passes(&id, None);
    "passes_mint" => mint_pass(&new_pass());
    "passes_revoke" => { let id = s.pass(); } revoke_pass(&id);
    "repos_list" => repos(None);
    "repos_create" => { let body = s.new_repo(); } create_repo(&body);
    "repos_read" => { let id = s.repo.clone(); } repo(&id);
    "repos_delete" => { let id = s.spare_repo(); } delete_repo(&id);
    "repos_fetch" => { let id = s.local_repo(); } fetch_repo(&id);
    "worktrees_list" => worktrees(&WorktreeFilter::default());
    "worktrees_create" => { let body = s.new_worktree(); } create_worktree(&body);
    "worktrees_read" => { let id = s.worktree(); } worktree(&id);
    "worktrees_update" => { let id = s.worktree(); } update_worktree(&id, "x");
    "worktrees_delete" => { let id = s.worktree(); } delete_worktree(&id);
    "worktrees_set_tier" => { let id = s.worktree(); } set_tier(&id, "all");
    "worktrees_set_sharing" => { let id = s.worktree(); } set_sharing(&id, true);
    "worktrees_add_owner" => { let (id, user) = (s.worktree(), s.someone()); } add_owner(&id, &user);
    "worktrees_remove_owner" => { let (id, user) = s.shared_worktree(); } remove_owner(&id, &user);
    "worktrees_archive" => { let id = s.worktree(); } archive_worktree(&id);
    "worktrees_restore" => { let id = s.archived_worktree(); } restore_worktree(&id);
    "worktrees_merge" => { let id = s.tree(); } merge_worktree(&id, &MergeRequest::default());
    "worktrees_push" => { let id = s.worktree(); } push_worktree(&id, &PushRequest::default());
    "worktrees_log" => { let id = s.tree(); } worktree_log(&id, None);
    "worktrees_diff" => { let id = s.tree(); } worktree_diff(&id);
    "worktrees_files" => { let id = s.tree(); } worktree_files(&id, "");
    "sessions_agents" => agents();
    "sessions_check" => checked_agents();
    "sessions_list" => sessions(&SessionFilter::default());
    "sessions_create" => { let body = new_session(&s.tree()); } create_session(&body);
    "sessions_import" => { let body = new_import(&s.tree()); } import_session(&body);
    "sessions_read" => { let id = s.session(who); } session(&id);
    "sessions_tasks" => { let id = s.session(who); } tasks(&id, 0);
    "sessions_prompt" => { let id = s.session(who); } prompt_session(&id, "say something");
    "sessions_stop_task" => { let (id, task) = s.at_work(who); } stop_task(&id, &task);
    "steps_list" => { let id = s.session(who); } steps(&id, 0);
    "steps_stream" => { let id = s.session(who); } follow_session(&id, 0);
    "sessions_stop" => { let id = s.session(who); } stop_session(&id);
    "sessions_resume" => { let id = s.session(who); } resume_session(&id);
    "sessions_close" => { let id = s.session(who); } close_session(&id);
    "budgets_session" => { let id = s.session(who); } session_usage(&id);
    "budgets_usage" => usage(None, None);
    "budgets_list" => budgets();
    "budgets_set" => { let body = budget(&s.session(who)); } set_budget(&body);
    "lineage_fork" => { let id = s.session(who); } fork_session(&id, &ForkRequest::default());
    "lineage_spawn" => { let id = s.session(who); } spawn_session(&id, &spawn("say something"));
    "lineage_read" => { let id = s.session(who); } lineage(&id);
    "lineage_reorder" => { let id = s.session(who); } reorder_tasks(&id, Vec::new());
    "lineage_undo" => { let id = s.ran(who); } undo_task(&id, &UndoRequest::default());
    "approvals_consents" => { let id = s.session(who); } consents(&id);
    "approvals_revoke" => { let (id, consent) = s.consented(who); } revoke_consent(&id, &consent);
    "approvals_open" => open_approvals();
    "approvals_list" => { let id = s.session(who); } approvals(&id, false);
    "approvals_allow" => {
        let (id, asked) = s.asked(who);
        let body = allow(&asked, None);
    } allow_approval(&id, &asked.id, &body);
    "approvals_deny" => {
        let (id, asked) = s.asked(who);
        let body = DenyRequest { effect: asked.effect };
    } deny_approval(&id, &asked.id, &body);
    "artifacts_list" => artifacts("env", None);
    "artifacts_read" => { let name = s.env(); } artifact("env", &name);
    "artifacts_history" => { let name = s.env(); } artifact_history("env", &name);
    "artifacts_assign" => { let (name, to) = (s.env(), s.env()); } assign_artifact("env", &name, &to);
    "artifacts_revoke" => { let name = s.env(); } revoke_artifact("env", &name);
    "artifacts_register_capability" => {
        let (body, files) = new_capability(&s.fresh());
    } register_capability(&body, &files);
    "artifacts_file" => { let name = s.capability(); } capability_file(&name, "notes/a.txt");
    "artifacts_register_subagent" => { let body = new_subagent(&s.fresh()); } register_subagent(&body);
    "artifacts_register_env" => { let body = new_env(&s.fresh()); } register_env(&body);
    "policies_list" => policies();
    "policies_add" => { let id = s.fresh(); } add_policy(&id, NOBODY);
    "policies_remove" => { let id = s.policy(); } remove_policy(&id);
    "policies_try_policy" => { let body = question(&who.id); } try_policy(&body);
    "secrets_list" => secrets(None, None);
    "secrets_add" => { let body = s.new_secret(); } add_secret(&body);
    "secrets_remove" => { let name = s.secret(); } remove_secret("daemon", &name);
    "secrets_lend" => { let body = s.loan(); } lend_secret(&body);
    "secrets_rotate" => rotate_keys(&RotateRequest { resume: true, new_key_file: None });
    "ledger_search" => ledger(&LedgerFilter::default());
    "ledger_export" => export_ledger();
    "ledger_trust" => ledger_trust();
    "ledger_verify" => verify_ledger();
    "backup_create" => backup();
}

/// Asks for a secret, for a run that listens until the test is over.
pub fn listening(name: &str) -> LendSecretRequest {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};
    static LINES: std::sync::Mutex<Vec<UnixListener>> = std::sync::Mutex::new(Vec::new());
    let line = model::SecretId::random().to_string().split_once('_').unwrap().1.to_owned();
    let address = SocketAddr::from_abstract_name(format!("{}{line}", api::LINE)).unwrap();
    LINES.lock().unwrap().push(UnixListener::bind_addr(&address).unwrap());
    LendSecretRequest {
        name: name.to_owned(),
        worktree: None,
        hosts: vec!["api.example.org:443".into()],
        run: format!("run_{}", "0".repeat(32)),
        line,
        seconds: Some(60),
    }
}

/// What ends or changes the caller's own login: done by someone new.
pub fn is_final(operation: &str) -> bool {
    [
        "auth_logout",
        "auth_logout_everywhere",
        "auth_change_password",
        "auth_offer_totp",
        "auth_confirm_totp",
        "auth_remove_totp",
    ]
    .contains(&operation)
}

/// An operation as docs/openapi.json describes it.
#[derive(Clone, Debug)]
pub struct Described {
    pub method: String,
    pub path: String,
    /// What the gate is asked.
    pub action: Option<String>,
    /// What kind of answer it gives: a media type, `socket`, or `nothing`.
    pub kind: String,
}

/// Every operation of an API description, by its id.
pub fn described(document: &serde_json::Value) -> BTreeMap<String, Described> {
    let mut all = BTreeMap::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap().iter().filter(|(key, _)| *key != "parameters") {
            let answers = operation["responses"].as_object().unwrap().iter();
            let (status, answer) =
                answers.clone().find(|(status, _)| !status.starts_with(['4', '5'])).unwrap();
            let media = answer["content"].as_object().and_then(|content| content.keys().next().cloned());
            let kind =
                media.unwrap_or_else(|| if status == "101" { "socket".into() } else { "nothing".into() });
            let one = Described {
                method: method.to_uppercase(),
                path: path.clone(),
                action: operation["x-palisade-action"].as_str().map(str::to_owned),
                kind,
            };
            let before = all.insert(operation["operationId"].as_str().unwrap().to_owned(), one);
            assert!(before.is_none(), "{} stands there twice", operation["operationId"]);
        }
    }
    all
}

/// The committed description.
pub fn committed() -> serde_json::Value {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/openapi.json");
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}
