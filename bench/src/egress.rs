//! What the network of a run costs: the real `palisade run` with its proxy, beside a bare relay and other proxies.
//!
//! Flow: a small internet in a namespace -> servers, other proxies and clients in it, one of them in a sandbox -> turns.
//! Clients are the same program everywhere; ours also pays for being in a sandbox, for verdicts and for the record.
//! Processor time is of all that stands between client and server: for us proxy and launcher, for others all their
//! processes.

mod bare;
mod client;
mod decisions;
mod flood;
mod proxies;
mod upstream;
mod world;

use std::path::{Path, PathBuf};

use self::client::{Figures, Http, Task, Via, What};
use self::proxies::Peer;
use self::world::{Client, World};
use crate::load::processor_time;
use crate::measure::median;
use crate::report::{Bound, Row};

/// Where bytes come from.
const RAW: u16 = 5001;
/// The bare relay.
const BARE: u16 = 5002;
/// What is put in, and never in the sandbox.
const SECRET: &str = "sk-bench-0123456789abcdefghijklmnopqrstuv";

const ROUNDS: usize = 7;
/// Short turns, and many: others may be at work on the same machine.
const SHORT_ROUNDS: usize = 11;
const BULK: u64 = 1 << 29;
const CONNECTS: usize = 400;
const TUNNELS: usize = 5_000;
const AT_ONCE: usize = 32;
/// How long requests are counted, in milliseconds: where they are paced, and where they go as fast as they can.
const COUNTED: u64 = 2_000;
const FAST: u64 = 600;
/// Requests in a second, where that is given.
const PACE: f64 = 3_000.0;

/// A part that the benchmark starts itself, in its small internet.
pub(crate) fn part(name: &str, argument: &str) -> anyhow::Result<()> {
    match name {
        "upstream" => upstream::serve(Path::new(argument)),
        "bare" => bare::serve(),
        "client" => client::serve(),
        "storm" => client::storm(argument.parse()?),
        "burn" => client::burn(),
        other => anyhow::bail!("there is no part `{other}`"),
    }
}

/// The figures, and how to read them.
pub(crate) fn rows(palisade: &Path) -> anyhow::Result<(Vec<Row>, Vec<String>)> {
    let mut rows = decisions::rows()?;
    if !rustix::process::geteuid().is_root() {
        return Ok((
            rows,
            vec!["egress: only rules were measured; the rest makes network namespaces and needs root".into()],
        ));
    }
    let world = World::made(&[palisade.to_owned(), palisade.with_file_name("palisade-egress")])?;
    let _upstream = world.served("upstream")?;
    let bare = world.served("bare")?;
    let (peers, mut notes) = proxies::started(&world);
    let wanted = std::env::var("PALISADE_BENCH_EGRESS").unwrap_or_default();
    let wanted = |name: &str| wanted.is_empty() || wanted.split(',').any(|one| one == name);
    let mut measured = Measured { bare, ours: world.sandboxed()?, beside: world.client()?, peers };
    let parts: [(&str, fn(&mut Measured, &mut Vec<String>) -> anyhow::Result<Vec<Row>>); 5] = [
        ("bulk", Measured::bulk),
        ("connects", Measured::connects),
        ("requests", Measured::requests),
        ("paced", Measured::paced),
        ("tunnels", Measured::tunnels),
    ];
    for (name, part) in parts {
        if wanted(name) {
            eprintln!("egress: {name} ...");
            rows.extend(part(&mut measured, &mut notes)?);
        }
    }
    drop(measured);
    if wanted("flood") {
        eprintln!("egress: flood ...");
        rows.extend(flood::rows(&world, &mut notes)?);
    }
    notes.push(
        "egress: everything runs on this machine in one network namespace, with a load generator of one thread and servers of its own; \
         ours is a client in a sandbox by `palisade run`, with verdicts and the ledger on, others are asked by CONNECT, with logs and caches off"
            .into(),
    );
    Ok((rows, notes))
}

/// Everybody who is measured.
struct Measured {
    bare: world::Process,
    ours: Client,
    beside: Client,
    peers: Vec<Peer>,
}

fn row(name: impl Into<String>, unit: &'static str, ours: f64, reference: Option<f64>, bound: Bound) -> Row {
    Row { name: name.into(), unit, ours, reference, bound }
}

/// Figures that were taken in turns, as they were in the round with the middle ratio: what disturbs one round does not count.
fn beside(name: impl Into<String>, unit: &'static str, ours: &[f64], reference: &[f64], bound: Bound) -> Row {
    let mut rounds: Vec<(f64, f64)> = ours.iter().copied().zip(reference.iter().copied()).collect();
    rounds.sort_by(|one, other| (one.0 / one.1).total_cmp(&(other.0 / other.1)));
    let (ours, reference) = rounds.get(rounds.len() / 2).copied().unwrap_or((f64::NAN, f64::NAN));
    row(name, unit, ours, Some(reference), bound)
}

const TIME_OF_RELAY: &str = "  the same: processor time between both ends for a gigabyte";

impl Measured {
    /// Bytes that pass unseen.
    fn bulk(&mut self, _notes: &mut Vec<String>) -> anyhow::Result<Vec<Row>> {
        let speed = |figures: Figures| figures.count as f64 / 1e6 / figures.seconds;
        let asked = |via, port, bytes| Task::Bulk { via, port, bytes };
        let (mut ours, mut bare, mut direct) = (Vec::new(), Vec::new(), Vec::new());
        let mut others: Vec<(&str, Via, u32, Vec<f64>, Vec<f64>)> = Vec::new();
        for peer in &self.peers {
            if let Some(at) = peer.passes {
                others.push((peer.name, Via::Proxy(at), peer.process.pid(), Vec::new(), Vec::new()));
            }
        }
        self.ours.ask(&asked(Via::Straight, RAW, BULK))?;
        let (proxy, relay) = (self.ours.proxy()?, self.bare.pid());
        let (mut own_time, mut bare_time) = (Vec::new(), Vec::new());
        let per = |seconds: f64| seconds * 1e12 / BULK as f64;
        for _ in 0..SHORT_ROUNDS {
            let before = (processor_time(proxy)?, processor_time(relay)?);
            ours.push(speed(self.ours.ask(&asked(Via::Straight, RAW, BULK))?));
            bare.push(speed(self.beside.ask(&asked(Via::Straight, BARE, BULK))?));
            own_time.push(per(processor_time(proxy)? - before.0));
            bare_time.push(per(processor_time(relay)? - before.1));
            direct.push(speed(self.beside.ask(&asked(Via::Straight, RAW, BULK))?));
            for (_, via, pid, speeds, times) in &mut others {
                let before = spent(&family(*pid)?)?;
                speeds.push(speed(self.beside.ask(&asked(*via, RAW, BULK))?));
                times.push(per(spent(&family(*pid)?)? - before));
            }
        }
        let mut rows = vec![
            beside("passed on unseen / bare splice relay", "MB/s", &ours, &bare, Bound::RatioAtLeast(0.9)),
            beside(TIME_OF_RELAY, "ms", &own_time, &bare_time, Bound::Information),
            beside("  the same / no proxy at all", "MB/s", &ours, &direct, Bound::Information),
        ];
        for (name, _, _, speeds, times) in others {
            let what = format!("  the same / {name}, CONNECT");
            rows.push(beside(what, "MB/s", &ours, &speeds, Bound::RatioAbove(1.0)));
            rows.push(beside(TIME_OF_RELAY, "ms", &own_time, &times, Bound::Information));
        }
        Ok(rows)
    }

    /// What a new connection waits for, until the first byte from the server.
    fn connects(&mut self, _notes: &mut Vec<String>) -> anyhow::Result<Vec<Row>> {
        let asked = |via, port| Task::Connects { via, port, count: CONNECTS };
        let (mut ours, mut bare, mut direct) = (Vec::new(), Vec::new(), Vec::new());
        let mut others: Vec<(&str, Via, Vec<f64>)> = Vec::new();
        for peer in &self.peers {
            if let Some(at) = peer.passes {
                others.push((peer.name, Via::Proxy(at), Vec::new()));
            }
        }
        for _ in 0..ROUNDS {
            ours.push(self.ours.ask(&asked(Via::Straight, RAW))?.p50);
            direct.push(self.beside.ask(&asked(Via::Straight, RAW))?.p50);
            bare.push(self.beside.ask(&asked(Via::Straight, BARE))?.p50);
            for (_, via, times) in &mut others {
                times.push(self.beside.ask(&asked(*via, RAW))?.p50);
            }
        }
        let direct = median(&mut direct);
        let added = |times: &mut Vec<f64>| median(times) - direct;
        let ours = added(&mut ours);
        let mut rows = vec![
            row("added to a new connection, until its first byte", "us", ours, None, Bound::Below(150.0)),
            row("  the same / bare splice relay", "us", ours, Some(added(&mut bare)), Bound::Information),
        ];
        for (name, _, mut times) in others {
            let reference = Some(added(&mut times));
            rows.push(row(
                format!("  the same / {name}, CONNECT"),
                "us",
                ours,
                reference,
                Bound::Information,
            ));
        }
        Ok(rows)
    }

    /// Opened requests with a secret put in, as fast as they go.
    fn requests(&mut self, notes: &mut Vec<String>) -> anyhow::Result<Vec<Row>> {
        let asked = |via, speaks| Task::Requests { via, speaks, at_once: AT_ONCE, millis: FAST, pace: None };
        for speaks in [Http::One, Http::Two] {
            self.ours.ask(&asked(Via::Straight, speaks))?;
        }
        let own = [self.ours.proxy()?, self.ours.process.pid()];
        let mut ours = [Opened::default(), Opened::default()];
        let mut proxy = [Vec::new(), Vec::new()];
        let mut others: Vec<Other> = Vec::new();
        for peer in &self.peers {
            let Some(at) = peer.opens else { continue };
            // What a client of squid's speaks is HTTP/1.1, whatever it would like to.
            for speaks in
                [Http::One, Http::Two].into_iter().filter(|it| peer.name != "squid" || *it == Http::One)
            {
                let task = asked(Via::Proxy(at), speaks);
                match self.beside.ask(&task) {
                    Ok(_) => others.push(Other::new(peer, speaks, task)),
                    Err(why) => {
                        notes.push(format!("{}, {speaks:?}: not compared: {why:#}", peer.name));
                    }
                }
            }
        }
        for _ in 0..SHORT_ROUNDS {
            for (at, speaks) in [Http::One, Http::Two].into_iter().enumerate() {
                let before = processor_time(own[0])?;
                let figures =
                    ours[at].round(&mut self.ours, &asked(Via::Straight, speaks), || spent(&own))?;
                proxy[at].push(figures.count as f64 / (processor_time(own[0])? - before));
            }
            for other in &mut others {
                let pid = other.pid;
                other.opened.round(&mut self.beside, &other.task, || spent(&family(pid)?))?;
            }
        }
        let [one, two] = &ours;
        let mut rows = Vec::new();
        for Other { name, speaks, opened, .. } in &others {
            let (name, theirs) = (*name, if *speaks == Http::One { "1.1" } else { "2" });
            let bound = if name == "squid" { Bound::RatioAtLeast(1.5) } else { Bound::RatioAtLeast(5.0) };
            let compared: &[(&str, &Opened)] = match (name, speaks) {
                ("squid", _) => &[("1.1", one), ("2", two)],
                (_, Http::One) => &[("1.1", one)],
                (_, Http::Two) => &[("2", two)],
            };
            for (version, ours) in compared {
                let what = format!("opened HTTP/{version} with a secret / HTTP/{theirs} of {name}: per core");
                rows.push(beside(what, "/s", &ours.per_core, &opened.per_core, bound));
                let in_all = Bound::RatioAtLeast(1.0);
                rows.push(beside("  the same: in all", "/s", &ours.per_second, &opened.per_second, in_all));
            }
        }
        let [one, two] = &mut proxy;
        notes.push(format!(
            "opened requests: {:.0} /s per core (HTTP/2: {:.0}) by the processor time of our proxy alone, without the launcher, which records every request",
            median(one),
            median(two)
        ));
        Ok(rows)
    }

    /// Opened requests at a steady pace: what they wait for longer than without us (EGR-22).
    fn paced(&mut self, _notes: &mut Vec<String>) -> anyhow::Result<Vec<Row>> {
        let mut rows = Vec::new();
        for (speaks, name) in [(Http::One, "1.1"), (Http::Two, "2")] {
            let (via, at_once, pace) = (Via::Straight, AT_ONCE, Some(PACE));
            let asked = Task::Requests { via, speaks, at_once, millis: COUNTED, pace };
            let (mut ours, mut direct) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                ours.push(self.ours.ask(&asked)?);
                direct.push(self.beside.ask(&asked)?);
            }
            let middle = |all: &[Figures], of: fn(&Figures) -> f64| {
                median(&mut all.iter().map(of).collect::<Vec<_>>())
            };
            let added = |of: fn(&Figures) -> f64| {
                let each = ours.iter().zip(&direct).map(|(ours, direct)| (of(ours) - of(direct)) / 1000.0);
                median(&mut each.collect::<Vec<_>>())
            };
            let pace = middle(&ours, |figures| 1.0 / figures.seconds);
            let what = format!("opened HTTP/{name}, {PACE}/s, {AT_ONCE} at once: added p50");
            let direct_p99 = middle(&direct, |it| it.p99) / 1000.0;
            rows.extend([
                row(what, "ms", added(|it| it.p50), None, Bound::AtMost(0.5)),
                row("  the same: added p99", "ms", added(|it| it.p99), None, Bound::AtMost(2.0)),
                row("  the same: p99 without us", "ms", direct_p99, None, Bound::Information),
                row("  the same: how many there really were", "/s", pace, None, Bound::AtLeast(PACE * 0.98)),
            ]);
        }
        Ok(rows)
    }

    /// Memory of the proxy while many tunnels are open.
    fn tunnels(&mut self, notes: &mut Vec<String>) -> anyhow::Result<Vec<Row>> {
        let figures = self.ours.ask(&Task::Hold { count: TUNNELS, what: What::Tunnel })?;
        anyhow::ensure!(figures.failed == 0, "{} of {TUNNELS} tunnels failed", figures.failed);
        let (proxy, launcher) = (resident(self.ours.proxy()?)?, resident(self.ours.process.pid())?);
        self.ours.ask(&Task::Release)?;
        notes.push(format!(
            "{TUNNELS} tunnels were opened in {:.1} s; the launcher had {launcher:.1} MiB then; memory of the kernel for sockets is not counted",
            figures.seconds
        ));
        Ok(vec![row(
            format!("{TUNNELS} tunnels open: memory of the proxy"),
            "MiB",
            proxy,
            None,
            Bound::Below(150.0),
        )])
    }
}

/// Another proxy that opens.
struct Other {
    name: &'static str,
    speaks: Http,
    task: Task,
    pid: u32,
    opened: Opened,
}

impl Other {
    fn new(peer: &Peer, speaks: Http, task: Task) -> Self {
        Self { name: peer.name, speaks, task, pid: peer.process.pid(), opened: Opened::default() }
    }
}

/// Rounds of opened requests.
#[derive(Default)]
struct Opened {
    per_second: Vec<f64>,
    per_core: Vec<f64>,
}

impl Opened {
    fn round(
        &mut self,
        client: &mut Client,
        task: &Task,
        spent: impl Fn() -> anyhow::Result<f64>,
    ) -> anyhow::Result<Figures> {
        let before = spent()?;
        let figures = client.ask(task)?;
        self.per_second.push(1.0 / figures.seconds);
        self.per_core.push(figures.count as f64 / (spent()? - before));
        Ok(figures)
    }
}

/// Seconds that these processes have used.
fn spent(pids: &[u32]) -> anyhow::Result<f64> {
    pids.iter().map(|pid| processor_time(*pid)).sum()
}

/// A process and those it has started.
fn family(pid: u32) -> anyhow::Result<Vec<u32>> {
    let mut all = vec![pid];
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
    for child in children.split_whitespace() {
        all.extend(family(child.parse()?)?);
    }
    Ok(all)
}

/// Memory that a process has, in MiB.
fn resident(pid: u32) -> anyhow::Result<f64> {
    let text = std::fs::read_to_string(PathBuf::from(format!("/proc/{pid}/status")))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: f64 = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(f64::NAN);
    Ok(kib / 1024.0)
}
