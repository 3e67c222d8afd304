//! Pairing a device with a code, and actions that ask for a one-time password.

use api::{Client, Code, ConfirmTotpRequest, CreateKeyRequest, Hidden, LedgerFilter};
use serde_json::Value;
use tests::{Host, PASSWORD, Person};

use crate::identity_matrix::code;

fn device(scope: &str) -> CreateKeyRequest {
    CreateKeyRequest { label: "phone".into(), scope: scope.into(), days: Some(7) }
}

fn decisions(host: &Host, action: &str) -> Vec<String> {
    let filter = LedgerFilter { action: Some(action.into()), ..LedgerFilter::default() };
    let mut entries = host.ledger(&filter);
    entries.sort_by_key(|entry| entry.seq);
    entries.into_iter().map(|entry| entry.decision).collect()
}

fn pair_from(host: &Host, code: &str, from: &str) -> (u16, Option<String>) {
    let headers = [("content-type", "application/json"), ("x-forwarded-for", from)];
    let body = serde_json::json!({ "code": code }).to_string().into_bytes();
    let answer = host.anonymous().send("POST", "/api/v1/auth/pair", &headers, body).unwrap();
    let retry = answer.headers().get("retry-after").map(|value| value.to_str().unwrap().to_owned());
    (answer.status().as_u16(), retry)
}

#[test]
fn idn_14_a_code_pairs_one_device_once_and_what_it_gives_can_be_seen_and_ended() {
    let host = Host::start();
    let ana = host.user("ana", "member");
    let offer = ana.client.offer_pairing(&device("runs:manage")).unwrap();
    let code = offer.code.0.clone();
    assert_eq!(code.len(), 11, "ten letters of five bits, and a dash: {code}");

    // As people type it.
    let made = host.anonymous().pair(&code.to_lowercase().replace('-', " ")).unwrap();
    assert!(made.secret.0.len() >= 43 + 40, "256 bits besides the id");
    assert_eq!((made.key.user.as_str(), made.key.scope.as_str()), (ana.id.as_str(), "runs:manage"));
    let phone = host.anonymous().with_token(&made.secret.0);
    assert_eq!(phone.whoami().unwrap().user.id, ana.id);
    assert_eq!(phone.users(None, None, None).unwrap().items.len(), 2);
    assert_eq!(phone.create_key(&device("runs:read")).unwrap_err().status(), Some(403), "not by a device");
    assert_eq!(phone.offer_pairing(&device("runs:read")).unwrap_err().status(), Some(403), "nor this");
    assert_eq!(host.anonymous().pair(&code).unwrap_err().status(), Some(401), "used");

    let listed = ana.client.keys(&ana.id, None).unwrap().items;
    assert!(listed.iter().any(|key| key.id == made.key.id && key.label == "phone"));
    assert_eq!(decisions(&host, "pairing.used"), ["allowed", "done"]);
    for (what, end) in [
        (
            "revoke",
            Box::new(|key: &str, _: &Client| ana.client.revoke_key(key)) as Box<dyn Fn(&str, &Client) -> _>,
        ),
        ("its own sign-out", Box::new(|_: &str, phone: &Client| phone.logout())),
    ] {
        let offer = ana.client.offer_pairing(&device("runs:read")).unwrap();
        let made = host.anonymous().pair(&offer.code.0).unwrap();
        let phone = host.anonymous().with_token(&made.secret.0);
        phone.whoami().unwrap();
        end(&made.key.id, &phone).unwrap();
        assert_eq!(phone.whoami().unwrap_err().status(), Some(401), "{what}");
    }
    assert!(phone.whoami().is_ok(), "another device is not touched");
    let offer = ana.client.offer_pairing(&device("runs:read")).unwrap();
    ana.client.logout_everywhere().unwrap();
    assert_eq!(phone.whoami().unwrap_err().status(), Some(401), "everywhere is everywhere");
    assert_eq!(
        host.anonymous().pair(&offer.code.0).unwrap_err().status(),
        Some(401),
        "nor a code from before"
    );

    let log = host.log();
    for secret in [&code, &offer.code.0, &made.secret.0] {
        assert!(!log.contains(secret.as_str()), "no code and no key is in the log");
    }
}

#[test]
fn idn_14_five_wrong_codes_lock_the_address_also_over_a_restart() {
    let mut host = Host::builder().set("server.trusted_proxies", "127.0.0.1").start();
    let offer = host.owner().client.offer_pairing(&device("runs:read")).unwrap();
    for _ in 0..5 {
        assert_eq!(pair_from(&host, "AAAAA-AAAAA", "10.7.0.1").0, 401);
    }
    let (status, retry) = pair_from(&host, &offer.code.0, "10.7.0.1");
    assert_eq!(status, 429, "even with the right code");
    let retry: u64 = retry.unwrap().parse().unwrap();
    assert!((500..=601).contains(&retry), "for the life of a code: {retry}");
    host.restart();
    assert_eq!(pair_from(&host, &offer.code.0, "10.7.0.1").0, 429, "a restart resets nothing");
    assert_eq!(pair_from(&host, &offer.code.0, "10.7.0.2").0, 201, "another address is not locked");
}

#[test]
fn idn_14_of_many_who_bring_one_code_one_gets_a_key() {
    let host = Host::builder().set("limits.requests_per_minute", "0").start();
    let offer = host.owner().client.offer_pairing(&device("runs:read")).unwrap();
    let tries: Vec<_> = (0..4)
        .map(|_| {
            let (client, code) = (host.anonymous(), offer.code.0.clone());
            std::thread::spawn(move || client.pair(&code).is_ok())
        })
        .collect();
    let won = tries.into_iter().map(|one| one.join().unwrap()).filter(|won| *won).count();
    assert_eq!(won, 1);
    let owner = host.owner();
    assert_eq!(owner.client.keys(&owner.id, None).unwrap().items.len(), 1);
}

fn turn_on(person: &Person) -> String {
    let offer = person.client.offer_totp().unwrap();
    let confirm = ConfirmTotpRequest {
        handle: offer.handle,
        code: Hidden(code(&offer.link.0, 0)),
        password: Hidden(PASSWORD.into()),
    };
    person.client.confirm_totp(&confirm).unwrap();
    offer.link.into_text()
}

#[test]
fn idn_15_chosen_actions_need_a_code_of_their_own() {
    let host = Host::builder().set("access.totp_actions", "worktree.delete, key.create").start();
    let repo = host.repo("demo");
    let owner = host.owner();
    let first = owner.worktree(&repo, "one", "session").id;
    let head = host.ledger_head();
    let refused = owner.client.delete_worktree(&first).unwrap_err();
    assert_eq!(refused.code(), Some(Code::TotpRequired), "{refused}");
    assert!(refused.to_string().contains("totp-on"), "it says what to do: {refused}");
    assert_eq!(host.written_since(head), 1, "one refusal");
    owner.client.worktree(&first).unwrap();

    let link = turn_on(owner);
    assert_eq!(owner.client.delete_worktree(&first).unwrap_err().code(), Some(Code::TotpRequired));
    let wrong = owner.client.with_totp("000000").delete_worktree(&first).unwrap_err();
    assert_eq!(wrong.code(), Some(Code::AuthFailed));
    let with_code = owner.client.with_totp(&code(&link, 1));
    // What does not ask for a code does not use it up.
    with_code.worktree(&first).unwrap();
    with_code.update_worktree(&first, "said").unwrap();
    with_code.delete_worktree(&first).unwrap();
    let second = owner.worktree(&repo, "two", "session").id;
    assert_eq!(with_code.delete_worktree(&second).unwrap_err().code(), Some(Code::AuthFailed), "used");
    owner.client.worktree(&second).unwrap();

    let filter = LedgerFilter { action: Some("worktree.delete".into()), ..LedgerFilter::default() };
    let entries = host.ledger(&filter);
    let opened: Vec<&api::LedgerEntry> = entries.iter().filter(|entry| entry.decision == "allowed").collect();
    assert_eq!(opened.len(), 1);
    let line: Value = serde_json::from_str(&opened.first().unwrap().line).unwrap();
    assert!(line.to_string().contains("\"totp\""), "the record says that a code was shown: {line}");
    assert_eq!(entries.iter().filter(|entry| entry.decision == "refused").count(), 4);

    // Who may not do it at all is told so, and does not learn of the rule.
    let vic = host.user("vic", "viewer");
    assert_eq!(vic.client.delete_worktree(&second).unwrap_err().status(), Some(403));
}

#[test]
fn idn_15_what_cannot_ask_is_refused_at_load() {
    for (value, told) in
        [("worktree.read", "worktree.read"), ("no.such", "no.such"), ("totp.change", "totp.change")]
    {
        let mut host = Host::builder().set("access.totp_actions", value).stopped();
        let error = host.start_daemon().unwrap_err();
        assert!(error.contains("access.totp_actions") && error.contains(told), "{error}");
    }
}
