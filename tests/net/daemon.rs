//! Real agents in sessions of the real daemon: prompted by a person, asked for what they want to do, with a key of the vault that they
//! never have, and a model of the test's own that plays a script (change a file, run a command, commit, say something).

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::acp::{MADE, anthropic, gemini, has, node, openai};
use crate::agents::{SAYS, installed, machine};
use crate::vault::{Daemon, everything};
use crate::world::{EVERYONE, Request, Server, Who, World};

/// How long anything may take here.
const PATIENCE: Duration = Duration::from_secs(180);

pub const ANTHROPIC: (&str, &str) =
    ("ANTHROPIC_API_KEY", "sk-ant-api03-Zm9ydHktdHdvIGlzIHdoYXQgdGhlIG1vZGVsIHNheXMuLi4uLi4x");
pub const OPENAI: (&str, &str) =
    ("OPENAI_API_KEY", "sk-proj-Zm9ydHktdHdvIGlzIHdoYXQgdGhlIG1vZGVsIHNheXMuLi4uLi4x");
pub const GEMINI: (&str, &str) = ("GEMINI_API_KEY", "AIzaZm9ydHktdHdvIGlzIHdoYXQgdGhlIG1vZGVs");

/// Where the agent works, which the script needs and nobody knows before.
type Place = Arc<Mutex<String>>;

/// A daemon of the person, with a worktree, and agents where npm put them.
pub struct Stage<'a> {
    pub world: &'a World,
    pub daemon: Daemon<'a>,
    pub worktree: String,
    pub tree: PathBuf,
}

/// Links to programs in a folder of the person's, as npm makes them; where agents are looked for then.
pub fn programs(world: &World, programs: &[(&str, &str)]) -> String {
    let bin = world.home().join(".npm-global/bin");
    std::fs::create_dir_all(&bin).unwrap();
    for (name, target) in programs {
        std::os::unix::fs::symlink(format!("../lib/node_modules/{target}"), bin.join(name)).unwrap();
    }
    format!("agents.path={}:/usr/local/bin:/usr/bin:/bin", bin.display())
}

impl<'a> Stage<'a> {
    pub fn new(world: &'a World, path: &str) -> Self {
        world.install("palisade-agent");
        let origin = world.home().join("origin");
        std::fs::create_dir(&origin).unwrap();
        if let Who::User(user) = world.who {
            std::os::unix::fs::chown(&origin, Some(user), Some(user)).unwrap();
        }
        git(world, &origin, &["init", "-q", "-b", "main"]);
        git(world, &origin, &["commit", "-q", "--allow-empty", "-m", "first"]);
        let daemon = Daemon::with(world, &["--set", "limits.requests_per_minute=0", "--set", path]);
        let mut stage = Self { world, daemon, worktree: String::new(), tree: PathBuf::new() };
        stage.palisade(&["repo", "add", "demo", origin.to_str().unwrap()]);
        stage.worktree = id(&stage.palisade(&["worktree", "create", "demo", "work"]));
        stage.tree = world.home().join(".local/share/palisade/worktrees").join(&stage.worktree);
        stage
    }

    /// `palisade` as the person types it; its result.
    #[track_caller]
    pub fn palisade(&self, arguments: &[&str]) -> Value {
        self.fed(arguments, "")
    }

    #[track_caller]
    pub fn fed(&self, arguments: &[&str], input: &str) -> Value {
        let said = self.daemon.types(&[&["--json"], arguments].concat(), input).ok();
        let told: Value = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{}", said.out));
        told["result"].clone()
    }

    pub fn keeps(&self, (name, key): (&str, &str)) {
        self.fed(&["secret", "add", name], key);
    }

    #[track_caller]
    pub fn session(&self, options: &[&str]) -> String {
        id(&self.palisade(&[&["session", "new", &self.worktree], options].concat()))
    }

    #[track_caller]
    pub fn asks(&self, session: &str, prompt: &str) -> String {
        id(&self.palisade(&["session", "prompt", session, prompt]))
    }

    /// The task as it is now.
    pub fn task(&self, session: &str, task: &str) -> Value {
        let shown = self.palisade(&["session", "show", session]);
        let tasks = shown["tasks"].as_array().unwrap();
        tasks.iter().find(|one| one["id"] == task).unwrap().clone()
    }

    pub fn approvals(&self, session: &str) -> Vec<Value> {
        self.palisade(&["approval", "list", session]).as_array().unwrap().clone()
    }

    /// Allows what is asked, once each, until the task is over; the kinds of what was asked.
    #[track_caller]
    pub fn allows(&self, session: &str, task: &str) -> (Value, Vec<String>) {
        let (end, mut kinds) = (Instant::now() + PATIENCE, Vec::new());
        loop {
            let now = self.task(session, task);
            if ["done", "failed", "stopped"].contains(&now["state"].as_str().unwrap()) {
                return (now, kinds);
            }
            for one in self.approvals(session) {
                kinds.push(one["asks"]["call"]["kind"].as_str().unwrap_or("none").to_owned());
                self.palisade(&["approval", "allow", session, one["id"].as_str().unwrap()]);
            }
            assert!(Instant::now() < end, "{now} {}", self.daemon.log());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Everything that happened in a session.
    #[track_caller]
    pub fn steps(&self, session: &str) -> Vec<Value> {
        let said = self.daemon.types(&["session", "export", session], "").ok();
        said.out
            .lines()
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

pub fn id(value: &Value) -> String {
    value["id"].as_str().unwrap_or_else(|| panic!("{value}")).to_owned()
}

pub fn git(world: &World, folder: &Path, arguments: &[&str]) -> String {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=Ana", "-c", "user.email=ana@host.example", "-c", "safe.directory=*"]);
    git.args(arguments).env("HOME", world.home()).current_dir(folder);
    if let Who::User(user) = world.who {
        git.uid(user).gid(user);
    }
    let output = git.output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

/// What the agent said in these steps.
pub fn said(steps: &[Value]) -> String {
    steps
        .iter()
        .filter(|step| step["kind"] == "assistant")
        .filter_map(|step| step["body"]["text"].as_str())
        .collect()
}

/// The whole script, in the mode that people get without a word, and a second prompt.
#[track_caller]
fn plays_the_script(stage: &Stage<'_>, agent: &str, server: &Server, key: (&str, &str), field: &str) {
    stage.keeps(key);
    let session = stage.session(&["--agent", agent]);
    let task = stage.asks(&session, "what is the first thing?");
    let (task, kinds) = stage.allows(&session, &task);
    let steps = stage.steps(&session);
    let shown = || serde_json::to_string_pretty(&steps).unwrap();
    assert_eq!(task["state"], "done", "{task} {}", shown());
    // A person was asked before a file was changed and before a command was run.
    assert!(
        kinds.iter().any(|kind| kind == "edit") && kinds.iter().any(|kind| kind == "execute"),
        "{kinds:?} {}",
        shown()
    );
    // It is in the tree, and on the branch in the name of whoever asked.
    assert_eq!(std::fs::read_to_string(stage.tree.join("made.txt")).unwrap(), MADE, "{}", shown());
    let log = stage.palisade(&["worktree", "log", &stage.worktree]);
    assert_eq!(log[0]["subject"], "by the agent", "{log} {}", shown());
    let author = git(stage.world, &stage.tree, &["log", "-1", "--format=%an <%ae> %cn <%ce>"]);
    assert_eq!(author, "A <a@example.org> A <a@example.org>");
    assert_eq!(git(stage.world, &stage.tree, &["status", "--porcelain"]), "");
    // What happened is told.
    assert!(said(&steps).contains(SAYS), "{}", shown());
    // Gemini CLI tells of a call when it asks for it, and when it is over.
    let kinds = ["user", "tool_result", "result", "tool_use"];
    for kind in &kinds[..if agent == "gemini" { 3 } else { 4 }] {
        assert!(steps.iter().any(|step| step["kind"] == *kind), "{kind}: {}", shown());
    }
    // OpenCode tells an editor what it wrote, also one that did not offer to be told.
    let is_fine = |step: &Value| {
        let text = step["body"]["text"].as_str().unwrap_or_default();
        step["kind"] != "error" || (agent == "opencode" && text.ends_with("`fs/write_text_file`"))
    };
    assert!(steps.iter().all(is_fine), "{}", shown());
    // It goes on with the conversation, or says that it cannot.
    let before = server.seen().len();
    let task = stage.asks(&session, "and what is the second thing?");
    let (task, _) = stage.allows(&session, &task);
    assert_eq!(task["state"], "done", "{task} {:?}", stage.steps(&session));
    let all = stage.steps(&session);
    let later = &all[steps.len()..];
    assert!(said(later).contains(SAYS), "{later:?}");
    let anew = later
        .iter()
        .any(|step| step["body"]["text"].as_str().is_some_and(|text| text.contains("begins anew")));
    let is_turn = |request: &&Request| {
        let body = String::from_utf8_lossy(&request.body);
        request.head.starts_with("POST ") && body.contains("the second thing?")
    };
    let seen = server.seen();
    let turns: Vec<&Request> = seen[before..].iter().filter(is_turn).collect();
    assert!(!turns.is_empty());
    let remembers =
        turns.iter().any(|request| String::from_utf8_lossy(&request.body).contains("the first thing?"));
    assert_eq!(remembers, !anew, "{later:?}");
    assert!(!anew, "all of the shipped ones can: {later:?}");
    // The key went to the model, and was nowhere else.
    let (name, key) = key;
    let asked: Vec<&str> = seen
        .iter()
        .filter(|request| request.head.starts_with("POST "))
        .filter_map(|request| request.field(field))
        .collect();
    assert!(
        !asked.is_empty() && asked.iter().all(|sent| sent.strip_prefix("Bearer ").unwrap_or(sent) == key),
        "{asked:?}"
    );
    if agent != "palisade" {
        let inside = std::fs::read_to_string(stage.tree.join("seen.txt")).unwrap();
        let words: Vec<&str> =
            inside.lines().filter_map(|line| line.strip_prefix(&format!("{name}="))).collect();
        assert!(!words.is_empty() && words.iter().all(|word| *word != key), "{inside}");
    }
    assert!(!serde_json::to_string(&all).unwrap().contains(key));
    assert!(!stage.daemon.log().contains(key));
    let kept = everything(&stage.world.home());
    assert!(
        kept.len() > 10_000 && !kept.windows(key.len()).any(|part| part == key.as_bytes()),
        "it is on the disk"
    );
    assert_eq!(stage.palisade(&["ledger", "verify"])["verdict"], "intact");
}

/// One agent, as both users.
fn through_the_daemon(
    agent: &str,
    key: (&'static str, &'static str),
    field: &str,
    hosts: &[&str],
    links: &[(&str, &str)],
    model: fn(&Request, &str, &str) -> Vec<u8>,
) {
    for who in EVERYONE {
        let world = World::new(who);
        if let Some(agents) = (!links.is_empty()).then(|| installed().unwrap()) {
            world.lends(&agents, ".npm-global/lib");
        }
        let place = Place::default();
        let at = Arc::clone(&place);
        let answers = move |request: &Request| model(request, key.0, &at.lock().unwrap().clone());
        let server = world.answering(443, hosts, Arc::new(answers));
        let path = programs(&world, links);
        let stage = Stage::new(&world, &path);
        *place.lock().unwrap() = stage.tree.display().to_string();
        plays_the_script(&stage, agent, &server, key, field);
    }
}

#[test]
fn ses_14_claude_code_through_the_daemon() {
    if installed().filter(|agents| has(agents, &node())).is_none() {
        return;
    }
    let adapter = "@agentclientprotocol/claude-agent-acp/dist/index.js";
    let hosts = ["api.anthropic.com", "platform.claude.com"];
    through_the_daemon(
        "claude",
        ANTHROPIC,
        "x-api-key",
        &hosts,
        &[("node", &node()), ("claude-agent-acp", adapter)],
        anthropic,
    );
}

#[test]
fn ses_14_codex_through_the_daemon() {
    let program = codex();
    if installed().filter(|agents| has(agents, &program)).is_none() {
        return;
    }
    let hosts = ["api.openai.com", "chatgpt.com"];
    through_the_daemon(
        "codex",
        OPENAI,
        "authorization",
        &hosts,
        &[("codex-acp", &program)],
        |request, key, _| openai(request, key),
    );
}

#[test]
fn ses_14_gemini_through_the_daemon() {
    if installed().filter(|agents| has(agents, &node())).is_none() {
        return;
    }
    let links = [("node", node()), ("gemini", "@google/gemini-cli/bundle/gemini.js".to_owned())];
    let links = links.each_ref().map(|(name, target)| (*name, target.as_str()));
    through_the_daemon(
        "gemini",
        GEMINI,
        "x-goog-api-key",
        &["generativelanguage.googleapis.com"],
        &links,
        gemini,
    );
}

#[test]
fn ses_14_opencode_through_the_daemon() {
    let program = format!("opencode-linux-{}/bin/opencode", machine().0);
    if installed().filter(|agents| has(agents, &program)).is_none() {
        return;
    }
    through_the_daemon(
        "opencode",
        ANTHROPIC,
        "x-api-key",
        &["api.anthropic.com"],
        &[("opencode", &program)],
        anthropic,
    );
}

#[test]
fn ses_14_the_built_in_agent_through_the_daemon() {
    through_the_daemon("palisade", ANTHROPIC, "x-api-key", &["api.anthropic.com"], &[], anthropic);
}

fn codex() -> String {
    format!("@zed-industries/codex-acp-linux-{}/bin/codex-acp", machine().0)
}
