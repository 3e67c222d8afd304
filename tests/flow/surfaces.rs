//! One gate behind every surface: whatever way a refused act comes, it gets the same code and leaves exactly
//! one refusal. What nobody knows is tried in `surfaces_unknown`.
//!
//! The surfaces that there are: HTTP by hand, the typed client, the command line, server-sent events, the
//! WebSocket. They are not listed by hope: a new kind of answer in docs/openapi.json or a new command in
//! docs/commands.md fails here until it has its line.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::Output;

use api::LedgerFilter;
use serde_json::{Value, json};
use tests::{Host, PASSWORD};

use crate::calls::{
    CALLS, Described, KEPT, NOBODY, OTHER, Stage, Who, code, committed, described, is_final, new_import,
    new_pass,
};
use crate::gateway_wire::{Reply, request, speak};

/// Every kind of answer that the API gives, and the surface that it makes.
const KINDS: &[(&str, &str)] = &[
    ("application/json", "request and answer"),
    ("nothing", "request and answer"),
    ("text/plain", "request and answer"),
    ("text/html", "request and answer"),
    ("application/octet-stream", "request and answer"),
    ("application/x-ndjson", "request and answer"),
    ("text/event-stream", "server-sent events"),
    ("socket", "WebSocket"),
];

/// What a command of the program does.
enum Line {
    /// Calls this operation, after what it may read: the words to type, and what comes in on standard input.
    Calls(&'static str, fn(&Stage<'_>, &Who) -> Typed),
    /// Asks nobody's permission, for this reason.
    AsksNobody(&'static str),
}

pub(crate) struct Typed {
    pub(crate) words: Vec<String>,
    input: String,
}

pub(crate) fn words<const N: usize>(words: [&str; N]) -> Typed {
    Typed { words: words.map(str::to_owned).to_vec(), input: String::new() }
}

impl Typed {
    fn and_input(self, input: &str) -> Self {
        Self { input: input.to_owned(), ..self }
    }
}

/// A file with this text beside the configuration.
fn file(stage: &Stage<'_>, text: &str) -> String {
    let path = stage.host.place().join(stage.fresh());
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn new_path(stage: &Stage<'_>) -> String {
    stage.host.place().join(stage.fresh()).to_str().unwrap().to_owned()
}

use Line::{AsksNobody, Calls};

const OFFLINE: &str = "works on files while no daemon does";
const OWN: &str = "confines the caller's own process, on their own record, without a daemon";
const SHIPPED: &str = "prints what is shipped with the program";

/// Every command there is; one that has variants has a line for each.
const COMMANDS: &[(&str, Line)] = &[
    ("run", AsksNobody(OWN)),
    ("doctor", AsksNobody(OWN)),
    ("setup apparmor", AsksNobody("changes the machine as root, on root's own record, without a daemon")),
    ("shell", AsksNobody(OWN)),
    ("ps", AsksNobody(OWN)),
    ("stop", AsksNobody(OWN)),
    ("freeze", AsksNobody(OWN)),
    ("offline", AsksNobody(OWN)),
    ("rules", AsksNobody(OWN)),
    ("thaw", AsksNobody(OWN)),
    ("receipt show", AsksNobody(OWN)),
    ("receipt verify", AsksNobody(OWN)),
    ("receipt key", AsksNobody(OWN)),
    ("profile list", AsksNobody(OWN)),
    ("profile show", AsksNobody(OWN)),
    ("profile keys", AsksNobody(OWN)),
    ("profile check", AsksNobody(OWN)),
    ("profile remembered", AsksNobody(OWN)),
    ("profile forget", AsksNobody(OWN)),
    ("profile consent", AsksNobody(OWN)),
    ("diff", AsksNobody(OWN)),
    ("apply", AsksNobody(OWN)),
    ("discard", AsksNobody(OWN)),
    ("runs", AsksNobody(OWN)),
    ("redact", AsksNobody("reads what it is given and writes it without secrets")),
    ("plan validate", AsksNobody("reads a document and says what is wrong with it")),
    ("plan show", AsksNobody("reads a document and draws it")),
    ("acp", AsksNobody("speaks with an editor, by calls that have lines of their own; tried in `editor`")),
    ("up", AsksNobody("starts the daemon")),
    ("init", AsksNobody("makes the first owner, with a one-time secret")),
    ("login", AsksNobody("is how one becomes somebody")),
    ("completions", AsksNobody(SHIPPED)),
    ("man", AsksNobody(SHIPPED)),
    ("config show", AsksNobody(OFFLINE)),
    ("config path", AsksNobody(OFFLINE)),
    ("backup restore", AsksNobody(OFFLINE)),
    ("backup encrypt-store", AsksNobody(OFFLINE)),
    ("backup migrate-store", AsksNobody(OFFLINE)),
    ("policy template list", AsksNobody(SHIPPED)),
    ("policy template show", AsksNobody(SHIPPED)),
    (
        "account password",
        Calls("auth_change_password", |_, _| {
            words(["account", "password", "--password-stdin"]).and_input(&format!("{PASSWORD}\n{OTHER}"))
        }),
    ),
    ("logout", Calls("auth_logout", |_, _| words(["logout"]))),
    ("logout", Calls("auth_logout_everywhere", |_, _| words(["logout", "--everywhere"]))),
    ("whoami", Calls("auth_whoami", |_, _| words(["whoami"]))),
    ("status", Calls("status_status", |_, _| words(["status"]))),
    ("account totp-on", Calls("auth_offer_totp", |_, _| words(["account", "totp-on"]))),
    (
        "account totp-on",
        Calls("auth_confirm_totp", |_, who| {
            let offer = who.client.offer_totp().unwrap();
            let code = code(&offer.link.0, 0);
            words(["account", "totp-on", "--handle", &offer.handle.0, "--code", &code, "--password-stdin"])
                .and_input(PASSWORD)
        }),
    ),
    (
        "account totp-off",
        Calls("auth_remove_totp", |_, _| {
            words(["account", "totp-off", "--code", "123456", "--password-stdin"]).and_input(PASSWORD)
        }),
    ),
    ("user list", Calls("users_list", |_, _| words(["user", "list"]))),
    ("user show", Calls("users_read", |s, _| words(["user", "show", &s.someone()]))),
    (
        "user add",
        Calls("users_create", |s, _| {
            let name = s.fresh();
            let email = format!("{name}@example.org");
            words(["user", "add", "--email", &email, "--name", &name, "--password-stdin"]).and_input(PASSWORD)
        }),
    ),
    ("user update", Calls("users_update", |s, _| words(["user", "update", &s.someone(), "--name", "N"]))),
    ("user enable", Calls("users_update", |s, _| words(["user", "enable", &s.someone()]))),
    ("user disable", Calls("users_disable", |s, _| words(["user", "disable", &s.someone()]))),
    ("user delete", Calls("users_delete", |s, _| words(["user", "delete", &s.someone()]))),
    (
        "user reset-password",
        Calls("users_reset_password", |s, _| {
            words(["user", "reset-password", &s.someone(), "--password-stdin"]).and_input(OTHER)
        }),
    ),
    ("user sign-out", Calls("users_sign_out", |s, _| words(["user", "sign-out", &s.someone()]))),
    ("key list", Calls("keys_list", |_, who| words(["key", "list", "--user", &who.id]))),
    ("key create", Calls("keys_create", |_, _| words(["key", "create", "k"]))),
    ("key pair", Calls("keys_offer_pairing", |_, _| words(["key", "pair", "phone"]))),
    ("key revoke", Calls("keys_revoke", |s, _| words(["key", "revoke", &s.key()]))),
    ("pass list", Calls("passes_list", |_, who| words(["pass", "list", "--user", &who.id]))),
    (
        "pass mint",
        Calls("passes_mint", |s, _| words(["pass", "mint", "p", "--grant", &file(s, "{\"depth\":0}")])),
    ),
    ("pass revoke", Calls("passes_revoke", |s, _| words(["pass", "revoke", &s.pass()]))),
    ("repo list", Calls("repos_list", |_, _| words(["repo", "list"]))),
    (
        "repo add",
        Calls("repos_create", |s, _| {
            words(["repo", "add", "--no-fetch", &s.fresh(), "https://forge.example/a/b"])
        }),
    ),
    ("repo show", Calls("repos_read", |s, _| words(["repo", "show", &s.repo]))),
    ("repo fetch", Calls("repos_fetch", |s, _| words(["repo", "fetch", &s.local_repo()]))),
    ("worktree log", Calls("worktrees_log", |s, _| words(["worktree", "log", &s.tree()]))),
    ("worktree diff", Calls("worktrees_diff", |s, _| words(["worktree", "diff", &s.tree()]))),
    ("worktree files", Calls("worktrees_files", |s, _| words(["worktree", "files", &s.tree()]))),
    ("repo delete", Calls("repos_delete", |s, _| words(["repo", "delete", &s.spare_repo()]))),
    ("worktree list", Calls("worktrees_list", |_, _| words(["worktree", "list"]))),
    ("worktree create", Calls("worktrees_create", |s, _| words(["worktree", "create", &s.repo, &s.fresh()]))),
    ("worktree show", Calls("worktrees_read", |s, _| words(["worktree", "show", &s.worktree()]))),
    ("worktree update", Calls("worktrees_update", |s, _| words(["worktree", "update", &s.worktree(), "x"]))),
    ("worktree tier", Calls("worktrees_set_tier", |s, _| words(["worktree", "tier", &s.worktree(), "all"]))),
    (
        "worktree sharing",
        Calls("worktrees_set_sharing", |s, _| words(["worktree", "sharing", &s.worktree(), "on"])),
    ),
    (
        "worktree add-owner",
        Calls("worktrees_add_owner", |s, _| words(["worktree", "add-owner", &s.worktree(), &s.someone()])),
    ),
    (
        "worktree remove-owner",
        Calls("worktrees_remove_owner", |s, _| {
            let (worktree, user) = s.shared_worktree();
            words(["worktree", "remove-owner", &worktree, &user])
        }),
    ),
    ("worktree archive", Calls("worktrees_archive", |s, _| words(["worktree", "archive", &s.worktree()]))),
    (
        "worktree restore",
        Calls("worktrees_restore", |s, _| words(["worktree", "restore", &s.archived_worktree()])),
    ),
    ("worktree merge", Calls("worktrees_merge", |s, _| words(["worktree", "merge", &s.tree(), "--here"]))),
    ("worktree push", Calls("worktrees_push", |s, _| words(["worktree", "push", &s.tree()]))),
    (
        "worktree link",
        Calls("worktrees_update", |s, _| {
            words(["worktree", "link", &s.worktree(), "--issue", "https://forge.example/1"])
        }),
    ),
    ("worktree delete", Calls("worktrees_delete", |s, _| words(["worktree", "delete", &s.worktree()]))),
    ("agent doctor", Calls("sessions_check", |_, _| words(["agent", "doctor"]))),
    ("agent list", Calls("sessions_agents", |_, _| words(["agent", "list"]))),
    ("session list", Calls("sessions_list", |_, _| words(["session", "list"]))),
    ("session new", Calls("sessions_create", |s, _| words(["session", "new", &s.tree(), "--agent", "fake"]))),
    ("session show", Calls("sessions_read", |s, who| words(["session", "show", &s.session(who)]))),
    ("session show", Calls("sessions_tasks", |s, who| words(["session", "show", &s.session(who)]))),
    (
        "session prompt",
        Calls("sessions_prompt", |s, who| words(["session", "prompt", &s.session(who), "say something"])),
    ),
    (
        "session import",
        Calls("sessions_import", |s, _| {
            let lines = file(s, "{\"type\":\"user\",\"message\":{\"content\":\"hello\"}}\n");
            words(["session", "import", &lines, "--worktree", &s.tree()])
        }),
    ),
    ("session export", Calls("steps_list", |s, who| words(["session", "export", &s.session(who)]))),
    (
        "session attach",
        Calls("steps_stream", |s, who| {
            // One that is closed has an end.
            let (by, session) = s.session_by(who);
            by.close_session(&session).unwrap();
            words(["session", "attach", &session, "--after", "0"])
        }),
    ),
    ("session stop", Calls("sessions_stop", |s, who| words(["session", "stop", &s.session(who)]))),
    (
        "session stop",
        Calls("sessions_stop_task", |s, who| {
            let (session, task) = s.at_work(who);
            words(["session", "stop", &session, "--task", &task])
        }),
    ),
    ("session resume", Calls("sessions_resume", |s, who| words(["session", "resume", &s.session(who)]))),
    ("session close", Calls("sessions_close", |s, who| words(["session", "close", &s.session(who)]))),
    ("session usage", Calls("budgets_session", |s, who| words(["session", "usage", &s.session(who)]))),
    ("budget usage", Calls("budgets_usage", |_, _| words(["budget", "usage"]))),
    ("budget list", Calls("budgets_list", |_, _| words(["budget", "list"]))),
    (
        "budget set",
        Calls("budgets_set", |s, who| {
            words(["budget", "set", "session", &s.session(who), "calls", "1000000"])
        }),
    ),
    (
        "budget remove",
        Calls("budgets_set", |s, who| {
            let session = s.session(who);
            s.owner().set_budget(&crate::calls::budget(&session)).unwrap();
            words(["budget", "remove", "session", &session, "calls", "--per", "minute"])
        }),
    ),
    ("session fork", Calls("lineage_fork", |s, who| words(["session", "fork", &s.session(who)]))),
    (
        "session spawn",
        Calls("lineage_spawn", |s, who| words(["session", "spawn", &s.session(who), "say something"])),
    ),
    ("session lineage", Calls("lineage_read", |s, who| words(["session", "lineage", &s.session(who)]))),
    (
        "session reorder",
        Calls("lineage_reorder", |s, who| {
            let (by, session) = s.session_by(who);
            let first = by.prompt_session(&session, "stall here").unwrap().id;
            let second = by.prompt_session(&session, "say more").unwrap().id;
            let waits = |id: &str| {
                by.tasks(&session, 0).unwrap().items.iter().any(|t| t.id == id && t.state == "queued")
            };
            while waits(&first) {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            words(["session", "reorder", &session, &second])
        }),
    ),
    ("session undo", Calls("lineage_undo", |s, who| words(["session", "undo", &s.ran(who)]))),
    (
        "approval consents",
        Calls("approvals_consents", |s, who| words(["approval", "consents", &s.session(who)])),
    ),
    (
        "approval revoke",
        Calls("approvals_revoke", |s, who| {
            let (session, consent) = s.consented(who);
            words(["approval", "revoke", &session, &consent])
        }),
    ),
    ("approval list", Calls("approvals_list", |s, who| words(["approval", "list", &s.session(who)]))),
    (
        "approval allow",
        Calls("approvals_allow", |s, who| {
            let (session, asked) = s.asked(who);
            words(["approval", "allow", &session, &asked.id])
        }),
    ),
    (
        "approval deny",
        Calls("approvals_deny", |s, who| {
            let (session, asked) = s.asked(who);
            words(["approval", "deny", &session, &asked.id])
        }),
    ),
    (
        "secret add",
        Calls("secrets_add", |s, _| words(["secret", "add", &s.new_secret().name]).and_input(KEPT)),
    ),
    ("secret list", Calls("secrets_list", |_, _| words(["secret", "list"]))),
    (
        "secret remove",
        Calls("secrets_remove", |s, _| words(["secret", "remove", &s.secret(), "--owner", "daemon"])),
    ),
    (
        "secret import",
        Calls("secrets_add", |s, _| {
            let line = format!("{}={KEPT}\n", s.new_secret().name);
            words(["secret", "import", &file(s, &line), "--yes"])
        }),
    ),
    (
        "run",
        Calls("secrets_lend", |s, _| {
            let secret = format!("vault:{}=api.example.org", s.secret());
            words(["run", "--secret", &secret, "--", "true"])
        }),
    ),
    ("secret rotate", Calls("secrets_rotate", |_, _| words(["secret", "rotate"]))),
    (
        "capability register",
        Calls("artifacts_register_capability", |s, _| {
            let folder = new_path(s);
            std::fs::create_dir(&folder).unwrap();
            std::fs::write(format!("{folder}/a.txt"), s.fresh()).unwrap();
            words(["capability", "register", &s.fresh(), &folder])
        }),
    ),
    (
        "capability fetch",
        Calls("artifacts_file", |s, _| {
            words(["capability", "fetch", &s.capability(), "notes/a.txt", "--output", &new_path(s)])
        }),
    ),
    (
        "subagent register",
        Calls("artifacts_register_subagent", |s, _| {
            let document = format!("systemPrompt = \"Do {}.\"\nagent = \"fake\"\n", s.fresh());
            words(["subagent", "register", &s.fresh(), &file(s, &document)])
        }),
    ),
    (
        "env register",
        Calls("artifacts_register_env", |s, _| {
            let document = format!("[values]\nA = \"{}\"\n", s.fresh());
            words(["env", "register", &s.fresh(), &file(s, &document)])
        }),
    ),
    (
        "deploy",
        Calls("artifacts_register_env", |s, _| {
            words(["deploy", &file(s, &format!("[envs.{}]\nabout = \"deployed\"\n", s.fresh()))])
        }),
    ),
    (
        "capability assign",
        Calls("artifacts_assign", |s, _| words(["capability", "assign", &s.capability(), &s.capability()])),
    ),
    ("capability list", Calls("artifacts_list", |_, _| words(["capability", "list"]))),
    ("capability show", Calls("artifacts_read", |s, _| words(["capability", "show", &s.capability()]))),
    ("capability revoke", Calls("artifacts_revoke", |s, _| words(["capability", "revoke", &s.capability()]))),
    (
        "capability history",
        Calls("artifacts_history", |s, _| words(["capability", "history", &s.capability()])),
    ),
    (
        "subagent assign",
        Calls("artifacts_assign", |s, _| words(["subagent", "assign", &s.subagent(), &s.subagent()])),
    ),
    ("subagent list", Calls("artifacts_list", |_, _| words(["subagent", "list"]))),
    ("subagent show", Calls("artifacts_read", |s, _| words(["subagent", "show", &s.subagent()]))),
    ("subagent revoke", Calls("artifacts_revoke", |s, _| words(["subagent", "revoke", &s.subagent()]))),
    ("subagent history", Calls("artifacts_history", |s, _| words(["subagent", "history", &s.subagent()]))),
    ("env assign", Calls("artifacts_assign", |s, _| words(["env", "assign", &s.env(), &s.env()]))),
    ("env list", Calls("artifacts_list", |_, _| words(["env", "list"]))),
    ("env show", Calls("artifacts_read", |s, _| words(["env", "show", &s.env()]))),
    ("env revoke", Calls("artifacts_revoke", |s, _| words(["env", "revoke", &s.env()]))),
    ("env history", Calls("artifacts_history", |s, _| words(["env", "history", &s.env()]))),
    ("policy show", Calls("policies_list", |_, _| words(["policy", "show"]))),
    (
        "policy explain",
        Calls("policies_try_policy", |_, who| {
            words(["policy", "explain", "--user", &who.id, "--action", "status.read"])
        }),
    ),
    (
        "policy test",
        Calls("policies_try_policy", |s, who| {
            words(["policy", "test", &file(s, NOBODY), "--user", &who.id, "--action", "status.read"])
        }),
    ),
    ("policy add", Calls("policies_add", |s, _| words(["policy", "add", &s.fresh(), &file(s, NOBODY)]))),
    (
        "policy template apply",
        Calls("policies_add", |_, _| words(["policy", "template", "apply", "balanced"])),
    ),
    ("policy remove", Calls("policies_remove", |s, _| words(["policy", "remove", &s.policy()]))),
    ("ledger tail", Calls("ledger_search", |_, _| words(["ledger", "tail", "-n", "1"]))),
    ("ledger search", Calls("ledger_search", |_, _| words(["ledger", "search"]))),
    ("ledger verify", Calls("ledger_verify", |_, _| words(["ledger", "verify"]))),
    ("ledger export", Calls("ledger_export", |s, _| words(["ledger", "export", &new_path(s)]))),
    ("ledger export", Calls("ledger_export", |s, _| words(["ledger", "export", "--bundle", &new_path(s)]))),
    ("ledger trust", Calls("ledger_trust", |_, _| words(["ledger", "trust"]))),
    ("backup create", Calls("backup_create", |s, _| words(["backup", "create", &new_path(s)]))),
];

/// The commands that help tells of and that have none below them.
fn commands() -> BTreeSet<String> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/commands.md");
    let text = std::fs::read_to_string(file).unwrap();
    let all: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("## palisade ")).collect();
    let has_more = |one: &str| all.iter().any(|other| other.starts_with(&format!("{one} ")));
    all.iter().filter(|one| !has_more(one)).map(|one| (*one).to_owned()).collect()
}

/// ACC-01: the tables here are whole.
#[test]
fn acc_01_every_surface_there_is_has_its_line() {
    let api = described(&committed());
    for (id, one) in &api {
        assert!(
            KINDS.iter().any(|(kind, _)| *kind == one.kind),
            "{id} answers with {}, a kind that no surface here has tried",
            one.kind
        );
    }
    for (kind, _) in KINDS {
        assert!(api.values().any(|one| one.kind == *kind), "nothing answers with {kind} any more");
    }
    let lines: BTreeSet<String> = COMMANDS.iter().map(|(command, _)| (*command).to_owned()).collect();
    assert_eq!(lines, commands(), "docs/commands.md on the right");
    for (command, line) in COMMANDS {
        match line {
            Calls(operation, _) => {
                assert!(api.contains_key(*operation), "{command} calls {operation}");
            }
            AsksNobody(why) => assert!(!why.is_empty(), "{command}"),
        }
    }
}

/// What a refused act was told.
type Told = (String, String);

/// A request written by hand, from the description and nothing else.
fn by_hand(stage: &Stage<'_>, who: &Who, id: &str, one: &Described) -> Vec<u8> {
    let mut path = one.path.clone();
    let (shared, user) = match id {
        "worktrees_remove_owner" => stage.shared_worktree(),
        "keys_list" | "passes_list" => (String::new(), who.id.clone()),
        _ if path.contains("{worktree}") => (stage.worktree(), stage.someone()),
        _ if path.contains("{user}") => (String::new(), stage.someone()),
        _ => (String::new(), String::new()),
    };
    path = path.replace("{worktree}", &shared).replace("{user}", &user);
    if path.contains("{task}") {
        let (session, task) = stage.at_work(who);
        path = path.replace("{session}", &session).replace("{task}", &task);
    }
    if path.contains("{session}") {
        path = path.replace("{session}", &stage.session(who));
    }
    let made: [(&str, &dyn Fn() -> String); 10] = [
        ("{approval}", &|| stage.no_approval()),
        ("{consent}", &|| format!("con_{}", "0".repeat(32))),
        ("{repo}", &|| stage.spare_repo()),
        ("{key}", &|| stage.key()),
        ("{pass}", &|| stage.pass()),
        ("{policy}", &|| stage.policy()),
        ("{owner}", &|| "daemon".to_owned()),
        ("{name}", &|| stage.secret()),
        ("{kind}", &|| "env".to_owned()),
        ("{artifact}", &|| if id == "artifacts_file" { stage.capability() } else { stage.env() }),
    ];
    for (name, make) in made {
        if path.contains(name) {
            path = path.replace(name, &make());
        }
    }
    assert!(!path.contains('{'), "{path}: a parameter that nobody knows how to fill");
    let body = match id {
        "auth_change_password" => json!({ "current": PASSWORD, "new": OTHER }),
        "auth_confirm_totp" => {
            let offer = who.client.offer_totp().unwrap();
            json!({ "handle": offer.handle.0, "code": code(&offer.link.0, 0), "password": PASSWORD })
        }
        "auth_remove_totp" => json!({ "password": PASSWORD, "totp": "123456" }),
        "users_create" => serde_json::to_value(stage.new_user()).unwrap(),
        "users_update" => json!({ "name": "N" }),
        "users_reset_password" => json!({ "password": OTHER }),
        "keys_create" | "keys_offer_pairing" => json!({ "label": "k", "scope": "runs:read" }),
        "passes_mint" => serde_json::to_value(new_pass()).unwrap(),
        "repos_create" => json!({ "name": stage.fresh(), "origin": "https://forge.example/a/b" }),
        "worktrees_create" => json!({ "repo": stage.repo, "name": stage.fresh() }),
        "sessions_create" => json!({ "worktree": stage.tree(), "agent": "fake" }),
        "sessions_prompt" | "lineage_spawn" => json!({ "prompt": "say something" }),
        "budgets_set" => serde_json::to_value(crate::calls::budget(&stage.session(who))).unwrap(),
        "lineage_reorder" => json!({ "tasks": [] }),
        "lineage_fork" | "lineage_undo" => json!({}),
        "approvals_allow" => json!({ "effect": "0".repeat(64), "choice": "yes" }),
        "approvals_deny" => json!({ "effect": "0".repeat(64) }),
        "sessions_import" => serde_json::to_value(new_import(&stage.tree())).unwrap(),
        "worktrees_update" => json!({ "about": "x" }),
        "worktrees_set_tier" => json!({ "tier": "all" }),
        "worktrees_set_sharing" => json!({ "shares": true }),
        "secrets_add" => serde_json::to_value(stage.new_secret()).unwrap(),
        "secrets_lend" => serde_json::to_value(stage.loan()).unwrap(),
        "secrets_rotate" | "worktrees_merge" | "worktrees_push" => json!({}),
        "artifacts_assign" => json!({ "to": stage.env() }),
        "artifacts_register_capability" => {
            json!({ "name": stage.fresh(), "document": { "tools": { "allow": [stage.fresh()] } } })
        }
        "artifacts_register_subagent" => {
            serde_json::to_value(crate::calls::new_subagent(&stage.fresh())).unwrap()
        }
        "artifacts_register_env" => serde_json::to_value(crate::calls::new_env(&stage.fresh())).unwrap(),
        "policies_add" => json!({ "id": stage.fresh(), "text": NOBODY }),
        "policies_try_policy" => {
            json!({ "user": who.id, "action": "status.read", "resource": "installation" })
        }
        _ => Value::Null,
    };
    let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let mut headers = vec![("content-type", "application/json")];
    if one.kind == "socket" {
        headers = vec![
            ("upgrade", "websocket"),
            ("connection", "upgrade"),
            ("origin", stage.host.base()),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ];
    }
    let bytes = request(stage.host, who.client.token().unwrap(), &one.method, &path, &headers, &bytes);
    if one.kind == "socket" {
        // A handshake asks to keep the connection.
        return String::from_utf8(bytes).unwrap().replacen("Connection: close\r\n", "", 1).into_bytes();
    }
    bytes
}

/// A request by hand, whose answer need not end the connection.
fn spoken(host: &Host, bytes: &[u8], keeps: bool) -> Reply {
    if !keeps {
        return speak(host, bytes);
    }
    let mut stream = crate::gateway_wire::connect(host);
    stream.write_all(bytes).unwrap();
    Reply::read_one(&mut stream).unwrap()
}

/// A command that calls the daemon: its name, its operation, and what is typed.
pub(crate) type Calling = (&'static str, &'static str, fn(&Stage<'_>, &Who) -> Typed);

/// Every command that calls the daemon.
pub(crate) fn calling() -> impl Iterator<Item = Calling> {
    COMMANDS.iter().filter_map(|(command, line)| match line {
        Calls(operation, make) => Some((*command, *operation, *make)),
        AsksNobody(_) => None,
    })
}

/// Runs the program as someone; the error's code, or none if it did what it should.
pub(crate) fn typed(host: &Host, who: &Who, typed: &Typed) -> Option<String> {
    let output = printed(host, who, typed, &["--json"]);
    let document: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{:?}: {}", typed.words, String::from_utf8_lossy(&output.stderr)));
    assert_eq!(output.status.success(), document["ok"] == true, "{document}");
    document["error"]["code"].as_str().map(str::to_owned)
}

/// Runs the program as someone; everything it prints.
pub(crate) fn printed(host: &Host, who: &Who, typed: &Typed, more: &[&str]) -> Output {
    let mut command = host.command("palisade");
    command.args(more).args(["--url", host.base()]).args(&typed.words);
    command.env("PALISADE_API_KEY", who.client.token().unwrap());
    tests::fed(&mut command, &format!("{}\n", typed.input))
}

/// Goes, as someone: the code of what refused it, or none if it was done.
pub(crate) type Go<'a> = Box<dyn Fn(&Who) -> Option<String> + 'a>;

/// One way to try an operation, ready to go.
pub(crate) struct Try<'a> {
    pub(crate) surface: String,
    pub(crate) who: Who,
    pub(crate) run: Go<'a>,
}

/// Someone who calls with a Pass of theirs that names every tool.
pub(crate) fn by_pass(stage: &Stage<'_>) -> Who {
    let who = stage.of_role("admin");
    let grant = serde_json::from_value(json!({ "tools": { "allow": ["*"] } })).unwrap();
    let pass = who.client.mint_pass(&api::MintPassRequest { grant, ..new_pass() }).unwrap();
    Who { client: who.client.with_token(&pass.token.0), ..who }
}

/// Every way there is to try this operation.
pub(crate) fn ways<'a>(
    stage: &'a Stage<'a>,
    shared: &Who,
    id: &'static str,
    one: &'a Described,
) -> Vec<Try<'a>> {
    let who = || match id {
        // Nobody can be kept from signing out; but a Pass, which composes and never defines, does not.
        "auth_logout" | "auth_logout_everywhere" => by_pass(stage),
        _ if is_final(id) => stage.of_role("admin"),
        _ => shared.clone(),
    };
    let mut ways = Vec::new();
    let kind = KINDS.iter().find(|(kind, _)| *kind == one.kind).unwrap().1;

    let hand = who();
    let (bytes, keeps) = (by_hand(stage, &hand, id, one), one.kind == "socket");
    ways.push(Try {
        surface: format!("{kind} by hand"),
        who: hand,
        run: Box::new(move |_| {
            let reply = spoken(stage.host, &bytes, keeps);
            (reply.status >= 300).then(|| word(reply.problem().code))
        }),
    });

    let client = who();
    let call = CALLS.iter().find(|call| call.operation == id).unwrap();
    let prepared = (call.prepare)(stage, &client);
    ways.push(Try {
        surface: format!("{kind} by the client"),
        who: client,
        run: Box::new(move |who| {
            prepared(&who.client).err().map(|error| word(error.code().unwrap_or_else(|| panic!("{error}"))))
        }),
    });

    for (command, line) in COMMANDS {
        if let Calls(operation, make) = line
            && *operation == id
        {
            let who = who();
            let words = make(stage, &who);
            let surface = format!("`palisade {command}`");
            let run = Box::new(move |who: &Who| typed(stage.host, who, &words));
            ways.push(Try { surface, who, run });
        }
    }
    ways
}

fn word(code: api::Code) -> String {
    serde_json::to_value(code).unwrap().as_str().unwrap().to_owned()
}

/// What the ledger says of someone after `head`: action and decision.
fn said(host: &Host, head: u64, who: &str) -> Vec<Told> {
    let newest = LedgerFilter { limit: Some(50), ..LedgerFilter::default() };
    let entries = host.owner().client.ledger(&newest).unwrap().items.into_iter();
    let entries = entries.filter(|entry| entry.seq > head && entry.who.starts_with(who));
    entries.map(|entry| (entry.action, entry.decision)).collect()
}

/// ACC-01: every operation that the gate judges, refused over every surface that reaches it: the same code, and
/// exactly one refusal on the ledger, of the same action.
#[test]
fn acc_01_a_refused_act_is_refused_alike_on_every_surface() {
    let host = Host::builder().set("limits.requests_per_minute", "0").start();
    let stage = Stage::new(&host);
    // Not an owner: some rights cannot be taken from owners.
    let vic = stage.of_role("admin");
    let api = described(&committed());
    let mut tried: BTreeMap<String, usize> = BTreeMap::new();
    let mut by_action: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for call in CALLS {
        let one = &api[call.operation];
        let Some(action) = &one.action else { continue };
        let ways = ways(&stage, &vic, call.operation, one);
        let people: Vec<String> = ways.iter().map(|way| format!("User::\"{}\"", way.who.id)).collect();
        // Whoever may read all does not need the right to read the own; take that away too.
        let more = if action == "ledger.read" { ", Action::\"ledger.read_all\"" } else { "" };
        let forbid = format!(
            "forbid (principal, action in [Action::\"{action}\"{more}], resource) when {{ [{}].contains(principal) }};",
            people.join(", ")
        );
        let policy = stage.fresh();
        stage.owner().add_policy(&policy, &forbid).unwrap();
        let mut codes = BTreeMap::new();
        for way in &ways {
            let head = host.ledger_head();
            let code =
                (way.run)(&way.who).unwrap_or_else(|| panic!("{}: {} did it", call.operation, way.surface));
            let expected = [(action.clone(), "refused".to_owned())];
            assert_eq!(said(&host, head, &way.who.id), expected, "{}: {}", call.operation, way.surface);
            codes.insert(way.surface.clone(), code.clone());
            // A Pass is refused for what it is, before any policy is asked.
            let same_cause = !way.who.client.token().unwrap().starts_with("pps_");
            by_action.entry(action.clone()).or_default().extend(same_cause.then_some(code));
            *tried.entry(way.surface.split(" by ").next().unwrap().to_owned()).or_default() += 1;
        }
        stage.owner().remove_policy(&policy).unwrap();
        let different: BTreeSet<&String> = codes.values().collect();
        assert_eq!(different.len(), 1, "{}: {codes:?}", call.operation);
    }
    // Also across operations: an action that is refused is refused with one word.
    for (action, codes) in &by_action {
        assert!(codes.len() <= 1, "{action}: {codes:?}");
    }
    for (_, surface) in KINDS {
        assert!(tried.contains_key(*surface), "{surface} was not tried: {tried:?}");
    }
    let judged: BTreeSet<&str> = by_action.keys().map(String::as_str).collect();
    // A task that waits is begun by the daemon, for whoever asked: `tests/flow/sessions.rs` refuses that.
    let known = access::ACTIONS.iter().map(|action| action.name).filter(|name| *name != "session.start");
    assert_eq!(
        judged,
        known.collect::<BTreeSet<&str>>(),
        "every action was refused over every surface that reaches it"
    );
}
