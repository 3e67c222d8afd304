//! Reads lines of a table and holds them against rules.
//!
//! `+ GET api.x.example:8443/path?query` is allowed, `-` is refused by the rules, `!` is refused before any rule is
//! read. `ws` at the end asks for a WebSocket; `refs/...` at the end are what a push changes.

use rules::path::canonical;
use rules::{Host, Request, Rules, git};

/// What became of one line.
pub(crate) fn verdict(rules: &Rules, line: &str) -> char {
    let mut words = line.split_whitespace();
    let (method, target) = (words.next().unwrap(), words.next().unwrap());
    let more: Vec<&str> = words.collect();
    let slash = target.find('/').unwrap();
    let (place, rest) = target.split_at(slash);
    let (host, port) = match place.rsplit_once(':') {
        Some((host, port)) if !place.ends_with(']') => (host, port.parse().unwrap()),
        _ => (place, 443),
    };
    let (path, query) = match rest.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (rest, None),
    };
    let (Ok(host), Ok(path)) = (host.parse::<Host>(), canonical(path)) else { return '!' };
    let mut act = git::act(method, &path, query);
    let refs: Vec<String> = more.iter().filter(|it| it.contains("refs")).map(|&it| it.to_owned()).collect();
    if git::needs_refs(method, &path) && more.contains(&"unread") {
        act = None;
    } else if let Some(git::Act { verb: git::Verb::Push { refs: known }, .. }) = &mut act {
        *known = refs;
    }
    let request = Request { method, path, query, websocket: more.contains(&"ws"), git: act };
    let decision = rules.request(&host, port, &request);
    if decision.is_allowed() {
        assert!(rules.connect(&host, port).is_allowed(), "{line}: the request but not its connection");
        if let Host::Name(name) = &host {
            assert!(rules.could_allow(name), "{line}: the request but not its name");
        }
    }
    if decision.is_allowed() { '+' } else { '-' }
}

/// Holds every line of a table against one set; gives how many there were.
pub(crate) fn hold(set: &str, table: &str) -> usize {
    let rules = Rules::from_toml(set).unwrap_or_else(|faults| panic!("{set}\n{faults}"));
    hold_against(&rules, table)
}

/// The same with rules that are there.
pub(crate) fn hold_against(rules: &Rules, table: &str) -> usize {
    let lines = table.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in lines {
        count += 1;
        let wanted = line.chars().next().unwrap();
        let found = verdict(rules, line.get(1..).unwrap());
        if found != wanted {
            wrong.push(format!("{line}   <- was {found}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {count} wrong:\n{}", wrong.len(), wrong.join("\n"));
    count
}

/// The faults of a set, as text; panics if it has none.
pub(crate) fn faults(set: &str) -> String {
    match Rules::from_toml(set) {
        Ok(_) => panic!("taken:\n{set}"),
        Err(faults) => faults.to_string(),
    }
}
