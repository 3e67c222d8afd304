//! HTTP/2 inside TLS that a rule looks into: stream by stream, at both ends.

use crate::servers::Two;
use crate::world::{EVERYONE, PUBLIC, World};

const SECRET: &str = "sk-Qm9y/ZWRvbUlz+QVZpcnR1ZTEy~MzQ1Njc4XyZ0";

/// Some of a host's paths, and one way to call it.
const RULES: &str = r#"
[[rule]]
host = "site.test"
paths = ["/ok/**", "/wait/**", "/hang/**", "/big/**", "/talk/**"]

[[rule]]
host = "site.test"
methods = ["POST"]
paths = ["/pkg.Greeter/Hello", "/pkg.Greeter/Fail"]
"#;

#[test]
fn egr_10_http_2_is_spoken_end_to_end_and_falls_back_at_either_end() {
    for who in EVERYONE {
        let world = World::with_rules(who, RULES);
        let server = Two::start(&world, &["site.test"], 0);
        let curl = "curl -sS -w '%{http_version} %{http_code}\\n'";
        let script = format!(
            "{curl} -o /dev/null --http2 https://site.test/ok/a https://site.test/ok/b -o /dev/null
             {curl} -o refused --http2 https://site.test/no; cat refused
             {curl} -o /dev/null --http2 -d some https://site.test/ok/post
             {curl} -o big --http2 https://site.test/big/x; wc -c < big
             {curl} -o /dev/null --http2 -x http://198.18.0.1:3128 https://site.test/ok/asked"
        );
        let said = world.run(&["--rules", "rules.toml"], &script).ok();
        let lines: Vec<&str> = said.out.lines().collect();
        assert_eq!(lines[..3], ["2 200", "2 200", "2 403"], "{who:?} {}", said.out);
        assert!(
            lines[3].contains("network_refused") && lines[3].contains("http://palisade.local/"),
            "{}",
            lines[3]
        );
        assert_eq!(lines[4..], ["2 200", "2 200", "5000000", "2 200"], "{}", said.err);
        assert_eq!(
            server.lines(),
            ["GET /ok/a", "GET /ok/b", "POST /ok/post", "GET /big/x", "GET /ok/asked"]
        );
        let post = &server.seen()[2];
        assert_eq!((post.authority.as_str(), &post.body[..]), ("site.test", &b"some"[..]));
        let closed = world.entries("network.closed");
        assert!(closed.iter().any(|entry| entry.detail["path"] == "/ok/post"), "{closed:?}");
    }
    for who in EVERYONE {
        // A server that speaks HTTP/1.1 only, and a client that does.
        let world = World::with_rules(who, RULES);
        let server = world.https(PUBLIC, &["site.test"]);
        let curl = "curl -sS -o /dev/null -w '%{http_version} %{http_code}\\n'";
        let script = format!(
            "{curl} --http2 https://site.test/ok/a
             {curl} --http2 -d some https://site.test/ok/b
             head -c 300000 /dev/zero | {curl} --http2 -T - https://site.test/ok/c
             {curl} --http1.1 https://site.test/ok/d"
        );
        let said = world.run(&["--rules", "rules.toml"], &script).ok();
        assert_eq!(said.out, "2 200\n2 200\n2 200\n1.1 200\n", "{who:?} {}", said.err);
        let asked = server.asked();
        assert_eq!(
            asked,
            ["GET /ok/a HTTP/1.1", "POST /ok/b HTTP/1.1", "PUT /ok/c HTTP/1.1", "GET /ok/d HTTP/1.1"]
        );
        assert!(server.seen()[2].body.len() > 300_000, "in chunks");
    }
}

#[test]
fn egr_10_of_a_hundred_streams_at_once_the_refused_ones_end_alone() {
    for who in EVERYONE {
        let world = World::with_rules(who, RULES);
        // The server answers none before all that are allowed are there: they are open at the same time.
        let server = Two::start(&world, &["site.test"], 50);
        let script = "
            for i in $(seq 50); do
                printf 'url=https://site.test/wait/%s\\noutput=/dev/null\\n' $i
                printf 'url=https://site.test/no/%s\\noutput=/dev/null\\n' $i
            done > urls
            curl -sS --http2 -Z --parallel-max 100 -w '%{http_version} %{http_code} %{num_connects}\\n' -K urls | sort | uniq -c";
        let said = world.run(&["--rules", "rules.toml"], script).ok();
        let count = |what: &str| {
            let lines = said.out.lines().filter(|line| line.contains(what));
            lines.map(|line| line.trim().split(' ').next().unwrap().parse::<u32>().unwrap()).sum::<u32>()
        };
        assert_eq!((count("2 200"), count("2 403")), (50, 50), "{who:?} {} {}", said.out, said.err);
        let mut lines = server.lines();
        lines.sort();
        lines.dedup();
        assert_eq!(lines.len(), 50);
        assert!(lines.iter().all(|line| line.starts_with("GET /wait/")), "{lines:?}");
        assert!(server.connections() <= 2, "{} connections for one client", server.connections());
    }
}

#[test]
fn egr_10_rules_name_a_service_and_a_method_and_trailers_pass_both_ways() {
    for who in EVERYONE {
        let world = World::with_rules(who, RULES);
        let server = Two::start(&world, &["site.test"], 0);
        let script = "
            call() { curl -sS --http2 -o out -D - -H 'content-type: application/grpc' -H 'te: trailers' --data-binary \"$1\" https://site.test$2; }
            call hello /pkg.Greeter/Hello; cat out; echo
            call hello /pkg.Greeter/Forget
            call hello /pkg.Greeter/hello
            call hello /pkg.Other/Hello
            curl -sS --http2 -o /dev/null -w '%{http_code}\\n' https://site.test/pkg.Greeter/Hello";
        let said = world.run(&["--rules", "rules.toml"], script).ok();
        assert!(
            said.out.contains("grpc-status: 0") && said.out.contains("\nhello\n"),
            "{who:?} {}",
            said.out
        );
        assert_eq!(said.out.matches("HTTP/2 403").count(), 3, "{}", said.out);
        assert!(said.out.ends_with("403\n"), "{}", said.out);
        assert_eq!(server.lines(), ["POST /pkg.Greeter/Hello"]);
        assert_eq!(server.seen()[0].fields["te"], "trailers");
    }
}

#[test]
fn egr_10_a_call_talks_both_ways_at_once_with_trailers_of_its_own() {
    for who in EVERYONE {
        let world = World::with_rules(who, RULES);
        let server = Two::start(&world, &["site.test"], 0);
        let script = crate::two_attacks::python(
            r#"
c = Client()
c.head(1, post('/talk/x') + [('te', 'trailers')], end=False)
for i in range(20):
    # The next is only said when the last came back.
    c.data(1, b'message %d' % i); got = b''
    while got != b'message %d' % i: got += c.next(0)[3]
c.head(1, [('x-last', 'word')], end=True)
while c.next(1)[1] & 1 == 0: pass
print('ended with fields')
c.head(3, post('/pkg.Greeter/Fail'), end=False); c.data(3, b'x', True)
print(c.next(1)[1] & 1)
"#,
        );
        let said = world.run(&["--rules", "rules.toml"], &script).ok();
        assert_eq!(said.out, "ended with fields\n1\n", "{who:?} {}", said.err);
        let seen = server.seen();
        assert_eq!(seen[0].trailers.as_ref().unwrap()["x-last"], "word");
        assert!(seen[0].body.ends_with(b"message 19"));
    }
}

#[test]
fn egr_10_a_server_that_breaks_off_is_told_of_and_one_that_goes_away_is_dialled_again() {
    for who in EVERYONE {
        let world = World::with_rules(who, RULES);
        let server = Two::start(&world, &["site.test"], 0);
        let curl = "curl -sS --http2 -w '%{http_code}\\n'";
        let site = "https://site.test/ok";
        let script = format!(
            "{curl} -o /dev/null {site}/a -o /dev/null {site}/last -o /dev/null {site}/b
             {curl} -o said {site}/reset; cat said
             {curl} -o said {site}/cut 2>/dev/null || echo cut; cat said"
        );
        let said = world.run(&["--rules", "rules.toml"], &script).ok();
        let lines: Vec<&str> = said.out.lines().collect();
        assert_eq!(lines[..4], ["200", "200", "200", "502"], "{who:?} {} {}", said.out, said.err);
        assert!(lines[4].contains("network_refused"), "{}", lines[4]);
        assert_eq!(lines[5..], ["200", "cut", "some of it"]);
        assert_eq!(server.lines()[..3], ["GET /ok/a", "GET /ok/last", "GET /ok/b"]);
        assert_eq!(server.connections(), 4, "two of the first client, one of each other");
    }
}

#[test]
fn egr_13_talks_go_on_although_content_is_waited_for_and_looked_at() {
    let script = crate::two_attacks::python(
        r#"
import os
word = os.environ['MY_KEY']
c = Client()
c.head(1, post('/talk/x') + [('content-type', 'application/json')], end=False)
c.data(1, b'"first"'); got = b''
while got != b'"first"': got += c.next(0)[3]
c.data(1, b'"second"'); got = b''
while got != b'"second"': got += c.next(0)[3]
c.data(1, b'', True)
while c.next(1)[1] & 1 == 0: pass
c.head(3, post('/ok/x') + [('content-type', 'application/json')], end=False)
c.data(3, b'{"key": "' + word[:9].encode()); c.data(3, word[9:].encode() + b'"}', True); print(c.wait(3))
# A message that ends as a secret begins is not held back.
c.head(5, post('/talk/y') + [('content-type', 'application/grpc'), ('grpc-accept-encoding', 'gzip')], end=False)
for text in (b's', b'sk-', b'sk-Q', b'sk-Qm9y/'):
    said = b'\0\0\0\0' + bytes([len(text)]) + text
    c.data(5, said); got = b''
    while got != said: got += c.next(0)[3]
c.data(5, b'', True)
while c.next(1)[1] & 1 == 0: pass
"#,
    );
    for who in EVERYONE {
        let world = World::with_rules(who, RULES);
        let server = Two::start(&world, &["site.test"], 0);
        let options = ["--rules", "rules.toml", "--secret", "MY_KEY=site.test"];
        let said = world.run_having(&[("MY_KEY", SECRET)], &options, &script).ok();
        assert_eq!(said.out, "200\n", "{who:?} {}", said.err);
        let bodies: Vec<Vec<u8>> = server.seen().into_iter().take(2).map(|asked| asked.body).collect();
        assert_eq!(server.seen()[2].fields["grpc-accept-encoding"], "identity");
        assert_eq!(bodies, [&b"\"first\"\"second\""[..], format!("{{\"key\": \"{SECRET}\"}}").as_bytes()]);
    }
}

#[test]
fn adv_c02_a_word_in_pieces_of_a_stream_is_found() {
    let script = crate::two_attacks::python(
        r#"
import os
word = os.environ['MY_KEY']
c = Client()
c.head(1, post('/ok/pieces'), end=False); c.data(1, b'x' * 10000)
for letter in word: c.data(1, letter.encode())
c.data(1, b'y', True); print(c.wait(1))
c.head(3, post('/ok/after'), end=False); c.data(3, b'before'); c.head(3, [('x-last', word)]); print(c.wait(3))
c.head(5, post('/ok/good'), end=False); c.data(5, b'nothing', True); print(c.wait(5))
"#,
    );
    for who in EVERYONE {
        let world = World::with_rules(who, RULES);
        let server = Two::start(&world, &["site.test"], 0);
        let options = ["--rules", "rules.toml", "--secret", "MY_KEY=other.test"];
        let said = world.run_having(&[("MY_KEY", SECRET)], &options, &script).ok();
        assert_eq!(said.out, "403\n403\n200\n", "{who:?} {}", said.err);
        let whole = server.seen().into_iter().find(|asked| asked.line == "POST /ok/good").unwrap();
        assert_eq!(whole.body, b"nothing");
        assert!(server.seen().iter().all(|asked| asked.trailers.is_none()));
        assert_eq!(world.entries("network.finding").len(), 2, "{}", said.err);
    }
}

#[test]
fn egr_10_a_push_is_judged_by_its_refs_and_a_server_that_is_another_is_not_dialled_for_each_stream() {
    let rules = r#"
[[rule]]
host = "site.test"
git = { push = [{ repo = "team/app", refs = ["refs/heads/agent/*"] }] }

[[rule]]
host = "both.test"
paths = ["/ok/**"]
"#;
    let script = crate::two_attacks::python(
        r#"
def push(c, at, ref, cut):
    line = b'%s %s refs/heads/%s\0 report-status' % (b'0' * 40, b'1' * 40, ref)
    body = b'%04x%s0000PACK' % (len(line) + 4, line)
    c.head(at, post('/team/app.git/git-receive-pack') + [('content-type', 'application/x-git-receive-pack-request')], end=False)
    c.data(at, body[:cut]); c.data(at, body[cut:], True)
    return c.wait(at)
c = Client()
print(push(c, 1, b'agent/x', 1), push(c, 3, b'main', 50), push(c, 5, b'agent/y', 130))
"#,
    );
    for who in EVERYONE {
        let world = World::new(who);
        world.file("rules.toml", rules);
        let server = Two::start(&world, &["site.test"], 0);
        let said = world.run(&["--rules", "rules.toml"], &script).ok();
        assert_eq!(said.out, "200 403 200\n", "{who:?} {}", said.err);
        let bodies: Vec<Vec<u8>> = server.seen().into_iter().map(|asked| asked.body).collect();
        assert_eq!(bodies.len(), 2);
        assert!(bodies.iter().all(|body| body.ends_with(b"report-status0000PACK")), "{bodies:?}");
        // The server has no certificate for this name.
        let script = "
            for i in $(seq 20); do printf 'url=https://both.test/ok/%s\\noutput=/dev/null\\n' $i; done > urls
            curl -sS --http2 -Z -w '%{http_version} %{http_code}\\n' -K urls | sort | uniq -c";
        let before = server.dialled();
        let said = world.run(&["--rules", "rules.toml"], script);
        assert_eq!(said.out.trim(), "20 2 502", "{}", said.err);
        let times = server.dialled() - before;
        assert!((1..20).contains(&times), "dialled {times} times for twenty streams");
    }
}

#[test]
fn egr_13_secrets_are_put_into_streams_and_come_back_masked() {
    for who in EVERYONE {
        let world = World::new(who);
        let server = Two::start(&world, &["site.test", "registry.npmjs.org"], 0);
        let script = "
            curl -fsS -H \"x-key: $MY_KEY\" https://site.test/header
            curl -fsS \"https://site.test/query?key=$MY_KEY\"
            curl -fsS -H 'Content-Type: application/json' -d \"{\\\"key\\\":\\\"$MY_KEY\\\"}\" https://site.test/json
            printf '{\"key\":\"%s\"}' $MY_KEY | curl -fsS -H 'Content-Type: application/json' -X POST -T - https://site.test/unsaid
            curl -fsS -D - -H \"x-key: $MY_KEY\" -H 'content-type: application/grpc' -d x https://site.test/call
            for place in \"-H x-key:$MY_KEY\" \"-d $MY_KEY\" \"-u a:$MY_KEY\"; do
                curl -sS -o /dev/null -w '%{http_version} %{http_code}\\n' $place https://registry.npmjs.org/x
            done";
        let options = ["--secret", "MY_KEY=site.test", "--preset", "npm-install"];
        let said = world.run_having(&[("MY_KEY", SECRET)], &options, script).ok();
        let seen = server.seen();
        assert_eq!(seen.len(), 5, "{who:?} {:?} {}", server.lines(), said.err);
        for asked in &seen {
            let escaped = SECRET.replace('/', "%2F").replace('+', "%2B");
            let all = format!("{} {:?} {}", asked.line, asked.fields, String::from_utf8_lossy(&asked.body));
            assert!(
                all.contains(&escaped) || all.contains(SECRET) || asked.fields["x-key"] == SECRET,
                "{}",
                asked.line
            );
        }
        assert!(!said.out.contains(SECRET) && said.out.matches(&"*".repeat(40)).count() >= 4, "{}", said.out);
        assert!(said.out.contains("grpc-message: ****"), "{}", said.out);
        assert!(said.out.ends_with("2 403\n2 403\n2 403\n"), "{}", said.out);
    }
}

#[test]
fn egr_18_streams_end_within_a_second_when_the_rules_go() {
    for who in EVERYONE {
        let world = World::with_rules(who, RULES);
        let server = Two::start(&world, &["site.test"], 0);
        let script = "
            for i in 1 2 3; do printf 'url=https://site.test/hang/%s\\noutput=/dev/null\\n' $i; done > urls
            curl -s --http2 -Z -w '%{exitcode} %{time_total}\\n' -K urls || true; date +%s.%N > ended";
        let run = ["run", "--rules", "rules.toml", "--", "sh", "-ec", script];
        let mut run = world.palisade(&run);
        let child =
            run.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null()).spawn().unwrap();
        server.until(|server| server.hanging() == 3);
        let cut = world.palisade(&["offline"]).output().unwrap();
        assert!(cut.status.success(), "{}", String::from_utf8_lossy(&cut.stderr));
        let begun = std::time::Instant::now();
        let said = child.wait_with_output().unwrap();
        assert!(begun.elapsed() < std::time::Duration::from_secs(2), "{who:?} {:?}", begun.elapsed());
        let out = String::from_utf8_lossy(&said.stdout).into_owned();
        assert_eq!(out.lines().filter(|line| !line.starts_with("0 ")).count(), 3, "{out}");
        server.until(|server| server.given_up() == 3);
    }
}
