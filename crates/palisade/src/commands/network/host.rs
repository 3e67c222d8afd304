//! This machine's loopback, as a sandbox may reach it: one port at a time, and never the daemon's.

use std::path::Path;

use rules::{HOST_LOOPBACK, Name, Rule};

use crate::failure::Failure;

/// Where a daemon listens that was told nothing else.
const USUAL: u16 = 7717;

/// Refuses rules that open the daemon's own port: whoever is inside has no business with what rules it.
pub(super) fn check(rules: &[Rule], config: &Path) -> Result<(), Failure> {
    let is_host = |rule: &&Rule| rule.host.parse::<Name>().is_ok_and(|name| name.as_str() == HOST_LOOPBACK);
    let mut rules = rules.iter().filter(is_host).filter(|rule| !rule.deny).peekable();
    if rules.peek().is_none() {
        return Ok(());
    }
    let told = ["PALISADE_SERVER_LISTEN", "PALISADE_METRICS_LISTEN"].map(std::env::var);
    let told = told.into_iter().flatten().filter_map(|text| port_of(&text));
    let own: Vec<u16> = configured(config).into_iter().chain(told).chain([USUAL]).collect();
    match rules.flat_map(|rule| &rule.ports).find(|port| own.contains(port)) {
        None => Ok(()),
        Some(port) => Err(Failure::Sandbox(
            format!(
                "`{HOST_LOOPBACK}:{port}` is the port of the daemon of Palisade, which no sandbox reaches"
            ),
            125,
        )),
    }
}

/// The ports that the configuration of a local daemon names.
fn configured(config: &Path) -> Vec<u16> {
    let table = || -> Option<toml::Table> { std::fs::read_to_string(config).ok()?.parse().ok() };
    let table = table().unwrap_or_default();
    let port =
        |section: &str| -> Option<u16> { port_of(table.get(section)?.as_table()?.get("listen")?.as_str()?) };
    ["server", "metrics"].into_iter().filter_map(port).collect()
}

fn port_of(address: &str) -> Option<u16> {
    address.rsplit_once(':')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_of_the_daemon_is_not_to_be_had() {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("config.toml");
        let opens =
            |host: &str, port: u16| check(&[Rule { ports: vec![port], ..Rule::new(host) }], &config).is_ok();
        assert!(opens(HOST_LOOPBACK, 5432) && !opens(HOST_LOOPBACK, USUAL));
        assert!(!opens("HOST.palisade.local", USUAL) && opens("api.x.example", USUAL));
        std::fs::write(&config, "[server]\nlisten = '127.0.0.1:5432'\n[metrics]\nlisten = '[::1]:9000'\n")
            .unwrap();
        assert!(!opens(HOST_LOOPBACK, 5432) && !opens(HOST_LOOPBACK, 9000) && opens(HOST_LOOPBACK, 5433));
    }
}
