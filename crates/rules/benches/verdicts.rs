//! What a verdict costs, with few rules and with many: `cargo bench -p rules`.
#![expect(clippy::print_stdout, reason = "a bench prints")]
#![expect(clippy::unwrap_used, reason = "a bench has nobody to tell")]

use std::hint::black_box;
use std::time::Instant;

use rules::path::canonical;
use rules::{Host, Methods, Name, Request, Rule, Rules, presets};

const ROUNDS: u32 = 5_000;
const BATCHES: u32 = 40;

fn main() {
    cold();
    for count in [10, 100, 1_000, 10_000] {
        verdicts(count);
    }
    loading();
}

/// What a launcher pays: it loads once, with nothing in any cache.
fn cold() {
    println!("first of all:");
    let time = |what: &str, run: &dyn Fn() -> Rules| {
        let began = Instant::now();
        drop(black_box(run()));
        println!("  {what:34} {:7.1} us", began.elapsed().as_secs_f64() * 1e6);
    };
    time("--allow of a host", &|| Rules::allow(["api.x.example"]).unwrap());
    time("--allow of a wildcard", &|| Rules::allow(["*.x.example"]).unwrap());
    let github = presets::find("github-read").unwrap();
    time("github-read", &|| Rules::compile(github.rules().unwrap()).unwrap());
}

/// A third exact, a third with one star, a third with two; half of them limited.
fn many(count: usize) -> Vec<Rule> {
    let rule = |index: usize| {
        let star = ["", "*.", "**."].get(index % 3).copied().unwrap_or_default();
        let mut rule = Rule::new(format!("{star}h{index}.zone{}.example", index % 97));
        if index.is_multiple_of(2) {
            rule.methods = Some(Methods::These(vec!["GET".to_owned(), "POST".to_owned()]));
            rule.paths = Some(vec![format!("/v1/{index}/**"), "/health".to_owned()]);
        }
        rule
    };
    (0..count).map(rule).collect()
}

/// As many paths of one and the same host.
fn one_host(count: usize) -> Vec<Rule> {
    let rule = |index: usize| Rule {
        methods: Some(Methods::These(vec!["GET".to_owned()])),
        paths: Some(vec![format!("/v1/item{index}/*")]),
        ..Rule::new("api.x.example")
    };
    (0..count).map(rule).collect()
}

fn verdicts(count: usize) {
    let began = Instant::now();
    let rules = Rules::compile(many(count)).unwrap();
    let loaded = began.elapsed();
    let paths = Rules::compile(one_host(count)).unwrap();
    println!("{count} rules (loaded in {:.1} us):", loaded.as_secs_f64() * 1e6);
    let last = count - 1 - (count - 1) % 6;
    let exact = format!("h{last}.zone{}.example", last % 97);
    let deep_index = last.saturating_sub(1) / 6 * 6 + 2;
    let deep_index = if deep_index < count { deep_index } else { 2 };
    let deep = format!("a.b.c.h{deep_index}.zone{}.example", deep_index % 97);
    let path = format!("/v1/{last}/a/b/c");
    let item = format!("/v1/item{last}/x");
    let long = format!("{}example", "abcdefg.".repeat(30));
    measure("name, allowed", || rules.could_allow(black_box(&exact.parse::<Name>().unwrap())));
    connect("connect, exact", &rules, &exact);
    connect("connect, deep wildcard", &rules, &deep);
    connect("connect, refused", &rules, "nobody.knows.this.example");
    connect("connect, refused, 31 labels", &rules, &long);
    let each: Vec<Host> =
        (0..count).map(|index| format!("a.h{index}.zone{}.example", index % 97).parse().unwrap()).collect();
    let mut turn = each.iter().cycle();
    measure("connect, each in turn", || {
        turn.next().is_some_and(|host| rules.connect(host, 443).is_allowed())
    });
    request("request, allowed", &rules, &exact, "GET", &path);
    request("request, refused path", &rules, &exact, "GET", "/v2/other/place");
    request("request, one host with all paths", &paths, "api.x.example", "GET", &item);
}

fn connect(what: &str, rules: &Rules, host: &str) {
    let host: Host = host.parse().unwrap();
    measure(what, || rules.connect(black_box(&host), 443).is_allowed());
}

fn request(what: &str, rules: &Rules, host: &str, method: &str, path: &str) {
    let host: Host = host.parse().unwrap();
    measure(what, || {
        let path = canonical(black_box(path)).unwrap();
        let request = Request { method, path, query: Some("a=b"), websocket: false, git: None };
        rules.request(black_box(&host), 443, &request).is_allowed()
    });
}

/// The best of some batches: others use this machine too.
fn measure(what: &str, mut run: impl FnMut() -> bool) {
    let mut best = f64::MAX;
    let mut allowed = false;
    for _ in 0..BATCHES {
        let began = Instant::now();
        for _ in 0..ROUNDS {
            allowed |= black_box(run());
        }
        best = best.min(began.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS));
    }
    println!("  {what:34} {best:7.0} ns  {}", if allowed { "" } else { "refused" });
}

fn loading() {
    println!("loading:");
    let time = |what: &str, run: &dyn Fn()| {
        let mut best = f64::MAX;
        for _ in 0..BATCHES {
            let began = Instant::now();
            (0..100).for_each(|_| run());
            best = best.min(began.elapsed().as_secs_f64() * 1e6 / 100.0);
        }
        println!("  {what:34} {best:7.1} us");
    };
    time("--allow of 5 hosts", &|| {
        let hosts = ["a.example", "b.example:80", "c.d.example", "203.0.113.7:22", "e.example"];
        black_box(Rules::allow(hosts).unwrap());
    });
    time("--allow of 5 wildcards", &|| {
        let hosts = ["*.a.example", "**.b.com:80", "*.d.co.uk", "**.x.github.io", "*.e.org"];
        black_box(Rules::allow(hosts).unwrap());
    });
    for preset in presets::PRESETS {
        time(preset.name, &|| drop(black_box(Rules::compile(preset.rules().unwrap()).unwrap())));
    }
}
