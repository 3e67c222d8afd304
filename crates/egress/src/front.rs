//! The launcher's side: answers questions for names, and starts the proxy when somebody connects.
//!
//! Flow: a question -> could a rule allow that name? -> an address that stands for it, told to the proxy first -> the
//! answer; a connection -> a proxy, if there is none -> what it decided, for the record. Invariants: the listeners and the
//! names stay here, so a proxy that dies takes neither with it; without a proxy nothing goes anywhere. Not here: sockets'
//! making, recording, deciding about connections.

mod changes;
mod logins;

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rules::{Limits, Rule, Rules};
use rustix::net::{RecvFlags, SendFlags};

use crate::control::{Line, Loan, Order, Report, Used};
use crate::decoys::{Decoys, Trace};
use crate::dns::{self, Answer, Kind};
use crate::login::Login;
use crate::names::{self, Named, Table};
use crate::published::Doors;
use crate::refused::{self, Packet};

/// The name that tells a sandbox about itself.
pub const OWN_NAME: &str = "palisade.local";

/// An address never stands for another name, so answers may be kept; short, because programs that keep them for longer
/// than they run gain nothing.
const SECONDS: u32 = 60;
/// Questions that are answered before something else has its turn.
const AT_ONCE: usize = 256;
/// The most bytes of rules in one packet, which has a bound.
const MOST_OF_RULE: usize = 64 * 1024;
/// Names in one packet: each has 253 letters at most.
const NAMES_PER_PACKET: usize = 256;
/// How long names that the proxy does not take now are kept before it is tried again.
const AGAIN: Duration = Duration::from_millis(5);
/// How long a proxy that dies at once is left alone.
const PAUSE: Duration = Duration::from_millis(500);
/// How long the proxy may take to take an order.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long the proxy may take to make its authority.
const MAKING: Duration = Duration::from_secs(10);
/// How long the last words of a proxy are waited for.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// Refused names that are told each once; more are only counted.
const MOST_TOLD: usize = 256;
/// So many questions for names that nothing allows are more than a mistake: names carry data too.
pub const MANY_NAMES: u64 = 100;

/// What is to be recorded.
#[derive(Debug)]
pub enum Told {
    /// A name that no rule could allow was asked for, for the first time.
    Unlisted(String),
    /// Names that no rule could allow were asked for [`MANY_NAMES`] times.
    ManyNames,
    /// A name that was asked for carries a decoy.
    Stolen {
        /// Which decoy.
        name: String,
        /// The name that was asked for.
        host: String,
    },
    /// What the command prints carries a decoy.
    Printed {
        /// Which decoy.
        name: String,
    },
    /// The kernel refused a packet.
    Packet(Packet),
    /// What the proxy says.
    Proxy(Report),
    /// The proxy ended by itself.
    ProxyGone(String),
    /// The proxy cannot be started.
    NoProxy(String),
}

/// What is counted of one sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Questions that were answered with an address.
    pub named: u64,
    /// Questions for names that no rule could allow.
    pub unlisted: u64,
    /// Questions that were not understood.
    pub strange: u64,
}

/// A proxy at work.
#[derive(Debug)]
struct Proxy {
    child: Child,
    line: Line,
}

/// The launcher's side of one sandbox's network.
#[derive(Debug)]
pub struct Front {
    /// The memory file of whoever signs for hosts that are looked into.
    authority: Option<OwnedFd>,
    connections: Vec<OwnedFd>,
    questions: Vec<OwnedFd>,
    /// Where the kernel tells which packets it refused.
    refusals: Option<OwnedFd>,
    loans: Vec<Loan>,
    logins: Vec<Login>,
    decoys: Decoys,
    /// What was printed so far, on the terminal and as each of the two streams.
    printed: [Trace; 3],
    rules: Vec<Rule>,
    compiled: Rules,
    generation: u64,
    names: Table,
    /// The program of the proxy.
    program: PathBuf,
    /// Who the proxy becomes if we are root.
    user: Option<(u32, u32)>,
    proxy: Option<Proxy>,
    /// Names that the proxy has not been told yet.
    untold: Vec<Named>,
    /// When it is told them, if it did not take them before.
    again_at: Option<Instant>,
    not_before: Option<Instant>,
    started_at: Option<Instant>,
    told: HashSet<String>,
    counts: Counts,
    /// Whether there is a person to ask about what no rule knows, and what that person refused.
    asks: bool,
    /// Nothing is let out any more, whoever wants it.
    is_cut: bool,
    /// A proxy was ended because it took no order.
    gave_up: bool,
    refused: Vec<Option<(String, u16)>>,
    limits: Limits,
    /// What was done, as far as proxies have told.
    used: Used,
    doors: Doors,
}

impl Front {
    /// For a sandbox that is still to be made, with what is lent to it. `program` is the proxy's, `user` who it becomes if we are root.
    ///
    /// # Errors
    /// When the rules are not valid.
    pub fn new(
        rules: Vec<Rule>,
        loans: Vec<Loan>,
        program: PathBuf,
        user: Option<(u32, u32)>,
    ) -> Result<Self, rules::Faults> {
        let compiled = Rules::compile(rules.clone())?;
        Ok(Self {
            connections: Vec::new(),
            questions: Vec::new(),
            refusals: None,
            authority: None,
            decoys: Decoys::new(
                loans
                    .iter()
                    .filter(|loan| loan.is_decoy)
                    .map(|loan| (loan.name.as_str(), loan.word.as_str())),
            ),
            printed: Default::default(),
            loans,
            logins: Vec::new(),
            rules,
            compiled,
            generation: 1,
            names: Table::default(),
            program,
            user,
            proxy: None,
            untold: Vec::new(),
            again_at: None,
            not_before: None,
            started_at: None,
            told: HashSet::new(),
            counts: Counts::default(),
            asks: false,
            is_cut: false,
            gave_up: false,
            refused: Vec::new(),
            limits: Limits::default(),
            used: Used::default(),
            doors: Doors::default(),
        })
    }

    /// Before anything is started: how much the sandbox may do.
    pub fn limit(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Before the sandbox is attached: which of its ports are reached from here, and the sockets that lead inside.
    pub fn publish(&mut self, mut doors: Doors, ways_in: Vec<OwnedFd>) {
        doors.attach(ways_in);
        self.doors = doors;
    }

    /// Starts the proxy now and has it make an authority of its own: the certificate (PEM) that the sandbox is to trust.
    /// Only rules that look into TLS need one.
    ///
    /// # Errors
    /// When the proxy cannot be started, or does not answer.
    pub fn certificate(&mut self) -> io::Result<String> {
        let strange = || io::Error::new(io::ErrorKind::InvalidData, "the proxy made no certificate");
        self.start()?;
        let Some(proxy) = &self.proxy else { return Err(strange()) };
        proxy.line.say(&Order::<Loan>::Authority, &[], true)?;
        let timeout = rustix::net::sockopt::Timeout::Recv;
        rustix::net::sockopt::set_socket_timeout(&proxy.line, timeout, Some(MAKING))?;
        loop {
            match proxy.line.hear::<Report>(true)? {
                Some((Report::Authority { certificate }, memory)) => {
                    self.authority = Some(memory.into_iter().next().ok_or_else(strange)?);
                    return Ok(certificate);
                }
                Some((Report::Broken { why }, _)) => return Err(io::Error::other(why)),
                Some(_) => {}
                None => return Err(strange()),
            }
        }
    }

    /// The sandbox stands: these are its sockets.
    pub fn attach(&mut self, connections: Vec<OwnedFd>, questions: Vec<OwnedFd>, refusals: Option<OwnedFd>) {
        (self.connections, self.questions, self.refusals) = (connections, questions, refusals);
        if let Some(proxy) = &self.proxy
            && self.doors.tell(&proxy.line).and_then(|()| listen(&proxy.line, &self.connections)).is_err()
        {
            self.drop_proxy();
        }
    }

    /// What it waits for.
    #[must_use]
    pub fn waits_for(&self) -> Vec<BorrowedFd<'_>> {
        let mut all: Vec<BorrowedFd<'_>> =
            self.questions.iter().chain(&self.refusals).map(AsFd::as_fd).collect();
        match &self.proxy {
            Some(proxy) => all.push(proxy.line.as_fd()),
            // The proxy takes connections; only without one do they wait here.
            None if self.not_before.is_none() => {
                all.extend(self.connections.iter().map(AsFd::as_fd).chain(self.doors.listeners()));
            }
            None => {}
        }
        all
    }

    /// When it wants to be called even if nothing came.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        [self.not_before, self.again_at].into_iter().flatten().min()
    }

    /// What was counted.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Does what came. Does not wait.
    pub fn attend(&mut self) -> Vec<Told> {
        let mut told = Vec::new();
        if std::mem::take(&mut self.gave_up) {
            told.push(Told::ProxyGone("it took no more orders; what it had not told is not known".into()));
        }
        if self.not_before.is_some_and(|at| Instant::now() >= at) {
            self.not_before = None;
        }
        self.hear(&mut told);
        self.read_refusals(&mut told);
        self.tell_names();
        for at in 0..self.questions.len() {
            for _ in 0..AT_ONCE {
                if !self.question(at, &mut told) {
                    break;
                }
            }
        }
        if self.proxy.is_none() && self.not_before.is_none() && self.somebody_connects() {
            match self.start() {
                Ok(()) => {}
                Err(error) => {
                    self.not_before = Some(Instant::now() + PAUSE);
                    told.push(Told::NoProxy(error.to_string()));
                }
            }
        }
        told
    }

    /// Reads which packets the kernel refused. When there are more than it can tell, it tells of fewer.
    fn read_refusals(&self, told: &mut Vec<Told>) {
        let Some(socket) = &self.refusals else { return };
        let mut bytes = [0; 16 * 1024];
        for _ in 0..AT_ONCE {
            match rustix::net::recv(socket, bytes.as_mut_slice(), RecvFlags::DONTWAIT) {
                Ok((got, _)) => {
                    let packets = refused::packets(bytes.get(..got).unwrap_or_default());
                    told.extend(packets.into_iter().map(Told::Packet));
                }
                // Some were lost; the next ones are not.
                Err(rustix::io::Errno::NOBUFS | rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }

    /// Tells the proxy names that it does not know yet; true if it knows them all.
    fn tell_names(&mut self) -> bool {
        self.again_at = None;
        let Some(proxy) = &self.proxy else {
            // One that is started is told all of them.
            self.untold.clear();
            return true;
        };
        while let Some(some) =
            self.untold.get(..self.untold.len().min(NAMES_PER_PACKET)).filter(|some| !some.is_empty())
        {
            if proxy.line.say(&Order::<Loan>::Names(some.to_vec()), &[], false).is_err() {
                self.again_at = Some(Instant::now() + AGAIN);
                return false;
            }
            self.untold.drain(..self.untold.len().min(NAMES_PER_PACKET));
        }
        true
    }

    /// Ends the proxy and gives its last words.
    pub fn end(&mut self) -> Vec<Told> {
        let mut told = Vec::new();
        self.read_refusals(&mut told);
        if let Some(mut proxy) = self.proxy.take() {
            // It says what is still to be said when it hears that nobody will order anything any more.
            let _ = rustix::net::shutdown(&proxy.line, rustix::net::Shutdown::Write);
            let until = Instant::now() + LAST_WORDS;
            let mut is_whole = false;
            while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
            {
                let Ok(left) = rustix::time::Timespec::try_from(left) else { break };
                let mut poll = [rustix::event::PollFd::new(&proxy.line, rustix::event::PollFlags::IN)];
                if rustix::event::poll(&mut poll, Some(&left)).unwrap_or(0) == 0 {
                    break;
                }
                match proxy.line.hear(false) {
                    Ok(Some((Report::Last, _))) => {
                        is_whole = true;
                        break;
                    }
                    Ok(Some((report, _))) => tell(&mut told, report),
                    Ok(None) | Err(_) => break,
                }
            }
            if !is_whole {
                told.push(Told::ProxyGone(
                    "its last words were not heard: decisions may be missing here".into(),
                ));
            }
            let _ = proxy.child.kill();
            let _ = proxy.child.wait();
        }
        told
    }

    fn somebody_connects(&self) -> bool {
        let mut polled: Vec<_> = self
            .connections
            .iter()
            .map(AsFd::as_fd)
            .chain(self.doors.listeners())
            .map(|fd| rustix::event::PollFd::from_borrowed_fd(fd, rustix::event::PollFlags::IN))
            .collect();
        rustix::event::poll(&mut polled, Some(&rustix::time::Timespec::default())).unwrap_or(0) > 0
    }

    /// Hears what the proxy says.
    fn hear(&mut self, told: &mut Vec<Told>) {
        for _ in 0..AT_ONCE {
            let Some(proxy) = &self.proxy else { return };
            match proxy.line.hear::<Report>(false) {
                Ok(Some((report, _))) => {
                    let before = told.len();
                    tell(told, report);
                    for one in told.get(before..).unwrap_or_default() {
                        if let Told::Proxy(Report::Used(used)) = one {
                            self.used = *used;
                        }
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                gone => {
                    let why = match gone {
                        Err(error) => format!("it is not understood: {error}"),
                        Ok(_) => "it ended".to_owned(),
                    };
                    let status = self.drop_proxy();
                    told.push(Told::ProxyGone(format!("{why} ({status})")));
                }
            }
        }
    }

    fn drop_proxy(&mut self) -> String {
        let Some(mut proxy) = self.proxy.take() else { return String::new() };
        let _ = proxy.child.kill();
        let status = proxy.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        self.doors.break_off();
        // One that dies as soon as it is started is not started again and again without a pause.
        let lived = self.started_at.map(|at| at.elapsed());
        self.not_before = lived.filter(|lived| *lived < PAUSE).map(|_| Instant::now() + PAUSE);
        status
    }

    /// Starts a proxy, with everything that it must know.
    fn start(&mut self) -> io::Result<()> {
        let (near, far) = Line::pair()?;
        // One that takes no orders must not hold up the launcher.
        let timeout = rustix::net::sockopt::Timeout::Send;
        rustix::net::sockopt::set_socket_timeout(&near, timeout, Some(PATIENCE))?;
        let child = Command::new(&self.program)
            .env_clear()
            // What the machine appends to names that it does not find would make them others'. Nothing is beneath this one.
            .env("LOCALDOMAIN", "invalid")
            .current_dir("/")
            .stdin(Stdio::from(far.into_fd()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| {
                let program = self.program.display();
                io::Error::new(error.kind(), format!("the proxy `{program}` cannot be started: {error}"))
            })?;
        self.started_at = Some(Instant::now());
        let mut proxy = Proxy { child, line: near };
        let begun = proxy.line.say(&Order::<Loan>::Begin { user: self.user }, &[], true).and_then(|()| {
            if let Some(memory) = &self.authority {
                proxy.line.say(&Order::<Loan>::Authority, &[memory.as_fd()], true)?;
            }
            self.say_loans(&proxy.line)?;
            let names: Vec<Named> = self.names.all().collect();
            for some in names.chunks(NAMES_PER_PACKET) {
                proxy.line.say(&Order::<Loan>::Names(some.to_vec()), &[], true)?;
            }
            self.untold.clear();
            if self.asks {
                proxy.line.say(&Order::<Loan>::Ask, &[], true)?;
            }
            for destination in &self.refused {
                proxy.line.say(&Order::<Loan>::Refuse(destination.clone()), &[], true)?;
            }
            proxy.line.say(&Order::<Loan>::Limit { limits: self.limits, used: self.used }, &[], true)?;
            say_rules(&proxy.line, &self.rules, self.generation)?;
            self.doors.tell(&proxy.line)?;
            // Last: whoever comes meets the rules.
            if self.connections.is_empty() { Ok(()) } else { listen(&proxy.line, &self.connections) }
        });
        if let Err(error) = begun {
            let _ = proxy.child.kill();
            let _ = proxy.child.wait();
            return Err(error);
        }
        self.proxy = Some(proxy);
        Ok(())
    }

    /// Answers one question; false if there is none.
    fn question(&mut self, at: usize, told: &mut Vec<Told>) -> bool {
        let Some(socket) = self.questions.get(at) else { return false };
        let mut bytes = [0u8; dns::MAX_QUERY + 1];
        let (got, from) = match rustix::net::recvfrom(socket, bytes.as_mut_slice(), RecvFlags::DONTWAIT) {
            Ok((got, _, Some(from))) => (got, from),
            Ok(_) | Err(rustix::io::Errno::INTR) => return true,
            Err(_) => return false,
        };
        let Ok(from) = SocketAddr::try_from(from) else { return true };
        let reply = match dns::read(bytes.get(..got).unwrap_or_default()) {
            Ok(query) => {
                let answer = self.answer(query.name.as_str(), query.kind, told);
                Some(query.reply(answer))
            }
            Err(refusal) => {
                self.counts.strange += 1;
                refusal.reply()
            }
        };
        if let (Some(reply), Some(socket)) = (reply, self.questions.get(at)) {
            let _ = rustix::net::sendto(socket, &reply, SendFlags::DONTWAIT | SendFlags::NOSIGNAL, &from);
        }
        true
    }

    fn answer(&mut self, name: &str, kind: Kind, told: &mut Vec<Told>) -> Answer {
        if name == OWN_NAME {
            return Answer::Address(names::TELLING.into(), SECONDS);
        }
        if let Some(stolen) = self.decoys.within(name.as_bytes()) {
            told.push(Told::Stolen { name: stolen.to_owned(), host: name.to_owned() });
            self.counts.unlisted += 1;
            return Answer::NoSuchName;
        }
        let may = |name: &rules::Name| {
            self.compiled.could_allow(name)
                || (self.asks && self.compiled.could_be_asked_for(&rules::Host::Name(name.clone()), 443))
        };
        let could = name.parse::<rules::Name>().is_ok_and(|name| may(&name));
        if !could {
            self.counts.unlisted += 1;
            if self.counts.unlisted == MANY_NAMES {
                told.push(Told::ManyNames);
            }
            if self.told.len() < MOST_TOLD && self.told.insert(name.to_owned()) {
                told.push(Told::Unlisted(name.to_owned()));
            }
            return Answer::NoSuchName;
        }
        let Ok((named, is_new)) = self.names.give(name) else { return Answer::Failure };
        if is_new {
            self.untold.push(named.clone());
        }
        // Without this name the proxy would refuse: whoever asks again gets it when it has been told.
        if !self.tell_names() {
            return Answer::Failure;
        }
        self.counts.named += 1;
        let has_v6 = self.connections.len() > 1;
        match kind {
            Kind::A => Answer::Address(IpAddr::V4(named.v4()), SECONDS),
            Kind::Aaaa if has_v6 => Answer::Address(IpAddr::V6(named.v6()), SECONDS),
            // Not how services are offered either: what they say goes around what is judged here.
            Kind::Aaaa | Kind::Svcb | Kind::Https | Kind::Other(_) => Answer::Empty,
        }
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.drop_proxy();
    }
}

/// What the proxy says, one by one.
fn tell(told: &mut Vec<Told>, report: Report) {
    match report {
        Report::Several(reports) => told.extend(reports.into_iter().map(Told::Proxy)),
        one => told.push(Told::Proxy(one)),
    }
}

fn listen(line: &Line, listeners: &[OwnedFd]) -> io::Result<()> {
    let listeners: Vec<BorrowedFd<'_>> = listeners.iter().map(AsFd::as_fd).collect();
    line.say(&Order::<Loan>::Listen, &listeners, true)
}

fn say_rules(line: &Line, rules: &[Rule], generation: u64) -> io::Result<()> {
    let (mut part, mut bytes) = (Vec::new(), 0);
    for rule in rules {
        let length = serde_json::to_vec(rule)?.len();
        if length > MOST_OF_RULE {
            let host = &rule.host;
            return Err(io::Error::other(format!("the rule for `{host}` is too long: {length} bytes")));
        }
        if bytes + length > MOST_OF_RULE && !part.is_empty() {
            line.say(&Order::<Loan>::Part(std::mem::take(&mut part)), &[], true)?;
            bytes = 0;
        }
        bytes += length + 1;
        part.push(rule.clone());
    }
    if !part.is_empty() {
        line.say(&Order::<Loan>::Part(part), &[], true)?;
    }
    line.say(&Order::<Loan>::Rules { generation }, &[], true)
}
