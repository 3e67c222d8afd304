//! Attacks on the network from inside, row by row of the specification.

use crate::world::{Certificate, EVERYONE, PUBLIC, World, is_left_alone};

/// Sends each of these as it is, on a connection of its own, and says what came back first.
const RAW: &str = "
import socket, sys
def send(data, host='site.test', port=80):
    s = socket.create_connection((host, port), 5); s.settimeout(5)
    try:
        s.sendall(data); got = b''
        while True:
            more = s.recv(65536)
            if not more: break
            got += more
    except OSError as error:
        if not got: return type(error).__name__
    return got.split(b'\\r\\n')[0].decode(errors='replace') if got else 'closed'
";

fn python(body: &str) -> String {
    format!("cat > attack.py <<'X'\n{RAW}\n{body}\nX\npython3 attack.py")
}

#[test]
fn adv_n11_smuggled_requests_are_refused_whole() {
    let cases = r#"
H = b'Host: site.test\r\n'
P = b'POST /x HTTP/1.1\r\n' + H
cases = [
 P + b'Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG',
 P + b'Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n',
 P + b'Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n',
 P + b'Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n',
 P + b'Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n',
 P + b'Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n',
 P + b'Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n',
 P + b'Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n',
 P + b'Transfer-Encoding: "chunked"\r\n\r\n0\r\n\r\n',
 P + b'Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!',
 P + b'Content-Length: 5, 5\r\n\r\nhello',
 P + b'Content-Length: -1\r\n\r\n',
 P + b'Content-Length: +5\r\n\r\nhello',
 P + b'Content-Length: 0x5\r\n\r\nhello',
 P + b'Content-Length: 5 \t5\r\n\r\nhello',
 P + b'Content-Length: 99999999999999999999\r\n\r\n',
 P + b'Content-Length:\r\n\r\n',
 b'GET / HTTP/1.1\nHost: site.test\n\n',
 b'GET / HTTP/1.1\r\nHost: site.test\n\r\n',
 b'GET / HTTP/1.1\r\nHost: site.test\r\nX: a\r\n b\r\n\r\n',
 b'GET / HTTP/1.1\r\n' + H + b'X: a\x00b\r\n\r\n',
 b'GET / HTTP/1.1\r\n' + H + b'X: a\rb\r\n\r\n',
 b'GET / HTTP/1.1\r\n' + H + b'\x00X: a\r\n\r\n',
 b'GET / HTTP/1.1\r\n' + H + b'no colon\r\n\r\n',
 b'GET / HTTP/1.1\r\n' + H + b': empty\r\n\r\n',
 b'GET / HTTP/1.1\r\n' + H + H + b'\r\n',
 b'GET / HTTP/1.1\r\nHost: site.test\r\nHost: other.test\r\n\r\n',
 b'GET / HTTP/1.1\r\n\r\n',
 b'GET / HTTP/1.0\r\n\r\n',
 b'GET http://other.test/ HTTP/1.1\r\n' + H + b'\r\n',
 b'GET  / HTTP/1.1\r\n' + H + b'\r\n',
 b'GET / x HTTP/1.1\r\n' + H + b'\r\n',
 b'GET / HTTP/1.1 \r\n' + H + b'\r\n',
 b'GET / HTTP/2.0\r\n' + H + b'\r\n',
 b'GET / HTTP/1.10\r\n' + H + b'\r\n',
 b'GET /#frag HTTP/1.1\r\n' + H + b'\r\n',
 b'GET /a\x7fb HTTP/1.1\r\n' + H + b'\r\n',
 b'GET / HTTP/1.1\r\n' + H + b'X: ' + b'a' * 70000 + b'\r\n\r\n',
 b'GET / HTTP/1.1\r\n' + H + b''.join(b'X%d: a\r\n' % i for i in range(200)) + b'\r\n',
 b'CONNECT other.test:80 HTTP/1.1\r\nHost: other.test:80\r\n\r\n',
 b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
]
print(len(cases))
for i, case in enumerate(cases):
    got = send(case)
    if ' 400 ' not in got and ' 403 ' not in got: print('case', i, got)
"#;
    for who in EVERYONE {
        let world = World::new(who);
        let server = world.http(PUBLIC, 80);
        let said = world.run(&["--allow", "site.test:80"], &python(cases)).ok();
        assert_eq!(said.out.trim(), "41", "{who:?}: {}", said.out);
        assert_eq!(server.asked(), Vec::<String>::new());
    }
}

#[test]
fn adv_n11_chunks_that_can_be_read_in_two_ways_end_the_request() {
    let cases = r#"
P = b'POST /x HTTP/1.1\r\nHost: site.test\r\nTransfer-Encoding: chunked\r\n\r\n'
cases = [b'5;ext=1\r\nhello\r\n0\r\n\r\n', b'5\nhello\n0\n\n', b'0x5\r\nhello\r\n0\r\n\r\n', b'+5\r\nhello\r\n0\r\n\r\n',
 b' 5\r\nhello\r\n0\r\n\r\n', b'5 \r\nhello\r\n0\r\n\r\n', b'5\r\nhelloXX0\r\n\r\n', b'FFFFFFFFFFFFFFFFF\r\nhello', b'-1\r\n\r\n',
 b'5\r\nhello\r\n0\r\nContent-Length: 5\r\n\r\n', b'5\r\nhello\r\n0\r\nHost: other.test\r\n\r\n']
for i, case in enumerate(cases):
    got = send(P + case + b'GET /second HTTP/1.1\r\nHost: site.test\r\n\r\n')
    if ' 200 ' in got: print('case', i, got)
print('done')
"#;
    for who in EVERYONE {
        let world = World::new(who);
        let server = world.http(PUBLIC, 80);
        let said = world.run(&["--allow", "site.test:80"], &python(cases)).ok();
        assert_eq!(said.out.trim(), "done", "{who:?}");
        assert!(!server.asked().iter().any(|line| line.contains("second")), "{:?}", server.asked());
    }
}

#[test]
fn adv_n12_a_forbidden_request_behind_an_allowed_one_is_judged_by_itself() {
    let cases = r#"
A = b'GET /a HTTP/1.1\r\nHost: site.test\r\n\r\n'
B = b'GET /b HTTP/1.1\r\nHost: other.test\r\nConnection: close\r\n\r\n'
s = socket.create_connection(('site.test', 80), 5); s.sendall(A + B); got = b''
while True:
    more = s.recv(65536)
    if not more: break
    got += more
import re; print([found.decode() for found in re.findall(rb'HTTP/1.1 (\d+) ', got)])
"#;
    for who in EVERYONE {
        let world = World::new(who);
        let server = world.http(PUBLIC, 80);
        let said = world.run(&["--allow", "site.test:80"], &python(cases)).ok();
        assert_eq!(said.out.trim(), "['200', '403']");
        assert_eq!(server.asked(), ["GET /a HTTP/1.1"], "{who:?}");
    }
}

#[test]
fn adv_n09_an_inner_name_that_differs_is_refused() {
    let cases = r#"
import ssl
def hello(name):
    c = ssl.create_default_context(); c.check_hostname = False; c.verify_mode = ssl.CERT_NONE
    s = socket.create_connection(('site.test', 443), 5)
    try: return c.wrap_socket(s, server_hostname=name).version()
    except OSError as error: return 'refused'
print(hello('site.test'), hello('other.test'), hello(None), hello('site.test.other.test'))
def connect(target, name):
    s = socket.create_connection(('198.18.0.1', 3128), 5)
    s.sendall(b'CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n' % (target, target)); answer = s.recv(1000)
    if b' 200 ' not in answer.split(b'\r\n')[0]: return 'no tunnel'
    c = ssl.create_default_context(); c.check_hostname = False; c.verify_mode = ssl.CERT_NONE
    try: return c.wrap_socket(s, server_hostname=name).version()
    except OSError as error: return 'refused'
print(connect(b'site.test:443', 'site.test'), connect(b'site.test:443', 'other.test'), connect(b'other.test:443', 'site.test'))
"#;
    for who in EVERYONE {
        let world = World::new(who);
        let _server = world.https(PUBLIC, &["site.test", "other.test"]);
        let said = world.run(&["--allow", "site.test"], &python(cases)).ok();
        assert_eq!(said.out.trim(), "TLSv1.3 refused refused refused\nTLSv1.3 refused no tunnel", "{who:?}");
    }
}

#[test]
fn adv_n05_other_spellings_of_forbidden_addresses_reach_nothing() {
    let cases = r#"
spellings = ['127.0.0.1', '2130706433', '0x7f000001', '0177.0.0.1', '127.1', '127.0.1', '0x7f.1', '::1', '::ffff:127.0.0.1', '::127.0.0.1',
 '169.254.169.254', '2852039166', '0xa9fea9fe', '::ffff:169.254.169.254', '::ffff:a9fe:a9fe', '64:ff9b::a9fe:a9fe', '2002:a9fe:a9fe::1',
 '10.1.2.3', '167838211', '0xa010203', '012.1.2.3', '::ffff:10.1.2.3', '64:ff9b::a01:203', '10.66051', 'fe80::1', 'fd00:ec2::254', '0.0.0.0', '::',
 '100.100.100.200', '192.168.1.1', '255.255.255.255', '224.0.0.1']
reached = []
for host in spellings:
    for port in (8000, 3128):
        s = socket.create_connection(('198.18.0.1', 3128), 5); s.settimeout(5)
        h = ('[%s]' % host if ':' in host else host).encode()
        s.sendall(b'CONNECT %s:%d HTTP/1.1\r\nHost: %s:%d\r\n\r\n' % (h, port, h, port))
        try: answer = s.recv(1000)
        except OSError: answer = b''
        if b' 200' in answer.split(b'\r\n')[0]: reached.append(host)
    try: socket.create_connection((host, 8000), 2); reached.append('direct ' + host)
    except OSError: pass
print(len(spellings), reached)
"#;
    for who in EVERYONE {
        let world = World::new(who);
        let listeners =
            ["127.0.0.1", "10.1.2.3", "169.254.169.254"].map(|address| world.listen(address, 8000));
        let said =
            world.run(&["--allow", "**.site.test:8000", "--allow", "site.test:8000"], &python(cases)).ok();
        assert_eq!(said.out.trim(), "32 []", "{who:?}");
        for listener in &listeners {
            assert!(is_left_alone(listener));
        }
    }
}

#[test]
fn adv_n01_own_settings_change_no_verdict() {
    for who in EVERYONE {
        let world = World::new(who);
        let (server, other) = (world.http(PUBLIC, 80), world.listen(PUBLIC, 81));
        let script = format!(
            "try() {{ curl -fsS -m 3 \"$@\" >/dev/null 2>&1 && echo reached \"$@\" || true; }}
             try http://{PUBLIC}/; try http://{PUBLIC}:81/
             HTTP_PROXY=http://{PUBLIC}:81 http_proxy=http://{PUBLIC}:81 try http://site.test/
             http_proxy= NO_PROXY='*' try http://other.test/
             try --resolve other.test:80:198.18.1.0 http://other.test/
             try --resolve site.test:80:{PUBLIC} http://site.test/
             try --dns-servers {PUBLIC} http://other.test/
             (echo nameserver {PUBLIC} > /etc/resolv.conf) 2>/dev/null && echo wrote
             (echo 127.0.0.1 site.test >> /etc/hosts) 2>/dev/null && echo wrote
             date +%s%N > begun; try http://{PUBLIC}/; date +%s%N > ended"
        );
        let said = world.run(&["--allow", "site.test:80"], &script).ok();
        assert_eq!(said.out.trim(), "", "{who:?}");
        assert!(is_left_alone(&other));
        assert_eq!(server.asked(), Vec::<String>::new());
        let moment = |name: &str| -> u64 {
            std::fs::read_to_string(world.project().join(name)).unwrap().trim().parse().unwrap()
        };
        assert!(moment("ended") - moment("begun") < 1_000_000_000, "a refusal takes less than a second");
    }
}

#[test]
fn adv_n07_odd_names_are_refused_before_any_rule_is_read() {
    let cases = r#"
def socks(name):
    s = socket.create_connection(('198.18.0.1', 3128), 5); s.settimeout(5)
    s.sendall(b'\x05\x01\x00'); s.recv(2)
    s.sendall(b'\x05\x01\x00\x03' + bytes([len(name)]) + name + (80).to_bytes(2, 'big'))
    try: answer = s.recv(10)
    except OSError: return 'closed'
    return answer[1] if len(answer) > 1 else 'closed'
def connect(name):
    s = socket.create_connection(('198.18.0.1', 3128), 5); s.settimeout(5)
    s.sendall(b'CONNECT ' + name + b':80 HTTP/1.1\r\nHost: ' + name + b':80\r\n\r\n')
    try: return s.recv(100).split(b' ')[1].decode()
    except (OSError, IndexError): return 'closed'
odd = [b'evil.test\0.site.test', b'evil.test\r.site.test', b'evil.test\n.site.test', b'evil .site.test', b'evil%00.site.test', b'', b'a' * 254,
       'ѕite.test'.encode(), b'-..site.test', b'site.test/x', b'user@site.test', b'[site.test]']
print([name for name in odd if socks(name) == 0], [name for name in odd if connect(name) == '200'])
print(socks(b'SITE.test'), socks(b'site.test.'), connect(b'Site.Test'), connect(b'site.test.'))
"#;
    for who in EVERYONE {
        let world = World::new(who);
        let _server = world.http(PUBLIC, 80);
        let said = world.run(&["--allow", "**.site.test:80", "--allow", "site.test:80"], &python(cases)).ok();
        assert_eq!(said.out.trim(), "[] []\n0 0 200 200", "{who:?} {}", said.err);
    }
}

#[test]
fn adv_n09_who_speaks_late_or_oddly_is_heard_all_the_same() {
    let cases = r#"
import ssl, time
def hello(name):
    c = ssl.create_default_context(); c.check_hostname = False; c.verify_mode = ssl.CERT_NONE
    a, b = ssl.MemoryBIO(), ssl.MemoryBIO()
    o = c.wrap_bio(a, b, server_hostname=name)
    try: o.do_handshake()
    except ssl.SSLWantReadError: pass
    return b.read()
def slow(data, port, first, pause):
    s = socket.create_connection(('site.test', port), 5); s.settimeout(3)
    got = b''
    try:
        s.sendall(data[:first]); time.sleep(pause); s.sendall(data[first:])
        got = s.recv(1000)
    except OSError: pass
    return got[:1] == b'\x16' or b' 200 ' in got[:20]
# The test can fail: the right name is answered, also late.
print(slow(hello('site.test'), 8443, 1, 0.5), slow(hello('site.test'), 8443, 0, 0.5))
print(slow(hello('evil.test'), 8443, 1, 0.5), slow(hello('evil.test'), 8443, 0, 0.5), slow(hello('evil.test'), 8443, 200, 0))
R = b' /x HTTP/1.1\r\nHost: evil.test\r\n\r\n'
print(slow(b'GET' + R, 8080, 1, 0.5), slow(b'GET' + R, 8080, 0, 0.5), slow(b'PROPFIND' + R, 8080, 9, 0), slow(b'\r\nGET' + R, 8080, 2, 0.5), slow(b'get' + R, 8080, 3, 0))
"#;
    for who in EVERYONE {
        let world = World::new(who);
        let good = Certificate { expired: false, trusted: true };
        let secure = world.bad_https(PUBLIC, 8443, &["site.test", "evil.test"], good);
        let plain = world.http(PUBLIC, 8080);
        let said =
            world.run(&["--allow", "site.test:8443", "--allow", "site.test:8080"], &python(cases)).ok();
        assert_eq!(
            said.out.trim(),
            "True True\nFalse False False\nFalse False False False False",
            "{who:?} {}",
            said.err
        );
        assert_eq!((plain.asked().len(), secure.asked().len()), (0, 0));
    }
}
