//! What a sandbox costs: cold by `palisade run`, warm by the spawner, and how many can live at once.
//!
//! Every way starts `/bin/true` with the current directory writable and waits for its end; ours has every layer, the
//! receipt and the ledger's entry on. Peers that are not installed are left out and named.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use sandbox::spawner::{Answer, Options, Order, Spawner, Verb};
use sandbox::{Ended, Permit, RunId};
use serde::{Deserialize, Serialize};

use crate::measure::median;
use crate::report::{Bound, Row};

const COLD: usize = 200;
const WARM: usize = 400;
const SLOW: usize = 20;
const ALIVE: usize = 500;
const RATE: usize = 600;
/// How many of them are under way while the rate is taken: what a daemon with work to hand out would do.
const AT_ONCE: usize = 4;

/// A way to start `/bin/true`.
struct Way {
    name: &'static str,
    command: Command,
    times: Vec<f64>,
}

impl Way {
    fn new(name: &'static str, command: Command) -> Self {
        Self { name, command, times: Vec::new() }
    }

    fn once(&mut self) -> anyhow::Result<()> {
        let start = Instant::now();
        let status =
            self.command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        self.times.push(start.elapsed().as_secs_f64() * 1e3);
        ensure!(status.success(), "{} ended with {status}", self.name);
        Ok(())
    }
}

/// The figures.
pub(crate) fn rows(palisade: &Path) -> anyhow::Result<(Vec<Row>, Vec<String>)> {
    // Outside of this repository: inside it, the repository itself would be what the sandbox is given.
    let temporary = tempfile::tempdir()?;
    let place = temporary.path().canonicalize()?;
    ensure!(which("bwrap"), "bubblewrap is not installed; `scripts/setup bench` installs it");
    // As an installation has it: what a linker wrote lies in the cache in small pieces, and is slower to load.
    let program = place.join("palisade");
    std::fs::copy(palisade, &program)?;
    let mut notes = Vec::new();
    // First, so that what was removed on the disk a moment ago is not in its way.
    let in_memory = match tempfile::tempdir_in("/dev/shm") {
        Ok(memory) => Some(cold(&program, &memory.path().canonicalize()?)?),
        Err(error) => {
            notes.push(format!("cold starts in memory are not measured: {error}"));
            None
        }
    };
    let mut found = cold(&program, &place)?;
    for (name, command) in [
        ("runc", runc(&place)?.ok_or("it is not installed, or this is not root".into())),
        ("srt", srt(&place)?),
    ] {
        let command = match command {
            Ok(command) => command,
            Err(why) => {
                notes.push(format!("{name} is not compared: {why}"));
                continue;
            }
        };
        let mut way = Way::new(name, command);
        for _ in 0..SLOW {
            way.once().with_context(|| name)?;
        }
        found.insert(name, median(&mut way.times));
    }
    let warm = warm(&place)?;
    let row = |name: &str, ours: f64, reference: Option<f64>, bound| Row {
        name: name.into(),
        unit: "ms",
        ours,
        reference,
        bound,
    };
    let (ours, bwrap) = (found["ours"], found["bwrap"]);
    let mut rows = vec![
        row(
            "cold `palisade run -- /bin/true` / bwrap --unshare-all",
            ours,
            Some(bwrap),
            Bound::RatioAtMost(1.0),
        ),
        row("  the bare command", found["bare"], None, Bound::Information),
    ];
    if let Some(memory) = &in_memory {
        let name = "  the same with the worktree and our state in memory / bwrap";
        rows.push(row(name, memory["ours"], Some(memory["bwrap"]), Bound::Information));
    }
    rows.push(row(
        "warm, from the spawner's pool / bwrap",
        warm.start_ms,
        Some(warm.bwrap_ms),
        Bound::RatioBelow(0.4),
    ));
    if let Some(runc) = found.get("runc") {
        rows.push(row("cold / runc run", ours, Some(*runc), Bound::RatioBelow(0.2)));
    }
    if let Some(srt) = found.get("srt") {
        rows.push(row("cold / sandbox-runtime (srt)", ours, Some(*srt), Bound::RatioBelow(0.03)));
    }
    rows.push(Row {
        name: format!("{ALIVE} alive at once: our own memory for each"),
        unit: "MiB",
        ours: warm.own_mib,
        reference: None,
        bound: Bound::Below(2.0),
    });
    rows.push(Row {
        name: format!("time for one started and reaped, {AT_ONCE} under way"),
        unit: "ms",
        ours: 1e3 / warm.per_second,
        reference: None,
        bound: Bound::Below(5.0),
    });
    notes.push(format!(
        "warm: {:.0} started and reaped per second with {AT_ONCE} under way (wanted: 200), {:.0} one after the other",
        warm.per_second, warm.one_by_one
    ));
    Ok((rows, notes))
}

/// How long each way takes in a place, in turns.
fn cold(palisade: &Path, place: &Path) -> anyhow::Result<BTreeMap<&'static str, f64>> {
    std::fs::create_dir(place.join("work"))?;
    std::fs::create_dir(place.join("home"))?;
    let mut quick = vec![
        Way::new("bare", bare()),
        Way::new("ours", ours(palisade, place)),
        Way::new("bwrap", bwrap(place)),
    ];
    for way in &mut quick {
        for _ in 0..10 {
            way.once().with_context(|| way.name)?;
        }
        way.times.clear();
    }
    for _ in 0..COLD {
        for way in &mut quick {
            way.once().with_context(|| way.name)?;
        }
    }
    Ok(quick.iter_mut().map(|way| (way.name, median(&mut way.times))).collect())
}

fn which(name: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(name).exists()))
}

fn bare() -> Command {
    Command::new("/bin/true")
}

fn ours(palisade: &Path, place: &Path) -> Command {
    let mut command = Command::new(palisade);
    command.args(["run", "--", "/bin/true"]).current_dir(place.join("work"));
    command.env("XDG_STATE_HOME", place.join("state")).env("XDG_CONFIG_HOME", place.join("config"));
    command
}

fn bwrap(place: &Path) -> Command {
    let mut command = Command::new("bwrap");
    command.args(["--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/usr", "/usr"]);
    for name in ["bin", "sbin", "lib", "lib64"] {
        if Path::new("/").join(name).is_symlink() {
            command.args(["--symlink", &format!("usr/{name}"), &format!("/{name}")]);
        } else if Path::new("/").join(name).exists() {
            command.args(["--ro-bind", &format!("/{name}"), &format!("/{name}")]);
        }
    }
    command.args([
        "--ro-bind",
        "/etc",
        "/etc",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--tmpfs",
        "/tmp",
        "--bind",
    ]);
    command
        .arg(place.join("work"))
        .arg(place.join("work"))
        .arg("--chdir")
        .arg(place.join("work"))
        .arg("/bin/true");
    command
}

/// `runc run` on a bundle with the same root; needs root.
fn runc(place: &Path) -> anyhow::Result<Option<Command>> {
    if !which("runc") || !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let bundle = place.join("bundle");
    std::fs::create_dir_all(bundle.join("rootfs"))?;
    let status = Command::new("runc").arg("spec").current_dir(&bundle).status()?;
    ensure!(status.success(), "runc spec");
    let file = bundle.join("config.json");
    let mut spec: serde_json::Value = serde_json::from_slice(&std::fs::read(&file)?)?;
    spec["process"]["args"] = serde_json::json!(["/usr/bin/true"]);
    spec["process"]["terminal"] = false.into();
    let mounts = spec["mounts"].as_array_mut().context("mounts")?;
    for path in ["/usr", "/lib", "/lib64", "/bin"] {
        let real = std::fs::canonicalize(path)?;
        mounts.push(serde_json::json!({
            "destination": path, "source": real, "type": "bind", "options": ["rbind", "ro"]
        }));
    }
    std::fs::write(&file, serde_json::to_vec(&spec)?)?;
    let mut command = Command::new("sh");
    let run = format!("exec runc run bench-$$ -b {}", bundle.display());
    command.args(["-c", &run]);
    Ok(Some(command))
}

/// Anthropic's sandbox-runtime, from where `scripts/setup bench` put it or from `PALISADE_BENCH_SRT`; else why not. Its
/// settings ask for what ours gives: the current directory writable, no network.
fn srt(place: &Path) -> anyhow::Result<Result<Command, String>> {
    let installed = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/bench/srt/node_modules/.bin/srt");
    let program = std::env::var_os("PALISADE_BENCH_SRT").map_or_else(|| installed.into(), PathBuf::from);
    if !program.exists() {
        return Ok(Err("it is not installed; `scripts/setup bench` says why".into()));
    }
    let settings = place.join("srt.json");
    let wanted = serde_json::json!({
        "network": { "allowedDomains": [], "deniedDomains": [] },
        "filesystem": { "denyRead": [], "allowWrite": ["."], "denyWrite": [] },
    });
    std::fs::write(&settings, wanted.to_string())?;
    let made = || {
        let mut command = Command::new(&program);
        command.arg("--settings").arg(&settings).arg("/bin/true");
        command.current_dir(place.join("work")).env("HOME", place.join("home"));
        command
    };
    let tried = made().stdin(Stdio::null()).output()?;
    if !tried.status.success() {
        let said = String::from_utf8_lossy(&tried.stderr);
        return Ok(Err(format!("it does not work here: {}", said.lines().next().unwrap_or_default())));
    }
    Ok(Ok(made()))
}

/// What the spawner reaches.
#[derive(Debug, Serialize, Deserialize)]
struct Warm {
    start_ms: f64,
    bwrap_ms: f64,
    per_second: f64,
    one_by_one: f64,
    own_mib: f64,
}

/// In a process of its own, because the spawner is forked while there is one thread.
fn warm(place: &Path) -> anyhow::Result<Warm> {
    let own = std::env::current_exe()?;
    let output = Command::new(own).arg("warm").arg(place).stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "the warm part failed");
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The warm part itself; prints JSON.
pub(crate) fn warm_alone(place: &Path) -> anyhow::Result<()> {
    let spawner =
        Spawner::start(Options { roots: vec![place.to_owned()], pool: 8, state: place.join("state") })?;
    let null = OwnedFd::from(std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?);
    let (mut times, mut bwrap) = (Vec::new(), Way::new("bwrap", bwrap(place)));
    for _ in 0..WARM {
        // In turns: a machine that is slower for a while is slower for both.
        bwrap.once()?;
        let start = Instant::now();
        started(&spawner, place, &["/bin/true"], &null)?;
        ended(&spawner, 1)?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
        // The pool fills itself while nobody asks.
        std::thread::sleep(Duration::from_millis(10));
    }
    let start_ms = median(&mut times.split_off(WARM / 10));
    let bwrap_ms = median(&mut bwrap.times.split_off(WARM / 10));
    let one_by_one = rate(&spawner, place, &null, 1)?;
    let per_second = rate(&spawner, place, &null, AT_ONCE)?;
    let own_mib = alive(&spawner, place, &null)?;
    println!("{}", serde_json::to_string(&Warm { start_ms, bwrap_ms, per_second, one_by_one, own_mib })?);
    Ok(())
}

/// How many `/bin/true` are started and reaped each second while `at_once` of them are under way.
fn rate(spawner: &Spawner, place: &Path, null: &OwnedFd, at_once: usize) -> anyhow::Result<f64> {
    let stdio = [null.as_fd(), null.as_fd(), null.as_fd()];
    let start = Instant::now();
    let (mut begun, mut reaped) = (0, 0);
    while reaped < RATE {
        while begun < RATE && begun - reaped < at_once {
            spawner.launch(Permit::own_process(), order(place, &["/bin/true"])?, stdio)?;
            begun += 1;
        }
        match spawner.hear()? {
            Answer::Ready { run, account, .. } => {
                ensure!(account.differences.is_empty(), "{:?}", account.differences);
                spawner.go(run)?;
            }
            Answer::Ended { ended: Ended::Code(0), .. } => reaped += 1,
            other => bail!("{other:?}"),
        }
    }
    Ok(RATE as f64 / start.elapsed().as_secs_f64())
}

/// Memory that each of many costs besides its command: free memory before and after, less what the same commands
/// take without us.
fn alive(spawner: &Spawner, place: &Path, null: &OwnedFd) -> anyhow::Result<f64> {
    let before = available()?;
    let mut bare = Vec::new();
    for _ in 0..ALIVE {
        bare.push(Command::new("/bin/sleep").arg("1000").stdin(Stdio::null()).spawn()?);
    }
    let without = before.saturating_sub(available()?);
    for mut child in bare {
        child.kill()?;
        child.wait()?;
    }
    let before = available()?;
    let mut runs = Vec::new();
    for _ in 0..ALIVE {
        runs.push(started(spawner, place, &["/bin/sleep", "1000"], null)?);
    }
    let with = before.saturating_sub(available()?);
    for run in runs {
        spawner.say(&Verb::Kill { run })?;
    }
    ended(spawner, ALIVE)?;
    Ok(with.saturating_sub(without) as f64 / 1024.0 / ALIVE as f64)
}

/// Memory that could be had now, in KiB.
fn available() -> anyhow::Result<u64> {
    // What was freed a moment ago is counted late.
    std::thread::sleep(Duration::from_millis(500));
    let text = std::fs::read_to_string("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:")).context("MemAvailable")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

fn started(spawner: &Spawner, place: &Path, command: &[&str], null: &OwnedFd) -> anyhow::Result<RunId> {
    let order = order(place, command)?;
    let run = order.run.clone();
    spawner.launch(Permit::own_process(), order, [null.as_fd(), null.as_fd(), null.as_fd()])?;
    match spawner.hear()? {
        Answer::Ready { account, .. } => ensure!(account.differences.is_empty(), "{:?}", account.differences),
        Answer::Refused { why, .. } => bail!("{why}"),
        Answer::Ended { .. } => bail!("ended before it began"),
    }
    spawner.go(run.clone())?;
    Ok(run)
}

fn ended(spawner: &Spawner, count: usize) -> anyhow::Result<()> {
    for _ in 0..count {
        match spawner.hear()? {
            Answer::Ended { ended: Ended::Code(0) | Ended::Killed, .. } => {}
            other => bail!("{other:?}"),
        }
    }
    Ok(())
}

fn order(place: &Path, command: &[&str]) -> anyhow::Result<Order> {
    let work: PathBuf = place.join("work");
    Ok(Order {
        run: RunId::new()?,
        command: command.iter().map(Into::into).collect(),
        directory: work.clone(),
        read: Vec::new(),
        write: vec![work],
        home: (place.join("home"), "/home/agent".into()),
        user: "agent".into(),
        environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
        files: 1024,
        file_size: 1 << 30,
        pids: 128,
        memory: Some(512 << 20),
        cpu: None,
        tmp: 64 << 20,
        trace: false,
    })
}
