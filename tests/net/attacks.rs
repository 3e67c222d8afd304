//! Attacks on the network from inside, row by row of the specification.

use std::io::{Read, Write};
use std::sync::{Arc, Mutex};

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
 b'5\r\nhello\r\n0\r\nContent-Length: 5\r\n\r\n', b'5\r\nhello\r\n0\r\nHost: other.test\r\n\r\n',
 b'5;' + b'a' * 9000 + b'\r\nhello\r\n0\r\n\r\n', b'5\r\nhello\r\n0\r\n' + b'X: ' + b'a' * 70000 + b'\r\n\r\n']
for i, case in enumerate(cases):
    got = send(P + case + b'GET /second HTTP/1.1\r\nHost: site.test\r\n\r\n')
    if ' 400 ' not in got: print('case', i, got)
print('done')
"#;
    for who in EVERYONE {
        let world = World::new(who);
        let server = world.http(PUBLIC, 80);
        let said = world.run(&["--allow", "site.test:80"], &python(cases)).ok();
        assert_eq!(said.out.trim(), "done", "{who:?}");
        // Of the last one the beginning is gone before what is wrong with it has come; it is never whole.
        let seen = server.seen();
        assert!(
            seen.len() <= 1 && seen.iter().all(|one| !one.body.ends_with(b"0\r\n\r\n")),
            "{who:?} {seen:?}"
        );
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
 '100.100.100.200', '192.168.1.1', '255.255.255.255', '224.0.0.1', 'fe80::1%lo', 'fe80::1%25lo', '::ffff:0:127.0.0.1', '::a9fe:a9fe']
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
        assert_eq!(said.out.trim(), "36 []", "{who:?}");
        for listener in &listeners {
            assert!(is_left_alone(listener));
        }
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
long = [b'a.' * 126 + b'site.test', b'a' * 64 + b'.site.test', b'a.' * 200 + b'site.test']
print([name for name in odd + long[1:2] if socks(name) == 0], [name for name in odd + long if connect(name) == '200'])
print(socks(b'SITE.test'), socks(b'site.test.'), connect(b'Site.Test'), connect(b'site.test.'))
"#;
    for who in EVERYONE {
        let world = World::new(who);
        let _server = world.http(PUBLIC, 80);
        let said = world.run(&["--allow", "**.site.test:80", "--allow", "site.test:80"], &python(cases)).ok();
        assert_eq!(said.out.trim(), "[] []\n0 0 200 200", "{who:?} {}", said.err);
    }
}

/// A greeting as clients send it, with a part for somebody else that only the server can read.
const ENCRYPTED: &str = r#"
import ssl, struct
def hello(name, ech):
    c = ssl.create_default_context(); c.check_hostname = False; c.verify_mode = ssl.CERT_NONE
    a, b = ssl.MemoryBIO(), ssl.MemoryBIO()
    o = c.wrap_bio(a, b, server_hostname=name)
    try: o.do_handshake()
    except ssl.SSLWantReadError: pass
    data = b.read()
    if not ech: return data
    # Behind all other extensions: the outer kind, with a suite, an id, a key and a payload.
    inner = b'\x00' + struct.pack('>HHB', 1, 1, 7) + struct.pack('>H', 32) + b'k' * 32 + struct.pack('>H', 64) + b'p' * 64
    more = struct.pack('>HH', 0xfe0d, len(inner)) + inner
    at = 5 + 4 + 2 + 32
    at += 1 + data[at]; at += 2 + struct.unpack('>H', data[at:at+2])[0]; at += 1 + data[at]
    length = struct.unpack('>H', data[at:at+2])[0] + len(more)
    body = data[9:at] + struct.pack('>H', length) + data[at+2:] + more
    body = b'\x01' + struct.pack('>I', len(body))[1:] + body
    return b'\x16\x03\x01' + struct.pack('>H', len(body)) + body
def answer(port, ech, door):
    if door:
        s = socket.create_connection(('198.18.0.1', 3128), 5)
        s.sendall(b'CONNECT site.test:%d HTTP/1.1\r\nHost: site.test:%d\r\n\r\n' % (port, port)); s.recv(1000)
    else: s = socket.create_connection(('site.test', port), 5)
    s.settimeout(3)
    try: s.sendall(hello('site.test', ech)); return {0x16: 'hello', 0x15: 'alert'}.get(s.recv(1)[0], '?')
    except (OSError, IndexError): return 'closed'
for port in (8443, 443):
    for door in (False, True): print(answer(port, False, door), answer(port, True, door))
"#;

#[test]
fn adv_n09_a_greeting_with_an_encrypted_part_is_passed_on_to_nobody() {
    for who in EVERYONE {
        let world = World::with_rules(who, "[[rule]]\nhost = \"site.test\"\npaths = [\"/**\"]\n");
        let listener = world.listen(PUBLIC, 8443);
        let greeted = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&greeted);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut bytes = [0; 4096];
                let got = stream.read(&mut bytes).unwrap_or(0);
                all.lock().unwrap().push(bytes[..got].to_vec());
                let _ = stream.write_all(b"\x16 as if");
            }
        });
        let options = ["--rules", "rules.toml", "--allow", "site.test:8443"];
        let said = world.run(&options, &python(ENCRYPTED)).ok();
        // Passed on unopened it is refused; where we are the server, there is nothing behind it for anybody else.
        assert_eq!(said.out, "hello alert\nhello alert\nhello hello\nhello hello\n", "{who:?} {}", said.err);
        let greeted = greeted.lock().unwrap();
        assert_eq!(greeted.len(), 2, "{who:?}");
        assert!(greeted.iter().all(|bytes| !bytes.windows(2).any(|two| two == b"\xfe\x0d")), "{who:?}");
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

#[test]
fn adv_n09_no_odd_first_line_brings_another_host_past_a_rule_that_does_not_look() {
    let cases = r#"
H = b'\r\nHost: evil.test\r\n\r\n'
old = b'\x80\x2e\x01\x03\x01\x00\x15\x00\x00\x00\x10' + b'\x00\x00\x2f' * 7 + b'c' * 16
cases = [b'GET / HTTP/1.1' + H, b'GET\t/\tHTTP/1.1' + H, b'GET\x0b/ HTTP/1.1' + H, b'\tGET / HTTP/1.1' + H, b' GET / HTTP/1.1' + H,
 b'A' * 70 + b' / HTTP/1.1' + H, b'A' * 20000 + b' / HTTP/1.1' + H, b'GET /' + b'a' * 20000 + b' HTTP/1.1' + H, b'\r\n' * 10000 + b'GET / HTTP/1.1' + H,
 b'GET /x\r\nGET / HTTP/1.1' + H, b'GET http://evil.test/\r\n' + b'GET / HTTP/1.1' + H, b'get  /x HTTP/1.1' + H,
 b'\x15\x03\x01\x00\x02\x01\x00' + old, b'\x14\x03\x03\x00\x01\x01' + old, old]
reached = []
for i, case in enumerate(cases):
    got = send(case, port=8080)
    if ' 200 ' in got: reached.append(i)
print(len(cases), reached)
# What is another protocol passes as before, and so does a request for the host itself.
print(send(b'GET / HTTP/1.1\r\nHost: site.test:8080\r\nConnection: close\r\n\r\n', port=8080))
print(send(b'EHLO me\r\n', port=9000), send(b'\x00\x00\x00\x08', port=9000), send(b'token-without-an-end\n', port=9000))
"#;
    for who in EVERYONE {
        let world = World::new(who);
        let (server, other) = (world.http(PUBLIC, 8080), world.listen(PUBLIC, 9000));
        std::thread::spawn(move || {
            for mut stream in other.incoming().flatten() {
                let got = stream.read(&mut [0; 100]).unwrap_or(0);
                let _ = stream.write_all(format!("heard {got}").as_bytes());
            }
        });
        let said =
            world.run(&["--allow", "site.test:8080", "--allow", "site.test:9000"], &python(cases)).ok();
        let expected = "15 []\nHTTP/1.1 200 OK\nheard 9 heard 4 heard 21\n";
        assert_eq!(said.out, expected, "{who:?} {}", said.err);
        assert_eq!(server.asked(), ["GET / HTTP/1.1"], "{who:?}");
    }
}
