//! Sessions: how soon a prompt is taken, how soon a word is told, what two hundred at once cost, and what lists cost when there
//! are many.
//!
//! The agent is `acp-fake`, which numbers its words and says the time in each at a pace, and in the end how many they were: what
//! was told is compared with that. Its sandbox, the launcher and the daemon are real. Lists and trees are
//! asked of the use cases in this process, with the gate and the store, because to make 100,000 sessions over HTTP takes long.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use access::{CreateWorktree, Principal};
use anyhow::Context;
use model::{SessionId, Tier, WorktreeId};
use runtime::{NewSession, Runtime, SessionFilter};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use vault::{KeyRing, MasterKey};

use crate::daemon::{Daemon, Installation};
use crate::load::processor_time;
use crate::report::{Bound, Row};
use crate::wire::Connection;

/// Sessions of a list, and of a tree.
const LISTED: usize = 100_000;
const TREE: usize = 1_000;
/// Sessions at work while prompts and words are timed, and how often each says something.
const AT_WORK: usize = 50;
const WORD_EVERY: u64 = 200;
const PROMPTS: usize = 200;
/// The load: sessions, words a second of each, and for how long.
const LOAD: usize = 200;
const LOAD_EVERY: u64 = 20;
const LASTING: Duration = Duration::from_secs(20);
/// How long whoever follows a session that was stopped waits for its last word.
const DRAINING: Duration = Duration::from_secs(120);
/// The smaller load that both ways of telling are compared under.
const COMPARED: usize = 40;

fn p(sorted: &[f64], part: f64) -> f64 {
    let at = ((sorted.len() as f64) * part) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

fn sorted(mut times: Vec<f64>) -> Vec<f64> {
    times.sort_by(f64::total_cmp);
    times
}

fn row(name: &str, unit: &'static str, ours: f64, bound: Bound) -> Row {
    Row { name: name.to_owned(), unit, ours, reference: None, bound }
}

/// All of it.
pub(crate) fn rows(daemon: &Path, disk: &Path) -> anyhow::Result<(Vec<Row>, Vec<String>)> {
    let many = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    let place = tempfile::tempdir_in(disk)?;
    eprintln!("sessions: lists (makes {LISTED} first) ...");
    rows.extend(many.block_on(lists(place.path()))?);
    drop(place);
    let home = tempfile::tempdir_in(disk)?;
    let (more, said) = at_work(daemon, home.path(), &many)?;
    rows.extend(more);
    notes.extend(said);
    Ok((rows, notes))
}

async fn worktree(runtime: &Arc<Runtime>, who: &Principal, data: &Path) -> anyhow::Result<WorktreeId> {
    let new = runtime::NewRepo::new("demo".parse()?, "https://forge.example/a/b".into());
    let repo = runtime.create_repo(who, new).await.map_err(|error| anyhow::anyhow!("{error}"))?.id;
    let act = CreateWorktree {
        worktree: WorktreeId::random(),
        repo,
        name: "demo".parse()?,
        about: String::new(),
        tier: Tier::Session,
        branch: None,
        base: None,
    };
    let made = runtime.create_worktree(who, act).await.map_err(|error| anyhow::anyhow!("{error}"))?.id;
    // A session needs a tree; nothing is run in this one.
    std::fs::create_dir_all(data.join("worktrees").join(made.to_string()))?;
    Ok(made)
}

async fn lists(place: &Path) -> anyhow::Result<Vec<Row>> {
    let ring = Arc::new(KeyRing::new(MasterKey::random()?));
    let (runtime, who) = crate::owner::booted(place, &ring).await?;
    let worktree = worktree(&runtime, &who, place).await?;
    let mut making = tokio::task::JoinSet::new();
    let mut first = None;
    for n in 0..LISTED {
        let (runtime, who) = (Arc::clone(&runtime), who.clone());
        let new = NewSession {
            worktree,
            agent: "command".parse()?,
            title: format!("Session {n}").parse()?,
            mode: None,
            model: None,
            command: vec!["true".into()],
        };
        making.spawn(async move { runtime.create_session(&who, new).await.map(|row| row.id()) });
        if making.len() >= 128 {
            let made = making.join_next().await.context("none")??;
            first = first.or(Some(made.map_err(|error| anyhow::anyhow!("{error}"))?));
        }
    }
    while let Some(made) = making.join_next().await {
        made?.map_err(|error| anyhow::anyhow!("{error}"))?;
    }
    let root = first.context("no session")?;
    let mut known = vec![root];
    for n in 1..TREE {
        let parent = known.get(n * 7_919 % known.len()).copied().unwrap_or(root);
        let made = runtime.fork_session(&who, parent, None, None).await;
        known.push(made.map_err(|error| anyhow::anyhow!("{error}"))?.id());
    }
    let mut listed = Vec::new();
    let all = SessionFilter { worktree: Some(worktree), creator: None, closed: false };
    let mut before: Option<SessionId> = None;
    for n in 0..200 {
        let filter = if n % 2 == 0 { SessionFilter::default() } else { all.clone() };
        let from = Instant::now();
        let page = runtime.sessions(&who, &filter, before, 50).await.map_err(|e| anyhow::anyhow!("{e}"))?;
        listed.push(from.elapsed().as_secs_f64() * 1e3);
        before = page.next;
    }
    let mut trees = Vec::new();
    for _ in 0..50 {
        let from = Instant::now();
        let all = runtime.lineage(&who, root).await.map_err(|e| anyhow::anyhow!("{e}"))?;
        trees.push(from.elapsed().as_secs_f64() * 1e3);
        anyhow::ensure!(all.descendants.len() == TREE - 1, "the tree is not whole");
    }
    let (listed, trees) = (sorted(listed), sorted(trees));
    Ok(vec![
        row("a page of 100,000 sessions: p95", "ms", p(&listed, 0.95), Bound::Below(20.0)),
        row("a tree of 1,000 sessions: p95", "ms", p(&trees, 0.95), Bound::Below(20.0)),
    ])
}

/// A daemon with a repository, and sessions in worktrees of it.
struct World {
    daemon: Daemon,
    token: String,
    worktrees: Vec<String>,
}

impl World {
    async fn new(binary: &Path, home: &Path) -> anyhow::Result<Self> {
        let agents = home.join("agents");
        let installation = Installation::new(binary, home)?;
        std::fs::create_dir_all(&agents)?;
        let fake = installation.binary.with_file_name("acp-fake");
        anyhow::ensure!(fake.exists(), "`acp-fake` is missing; `make bench` builds it");
        let beside = fake.parent().context("no directory")?.display().to_string();
        let document = "title = \"An agent that says the time\"\ncommand = \"acp-fake\"\nacp = [\"acp-fake\"]\n[modes]\ndefault = { requests = \"ask\" }\n";
        // One person follows all of them here.
        std::fs::write(
            home.join("config.toml"),
            format!("[agents]\npath = {beside:?}\n[limits]\nsockets_per_user = 1000\n"),
        )?;
        private(&home.join("config.toml"), 0o600)?;
        std::fs::write(agents.join("fake.toml"), document)?;
        private(&agents, 0o700)?;
        private(&agents.join("fake.toml"), 0o600)?;
        let origin = home.join("origin");
        std::fs::create_dir_all(&origin)?;
        let git = |words: &[&str]| -> anyhow::Result<()> {
            let done = std::process::Command::new("git").args(words).current_dir(&origin).output()?;
            anyhow::ensure!(done.status.success(), "git: {}", String::from_utf8_lossy(&done.stderr));
            Ok(())
        };
        git(&["init", "-q", "-b", "main"])?;
        std::fs::write(origin.join("file"), "one\n")?;
        git(&["add", "."])?;
        git(&["-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-qm", "one"])?;
        let daemon = tokio::task::block_in_place(|| installation.start())?;
        let token = daemon.sign_in().await?;
        let mut world = Self { daemon, token, worktrees: Vec::new() };
        let origin = origin.canonicalize()?.display().to_string();
        let repo = world.post("/api/v1/repos", &json!({ "name": "demo", "origin": origin })).await?;
        let repo = repo["id"].as_str().context("no repository")?.to_owned();
        world.post(&format!("/api/v1/repos/{repo}/fetch"), &Value::Null).await?;
        for n in 0..8 {
            let made =
                world.post("/api/v1/worktrees", &json!({ "repo": repo, "name": format!("w{n}") })).await?;
            world.worktrees.push(made["id"].as_str().context("no worktree")?.to_owned());
        }
        Ok(world)
    }

    async fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        let body = (!body.is_null()).then_some(body);
        Connection::open(self.daemon.address).await?.call("POST", path, &self.token, body).await
    }

    async fn get(&self, path: &str) -> anyhow::Result<Value> {
        Connection::open(self.daemon.address).await?.call("GET", path, &self.token, None).await
    }

    async fn session(&self, n: usize) -> anyhow::Result<String> {
        let worktree = self.worktrees.get(n % self.worktrees.len()).context("no worktree")?;
        let made = self.post("/api/v1/sessions", &json!({ "worktree": worktree, "agent": "fake" })).await?;
        Ok(made["id"].as_str().context("no session")?.to_owned())
    }

    /// Has so many sessions say the time, and waits until all of them do.
    async fn speaking(&self, count: usize, words: u64, every: u64) -> anyhow::Result<Vec<String>> {
        let mut all = Vec::new();
        for n in 0..count {
            let id = self.session(n).await?;
            let prompt = json!({ "prompt": format!("pace {words} {every}") });
            self.post(&format!("/api/v1/sessions/{id}/tasks"), &prompt).await?;
            all.push(id);
        }
        let until = Instant::now() + Duration::from_secs(180);
        for id in &all {
            loop {
                let now = self.get(&format!("/api/v1/sessions/{id}")).await?;
                if now["steps"].as_i64().unwrap_or(0) >= 4 {
                    break;
                }
                anyhow::ensure!(Instant::now() < until, "a session says nothing: {now}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        Ok(all)
    }

    async fn close(&self, all: &[String]) -> anyhow::Result<()> {
        for id in all {
            self.post(&format!("/api/v1/sessions/{id}/close"), &Value::Null).await?;
        }
        let until = Instant::now() + Duration::from_secs(120);
        for id in all {
            while !self.get(&format!("/api/v1/sessions/{id}")).await?["at_work"].is_null() {
                anyhow::ensure!(Instant::now() < until, "a session does not end");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        Ok(())
    }
}

fn private(path: &Path, mode: u32) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

/// What one subscriber heard.
#[derive(Default)]
struct Heard {
    /// From the word to its arrival, in milliseconds.
    after: Vec<f64>,
    steps: u64,
    gaps: u64,
    last: i64,
    /// The number of the first word and of the one that is due, and words that were left out, or came again.
    first: Option<u64>,
    due: u64,
    astray: u64,
    /// How many words its agent says that it wrote.
    written: Option<u64>,
}

impl Heard {
    /// A word of an agent: `NUMBER:TIME`, or `all:COUNT`.
    fn word(&mut self, word: &str, now: f64, is_timed: bool) {
        let Some((number, rest)) = word.split_once(':') else { return };
        if number == "all" {
            self.written = rest.parse().ok();
            return;
        }
        let (Ok(number), Ok(said)) = (number.parse::<u64>(), rest.parse::<f64>()) else { return };
        if self.first.is_some() && number != self.due {
            self.astray += number.saturating_sub(self.due).max(1);
        }
        self.first = self.first.or(Some(number));
        self.due = number + 1;
        if is_timed {
            self.after.push((now - said) / 1e6);
        }
    }

    /// Words that the agent wrote from the first one that was heard on, and how many of them did not come, or came otherwise.
    fn lost(&self) -> anyhow::Result<(u64, u64)> {
        let written = self.written.context("an agent was not heard to its end")?;
        let first = self.first.context("an agent was not heard")?;
        Ok((written.saturating_sub(first), written.abs_diff(self.due) + self.astray + self.gaps))
    }
}

/// Follows a session over one connection, a step at a time: until then, or, if there is an end, until its agent said its last word.
async fn follow(
    to: SocketAddr,
    token: String,
    session: String,
    after: i64,
    until: Instant,
    end: Option<Instant>,
) -> anyhow::Result<Heard> {
    let mut stream = TcpStream::connect(to).await?;
    let path = format!("/api/v1/sessions/{session}/stream?after={after}");
    let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    let mut lines = BufReader::with_capacity(64 << 10, stream).lines();
    let begins = tokio::time::timeout_at(until.into(), lines.next_line()).await??.unwrap_or_default();
    anyhow::ensure!(begins.contains(" 200 "), "nobody may follow: {begins}");
    let mut heard = Heard { last: after, ..Heard::default() };
    let last = end.unwrap_or(until);
    while let Ok(Ok(Some(line))) = tokio::time::timeout_at(last.into(), lines.next_line()).await {
        let Some(data) = line.strip_prefix("data:") else { continue };
        let now = std::time::UNIX_EPOCH.elapsed()?.as_nanos() as f64;
        let is_timed = Instant::now() < until;
        let step: Value = serde_json::from_str(data)?;
        let seq = step["seq"].as_i64().unwrap_or(0);
        heard.gaps += u64::from(seq != heard.last + 1);
        heard.last = seq;
        heard.steps += u64::from(is_timed);
        let words = step["body"]["text"].as_str().unwrap_or_default();
        words.split_whitespace().for_each(|word| heard.word(word, now, is_timed));
        if heard.written.is_some() {
            break;
        }
    }
    Ok(heard)
}

/// The naive way: one read of the database for each step.
async fn read_each(
    to: SocketAddr,
    token: String,
    session: String,
    after: i64,
    until: Instant,
) -> anyhow::Result<Heard> {
    let mut connection = Connection::open(to).await?;
    let mut heard = Heard { last: after, ..Heard::default() };
    while Instant::now() < until {
        let path = format!("/api/v1/sessions/{session}/steps?after={}&limit=1", heard.last);
        let page = connection.call("GET", &path, &token, None).await?;
        match page["items"].as_array().and_then(|items| items.first()) {
            Some(step) => {
                heard.last = step["seq"].as_i64().unwrap_or(0);
                heard.steps += 1;
            }
            // It asks when there is something, as one that is woken would.
            None => tokio::time::sleep(Duration::from_millis(LOAD_EVERY)).await,
        }
    }
    Ok(heard)
}

async fn places(world: &World, all: &[String]) -> anyhow::Result<Vec<i64>> {
    let mut places = Vec::with_capacity(all.len());
    for id in all {
        places.push(world.get(&format!("/api/v1/sessions/{id}")).await?["steps"].as_i64().unwrap_or(0));
    }
    Ok(places)
}

async fn subscribed(world: &World, all: &[String], lasting: Duration) -> anyhow::Result<(Vec<Heard>, f64)> {
    let places = places(world, all).await?;
    let until = Instant::now() + lasting;
    let mut tasks = tokio::task::JoinSet::new();
    let before = processor_time(world.daemon.pid())?;
    for (id, after) in all.iter().zip(places) {
        tasks.spawn(follow(world.daemon.address, world.token.clone(), id.clone(), after, until, None));
    }
    let mut heard = Vec::new();
    while let Some(one) = tasks.join_next().await {
        heard.push(one??);
    }
    Ok((heard, processor_time(world.daemon.pid())? - before))
}

/// What the daemon spent under a load.
struct Spent {
    processor: f64,
    memory: f64,
}

/// The same, and then the sessions are stopped while they are followed to their last word.
async fn loaded(world: &World, all: &[String]) -> anyhow::Result<(Vec<Heard>, Spent)> {
    let places = places(world, all).await?;
    let until = Instant::now() + LASTING;
    let (mut tasks, end) = (tokio::task::JoinSet::new(), Some(until + DRAINING));
    let before = processor_time(world.daemon.pid())?;
    for (id, after) in all.iter().zip(places) {
        tasks.spawn(follow(world.daemon.address, world.token.clone(), id.clone(), after, until, end));
    }
    tokio::time::sleep_until(until.into()).await;
    let processor = processor_time(world.daemon.pid())? - before;
    for id in all {
        world.post(&format!("/api/v1/sessions/{id}/stop"), &Value::Null).await?;
    }
    let mut heard = Vec::new();
    while let Some(one) = tasks.join_next().await {
        heard.push(one??);
    }
    // The most that it had with all of them following, and what ending two hundred sessions took.
    Ok((heard, Spent { processor, memory: world.daemon.peak()? }))
}

fn at_work(
    binary: &Path,
    home: &Path,
    many: &tokio::runtime::Runtime,
) -> anyhow::Result<(Vec<Row>, Vec<String>)> {
    many.block_on(async {
        let (mut rows, mut notes) = (Vec::new(), Vec::new());
        let world = World::new(binary, home).await?;
        eprintln!("sessions: {AT_WORK} at work ...");
        let all = world.speaking(AT_WORK, 1_000_000, WORD_EVERY).await?;
        let mut taken = Vec::new();
        let mut connection = Connection::open(world.daemon.address).await?;
        let queues: Vec<String> = all.iter().take(10).cloned().collect();
        for n in 0..PROMPTS {
            let id = queues.get(n % queues.len()).context("no session")?;
            let from = Instant::now();
            let body = json!({ "prompt": format!("say {n}") });
            connection.call("POST", &format!("/api/v1/sessions/{id}/tasks"), &world.token, Some(&body)).await?;
            taken.push(from.elapsed().as_secs_f64() * 1e3);
        }
        let taken = sorted(taken);
        rows.push(row("a prompt is kept, 50 sessions at work: p95", "ms", p(&taken, 0.95), Bound::Below(20.0)));
        rows.push(row("  the same: p50", "ms", p(&taken, 0.5), Bound::Information));
        let (heard, _) = subscribed(&world, &all, Duration::from_secs(10)).await?;
        let told = sorted(heard.iter().flat_map(|one| one.after.iter().copied()).collect());
        rows.push(row("an agent's word is with who follows: p95", "ms", p(&told, 0.95), Bound::Below(30.0)));
        rows.push(row("  the same: p50", "ms", p(&told, 0.5), Bound::Information));
        world.close(&all).await?;

        eprintln!("sessions: both ways of telling, {COMPARED} at work ...");
        let all = world.speaking(COMPARED, 1_000_000, LOAD_EVERY).await?;
        let before = processor_time(world.daemon.pid())?;
        tokio::time::sleep(LASTING / 2).await;
        let idle = processor_time(world.daemon.pid())? - before;
        let (heard, told) = subscribed(&world, &all, LASTING / 2).await?;
        let steps: u64 = heard.iter().map(|one| one.steps).sum();
        let places = places(&world, &all).await?;
        let until = Instant::now() + LASTING / 2;
        let mut tasks = tokio::task::JoinSet::new();
        let before = processor_time(world.daemon.pid())?;
        for (id, after) in all.iter().zip(places) {
            tasks.spawn(read_each(world.daemon.address, world.token.clone(), id.clone(), after, until));
        }
        let mut read = 0;
        while let Some(one) = tasks.join_next().await {
            read += one??.steps;
        }
        let naive = processor_time(world.daemon.pid())? - before;
        // What the others cost besides changes with time: it is measured before and after them.
        let before = processor_time(world.daemon.pid())?;
        tokio::time::sleep(LASTING / 2).await;
        let idle = (idle + processor_time(world.daemon.pid())? - before) / 2.0;
        let micro = |spent: f64, steps: u64| (spent - idle).max(0.0) * 1e6 / (steps.max(1) as f64);
        rows.push(Row {
            name: "a step told to who follows / read by each: processor".into(),
            unit: "us",
            ours: micro(told, steps),
            reference: Some(micro(naive, read)),
            bound: Bound::RatioAtMost(0.2),
        });
        notes.push(format!(
            "sessions: {steps} steps were told and {read} read one by one; writing them down alone took {idle:.2} s of the processor in {} s",
            (LASTING / 2).as_secs()
        ));
        world.close(&all).await?;

        eprintln!("sessions: {LOAD} at work ...");
        let all = world.speaking(LOAD, 1_000_000, LOAD_EVERY).await?;
        let (heard, spent) = loaded(&world, &all).await?;
        let steps: u64 = heard.iter().map(|one| one.steps).sum();
        let words: usize = heard.iter().map(|one| one.after.len()).sum();
        let (mut written, mut lost) = (0, 0);
        for one in &heard {
            let (all, missing) = one.lost()?;
            (written, lost) = (written + all, lost + missing);
        }
        let told = sorted(heard.iter().flat_map(|one| one.after.iter().copied()).collect());
        rows.push(row("200 sessions, 50 words a second each: lost", "", lost as f64, Bound::AtMost(0.0)));
        let wanted = (LOAD as f64) * LASTING.as_secs_f64() * 1_000.0 / (LOAD_EVERY as f64);
        rows.push(row("  the same: words told", "/s", words as f64 / LASTING.as_secs_f64(), Bound::Information));
        rows.push(row("  the same: most memory of the daemon", "MiB", spent.memory, Bound::Below(400.0)));
        rows.push(row("  the same: from the word to who follows, p95", "ms", p(&told, 0.95), Bound::Information));
        let cores = spent.processor / LASTING.as_secs_f64();
        rows.push(row("  the same: processor of the daemon", "cores", cores, Bound::Information));
        notes.push(format!(
            "sessions: {words} words in {steps} steps of {wanted:.0} that were due; of {written} that agents wrote {lost} were not heard, or \
             not in their place; agents share the machine with the daemon"
        ));
        world.close(&all).await?;
        world.daemon.stop()?;
        Ok((rows, notes))
    })
}
