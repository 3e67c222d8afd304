//! What crosses between a sandbox and this machine's loopback, each way: the ports that somebody named, and nothing else.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use ledger::Decision;

use crate::world::{EVERYONE, PUBLIC, World, is_left_alone};

/// Servers inside that say their port and give back what they got, until there is a file `stop`.
const SERVERS: &str = "exec python3 - <<'X'
import os, socket, threading, time
def talk(client, port):
    with client:
        got = b''
        while some := client.recv(65536): got += some
        client.sendall(b'%d:' % port + got)
def serve(family, address, port):
    server = socket.socket(family); server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((address, port)); server.listen(200)
    while True: threading.Thread(target=talk, args=(server.accept()[0], port), daemon=True).start()
for family, address, port in [(socket.AF_INET, '127.0.0.1', 3000), (socket.AF_INET6, '::1', 3001), (socket.AF_INET, '0.0.0.0', 3002)]:
    threading.Thread(target=serve, args=(family, address, port), daemon=True).start()
time.sleep(0.3); open('ready', 'w').close()
while not os.path.exists('stop'): time.sleep(0.02)
X";

/// A run at work whose servers are ready.
fn started(world: &World, options: &[&str]) -> Child {
    let arguments: Vec<&str> = [&["run", "--json"], options, &["--", "sh", "-ec", SERVERS]].concat();
    let mut command = world.palisade(&arguments);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while !world.project().join("ready").exists() {
        assert!(Instant::now() < until, "the servers inside are not ready");
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

/// Ends it, and what it said of itself.
fn ended(world: &World, child: Child) -> serde_json::Value {
    world.file("stop", "");
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()["result"].clone()
}

/// What the one at this address answers; none if it does not.
fn answer(world: &World, address: &str, port: u16, text: &[u8]) -> Option<String> {
    let mut stream = world.connect(address, port).ok()?;
    talk(&mut stream, text)
}

fn talk(stream: &mut TcpStream, text: &[u8]) -> Option<String> {
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut answer = String::new();
    stream.write_all(text).ok()?;
    stream.shutdown(Shutdown::Write).ok()?;
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

#[test]
fn a_published_port_is_reached_on_the_loopback_and_nothing_else_crosses() {
    for who in EVERYONE {
        let world = World::new(who);
        let outside = [world.listen(PUBLIC, 80), world.listen("127.0.0.1", 4000)];
        let child = started(&world, &["--publish", "3000", "--publish", "8081:3001"]);
        for (address, port, says) in [
            ("127.0.0.1", 3000, "3000:hello"),
            ("::1", 3000, "3000:hello"),
            // Inside, somebody listens in version 6 only.
            ("127.0.0.1", 8081, "3001:hello"),
            ("::1", 8081, "3001:hello"),
        ] {
            assert_eq!(answer(&world, address, port, b"hello").as_deref(), Some(says), "{address} {who:?}");
        }
        // Not on other addresses of this machine, and no other port of the sandbox.
        for (address, port) in [(PUBLIC, 3000), (PUBLIC, 8081), ("127.0.0.1", 3001), ("127.0.0.1", 3002)] {
            assert!(world.connect(address, port).is_err(), "{address}:{port} {who:?}");
        }
        for listener in &outside {
            assert!(is_left_alone(listener));
        }
        let said = ended(&world, child);
        assert_eq!(said["network"]["counts"]["published"][0]["connections"], 2, "{said}");
        assert_eq!(said["network"]["counts"]["published"][1]["bytes_in"], 10, "{said}");
        // After the run nobody listens.
        assert!(world.connect("127.0.0.1", 3000).is_err());
        let launched = world.entries("sandbox.launch");
        let published = &launched.last().unwrap().detail["published"];
        assert_eq!(published, "3000 at 127.0.0.1:3000, 3001 at 127.0.0.1:8081");
        let run = said["run"].as_str().unwrap();
        let receipt = world.palisade(&["receipt", "show", run]).output().unwrap();
        let receipt = String::from_utf8_lossy(&receipt.stdout).into_owned();
        assert!(receipt.contains("3000 at 127.0.0.1:3000"), "{receipt}");
        let counted = world.entries("network.counts");
        assert!(counted[0].detail["published_3000"].starts_with("2 connections"), "{counted:?}");
    }
}

#[test]
fn many_connections_to_a_published_port_are_served_also_more_than_at_once() {
    for who in EVERYONE {
        let world = World::new(who);
        let child = started(&world, &["--publish", "3000"]);
        // One after the other: more than there are ways in.
        for number in 0..150u32 {
            let text = number.to_string();
            assert_eq!(answer(&world, "127.0.0.1", 3000, text.as_bytes()), Some(format!("3000:{text}")));
        }
        // More at the same time than there are ways in: the others wait.
        let streams: Vec<TcpStream> = (0..100).map(|_| world.connect("127.0.0.1", 3000).unwrap()).collect();
        let big = vec![b'x'; 200_000];
        std::thread::scope(|scope| {
            for mut stream in streams {
                let big = &big;
                scope.spawn(move || assert_eq!(talk(&mut stream, big).unwrap().len(), 5 + big.len()));
            }
        });
        ended(&world, child);
    }
}

#[test]
fn a_port_that_is_taken_is_told_before_the_command_starts() {
    for who in EVERYONE {
        let world = World::new(who);
        for (address, odd) in [("127.0.0.1", "3000"), ("::1", "3000"), ("0.0.0.0", "3000"), ("::", "3000:80")]
        {
            let _taken = world.listen(address, 3000);
            let said = world.run(&["--publish", odd], "touch started");
            assert_eq!(said.code, Some(125), "{}", said.err);
            assert!(said.err.contains("port 3000 of this machine is taken"), "{}", said.err);
        }
        for odd in ["0", "x", "3000:", "0.0.0.0:3000:3000"] {
            assert_eq!(world.run(&["--publish", odd], "touch started").code, Some(125), "{odd}");
        }
        let twice = world.run(&["--publish", "3000", "--publish", "3000:80"], "touch started");
        assert_eq!(twice.code, Some(125), "{}", twice.err);
        assert!(!world.project().join("started").exists());
    }
}

#[test]
fn a_run_that_is_cut_off_lets_nobody_in_any_more() {
    for who in EVERYONE {
        let world = World::new(who);
        let child = started(&world, &["--publish", "3000"]);
        let mut open = world.connect("127.0.0.1", 3000).unwrap();
        open.write_all(b"x").unwrap();
        assert!(answer(&world, "127.0.0.1", 3000, b"x").is_some());
        let begun = Instant::now();
        let cut = world.palisade(&["offline"]).output().unwrap();
        assert!(cut.status.success());
        open.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        assert!(matches!(open.read(&mut [0; 10]), Ok(0) | Err(_)));
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
        assert_eq!(answer(&world, "127.0.0.1", 3000, b"x"), None, "{who:?}");
        ended(&world, child);
    }
}

#[test]
fn egr_19_a_proxy_that_dies_takes_published_connections_with_it_and_the_next_one_serves() {
    for who in EVERYONE {
        let world = World::new(who);
        let child = started(&world, &["--publish", "3000"]);
        let mut open = world.connect("127.0.0.1", 3000).unwrap();
        open.write_all(b"x").unwrap();
        assert!(answer(&world, "127.0.0.1", 3000, b"y").is_some());
        assert!(world.kill_proxy());
        open.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        assert!(matches!(open.read(&mut [0; 10]), Ok(0) | Err(_)));
        let until = Instant::now() + Duration::from_secs(10);
        while answer(&world, "127.0.0.1", 3000, b"z").as_deref() != Some("3000:z") {
            assert!(Instant::now() < until, "{who:?}");
        }
        ended(&world, child);
    }
}

#[test]
fn egr_06_the_host_s_loopback_is_reached_on_the_port_that_a_rule_names_and_no_other() {
    for who in EVERYONE {
        let world = World::new(who);
        let (four, six) = (world.http("127.0.0.1", 5432), world.http("::1", 5433));
        let others = [world.listen("127.0.0.1", 5434), world.listen("127.0.0.1", 7717)];
        world.file("rules.toml", "[[rule]]\nhost = 'host.palisade.local'\nports = [5432, 5433]\n");
        let script = "for port in 5432 5433; do curl -fsS http://host.palisade.local:$port/$port >/dev/null; done
            for to in host.palisade.local:5434 127.0.0.1:5434 localhost:5434 0.0.0.0:5434 2130706433:5434 '[::ffff:127.0.0.1]:5434' \
                      a.host.palisade.local:5434 palisade.local:5434 loop.test:5434 host.palisade.local:7717; do
              if curl -gfsS -m 3 http://$to/; then echo reached $to; fi
              if curl -gfsS -m 3 -p -x http://198.18.0.1:3128 http://$to/; then echo reached $to by CONNECT; fi
              if curl -gfsS -m 3 --socks5-hostname 198.18.0.1:3128 http://$to/; then echo reached $to by SOCKS; fi
            done
            # The name of one port in the request for another.
            curl -fsS -m 3 -H 'Host: host.palisade.local:5434' http://host.palisade.local:5432/odd && echo reached odd || true";
        let said = world.run(&["--rules", "rules.toml", "--allow", "loop.test:5434"], script).ok();
        assert!(!said.out.contains("reached"), "{who:?} {}", said.out);
        assert_eq!(
            (four.asked(), six.asked()),
            (vec!["GET /5432 HTTP/1.1".into()], vec!["GET /5433 HTTP/1.1".into()])
        );
        for listener in &others {
            assert!(is_left_alone(listener), "{who:?}");
        }
        let allowed: Vec<_> = world
            .entries("network.connect")
            .into_iter()
            .filter(|entry| entry.decision == Decision::Allowed)
            .collect();
        assert_eq!(allowed[0].detail["address"], "127.0.0.1:5432");
        assert_eq!(allowed[1].detail["address"], "[::1]:5433");
    }
}

#[test]
fn egr_06_the_host_s_loopback_needs_exact_ports_and_never_the_daemon_s() {
    let world = World::new(EVERYONE[1]);
    for (odd, tells) in [
        ("host.palisade.local", "needs its ports"),
        ("*.palisade.local:5432", "never reached"),
        ("host.palisade.local:7717", "the daemon"),
    ] {
        let said = world.run(&["--allow", odd], "touch started");
        assert_eq!(said.code, Some(125), "{odd}");
        assert!(said.err.contains(tells), "{odd}: {}", said.err);
    }
    world.file("rules.toml", "[[rule]]\nhost = 'a.test'\n\n[[rule]]\nhost = 'host.palisade.local'\n");
    let said = world.run(&["--rules", "rules.toml"], "touch started");
    assert_eq!(said.code, Some(125));
    assert!(said.err.contains("rule 2 (line 4)") && said.err.contains("needs its ports"), "{}", said.err);
    assert!(!world.project().join("started").exists());
}

#[test]
fn egr_19_the_record_names_the_processes_that_asked_all_of_them() {
    for who in EVERYONE {
        let world = World::new(who);
        let server = world.listen(PUBLIC, 80);
        std::thread::spawn(move || {
            for mut stream in server.incoming().flatten() {
                // As far away as servers are: who asks is there meanwhile.
                std::thread::spawn(move || {
                    let _ = stream.read(&mut [0; 1000]);
                    std::thread::sleep(Duration::from_millis(500));
                    let _ = stream
                        .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
                });
            }
        });
        let script = "curl -sS http://site.test/ >/dev/null
            python3 - <<'X'
import os, socket, time
# One socket of two processes.
shared = socket.socket()
child = os.fork()
if child == 0: time.sleep(20); os._exit(0)
shared.connect(('site.test', 80))
shared.sendall(b'GET /shared HTTP/1.1\\r\\nHost: site.test\\r\\n\\r\\n'); shared.recv(100)
os.kill(child, 9)
refused = socket.create_connection(('site.test', 81)); time.sleep(1)
X";
        let said = world.run(&["--watch-net", "--allow", "site.test:80"], script).ok();
        let said = said.tells("allowed GET site.test:80/ (rule `--allow site.test:80`) by curl (");
        let entries = world.entries("network.connect");
        let of = |path: &str| {
            let is_it = |entry: &&ledger::Entry| entry.detail.get("path").is_some_and(|it| it == path);
            entries.iter().find(is_it).unwrap_or_else(|| panic!("{path} is not there: {entries:?}"))
        };
        assert!(of("/").detail["process"].starts_with("curl ("), "{entries:?}");
        let shared = &of("/shared").detail["process"];
        assert_eq!(shared.matches("python3").count(), 2, "{shared} {}", said.err);
        let refused = entries.iter().find(|entry| entry.decision == Decision::Refused).unwrap();
        assert!(refused.detail["process"].starts_with("python3"), "{refused:?}");
    }
}

#[test]
fn egr_19_what_was_done_is_counted_for_whoever_reads_it() {
    for who in EVERYONE {
        let world = World::new(who);
        let _server = world.http(PUBLIC, 80);
        let script = "curl -sS http://site.test/a http://site.test/b >/dev/null; curl -s http://site.test:81/ >/dev/null || true
                      curl -s http://other.test/ || true; curl -s -m 2 http://1.1.1.1/ || true";
        let said = world.run(&["--json", "--allow", "site.test:80"], script).ok();
        let said: serde_json::Value = serde_json::from_str(&said.out).unwrap();
        let counts = &said["result"]["network"]["counts"];
        assert_eq!((&counts["connections"], &counts["requests"]), (&2.into(), &2.into()), "{who:?} {said}");
        assert_eq!(counts["open"], 0, "{said}");
        assert!(counts["sent"].as_u64().unwrap() > 50 && counts["received"].as_u64().unwrap() > 50, "{said}");
        let refused = &counts["refused"];
        assert_eq!((&refused["rule"], &refused["limit"]), (&1.into(), &0.into()), "{said}");
        assert!(refused["name"].as_u64().unwrap() >= 1 && refused["packet"].as_u64().unwrap() >= 1, "{said}");
    }
}

#[test]
fn egr_17_local_only_keeps_everything_on_this_machine() {
    for who in EVERYONE {
        let world = World::new(who);
        let (own, outside) = (world.http("127.0.0.1", 8081), world.http(PUBLIC, 80));
        // What leads elsewhere is refused before anything starts: typed, in a set of rules, or known of an agent.
        for options in [["--allow", "site.test:80"], ["--preset", "npm-install"]] {
            let said = world.run(&[&["--local-only"], options.as_slice()].concat(), "true");
            assert_eq!(said.code, Some(125), "{who:?} {}", said.err);
            said.tells("which is not on this machine");
        }
        let said = world.palisade(&["run", "--local-only", "--", "claude"]).output().unwrap();
        assert_eq!(said.status.code(), Some(125), "{who:?}");
        world.file("local.toml", "[[rule]]\nhost = \"host.palisade.local\"\nports = [8081]\n");
        let rules = world.project().join("local.toml");
        let script = format!(
            "curl -fsS http://host.palisade.local:8081/a >/dev/null
             if curl -fsS -m 3 http://site.test/ || curl -fsS -m 3 http://{PUBLIC}/; then exit 1; fi"
        );
        world.run(&["--local-only", "--rules", rules.to_str().unwrap()], &script).ok();
        assert_eq!(own.asked(), ["GET /a HTTP/1.1"], "{who:?}");
        assert_eq!(outside.asked(), Vec::<String>::new(), "{who:?}");
    }
}
