//! No secret is said twice: everything that leaves the daemon is heard, and searched for everything that it keeps.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tests::{Host, HostBuilder, PASSWORD};

use crate::calls::{CALLS, KEPT, NEEDS_NETWORK, OTHER, Stage, Who, committed, described, is_final};
use crate::gateway_socket::open;
use crate::surfaces::{calling, printed};

/// What a client sent, and what came back until it sent more.
#[derive(Default)]
struct Exchange {
    request: Vec<u8>,
    answer: Vec<u8>,
}

type Heard = Arc<Mutex<Vec<Exchange>>>;

/// Stands between a daemon and everyone who calls it, and keeps every byte.
struct Ear {
    base: String,
    daemon: String,
}

impl Ear {
    fn new(heard: &Heard) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        // A port that is free now.
        let daemon = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let (heard, to) = (Arc::clone(heard), daemon.clone());
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if let Ok(server) = TcpStream::connect(&to) {
                    pass_on(client, server, &heard);
                }
            }
        });
        Self { base, daemon }
    }

    /// A host that tells everyone to call here.
    fn host(&self) -> HostBuilder {
        Host::builder()
            .set("server.listen", &self.daemon)
            .set("server.public_url", &self.base)
            .set("limits.requests_per_minute", "0")
            .set("log.level", "trace")
    }
}

fn pass_on(client: TcpStream, server: TcpStream, heard: &Heard) {
    let present = Arc::new(Mutex::new(None));
    let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let (all, place) = (Arc::clone(heard), Arc::clone(&present));
    carry(from, to, move |bytes| {
        let (mut all, mut place) = (all.lock().unwrap(), place.lock().unwrap());
        let answered = |at: &usize| !all[*at].answer.is_empty();
        if place.as_ref().is_none_or(answered) {
            all.push(Exchange::default());
            *place = Some(all.len() - 1);
        }
        all[place.unwrap()].request.extend_from_slice(bytes);
    });
    let all = Arc::clone(heard);
    carry(server, client, move |bytes| {
        let mut all = all.lock().unwrap();
        // What is said before anything was asked stands alone.
        let at = present
            .lock()
            .unwrap()
            .get_or_insert_with(|| {
                all.push(Exchange::default());
                all.len() - 1
            })
            .to_owned();
        all[at].answer.extend_from_slice(bytes);
    });
}

/// Carries bytes over, after they were heard, until one side ends.
fn carry(mut from: TcpStream, mut to: TcpStream, hear: impl Fn(&[u8]) + Send + 'static) {
    std::thread::spawn(move || {
        let mut piece = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = from.read(&mut piece) {
            hear(&piece[..count]);
            if to.write_all(&piece[..count]).is_err() {
                break;
            }
        }
        drop(to.shutdown(Shutdown::Write));
        drop(from.shutdown(Shutdown::Read));
    });
}

/// The answers that exist to hand out a secret, and where in them it is.
const HAND_OUT: &[(&str, &[&str])] = &[
    ("auth_bootstrap", &["access_token", "refresh_token"]),
    ("auth_login", &["access_token", "refresh_token"]),
    ("auth_refresh", &["access_token", "refresh_token"]),
    ("auth_pair", &["secret"]),
    ("auth_offer_totp", &["link", "handle"]),
    ("events_ticket", &["ticket"]),
    ("keys_create", &["secret"]),
    ("keys_offer_pairing", &["code"]),
    ("passes_mint", &["token"]),
];

/// The commands that print what they were handed.
const SHOW: &[&str] = &["key create", "key pair", "pass mint", "account totp-on"];

/// Which operation this request asks for.
fn operation(routes: &[(String, String, String)], request: &[u8]) -> Option<String> {
    let line = request.split(|byte| *byte == b'\r').next()?;
    let mut words = str::from_utf8(line).ok()?.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let path = target.split('?').next()?;
    let fits = |template: &str| {
        let (mut a, mut b) = (template.split('/'), path.split('/'));
        loop {
            match (a.next(), b.next()) {
                (None, None) => return true,
                (Some(a), Some(b)) if a == b || a.starts_with('{') => {}
                _ => return false,
            }
        }
    };
    routes.iter().find(|(known, template, _)| known == method && fits(template)).map(|(.., id)| id.clone())
}

/// What is looked for, by how it begins.
#[derive(Default)]
struct Secrets(HashMap<[u8; 8], Vec<(String, Option<usize>)>>);

impl Secrets {
    /// Adds one; `at` is the exchange that handed it out.
    fn add(&mut self, text: &str, at: Option<usize>) {
        let start = text.as_bytes().first_chunk().unwrap_or_else(|| panic!("too short: {text}"));
        self.0.entry(*start).or_default().push((text.to_owned(), at));
    }

    fn count(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    /// Those that are in these bytes, apart from what was handed out there.
    fn found(&self, bytes: &[u8], mine: impl Fn(usize) -> bool) -> Vec<&str> {
        let starts = bytes.windows(8).enumerate();
        let hits = starts.filter_map(|(at, eight)| Some((at, self.0.get(eight)?)));
        let found = hits.flat_map(|(at, all)| {
            let here = all.iter().filter(move |(text, _)| bytes[at..].starts_with(text.as_bytes()));
            here.filter(|(_, from)| !from.is_some_and(&mine))
        });
        found.map(|(text, _)| text.as_str()).collect()
    }
}

/// What an answer hands out.
fn handed_out(exchange: &Exchange, fields: &[&str]) -> Vec<String> {
    let text = String::from_utf8_lossy(&exchange.answer);
    if !text.starts_with("HTTP/1.1 2") {
        return Vec::new();
    }
    let body = &text[text.find('{').unwrap()..=text.rfind('}').unwrap()];
    let body: Value = serde_json::from_str(body).unwrap_or_else(|_| panic!("{text}"));
    let mut all: Vec<String> = fields
        .iter()
        .map(|field| body[*field].as_str().unwrap_or_else(|| panic!("{body}")).to_owned())
        .collect();
    // The seed stands in the middle of its link.
    let seeds: Vec<String> = all
        .iter()
        .filter_map(|one| Some(one.split_once("secret=")?.1.split('&').next()?.to_owned()))
        .collect();
    all.extend(seeds);
    all
}

/// IDN-04: every operation of the API by every role that differs and by nobody, a socket and a stream that are open
/// all the while, every command, and the log. What hands a secret out says that one and no other.
#[test]
fn idn_04_everything_that_is_said_holds_no_secret_but_the_one_that_was_asked_for() {
    let heard = Heard::default();
    let ear = Ear::new(&heard);
    let mut host = ear.host().start();
    let mut others = Vec::new();
    let mut printed_by: Vec<(String, Vec<u8>, std::ops::Range<usize>)> = Vec::new();
    {
        let stage = Stage::new(&host);
        let mut socket = open(&host, host.owner(), "");
        let stream = host.owner().client.events(None).unwrap();
        let texts = std::thread::spawn(move || {
            let all = std::iter::from_fn(|| socket.read().ok());
            all.filter(tungstenite::Message::is_text).count()
        });
        let lines = std::thread::spawn(move || {
            std::io::BufRead::lines(std::io::BufReader::new(stream)).map_while(Result::ok).count()
        });
        let nobody = Who { id: String::new(), client: host.anonymous() };
        for role in ["owner", "viewer", ""] {
            let someone = stage.of_role(if role.is_empty() { "owner" } else { role });
            for call in CALLS {
                if ["auth_bootstrap", "setup_submit"].contains(&call.operation) && role == "owner" {
                    let ear = Ear::new(&heard);
                    let new = ear.host().unclaimed();
                    let nobody = Who { id: String::new(), client: new.anonymous() };
                    (call.prepare)(&Stage::unclaimed(&new), &nobody)(&nobody.client).unwrap();
                    others.push(new);
                    continue;
                }
                // What concerns the own login is the same for every role, and slow.
                if is_final(call.operation) && role == "viewer" {
                    continue;
                }
                // For nobody what a call needs is made by somebody.
                let own = is_final(call.operation) && !role.is_empty();
                let who = if own { stage.of_role(role) } else { someone.clone() };
                let run = (call.prepare)(&stage, &who);
                let done = run(if role.is_empty() { &nobody.client } else { &who.client });
                let may_fail = role != "owner" || NEEDS_NETWORK.contains(&call.operation);
                assert!(done.is_ok() || may_fail, "{}: {done:?}", call.operation);
            }
        }
        let ana = stage.person();
        // What ends a login says that it is done, and no more; once is enough.
        let both = |operation: &str| if is_final(operation) { 1 } else { 2 };
        for (command, operation, make) in calling() {
            for form in [&[][..], &["--json"]].into_iter().take(both(operation)) {
                let who = if is_final(operation) { stage.person() } else { ana.clone() };
                let typed = make(&stage, &who);
                let from = heard.lock().unwrap().len();
                let output = printed(&host, &who, &typed, form);
                let until = heard.lock().unwrap().len();
                printed_by.push((command.to_owned(), [output.stdout, output.stderr].concat(), from..until));
            }
        }
        host.stop();
        assert!(texts.join().unwrap() > 50, "the socket was told of what happened");
        assert!(lines.join().unwrap() > 50, "and the stream");
    }

    let heard = std::mem::take(&mut *heard.lock().unwrap());
    let routes: Vec<_> =
        described(&committed()).into_iter().map(|(id, one)| (one.method, one.path, id)).collect();
    let mut secrets = Secrets::default();
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let mut operations = std::collections::BTreeSet::new();
    for (at, exchange) in heard.iter().enumerate() {
        let Some(operation) = operation(&routes, &exchange.request) else { continue };
        if let Some((name, fields)) = HAND_OUT.iter().find(|(name, _)| *name == operation) {
            for secret in handed_out(exchange, fields) {
                *counts.entry(name).or_default() += 1;
                secrets.add(&secret, Some(at));
            }
        }
        operations.insert(operation);
    }
    assert!(CALLS.iter().all(|call| operations.contains(call.operation)), "everything was heard");
    assert!(HAND_OUT.iter().all(|(name, _)| counts.contains_key(name)), "{counts:?}");
    secrets.add(PASSWORD, None);
    secrets.add(OTHER, None);
    // SEC-05: of the vault, too, by no route, for no role.
    secrets.add(KEPT, None);
    for one in others.iter().chain([&host]) {
        secrets.add(one.secret().unwrap(), None);
    }
    let stored = crate::identity::stored_digests(&host);
    assert!(stored.len() > 20, "{}", stored.len());
    // Who was deleted keeps no password.
    stored.iter().filter(|digest| !digest.is_empty()).for_each(|digest| secrets.add(digest, None));
    assert!(secrets.count() > 100, "{}", secrets.count());

    for (at, exchange) in heard.iter().enumerate() {
        let mut found = secrets.found(&exchange.answer, |from| from == at);
        if operation(&routes, &exchange.request).as_deref() == Some("setup_submit") {
            // A form that was not good comes back as it was filled in, with the secret of its link.
            let sent = String::from_utf8_lossy(&exchange.request).into_owned();
            found.retain(|secret| !(secret.starts_with("pbs_") && sent.contains(secret)));
        }
        let request = String::from_utf8_lossy(&exchange.request);
        assert!(
            found.is_empty(),
            "{found:?} in the answer to {}",
            request.lines().next().unwrap_or_default()
        );
    }
    for (command, said, range) in &printed_by {
        let found = secrets.found(said, |from| range.contains(&from) && SHOW.contains(&command.as_str()));
        assert!(found.is_empty(), "{found:?} printed by `palisade {command}`");
    }
    for one in others.iter().chain([&host]) {
        // On the terminal, once: that is how the first owner is made.
        let first = one.secret().unwrap();
        let log = one.log();
        let lines: Vec<&str> = log.lines().filter(|line| !line.contains(first)).collect();
        assert_eq!(log.lines().count() - lines.len(), 2, "the link and the command");
        let found = secrets.found(lines.join("\n").as_bytes(), |_| false);
        assert!(found.is_empty(), "{found:?} in the log");
    }
    // The search does find what is there.
    let (mine, one) = (heard.len() - 1, secrets.0.values().next().unwrap().first().unwrap());
    assert!(!secrets.found(format!("x{}x", one.0).as_bytes(), |from| from == mine + 1).is_empty());
}
