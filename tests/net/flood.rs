//! A sandbox that wants to be everybody's problem stays its own.

use std::process::Stdio;

use crate::world::{EVERYONE, PUBLIC, World, is_left_alone};

/// More than anybody needs for this many connections, in KiB.
const MOST_MEMORY: u64 = 200 << 10;

#[test]
fn adv_n16_a_flood_is_bounded_fails_closed_and_leaves_others_alone() {
    for who in EVERYONE {
        let world = World::new(who);
        let (server, other) = (world.http(PUBLIC, 80), world.listen(PUBLIC, 81));
        let count = tests::scale(10_000, 1_000);
        let flood = format!(
            "cat > flood.py <<'X'
import os, socket, sys, time
kinds = [b'', b'GET / HTTP/1.1\\r\\nHost: site.test\\r\\nX', b'POST / HTTP/1.1\\r\\nHost: site.test\\r\\nContent-Length: 1000\\r\\n\\r\\nx',
         b'\\x16\\x03\\x01\\x02\\x00\\x01', b'POST / HTTP/1.1\\r\\nHost: site.test\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n5\\r\\nx']
held = []
for i in range(int(sys.argv[1])):
    s = socket.socket(); s.setblocking(False)
    try: s.connect(('198.18.1.0' if i % 2 else '198.18.0.1', 80 if i % 2 else 3128))
    except BlockingIOError: pass
    held.append((s, kinds[i % len(kinds)]))
time.sleep(0.5)
for s, kind in held:
    try: s.send(kind)
    except OSError: pass
open('flooded' + sys.argv[2], 'w').close()
until = time.time() + 60
while not os.path.exists('over') and time.time() < until: time.sleep(0.05)
X
curl -fsS -o /dev/null http://site.test/first
for part in 1 2 3 4; do python3 flood.py {} $part & done; wait
for try in 1 2 3 4 5; do curl -fsS -m 10 -o /dev/null http://site.test/after && echo again && break; sleep 0.5; done",
            count / 4
        );
        let child = world
            .palisade(&["run", "--allow", "site.test:80", "--", "sh", "-c", &flood])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        for part in 1..=4 {
            world.awaits(&format!("flooded{part}"));
        }
        let proxies = world.proxies();
        assert_eq!(proxies.len(), 1, "{who:?}");
        let process = format!("/proc/{}", proxies[0].as_raw_nonzero());
        let status = std::fs::read_to_string(format!("{process}/status")).unwrap();
        let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let most: u64 = most.trim().trim_end_matches(" kB").parse().unwrap();
        let open = std::fs::read_dir(format!("{process}/fd")).unwrap().count();
        assert!(most < MOST_MEMORY, "{who:?}: {most} KiB for {count} connections");
        // No more than the usual limit are carried at a time, however many come.
        let carried = count.min(1_024);
        assert!(
            open > carried / 4 && open < carried * 3 + 200,
            "{who:?}: {open} descriptors for {count} connections"
        );
        // Somebody else does not notice.
        let script = "
            for at in 1 2 3 4 5 6 7 8 9 10; do curl -fsS -m 5 -o /dev/null http://site.test/other$at || echo failed; done
            curl -s -m 5 -o /dev/null -w '%{http_code} ' http://site.test:81/ || true
            curl -s -m 5 -o /dev/null -w '%{http_code}' -x http://198.18.0.1:3128 http://other.test/ || true";
        let said = world.run(&["--allow", "site.test:80"], script).ok();
        assert_eq!(said.out, "403 403", "{who:?} {}", said.err);
        // The flooded one still refuses what it refused.
        assert!(is_left_alone(&other));
        world.file("over", "");
        let said = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&said.stdout), "again\n", "{who:?}");
        let asked = server.asked();
        let whole = asked.iter().filter(|line| line.starts_with("GET /other")).count();
        assert_eq!(whole, 10);
        assert!(
            asked.iter().all(|line| line.starts_with("GET /") || line.starts_with("POST / ")),
            "{asked:?}"
        );
    }
}

#[test]
fn adv_n16_connections_that_come_faster_than_anybody_needs_them_are_refused_before_the_proxy_has_them() {
    for who in EVERYONE {
        let world = World::new(who);
        let server = world.http(PUBLIC, 80);
        let script = "python3 - <<'X'
import collections, errno, socket, threading, time
to = (socket.gethostbyname('site.test'), 80)
held, came = [], collections.Counter()
for i in range(6000):
    s = socket.socket(); s.setblocking(False); s.connect_ex(to); held.append(s)
time.sleep(0.2)
for s in held: came[s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)] += 1
print(came[errno.ECONNREFUSED] > 2000, sum(came.values()))
# What stays inside is nobody's business, however fast it comes.
listener = socket.create_server(('127.0.0.1', 0)); count = 0
def take():
    while True: listener.accept()[0].close()
threading.Thread(target=take, daemon=True).start()
for i in range(4000):
    with socket.create_connection(listener.getsockname()): count += 1
print(count)
for s in held: s.close()
X
for try in 1 2 3 4 5 6; do curl -fsS -m 5 -o /dev/null http://site.test/after && echo again && break; sleep 0.5; done";
        let said = world.run(&["--allow", "site.test:80"], script).ok();
        assert_eq!(said.out, "True 6000\n4000\nagain\n", "{who:?} {}", said.err);
        said.tells("connections come faster than a sandbox may begin them");
        assert_eq!(server.asked(), ["GET /after HTTP/1.1"], "{who:?}");
        let entries = world.entries("network.connect");
        let is_flood = |entry: &&ledger::Entry| {
            entry.decision == ledger::Decision::Refused && format!("{entry:?}").contains("come faster")
        };
        // Told, and not each of them.
        assert!((1..10).contains(&entries.iter().filter(is_flood).count()), "{who:?} {entries:?}");
    }
}
