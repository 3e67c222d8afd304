//! What settings are refused, and what they come to.

use super::*;

fn places() -> Places {
    Places { config: "/etc/palisade/config.toml".into(), data: "/var/lib/palisade".into() }
}

fn load(file: &str) -> Result<Settings, String> {
    Settings::resolve(&places(), Some(file), |_| None, &[]).map_err(|error| error.to_string())
}

#[test]
fn aut_15_flag_over_environment_over_file_over_default() {
    let file = "[server]\nlisten = \"127.0.0.1:1\"\n";
    let environment = |name: &str| (name == "PALISADE_SERVER_LISTEN").then(|| "127.0.0.1:2".to_owned());
    let flags = [("server.listen".to_owned(), "127.0.0.1:3".to_owned())];
    let port = |settings: Settings| settings.listen.port();
    assert_eq!(port(load("").unwrap()), 7717);
    assert_eq!(port(load(file).unwrap()), 1);
    assert_eq!(port(Settings::resolve(&places(), Some(file), environment, &[]).unwrap()), 2);
    assert_eq!(port(Settings::resolve(&places(), Some(file), environment, &flags).unwrap()), 3);
}

#[test]
fn aut_15_what_is_wrong_is_refused_with_its_line() {
    for (file, expected) in [
        (
            "mode = \"solo\"\n\n[server]\nlisten = \"127.0.0.1:1\"\nlisen = 3\n",
            "config.toml:5: unknown key `server.lisen`",
        ),
        ("\nmode = \"many\"\n", "config.toml:2: `mode`: expected `solo` or `team`"),
        ("[limits]\nsockets = -1\n", "config.toml:2: `limits.sockets`: expected a number"),
        (
            "[access]\n\nworktree_rbac = \"maybe\"\n",
            "config.toml:3: `access.worktree_rbac`: expected true or false",
        ),
        (
            "[ledger]\nretention_days = 3651\n",
            "config.toml:2: `ledger.retention_days`: expected a number from 1 to 3650",
        ),
        ("mode = \"solo\"\nmode = \"team\"\n", "config.toml:2: not TOML"),
        ("mode = \n", "config.toml:1: not TOML"),
        ("[server.deep]\nx = 1\n", "unknown key `server.deep`"),
        ("[server]\ncors_origins = [\"*\"]\n", "config.toml:2: `server.cors_origins`: `*` does not do"),
        (
            "[metrics]\nlisten = \"0.0.0.0:9717\"\n",
            "config.toml:2: `metrics.listen`: expected a loopback address",
        ),
        ("[metrics]\n\nlisten = \"9717\"\n", "config.toml:3: `metrics.listen`: expected `address:port`"),
        ("[store]\nurl = \"mysql://x\"\n", "config.toml:2: `store.url`: expected `postgres://…`"),
    ] {
        let error = load(file).unwrap_err();
        assert!(error.contains(expected), "{file:?}: {error}");
    }
}

#[test]
fn led_13_the_ledger_is_kept_for_a_year_unless_told() {
    assert_eq!(load("").unwrap().retention_days, 365);
    assert_eq!(load("[ledger]\nretention_days = 3650\n").unwrap().retention_days, 3650);
    assert!(load("[ledger]\nretention_days = 0\n").is_err());
}

#[test]
fn gtw_01_a_network_needs_tls_or_an_explicit_word() {
    let error = load("[server]\nlisten = \"0.0.0.0:7717\"\n").unwrap_err();
    assert!(error.contains("there is no TLS"), "{error}");
    let allowed = load("[server]\nlisten = \"0.0.0.0:7717\"\nallow_plaintext = true\n").unwrap();
    assert_eq!(allowed.degraded.len(), 1, "and it is shown");
    let error =
        load("production = true\n[server]\nlisten = \"0.0.0.0:7717\"\nallow_plaintext = true\n").unwrap_err();
    assert!(error.contains("production"), "{error}");
    assert!(load("[server]\nlisten = \"0.0.0.0:7717\"\ntls_cert = \"c\"\ntls_key = \"k\"\n").is_ok());
    assert!(load("[server]\ntls_cert = \"c\"\n").is_err());
    assert!(load("").unwrap().listen.ip().is_loopback(), "loopback by default");
}

#[test]
fn sec_02_a_key_lies_beside_its_data_only_by_choice_and_that_is_shown() {
    assert!(!places().master_key().starts_with(places().data), "not by itself");
    for name in ["file", "passphrase_file"] {
        let at = |folder: &str| format!("[key]\n{name} = \"{folder}/key\"\n");
        let beside = load(&at("/var/lib/palisade")).unwrap().degraded;
        assert!(beside[0].starts_with(&format!("key.{name}: beside the data")), "{beside:?}");
        assert!(load(&at("/etc/palisade")).unwrap().degraded.is_empty());
        assert!(load(&format!("production = true\n{}", at("/var/lib/palisade"))).is_err());
    }
}

#[test]
fn gtw_03_no_limit_only_outside_production() {
    assert!(load("[limits]\nrequests_per_minute = 0\n").is_ok());
    assert!(load("production = true\n[limits]\nrequests_per_minute = 0\n").is_err());
}
