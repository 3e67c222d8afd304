//! What is reached, by whom, and what is told of it.

use ledger::Decision;

use crate::world::{EVERYONE, PRIVATE, PUBLIC, PUBLIC_V6, World, is_left_alone};

#[test]
fn egr_01_a_program_that_knows_no_proxy_reaches_what_is_allowed() {
    for who in EVERYONE {
        let world = World::new(who);
        let server = world.http(PUBLIC, 80);
        let said = world.run(&["--allow", "site.test:80"], "curl -sS http://site.test/a").ok();
        assert!(said.out.starts_with("GET /a HTTP/1.1\n"), "{}", said.out);
        let python = "import urllib.request as u; print(u.urlopen('http://site.test/b').read().decode())";
        world.run(&["--allow", "site.test:80"], &format!("python3 -c \"{python}\"")).ok();
        assert_eq!(server.asked(), ["GET /a HTTP/1.1", "GET /b HTTP/1.1"], "{who:?}");
    }
}

#[test]
fn egr_01_any_port_and_both_versions_of_addresses_are_captured() {
    for who in EVERYONE {
        let world = World::new(who);
        let count = tests::scale(100, 10);
        let ports: Vec<u16> =
            (0..count).map(|at| 2_000 + u16::try_from(at).unwrap() * 617 % 60_000).collect();
        let servers: Vec<_> = ports.iter().map(|port| world.http(PUBLIC, *port)).collect();
        let options: Vec<String> = ports.iter().map(|port| format!("--allow=both.test:{port}")).collect();
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let urls: Vec<String> = ports.iter().map(|port| format!("http://both.test:{port}/")).collect();
        for version in ["-4", "-6"] {
            let script = format!("for url in {}; do curl {version} -sS $url; done", urls.join(" "));
            world.run(&options, &script).ok();
        }
        for (port, server) in ports.iter().zip(&servers) {
            assert_eq!(server.asked().len(), 2, "port {port}, {who:?}");
        }
    }
}

#[test]
fn egr_01_an_address_that_a_rule_lists_is_reached_as_it_is() {
    for who in EVERYONE {
        let world = World::new(who);
        let (v4, v6) = (world.http(PUBLIC, 80), world.http(PUBLIC_V6, 80));
        let listed = [format!("--allow={PUBLIC}:80"), format!("--allow=[{PUBLIC_V6}]:80")];
        let script = format!(
            "curl -gfsS http://{PUBLIC}/four >/dev/null; curl -gfsS 'http://[{PUBLIC_V6}]/six' >/dev/null"
        );
        world.run(&[&listed[0], &listed[1]], &script).ok();
        assert_eq!(
            (v4.asked(), v6.asked()),
            (vec!["GET /four HTTP/1.1".into()], vec!["GET /six HTTP/1.1".into()]),
            "{who:?}"
        );
        // On another port, and another address, not.
        let script = format!(
            "if curl -gfsS -m 3 http://{PUBLIC}:81/ || curl -gfsS -m 3 http://93.184.216.35/; then exit 1; fi"
        );
        world.run(&[&listed[0], &listed[1]], &script).ok();
    }
}

#[test]
fn egr_04_without_rules_nothing_is_reached() {
    for who in EVERYONE {
        let world = World::new(who);
        let listeners = [world.listen(PUBLIC, 80), world.listen(PUBLIC_V6, 80), world.listen(PUBLIC, 53)];
        let script = format!(
            "for to in http://site.test/ http://{PUBLIC}/ 'http://[{PUBLIC_V6}]/' http://{PUBLIC}:53/ ; do
               if curl -sS -m 3 $to; then echo reached $to; fi
             done"
        );
        let said = world.run(&[], &script).ok();
        assert!(!said.out.contains("reached"), "{}", said.out);
        for listener in &listeners {
            assert!(is_left_alone(listener), "{who:?}");
        }
    }
}

#[test]
fn egr_04_other_hosts_ports_and_addresses_stay_out_of_reach() {
    for who in EVERYONE {
        let world = World::new(who);
        let (server, other) = (world.http(PUBLIC, 80), world.listen(PUBLIC, 81));
        let script = format!(
            "for to in http://other.test/ http://site.test:81/ http://{PUBLIC}/ http://sub.site.test/ \
                       http://{PUBLIC}:81/ 'http://[{PUBLIC_V6}]/'; do
               if curl -fsS -m 5 $to; then echo reached $to; fi
             done"
        );
        let said = world.run(&["--allow", "site.test:80"], &script).ok();
        assert!(!said.out.contains("reached"), "{}", said.out);
        assert_eq!(server.asked(), Vec::<String>::new(), "{who:?}");
        assert!(is_left_alone(&other));
        said.tells("refused other.test").tells("refused site.test:81");
    }
}

#[test]
fn egr_03_names_that_nothing_allows_are_not_there_and_no_other_server_is_asked() {
    for who in EVERYONE {
        let world = World::new(who);
        let resolver = world.listen(PUBLIC, 53);
        let script = "getent ahosts site.test; getent hosts other.test || echo none
            python3 - <<'X'
import socket, struct
def ask(server, name, kind):
    q = struct.pack('>6H', 7, 0x100, 1, 0, 0, 0)
    q += b''.join(bytes([len(l)]) + l.encode() for l in name.split('.')) + b'\\0' + struct.pack('>2H', kind, 1)
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(3); s.sendto(q, (server, 53))
    a = s.recv(2000); return a[3] & 15, struct.unpack('>H', a[6:8])[0]
# Whatever server is asked, it is ours that answers.
print('theirs', ask('93.184.216.34', 'other.test', 1), ask('93.184.216.34', 'site.test', 1))
print('kinds', ask('198.18.0.1', 'site.test', 28), ask('198.18.0.1', 'site.test', 65), ask('198.18.0.1', 'site.test', 16))
X";
        let said = world.run(&["--allow", "site.test:80"], script).ok();
        assert!(said.out.contains("198.18.1.0"), "{}", said.out);
        assert!(said.out.contains("none"), "{}", said.out);
        assert!(said.out.contains("theirs (3, 0) (0, 1)"), "{}", said.out);
        assert!(said.out.contains("kinds (0, 1) (0, 0) (0, 0)"), "{}", said.out);
        assert!(is_left_alone(&resolver));
    }
}

#[test]
fn egr_06_private_and_special_addresses_are_refused_even_by_a_name_that_is_allowed() {
    for who in EVERYONE {
        let world = World::new(who);
        let places = [
            (PRIVATE, "private.test"),
            (PRIVATE, "mixed.test"),
            ("127.0.0.1", "loop.test"),
            ("169.254.169.254", "meta.test"),
        ];
        let mut listeners = Vec::new();
        for (at, (address, _)) in (0..).zip(&places) {
            listeners.push(world.listen(address, 8_000 + at));
        }
        // The public one of two addresses is not reached either.
        listeners.push(world.listen(PUBLIC, 8_001));
        for (at, (_, name)) in (8_000..).zip(&places) {
            let allowed = format!("--allow={name}:{at}");
            let said = world
                .run(&[&allowed], &format!("curl -fsS -m 5 http://{name}:{at}/ && echo reached || true"));
            assert!(!said.out.contains("reached"), "{name}: {}", said.out);
            said.ok().tells(&format!("refused GET {name}:{at}/"));
        }
        for literal in ["127.0.0.1:8002", "169.254.169.254:8003", "10.1.2.3:8000", "[::1]:80"] {
            let allowed = format!("--allow={literal}");
            let said =
                world.run(&[&allowed], &format!("curl -gfsS -m 5 http://{literal}/ && echo reached || true"));
            assert!(!said.out.contains("reached"), "{literal}: {}", said.out);
        }
        for listener in &listeners {
            assert!(is_left_alone(listener), "{who:?}");
        }
    }
}

#[test]
fn egr_01_datagrams_and_echoes_go_nowhere() {
    for who in EVERYONE {
        let world = World::new(who);
        let script = "python3 - <<'X'
import socket
def udp(to):
    s = socket.socket(socket.AF_INET6 if ':' in to else socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(1)
    try:
        s.connect((to, 443)); s.send(b'x'); s.recv(10); return 'answered'
    except OSError as error: return type(error).__name__
for to in ['93.184.216.34', '198.18.1.0', '2606:2800:220:1::1']: print('udp', to, udp(to))
try:
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP); s.settimeout(1)
    s.sendto(b'\\x08\\0\\0\\0\\0\\x01\\0\\x01', ('93.184.216.34', 0)); s.recv(100); print('echo answered')
except OSError as error: print('echo', type(error).__name__)
X";
        let said = world.run(&["--allow", "site.test:80"], script).ok();
        assert_eq!(said.out.matches("udp").count(), 3, "{}", said.out);
        assert!(said.out.contains("echo") && !said.out.contains("answered"), "{}", said.out);
    }
}

#[test]
fn egr_02_connect_whole_addresses_and_socks_get_the_same_verdicts() {
    let proxy = "198.18.0.1:3128";
    for who in EVERYONE {
        let world = World::new(who);
        let server = world.http(PUBLIC, 80);
        let kinds = [
            ("plain", String::new()),
            ("whole", format!("-x http://{proxy}")),
            ("connect", format!("-p -x http://{proxy}")),
            ("socks", format!("--socks5-hostname {proxy}")),
        ];
        for (kind, option) in &kinds {
            let script = format!(
                "curl {option} -fsS -m 5 http://site.test/{kind} >/dev/null && echo yes
                 for to in http://other.test/ http://site.test:81/ http://{PUBLIC}/ http://127.0.0.1:3128/; do
                   if curl {option} -fsS -m 5 $to >/dev/null; then echo reached $to; fi
                 done"
            );
            let said = world.run(&["--allow", "site.test:80"], &script).ok();
            assert_eq!(said.out.trim(), "yes", "{kind}: {} {}", said.out, said.err);
        }
        let expected: Vec<String> = kinds.iter().map(|(kind, _)| format!("GET /{kind} HTTP/1.1")).collect();
        assert_eq!(server.asked(), expected, "{who:?}");
    }
}

#[test]
fn egr_09_requests_on_one_connection_are_judged_one_by_one() {
    for who in EVERYONE {
        let world = World::new(who);
        let server = world.http(PUBLIC, 80);
        let count = tests::scale(1_000, 50);
        let script = format!(
            "python3 - <<'X'
import http.client
c = http.client.HTTPConnection('site.test', 80)
got = []
for i in range({count}):
    c.request('GET', '/%d' % i, headers={{'Host': 'site.test' if i % 2 == 0 else 'other.test'}})
    a = c.getresponse(); a.read(); got.append(a.status)
print(set(got[::2]), set(got[1::2]))
X"
        );
        let said = world.run(&["--allow", "site.test:80"], &script).ok();
        assert_eq!(said.out.trim(), "{200} {403}");
        let expected: Vec<String> = (0..count).step_by(2).map(|at| format!("GET /{at} HTTP/1.1")).collect();
        assert_eq!(server.asked(), expected, "{who:?}");
    }
}

#[test]
fn egr_19_each_decision_is_in_the_ledger_and_none_has_a_secret() {
    for who in EVERYONE {
        let world = World::new(who);
        let _server = world.http(PUBLIC, 80);
        let script = "curl -sS 'http://site.test/a?token=ghp_0123456789abcdefghijABCDEFGHIJ456789' >/dev/null
                      curl -sS http://other.test/ || true; curl -fsS http://site.test:81/ || true";
        world.run(&["--allow", "site.test:80"], script).ok().tells("refused other.test");
        let connected = world.entries("network.connect");
        let of = |decision| connected.iter().filter(|entry| entry.decision == decision).collect::<Vec<_>>();
        let (allowed, refused) = (of(Decision::Allowed), of(Decision::Refused));
        assert_eq!((allowed.len(), refused.len()), (1, 1), "{connected:?}");
        let detail = &allowed[0].detail;
        assert_eq!(detail["host"], "site.test");
        assert_eq!((detail["method"].as_str(), detail["path"].as_str()), ("GET", "/a"));
        assert_eq!(detail["rule"], "--allow site.test:80");
        assert_eq!(refused[0].detail["port"], "81");
        let closed = world.entries("network.closed");
        assert_ne!(closed[0].detail["received"], "0");
        assert_eq!(world.entries("network.name").len(), 1);
        let all = format!("{connected:?} {closed:?}");
        assert!(!all.contains("ghp_") && !all.contains("token"), "{all}");
    }
}

#[test]
fn egr_19_a_proxy_that_dies_takes_what_is_open_with_it_and_is_back_within_two_seconds() {
    for who in EVERYONE {
        let world = World::new(who);
        let (server, quiet) = (world.http(PUBLIC, 80), world.listen(PUBLIC, 9000));
        // No rule is lost: neither one that allows nor the want of one.
        let script = "python3 - <<'X'
import os, socket, time
def get(host, port, path):
    s = socket.create_connection((host, port), 5); s.settimeout(5)
    s.sendall(('GET %s HTTP/1.1\\r\\nHost: %s:%d\\r\\nConnection: close\\r\\n\\r\\n' % (path, host, port)).encode())
    return s.recv(12)[9:].decode()
tunnels = [socket.create_connection(('site.test', 9000), 5) for _ in range(5)]
for one in tunnels: one.settimeout(5); one.sendall(b'hello\\r\\n')
print(get('site.test', 80, '/1')); open('ready', 'w').close()
while not os.path.exists('killed'): time.sleep(0.002)
begun = time.time()
for one in tunnels:
    try: print('ended' if one.recv(10) == b'' else 'answered')
    except ConnectionError: print('ended')
while True:
    try:
        if get('site.test', 80, '/2') == '200': break
    except OSError: pass
    time.sleep(0.01)
print('back' if time.time() - begun < 2 else time.time() - begun)
print(get('site.test', 81, '/3'))
X";
        let rules = ["run", "--allow", "site.test:80", "--allow", "site.test:9000"];
        let arguments = [rules.as_slice(), &["--", "sh", "-ec", script]].concat();
        let child = world.palisade(&arguments).stdout(std::process::Stdio::piped()).spawn().unwrap();
        world.awaits("ready");
        assert!(world.kill_proxy(), "no proxy was found");
        world.file("killed", "");
        let said = child.wait_with_output().unwrap();
        let out = String::from_utf8_lossy(&said.stdout).into_owned();
        assert_eq!(out, "200\nended\nended\nended\nended\nended\nback\n403\n", "{who:?}");
        assert_eq!(server.asked(), ["GET /1 HTTP/1.1", "GET /2 HTTP/1.1"]);
        drop(quiet);
        assert_eq!(world.entries("network.proxy").len(), 1);
    }
}

#[test]
fn egr_19_without_a_proxy_nothing_goes_out_however_long_it_is_away() {
    for who in EVERYONE {
        let world = World::new(who);
        let server = world.http(PUBLIC, 80);
        let script = "curl -sS -o /dev/null http://site.test/1; touch ready; while [ ! -e away ]; do sleep 0.01; done
            for i in 1 2 3; do
              curl -s -m 1 -o /dev/null http://site.test/away; curl -s -m 1 -o /dev/null http://93.184.216.34/away
            done
            touch tried; while [ ! -e back ]; do sleep 0.01; done
            for i in $(seq 20); do curl -fsS -m 2 -o /dev/null http://site.test/2 && break; sleep 0.1; done";
        let arguments = ["run", "--allow", "site.test:80", "--", "sh", "-c", script];
        let mut child = world.palisade(&arguments).spawn().unwrap();
        world.awaits("ready");
        // It cannot be started any more.
        let folder = world.folder.path();
        let (program, aside, proxies) =
            (folder.join("palisade-egress"), folder.join("aside"), world.proxies());
        std::fs::rename(&program, &aside).unwrap();
        for proxy in proxies {
            rustix::process::kill_process(proxy, rustix::process::Signal::KILL).unwrap();
        }
        world.file("away", "");
        world.awaits("tried");
        assert_eq!(server.asked(), ["GET /1 HTTP/1.1"], "{who:?}");
        std::fs::rename(&aside, &program).unwrap();
        world.file("back", "");
        assert!(child.wait().unwrap().success(), "{who:?}");
        // What waited at the door may have come in after all, once somebody could judge it.
        assert!(server.asked().contains(&"GET /2 HTTP/1.1".to_owned()), "{who:?} {:?}", server.asked());
    }
}

#[test]
fn egr_19_a_burst_at_the_end_is_recorded_whole() {
    for who in EVERYONE {
        let world = World::new(who);
        let server = world.http(PUBLIC, 80);
        let count = tests::scale(2_000, 300);
        let script = format!(
            "python3 - <<'X'
import http.client
c = http.client.HTTPConnection('site.test', 80)
for i in range({count}): c.request('GET', '/%d' % i); c.getresponse().read()
X"
        );
        world.run(&["--allow", "site.test:80"], &script).ok();
        assert_eq!(server.asked().len(), count);
        assert_eq!(world.entries("network.connect").len(), count, "{who:?}");
        assert_eq!(world.entries("network.closed").len(), count);
        assert_eq!(world.entries("network.counts")[0].detail["allowed"], count.to_string());
    }
}

#[test]
fn egr_19_whoever_says_nothing_and_asks_for_odd_names_is_recorded_too() {
    for who in EVERYONE {
        let world = World::new(who);
        let script = "python3 - <<'X'
import socket
def touch(host, port):
    try: socket.create_connection((host, port), 2).close()
    except OSError: pass
touch('site.test', 22); touch('198.18.77.7', 80); touch('1.1.1.1', 443); touch('2606:2800:220:1::1', 25)
for i in range(120):
    try: socket.getaddrinfo('x%d.attacker.test' % i, 80)
    except OSError: pass
X";
        world.run(&["--allow", "site.test:80"], script).ok();
        let refused: Vec<String> =
            world.entries("network.connect").iter().map(|entry| entry.detail["host"].clone()).collect();
        let expected = ["1.1.1.1", "198.18.77.7", "2606:2800:220:1::1", "site.test"];
        assert_eq!(
            refused.iter().collect::<std::collections::BTreeSet<_>>(),
            expected.map(String::from).iter().collect(),
            "{who:?}"
        );
        // Data can be carried in names.
        assert_eq!(world.entries("network.finding").len(), 1);
        assert!(world.entries("network.counts")[0].detail["names_refused"].parse::<u32>().unwrap() >= 120);
    }
}

#[test]
fn egr_19_a_reader_who_does_not_read_holds_up_nobody() {
    for who in EVERYONE {
        let world = World::new(who);
        let _server = world.http(PUBLIC, 80);
        let script = "for i in 1 2 3 4 5 6 7 8; do curl -s -o /dev/null \"http://site.test/$(head -c 12000 /dev/zero | tr '\\0' x)$i\"; done";
        let mut command =
            world.palisade(&["run", "--watch-net", "--allow", "site.test:80", "--", "sh", "-ec", script]);
        let (reader, writer) = std::io::pipe().unwrap();
        rustix::pipe::fcntl_setpipe_size(&writer, 4096).unwrap();
        let mut child = command.stderr(writer).spawn().unwrap();
        drop(command);
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        let ended = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            assert!(std::time::Instant::now() < until, "it waits for a reader");
            std::thread::sleep(std::time::Duration::from_millis(20));
        };
        assert!(ended.success());
        drop(reader);
    }
}

#[test]
fn egr_18_what_is_open_is_closed_within_a_second_when_the_rules_go() {
    for who in EVERYONE {
        let world = World::new(who);
        let (server, quiet) = (world.http(PUBLIC, 80), world.listen(PUBLIC, 9000));
        // A tunnel that says nothing, a connection that rests, and a request whose content is still coming.
        let script = "python3 - <<'X'
import http.client, os, socket, time
tunnel = socket.create_connection(('site.test', 9000), 5)
rests = http.client.HTTPConnection('site.test', 80); rests.request('GET', '/rests'); rests.getresponse().read()
half = socket.create_connection(('site.test', 80), 5)
half.sendall(b'POST /half HTTP/1.1\\r\\nHost: site.test\\r\\nContent-Length: 10\\r\\n\\r\\n12345')
time.sleep(0.5); open('ready', 'w').close()
while not os.path.exists('cut'): time.sleep(0.01)
begun = time.time()
for one in (tunnel, rests.sock, half):
    one.settimeout(5)
    try: print('ended' if one.recv(100) == b'' else 'answered')
    except ConnectionError: print('ended')
print('soon' if time.time() - begun < 1 else 'late')
try: half.sendall(b'67890')
except OSError: pass
try: socket.create_connection(('site.test', 80), 3).recv(10); print('new')
except OSError: print('refused')
X";
        let allowed =
            ["run", "--allow", "site.test:80", "--allow", "site.test:9000", "--", "sh", "-ec", script];
        let child = world.palisade(&allowed).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while !world.project().join("ready").exists() {
            assert!(std::time::Instant::now() < until);
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let tunnel = quiet.accept().unwrap();
        let cut = world.palisade(&["offline"]).output().unwrap();
        assert!(cut.status.success(), "{}", String::from_utf8_lossy(&cut.stderr));
        world.file("cut", "");
        let said = child.wait_with_output().unwrap();
        let out = String::from_utf8_lossy(&said.stdout).into_owned();
        assert!(out.starts_with("ended\nended\nended\nsoon\n"), "{who:?} {out}");
        assert!(!out.contains("new"), "{out}");
        drop(tunnel);
        assert!(!server.seen().iter().any(|request| request.body.ends_with(b"67890")));
        assert_eq!(world.entries("sandbox.offline").len(), 1);
    }
}

#[test]
fn egr_05_large_sets_of_rules_reach_the_proxy() {
    let world = World::new(EVERYONE[1]);
    let server = world.http(PUBLIC, 80);
    let mut rules = String::new();
    for host in 0..100 {
        let paths: Vec<String> = (0..60).map(|at| format!("\"/a-rather-long-path/{host}/{at}\"")).collect();
        rules.push_str(&format!(
            "[[rule]]\nhost = \"h{host}.test\"\nports = [80]\npaths = [{}]\n",
            paths.join(",")
        ));
    }
    rules.push_str("[[rule]]\nhost = \"site.test\"\nports = [80]\npaths = [\"/a\"]\n");
    world.file("many.toml", &rules);
    let path = world.project().join("many.toml");
    world.run(&["--rules", path.to_str().unwrap()], "curl -fsS http://site.test/a >/dev/null").ok();
    assert_eq!(server.asked(), ["GET /a HTTP/1.1"]);
}

/// ACC-08, ACC-26: of what rules allow, a run that is kept within hosts reaches these and no others.
#[test]
fn acc_08_a_run_that_is_kept_within_hosts_reaches_no_others() {
    for who in EVERYONE {
        let world = World::new(who);
        let _server = world.http(PUBLIC, 80);
        let script = "for host in site both; do
                        if curl -4 -fsS -m 5 http://$host.test/ >/dev/null 2>&1; then echo $host; fi
                      done";
        for (within, reached) in [
            (&["--within=**"][..], "site\nboth\n"),
            (&["--within=site.test"], "site\n"),
            (&["--within=*.test:80"], "site\nboth\n"),
            (&["--within=site.test:443"], ""),
            (&["--within=other.test"], ""),
            (&["--within=**", "--never=site.test"], "both\n"),
            (&["--never=SITE.test."], "both\n"),
            // Nor by what would be learnt.
            (&["--learn=new", "--within=site.test"], "site\n"),
        ] {
            let options = [&["--allow=Site.test.:80", "--allow=both.test:80"], within].concat();
            assert_eq!(world.run(&options, script).ok().out, reached, "{within:?} {who:?}");
        }
    }
}
