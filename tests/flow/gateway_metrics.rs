//! Metrics exist, alerts refer to them, and neither names anybody.

use std::collections::{BTreeMap, BTreeSet};

use api::{CreateKeyRequest, Hidden, LoginRequest};
use tests::{Host, PASSWORD};

use crate::gateway_socket::open;
use crate::gateway_wire::{Reply, until};
use crate::ledger_full::Disk;

/// One line of what Prometheus reads.
#[derive(Debug)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

/// Every sample of a scrape.
fn samples(text: &str) -> Vec<Sample> {
    let mut found = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) =
            series.split_once('{').map_or((series, ""), |(n, l)| (n, l.trim_end_matches('}')));
        let pair = |pair: &str| {
            let (key, value) = pair.split_once("=\"").unwrap_or_else(|| panic!("{line}"));
            (key.to_owned(), value.trim_end_matches('"').to_owned())
        };
        let labels = labels.split("\",").filter(|pair| !pair.is_empty()).map(pair).collect();
        found.push(Sample { name: name.to_owned(), labels, value: value.parse().unwrap() });
    }
    found
}

/// What is scraped at the open listener, which asks for no credential and counts no request.
pub fn scrape(host: &Host) -> String {
    let url = open_url(host);
    let reply = get(&url, &authority(&url), "/metrics");
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.text()
}

fn open_url(host: &Host) -> String {
    let log = host.log();
    let line = log.lines().rev().find_map(|line| line.strip_prefix("Metrics are open on "));
    line.unwrap_or_else(|| panic!("the daemon did not say where metrics are open: {log}")).trim().to_owned()
}

fn authority(url: &str) -> String {
    url.strip_prefix("http://").unwrap().split('/').next().unwrap().to_owned()
}

fn get(url: &str, host: &str, path: &str) -> Reply {
    let mut stream = std::net::TcpStream::connect(authority(url)).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
    let request = format!("GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n");
    std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
    Reply::read(&mut stream).unwrap()
}

/// How often each operation was answered so far.
pub fn operations(host: &Host) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for one in samples(&scrape(host)).into_iter().filter(|one| one.name == "palisade_requests_total") {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small count")]
        let value = one.value as u64;
        *counts.entry(one.labels["operation"].clone()).or_default() += value;
    }
    counts
}

/// The sum of all samples of this name that have these labels.
fn sum(text: &str, name: &str, labels: &[(&str, &str)]) -> f64 {
    let fits = |one: &&Sample| {
        one.name == name && labels.iter().all(|(key, value)| one.labels.get(*key).is_some_and(|v| v == value))
    };
    samples(text).iter().filter(fits).map(|one| one.value).sum()
}

/// A rule of docs/alerts.yml.
#[derive(Debug)]
struct Rule {
    alert: String,
    expr: String,
}

/// The rules: an own scan, which takes only the form that the file is written in.
fn rules() -> Vec<Rule> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/alerts.yml");
    let text = std::fs::read_to_string(file).unwrap();
    let mut rules: Vec<Rule> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        if let Some(alert) = line.strip_prefix("- alert:") {
            assert!(
                rules.last().is_none_or(|rule| !rule.expr.is_empty()),
                "a rule before {alert} has no expr"
            );
            rules.push(Rule { alert: alert.trim().to_owned(), expr: String::new() });
        } else if let Some(expr) = line.strip_prefix("expr:") {
            let expr = expr.trim();
            let plain = !expr.is_empty()
                && !expr.starts_with(['|', '>', '\'', '&', '*', '!'])
                && !expr.contains(" #");
            assert!(plain, "an expression stands on one line, unquoted: {line}");
            let rule = rules.last_mut().expect("a rule");
            assert!(rule.expr.is_empty(), "{} has two", rule.alert);
            rule.expr = expr.to_owned();
        } else {
            assert!(!line.contains("expr:"), "an expression that this test does not read: {line}");
        }
    }
    rules
}

/// Labels that are asked for, each with the words that it may be.
type Matchers = Vec<(String, Vec<String>)>;

/// The metrics that an expression names, each with its matchers.
fn named(expr: &str) -> Vec<(String, Matchers)> {
    const WORDS: [&str; 14] = [
        "absent",
        "and",
        "by",
        "clamp_min",
        "histogram_quantile",
        "increase",
        "max",
        "min",
        "or",
        "rate",
        "sum",
        "unless",
        "on",
        "without",
    ];
    let mut found = Vec::new();
    let chars: Vec<char> = expr.chars().collect();
    let mut at = 0;
    let mut grouping = false;
    while at < chars.len() {
        let c = chars[at];
        if c == '[' || c.is_ascii_digit() {
            // A duration or a number.
            while at < chars.len() && (chars[at].is_ascii_alphanumeric() || "[].".contains(chars[at])) {
                at += 1;
            }
            continue;
        }
        if !(c.is_ascii_alphabetic() || c == '_') {
            grouping = grouping && c != ')';
            at += 1;
            continue;
        }
        let begin = at;
        while at < chars.len() && (chars[at].is_ascii_alphanumeric() || "_:".contains(chars[at])) {
            at += 1;
        }
        let word: String = chars[begin..at].iter().collect();
        if WORDS.contains(&word.as_str()) {
            grouping = grouping || ["by", "on", "without"].contains(&word.as_str());
            continue;
        }
        if grouping {
            continue; // a label to group by
        }
        let mut matchers = Vec::new();
        if chars.get(at) == Some(&'{') {
            let end = at + chars[at..].iter().position(|c| *c == '}').expect("a closing brace");
            let inside: String = chars[at + 1..end].iter().collect();
            for pair in inside.split(", ") {
                let (label, value) = pair.split_once('=').unwrap();
                let words =
                    value.trim_start_matches('~').trim_matches('"').split('|').map(str::to_owned).collect();
                matchers.push((label.to_owned(), words));
            }
            at = end + 1;
        }
        found.push((word, matchers));
    }
    found
}

#[test]
fn gtw_12_the_scan_of_expressions_misses_nothing() {
    let names = |expr: &str| named(expr).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(
        names("sum by (le, x) (rate(a_total[5m])) / clamp_min(b, 0.1) > 1e3 or absent(c)"),
        ["a_total", "b", "c"]
    );
    assert_eq!(
        names("histogram_quantile(0.99, sum by (le) (rate(palisde_bucket[5m]))) > 1"),
        ["palisde_bucket"]
    );
    let with = named("x{a=\"b\", c=~\"d|e\"}[5m] > 0");
    assert_eq!(with[0].1, [("a".into(), vec!["b".into()]), ("c".into(), vec!["d".into(), "e".into()])]);
}

fn sign_in(host: &Host, password: &str) -> u16 {
    let body = LoginRequest { email: "bo@example.org".into(), password: Hidden(password.into()), totp: None };
    host.anonymous().login(&body).map_or_else(|error| error.status().unwrap(), |_| 200)
}

/// GTW-12: after each thing was provoked on a live daemon, every metric that an alert names is there, with the
/// labels that the alert asks for; and the numbers moved by what was done.
#[test]
fn gtw_12_every_alert_names_an_emitted_metric() {
    let disk = Disk::small("40m");
    let mut host = Host::builder()
        .in_folder(&disk.folder())
        .set("metrics.listen", "127.0.0.1:0")
        .set("limits.requests_per_minute", "40")
        .start();
    let repo = host.repo("demo");
    let worktree = host.owner().worktree(&repo, "one", "session").id;
    let bo = host.user("bo", "member");
    let before = scrape(&host);

    // Refusals, by action; and nothing else counts as one.
    assert_eq!(bo.client.delete_worktree(&worktree).unwrap_err().status(), Some(403));
    assert_eq!(bo.client.metrics().unwrap_err().status(), Some(403));
    // Sign-ins that fail, then are throttled; a stranger; a caller who comes too often.
    let tries: Vec<u16> = (0..7).map(|_| sign_in(&host, "wrong wrong wrong")).collect();
    assert!(tries.contains(&401) && tries.contains(&429), "{tries:?}");
    assert_eq!(host.anonymous().with_token("nonsense").whoami().unwrap_err().status(), Some(401));
    until("bo comes too often", || bo.client.whoami().is_err_and(|error| error.status() == Some(429)));
    // A secret that must not leave: the ledger entry of this refusal would hold it.
    let secret = format!("sk-live-{}", "0123456789abcdef".repeat(2));
    let put = host
        .owner()
        .client
        .add_policy("x", &format!("forbid (principal, action == Action::\"{secret}\", resource);"));
    assert_eq!(put.unwrap_err().status(), Some(422));
    // Followers.
    let socket = open(&host, host.owner(), "");
    let stream = host.owner().client.events(None).unwrap();
    // Not ready: the key is not where it was; this is also an answer with 5xx.
    let key = host.place().join("master.key");
    std::fs::rename(&key, key.with_extension("aside")).unwrap();
    assert_eq!(host.anonymous().send("GET", "/readyz", &[], Vec::new()).unwrap().status(), 503);
    let broken = scrape(&host);
    std::fs::rename(key.with_extension("aside"), &key).unwrap();
    until("the record was checked once", || sum(&scrape(&host), "palisade_ledger_intact", &[]) == 1.0);
    let text = scrape(&host);

    let moved = |name: &str, labels: &[(&str, &str)]| sum(&text, name, labels) - sum(&before, name, labels);
    assert_eq!(moved("palisade_refusals_total", &[("action", "worktree.delete")]), 1.0);
    assert_eq!(moved("palisade_refusals_total", &[("action", "metrics.read")]), 1.0);
    assert!(moved("palisade_strangers_refused_total", &[("what", "login")]) >= 5.0, "{text}");
    assert!(moved("palisade_strangers_refused_total", &[("what", "too_many_attempts")]) >= 1.0, "{text}");
    assert!(moved("palisade_strangers_refused_total", &[("what", "no_valid_credential")]) >= 1.0, "{text}");
    assert!(moved("palisade_strangers_refused_total", &[("action", "request.limited")]) >= 1.0, "{text}");
    assert!(moved("palisade_redactions_total", &[]) >= 1.0, "{text}");
    assert_eq!(moved("palisade_errors_total", &[]), 1.0, "{text}");
    assert!(moved("palisade_request_seconds_count", &[]) > 10.0, "{text}");
    assert_eq!(sum(&text, "palisade_followers", &[("kind", "socket")]), 1.0);
    assert_eq!(sum(&text, "palisade_followers", &[("kind", "stream")]), 1.0);
    assert_eq!(sum(&text, "palisade_sockets", &[]), 2.0);
    assert!(sum(&text, "palisade_connections", &[]) >= 2.0, "{text}");
    assert_eq!(sum(&broken, "palisade_ready", &[]), 0.0);
    assert_eq!(sum(&broken, "palisade_check", &[("check", "keys")]), 0.0);
    assert_eq!(sum(&broken, "palisade_check", &[("check", "store")]), 1.0);
    assert_eq!(sum(&text, "palisade_ready", &[]), 1.0);
    assert_eq!(sum(&text, "palisade_key_epoch", &[]), 1.0);
    assert_eq!(sum(&text, "palisade_ledger_failing", &[]), 0.0);
    let unsigned = sum(&text, "palisade_ledger_unsigned_seconds", &[]);
    assert!((0.0..60.0).contains(&unsigned), "{unsigned}");
    #[expect(clippy::cast_precision_loss, reason = "a small count")]
    let head = host.ledger_head() as f64;
    assert!(sum(&scrape(&host), "palisade_ledger_head", &[]) >= head);
    drop((socket, stream));
    until("nobody follows", || sum(&scrape(&host), "palisade_followers", &[]) == 0.0);

    if disk.is_own() {
        full_disk(&mut host, &disk);
    }

    let there = samples(&text);
    let rules = rules();
    assert!(rules.len() >= 8, "{rules:?}");
    let mut asked = BTreeSet::new();
    for rule in &rules {
        let names = named(&rule.expr);
        assert!(!names.is_empty(), "{}: `{}` names nothing", rule.alert, rule.expr);
        for (name, matchers) in names {
            let of_it: Vec<&Sample> = there.iter().filter(|one| one.name == name).collect();
            assert!(!of_it.is_empty(), "{}: `{name}` is not emitted:\n{text}", rule.alert);
            for (label, words) in matchers {
                for word in words {
                    let fits = |one: &&Sample| one.labels.get(&label) == Some(&word);
                    // The one word that this test has no second account for.
                    let known = word == "one-time_password" || of_it.iter().any(fits);
                    assert!(known, "{}: no `{name}` has {label}={word}", rule.alert);
                }
            }
            asked.insert(name);
        }
    }
    assert!(asked.len() >= 10, "{asked:?}");
}

/// A full disk shows: the ledger fails, the reserve is used, acts are not written.
fn full_disk(host: &mut Host, disk: &Disk) {
    let client = host.owner().client.clone();
    let body = |label: &str| CreateKeyRequest { label: label.into(), scope: "runs:read".into(), days: None };
    disk.fill();
    // The last page of the segment has some room left; then there is none.
    let failing = |text: &str| sum(text, "palisade_ledger_failing", &[]) == 1.0;
    let mut refused = Vec::new();
    until("the ledger fails too", || {
        refused.extend(client.create_key(&body("f")).err().map(|error| error.status()));
        failing(&scrape(host))
    });
    assert!(!refused.is_empty() && refused.iter().all(|status| *status == Some(503)), "{refused:?}");
    // A refusal is recorded all the same: in the reserve.
    assert_eq!(client.repo(&format!("rep_{}", "0".repeat(32))).unwrap_err().status(), Some(404));
    let text = scrape(host);
    assert!(failing(&text), "{text}");
    assert!(sum(&text, "palisade_ledger_reserved", &[]) >= 1.0, "{text}");
    assert_eq!(sum(&text, "palisade_disk_tight", &[]), 1.0, "{text}");
    assert_eq!(sum(&text, "palisade_ready", &[]), 0.0, "{text}");
    assert_eq!(sum(&text, "palisade_check", &[("check", "ledger")]), 0.0, "{text}");
    assert!(sum(&text, "palisade_store_write_failures_total", &[]) >= 1.0, "{text}");
    disk.free();
    until("there is room again", || sum(&scrape(host), "palisade_ready", &[]) == 1.0);
    assert_eq!(sum(&scrape(host), "palisade_ledger_failing", &[]), 0.0);
}

/// GTW-12: whatever callers do, a label holds one of our own words: no id, no path, no address, nothing that a
/// caller chose.
#[test]
fn gtw_12_no_label_holds_an_id_a_path_or_an_address() {
    let host =
        Host::builder().set("metrics.listen", "127.0.0.1:0").set("limits.requests_per_minute", "0").start();
    let bo = host.user("bo", "member");
    let repo = host.repo("demo");
    let worktree = host.owner().worktree(&repo, "one", "none").id;
    let client = &host.owner().client;
    drop(client.worktree(&worktree));
    drop(bo.client.worktree(&worktree));
    for path in ["/not/a/route/of-ours", "/api/v1/users/nonsense", "/setup?secret=abc", "/%2e%2e/etc/passwd"]
    {
        for method in ["GET", "POST", "PUT", "BREW", "HEAD", "OPTIONS"] {
            drop(client.send(method, path, &[("x-forwarded-for", "203.0.113.9")], Vec::new()));
        }
    }
    for email in ["eve@example.org", "203.0.113.9", "not an address"] {
        let body = LoginRequest { email: email.into(), password: Hidden(PASSWORD.into()), totp: None };
        drop(host.anonymous().login(&body));
    }
    drop(host.anonymous().refresh("prt_nonsense"));
    drop(client.try_policy(&api::TryPolicyRequest {
        user: bo.id.clone(),
        action: "invent.ed".into(),
        resource: worktree.clone(),
        role: None,
        with: None,
    }));
    let text = scrape(&host);
    let all = samples(&text);
    assert!(all.len() > 40, "{text}");
    let word = |c: char| c.is_ascii_alphanumeric() || "_.+-".contains(c);
    let actions: BTreeSet<&str> = access::ACTIONS.iter().map(|action| action.name).collect();
    for one in &all {
        for (label, value) in &one.labels {
            let plain = !value.is_empty() && value.len() <= 40 && value.chars().all(word);
            let id = value.split_once('_').is_some_and(|(_, rest)| rest.len() >= 16);
            let address = value.parse::<std::net::IpAddr>().is_ok();
            assert!(plain && !id && !address, "{label}={value} of {}", one.name);
            match label.as_str() {
                "method" => assert!(
                    ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "other"]
                        .contains(&value.as_str()),
                    "{value}"
                ),
                "status" => assert!(value.parse::<u16>().is_ok(), "{value}"),
                "action" => assert!(
                    actions.contains(value.as_str())
                        || ["signin.refused", "request.limited"].contains(&value.as_str()),
                    "{value}"
                ),
                "verdict" => assert!(["allowed", "refused"].contains(&value.as_str()), "{value}"),
                "scope" => {
                    assert!(["user", "worktree", "session", "pass"].contains(&value.as_str()), "{value}");
                }
                "state" => {
                    let words = [
                        "idle", "at_work", "frozen", "held", "closed", "queued", "running", "done", "failed",
                        "stopped",
                    ];
                    assert!(words.contains(&value.as_str()), "{value}");
                }
                "operation" | "what" | "kind" | "check" | "le" => {}
                other => panic!("a label that nobody judged: {other}"),
            }
        }
    }
    for given in [
        &worktree,
        &repo,
        &bo.id,
        &host.owner().id,
        "of-ours",
        "passwd",
        "BREW",
        "example.org",
        "203.0.113",
        "invent",
    ] {
        assert!(!text.contains(given), "{given} is in\n{text}");
    }
}

/// GTW-12: without a credential metrics are open on a loopback listener of their own, if that is set; it answers
/// nothing else, and not under a foreign name.
#[test]
fn gtw_12_metrics_are_open_on_a_loopback_listener_and_nowhere_else() {
    let host = Host::builder().set("metrics.listen", "127.0.0.1:0").start();
    let url = open_url(&host);
    assert!(scrape(&host).contains("palisade_ready 1"));
    assert_eq!(
        host.anonymous().metrics().unwrap_err().status(),
        Some(401),
        "elsewhere it needs a credential"
    );
    assert_eq!(get(&url, "evil.example", "/metrics").status, 421, "another name for this machine");
    for path in ["/", "/api/v1/status", "/livez", "/metrics/x", "/setup"] {
        assert_eq!(get(&url, &authority(&url), path).status, 404, "{path}");
    }
    for bad in ["0.0.0.0:0", "[::]:0", "192.0.2.1:9717", "localhost:9717", "9717"] {
        let host = Host::builder().stopped();
        let config = host.place().join("config.toml");
        std::fs::write(&config, format!("mode = \"solo\"\n\n[metrics]\nlisten = \"{bad}\"\n")).unwrap();
        let output = host.command("palisaded").arg("up").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && said.contains("config.toml:4: `metrics.listen`"),
            "{bad}: {said}"
        );
    }
    let log = Host::start().log();
    assert!(!log.contains("Metrics are open"), "not unless it is set: {log}");
}
