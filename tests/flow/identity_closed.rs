//! A store that cannot be asked closes the door: what nobody can look up is never taken for good.

use api::{Client, Code, CreateRepoRequest, Hidden, LoginRequest};
use tests::{Host, PASSWORD};

use crate::calls::{new_key, new_pass};
use crate::gateway_wire::{psql, until};

/// A database that can be shut while its server, which other tests use too, goes on.
struct Shut<'a> {
    elsewhere: String,
    name: &'a str,
}

impl<'a> Shut<'a> {
    fn new(url: &'a str) -> Self {
        let (server, name) = url.rsplit_once('/').unwrap();
        let shut = Self { elsewhere: format!("{server}/postgres"), name };
        shut.accepts(false);
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname =";
        psql(&shut.elsewhere, &format!("{end} '{name}'"));
        shut
    }

    fn accepts(&self, connections: bool) {
        let Self { elsewhere, name } = self;
        psql(elsewhere, &format!("ALTER DATABASE {name} WITH ALLOW_CONNECTIONS {connections}"));
    }
}

/// IDN-08: with the database away every kind of credential is answered 503 by whatever needs the store, also one that
/// was good a moment ago and is remembered; nothing is done, and when the database is back they are good again.
#[test]
fn idn_08_an_unreadable_store_closes_and_never_opens() {
    let (url, key) = (tests::database(), tests::master_key());
    let host = Host::builder()
        .set("store.url", &url)
        .set("limits.requests_per_minute", "0")
        .variable("PALISADE_MASTER_KEY", &key)
        .start();
    let owner = &host.owner().client;
    let ana = host.user("ana", "member");
    let with = |token: &str| host.anonymous().with_token(token);
    let grant = serde_json::from_str(r#"{"tools":{"allow":["*"]}}"#).unwrap();
    let pass = api::MintPassRequest { grant, ..new_pass() };
    let credentials: [(&str, Client); 5] = [
        ("a login", owner.clone()),
        ("another's login", ana.client.clone()),
        ("a key", with(&owner.create_key(&new_key()).unwrap().secret.0)),
        ("a Pass", with(&owner.mint_pass(&pass).unwrap().token.0)),
        ("a login that nobody used yet", host.owner().login(&host).client),
    ];
    for (what, client) in credentials.iter().take(4) {
        assert!(client.whoami().is_ok(), "{what} is remembered");
    }
    let refresh = ana.tokens.refresh_token.0.clone();

    let shut = Shut::new(&url);
    until("the daemon notices", || host.anonymous().ready().is_ok_and(|health| health.status != "ok"));
    assert!(host.anonymous().live().is_ok(), "the process runs");
    let repo = CreateRepoRequest {
        name: "late".into(),
        origin: "https://forge.example/a/b".into(),
        ..Default::default()
    };
    for (what, client) in &credentials {
        let told = [
            ("whoami", client.whoami().map(drop)),
            ("users", client.users(None, None, None).map(drop)),
            ("worktrees", client.worktrees(&api::WorktreeFilter::default()).map(drop)),
            ("ledger", client.ledger(&api::LedgerFilter::default()).map(drop)),
            ("ticket", client.ticket().map(drop)),
            ("events", client.events(None).map(drop)),
            ("create", client.create_repo(&repo).map(drop)),
            ("sign out", client.logout()),
        ];
        for (operation, outcome) in told {
            let error = outcome.expect_err(operation);
            assert_eq!(
                (error.status(), error.code()),
                (Some(503), Some(Code::Unavailable)),
                "{what}: {operation}: {error}"
            );
        }
    }
    // What was decided before and needs nothing of the store, such as the daemon's own state, may still be told to
    // whoever it was told to; a credential that nobody looked up is good for nothing.
    let (_, new) = &credentials[4];
    assert_eq!(new.status().unwrap_err().status(), Some(503));
    let login = LoginRequest { email: ana.email.clone(), password: Hidden(PASSWORD.into()), totp: None };
    assert_eq!(host.anonymous().login(&login).unwrap_err().status(), Some(503));
    assert_eq!(host.anonymous().refresh(&refresh).unwrap_err().status(), Some(503));
    // Whoever has nothing, or what cannot be one of ours, gets in no more than before.
    assert_eq!(host.anonymous().whoami().unwrap_err().status(), Some(401));
    let stranger = with("pal_key_0123456789abcdef").whoami().unwrap_err();
    assert!(matches!(stranger.status(), Some(401 | 503)), "{stranger}");

    shut.accepts(true);
    until("it is back", || host.anonymous().ready().is_ok_and(|health| health.status == "ok"));
    for (what, client) in &credentials {
        assert!(client.whoami().is_ok(), "{what} was neither used up nor ended");
    }
    assert!(owner.repos(None).unwrap().items.is_empty(), "nothing was made");
    assert!(host.anonymous().refresh(&refresh).is_ok());
}
