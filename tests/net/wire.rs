//! The wire that leads out of the test's internet: whatever is sent to an address that nobody here has goes there, and is
//! counted.

use crate::world::{EVERYONE, PRIVATE, PUBLIC, World, is_left_alone};

/// A wire with nobody at its end.
struct Wire<'a>(&'a World);

impl<'a> Wire<'a> {
    fn laid(world: &'a World) -> Self {
        let script = "ip link add w0 type veth peer name w1
            for end in w0 w1; do
              echo 1 > /proc/sys/net/ipv6/conf/$end/addr_gen_mode
              ip link set $end multicast off arp off up
            done
            ip addr add 192.0.2.1/24 dev w0; ip route add default dev w0; ip -6 route add default dev w0";
        let made = world.inside("sh").args(["-ec", script]).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let wire = Self(world);
        // It counts: without this, zero would mean nothing.
        let before = wire.packets();
        world.within(|| {
            let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
            socket.send_to(b"x", ("9.9.9.9", 9)).unwrap();
        });
        assert_eq!(wire.packets(), before + 1);
        wire
    }

    /// How many packets went out so far.
    fn packets(&self) -> u64 {
        let counts = self.0.within(|| std::fs::read_to_string("/proc/thread-self/net/dev").unwrap());
        let line = counts.lines().find_map(|line| line.trim().strip_prefix("w0:")).unwrap();
        line.split_whitespace().nth(9).unwrap().parse().unwrap()
    }
}

#[test]
fn adv_n01_a_what_knows_no_proxy_sends_no_packet_and_is_told_so_at_once() {
    for who in EVERYONE {
        let world = World::new(who);
        let (wire, server) = (Wire::laid(&world), world.http(PUBLIC, 80));
        let before = wire.packets();
        let script = "python3 - <<'X'
import random, socket, time
random.seed(7); slow, reached = [], []
def tries(family, kind, to, data=None):
    begun = time.time()
    s = socket.socket(family, kind); s.settimeout(3)
    try:
        s.connect(to)
        if data: s.send(data); s.settimeout(0.2); s.recv(10)
        reached.append(to)
    except OSError: pass
    s.close()
    if time.time() - begun > 1: slow.append(to)
ports = random.sample(range(1, 65536), 100)
ports = [port for port in ports if port != 53]
for at, port in enumerate(ports):
    tries(socket.AF_INET, socket.SOCK_STREAM, ('9.9.9.%d' % (at + 1), port))
    tries(socket.AF_INET6, socket.SOCK_STREAM, ('2620:fe::%x' % (at + 1), port))
for port in ports[:20]:
    tries(socket.AF_INET, socket.SOCK_DGRAM, ('9.9.9.9', port), b'a secret')
    tries(socket.AF_INET6, socket.SOCK_DGRAM, ('2620:fe::9', port), b'a secret')
print(reached, slow)
X
curl -fsS -o /dev/null http://site.test/allowed";
        let said = world.run(&["--allow", "site.test:80"], script).ok();
        assert_eq!(said.out.trim(), "[] []", "{who:?} {}", said.err);
        assert_eq!((wire.packets(), server.asked().len()), (before, 1), "{who:?}");
        // Each of them is on the record, with the run that tried.
        let run = world.entries("sandbox.launch")[0].resource.clone();
        let refused = world.entries("network.connect");
        let refused: Vec<_> =
            refused.iter().filter(|entry| entry.decision == ledger::Decision::Refused).collect();
        assert!(refused.iter().all(|entry| entry.resource == run), "{refused:?}");
        let places: std::collections::BTreeSet<&str> =
            refused.iter().filter_map(|entry| entry.detail.get("host").map(String::as_str)).collect();
        assert!(places.len() >= 150, "{who:?}: {} places of 200", places.len());
    }
}

/// Where is tried to go, and whether the rules allow that.
const PLACES: [(&str, bool); 10] = [
    ("http://site.test/", true),
    ("http://site.test:81/", false),
    ("http://other.test/", false),
    ("http://sub.site.test/", false),
    ("http://private.test/", false),
    ("http://loop.test/", false),
    ("http://93.184.216.34/", false),
    ("http://10.1.2.3/", false),
    ("http://169.254.169.254/", false),
    ("http://9.9.9.9/", false),
];

#[test]
fn adv_n01_b_c_d_own_settings_change_no_verdict_in_sixty_pairs() {
    for who in EVERYONE {
        let world = World::new(who);
        let wire = Wire::laid(&world);
        let (server, loopback, private) =
            (world.http(PUBLIC, 80), world.listen("127.0.0.1", 80), world.listen(PRIVATE, 80));
        let before = wire.packets();
        // For each: whether it can reach what is allowed, and how it is set.
        let ways = [
            (true, "env -u HTTP_PROXY -u http_proxy -u ALL_PROXY curl"),
            (true, "env NO_PROXY='*' no_proxy='*' http_proxy=http://9.9.9.9:3128 curl"),
            (false, "env http_proxy=http://9.9.9.9:3128 ALL_PROXY=socks5h://9.9.9.9:1080 curl"),
            (false, "env http_proxy=http://127.0.0.1:80 curl"),
            // As an own file of hosts, and an own server for names, would have it.
            (false, "mapped 127.0.0.1"),
            (false, "mapped 93.184.216.34"),
        ];
        let places: Vec<&str> = PLACES.iter().map(|(place, _)| *place).collect();
        let places = places.join(" ");
        let asks = "-s -m 3 -o /dev/null -w '%{http_code} ' $to || true";
        let tries: Vec<String> =
            ways.iter().map(|(_, way)| format!("for to in {places}; do {way} {asks}; done; echo")).collect();
        let script = format!(
            "mapped() {{ to=$1; shift; for last; do :; done; name=${{last#http://}}; name=${{name%%[:/]*}}
               curl --resolve $name:80:$to --resolve $name:81:$to \"$@\"; }}
             {}
             for file in /etc/hosts /etc/resolv.conf /etc/nsswitch.conf; do
               (echo 127.0.0.1 site.test >> $file) 2>/dev/null && echo wrote $file
             done
             curl -s -m 3 --dns-servers 9.9.9.9 -o /dev/null -w '%{{http_code}}' http://other.test/ || true",
            tries.join("\n")
        );
        let said = world.run(&["--allow", "site.test:80"], &script).ok();
        assert!(!said.out.contains("wrote"), "{who:?} {}", said.out);
        let lines: Vec<&str> = said.out.lines().collect();
        for (at, (reaches, way)) in ways.iter().enumerate() {
            let codes: Vec<bool> = lines[at].split_whitespace().map(|code| code == "200").collect();
            let expected: Vec<bool> = PLACES.iter().map(|(_, allowed)| *allowed && *reaches).collect();
            assert_eq!(codes, expected, "{who:?} {way}: {}", said.out);
        }
        assert_eq!(server.asked().len(), 2, "{who:?}");
        assert!(is_left_alone(&loopback) && is_left_alone(&private), "{who:?}");
        assert_eq!(wire.packets(), before, "{who:?}");
    }
}

#[test]
fn egr_17_a_whole_local_only_run_sends_no_packet_beyond_the_loopback() {
    for who in EVERYONE {
        let world = World::new(who);
        let (wire, own) = (Wire::laid(&world), world.http("127.0.0.1", 8081));
        let before = wire.packets();
        let script = "for i in $(seq 50); do curl -fsS -o /dev/null http://host.palisade.local:8081/$i; done
            tries() { curl -gfsS -m 2 -o /dev/null \"$@\" 2>/dev/null && echo reached \"$@\"; true; }
            for to in http://site.test/ https://api.anthropic.com/ http://9.9.9.9/ 'http://[2620:fe::9]/'; do
              tries $to; tries -p -x http://198.18.0.1:3128 $to; tries --socks5-hostname 198.18.0.1:3128 $to
            done; getent hosts site.test || true";
        let said = world.run(&["--local-only", "--allow", "host.palisade.local:8081"], script).ok();
        assert_eq!((said.out.as_str(), own.asked().len()), ("", 50), "{who:?} {}", said.err);
        assert_eq!(wire.packets(), before, "{who:?}");
    }
}
