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

/// A document of the operator's own, beside the configuration.
pub fn document(world: &World, name: &str, text: &str) {
    let config = world.home().join(".config/palisade");
    world.keep(&config.join("agents").join(format!("{name}.toml")), text);
    std::fs::set_permissions(&config, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
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
    assert!(steps.iter().all(|step| step["kind"] != "error"), "{}", shown());
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
    assert!(remembers, "by itself, or because it was given what was said before: {later:?}");
    let told = |step: &Value| {
        step["body"]["text"].as_str().is_some_and(|text| text.contains("with what was said before as text"))
    };
    assert_eq!(later.iter().any(told), anew, "{later:?}");
    // Gemini CLI offers to go on, and then does not find what it kept.
    assert!(!anew || agent == "gemini", "{later:?}");
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

pub fn codex() -> String {
    format!("@zed-industries/codex-acp-linux-{}/bin/codex-acp", machine().0)
}

/// SES-14: what is there and what is missing is told with what to do next; `auto` takes what is ready, and an agent that is not there is
/// an error.
#[test]
fn ses_14_the_doctor_says_what_is_ready_and_auto_takes_it() {
    let program = codex();
    let Some(agents) = installed().filter(|agents| has(agents, &program) && has(agents, &node())) else {
        return;
    };
    for who in EVERYONE {
        let world = World::new(who);
        world.lends(&agents, ".npm-global/lib");
        let adapter = "@agentclientprotocol/claude-agent-acp/dist/index.js";
        let gemini = "@google/gemini-cli/bundle/gemini.js";
        let links =
            [("node", &*node()), ("claude-agent-acp", adapter), ("codex-acp", &program), ("gemini", gemini)];
        let path = programs(&world, &links);
        let gateway = "based_on = \"claude\"\ntitle = \"Claude Code at our own model\"\npresets = []\n\
                       [environment]\nANTHROPIC_BASE_URL = \"https://site.test\"\n\
                       [[secret]]\nname = \"GATEWAY_KEY\"\nhosts = [\"site.test\"]\n";
        document(&world, "claude-here", gateway);
        let stage = Stage::new(&world, &path);
        let health = |name: &str| stage.palisade(&["agent", "doctor", name])[0].clone();
        let claude = health("claude");
        assert_eq!((&claude["installed"], &claude["ready"]), (&true.into(), &false.into()), "{claude}");
        assert!(claude["version"].as_str().is_some_and(|version| version.starts_with("0.99")), "{claude}");
        assert!(
            claude["next"][0].as_str().unwrap().contains("palisade secret add ANTHROPIC_API_KEY"),
            "{claude}"
        );
        assert!(claude["hosts"].to_string().contains("api.anthropic.com"), "{claude}");
        let opencode = health("opencode");
        assert_eq!(
            (&opencode["installed"], &opencode["version"]),
            (&false.into(), &Value::Null),
            "{opencode}"
        );
        assert!(opencode["next"][0].as_str().unwrap().contains("install `opencode`"), "{opencode}");
        let here = health("claude-here");
        assert_eq!(here["hosts"], serde_json::json!(["site.test"]), "{here}");
        for name in ["codex", "gemini", "palisade"] {
            let told = health(name);
            assert!(
                told["version"]
                    .as_str()
                    .is_some_and(|version| version.starts_with(|one: char| one.is_ascii_digit())),
                "{told}"
            );
        }
        let text = stage.daemon.types(&["agent", "doctor"], "").ok().out;
        assert!(text.contains("claude (Claude Code): not ready") && text.contains("is not there"), "{text}");
        let refused = |options: &[&str], told: &str| {
            let said = stage.daemon.types(&[&["session", "new", &stage.worktree], options].concat(), "");
            assert!(
                said.code != Some(0) && said.err.contains(told),
                "{options:?}: {} {}",
                said.out,
                said.err
            );
        };
        refused(&["--agent", "auto"], "`palisade agent doctor` tells what each lacks");
        refused(&["--agent", "opencode"], "`opencode`, by which `opencode` is started, is not installed");
        refused(&["--agent", "nobody"], "there is no agent `nobody`");
        refused(&["--agent", "codex", "--mode", "yolo"], "`yolo` is no permission mode");
        refused(&["--agent", "codex", "--mode", "on-failure"], "`codex` has no mode `on-failure`");
        stage.keeps(OPENAI);
        assert_eq!(health("codex")["ready"], true, "{}", health("codex"));
        let said = stage.daemon.types(&["session", "new", &stage.worktree, "--agent", "auto"], "").ok();
        said.tells("`auto` is `codex` here");
        // Without a secret the task says what is missing.
        let session = stage.session(&["--agent", "gemini"]);
        let task = stage.asks(&session, "anything");
        let (task, _) = stage.allows(&session, &task);
        assert_eq!(task["state"], "failed", "{task}");
        let steps = serde_json::to_string(&stage.steps(&session)).unwrap();
        assert!(steps.contains("palisade secret add GEMINI_API_KEY"), "{steps}");
    }
}

/// SES-14: an operator's own document, based on a shipped one, sends Claude Code to a model elsewhere, and nowhere else.
#[test]
fn ses_14_an_agent_can_be_sent_to_a_model_elsewhere() {
    let Some(agents) = installed().filter(|agents| has(agents, &node())) else { return };
    let world = World::new(Who::User(24_001));
    world.lends(&agents, ".npm-global/lib");
    let server =
        world.answering(443, &["site.test", "api.anthropic.com"], Arc::new(crate::agents::anthropic));
    let adapter = "@agentclientprotocol/claude-agent-acp/dist/index.js";
    let path = programs(&world, &[("node", &node()), ("claude-agent-acp", adapter)]);
    let here = "based_on = \"claude\"\ntitle = \"Claude Code at our own model\"\npresets = []\n\
                    [environment]\nANTHROPIC_BASE_URL = \"https://site.test\"\n\
                    [[secret]]\nname = \"ANTHROPIC_API_KEY\"\nhosts = [\"site.test\"]\n";
    document(&world, "claude-here", here);
    let stage = Stage::new(&world, &path);
    stage.keeps(ANTHROPIC);
    let session = stage.session(&["--agent", "claude-here"]);
    let task = stage.asks(&session, "what is it?");
    let (task, _) = stage.allows(&session, &task);
    let steps = stage.steps(&session);
    assert_eq!(task["state"], "done", "{task} {steps:?}");
    assert!(said(&steps).contains(SAYS));
    let hosts: Vec<String> =
        server.seen().iter().filter_map(|one| one.field("host").map(str::to_owned)).collect();
    assert!(!hosts.is_empty() && hosts.iter().all(|host| host == "site.test"), "{hosts:?}");
    let keys: Vec<_> =
        server.seen().iter().filter_map(|one| one.field("x-api-key").map(str::to_owned)).collect();
    assert!(!keys.is_empty() && keys.iter().all(|key| key == ANTHROPIC.1), "{keys:?}");
}

/// A model for Codex that has it run one command for each prompt.
fn asks_for_a_command(request: &Request) -> Vec<u8> {
    let body = String::from_utf8_lossy(&request.body);
    let count = |what: &str| body.matches(what).count();
    let done = count("_call_output\"");
    if request.path() != "/v1/responses"
        || !request.head.starts_with("POST ")
        || count("\"text\":\"round ") <= done
    {
        return crate::agents::openai(request);
    }
    let (id, arguments) = (format!("call_{done}"), serde_json::json!({ "cmd": "touch ran" }).to_string());
    let item = serde_json::json!({ "type": "function_call", "id": id, "call_id": id, "name": "exec_command", "arguments": arguments });
    let usage = r#"{"input_tokens":1,"input_tokens_details":null,"output_tokens":1,"output_tokens_details":null,"total_tokens":2}"#;
    crate::agents::streamed(&[
        ("response.created", r#""response":{"id":"resp_1"}"#.to_owned()),
        ("response.output_item.done", format!(r#""item":{item}"#)),
        ("response.completed", format!(r#""response":{{"id":"resp_1","usage":{usage}}}"#)),
    ])
}

/// Every file below a folder with when it was changed, but for what is below `without`.
fn changed_files(
    folder: &Path,
    without: &[&Path],
) -> std::collections::BTreeMap<PathBuf, std::time::SystemTime> {
    let mut all = std::collections::BTreeMap::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, about) = (entry.path(), entry.metadata().unwrap());
        if without.iter().any(|other| path.starts_with(other)) {
            continue;
        }
        match about.is_dir() {
            true => all.extend(changed_files(&path, without)),
            false => drop(all.insert(path, about.modified().unwrap())),
        }
    }
    all
}

/// SES-15: sessions of Codex with different modes at once: each keeps its own, however they come, and none writes outside its own home.
#[test]
fn ses_15_sessions_of_codex_with_different_modes_keep_each_its_own() {
    let program = codex();
    let Some(agents) = installed().filter(|agents| has(agents, &program)) else { return };
    let world = World::new(Who::User(24_001));
    world.lends(&agents, ".npm-global/lib");
    let server = world.answering(443, &["api.openai.com", "chatgpt.com"], Arc::new(asks_for_a_command));
    let stage = Stage::new(&world, &programs(&world, &[("codex-acp", &program)]));
    stage.keeps(OPENAI);
    let modes = ["default", "bypassPermissions", "plan"];
    let other = id(&stage.palisade(&["worktree", "create", "demo", "other"]));
    let third = id(&stage.palisade(&["worktree", "create", "demo", "third"]));
    let worktrees = [stage.worktree.clone(), other, third];
    let sessions: Vec<String> = modes
        .iter()
        .zip(&worktrees)
        .map(
            |(mode, tree)| id(&stage.palisade(&["session", "new", tree, "--agent", "codex", "--mode", mode])),
        )
        .collect();
    let data = world.home().join(".local/share/palisade");
    // The person's home without what the daemon keeps, and of that the runs of everybody else.
    let homes: Vec<PathBuf> = sessions.iter().map(|one| data.join("runs/sessions").join(one)).collect();
    // The daemon looks at trees before and after a task; what it records of that is its own.
    let record = data.join("runs/state/palisade");
    let homes: Vec<&Path> = homes.iter().chain([&record]).map(PathBuf::as_path).collect();
    let elsewhere = || (changed_files(&world.home(), &[&data]), changed_files(&data.join("runs"), &homes));
    let before = elsewhere();
    for round in 0..tests::scale(100, 3) {
        // In another order each time, all at once.
        let order: Vec<usize> = (0..modes.len()).map(|at| (at + round) % modes.len()).collect();
        let tasks: Vec<(usize, String)> =
            order.iter().map(|at| (*at, stage.asks(&sessions[*at], &format!("round {round}")))).collect();
        for (at, task) in tasks {
            let (over, kinds) = stage.allows(&sessions[at], &task);
            let shown = || format!("{round} {} {over} {:?}", modes[at], stage.steps(&sessions[at]));
            // Only the one that asks asked; the one that plans was refused by its own sandbox or by us, and changed nothing.
            assert_eq!(!kinds.is_empty(), modes[at] == "default", "{}", shown());
            // What is refused to Codex ends its turn.
            let ends = if modes[at] == "plan" { "failed" } else { "done" };
            assert_eq!(over["state"], ends, "{}", shown());
            assert_eq!(
                shown().contains("the mode of this session refuses this"),
                modes[at] == "plan",
                "{}",
                shown()
            );
            let ran = data.join("worktrees").join(&worktrees[at]).join("ran");
            assert_eq!(ran.exists(), modes[at] != "plan", "{}", shown());
            drop(std::fs::remove_file(ran));
        }
    }
    assert_eq!(elsewhere(), before, "nothing but their own homes changed");
    // Each home is one session's.
    for session in &sessions {
        let home = everything(&data.join("runs/sessions").join(session));
        let has = |text: &str| home.windows(text.len()).any(|part| part == text.as_bytes());
        assert!(sessions.iter().filter(|other| *other != session).all(|other| !has(other)), "{session}");
    }
    assert!(!server.seen().is_empty());
}

/// SES-17: the model that a session names is the one that the provider is asked for, and a step says which it was.
#[test]
fn ses_17_the_model_of_a_session_reaches_the_provider_and_is_told() {
    let program = format!("opencode-linux-{}/bin/opencode", machine().0);
    let Some(agents) = installed().filter(|agents| has(agents, &program)) else { return };
    let world = World::new(Who::User(24_001));
    world.lends(&agents, ".npm-global/lib");
    let server = world.answering(443, &["api.anthropic.com"], Arc::new(crate::agents::anthropic));
    let stage = Stage::new(&world, &programs(&world, &[("opencode", &program)]));
    stage.keeps(ANTHROPIC);
    for model in ["claude-haiku-4-5", "claude-sonnet-4-5"] {
        let before = server.seen().len();
        let named = format!("anthropic/{model}");
        let session = stage.session(&["--agent", "opencode", "--model", &named]);
        let task = stage.asks(&session, "what is it?");
        let (task, _) = stage.allows(&session, &task);
        let steps = stage.steps(&session);
        assert_eq!(task["state"], "done", "{task} {steps:?}");
        let told: Vec<&str> = steps.iter().filter_map(|step| step["body"]["model"].as_str()).collect();
        assert_eq!(told, [named.as_str()], "{steps:?}");
        let seen = server.seen();
        let turns =
            seen[before..].iter().filter(|one| String::from_utf8_lossy(&one.body).contains("what is it?"));
        let asked: Vec<String> = turns
            .map(|one| {
                serde_json::from_slice::<Value>(&one.body).unwrap()["model"].as_str().unwrap().to_owned()
            })
            .collect();
        assert!(asked.iter().any(|one| one == model), "{asked:?}");
    }
    let session = stage.session(&["--agent", "opencode", "--model", "anthropic/no-such-model"]);
    let task = stage.asks(&session, "what is it?");
    assert_eq!(stage.allows(&session, &task).0["state"], "failed");
}
