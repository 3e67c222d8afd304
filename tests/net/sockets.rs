//! WebSockets inside TLS that a rule looks into: message by message.

use crate::servers::Sockets;
use crate::world::{EVERYONE, World};

const SECRET: &str = "sk-Qm9y/ZWRvbUlz+QVZpcnR1ZTEy~MzQ1Njc4XyZ0";
const RULES: &str = "[[rule]]\nhost = \"site.test\"\npaths = [\"/chat\"]\nwebsocket = true\n
[[rule]]\nhost = \"other.test\"\npaths = [\"/chat\"]\nwebsocket = true\n";

/// A client that sends the frames that it is told to.
const CLIENT: &str = r#"
import base64, os, socket, ssl, struct
class Socket:
    def __init__(self, host='site.test', path='/chat', more=''):
        context = ssl.create_default_context()
        self.s = context.wrap_socket(socket.create_connection((host, 443), 10), server_hostname=host)
        self.s.settimeout(10)
        self.s.sendall(('GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n'
            'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n%s\r\n' % (path, host, more)).encode())
        self.head = b''
        while not self.head.endswith(b'\r\n\r\n'): self.head += self.exactly(1)
    def exactly(self, n):
        got = b''
        while len(got) < n:
            more = self.s.recv(n - len(got))
            if not more: raise EOFError
            got += more
        return got
    def frame(self, kind, data, fin=True, mask=True, bits=0, length=None):
        n = len(data) if length is None else length
        size = bytes([n]) if n < 126 else b'\x7e' + struct.pack('>H', n) if n < 65536 else b'\x7f' + struct.pack('>Q', n)
        key = os.urandom(4) if mask else b''
        size = bytes([size[0] | (128 if mask else 0)]) + size[1:]
        body = bytes(b ^ key[i % 4] for i, b in enumerate(data)) if mask else data
        self.s.sendall(bytes([kind | bits | (128 if fin else 0)]) + size + key + body)
    def text(self, text, **more): self.frame(1, text.encode(), **more)
    def one(self):
        a, b = self.exactly(2)
        assert b & 128 == 0
        n = b if b < 126 else struct.unpack('>H', self.exactly(2))[0] if b == 126 else struct.unpack('>Q', self.exactly(8))[0]
        return a & 15, bool(a & 128), self.exactly(n)
    def message(self):
        kind, fin, data = self.one()
        while not fin:
            _, fin, more = self.one()
            data += more
        return kind, data
    def end(self):
        # How it ends: the code of the close, or broken.
        try:
            while True:
                kind, data = self.message()
                if kind == 8: return struct.unpack('>H', data[:2])[0]
        except (OSError, EOFError): return 'broken'
"#;

fn python(body: &str) -> String {
    format!("cat > talk.py <<'X'\n{CLIENT}\n{body}\nX\npython3 talk.py")
}

/// The same over one stream of HTTP/2.
const OVER_TWO: &str = r#"
class Over:
    def __init__(self, path, more=()):
        self.c = Client(); self.got = b''
        self.c.head(1, [(':method', 'CONNECT'), (':protocol', 'websocket'), (':scheme', 'https'), (':authority', 'site.test'), (':path', path),
            ('sec-websocket-version', '13')] + list(more), end=False)
        self.status = status(self.c.next(1)[3])
    def sendall(self, data): self.c.data(1, data)
    def recv(self, n):
        while not self.got:
            frame = self.c.read()
            if frame is None or frame[0] == 3: return b''
            if frame[0] == 0:
                self.got = frame[3]
                if frame[1] & 1 and not self.got: return b''
                if self.got:
                    for stream in (0, 1): self.c.frame(8, 0, stream, struct.pack('>I', len(self.got)))
        out, self.got = self.got[:n], self.got[n:]
        return out
class TwoSocket(Socket):
    def __init__(self, path='/chat', **more): self.s = Over(path, **more)
"#;

fn python_two(body: &str) -> String {
    let client = crate::two_attacks::CLIENT;
    format!("cat > talk.py <<'X'\n{CLIENT}\n{client}\n{OVER_TWO}\n{body}\nX\npython3 talk.py")
}

#[test]
fn egr_11_messages_pass_both_ways_with_pings_and_the_close() {
    let script = python(
        r#"
s = Socket(more='Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n')
print(s.head.split(b'\r\n')[0].decode(), b'extensions' in s.head.lower())
for i in range(1000):
    text = 'message %d \u00fc' % i
    s.text(text); got = s.message()
    assert got == (1, text.encode()), got
s.text('in ', fin=False); s.frame(9, b'between'); s.frame(0, b'three ', fin=False); s.frame(0, b'parts')
print(s.message(), s.message())
big = os.urandom(300000); s.frame(2, big); got = s.message(); print(got == (2, big))
s.text(''); print(s.message())
s.frame(8, struct.pack('>H', 1000) + b'good bye'); print(s.message())
n = Socket(path='/other'); print(n.head.split(b'\r\n')[0].decode())
"#,
    );
    for who in EVERYONE {
        let world = World::with_rules(who, RULES);
        let server = Sockets::start(&world, &["site.test"]);
        let said = world.run(&["--rules", "rules.toml"], &script).ok();
        let lines: Vec<&str> = said.out.lines().collect();
        assert_eq!(lines[0], "HTTP/1.1 101 Switching Protocols False", "{who:?} {}", said.err);
        assert_eq!(lines[1], "(10, b'between') (1, b'in three parts')");
        assert_eq!(lines[2..4], ["True", "(1, b'')"]);
        assert_eq!(lines[4], "(8, b'\\x03\\xe8good bye')");
        assert_eq!(lines[5], "HTTP/1.1 403 Forbidden");
        assert_eq!(server.heads().len(), 1);
        assert!(!server.heads()[0].contains("deflate"), "{:?}", server.heads());
        assert_eq!(server.texts().iter().filter(|text| text.starts_with("message ")).count(), 1000);
    }
}

#[test]
fn egr_13_words_in_messages_become_secrets_for_their_host_and_come_back_masked() {
    let script = python(
        r#"
word = os.environ['MY_KEY']
s = Socket()
s.text('plain ' + word); print(s.message())
s.text('{"key": "%s"}' % word); print(s.message())
for i, letter in enumerate('cut ' + word[:-1]): s.frame(0 if i else 1, letter.encode(), fin=False)
s.frame(0, word[-1:].encode()); print(s.message())
s.frame(8, b''); print(s.end())
"#,
    );
    for who in EVERYONE {
        let world = World::with_rules(who, RULES);
        let server = Sockets::start(&world, &["site.test", "other.test"]);
        let options = ["--rules", "rules.toml", "--secret", "MY_KEY=site.test"];
        let said = world.run_having(&[("MY_KEY", SECRET)], &options, &script);
        let texts = server.texts();
        assert_eq!(texts[0], format!("plain {SECRET}"), "{who:?} {} {}", said.out, said.err);
        assert_eq!(texts[1], format!("{{\"key\": \"{SECRET}\"}}"));
        assert_eq!(texts[2], format!("cut {SECRET}"));
        let masked = "*".repeat(SECRET.len());
        assert!(said.out.starts_with(&format!("(1, b'plain {masked}')\n")), "{}", said.out);
        assert!(!said.out.contains(SECRET) && said.out.matches(&masked).count() == 3, "{}", said.out);
        assert!(said.err.contains("the answer carried the secret `MY_KEY`"), "{}", said.err);
    }
}

#[test]
fn egr_11_messages_pass_over_a_stream_of_http_2_and_are_judged_there_too() {
    let script = python_two(
        r#"
s = TwoSocket(more=[('sec-websocket-extensions', 'permessage-deflate')]); print(s.s.status)
for i in range(1000):
    said = 'message %d' % i
    s.text(said); got = s.message()
    assert got == (1, said.encode()), got
s.frame(9, b'there?'); print(s.message())
big = os.urandom(300000)
for i in range(0, 300000, 10000): s.frame(0 if i else 2, big[i:i + 10000], fin=i + 10000 == 300000)
print(s.message() == (2, big))
word = os.environ['MY_KEY']
s.text('key ' + word); print(s.message())
s.frame(8, struct.pack('>H', 1000)); print(s.message(), s.s.recv(1))
print(TwoSocket('/other').s.status)
s = TwoSocket(); s.text(word[::-1]); print(s.end())
s = TwoSocket(); s.text('x', mask=False); print(s.end())
"#,
    );
    for who in EVERYONE {
        let world = World::with_rules(who, RULES);
        let server = Sockets::start(&world, &["site.test"]);
        let options = ["--rules", "rules.toml", "--secret", "MY_KEY=site.test"];
        let said = world.run_having(&[("MY_KEY", SECRET)], &options, &script).ok();
        let lines: Vec<&str> = said.out.lines().collect();
        assert_eq!(lines[..3], ["200", "(10, b'there?')", "True"], "{who:?} {} {}", said.out, said.err);
        assert_eq!(lines[3], format!("(1, b'key {}')", "*".repeat(SECRET.len())));
        assert_eq!(lines[4..], ["(8, b'\\x03\\xe8') b''", "403", "1008", "1002"], "{}", said.err);
        assert!(server.texts().contains(&format!("key {SECRET}")));
        assert_eq!(server.texts().iter().filter(|text| text.starts_with("message ")).count(), 1000);
        assert_eq!(server.heads().len(), 3);
        assert!(!server.heads()[0].contains("deflate"), "{:?}", server.heads());
    }
}

#[test]
fn egr_13_a_secret_that_is_bound_to_a_path_goes_on_websockets_of_that_path_only() {
    let rules = "[[rule]]\nhost = \"site.test\"\npaths = [\"/chat\", \"/other\"]\nwebsocket = true\n";
    let script = python_two(
        r#"
word = os.environ['MY_KEY']
for make in (Socket, TwoSocket):
    s = make(path='/chat'); s.text('key ' + word); print(s.message()[0])
    s = make(path='/other'); s.text('nothing'); print(s.message()[1].decode())
    s.text('key ' + word); print(s.end())
"#,
    );
    for who in EVERYONE {
        let world = World::with_rules(who, rules);
        let server = Sockets::start(&world, &["site.test"]);
        let options = ["--rules", "rules.toml", "--secret", "MY_KEY=site.test/chat"];
        let said = world.run_having(&[("MY_KEY", SECRET)], &options, &script).ok();
        assert_eq!(said.out, "1\nnothing\n1008\n".repeat(2), "{who:?} {}", said.err);
        let with_it: Vec<String> =
            server.texts().into_iter().filter(|text| text.starts_with("key")).collect();
        assert_eq!(with_it, [format!("key {SECRET}"), format!("key {SECRET}")], "{who:?}");
        assert!(!world.entries("network.finding").is_empty());
    }
}

#[test]
fn adv_c02_words_in_messages_to_another_host_end_the_websocket() {
    let script = python(
        r#"
word = os.environ['MY_KEY']; half = len(word) // 2
def text(s): s.text('x ' + word)
def binary(s): s.frame(2, b'x' + word.encode())
def letters(s):
    for i, letter in enumerate(word[:-1]): s.frame(0 if i else 2, letter.encode(), fin=False)
    s.frame(0, word[-1:].encode())
def coded(s): s.text(base64.b64encode(word.encode()).decode())
def turned(s): s.text(word[::-1])
def messages(s): s.text(word[:half]); s.text(word[half:])
def kinds(s): s.frame(2, word[:half].encode()); s.text(word[half:])
def ping(s): s.frame(9, word.encode())
def pings(s): s.frame(9, word[:half].encode()); s.frame(10, word[half:].encode())
def close(s): s.frame(8, struct.pack('>H', 1000) + word.encode())
print(*[((lambda s: (work(s), s.end())[1])(Socket('other.test'))) for work in (text, binary, letters, coded, turned, messages, kinds, ping, pings, close)])
# The same where it may go, but in disguise.
s = Socket(); coded(s); print(s.end())
s = Socket('other.test'); s.text('nothing of it'); print(s.message())
"#,
    );
    for who in EVERYONE {
        let world = World::with_rules(who, RULES);
        let server = Sockets::start(&world, &["site.test", "other.test"]);
        let options = ["--rules", "rules.toml", "--secret", "MY_KEY=site.test"];
        let said = world.run_having(&[("MY_KEY", SECRET)], &options, &script).ok();
        let tens = ["1008"; 10].join(" ");
        assert_eq!(said.out, format!("{tens}\n1008\n(1, b'nothing of it')\n"), "{who:?} {}", said.err);
        let heard = format!("{:?}", server.heard());
        assert!(!heard.contains(SECRET), "{heard}");
        let times = |entry: &ledger::Entry| {
            entry.detail.get("times").map_or(1, |times| times.parse::<u32>().unwrap() - 1)
        };
        assert_eq!(world.entries("network.finding").iter().map(times).sum::<u32>(), 11, "{}", said.err);
    }
}

#[test]
fn adv_n11_frames_that_are_none_end_the_websocket() {
    let script = python(
        r#"
def reserved(s): s.text('x', bits=0x40)
def unknown(s): s.frame(3, b'x')
def unmasked(s): s.text('x', mask=False)
def utf8(s): s.frame(1, b'\xff\xfe')
def order(s): s.frame(0, b'x')
def within(s): s.text('a', fin=False); s.text('b')
def control(s): s.frame(9, b'x' * 126)
def parts(s): s.frame(9, b'x', fin=False)
def huge(s): s.frame(2, b'x', length=1 << 40)
def long(s): s.frame(1, b'x', length=2 << 20)
def longer(s):
    s.text('x' * 600000, fin=False); s.frame(0, b'x' * 600000)
def odd(s): s.frame(8, b'\x03')
def http(s): s.s.sendall(b'GET /no HTTP/1.1\r\nHost: site.test\r\n\r\n')
for work in (reserved, unknown, unmasked, utf8, order, within, control, parts, huge, long, longer, odd, http):
    s = Socket(); work(s); got = s.end()
    if got != 1002: print(work.__name__, got)
s = Socket(); s.text('good'); print(s.message())
"#,
    );
    for who in EVERYONE {
        let world = World::with_rules(who, RULES);
        let server = Sockets::start(&world, &["site.test"]);
        let said = world.run(&["--rules", "rules.toml"], &script).ok();
        assert_eq!(said.out, "(1, b'good')\n", "{who:?} {}", said.err);
        let texts: Vec<String> = server.texts().into_iter().filter(|text| !text.is_empty()).collect();
        assert_eq!(texts, ["good"]);
    }
}

/// Answers as a server of WebSockets must not, without TLS.
fn odd_server(listener: std::net::TcpListener) {
    use std::io::{Read, Write};
    for mut stream in listener.incoming().map_while(Result::ok) {
        let mut head = Vec::new();
        let mut some = [0; 1024];
        while !head.windows(4).any(|four| four == b"\r\n\r\n") {
            match stream.read(&mut some) {
                Ok(count @ 1..) => head.extend_from_slice(&some[..count]),
                _ => break,
            }
        }
        let (field, frames): (&str, &[u8]) = match head.get(..6) {
            Some(b"GET /e") => ("Sec-WebSocket-Extensions: permessage-deflate\r\n", b""),
            Some(b"GET /m") => ("", b"\x81\x81\x00\x00\x00\x00x"),
            Some(b"GET /p") => ("", b"\xc1\x01x"),
            _ => ("", b"\x81\x04good\x88\x02\x03\xe8"),
        };
        let answer = format!(
            "HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n{field}\r\n"
        );
        let _ = stream.write_all(&[answer.as_bytes(), frames].concat());
        // Its connection ends with the other side's.
        std::thread::spawn(move || while matches!(stream.read(&mut some), Ok(1..)) {});
    }
}

#[test]
fn adv_n11_a_server_that_does_not_keep_to_what_was_agreed_is_cut_off() {
    let script = python(
        r#"
class Plain(Socket):
    def __init__(self, path):
        self.s = socket.create_connection(('site.test', 80), 10)
        self.s.sendall(('GET %s HTTP/1.1\r\nHost: site.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n'
            'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n' % path).encode())
        self.head = b''
        while not self.head.endswith(b'\r\n\r\n'): self.head += self.exactly(1)
for path in ('/extended', '/masked', '/packed', '/good'):
    s = Plain(path); print(s.head.split()[1].decode(), s.end() if b' 101 ' in s.head else '')
"#,
    );
    for who in EVERYONE {
        let world = World::new(who);
        let rule = "[[rule]]\nhost = \"site.test\"\nports = [80]\nwebsocket = true\npaths = [\"/*\"]\n";
        world.file("rules.toml", rule);
        let listener = world.listen(crate::world::PUBLIC, 80);
        std::thread::spawn(move || odd_server(listener));
        let said = world.run(&["--rules", "rules.toml"], &script).ok();
        assert_eq!(said.out, "502 \n101 1002\n101 1002\n101 1000\n", "{who:?} {}", said.err);
    }
}

#[test]
fn egr_18_a_websocket_ends_within_a_second_when_the_rules_go() {
    let script = python_two(
        r#"
import time
all = [Socket(), TwoSocket()]
for s in all: s.text('there?'); print(s.message())
open('ready', 'w').close()
print([s.end() for s in all])
"#,
    );
    for who in EVERYONE {
        let world = World::with_rules(who, RULES);
        let server = Sockets::start(&world, &["site.test"]);
        let run = ["run", "--rules", "rules.toml", "--", "sh", "-ec", &script];
        let child = world.palisade(&run).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while !world.project().join("ready").exists() {
            assert!(std::time::Instant::now() < end);
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let cut = world.palisade(&["offline"]).output().unwrap();
        assert!(cut.status.success(), "{}", String::from_utf8_lossy(&cut.stderr));
        let begun = std::time::Instant::now();
        let said = child.wait_with_output().unwrap();
        assert!(begun.elapsed() < std::time::Duration::from_secs(2), "{who:?} {:?}", begun.elapsed());
        let out = String::from_utf8_lossy(&said.stdout).into_owned();
        assert!(out.ends_with("['broken', 'broken']\n"), "{out}");
        assert_eq!(server.texts().iter().filter(|text| *text == "there?").count(), 2);
    }
}

#[test]
fn egr_11_messages_keep_to_what_their_rule_says_in_each_direction() {
    let rules = "[[rule]]\nhost = \"site.test\"\npaths = [\"/chat\"]\nwebsocket = true\n\
                 messages = { out = [{ type = [\"say\", \"ping\"] }], back = [{ type = [\"say\"] }] }\n";
    let body = r#"
def tries(*texts, kind=1):
    s = SOCKET()
    got = []
    for text in texts:
        s.frame(kind, text.encode())
        try: got.append(s.message())
        except (OSError, EOFError): got.append('broken')
        if got[-1][0] != 1: break
    return [(kind, data[:2] if kind == 8 else data) for kind, data in got]
ok = '{"type": "say", "text": "hello"}'
print(tries(ok, ok) == [(1, ok.encode())] * 2)
refused = (8, struct.pack('>H', 1008))
# What may not go out, and what may go out and is given back, which may not come back.
for bad in ('{"type": "delete"}', 'hello', '{"type": "say", "type": "delete"}', '{"type": "ping"}'): print(tries(ok, bad)[-1] == refused)
print(tries(ok, kind=2)[-1] == refused)
s = SOCKET(); s.frame(9, b'are you there'); print(s.message())
"#;
    for who in EVERYONE {
        let world = World::with_rules(who, rules);
        let server = Sockets::start(&world, &["site.test"]);
        for script in
            [python(&body.replace("SOCKET", "Socket")), python_two(&body.replace("SOCKET", "TwoSocket"))]
        {
            let said = world.run(&["--rules", "rules.toml"], &script).ok();
            let expected = format!("{}(10, b'are you there')\n", "True\n".repeat(6));
            assert_eq!(said.out, expected, "{who:?} {}", said.err);
        }
        let texts = server.texts();
        assert!(texts.iter().all(|text| !text.contains("delete") && text != "hello"), "{texts:?}");
        assert_eq!(texts.iter().filter(|text| text.contains("ping")).count(), 2, "{texts:?}");
        let closed = world.entries("network.closed");
        let why = |way: &str| closed.iter().filter(|entry| entry.cause.contains(way)).count();
        assert_eq!((why("no such message go out"), why("no such message come back")), (8, 2), "{closed:?}");
    }
}
