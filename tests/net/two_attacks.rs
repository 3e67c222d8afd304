//! Attacks with HTTP/2 frames that no library would send.

use crate::servers::Two;
use crate::world::{EVERYONE, PUBLIC, Who, World};

/// A client that sends what it is told to. Of an answer it reads the status, and how a stream ends.
pub const CLIENT: &str = r#"
import socket, ssl, struct, sys, time
CODES = {'00000':'0','00001':'1','00010':'2','011001':'3','011010':'4','011011':'5','011100':'6','011101':'7','011110':'8','011111':'9'}
def digits(data):
    bits = ''.join('{:08b}'.format(b) for b in data); out = ''
    while bits:
        for n in (5, 6):
            if bits[:n] in CODES: out += CODES[bits[:n]]; bits = bits[n:]; break
        else: break
    return out
KNOWN = {8:'200', 9:'204', 10:'206', 11:'304', 12:'400', 13:'404', 14:'500'}
def status(block):
    while block and block[0] & 0xe0 == 0x20: block = block[1:]  # another size of the table
    if block[0] & 0x80: return KNOWN.get(block[0] & 0x7f, '?')
    size = block[1] & 0x7f; text = block[2:2 + size]
    return digits(text) if block[1] & 0x80 else text.decode()
def number(n, bits):
    most = (1 << bits) - 1
    if n < most: return bytes([n])
    out = [most]; n -= most
    while n >= 128: out.append(n % 128 + 128); n //= 128
    return bytes(out + [n])
def text(data):
    data = data.encode() if isinstance(data, str) else data
    return number(len(data), 7) + data
def block(fields): return b''.join(b'\x00' + text(n) + text(v) for n, v in fields)
def get(path, host='site.test'): return [(':method', 'GET'), (':scheme', 'https'), (':authority', host), (':path', path)]
def post(path): return [(':method', 'POST')] + get(path)[1:]
class Client:
    def __init__(self, host='site.test', settings=b'\x00\x01\x00\x00\x00\x00'):
        context = ssl.create_default_context(); context.set_alpn_protocols(['h2'])
        self.s = context.wrap_socket(socket.create_connection((host, 443), 10), server_hostname=host)
        self.s.settimeout(10); self.s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1); self.got = b''
        assert self.s.selected_alpn_protocol() == 'h2'
        self.s.sendall(b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'); self.frame(4, 0, 0, settings)
    def frame(self, kind, flags, stream, data=b''):
        self.s.sendall(struct.pack('>I', len(data))[1:] + bytes([kind, flags]) + struct.pack('>I', stream) + data)
    def head(self, stream, fields, end=True): self.frame(1, 4 | (1 if end else 0), stream, block(fields))
    def data(self, stream, data, end=False): self.frame(0, 1 if end else 0, stream, data)
    def read(self):
        while True:
            if len(self.got) >= 9:
                size = int.from_bytes(self.got[:3], 'big')
                if len(self.got) >= 9 + size:
                    kind, flags, stream = self.got[3], self.got[4], int.from_bytes(self.got[5:9], 'big')
                    data, self.got = self.got[9:9 + size], self.got[9 + size:]
                    if kind == 4 and not flags & 1: self.frame(4, 1, 0)
                    return kind, flags, stream, data
            more = self.s.recv(65536)
            if not more: return None
            self.got += more
    def next(self, kind):
        while True:
            frame = self.read()
            if frame is None: raise EOFError
            if frame[0] == kind: return frame
    def wait(self, stream):
        said = None
        try:
            while True:
                frame = self.read()
                if frame is None: return said or 'closed'
                kind, flags, at, data = frame
                if kind == 7: return 'away %d' % int.from_bytes(data[4:8], 'big')
                if at != stream: continue
                if kind == 3: return said or 'reset %d' % int.from_bytes(data[:4], 'big')
                if kind == 1 and said is None: said = status(data)
                if kind in (0, 1) and flags & 1: return said
        except OSError as error: return said or type(error).__name__
"#;

/// A script that uses it.
pub fn python(body: &str) -> String {
    format!("cat > attack.py <<'X'\n{CLIENT}\n{body}\nX\npython3 attack.py")
}

fn world(who: Who) -> World {
    let rules = "[[rule]]\nhost = \"site.test\"\npaths = [\"/ok/**\", \"/hang/**\", \"/big/**\"]\n";
    World::with_rules(who, rules)
}

#[test]
fn adv_n09_authority_host_and_connection_agree_or_nothing_goes() {
    let cases = r#"
p = get('/ok/x')
cases = [
 (get('/ok/x', 'other.test'), '403'), (get('/ok/x', 'site.test:444'), '403'), (p + [('host', 'other.test')], '400'),
 (p + [('host', 'site.test'), ('host', 'other.test')], '400'), ([f for f in p if f[0] != ':authority'], '400'),
 ([f for f in p if f[0] != ':authority'] + [('host', 'other.test')], '403'), (get('/ok/x', 'user@site.test'), '400'),
 (p + [('host', 'site.test:444')], '400'),
]
for i, (fields, wanted) in enumerate(cases):
    c = Client(); c.head(1, fields); got = c.wait(1)
    if got not in (wanted, 'reset 1'): print('case', i, got)
good = [p, p + [('host', 'site.test')], get('/ok/x', 'site.test:443'), [f for f in p if f[0] != ':authority'] + [('host', 'site.test')]]
for fields in good:
    c = Client(); c.head(1, fields); print(c.wait(1))
"#;
    for who in EVERYONE {
        let world = world(who);
        let server = Two::start(&world, &["site.test", "other.test"], 0);
        let said = world.run(&["--rules", "rules.toml"], &python(cases)).ok();
        assert_eq!(said.out, "200\n200\n200\n200\n", "{who:?} {}", said.err);
        assert_eq!(server.lines(), ["GET /ok/x"; 4]);
        assert!(server.seen().iter().all(|asked| asked.authority.starts_with("site.test")));
    }
}

#[test]
fn adv_n11_what_would_be_two_requests_in_http_1_is_none_in_http_2() {
    let cases = r#"
p = get('/ok/x')
def put(at, name, value): return p[:at] + [(name, value)] + p[at + 1:]
cases = [p + [field] for field in [
 ('x', 'a\r\nGET /ok/second HTTP/1.1'), ('x', 'a\nb'), ('x', 'a\rb'), ('x', b'a\x00b'), ('x', b'a\x7fb'), ('X-Upper', 'a'), ('x y', 'a'), ('x:y', 'a'),
 ('', 'a'), ('x\r\ny', 'a'), ('connection', 'close'), ('connection', 'x'), ('transfer-encoding', 'chunked'),
 ('transfer-encoding', 'identity'), ('upgrade', 'h2c'), ('upgrade', 'websocket'), ('keep-alive', 'x'), ('proxy-connection', 'x'), ('te', 'chunked'),
 ('te', 'trailers, chunked'), ('content_length', '5'), ('transfer_encoding', 'chunked'), ('content-length', '5'), ('content-length', '-1'),
 ('content-length', '+0'), ('content-length', '0, 0'), ('content-length', ''), ('expect', 'odd'), (':path', '/ok/second'), (':method', 'GET'),
 (':protocol', 'websocket'), (':odd', 'x'), (':status', '200')]]
cases += [
 put(3, ':path', '/ok/x HTTP/1.1\r\nX: y'), put(3, ':path', '/ok/x y'), put(3, ':path', ''), put(3, ':path', 'ok/x'), put(3, ':path', '*'),
 put(3, ':path', 'https://other.test/ok/x'), put(3, ':path', '/ok/%zz'), put(3, ':path', '/ok/../no'), put(3, ':path', '/ok/%2e%2e/no'),
 put(3, ':path', '//ok/x'), put(3, ':path', '/ok\\..\\no'), put(3, ':path', '/ok/%00'), put(1, ':scheme', 'http'), put(1, ':scheme', 'file'),
 put(0, ':method', 'get'), put(0, ':method', 'GET /ok/second HTTP/1.1\r\nX:'), put(0, ':method', 'G ET'), put(0, ':method', ''),
 put(2, ':authority', 'site.test\r\nX: y'), put(2, ':authority', 'site.test/x'), put(2, ':authority', ''), p[1:], p[:1] + p[2:], p[:3],
 [('x', 'y')] + p, p + [('authorization', 'a'), ('authorization', 'b')], p + [('content-length', '0'), ('content-length', '1')],
 [(':method', 'CONNECT'), (':authority', 'site.test:443')], [(':method', 'CONNECT'), (':authority', 'other.test:22')],
 p + [('x%d' % i, 'a') for i in range(200)],
]
print(len(cases))
for i, case in enumerate(cases):
    c = Client(); c.head(1, case); got = c.wait(1)
    if got not in ('400', '403', '431', 'reset 1', 'away 1'): print('case', i, got)
# A length that is not true: whoever believes it would take the rest for another request.
S = b'GET /ok/second HTTP/1.1\r\nHost: site.test\r\n\r\n'
for length, parts in [(5, [b'hello' + S]), (5, [b'hello', S]), (500, [b'hello']), (0, [S]), (3, [b'hel', b'', S])]:
    c = Client(); c.head(1, post('/ok/cut') + [('content-length', str(length))], end=False)
    for part in parts[:-1]: c.data(1, part)
    c.data(1, parts[-1], True); got = c.wait(1)
    # Where all that was said came first, the answer may come before the rest, which goes nowhere.
    came = len(b''.join(parts[:-1])) == length
    if got not in ('400', '502', 'reset 1', 'away 1') and not (came and got == '200'): print('length', length, got)
for trailer in [('content-length', '5'), ('host', 'other.test'), ('transfer-encoding', 'chunked'), ('x', 'a\r\nb')]:
    c = Client(); c.head(1, post('/ok/cut'), end=False); c.data(1, b'hello'); c.head(1, [trailer]); got = c.wait(1)
    if got not in ('400', '502', 'reset 1', 'away 1'): print('trailer', trailer, got)
# What has no place after content goes nowhere.
c = Client(); c.head(1, post('/ok/cut'), end=False); c.data(1, b'hello'); c.head(1, [(':path', '/ok/second')]); c.wait(1)
# The client itself is one that can be served.
c = Client(); c.head(1, post('/ok/good') + [('content-length', '5')], end=False); c.data(1, b'hello', True); print(c.wait(1))
"#;
    for who in EVERYONE {
        // A server that speaks HTTP/1.1, since there it would be two.
        let world = world(who);
        let server = world.https(PUBLIC, &["site.test"]);
        let said = world.run(&["--rules", "rules.toml"], &python(cases)).ok();
        assert_eq!(said.out, "63\n200\n", "{who:?} {}", said.err);
        let asked = server.asked();
        assert_eq!(asked.iter().filter(|line| **line == "POST /ok/good HTTP/1.1").count(), 1);
        let is_first = |line: &String| line == "POST /ok/cut HTTP/1.1" || line == "POST /ok/good HTTP/1.1";
        assert!(asked.iter().all(is_first), "{asked:?}");
        let bodies: Vec<_> = server.seen().into_iter().map(|request| request.body).collect();
        let is_short = |body: &Vec<u8>| !body.windows(6).any(|six| six == b"second");
        assert!(bodies.iter().all(is_short), "{bodies:?}");
    }
}

#[test]
fn adv_n16_floods_of_frames_end_their_own_connection_only() {
    let cases = r#"
def calm(name, work):
    c = Client()
    try: work(c)
    except OSError: pass
    # It is told so, or finds it closed: it does not go on.
    got = c.wait(10 ** 9 + 1)
    if got not in ('away 11', 'away 1', 'closed') and not got.endswith('Error') or got == 'TimeoutError': print(name, got)
def resets(c):
    for i in range(5000): c.head(2 * i + 1, get('/hang/%d' % i)); c.frame(3, 0, 2 * i + 1, struct.pack('>I', 8))
def patient(c):
    # Each is at work before it is given up.
    for i in range(300):
        c.head(2 * i + 1, get('/hang/%d' % i)); c.frame(6, 0, 0, b'12345678')
        try: c.next(6)
        except EOFError: return
        c.frame(3, 0, 2 * i + 1, struct.pack('>I', 8))
def continuations(c):
    c.frame(1, 0, 1, block(get('/ok/x')))
    for i in range(20000): c.frame(9, 0, 1, b'')
def heads(c):
    c.frame(1, 0, 1, block(get('/ok/x')))
    for i in range(200): c.frame(9, 0, 1, block([('x%d' % i, 'a' * 8000)]))
def empties(c):
    c.head(1, post('/hang/x'), end=False)
    for i in range(200000): c.data(1, b'')
calm('resets', resets); calm('patient', patient); calm('continuations', continuations); calm('heads', heads)
calm('empties', empties)
# Pings and settings are answered or not, and harm nobody.
c = Client()
try:
    for i in range(20000): c.frame(6, 0, 0, b'12345678'); c.frame(4, 0, 0)
except OSError: pass
# More streams than there may be: those beyond are refused.
c = Client()
for i in range(150): c.head(2 * i + 1, get('/hang/%d' % i))
print(c.wait(299))
# Windows that never open, and windows that are open where nobody reads, hold up their own connections only.
shut = [Client(settings=b'\x00\x04\x00\x00\x00\x00') for i in range(10)]
open_ = [Client(settings=b'\x00\x04\x7f\xff\xff\xff') for i in range(10)]
for c in open_: c.frame(8, 0, 0, b'\x7f\xff\x00\x00')
for c in shut + open_:
    for i in range(100): c.head(2 * i + 1, get('/big/%d' % i))
d = Client(); d.head(1, get('/ok/x')); print(d.wait(1))
"#;
    for who in EVERYONE {
        let world = world(who);
        let server = Two::start(&world, &["site.test"], 0);
        let run = ["run", "--rules", "rules.toml", "--", "sh", "-ec", &python(cases)];
        let mut child = world.palisade(&run).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut memory = 0;
        while child.try_wait().unwrap().is_none() {
            memory = memory.max(world.proxy_peak());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let said = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
        assert_eq!(said, "reset 7\n200\n", "{who:?}");
        println!("the proxy had {memory} KiB at most");
        assert!((1..256 * 1024).contains(&memory), "{memory} KiB");
        // What was given up does not go on at the server.
        server.until(|server| server.given_up() == server.hanging());
        assert!(server.hanging() < 1_000, "{} of five thousand came through", server.hanging());
    }
}

#[test]
fn adv_n16_beyond_some_connections_only_http_1_is_offered() {
    let cases = r#"
context = ssl.create_default_context(); context.set_alpn_protocols(['h2', 'http/1.1'])
def one(): return context.wrap_socket(socket.create_connection(('site.test', 443), 20), server_hostname='site.test')
all = [one() for i in range(133)]
spoken = [s.selected_alpn_protocol() for s in all]
print(spoken.count('h2'), spoken.count('http/1.1'))
last = all[-1]; last.sendall(b'GET /ok/x HTTP/1.1\r\nHost: site.test\r\n\r\n'); print(last.recv(15).decode())
for s in all[:128]: s.close()
for i in range(50):
    time.sleep(0.1); got = one().selected_alpn_protocol()
    if got == 'h2': break
print(got)
"#;
    for who in EVERYONE {
        let world = world(who);
        let _server = world.https(PUBLIC, &["site.test"]);
        let said = world.run(&["--rules", "rules.toml"], &python(cases)).ok();
        assert_eq!(said.out, "128 5\nHTTP/1.1 200 OK\nh2\n", "{who:?} {}", said.err);
    }
}

#[test]
fn adv_n16_a_head_that_never_ends_is_given_up_as_soon_as_one_of_http_1() {
    let world = world(EVERYONE[0]);
    let server = Two::start(&world, &["site.test"], 0);
    let script = python(
        r#"
import threading
begun = time.time(); c = Client(); c.s.settimeout(60)
c.head(1, get('/ok/a')); print(c.wait(1))
c.frame(1, 0, 3, block(get('/ok/x')))
def drips():
    try:
        for _ in range(2): time.sleep(9); c.frame(9, 0, 3, block([('x', 'y')]))
    except OSError: pass
threading.Thread(target=drips, daemon=True).start()
print(c.wait(3), 25 < time.time() - begun < 50)
"#,
    );
    let said = world.run(&["--rules", "rules.toml"], &script).ok();
    assert!(said.out.starts_with("200\n") && said.out.ends_with(" True\n"), "{} {}", said.out, said.err);
    assert_eq!(server.lines(), ["GET /ok/a"]);
    let record = world.entries("network.connect");
    assert!(record.iter().any(|entry| entry.cause.contains("the head took too long")), "{record:?}");
}
