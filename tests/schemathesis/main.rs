//! GTW-07: the description is the API. `schemathesis` reads docs/openapi.json and tries to catch the daemon
//! contradicting it, with all of its checks.
//!
//! It acts as a user of its own, whose account and key are protected by policies: what could end the run is
//! refused by the gate, not left out. What is left out stands with its reason in `schemathesis.toml`.

use std::path::{Path, PathBuf};
use std::process::Command;

use api::CreateKeyRequest;
use tests::{Host, scale};

/// The version whose checks this API passes.
const SCHEMATHESIS: &str = "schemathesis==4.32.5";

/// The program in a virtual environment that is made once per target directory.
fn program() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(SCHEMATHESIS.replace("==", "-"));
    let (program, ready) = (folder.join("bin/schemathesis"), folder.join("ready"));
    if !ready.exists() {
        let run = |command: &mut Command| {
            let output = command.output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(
                output.status.success(),
                "{SCHEMATHESIS} could not be installed (is there a network?): {said}"
            );
        };
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder));
        run(Command::new(folder.join("bin/pip")).args([
            "install",
            "--quiet",
            "--disable-pip-version-check",
            SCHEMATHESIS,
        ]));
        std::fs::write(ready, "").unwrap();
    }
    program
}

/// GTW-07, GTW-09: every answer is one that the description names, and nothing that it forbids is taken.
#[test]
fn gtw_07_schemathesis_finds_no_contradiction() {
    let program = program();
    let host = Host::builder().set("limits.requests_per_minute", "0").start();
    let robot = host.user("robot", "owner");
    let key = robot
        .client
        .create_key(&CreateKeyRequest { label: "schemathesis".into(), scope: "admin".into(), days: None })
        .unwrap();
    let me = &robot.id;
    let account = r#"[Action::"user.update", Action::"user.disable", Action::"user.delete", Action::"user.reset", Action::"signin.end_all"]"#;
    for (id, text) in [
        ("robot-account", format!(r#"forbid (principal, action in {account}, resource == User::"{me}");"#)),
        (
            "robot-key",
            format!(
                r#"forbid (principal, action == Action::"key.revoke", resource == Key::"{}");"#,
                key.key.id
            ),
        ),
        (
            "robot-policies",
            format!(r#"forbid (principal == User::"{me}", action == Action::"policy.remove", resource);"#),
        ),
    ] {
        host.owner().client.add_policy(id, &text).unwrap();
    }

    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(program)
        .arg("--config-file")
        .arg(here.join("schemathesis/schemathesis.toml"))
        .arg("run")
        .arg(here.join("../docs/openapi.json"))
        .args(["--url", host.base(), "--workers", "1", "--no-color", "--warnings", "off"])
        .args([
            "--max-examples",
            &scale(100, 12).to_string(),
            "--request-timeout",
            "20",
            "--continue-on-failure",
        ])
        .args(["--generation-database", "none"])
        .arg("--header")
        .arg(format!("Authorization: Bearer {}", key.secret.0))
        .current_dir(folder.path())
        .env_remove("HTTP_PROXY")
        .env_remove("http_proxy")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));

    let robot = host.anonymous().with_token(&key.secret.0);
    assert_eq!(robot.whoami().unwrap().user.role, "owner", "the run was not cut short");
    let log = host.log();
    assert!(!log.contains("failed at"), "a part of the daemon failed: {log}");
    assert_eq!(robot.verify_ledger().unwrap().verdict, "intact");
}
