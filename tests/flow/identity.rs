//! Who is calling: the first owner, signing in, and how that ends.

use std::io::Read;
use std::time::{Duration, Instant};

use api::{
    Client, Code, ConfirmTotpRequest, CreateUserRequest, Hidden, LoginRequest, RemoveTotpRequest,
    UpdateUserRequest,
};
use serde_json::{Value, json};
use tests::{Host, PASSWORD, Person};

use crate::identity_matrix::code;

fn post(client: &Client, path: &str, from: &str, body: &Value) -> (u16, String, Option<String>) {
    let headers = [("content-type", "application/json"), ("x-forwarded-for", from)];
    let mut answer = client.send("POST", path, &headers, body.to_string().into_bytes()).unwrap();
    let retry = answer.headers().get("retry-after").map(|value| value.to_str().unwrap().to_owned());
    let text = String::from_utf8(answer.body_mut().read_to_vec().unwrap()).unwrap();
    (answer.status().as_u16(), text, retry)
}

fn try_login(host: &Host, email: &str, password: &str, from: &str) -> (u16, String, Option<String>) {
    post(&host.anonymous(), "/api/v1/auth/login", from, &json!({"email": email, "password": password}))
}

fn new_user(email: &str, role: &str) -> CreateUserRequest {
    CreateUserRequest {
        email: email.into(),
        name: "N".into(),
        role: role.into(),
        password: Some(Hidden(PASSWORD.into())),
        bcrypt: None,
    }
}

#[test]
fn idn_01_an_unclaimed_host_makes_no_user_without_the_secret_which_works_once() {
    let host = Host::builder().set("server.trusted_proxies", "127.0.0.1").unclaimed();
    let secret = host.secret().unwrap().to_owned();
    assert!(secret.len() >= 26, "128 bits or more");
    let nobody = host.anonymous();
    let clients =
        [nobody.clone(), nobody.with_token("x"), nobody.with_token(&secret), nobody.with_token("admin")];
    let user = json!({"email": "a@example.org", "name": "A", "role": "owner", "password": PASSWORD});
    let claim =
        |secret: &str| json!({"secret": secret, "email": "a@example.org", "name": "A", "password": PASSWORD});
    let mut refused = 0;
    for (n, client) in clients.iter().enumerate() {
        let from = format!("10.0.{n}.1");
        let guess = secret.chars().rev().collect::<String>();
        for (path, body) in [
            ("/api/v1/users", user.clone()),
            ("/api/v1/auth/login", json!({"email": "admin@example.org", "password": "admin"})),
            ("/api/v1/auth/bootstrap", claim("")),
            ("/api/v1/auth/bootstrap", claim(&guess)),
            ("/api/v1/auth/refresh", json!({"refresh_token": secret})),
        ] {
            let (status, text, _) = post(client, path, &from, &body);
            assert_eq!(status, 401, "{path}: {text}");
            refused += 1;
        }
    }
    assert_eq!(refused, 20);
    let (status, _, _) = post(&nobody, "/api/v1/auth/bootstrap", "10.0.9.1", &claim(&secret));
    assert_eq!(status, 201);
    let (status, text, _) = post(&nobody, "/api/v1/auth/bootstrap", "10.0.9.1", &claim(&secret));
    assert_eq!(status, 401, "{text}");
    let (status, text, _) = try_login(&host, "a@example.org", PASSWORD, "10.0.9.2");
    assert_eq!(status, 200);
    let tokens: api::TokenResponse = serde_json::from_str(&text).unwrap();
    let owner = nobody.with_token(&tokens.access_token.0);
    let users = owner.users(None, None, None).unwrap().items;
    assert_eq!(users.len(), 1, "{users:?}");
    // Strangers are on the record once per address and minute, and nothing else was begun.
    let filter = api::LedgerFilter { limit: Some(1_000), ..Default::default() };
    let entries = owner.ledger(&filter).unwrap().items;
    let by_strangers = entries.iter().filter(|entry| entry.action == "signin.refused").count();
    assert!((4..=10).contains(&by_strangers), "{by_strangers}");
    assert_eq!(entries.iter().filter(|entry| entry.action == "bootstrap.used").count(), 2, "opened, done");
}

#[test]
fn idn_01_the_program_holds_no_password_and_no_hash() {
    let program = std::fs::read(tests::program("palisaded")).unwrap();
    let program = String::from_utf8_lossy(&program);
    assert!(!program.contains("m=65536,t="), "no Argon2 hash");
    for lead in ["$2a$1", "$2b$1", "$2y$1"] {
        for (at, _) in program.match_indices(lead) {
            let tail = program.get(at + 7..at + 60).unwrap_or_default();
            let hash =
                tail.len() == 53 && tail.bytes().all(|b| b.is_ascii_alphanumeric() || b"./".contains(&b));
            assert!(!hash, "no bcrypt hash: {lead}");
        }
    }
    for word in ["letmein", "hunter2", "admin:admin", "password123"] {
        assert!(!program.contains(word), "{word}");
    }
}

#[test]
fn idn_02_a_wrong_password_an_unknown_and_a_disabled_account_answer_alike() {
    let host = Host::builder().set("server.trusted_proxies", "127.0.0.1").start();
    let gone = host.user("gone", "member");
    host.owner().client.disable_user(&gone.id).unwrap();
    let mut answers = Vec::new();
    for (n, (email, password)) in [
        ("owner@example.org", "wrong password here"),
        ("nobody@example.org", PASSWORD),
        ("gone@example.org", PASSWORD),
        ("gone@example.org", "wrong password here"),
        ("not an address", PASSWORD),
        ("", ""),
    ]
    .into_iter()
    .enumerate()
    {
        let (status, text, retry) = try_login(&host, email, password, &format!("10.0.1.{n}"));
        let problem: api::Problem = serde_json::from_str(&text).unwrap();
        answers.push((status, retry, text.replace(&problem.request_id, "")));
    }
    assert_eq!(answers.first().unwrap().0, 401);
    for answer in &answers {
        assert_eq!(Some(answer), answers.first());
    }
}

/// All roads by which a password comes in end in one form; what the API shows of it is nothing.
#[test]
fn idn_03_created_reset_changed_and_imported_passwords_all_sign_in_and_short_ones_do_not_come_in() {
    let host = Host::start();
    let owner = &host.owner().client;
    let created = owner.create_user(&new_user("a@example.org", "member")).unwrap();
    owner.reset_password(&created.id, "a password that was reset").unwrap();
    let login = |password: &str| {
        let body =
            LoginRequest { email: "a@example.org".into(), password: Hidden(password.into()), totp: None };
        host.anonymous().login(&body)
    };
    assert_eq!(login(PASSWORD).unwrap_err().code(), Some(Code::AuthFailed));
    login("a password that was reset").unwrap();
    for (field, value) in
        [("password", "short"), ("bcrypt", "$2b$10$abcdefghijklmnopqrstuvwxyz"), ("bcrypt", PASSWORD)]
    {
        let body = json!({"email": "b@example.org", "name": "B", "role": "member", field: value});
        let head = host.ledger_head();
        let (status, text, _) = post(owner, "/api/v1/users", "x", &body);
        assert_eq!((status, host.written_since(head)), (422, 1), "{text}");
        assert!(!text.contains(value), "the value is not repeated");
    }
    assert_eq!(owner.users(None, None, None).unwrap().items.len(), 2);
}

/// Every password hash and every digest that the stopped host keeps.
pub(crate) fn stored_digests(host: &Host) -> Vec<String> {
    let log = host.log();
    let file = log.lines().find_map(|line| line.strip_prefix("A master key was made: ")).unwrap();
    let master = vault::source::read_file(std::path::Path::new(file)).unwrap();
    let ring = runtime::ring_file(&host.data()).open(&master).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let engine = runtime::open_engine(&host.data(), &runtime::Source::Embedded, &ring).await.unwrap();
        let sql = "SELECT password FROM users UNION SELECT digest FROM refresh_tokens UNION SELECT digest FROM api_keys";
        let rows = engine.rows(sql, &[]).await.unwrap();
        rows.iter().map(|row| row.text(0).unwrap().to_owned()).collect()
    })
}

#[test]
fn idn_04_no_hash_token_or_digest_is_sent_or_logged() {
    let mut host = Host::builder().set("log.level", "trace").set("limits.requests_per_minute", "0").start();
    let mut said = Vec::new();
    let mut secrets: Vec<String> = Vec::new();
    let people: Vec<Person> =
        ["viewer", "member", "admin"].iter().map(|role| host.user(&format!("the-{role}"), role)).collect();
    let everyone: Vec<Person> = people.into_iter().chain([host.owner().clone()]).collect();
    for one in &everyone {
        secrets.push(one.tokens.access_token.0.clone());
        secrets.push(one.tokens.refresh_token.0.clone());
        let key = api::CreateKeyRequest { label: "k".into(), scope: "runs:read".into(), days: None };
        secrets.push(one.client.create_key(&key).unwrap().secret.into_text());
        let pass = api::MintPassRequest { label: "p".into(), grant: model::Grant::nothing(), minutes: None };
        secrets.push(one.client.mint_pass(&pass).unwrap().token.into_text());
        secrets.push(one.client.ticket().unwrap().ticket.into_text());
        let refreshed = host.anonymous().refresh(&one.tokens.refresh_token.0).unwrap();
        secrets.extend([refreshed.access_token.into_text(), refreshed.refresh_token.into_text()]);
    }
    secrets.push(PASSWORD.into());
    // From here on nothing that is said may hold any of them.
    let clients: Vec<Client> =
        everyone.iter().map(|one| one.client.clone()).chain([host.anonymous()]).collect();
    let ids: Vec<&String> = everyone.iter().map(|one| &one.id).collect();
    for client in &clients {
        let mut paths: Vec<String> = [
            "whoami",
            "status",
            "users",
            "repos",
            "worktrees",
            "policies",
            "ledger?limit=1000",
            "ledger/export",
            "ledger/trust",
        ]
        .iter()
        .map(|path| format!("/api/v1/{path}"))
        .collect();
        paths.extend(["/metrics", "/readyz", "/healthz"].map(str::to_owned));
        for id in &ids {
            paths.extend(["", "/keys", "/passes"].map(|rest| format!("/api/v1/users/{id}{rest}")));
        }
        for path in paths {
            let mut answer = client.send("GET", &path, &[], Vec::new()).unwrap();
            said.extend(format!("{:?}", answer.headers()).into_bytes());
            said.extend(answer.body_mut().with_config().limit(50_000_000).read_to_vec().unwrap());
        }
    }
    let refused =
        post(&host.anonymous(), "/api/v1/auth/login", "x", &json!({"email": "a@b", "password": PASSWORD}));
    said.extend(refused.1.into_bytes());
    host.stop();
    said.extend(host.log().into_bytes());
    // And what the store itself keeps of all that, read with the installation's own key.
    let stored = stored_digests(&host);
    assert!(stored.len() >= 12, "{}", stored.len());
    secrets.extend(stored);
    let text = String::from_utf8_lossy(&said);
    for secret in &secrets {
        assert!(!text.contains(secret), "{}…", secret.get(..8).unwrap_or_default());
    }
    for form in ["$argon2id$", "bcrypt+", "$2b$", "\"digest\"", "pal_key_", "pps_", "prt_", "ptk_"] {
        assert!(!text.contains(form), "{form}");
    }
}

#[test]
fn idn_05_an_altered_token_is_refused_and_a_life_has_bounds() {
    let host = Host::start();
    let token = &host.owner().tokens.access_token.0;
    let parts: Vec<&str> = token.split('.').collect();
    let [head, body, sign] = parts.as_slice() else { panic!("three parts") };
    let flipped = |text: &str| {
        let (first, rest) = text.split_at(1);
        format!("{}{rest}", if first == "A" { "B" } else { "A" })
    };
    for bad in [
        format!("{head}.{body}."),
        format!("{head}.{body}"),
        format!("{}.{body}.{sign}", flipped(head)),
        format!("{head}.{}.{sign}", flipped(body)),
        format!("{head}.{body}.{}", flipped(sign)),
        host.owner().tokens.refresh_token.0.clone(),
    ] {
        let refused = host.anonymous().with_token(&bad).whoami().unwrap_err();
        assert_eq!(refused.code(), Some(Code::AuthRequired), "{bad}");
    }
    for minutes in ["0", "10081"] {
        let mut host = Host::builder().set("access.token_minutes", minutes).stopped();
        assert!(host.start_daemon().unwrap_err().contains("token_minutes"), "{minutes}");
    }
    let host = Host::builder().set("access.token_minutes", "10080").start();
    let tokens = &host.owner().tokens;
    let life = tokens.access_expires - host.owner().client.status().unwrap().started_at;
    assert!((life - 7 * 24 * 3_600_000).abs() < 60_000, "{life}");
}

#[test]
fn idn_06_two_tabs_stay_signed_in() {
    let host = Host::start();
    let token = host.owner().tokens.refresh_token.0.clone();
    let tabs: Vec<_> = (0..2)
        .map(|_| {
            let (client, token) = (host.anonymous(), token.clone());
            std::thread::spawn(move || client.refresh(&token))
        })
        .collect();
    for tab in tabs {
        let tokens = tab.join().unwrap().unwrap();
        host.anonymous().with_token(&tokens.access_token.0).whoami().unwrap();
        host.anonymous().refresh(&tokens.refresh_token.0).unwrap();
    }
}

/// Reads a stream to its end on a thread, and tells when that was.
fn until_it_ends(client: &Client) -> std::sync::mpsc::Receiver<Instant> {
    let mut stream = client.events(None).unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut all = Vec::new();
        drop(stream.read_to_end(&mut all));
        let _ = tell.send(Instant::now());
    });
    told
}

#[test]
fn idn_07_what_ends_a_login_reaches_the_next_call_and_the_open_stream() {
    let host = Host::start();
    let owner = &host.owner().client;
    let new = "another password entirely";
    type Ending<'a> = (&'a str, Box<dyn Fn(&Person) + 'a>);
    let role = UpdateUserRequest { role: Some("viewer".into()), ..Default::default() };
    let endings: Vec<Ending<'_>> = vec![
        ("disable", Box::new(|one| owner.disable_user(&one.id).unwrap())),
        ("delete", Box::new(|one| owner.delete_user(&one.id).unwrap())),
        ("role", Box::new(|one| drop(owner.update_user(&one.id, &role).unwrap()))),
        ("reset", Box::new(|one| owner.reset_password(&one.id, new).unwrap())),
        (
            "password",
            Box::new(|one| {
                let body = api::ChangePasswordRequest {
                    current: Hidden(PASSWORD.into()),
                    new: Hidden(new.into()),
                    totp: None,
                };
                one.client.change_password(&body).unwrap();
            }),
        ),
        ("everywhere", Box::new(|one| one.client.logout_everywhere().unwrap())),
        ("by an admin", Box::new(|one| owner.sign_out_user(&one.id).unwrap())),
        ("logout", Box::new(|one| one.client.logout().unwrap())),
    ];
    for (n, (what, end)) in endings.into_iter().enumerate() {
        let one = host.user(&format!("user{n}"), "member");
        let ended = until_it_ends(&one.client);
        one.client.whoami().unwrap();
        end(&one);
        let started = Instant::now();
        assert_eq!(one.client.whoami().unwrap_err().status(), Some(401), "{what}");
        assert!(host.anonymous().refresh(&one.tokens.refresh_token.0).is_err(), "{what}");
        let at = ended
            .recv_timeout(Duration::from_secs(5))
            .unwrap_or_else(|_| panic!("{what}: the stream goes on"));
        assert!(at.saturating_duration_since(started) < Duration::from_secs(1), "{what}");
    }
}

#[test]
fn idn_10_nobody_raises_himself_and_the_last_owner_stays() {
    let host = Host::start();
    let owner = host.owner();
    let role = |word: &str| UpdateUserRequest { role: Some(word.into()), ..Default::default() };
    for name in ["viewer", "member", "admin"] {
        let one = host.user(&format!("a-{name}"), name);
        for word in ["viewer", "member", "admin", "owner"] {
            let head = host.ledger_head();
            assert_eq!(
                one.client.update_user(&one.id, &role(word)).unwrap_err().status(),
                Some(403),
                "{name} {word}"
            );
            assert_eq!(host.written_since(head), 1);
        }
        assert_eq!(owner.client.user(&one.id).unwrap().role, name);
    }
    let head = host.ledger_head();
    for word in ["viewer", "owner"] {
        assert_eq!(
            owner.client.update_user(&owner.id, &role(word)).unwrap_err().status(),
            Some(403),
            "{word}"
        );
    }
    assert_eq!(host.written_since(head), 2);
    assert_eq!(owner.client.disable_user(&owner.id).unwrap_err().status(), Some(409));
    assert_eq!(owner.client.delete_user(&owner.id).unwrap_err().status(), Some(409));
    // An admin makes no admin, and touches none; an owner edits every lower role.
    let admin = host.user("boss", "admin");
    for made in ["admin", "owner"] {
        let refused = admin.client.create_user(&new_user("x@example.org", made)).unwrap_err();
        assert_eq!(refused.status(), Some(403), "{made}");
    }
    let people = owner.client.users(None, None, None).unwrap().items;
    let id_of =
        |role: &str| people.iter().find(|one| one.role == role && one.id != admin.id).unwrap().id.clone();
    for id in [id_of("admin"), owner.id.clone()] {
        assert_eq!(admin.client.update_user(&id, &role("member")).unwrap_err().status(), Some(403));
        assert_eq!(admin.client.disable_user(&id).unwrap_err().status(), Some(403));
        assert_eq!(admin.client.reset_password(&id, PASSWORD).unwrap_err().status(), Some(403));
    }
    assert_eq!(admin.client.update_user(&id_of("member"), &role("admin")).unwrap_err().status(), Some(403));
    for (from, to) in [("viewer", "owner"), ("member", "admin"), ("admin", "viewer")] {
        assert_eq!(owner.client.update_user(&id_of(from), &role(to)).unwrap().role, to);
    }
    // With a second owner the first may go.
    let second = people.iter().find(|one| one.role == "viewer").unwrap();
    assert_eq!(owner.client.user(&second.id).unwrap().role, "owner");
    owner.client.disable_user(&owner.id).unwrap();
}

#[test]
fn idn_13_guessing_is_slowed_and_nothing_resets_it() {
    let mut host = Host::start();
    // No trusted proxy is set: what the header says is not believed.
    for n in 0..5 {
        let (status, text, _) = try_login(&host, "owner@example.org", "wrong", &format!("10.9.0.{n}"));
        assert_eq!(status, 401, "{text}");
    }
    let throttled = |host: &Host, from: &str| {
        let (status, text, retry) = try_login(host, "owner@example.org", PASSWORD, from);
        assert_eq!(status, 429, "{text}");
        let seconds: u64 = retry.unwrap().parse().unwrap();
        assert!((1..=61).contains(&seconds), "{seconds}");
    };
    throttled(&host, "10.9.1.1");
    throttled(&host, "203.0.113.9, 127.0.0.1");
    host.restart();
    throttled(&host, "10.9.1.2");
    let (status, _, _) = try_login(&host, "nobody@example.org", PASSWORD, "10.9.1.3");
    assert_eq!(status, 429, "the address counts for every account");
    host.owner().client.whoami().unwrap();
}

#[test]
fn idn_15_one_time_passwords_go_on_are_asked_for_and_go_off() {
    let host = Host::builder().set("log.level", "trace").start();
    let ana = host.user("ana", "member");
    let offer = ana.client.offer_totp().unwrap();
    let confirm = |code: String| ConfirmTotpRequest {
        handle: offer.handle.clone(),
        code: Hidden(code),
        password: Hidden(PASSWORD.into()),
    };
    assert!(!ana.client.whoami().unwrap().user.totp, "an offer changes nothing");
    let head = host.ledger_head();
    assert_eq!(ana.client.confirm_totp(&confirm("000000".into())).unwrap_err().status(), Some(401));
    assert_eq!(host.written_since(head), 1);
    // Once: a code of a little later may be another.
    let used = code(&offer.link.0, 0);
    ana.client.confirm_totp(&confirm(used.clone())).unwrap();
    assert!(ana.client.whoami().unwrap().user.totp);
    assert_eq!(ana.client.offer_totp().unwrap_err().status(), Some(409), "on already");

    let login = |totp: Option<String>| {
        let body = LoginRequest {
            email: ana.email.clone(),
            password: Hidden(PASSWORD.into()),
            totp: totp.map(Hidden),
        };
        host.anonymous().login(&body)
    };
    assert_eq!(login(None).unwrap_err().code(), Some(Code::TotpRequired));
    assert_eq!(login(Some(used)).unwrap_err().code(), Some(Code::AuthFailed), "used to confirm");
    let next = code(&offer.link.0, 1);
    let remove =
        |totp: &str| RemoveTotpRequest { password: Hidden(PASSWORD.into()), totp: Hidden(totp.into()) };
    assert_eq!(ana.client.remove_totp(&remove("000000")).unwrap_err().status(), Some(401));
    ana.client.remove_totp(&remove(&next)).unwrap();
    assert!(!ana.client.whoami().unwrap().user.totp);
    let seed = offer.link.0.split_once("secret=").unwrap().1.split('&').next().unwrap();
    let log = host.log();
    assert!(!log.contains(seed) && !log.contains(&offer.handle.0), "the seed is in no log");
    let entries =
        host.ledger(&api::LedgerFilter { action: Some("totp.change".into()), ..Default::default() });
    assert!(entries.iter().all(|entry| !entry.line.contains(seed)));
}

#[test]
fn idn_18_of_fifty_parallel_creates_one_wins_and_a_prefix_finds_it() {
    one_wins(&Host::builder().set("limits.requests_per_minute", "0").start());
}

#[test]
fn idn_18_of_fifty_parallel_creates_one_wins_on_postgresql() {
    let host = Host::builder().set("limits.requests_per_minute", "0").on_postgresql().start();
    assert_eq!(host.owner().client.status().unwrap().store, "postgres");
    one_wins(&host);
}

fn one_wins(host: &Host) {
    let tries: Vec<_> = (0..tests::scale(50, 8))
        .map(|n| {
            let client = host.owner().client.clone();
            let email = if n % 2 == 0 { "Same@example.org" } else { "same@Example.org" };
            std::thread::spawn(move || client.create_user(&new_user(email, "member")))
        })
        .collect();
    let done: Vec<_> = tries.into_iter().map(|one| one.join().unwrap()).collect();
    let made: Vec<_> = done.iter().filter_map(|one| one.as_ref().ok()).collect();
    assert_eq!(made.len(), 1);
    assert!(done.iter().filter_map(|one| one.as_ref().err()).all(|error| error.status() == Some(409)));
    let owner = &host.owner().client;
    assert_eq!(owner.users(None, None, None).unwrap().items.len(), 2);
    let id = &made.first().unwrap().id;
    let short = id.get(..16).unwrap();
    let found = owner.users(Some(short), None, Some(10)).unwrap();
    assert_eq!(found.items.iter().map(|one| &one.id).collect::<Vec<_>>(), [id]);
    assert_eq!(
        owner.users(Some("usr_"), None, Some(1)).unwrap().items.len(),
        1,
        "at most as many as asked for"
    );
    assert!(owner.users(Some("usr_zz"), None, None).unwrap().items.is_empty());
    owner.delete_user(id).unwrap();
    assert!(owner.users(Some(short), None, None).unwrap().items.is_empty());
    owner.create_user(&new_user("same@example.org", "viewer")).unwrap();
}
