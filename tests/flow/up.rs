//! From `palisade up` to an installation with an owner, and to its end: what a newcomer does.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Output, Stdio};

use api::{Hidden, LoginRequest};
use serde_json::Value;
use tests::{Host, PASSWORD};

use crate::calls::Stage;

fn login(host: &Host) -> api::Client {
    let body =
        LoginRequest { email: "owner@example.org".into(), password: Hidden(PASSWORD.into()), totp: None };
    let tokens = host.anonymous().login(&body).unwrap();
    host.anonymous().with_token(&tokens.access_token.0)
}

/// The line that follows this one in what the daemon said.
fn after(host: &Host, line: &str) -> String {
    let log = host.log();
    let mut lines = log.lines().skip_while(|one| !one.starts_with(line));
    lines.nth(1).unwrap_or_else(|| panic!("{log}")).trim().to_owned()
}

/// IDN-01: the printed link makes the first owner, once; SIGTERM ends what `palisade up` became.
#[test]
fn idn_01_the_link_that_up_prints_makes_the_owner() {
    let mut host = Host::builder().through("palisade").unclaimed();
    let comm = std::fs::read_to_string(format!("/proc/{}/comm", host.pid())).unwrap();
    assert_eq!(comm.trim(), "palisaded", "a signal to `palisade up` reaches the daemon");
    let link = after(&host, "There is no owner yet.");
    let secret = host.secret().unwrap().to_owned();
    assert_eq!(link, format!("{}/setup?secret={secret}", host.base()));
    let page = host.anonymous().setup_page(&secret).unwrap();
    assert!(page.contains("<form"), "{page}");
    let body = Stage::unclaimed(&host).setup();
    host.anonymous().fill_setup(&body).unwrap();
    assert_eq!(host.anonymous().bootstrap(&body).unwrap_err().status(), Some(401), "once");
    let owner = login(&host);
    assert_eq!(owner.whoami().unwrap().user.role, "owner");
    assert_eq!(owner.status().unwrap().mode, "solo");

    host.stop();
    host.start_daemon().unwrap();
    assert_eq!(host.log().matches("/setup?secret=").count(), 1, "there is an owner now");
    assert_eq!(login(&host).verify_ledger().unwrap().verdict, "intact");
    host.stop();
}

/// ACC-23 and IDN-01: the same in mode `team`, by the command that is printed, typed as it stands there.
#[test]
fn acc_23_a_team_begins_with_the_command_that_up_prints() {
    let key = tests::master_key();
    let mut keyless = Host::builder().set("mode", "team").through("palisade").stopped();
    let said = keyless.start_daemon().unwrap_err();
    assert!(said.contains("mode `team` needs a master key"), "{said}");

    let around = tempfile::tempdir().unwrap();
    let place = around.path().join("it's a place");
    std::fs::DirBuilder::new().create(&place).unwrap();
    std::fs::set_permissions(&place, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let team = Host::builder().set("mode", "team").variable("PALISADE_MASTER_KEY", &key).in_folder(&place);
    let mut host = team.through("palisade").unclaimed();
    let init = after(&host, "or run:");
    assert!(init.starts_with("palisade --config '") && init.contains("init pbs_"), "{init}");
    let output = typed(&format!("{init} --email owner@example.org --name Owner --password-stdin"), PASSWORD);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(place.join("credentials.toml").exists(), "signed in at the installation that was named");

    let owner = login(&host);
    let status = owner.status().unwrap();
    assert_eq!((status.mode.as_str(), status.worktree_rbac), ("team", true));
    let person = api::CreateUserRequest {
        email: "bo@example.org".into(),
        name: "Bo".into(),
        role: "member".into(),
        password: Some(Hidden(PASSWORD.into())),
        bcrypt: None,
    };
    owner.create_user(&person).unwrap();
    let repo = api::CreateRepoRequest {
        name: "demo".into(),
        origin: "https://forge.example/a/b".into(),
        ..Default::default()
    };
    let hidden = api::CreateWorktreeRequest {
        repo: owner.create_repo(&repo).unwrap().id,
        name: "one".into(),
        about: String::new(),
        tier: Some("none".into()),
        branch: None,
        base: None,
    };
    let hidden = owner.create_worktree(&hidden).unwrap();
    let body = LoginRequest { email: "bo@example.org".into(), password: Hidden(PASSWORD.into()), totp: None };
    let tokens = host.anonymous().login(&body).unwrap();
    let bo = host.anonymous().with_token(&tokens.access_token.0);
    assert_eq!(bo.worktree(&hidden.id).unwrap_err().status(), Some(404));
    host.stop();
}

/// A command as it is typed, with the programs of this build on the path and no configuration but what it names.
fn typed(line: &str, input: &str) -> Output {
    let folder = tests::program("palisade").parent().unwrap().to_owned();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    tests::fed(Command::new("sh").args(["-c", line]).env_clear().env("PATH", path), input)
}

/// The one document that `palisade --json up` printed when it did not start.
fn refused(host: &Host, more: &[&str]) -> String {
    let output = host.command("palisade").args(["--json", "up"]).args(more).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{more:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    let document: Value = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{more:?}: {said:?}"));
    assert_eq!((&document["ok"], &document["command"]), (&false.into(), &"up".into()), "{said}");
    assert_eq!(document["error"]["code"], "program", "{said}");
    document["error"]["message"].as_str().unwrap().to_owned()
}

/// AUT-14: `--json` also tells why the daemon does not start, however far it came.
#[test]
fn aut_14_up_tells_programs_why_it_does_not_start() {
    let host = Host::builder().stopped();
    assert!(refused(&host, &["--set", "mod=solo"]).contains("unknown key `mod`"));
    assert!(refused(&host, &["--set", "mode=choir"]).contains("expected `solo` or `team`"));
    assert!(refused(&host, &["--set", "mode=team"]).contains("needs a master key"));
    // Here a key is made before, which is not for programs.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = format!("server.listen={}", taken.local_addr().unwrap());
    let why = refused(&host, &["--set", &taken]);
    assert!(why.contains("cannot be listened on"), "{why}");
    assert!(host.place().join("master.key").exists());
    let url = "store.url=postgres://palisade:hunter2hunter2@127.0.0.1:1/none";
    let why = refused(&host, &["--set", url]);
    assert!(!why.contains("hunter2"), "{why}");

    let running = Host::start();
    let why = refused(&running, &["--set", "server.listen=127.0.0.1:0"]);
    assert!(why.contains(&format!("another daemon (process {})", running.pid())), "{why}");
}

/// Ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// AUT-14: one document when it starts: where, and how it gets an owner. Nothing else on standard output.
#[test]
fn aut_14_up_tells_programs_where_it_listens() {
    let host = Host::builder().stopped();
    let mut command = host.command("palisade");
    command.args([
        "--json",
        "up",
        "--set",
        "server.listen=127.0.0.1:0",
        "--set",
        "metrics.listen=127.0.0.1:0",
    ]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut running = Running(child);
    let mut said = BufReader::new(running.0.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let document: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"));
    assert_eq!((&document["ok"], &document["command"]), (&true.into(), &"up".into()), "{line}");
    let text = |name: &str| document["result"][name].as_str().unwrap().to_owned();
    let secret = text("setup").split_once("/setup?secret=").unwrap().1.to_owned();
    assert!(text("setup").starts_with(&text("url")) && text("init").ends_with(&secret), "{line}");
    let client = api::Client::new(&text("url"), None).unwrap();
    let body = api::BootstrapRequest {
        secret: Hidden(secret),
        email: "owner@example.org".into(),
        name: "Owner".into(),
        password: Hidden(PASSWORD.into()),
    };
    crate::gateway_wire::until("it answers", || client.live().is_ok());
    client.bootstrap(&body).unwrap();
    let pid = rustix::process::Pid::from_child(&running.0);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert!(running.0.wait().unwrap().success());
    assert_eq!(rest, "", "one document");
}
