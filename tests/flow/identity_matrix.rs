//! What each role, each scope and nobody may call: one declared table, every route of the router in it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};

use api::{AddSecretRequest, Client, CreateKeyRequest, Hidden, MintPassRequest};
use serde_json::{Value, json};
use tests::{Host, PASSWORD, Person};

/// Route, least scope of a key, and what viewer, member, admin and owner get: on their own thing, or
/// `own/other`. `open` needs no credential.
const TABLE: &str = "
GET    /healthz                                   | open
GET    /livez                                     | open
GET    /readyz                                    | open
GET    /setup                                     | open
POST   /setup                                     | open
POST   /api/v1/auth/bootstrap                     | open
POST   /api/v1/auth/login                         | open
POST   /api/v1/auth/refresh                       | open
POST   /api/v1/auth/pair                          | open
GET    /api/v1/whoami                             | runs:read   | 200     | 200     | 200     | 200
GET    /api/v1/status                             | runs:read   | 200     | 200     | 200     | 200
GET    /api/v1/openapi.json                       | runs:read   | 200     | 200     | 200     | 200
GET    /metrics                                   | admin       | 403     | 403     | 200     | 200
POST   /api/v1/events/ticket                      | runs:read   | 200     | 200     | 200     | 200
GET    /api/v1/events                             | runs:read   | 200     | 200     | 200     | 200
GET    /api/v1/events/socket                      | ticket      | 400     | 400     | 400     | 400
GET    /api/v1/users                              | runs:manage | 403     | 200     | 200     | 200
POST   /api/v1/users                              | admin       | 403     | 403     | 201     | 201
GET    /api/v1/users/{user}                       | runs:read   | 200/404 | 200/200 | 200/200 | 200/200
PATCH  /api/v1/users/{user}                       | admin       | 200/404 | 200/403 | 200/200 | 200/200
POST   /api/v1/users/{user}/password              | admin       | 403/404 | 403/403 | 403/204 | 403/204
GET    /api/v1/users/{user}/keys                  | runs:manage | 200/404 | 200/403 | 200/200 | 200/200
GET    /api/v1/users/{user}/passes                | runs:manage | 200/404 | 200/403 | 200/200 | 200/200
POST   /api/v1/keys                               | admin       | 201     | 201     | 201     | 201
POST   /api/v1/pairings                           | admin       | 201     | 201     | 201     | 201
DELETE /api/v1/keys/{key}                         | runs:manage | 204/404 | 204/404 | 204/204 | 204/204
POST   /api/v1/passes                             | runs:manage | 201     | 201     | 201     | 201
DELETE /api/v1/passes/{pass}                      | runs:manage | 200/404 | 200/404 | 200/200 | 200/200
GET    /api/v1/repos                              | runs:read   | 200     | 200     | 200     | 200
POST   /api/v1/repos                              | runs:manage | 403     | 403     | 201     | 201
GET    /api/v1/repos/{repo}                       | runs:read   | 200     | 200     | 200     | 200
DELETE /api/v1/repos/{repo}                       | runs:manage | 403     | 403     | 204     | 204
POST   /api/v1/repos/{repo}/fetch                 | runs:manage | 403     | 200     | 200     | 200
GET    /api/v1/worktrees                          | runs:read   | 200     | 200     | 200     | 200
POST   /api/v1/worktrees                          | runs:write  | 403     | 201     | 201     | 201
GET    /api/v1/worktrees/{worktree}               | runs:read   | 200/200 | 200/200 | 200/200 | 200/200
PATCH  /api/v1/worktrees/{worktree}               | runs:write  | 403/403 | 200/403 | 200/200 | 200/200
DELETE /api/v1/worktrees/{worktree}               | runs:manage | 403/403 | 204/403 | 204/204 | 204/204
PUT    /api/v1/worktrees/{worktree}/tier          | runs:manage | 403/403 | 200/403 | 200/200 | 200/200
PUT    /api/v1/worktrees/{worktree}/sharing       | runs:manage | 403/403 | 200/403 | 200/200 | 200/200
PUT    /api/v1/worktrees/{worktree}/owners/{user} | runs:manage | 403/403 | 200/403 | 200/200 | 200/200
DELETE /api/v1/worktrees/{worktree}/owners/{user} | runs:manage | 403/403 | 200/403 | 200/200 | 200/200
POST   /api/v1/worktrees/{worktree}/archive       | runs:manage | 403/403 | 200/403 | 200/200 | 200/200
POST   /api/v1/worktrees/{worktree}/restore       | runs:manage | 403/403 | 409/403 | 409/409 | 409/409
POST   /api/v1/worktrees/{worktree}/merge         | runs:write  | 403/403 | 200/403 | 200/200 | 200/200
POST   /api/v1/worktrees/{worktree}/push          | runs:manage | 403/403 | 409/403 | 409/409 | 409/409
GET    /api/v1/worktrees/{worktree}/log           | runs:read   | 200/200 | 200/200 | 200/200 | 200/200
GET    /api/v1/worktrees/{worktree}/diff          | runs:read   | 200/200 | 200/200 | 200/200 | 200/200
GET    /api/v1/worktrees/{worktree}/files         | runs:read   | 200/200 | 200/200 | 200/200 | 200/200
GET    /api/v1/agents                             | runs:read   | 200     | 200     | 200     | 200
POST   /api/v1/agents/check                       | runs:write  | 403     | 200     | 200     | 200
GET    /api/v1/sessions                           | runs:read   | 200     | 200     | 200     | 200
POST   /api/v1/sessions                           | runs:write  | 403     | 201     | 201     | 201
POST   /api/v1/sessions/import                    | runs:write  | 403     | 201     | 201     | 201
GET    /api/v1/sessions/{session}                 | runs:read   | 200/200 | 200/200 | 200/200 | 200/200
GET    /api/v1/sessions/{session}/tasks           | runs:read   | 200/200 | 200/200 | 200/200 | 200/200
POST   /api/v1/sessions/{session}/tasks           | runs:write  | 403/403 | 409/403 | 409/403 | 409/403
DELETE /api/v1/sessions/{session}/tasks/{task}    | runs:write  | 403/403 | 422/403 | 422/422 | 422/422
GET    /api/v1/sessions/{session}/steps           | runs:read   | 200/200 | 200/200 | 200/200 | 200/200
GET    /api/v1/sessions/{session}/stream          | runs:read   | 200/200 | 200/200 | 200/200 | 200/200
POST   /api/v1/sessions/{session}/stop            | runs:write  | 403/403 | 200/403 | 200/200 | 200/200
POST   /api/v1/sessions/{session}/resume          | runs:write  | 403/403 | 200/403 | 200/403 | 200/403
POST   /api/v1/sessions/{session}/close           | runs:write  | 403/403 | 200/403 | 200/200 | 200/200
POST   /api/v1/sessions/{session}/fork            | runs:write  | 403/403 | 201/201 | 201/201 | 201/201
POST   /api/v1/sessions/{session}/spawn           | runs:write  | 403/403 | 409/403 | 409/403 | 409/403
GET    /api/v1/sessions/{session}/lineage         | runs:read   | 200/200 | 200/200 | 200/200 | 200/200
PUT    /api/v1/sessions/{session}/queue           | runs:write  | 403/403 | 200/403 | 200/403 | 200/403
POST   /api/v1/sessions/{session}/undo            | runs:write  | 403/403 | 409/403 | 409/403 | 409/403
GET    /api/v1/sessions/{session}/usage           | runs:read   | 200/200 | 200/200 | 200/200 | 200/200
GET    /api/v1/usage                              | admin       | 403     | 403     | 200     | 200
GET    /api/v1/budgets                            | admin       | 403     | 403     | 200     | 200
PUT    /api/v1/budgets                            | admin       | 403     | 403     | 204     | 204
GET    /api/v1/approvals                          | runs:read   | 200     | 200     | 200     | 200
GET    /api/v1/sessions/{session}/approvals       | runs:read   | 200/200 | 200/200 | 200/200 | 200/200
POST   /api/v1/sessions/{session}/approvals/{approval}/allow | runs:write | 403/403 | 422/403 | 422/422 | 422/422
POST   /api/v1/sessions/{session}/approvals/{approval}/deny | runs:write | 403/403 | 422/403 | 422/422 | 422/422
GET    /api/v1/sessions/{session}/consents        | runs:read   | 200/200 | 200/200 | 200/200 | 200/200
DELETE /api/v1/sessions/{session}/consents/{consent} | runs:write | 403/403 | 422/403 | 422/422 | 422/422
GET    /api/v1/artifacts/{kind}                   | runs:read   | 403     | 200     | 200     | 200
GET    /api/v1/artifacts/{kind}/{artifact}        | runs:read   | 403     | 200     | 200     | 200
GET    /api/v1/artifacts/{kind}/{artifact}/history | runs:read  | 403     | 200     | 200     | 200
POST   /api/v1/artifacts/{kind}/{artifact}/assign | admin       | 403     | 403     | 200     | 200
POST   /api/v1/artifacts/{kind}/{artifact}/revoke | admin       | 403     | 403     | 200     | 200
POST   /api/v1/capabilities                       | admin       | 403     | 403     | 201     | 201
GET    /api/v1/capabilities/{artifact}/file       | admin       | 403     | 403     | 200     | 200
POST   /api/v1/subagents                          | admin       | 403     | 403     | 201     | 201
POST   /api/v1/envs                               | admin       | 403     | 403     | 201     | 201
GET    /api/v1/policies                           | admin       | 403     | 403     | 200     | 200
POST   /api/v1/policies                           | admin       | 403     | 403     | 204     | 204
DELETE /api/v1/policies/{policy}                  | admin       | 403     | 403     | 204     | 204
POST   /api/v1/policies/try                       | admin       | 403     | 403     | 200     | 200
GET    /api/v1/secrets                            | runs:read   | 200     | 200     | 200     | 200
POST   /api/v1/secrets                            | runs:manage | 201     | 201     | 201     | 201
DELETE /api/v1/secrets/{owner}/{name}             | runs:manage | 204/404 | 204/403 | 204/204 | 204/204
POST   /api/v1/secrets/lend                       | runs:write  | 403     | 200     | 200     | 200
POST   /api/v1/secrets/rotation                   | admin       | 403     | 403     | 403     | 200
GET    /api/v1/ledger                             | runs:manage | 403     | 200     | 200     | 200
GET    /api/v1/ledger/export                      | admin       | 403     | 403     | 200     | 200
GET    /api/v1/ledger/trust                       | admin       | 403     | 403     | 200     | 200
POST   /api/v1/ledger/verify                      | admin       | 403     | 403     | 200     | 200
POST   /api/v1/backup                             | admin       | 403     | 403     | 403     | 200
POST   /api/v1/auth/totp                          | runs:read   | 200     | 200     | 200     | 200
POST   /api/v1/auth/totp/confirm                  | admin       | 204     | 204     | 204     | 204
POST   /api/v1/auth/totp/remove                   | admin       | 204     | 204     | 204     | 204
POST   /api/v1/auth/logout                        | runs:read   | 204     | 204     | 204     | 204
POST   /api/v1/auth/password                      | admin       | 204     | 204     | 204     | 204
POST   /api/v1/auth/logout-everywhere             | admin       | 204     | 204     | 204     | 204
POST   /api/v1/users/{user}/sign-out              | admin       | 204/404 | 204/403 | 204/204 | 204/204
POST   /api/v1/users/{user}/disable               | admin       | 403/404 | 403/403 | 403/204 | 204/204
DELETE /api/v1/users/{user}                       | admin       | 403/404 | 403/403 | 403/204 | 204/204
";

const ROLES: [&str; 4] = ["viewer", "member", "admin", "owner"];
const SCOPES: [&str; 4] = ["runs:read", "runs:write", "runs:manage", "admin"];
const NEW_PASSWORD: &str = "another password entirely";

struct Row {
    method: &'static str,
    path: &'static str,
    scope: &'static str,
    expected: Vec<&'static str>,
}

fn table() -> Vec<Row> {
    let row = |line: &'static str| {
        let mut cells = line.split('|').map(str::trim);
        let (method, path) = cells.next().unwrap().split_once(' ').unwrap();
        Row { method, path: path.trim(), scope: cells.next().unwrap(), expected: cells.collect() }
    };
    TABLE.trim().lines().map(row).collect()
}

/// Every route as the daemon itself describes it.
fn described(client: &Client) -> BTreeSet<(String, String)> {
    let text = client
        .send("GET", "/api/v1/openapi.json", &[], Vec::new())
        .unwrap()
        .body_mut()
        .read_to_vec()
        .unwrap();
    let all: Value = serde_json::from_slice(&text).unwrap();
    let paths = all.get("paths").and_then(Value::as_object).unwrap();
    let methods = |(path, methods): (&String, &Value)| {
        let path = path.clone();
        let known = ["get", "post", "put", "patch", "delete"];
        let given: Vec<_> =
            methods.as_object().unwrap().keys().filter(|key| known.contains(&key.as_str())).collect();
        given.into_iter().map(|method| (method.to_uppercase(), path.clone())).collect::<Vec<_>>()
    };
    paths.iter().flat_map(methods).collect()
}

/// Status and body, without what differs from request to request.
fn told(client: &Client, method: &str, path: &str, headers: &[(&str, &str)], body: Vec<u8>) -> (u16, Value) {
    let mut answer = client.send(method, path, headers, body).unwrap();
    let status = answer.status().as_u16();
    if status < 400 {
        return (status, Value::Null);
    }
    let mut body: Value =
        serde_json::from_slice(&answer.body_mut().read_to_vec().unwrap()).unwrap_or(Value::Null);
    if let Some(fields) = body.as_object_mut() {
        fields.remove("request_id");
    }
    (status, body)
}

fn json_call(client: &Client, method: &str, path: &str, body: &Value) -> (u16, Value) {
    match body {
        Value::Null => told(client, method, path, &[], Vec::new()),
        body => {
            told(client, method, path, &[("content-type", "application/json")], body.to_string().into_bytes())
        }
    }
}

static COUNT: AtomicU32 = AtomicU32::new(0);

fn fresh(stem: &str) -> String {
    format!("{stem}-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

fn key_request(scope: &str) -> CreateKeyRequest {
    CreateKeyRequest { label: "k".into(), scope: scope.into(), days: None }
}

fn secret_request(name: &str) -> AddSecretRequest {
    AddSecretRequest {
        name: name.into(),
        value: Hidden("a value of no use".into()),
        owner: None,
        hosts: Vec::new(),
        expires: None,
        replace: false,
    }
}

fn pass_request() -> MintPassRequest {
    MintPassRequest { label: "p".into(), grant: model::Grant::nothing(), minutes: None }
}

/// A code from the link that an authenticator app would take in; `later` steps from now.
pub(crate) fn code(link: &str, later: u64) -> String {
    let text = link.split_once("secret=").unwrap().1.split('&').next().unwrap();
    let seed = totp_rs::Secret::try_from_base32(text).unwrap();
    let totp = totp_rs::Builder::new().with_secret(seed).with_skew(0).build_noncompliant();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    totp.generate(now + 30 * later).to_string()
}

/// What a call is made with.
struct Scene<'a> {
    host: &'a Host,
    caller: &'a Person,
    bo: &'a Person,
    repo: &'a str,
    victim: &'a str,
    password: &'a str,
    link: String,
}

impl Scene<'_> {
    /// The path with ids of the caller's own things, or of another's.
    fn path(&self, row: &Row, own: bool) -> String {
        let owner = &self.host.owner().client;
        let of = if own { self.caller } else { self.bo };
        let mut path = row.path.to_owned();
        if path.contains("{worktree}") {
            let made = self.host.owner().worktree(self.repo, &fresh("wt"), "session");
            owner.add_owner(&made.id, &self.bo.id).unwrap();
            if own {
                owner.add_owner(&made.id, &self.caller.id).unwrap();
            }
            let named = if row.method == "DELETE" { &self.bo.id } else { &self.caller.id };
            path = path.replace("{worktree}", &made.id).replace("{user}", named);
        }
        if path.contains("{session}") {
            let worktree = self.host.owner().worktree(self.repo, &fresh("wt"), "session").id;
            let new = crate::calls::new_session(&worktree);
            // A viewer has none.
            let made = own.then(|| self.caller.client.create_session(&new).ok()).flatten();
            let made = made.unwrap_or_else(|| self.bo.client.create_session(&new).unwrap()).id;
            if row.method == "POST" && (row.path.ends_with("/tasks") || row.path.ends_with("/spawn")) {
                // What is asked of an open one is begun, and leaves entries of its own.
                owner.close_session(&made).unwrap();
            }
            let hex = "0123456789abcdef0123456789abcdef";
            path = path.replace("{session}", &made);
            path = path.replace("{task}", &format!("tsk_{hex}")).replace("{approval}", &format!("apr_{hex}"));
            path = path.replace("{consent}", &format!("con_{hex}"));
        }
        if path.contains("{key}") {
            path = path.replace("{key}", &of.client.create_key(&key_request("runs:read")).unwrap().key.id);
        }
        if path.contains("{pass}") {
            path = path.replace("{pass}", &of.client.mint_pass(&pass_request()).unwrap().pass.id);
        }
        if path.contains("{repo}") {
            let made = if path.ends_with("/fetch") { Host::local_repo } else { Host::repo };
            path = path.replace("{repo}", &made(self.host, &fresh("repo")));
        }
        if path.contains("{owner}") {
            let name = fresh("S").replace('-', "_");
            of.client.add_secret(&secret_request(&name)).unwrap();
            path = path.replace("{owner}", &of.id).replace("{name}", &name);
        }
        if path.ends_with("{artifact}/file") {
            let (body, files) = crate::calls::new_capability(&fresh("cap"));
            owner.register_capability(&body, &files).unwrap();
            path = format!("{}?path=notes/a.txt", path.replace("{artifact}", &body.name));
        }
        if path.contains("{artifact}") {
            let name = owner.register_env(&crate::calls::new_env(&fresh("env"))).unwrap().name;
            path = path.replace("{artifact}", &name);
        }
        path = path.replace("{kind}", "env");
        if path.contains("{policy}") {
            let id = fresh("policy");
            owner.add_policy(&id, "forbid (principal, action, resource == Repo::\"none\");").unwrap();
            path = path.replace("{policy}", &id);
        }
        path.replace("{user}", if own { &self.caller.id } else { self.victim })
    }

    /// A body that the route takes.
    fn body(&mut self, row: &Row) -> Value {
        match (row.method, row.path) {
            ("POST", "/api/v1/users") => {
                let email = format!("{}@example.org", fresh("new"));
                json!({"email": email, "name": "N", "role": "member", "password": PASSWORD})
            }
            ("PATCH", "/api/v1/users/{user}") => json!({"name": "Another"}),
            ("POST", "/api/v1/users/{user}/password") => json!({"password": NEW_PASSWORD}),
            ("POST", "/api/v1/keys" | "/api/v1/pairings") => json!({"label": "k", "scope": "runs:read"}),
            ("POST", "/api/v1/passes") => json!({"label": "p", "grant": {}}),
            ("POST", "/api/v1/repos") => {
                json!({"name": fresh("repo"), "origin": "https://forge.example/a/b"})
            }
            ("POST", "/api/v1/worktrees") => json!({"repo": self.repo, "name": fresh("wt")}),
            ("POST", "/api/v1/sessions") => {
                let worktree = self.host.owner().worktree(self.repo, &fresh("wt"), "session").id;
                serde_json::to_value(crate::calls::new_session(&worktree)).unwrap()
            }
            ("POST", "/api/v1/sessions/{session}/tasks" | "/api/v1/sessions/{session}/spawn") => {
                json!({"prompt": "say x"})
            }
            ("POST", "/api/v1/sessions/{session}/fork" | "/api/v1/sessions/{session}/undo") => json!({}),
            ("PUT", "/api/v1/budgets") => {
                let worktree = self.host.owner().worktree(self.repo, &fresh("wt"), "session").id;
                let new = crate::calls::new_session(&worktree);
                let session = self.host.owner().client.create_session(&new).unwrap().id;
                serde_json::to_value(crate::calls::budget(&session)).unwrap()
            }
            ("PUT", "/api/v1/sessions/{session}/queue") => json!({"tasks": []}),
            ("POST", "/api/v1/sessions/import") => {
                let worktree = self.host.owner().worktree(self.repo, &fresh("wt"), "session").id;
                serde_json::to_value(crate::calls::new_import(&worktree)).unwrap()
            }
            ("POST", "/api/v1/sessions/{session}/approvals/{approval}/allow") => {
                json!({"effect": "0".repeat(64), "choice": "yes"})
            }
            ("POST", "/api/v1/sessions/{session}/approvals/{approval}/deny") => {
                json!({"effect": "0".repeat(64)})
            }
            ("PATCH", "/api/v1/worktrees/{worktree}") => json!({"about": "x"}),
            ("POST", "/api/v1/worktrees/{worktree}/merge" | "/api/v1/worktrees/{worktree}/push") => json!({}),
            ("PUT", "/api/v1/worktrees/{worktree}/tier") => json!({"tier": "view"}),
            ("PUT", "/api/v1/worktrees/{worktree}/sharing") => json!({"shares": true}),
            ("POST", "/api/v1/secrets") => {
                serde_json::to_value(secret_request(&fresh("S").replace('-', "_"))).unwrap()
            }
            ("POST", "/api/v1/secrets/lend") => {
                let name = fresh("S").replace('-', "_");
                let new = AddSecretRequest { owner: Some("daemon".into()), ..secret_request(&name) };
                self.host.owner().client.add_secret(&new).unwrap();
                serde_json::to_value(crate::calls::listening(&name)).unwrap()
            }
            ("POST", "/api/v1/secrets/rotation") => json!({}),
            ("POST", "/api/v1/artifacts/{kind}/{artifact}/assign") => {
                let env = crate::calls::new_env(&fresh("env"));
                json!({"to": self.host.owner().client.register_env(&env).unwrap().name})
            }
            ("POST", "/api/v1/capabilities") => {
                json!({"name": fresh("cap"), "document": {"tools": {"allow": [fresh("tool")]}}})
            }
            ("POST", "/api/v1/subagents") => {
                serde_json::to_value(crate::calls::new_subagent(&fresh("sub"))).unwrap()
            }
            ("POST", "/api/v1/envs") => serde_json::to_value(crate::calls::new_env(&fresh("env"))).unwrap(),
            ("POST", "/api/v1/policies") => {
                json!({"id": fresh("policy"), "text": "forbid (principal, action, resource == Repo::\"none\");"})
            }
            ("POST", "/api/v1/policies/try") => {
                json!({"user": self.caller.id, "action": "repo.list", "resource": "installation"})
            }
            ("POST", "/api/v1/auth/totp/confirm") => {
                let offer = self.caller.client.offer_totp().unwrap();
                self.link = offer.link.into_text();
                json!({"handle": offer.handle.0, "code": code(&self.link, 0), "password": self.password})
            }
            ("POST", "/api/v1/auth/totp/remove") => {
                json!({"password": self.password, "totp": code(&self.link, 1)})
            }
            ("POST", "/api/v1/auth/password") => json!({"current": self.password, "new": NEW_PASSWORD}),
            ("POST", "/api/v1/auth/login") => json!({"email": "a@example.org", "password": "x"}),
            ("POST", "/api/v1/auth/pair") => json!({"code": "x"}),
            ("POST", "/api/v1/auth/refresh") => json!({"refresh_token": "x"}),
            ("POST", "/api/v1/auth/bootstrap") => {
                json!({"secret": "x", "email": "a@example.org", "name": "A", "password": PASSWORD})
            }
            _ => Value::Null,
        }
    }
}

/// Signs in from an address of its own, so that many logins are not too many.
fn login(host: &Host, email: &str, password: &str) -> Person {
    let body = json!({"email": email, "password": password}).to_string().into_bytes();
    let n = COUNT.fetch_add(1, Ordering::Relaxed);
    let from = format!("10.0.{}.{}", n / 250, n % 250);
    let headers = [("content-type", "application/json"), ("x-forwarded-for", from.as_str())];
    let mut answer = host.anonymous().send("POST", "/api/v1/auth/login", &headers, body).unwrap();
    let tokens: api::TokenResponse =
        serde_json::from_slice(&answer.body_mut().read_to_vec().unwrap()).unwrap();
    let client = host.anonymous().with_token(&tokens.access_token.0);
    Person { id: tokens.user.clone(), email: email.to_owned(), client, tokens }
}

fn create(host: &Host, name: &str, role: &str) -> api::User {
    let body = api::CreateUserRequest {
        email: format!("{name}@example.org"),
        name: name.into(),
        role: role.into(),
        password: Some(Hidden(PASSWORD.into())),
        bcrypt: None,
    };
    host.owner().client.create_user(&body).unwrap()
}

fn many_calls() -> Host {
    Host::builder().set("limits.requests_per_minute", "0").set("server.trusted_proxies", "127.0.0.1").start()
}

#[test]
fn idn_09_every_route_and_role_is_as_declared() {
    let host = many_calls();
    let routes: BTreeSet<(String, String)> =
        table().iter().map(|row| (row.method.to_owned(), row.path.to_owned())).collect();
    assert_eq!(described(&host.owner().client), routes, "a route without a row, or a row without a route");
    let repo = host.local_repo("demo");
    host.owner().client.fetch_repo(&repo).unwrap();
    let bo = host.user("bo", "member");
    for (column, role) in ROLES.into_iter().enumerate() {
        let email = create(&host, &format!("caller-{role}"), role).email;
        let victim = create(&host, &format!("victim-of-{role}"), "member").id;
        let mut caller = login(&host, &email, PASSWORD);
        let mut password = PASSWORD;
        let mut link = String::new();
        for row in table().iter().filter(|row| row.scope != "open") {
            let cell = row.expected.get(column).unwrap();
            let (own, other) = cell.split_once('/').map_or((*cell, None), |(own, other)| (own, Some(other)));
            // Others first: what one does to oneself may end one's login.
            for (own, expected) in other.map(|other| (false, other)).into_iter().chain([(true, own)]) {
                let mut scene = Scene {
                    host: &host,
                    caller: &caller,
                    bo: &bo,
                    repo: &repo,
                    victim: &victim,
                    password,
                    link: link.clone(),
                };
                let path = scene.path(row, own);
                let body = scene.body(row);
                link = scene.link;
                let before = host.ledger_head();
                let (status, problem) = match row.scope {
                    "ticket" => {
                        told(&caller.client, row.method, &path, &[("origin", host.base())], Vec::new())
                    }
                    _ => json_call(&caller.client, row.method, &path, &body),
                };
                let whose = if own { "own" } else { "other's" };
                let what = format!("{role} {} {} ({whose}): {problem}", row.method, row.path);
                assert_eq!(status.to_string(), expected, "{what}");
                let written = host.written_since(before);
                match status {
                    403 | 404 => assert_eq!(written, 1, "a refusal is one entry: {what}"),
                    200 if row.method == "GET" => assert_eq!(written, 0, "a read is none: {what}"),
                    _ => {}
                }
                let ends = own && status == 204 && row.path.contains("/auth/") && !row.path.contains("totp");
                if ends && row.path.ends_with("/password") {
                    password = NEW_PASSWORD;
                }
                if ends || (own && row.path.ends_with("/sign-out")) {
                    assert_eq!(caller.client.whoami().unwrap_err().status(), Some(401), "{what}");
                    caller = login(&host, &email, password);
                }
                if own && status == 204 && row.path.ends_with("/disable") {
                    let body = api::UpdateUserRequest { enabled: Some(true), ..Default::default() };
                    host.owner().client.update_user(&caller.id, &body).unwrap();
                    caller = login(&host, &email, password);
                }
            }
        }
    }
}

/// The path with ids that nobody has.
fn invented(path: &str) -> String {
    let hex = "0123456789abcdef0123456789abcdef";
    path.replace("{user}", &format!("usr_{hex}"))
        .replace("{key}", &format!("key_{hex}"))
        .replace("{pass}", &format!("pas_{hex}"))
        .replace("{repo}", &format!("rep_{hex}"))
        .replace("{worktree}", &format!("wt_{hex}"))
        .replace("{session}", &format!("ses_{hex}"))
        .replace("{task}", &format!("tsk_{hex}"))
        .replace("{approval}", &format!("apr_{hex}"))
        .replace("{consent}", &format!("con_{hex}"))
        .replace("{policy}", "no-such")
        .replace("{owner}", &format!("usr_{hex}"))
        .replace("{name}", "NO_SUCH")
        .replace("{kind}", "env")
        .replace("{artifact}", "no-such")
}

#[test]
fn idn_08_without_a_credential_only_health_and_login_answer() {
    let host = many_calls();
    let nobody = host.anonymous();
    let (_, uniform) = told(&nobody, "GET", "/api/v1/whoami", &[], Vec::new());
    assert_eq!(uniform.get("status"), Some(&json!(401)));
    let bad = [
        nobody.clone(),
        nobody.with_token("x"),
        nobody.with_token("eyJhbGciOiJub25lIn0.e30."),
        nobody.with_token("pal_key_0123456789abcdef0123456789abcdef_x"),
        nobody.with_token("pps_x"),
    ];
    for row in table() {
        for client in &bad {
            let answered = told(client, row.method, &invented(row.path), &[], Vec::new());
            if row.scope == "open" {
                assert_ne!(answered.1, uniform, "{} {}", row.method, row.path);
            } else {
                assert_eq!(answered, (401, uniform.clone()), "{} {}", row.method, row.path);
            }
        }
    }
    let unknown = [
        "/",
        "/api",
        "/api/v1",
        "/api/v1/nothing",
        "/api/v2/users",
        "/metrics/",
        "/healthz/x",
        "/..%2fhealthz",
    ];
    for path in unknown {
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "TRACE", "WEIRD"] {
            let (status, body) = told(&nobody, method, path, &[], Vec::new());
            assert_eq!(status, 401, "{method} {path}");
            assert!(method == "HEAD" || body == uniform, "{method} {path}: {body}");
        }
    }
    // A method that a path does not have tells a stranger nothing either.
    for (method, path) in
        [("PUT", "/api/v1/users"), ("DELETE", "/api/v1/whoami"), ("PATCH", "/api/v1/auth/login")]
    {
        assert_eq!(told(&nobody, method, path, &[], Vec::new()), (401, uniform.clone()), "{method} {path}");
    }
}

#[test]
fn idn_11_identity_is_never_taken_from_a_body() {
    let host = many_calls();
    let repo = host.local_repo("demo");
    host.owner().client.fetch_repo(&repo).unwrap();
    let bo = host.user("bo", "member");
    let owner = host.owner().clone();
    let mut scene = Scene {
        host: &host,
        caller: &owner,
        bo: &bo,
        repo: &repo,
        victim: &bo.id,
        password: PASSWORD,
        link: String::new(),
    };
    for row in table().iter().filter(|row| row.method != "GET" && !row.path.ends_with("totp/remove")) {
        let body = scene.body(row);
        let Some(fields) = body.as_object() else { continue };
        let path = scene.path(row, true);
        for name in ["created_by", "decided_by", "approved_by", "user_id", "actor"] {
            let mut fields = fields.clone();
            fields.insert(name.into(), json!(bo.id));
            let before = host.ledger_head();
            let (status, problem) = json_call(&owner.client, row.method, &path, &fields.into());
            let written = host.written_since(before);
            assert_eq!(status, 422, "{} {} with {name}: {problem}", row.method, row.path);
            // Strangers are counted by address, and an attempt at a read leaves no entry.
            let counts = row.scope != "open" && !row.path.ends_with("/try");
            assert_eq!(written, u64::from(counts), "{} {} with {name}", row.method, row.path);
        }
    }
    // Where no body is read, what it says is not read either: the record names the caller.
    let wanted = json!({"created_by": bo.id, "user_id": bo.id, "actor": bo.id});
    let made = owner.worktree(&repo, "one", "session");
    let head = host.ledger_head();
    let (status, _) =
        json_call(&owner.client, "POST", &format!("/api/v1/worktrees/{}/archive", made.id), &wanted);
    assert_eq!(status, 200);
    assert!(host.since(head).iter().all(|entry| entry.who == owner.id), "{:?}", host.since(head));
    // What is stored is the caller, everywhere that a caller is stored.
    assert_eq!(bo.worktree(&repo, "two", "session").created_by, bo.id);
    assert_eq!(owner.client.repo(&repo).unwrap().created_by, owner.id);
    assert_eq!(bo.client.create_key(&key_request("runs:read")).unwrap().key.user, bo.id);
    assert_eq!(bo.client.mint_pass(&pass_request()).unwrap().pass.user, bo.id);
}

#[test]
fn idn_12_a_key_reaches_no_further_than_its_scope_and_its_user() {
    let host = many_calls();
    let repo = host.local_repo("demo");
    host.owner().client.fetch_repo(&repo).unwrap();
    let bo = host.user("bo", "member");
    let keyed = host.user("keyed", "owner");
    let mut scene = Scene {
        host: &host,
        caller: &keyed,
        bo: &bo,
        repo: &repo,
        victim: &bo.id,
        password: PASSWORD,
        link: String::new(),
    };
    for (rank, scope) in SCOPES.into_iter().enumerate() {
        let key = keyed.client.create_key(&key_request(scope)).unwrap();
        assert!(key.secret.0.len() >= "pal_".len() + key.key.id.len() + "_".len() + 43, "256 bits");
        let client = host.anonymous().with_token(&key.secret.0);
        for row in table().iter().filter(|row| SCOPES.contains(&row.scope)) {
            // A key may not end the login that makes the next one; that is tried below.
            if scope == "admin" && row.path.ends_with("logout-everywhere") {
                continue;
            }
            let needed = SCOPES.iter().position(|one| *one == row.scope).unwrap();
            let body = if row.path.contains("totp/") { Value::Null } else { scene.body(row) };
            let body = match row.path {
                "/api/v1/auth/totp/confirm" => {
                    json!({"handle": "00", "code": "000000", "password": PASSWORD})
                }
                "/api/v1/auth/totp/remove" => json!({"totp": "000000", "password": PASSWORD}),
                _ => body,
            };
            // Signing out with a key ends that key: one of its own for that.
            let client = match row.path {
                "/api/v1/auth/logout" => {
                    let other = keyed.client.create_key(&key_request(scope)).unwrap();
                    host.anonymous().with_token(&other.secret.0)
                }
                _ => client.clone(),
            };
            let before = host.ledger_head();
            let (status, problem) = json_call(&client, row.method, &invented(row.path), &body);
            let narrow = problem.get("code") == Some(&json!("insufficient_scope"));
            let what = format!("{scope} on {} {}: {status} {problem}", row.method, row.path);
            assert_eq!(narrow, rank < needed, "{what}");
            if narrow {
                assert_eq!((status, host.written_since(before)), (403, 1), "{what}");
            }
        }
        // Never wider than the user: a member's key of any scope adds nobody.
        let bos = bo.client.create_key(&key_request(scope)).unwrap();
        let with_bos = host.anonymous().with_token(&bos.secret.0);
        let new = json!({"email": "x@example.org", "name": "X", "role": "viewer", "password": PASSWORD});
        assert_eq!(json_call(&with_bos, "POST", "/api/v1/users", &new).0, 403);
        // It is shown once, and gone at once.
        let listed = serde_json::to_string(&bo.client.keys(&bo.id, None).unwrap()).unwrap();
        assert!(!listed.contains(&bos.secret.0) && !listed.contains("digest"));
        let pass = (scope == "runs:manage").then(|| with_bos.mint_pass(&pass_request()).unwrap());
        bo.client.revoke_key(&bos.key.id).unwrap();
        assert_eq!(with_bos.whoami().unwrap_err().status(), Some(401));
        if let Some(pass) = pass {
            let with_pass = host.anonymous().with_token(&pass.token.0);
            assert_eq!(with_pass.whoami().unwrap_err().status(), Some(401), "nor what was made with it");
        }
    }
    // A key does not outlive the right of its user to act.
    let key = bo.client.create_key(&key_request("runs:read")).unwrap();
    let client = host.anonymous().with_token(&key.secret.0);
    client.whoami().unwrap();
    host.owner().client.disable_user(&bo.id).unwrap();
    assert_eq!(client.whoami().unwrap_err().status(), Some(401));
}

#[test]
fn idn_16_a_pass_is_taken_from_the_header_only_and_reaches_only_its_own() {
    let host = many_calls();
    let repo = host.local_repo("demo");
    host.owner().client.fetch_repo(&repo).unwrap();
    let (ana, bo) = (host.user("ana", "member"), host.user("bo", "member"));
    let everything = json!({"tools": {"allow": ["*"]}, "depth": 1});
    let mint = |person: &Person| {
        let grant = serde_json::from_value(everything.clone()).unwrap();
        let body = MintPassRequest { label: "p".into(), grant, minutes: None };
        person.client.mint_pass(&body).unwrap()
    };
    let (anas, bos) = (mint(&ana), mint(&bo));
    let nobody = host.anonymous();
    for row in table().iter().filter(|row| row.scope != "open") {
        let path = invented(row.path);
        for name in ["access_token", "token", "authorization", "pass", "ticket"] {
            let query = format!("{path}?{name}={}", anas.token.0);
            assert_eq!(
                told(&nobody, row.method, &query, &[], Vec::new()).0,
                401,
                "{} {}",
                row.method,
                row.path
            );
        }
        let cookie = format!("token={0}; authorization=Bearer {0}; session={0}", anas.token.0);
        let headers =
            [("cookie", cookie.as_str()), ("x-api-key", &anas.token.0), ("x-auth-token", &anas.token.0)];
        assert_eq!(
            told(&nobody, row.method, &path, &headers, Vec::new()).0,
            401,
            "{} {}",
            row.method,
            row.path
        );
        let body = json!({"token": anas.token.0, "access_token": anas.token.0});
        // Answered before the body is read, so a connection is not used twice.
        let fresh = host.anonymous();
        if row.method != "GET" {
            assert_eq!(json_call(&fresh, row.method, &path, &body).0, 401, "{} {}", row.method, row.path);
        }
    }
    let (with_anas, with_bos) = (nobody.with_token(&anas.token.0), nobody.with_token(&bos.token.0));
    for (owner, mine, theirs) in [(&ana, &with_anas, &with_bos), (&bo, &with_bos, &with_anas)] {
        let tree = owner.worktree(&repo, &fresh("wt"), "none");
        assert_eq!(mine.worktree(&tree.id).unwrap().id, tree.id);
        let before = host.ledger_head();
        let refused = [
            theirs.worktree(&tree.id).unwrap_err(),
            theirs.update_worktree(&tree.id, "x").unwrap_err(),
            theirs.archive_worktree(&tree.id).unwrap_err(),
            theirs.delete_worktree(&tree.id).unwrap_err(),
            theirs.keys(&owner.id, None).unwrap_err(),
            theirs.passes(&owner.id, None).unwrap_err(),
            theirs.revoke_pass(if owner.id == ana.id { &anas.pass.id } else { &bos.pass.id }).unwrap_err(),
            theirs.worktrees(&api::WorktreeFilter::default()).unwrap_err(),
            theirs.create_key(&key_request("runs:read")).unwrap_err(),
        ];
        assert_eq!(host.written_since(before), 9, "each refusal is one entry");
        assert!(refused.iter().all(|one| matches!(one.status(), Some(403 | 404))), "{refused:?}");
        assert_eq!(owner.client.worktree(&tree.id).unwrap(), tree, "nothing changed");
        let listed = serde_json::to_string(&owner.client.passes(&owner.id, None).unwrap()).unwrap();
        assert!(!listed.contains("pps_"), "no listing shows a Pass");
    }
}
