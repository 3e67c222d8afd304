//! Starts `palisade run` for the daemon: a command -> what it said, from inside a sandbox.
//!
//! Invariants: the environment is made here and holds nothing of the daemon's; what is kept of the output is bounded; a
//! run ends with the task that waits for it. The receipts and the ledger of these runs are in the daemon's data
//! directory, below `runs`.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use access::{Principal, SessionFacts, Via};
use serde_json::Value;
use store::StoreError;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use zeroize::Zeroizing;

use super::frames;
use super::origin::Way;
use super::ssh;

/// How long one run may take.
const PATIENCE: Duration = Duration::from_mins(30);
/// How long looking for changes may take.
const LOOKING: Duration = Duration::from_secs(20);
/// Where others than its creator have what a session keeps for them.
const OTHERS: &str = "others";
/// What is made for one run and goes with it, by how its name begins.
const SIGNING: &str = "s-";
const RULES: &str = "rules-";
/// By which the launcher knows where further patterns are of what it masks.
const PATTERNS: &str = "PALISADE_PATTERNS";
/// How much is kept of what it says.
const MOST_TOLD: u64 = 4 << 20;

/// The launcher, and where its runs keep their state.
#[derive(Debug)]
pub(crate) struct Launcher {
    program: PathBuf,
    state: PathBuf,
    /// Where programs of agents are looked for.
    path: String,
    /// Files that say which keys hosts have.
    known_hosts: Vec<PathBuf>,
    /// Further patterns of what is masked.
    patterns: Option<PathBuf>,
}

/// What a run said.
struct Said {
    ok: bool,
    out: String,
    err: String,
}

impl Launcher {
    pub(crate) fn new(
        program: PathBuf,
        data: &Path,
        path: String,
        known_hosts: Vec<PathBuf>,
        patterns: Option<PathBuf>,
    ) -> Self {
        // Without links, as a sandbox shows them.
        let folders = path.split(':').filter(|folder| folder.starts_with('/'));
        let folders = folders.map(|folder| {
            let real = Path::new(folder).canonicalize();
            real.map_or_else(|_| folder.to_owned(), |real| real.to_string_lossy().into_owned())
        });
        let path = folders.collect::<Vec<_>>().join(":");
        Self { program, state: data.join("runs"), path, known_hosts, patterns }
    }

    /// Removes what runs left behind that did not come to their end; while nobody runs anything.
    pub(super) fn sweep(&self) {
        for entry in std::fs::read_dir(&self.state).into_iter().flatten().flatten() {
            let (name, path) = (entry.file_name(), entry.path());
            let begins = |with: &str| name.as_encoded_bytes().starts_with(with.as_bytes());
            let removed = match (begins(SIGNING), begins(RULES)) {
                (true, _) => std::fs::remove_dir_all(path),
                (_, true) => std::fs::remove_file(path),
                _ => Ok(()),
            };
            if let Err(error) = removed {
                tracing::warn!(%error, "what a run left behind is still there");
            }
        }
    }

    /// What an origin has, as git lists it.
    pub(super) async fn listed(&self, folder: &Path, way: &Way) -> Result<String, StoreError> {
        let rest = ["ls-remote", "--symref", "--", &way.address, "HEAD", "refs/heads/*"];
        let said = self.git(folder, way, &[], &rest).await?;
        if said.ok { Ok(said.out) } else { Err(refused(&said.err, "fetched")) }
    }

    /// Fetches every branch below `to`; the run in whose place they lie then.
    pub(super) async fn fetched(&self, folder: &Path, way: &Way, to: &str) -> Result<String, StoreError> {
        let branches = format!("+refs/heads/*:refs/heads/{to}/*");
        let fetch = ["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance"];
        let rest = [&fetch[..], &["--recurse-submodules=no", "--", &way.address, &branches]].concat();
        let said = self.git(folder, way, &["--json"], &rest).await?;
        let told: Value = serde_json::from_str(&said.out).unwrap_or_default();
        let result = told.get("result").unwrap_or(&Value::Null);
        let why = result.pointer("/commits/refused/why").and_then(Value::as_str);
        match (said.ok, why, result.get("run").and_then(Value::as_str)) {
            (true, None, Some(run)) if is_run(run) => Ok(run.to_owned()),
            (true, Some(why), _) => Err(StoreError::Unusable(format!("what was fetched was refused: {why}"))),
            _ => Err(refused(&said.err, "fetched")),
        }
    }

    /// Pushes one commit to one branch there, forwards only.
    pub(super) async fn pushed(
        &self,
        folder: &Path,
        way: &Way,
        commit: &str,
        to: &str,
    ) -> Result<(), StoreError> {
        let branch = format!("{commit}:refs/heads/{to}");
        let push = ["push", "--porcelain", "--no-verify", "--no-follow-tags", "--no-signed"];
        let rest = [&push[..], &["--recurse-submodules=no", "--", &way.address, &branch]].concat();
        let said = self.git(folder, way, &[], &rest).await?;
        match said.ok {
            true => Ok(()),
            false => Err(rejected(&said, to)),
        }
    }

    /// What git says of the tree in a folder that an agent had, from inside: whether something is in no commit.
    pub(super) async fn is_dirty(&self, tree: &Path) -> Option<bool> {
        let status = ["status", "--porcelain", "-z", "--untracked-files=normal", "--ignore-submodules=all"];
        let command = [&["git", "--no-optional-locks", "-c", "core.fsmonitor=false"][..], &status].concat();
        let options = ["--overlay".to_owned(), "--offline".to_owned()];
        let said = tokio::time::timeout(LOOKING, self.run(tree, &options, &command, None)).await;
        match said {
            Ok(Ok(said)) if said.ok => Some(!said.out.is_empty()),
            Ok(Ok(said)) => {
                tracing::warn!(
                    why = said.err.lines().last().unwrap_or_default(),
                    "whether a tree has changes cannot be told"
                );
                None
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "whether a tree has changes cannot be told");
                None
            }
            Err(_) => None,
        }
    }

    /// Runs git on the way to an origin.
    async fn git(
        &self,
        folder: &Path,
        way: &Way,
        options: &[&str],
        rest: &[&str],
    ) -> Result<Said, StoreError> {
        let mut all: Vec<String> = options.iter().map(|&one| one.to_owned()).collect();
        all.extend(way.options.iter().cloned());
        // The launcher reads rules from a file; it goes with this.
        let rules = way.rules.as_deref().map(|rules| self.written(rules)).transpose()?;
        if let Some(rules) = &rules {
            all.extend(["--rules".to_owned(), rules.path().display().to_string()]);
        }
        let mut settings: Vec<String> = way.settings.clone();
        // Whoever signs does so for as long as this runs.
        let signs = match &way.ssh {
            Some(signed) => {
                super::private(&self.state)?;
                let name: String = model::RequestId::random().to_string().chars().rev().take(8).collect();
                let folder = self.state.join(format!("{SIGNING}{name}"));
                let holder = ssh::Holder::of(signed, &self.known_hosts, folder).await?;
                all.extend(["--ro".to_owned(), holder.hosts().display().to_string()]);
                all.extend(["--rw".to_owned(), holder.socket().display().to_string()]);
                settings.extend(["-c".to_owned(), holder.setting()]);
                Some(holder)
            }
            None => None,
        };
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let command = [&["git"][..], &settings, rest].concat();
        let said = self.run(folder, &all, &command, way.token.as_ref()).await;
        drop(signs);
        if let (Ok(Said { ok: false, err, .. }), Some(signed)) = (&said, &way.ssh)
            && let Some(why) = ssh::refused(err, signed, &self.known_hosts)
        {
            return Err(why);
        }
        said
    }

    fn written(&self, rules: &str) -> Result<Written, StoreError> {
        super::private(&self.state)?;
        let file = self.state.join(format!("{RULES}{}.toml", model::RequestId::random()));
        std::fs::write(&file, rules)
            .map_err(|error| StoreError::Unusable(format!("the daemon cannot write its rules: {error}")))?;
        Ok(Written(file))
    }

    /// The launcher, with an environment made for it and its state in a directory of the caller's choice.
    pub(crate) fn command(&self, state: &Path) -> Result<Command, StoreError> {
        let mut run = Command::new(&self.program);
        run.env_clear().envs([("PATH", "/usr/local/bin:/usr/bin:/bin"), ("LC_ALL", "C")]);
        for (name, place) in [
            ("HOME", ""),
            ("XDG_STATE_HOME", "state"),
            ("XDG_CONFIG_HOME", "config"),
            ("XDG_DATA_HOME", "data"),
        ] {
            run.env(name, state.join(place));
        }
        // Of the launcher, not of what it runs: it passes none of its own variables on.
        run.envs(self.patterns.iter().map(|file| (PATTERNS, file)));
        super::private(state)?;
        Ok(run)
    }

    /// The same, for an agent.
    pub(crate) fn for_agent(&self, state: &Path) -> Result<Command, StoreError> {
        let mut run = self.command(state)?;
        run.env("PATH", &self.path);
        Ok(run)
    }

    /// Where the runs of something keep their state.
    pub(crate) fn state_of(&self, name: &str) -> PathBuf {
        self.state.join("sessions").join(name)
    }

    /// Where the runs of a session keep their state that somebody asked for. Each person's are apart: what an agent was given, and
    /// what it kept in its home, is for tasks of the same person.
    ///
    /// What is asked by a Pass is apart from what its person asks: an agent that has a part of their authority leaves nothing that an
    /// agent with all of it would find.
    pub(crate) fn state_for(&self, session: &SessionFacts, who: &Principal) -> PathBuf {
        let own = self.state_of(&session.id.to_string());
        match who.via() {
            Via::Pass(_) => {
                let mark = who.mark();
                let digest = mark.rsplit('#').next().unwrap_or_default();
                own.join(OTHERS).join(format!("pass-{}", digest.get(..32).unwrap_or_default()))
            }
            Via::Login(_) | Via::Key(_) if who.user() == session.creator => own,
            Via::Login(_) | Via::Key(_) => own.join(OTHERS).join(who.user().to_string()),
        }
    }

    /// Where a run of a session keeps its state; one that left nothing is nowhere in particular.
    pub(crate) fn state_with(&self, session: &SessionFacts, run: &str) -> PathBuf {
        let name = session.id.to_string();
        let keeps = |state: &PathBuf| is_run(run) && state.join("state/palisade/runs").join(run).is_dir();
        self.states_of(&name).into_iter().find(keeps).unwrap_or_else(|| self.state_of(&name))
    }

    /// All places where runs of a session keep their state: its creator's, and those of others who asked there.
    pub(crate) fn states_of(&self, name: &str) -> Vec<PathBuf> {
        let own = self.state_of(name);
        let others = std::fs::read_dir(own.join(OTHERS)).into_iter().flatten().flatten();
        let others: Vec<PathBuf> = others.map(|entry| entry.path()).collect();
        [vec![own], others].concat()
    }

    /// A program of an agent, where those are looked for.
    pub(crate) fn found(&self, name: &str) -> Option<PathBuf> {
        let is_program = |path: &PathBuf| {
            let found = std::fs::metadata(path);
            found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        };
        self.path.split(':').map(|folder| Path::new(folder).join(name)).find(is_program)
    }

    /// Another program of the same package.
    pub(crate) fn beside(&self, name: &str) -> Option<PathBuf> {
        let program = self.program.parent()?.join(name);
        program.is_file().then_some(program)
    }

    async fn run(
        &self,
        folder: &Path,
        options: &[String],
        command: &[&str],
        token: Option<&Zeroizing<String>>,
    ) -> Result<Said, StoreError> {
        let mut run = self.command(&self.state)?;
        run.arg("run").args(options).arg("--").args(command).current_dir(folder).kill_on_drop(true);
        run.stdin(if token.is_some() { Stdio::piped() } else { Stdio::null() });
        run.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = run.spawn().map_err(|error| {
            StoreError::Unusable(format!("`palisade`, which makes sandboxes, could not be started: {error}"))
        })?;
        let (to, out, err) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let lends = async {
            // Nothing comes behind it: the command has an input that is over.
            if let Some(mut to) = to {
                frames::say(&mut to, token).await?;
            }
            Ok::<_, std::io::Error>(())
        };
        let all = async { tokio::join!(bounded(out), bounded(err), child.wait(), lends) };
        let Ok((out, err, status, lent)) = tokio::time::timeout(PATIENCE, all).await else {
            return Err(StoreError::Unusable("it took longer than half an hour and was ended".into()));
        };
        lent.map_err(|error| {
            StoreError::Unusable(format!("what makes sandboxes did not take the credential: {error}"))
        })?;
        let ok = status.is_ok_and(|status| status.success());
        Ok(Said { ok, out, err })
    }
}

/// As much as is kept; the rest is read and dropped, so that nobody waits for us.
async fn bounded(from: Option<impl AsyncRead + Unpin>) -> String {
    let Some(mut from) = from else { return String::new() };
    let mut kept = Vec::new();
    let _ = (&mut from).take(MOST_TOLD).read_to_end(&mut kept).await;
    let _ = tokio::io::copy(&mut from, &mut tokio::io::sink()).await;
    String::from_utf8_lossy(&kept).into_owned()
}

/// A file that goes when nobody needs it any more.
struct Written(PathBuf);

impl Written {
    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0) {
            tracing::warn!(%error, "the rules of a run that is over are still there");
        }
    }
}

/// The last thing that was said, as it can be shown.
fn refused(err: &str, done: &str) -> StoreError {
    let asks = ["could not read Username", "Authentication failed", "terminal prompts disabled"];
    if asks.iter().any(|text| err.contains(text)) {
        return StoreError::Unusable(format!(
            "it could not be {done}: the origin asks for a credential, or does not take the one that it got; keep one with \
             `palisade secret add NAME --host HOST`, and name it with `--secret` where the repository is registered"
        ));
    }
    // What git says behind that is the same for every reason.
    let err = err.split("fatal: Could not read from remote").next().unwrap_or_default();
    let line = err.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("nothing was said");
    StoreError::Unusable(format!("it could not be {done}: {}", shown(line)))
}

fn shown(line: &str) -> String {
    line.chars().take(300).map(|c| if c.is_control() { '·' } else { c }).collect()
}

/// Why a push was not taken, by the line that git has for the one branch.
fn rejected(said: &Said, to: &str) -> StoreError {
    let line = said.out.lines().find_map(|line| line.strip_prefix("!\t")).unwrap_or_default();
    let why = line.rsplit('\t').next().unwrap_or_default();
    if ["(fetch first)", "(non-fast-forward)", "(stale info)"].iter().any(|end| why.contains(end)) {
        return StoreError::Unusable(format!(
            "`{to}` at the origin has commits that this branch does not have, and nothing there is overwritten; fetch the \
             repository and join them in the worktree, or push to another branch with `--to`"
        ));
    }
    match why.is_empty() {
        true => refused(&said.err, "pushed"),
        false => StoreError::Unusable(format!("the origin did not take `{to}`: {}", shown(why))),
    }
}

fn is_run(text: &str) -> bool {
    text.strip_prefix("run_")
        .is_some_and(|rest| rest.len() == 32 && rest.bytes().all(|b| b.is_ascii_hexdigit()))
}
