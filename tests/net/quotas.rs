//! How much a sandbox may do with its network: one more is refused, and told of once.

use ledger::Decision;

use crate::world::{EVERYONE, PUBLIC, World};

/// The refusals by a limit that are on record.
fn refused(world: &World) -> Vec<ledger::Entry> {
    let entries = world.entries("network.connect");
    entries.into_iter().filter(|entry| entry.decision == Decision::Refused).collect()
}

#[test]
fn egr_16_one_request_more_than_the_limit_is_refused_with_its_reason() {
    for who in EVERYONE {
        let world = World::new(who);
        let server = world.http(PUBLIC, 80);
        let script = "for i in 1 2 3 4 5 6 7 8 9; do curl -s -w '%{http_code}\\n' -o answer http://site.test/$i; done; cat answer
                      curl -s http://palisade.local/";
        let said = world.run(&["--json", "--net-limit", "requests=3", "--allow", "site.test:80"], script);
        assert_eq!(server.asked(), ["GET /1 HTTP/1.1", "GET /2 HTTP/1.1", "GET /3 HTTP/1.1"], "{who:?}");
        // With --json, what the command prints goes to standard error.
        let out = &said.err;
        assert_eq!((out.matches("200\n").count(), out.matches("403\n").count()), (3, 6), "{out}");
        assert!(out.contains("--net-limit requests="), "{out}");
        // The sandbox can ask what it may do, and what it has done.
        assert!(out.contains("\"limits\":{") && out.contains("\"requests\":3"), "{out}");
        let refused = refused(&world);
        assert_eq!(refused.len(), 1, "{refused:?}");
        assert!(refused[0].cause.contains("3 requests in all"), "{refused:?}");
        assert_eq!(world.entries("network.counts")[0].detail["over_limit"], "6");
        let said: serde_json::Value = serde_json::from_str(&said.ok().out).unwrap();
        assert_eq!(said["result"]["network"]["counts"]["refused"]["limit"], 6, "{said}");
    }
}

#[test]
fn egr_16_connections_at_a_time_and_in_all_are_bounded_and_a_place_comes_back() {
    for who in EVERYONE {
        let world = World::new(who);
        let server = world.listen(PUBLIC, 9000);
        std::thread::spawn(move || {
            for mut stream in server.incoming().flatten() {
                // Says something at once, and stays as long as the other one does.
                std::thread::spawn(move || {
                    let _ = std::io::Write::write_all(&mut stream, b"hello");
                    let _ = std::io::Read::read(&mut stream, &mut [0]);
                });
            }
        });
        let script = "python3 - <<'X'
import socket, time
def connect():
    one = socket.create_connection(('site.test', 9000), 5); one.settimeout(5)
    try: return one if one.recv(10) == b'hello' else None
    except OSError: return None
held = [connect() for _ in range(3)]
print('held', [one is not None for one in held])
print('flood', sum(connect() is not None for _ in range(12)))
held[0].close(); again = None
for _ in range(100):
    again = connect()
    if again: break
    time.sleep(0.02)
print('again', again is not None)
again.close(); time.sleep(0.3)
print('last', connect() is not None)
X";
        world.file(
            "rules.toml",
            "[limits]\nconnections = 2\ntotal = 3\n\n[[rule]]\nhost = 'site.test'\nports = [9000]\n",
        );
        // The smaller one counts.
        let said = world.run(&["--rules", "rules.toml", "--net-limit", "total=1k"], script).ok();
        assert_eq!(said.out, "held [True, True, False]\nflood 0\nagain True\nlast False\n", "{who:?}");
        let causes: Vec<String> = refused(&world).into_iter().map(|entry| entry.cause).collect();
        assert_eq!(causes.len(), 2, "{causes:?}");
        assert!(causes[0].contains("2 connections at a time"), "{causes:?}");
        assert!(causes[1].contains("3 connections in all"), "{causes:?}");
    }
}

#[test]
fn egr_16_not_one_byte_more_than_the_limit_goes_over_unopened_connections() {
    for who in EVERYONE {
        let world = World::new(who);
        let server = world.listen(PUBLIC, 9000);
        std::thread::spawn(move || {
            for mut stream in server.incoming().flatten() {
                std::thread::spawn(move || std::io::Write::write_all(&mut stream, &[b'x'; 1 << 20]));
            }
        });
        let script = "python3 - <<'X'
import socket
def read():
    got = 0
    try:
        one = socket.create_connection(('site.test', 9000), 5); one.settimeout(5)
        while some := one.recv(65536): got += len(some)
    except OSError: pass
    return got
print(read(), read())
X";
        let said = world.run(&["--net-limit", "bytes=300k", "--allow", "site.test:9000"], script).ok();
        let got: Vec<u64> = said.out.split_whitespace().map(|word| word.parse().unwrap()).collect();
        // A connection that is broken off may lose what the client has not read yet.
        assert!(got[0] <= 300 << 10 && got[1] == 0, "{who:?} {got:?}");
        let counts = world.entries("network.counts");
        assert_eq!(counts[0].detail["received"], (300 << 10).to_string());
        let closed = world.entries("network.closed");
        assert!(closed[0].cause.contains("--net-limit bytes="), "{closed:?}");
        assert_eq!(refused(&world).len(), 1);
        // The one that was broken off, and the one that was refused.
        assert_eq!(counts[0].detail["over_limit"], "2", "{who:?}");
    }
}

#[test]
fn egr_16_what_the_limit_of_bytes_breaks_off_is_counted_as_refused_by_it() {
    for who in EVERYONE {
        let long = |_: &crate::world::Request| crate::world::answer("200 OK", "", &vec![b'x'; 1 << 20]);
        let script = "for i in 1 2 3; do curl -s -o /dev/null -w '%{http_code}\n' URL || echo broken; done";
        let one = ["--json", "--net-limit", "bytes=300k", "--allow", "site.test:80"];
        let two = ["--json", "--net-limit", "bytes=300k", "--rules", "rules.toml"];
        // Whoever comes with TLS afterwards is refused before it can be told why.
        for (options, url, then) in [
            (one, "http://site.test/x", "403\n403\n"),
            (two, "https://site.test/big/x", "000\nbroken\n000\nbroken\n"),
        ] {
            let world = World::with_rules(who, "[[rule]]\nhost = \"site.test\"\npaths = [\"/**\"]\n");
            let _servers = (
                world.answering(80, &["site.test"], std::sync::Arc::new(long)),
                crate::servers::Two::start(&world, &["site.test"], 0),
            );
            let said = world.run(&options, &script.replace("URL", url)).ok();
            assert!(said.err.contains(&format!("200\nbroken\n{then}")), "{who:?} {}", said.err);
            let told: serde_json::Value = serde_json::from_str(&said.out).unwrap();
            assert_eq!(told["result"]["network"]["counts"]["refused"]["limit"], 3, "{who:?} {told}");
            assert_eq!(world.entries("network.counts")[0].detail["over_limit"], "3", "{who:?}");
            assert_eq!(refused(&world).len(), 1, "told once");
        }
    }
}

#[test]
fn egr_16_a_rate_holds_and_what_was_used_stays_used_when_the_proxy_dies() {
    for who in EVERYONE {
        let world = World::new(who);
        let server = world.http(PUBLIC, 80);
        let script = "python3 - <<'X'
import http.client
c = http.client.HTTPConnection('site.test', 80); codes = []
for i in range(30):
    c.request('GET', '/%d' % i); answer = c.getresponse(); answer.read(); codes.append(answer.status)
print(codes.count(200), codes.count(403))
X";
        let said = world.run(&["--net-limit", "rate=5/s", "--allow", "site.test:80"], script).ok();
        let served = server.asked().len();
        assert!((5..15).contains(&served), "{served}");
        assert_eq!(said.out, format!("{served} {}\n", 30 - served), "{who:?}");

        let script = "for i in 1 2 3; do curl -fsS http://site.test/x >/dev/null; done; sleep 0.6
            touch killed; while [ -e killed ]; do sleep 0.02; done
            curl -s -m 5 --retry 3 --retry-all-errors --retry-delay 1 -w '%{http_code}\\n' -o /dev/null http://site.test/4
            curl -s -w '%{http_code}\\n' -o /dev/null http://site.test/5";
        let arguments =
            ["run", "--net-limit", "requests=4", "--allow", "site.test:80", "--", "sh", "-ec", script];
        let child = world.palisade(&arguments).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let killed = world.project().join("killed");
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while !killed.exists() {
            assert!(std::time::Instant::now() < until);
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert!(world.kill_proxy());
        std::fs::remove_file(killed).unwrap();
        let said = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&said.stdout), "200\n403\n", "{who:?}");
    }
}

#[test]
fn egr_16_what_is_no_limit_is_told_before_anything_starts() {
    let world = World::new(EVERYONE[1]);
    for odd in ["speed=1", "bytes=0", "connections=100000", "requests"] {
        let said = world.run(&["--net-limit", odd, "--allow", "site.test:80"], "touch started");
        assert_eq!(said.code, Some(125), "{odd}: {}", said.err);
    }
    world.file("rules.toml", "[limits]\nspeed = 3\n\n[[rule]]\nhost = 'site.test'\n");
    assert_eq!(world.run(&["--rules", "rules.toml"], "touch started").code, Some(125));
    assert!(!world.project().join("started").exists());
}

#[test]
fn egr_16_many_idle_connections_of_one_sandbox_are_its_own_problem_and_cost_little() {
    for who in EVERYONE {
        let world = World::new(who);
        let (server, quiet) = (world.http(PUBLIC, 80), world.listen(PUBLIC, 9000));
        std::thread::spawn(move || quiet.incoming().collect::<Vec<_>>());
        let count = tests::scale(1_000, 200);
        let script = format!(
            "ulimit -n 2048; python3 - <<'X'
import os, socket, time
held = [socket.create_connection(('site.test', 9000), 5) for _ in range({count})]
time.sleep(0.5); open('ready', 'w').close()
while not os.path.exists('stop'): time.sleep(0.02)
X"
        );
        let arguments = ["run", "--json", "--allow", "site.test:9000", "--", "sh", "-ec", &script];
        let child = world.palisade(&arguments).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !world.project().join("ready").exists() {
            assert!(std::time::Instant::now() < until);
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let memory = world.proxy_memory();
        assert!(memory < 64 << 10, "{memory} KiB for {count} connections");
        let others = "for i in 1 2 3 4 5 6 7 8 9 10; do curl -fsS -m 5 http://site.test/$i >/dev/null; done";
        world.run(&["--allow", "site.test:80"], others).ok();
        assert_eq!(server.asked().len(), 10, "{who:?}");
        world.file("stop", "");
        let said = child.wait_with_output().unwrap();
        let said: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
        assert_eq!(said["result"]["network"]["counts"]["connections"], count, "{said}");
        assert_eq!(said["result"]["network"]["counts"]["refused"]["limit"], 0, "{said}");
    }
}

#[test]
fn adv_n16_a_client_that_goes_away_keeps_no_place_while_its_server_is_silent() {
    for who in EVERYONE {
        let world = World::new(who);
        let _silent = world.listen(PUBLIC, 8081);
        let script = "python3 - <<'X'
import json, socket, struct, time, urllib.request
def open_now(): return json.load(urllib.request.urlopen('http://palisade.local/'))['used']['open']
def asks():
    s = socket.create_connection(('site.test', 8081), 5)
    s.sendall(b'GET / HTTP/1.1\\r\\nHost: site.test:8081\\r\\n\\r\\n')
    return s
all = [asks() for _ in range(20)]
time.sleep(0.5)
before = open_now()
for s in all:
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0)); s.close()
for _ in range(50):
    if open_now() < 5: break
    time.sleep(0.1)
print(before >= 20, open_now() < 5)
X";
        let said = world.run(&["--allow", "site.test:8081"], script).ok();
        assert_eq!(said.out, "True True\n", "{who:?} {}", said.err);
    }
}

#[test]
fn adv_n16_servers_that_break_off_lie_or_never_end_cost_their_own_request_only() {
    let answers = |request: &crate::world::Request| -> Vec<u8> {
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        match request.path() {
            "/short" => b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nConnection: close\r\n\r\nshort".to_vec(),
            "/long" => b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhidden".to_vec(),
            "/two" => b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!".to_vec(),
            "/both" => b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".to_vec(),
            "/chunk" => [&chunked[..], b"zz\r\nno\r\n"].concat(),
            "/cut" => [&chunked[..], b"ffff\r\nsome"].concat(),
            "/head" => [&b"HTTP/1.1 200 OK\r\n"[..], &b"X-More: and more\r\n".repeat(20_000), b"\r\n"].concat(),
            "/soon" => b"HTTP/1.1 100 Continue\r\n\r\n".repeat(10_000),
            "/none" => Vec::new(),
            "/junk" => b"\x00\x01\x02 not HTTP at all\r\n\r\n".to_vec(),
            _ => crate::world::answer("200 OK", "", b"fine"),
        }
    };
    for who in EVERYONE {
        let world = World::new(who);
        // Whoever has said that is cut off, so that whoever waits for more is not kept.
        let server = world.breaking(80, std::sync::Arc::new(answers));
        let script = "for to in short long two both chunk cut head soon none junk; do
              curl -s -m 10 -o got -w \"$to %{http_code} \" http://site.test/$to || printf 'broken '; wc -c < got 2>/dev/null || echo 0; rm -f got
              curl -s -m 10 http://site.test/after; echo
            done";
        let said = world.run(&["--allow", "site.test:80"], script).ok();
        let lines: Vec<&str> = said.out.lines().collect();
        assert_eq!(lines.len(), 20, "{who:?} {}", said.out);
        for pair in lines.chunks(2) {
            let words: Vec<&str> = pair[0].split_whitespace().collect();
            match words[0] {
                // What was begun is broken off; what could not be begun is told.
                "short" | "cut" => assert_eq!(words[1..3], ["200", "broken"], "{who:?} {}", said.out),
                "long" => assert_eq!(words[1..], ["200", "2"], "{who:?} {}", said.out),
                "chunk" => assert!(["200", "502"].contains(&words[1]), "{who:?} {}", said.out),
                _ => assert_eq!(words[1], "502", "{who:?} {}", said.out),
            }
            assert_eq!(pair[1], "fine", "{who:?} {}", said.out);
        }
        assert!(!said.out.contains("hidden"));
        assert_eq!(server.asked().iter().filter(|line| line.contains("/after")).count(), 10, "{who:?}");
    }
}

#[test]
fn egr_19_a_first_refusal_is_shown_within_a_second() {
    use std::io::BufRead;
    for who in EVERYONE {
        let world = World::new(who);
        let script = "curl -s -o /dev/null http://site.test:81/x; touch asked; sleep 20";
        let arguments = ["run", "--watch-net", "--allow", "site.test:80", "--", "sh", "-c", script];
        let mut child = world.palisade(&arguments).stderr(std::process::Stdio::piped()).spawn().unwrap();
        let mut lines = std::io::BufReader::new(child.stderr.take().unwrap()).lines();
        let shown =
            lines.find(|line| line.as_ref().unwrap().contains("refused site.test:81")).unwrap().unwrap();
        let now = std::time::SystemTime::now();
        world.awaits("asked");
        let asked = std::fs::metadata(world.project().join("asked")).unwrap().modified().unwrap();
        let late = now.duration_since(asked).unwrap_or_default();
        assert!(late < std::time::Duration::from_secs(1), "{who:?} {late:?}: {shown}");
        assert!(world.palisade(&["stop", "--now"]).output().unwrap().status.success());
        child.wait().unwrap();
    }
}
