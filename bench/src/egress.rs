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

use self::client::{Figures, Task, Via, What};
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
const BULK: u64 = 1 << 30;
const CONNECTS: usize = 400;
const TUNNELS: usize = 5_000;
const CONNECTIONS: usize = 32;
/// How long requests are counted, in milliseconds.
const COUNTED: u64 = 2_000;
/// Requests in a second, where that is given.
const PACE: f64 = 3_000.0;

/// A part that the benchmark starts itself, in its small internet.
pub(crate) fn part(name: &str, argument: &str) -> anyhow::Result<()> {
    match name {
        "upstream" => upstream::serve(Path::new(argument)),
        "bare" => bare::serve(),
        "client" => client::serve(),
        "storm" => client::storm(argument.parse()?),
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

impl Measured {
    /// Bytes that pass unseen.
    fn bulk(&mut self, _notes: &mut Vec<String>) -> anyhow::Result<Vec<Row>> {
        let speed = |figures: Figures| figures.count as f64 / 1e6 / figures.seconds;
        let asked = |via, port, bytes| Task::Bulk { via, port, bytes };
        let (mut ours, mut bare, mut direct) = (Vec::new(), Vec::new(), Vec::new());
        let mut others: Vec<(&str, Via, Vec<f64>)> = Vec::new();
        for peer in &self.peers {
            if let Some(at) = peer.passes {
                others.push((peer.name, Via::Proxy(at), Vec::new()));
            }
        }
        self.ours.ask(&asked(Via::Straight, RAW, BULK / 8))?;
        let (proxy, relay) = (self.ours.proxy()?, self.bare.pid());
        let (mut own_time, mut bare_time) = (0.0, 0.0);
        for _ in 0..ROUNDS {
            let before = (processor_time(proxy)?, processor_time(relay)?);
            ours.push(speed(self.ours.ask(&asked(Via::Straight, RAW, BULK))?));
            bare.push(speed(self.beside.ask(&asked(Via::Straight, BARE, BULK))?));
            own_time += processor_time(proxy)? - before.0;
            bare_time += processor_time(relay)? - before.1;
            direct.push(speed(self.beside.ask(&asked(Via::Straight, RAW, BULK))?));
            for (_, via, speeds) in &mut others {
                speeds.push(speed(self.beside.ask(&asked(*via, RAW, BULK / 4))?));
            }
        }
        let ours = median(&mut ours);
        let per = |seconds: f64| seconds * 1e12 / (BULK as f64 * ROUNDS as f64);
        let mut rows = vec![
            row(
                "passed on unseen / bare splice relay",
                "MB/s",
                ours,
                Some(median(&mut bare)),
                Bound::RatioAtLeast(0.9),
            ),
            row(
                "  the same: processor time of the relay for a gigabyte",
                "ms",
                per(own_time),
                Some(per(bare_time)),
                Bound::Information,
            ),
            row("  the same / no proxy at all", "MB/s", ours, Some(median(&mut direct)), Bound::Information),
        ];
        for (name, _, mut speeds) in others {
            let reference = Some(median(&mut speeds));
            rows.push(row(
                format!("  the same / {name}, CONNECT"),
                "MB/s",
                ours,
                reference,
                Bound::RatioAbove(1.0),
            ));
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
        let asked = |via| Task::Requests { via, connections: CONNECTIONS, millis: COUNTED, pace: None };
        self.ours.ask(&asked(Via::Straight))?;
        let own = [self.ours.proxy()?, self.ours.process.pid()];
        let (mut ours, mut proxy) = (Opened::default(), Vec::new());
        let mut others: Vec<(&str, Via, u32, Opened)> = Vec::new();
        for peer in &self.peers {
            let Some(at) = peer.opens else { continue };
            match self.beside.ask(&asked(Via::Proxy(at))) {
                Ok(_) => others.push((peer.name, Via::Proxy(at), peer.process.pid(), Opened::default())),
                Err(why) => {
                    notes.push(format!("{} is not compared with opened requests: {why:#}", peer.name))
                }
            }
        }
        for _ in 0..ROUNDS.div_ceil(2) {
            let before = processor_time(own[0])?;
            let figures = ours.round(&mut self.ours, &asked(Via::Straight), || spent(&own))?;
            proxy.push(figures.count as f64 / (processor_time(own[0])? - before));
            for (_, via, pid, opened) in &mut others {
                opened.round(&mut self.beside, &asked(*via), || spent(&family(*pid)?))?;
            }
        }
        let (per_core, per_second) = (median(&mut ours.per_core), median(&mut ours.per_second));
        let mut rows = Vec::new();
        for (name, _, _, mut opened) in others {
            let bound = if name == "squid" { Bound::RatioAtLeast(1.5) } else { Bound::RatioAtLeast(5.0) };
            let what = format!("opened HTTP/1.1 with a secret / {name}: per core");
            rows.push(row(what, "/s", per_core, Some(median(&mut opened.per_core)), bound));
            let reference = Some(median(&mut opened.per_second));
            rows.push(row("  the same: in all", "/s", per_second, reference, Bound::RatioAtLeast(1.0)));
        }
        notes.push(format!(
            "opened requests: {:.0} /s per core by the processor time of our proxy alone, without the launcher, which records every request",
            median(&mut proxy)
        ));
        Ok(rows)
    }

    /// Opened requests at a steady pace: what they wait for longer than without us.
    fn paced(&mut self, _notes: &mut Vec<String>) -> anyhow::Result<Vec<Row>> {
        let asked = Task::Requests {
            via: Via::Straight,
            connections: CONNECTIONS,
            millis: COUNTED,
            pace: Some(PACE),
        };
        let (mut ours, mut direct) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            ours.push(self.ours.ask(&asked)?);
            direct.push(self.beside.ask(&asked)?);
        }
        let middle =
            |all: &[Figures], of: fn(&Figures) -> f64| median(&mut all.iter().map(of).collect::<Vec<_>>());
        let added = |of: fn(&Figures) -> f64| (middle(&ours, of) - middle(&direct, of)) / 1000.0;
        let pace = middle(&ours, |figures| 1.0 / figures.seconds);
        Ok(vec![
            row(
                format!("opened, {PACE}/s on {CONNECTIONS} connections: added p50"),
                "ms",
                added(|it| it.p50),
                None,
                Bound::AtMost(0.5),
            ),
            row("  the same: added p99", "ms", added(|it| it.p99), None, Bound::AtMost(2.0)),
            row("  the same: how many there really were", "/s", pace, None, Bound::AtLeast(PACE * 0.98)),
        ])
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
