//! One person against what belongs to another: by every route with the other's names, by lists and streams, and from inside a
//! sandbox by paths, processes, sockets and shared places.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use api::{
    AddSecretRequest, CreateKeyRequest, CreateSessionRequest, Hidden, LedgerFilter, SessionFilter,
    WorktreeFilter,
};
use tests::{Host, Person};

use crate::access::without_request_id;
use crate::calls::{described, new_import, new_pass, new_session};
use crate::sessions::{quiet, said, steps, until};

/// What nobody but its owner may see.
const MARK: &str = "private-mark-of-bo-7731";

/// Everything of a person, by the words of the API's paths.
struct Things {
    ids: BTreeMap<&'static str, String>,
}

fn shell(worktree: &str) -> CreateSessionRequest {
    CreateSessionRequest { agent: "command".into(), command: vec!["sh".into()], ..new_session(worktree) }
}

fn secret(name: &str, owner: Option<String>) -> AddSecretRequest {
    AddSecretRequest {
        name: name.into(),
        value: Hidden(MARK.into()),
        owner,
        hosts: vec!["api.example.org".into()],
        expires: None,
        replace: false,
    }
}

impl Things {
    /// Of somebody who has one of each, in a worktree that nobody else may know of; a task is at work, and one asks.
    fn of(host: &Host, bo: &Person) -> Self {
        let worktree = host.tree(bo, "theirs", "none").id;
        let asking = bo.client.create_session(&new_session(&worktree)).unwrap().id;
        let task = bo.client.prompt_session(&asking, "ask once").unwrap().id;
        let one = until("it is asked", || bo.client.approvals(&asking, false).unwrap().items.pop());
        bo.client.allow_approval(&asking, &one.id, &crate::calls::allow(&one, Some("session"))).unwrap();
        let consent = until("the consent", || bo.client.consents(&asking).unwrap().items.pop()).id;
        until("it is over", || bo.client.session(&asking).unwrap().at_work.is_none().then_some(()));
        bo.client.prompt_session(&asking, "ask twice").unwrap();
        let approval = until("it is asked", || bo.client.approvals(&asking, false).unwrap().items.pop()).id;
        // It stands still by now: nothing more happens by itself.
        until("it is held", || {
            let tasks = bo.client.tasks(&asking, 0).unwrap().items;
            let noted =
                steps(bo, &asking).iter().any(|step| step.body.to_string().contains("nobody looks on"));
            (noted && tasks.iter().any(|task| task.state == "held")).then_some(())
        });
        let key = CreateKeyRequest { label: MARK.into(), scope: "runs:read".into(), days: None };
        let key = bo.client.create_key(&key).unwrap().key.id;
        let pass = bo.client.mint_pass(&new_pass()).unwrap().pass.id;
        bo.client.add_secret(&secret("BO_TOKEN", None)).unwrap();
        bo.client.add_secret(&secret("TREE_TOKEN", Some(worktree.clone()))).unwrap();
        let ids = BTreeMap::from([
            ("worktree", worktree),
            ("session", asking),
            ("task", task),
            ("approval", approval),
            ("consent", consent),
            ("key", key),
            ("pass", pass),
            ("user", bo.id.clone()),
        ]);
        Self { ids }
    }

    fn id(&self, word: &str) -> &str {
        &self.ids[word]
    }

    /// A path with these, and the same with what was never there.
    fn filled(&self, path: &str) -> (String, String) {
        let (mut real, mut made_up) = (path.to_owned(), path.to_owned());
        for (word, id) in &self.ids {
            let name = format!("{{{word}}}");
            let prefix = id.split('_').next().unwrap();
            real = real.replace(&name, id);
            made_up = made_up.replace(&name, &format!("{prefix}_0123456789abcdef0123456789abcdef"));
        }
        (real, made_up)
    }
}

fn body(operation: &str, things: &Things) -> String {
    let body = match operation {
        "worktrees_update" => serde_json::json!({ "about": "x" }),
        "worktrees_set_tier" => serde_json::json!({ "tier": "all" }),
        "worktrees_set_sharing" => serde_json::json!({ "shares": true }),
        "worktrees_merge" | "worktrees_push" | "lineage_fork" | "lineage_undo" => serde_json::json!({}),
        "sessions_prompt" | "lineage_spawn" => serde_json::json!({ "prompt": "say x" }),
        "lineage_reorder" => serde_json::json!({ "tasks": [things.id("task")] }),
        "approvals_allow" => serde_json::json!({ "effect": "0".repeat(64), "choice": "yes" }),
        "approvals_deny" => serde_json::json!({ "effect": "0".repeat(64) }),
        "users_update" => serde_json::json!({ "name": "N" }),
        "users_reset_password" => serde_json::json!({ "password": "another long password" }),
        _ => return String::new(),
    };
    body.to_string()
}

/// ADV-A04: every route that names a thing of another's answers as if it were not there, or refuses, and changes nothing; a guess that
/// hits looks like one that misses, also by the time it takes; no list or stream tells of it.
#[test]
fn adv_a04_no_route_reaches_what_belongs_to_another() {
    let host = quiet();
    let (ana, bo) = (host.user("ana", "member"), host.user("bo", "member"));
    let things = Things::of(&host, &bo);
    let before = (
        bo.client.worktree(things.id("worktree")).unwrap(),
        bo.client.session(things.id("session")).unwrap(),
        bo.client.approvals(things.id("session"), false).unwrap().items.len(),
    );
    let words = ["{worktree}", "{session}", "{key}", "{pass}", "{user}"];
    let mut cases = 0;
    for (operation, one) in described(&host.owner().client.openapi().unwrap()) {
        // Who somebody is, members may read of each other.
        if !words.iter().any(|word| one.path.contains(word)) || operation == "users_read" {
            continue;
        }
        let (real, made_up) = things.filled(&one.path);
        assert!(!real.contains('{'), "{operation}: nobody knows how to fill {real}");
        let body = body(&operation, &things);
        let there = without_request_id(&ana.client, &one.method, &real, &body);
        let not = without_request_id(&ana.client, &one.method, &made_up, &body);
        let is_person = one.path.starts_with("/api/v1/users/");
        assert!(there.0 == 404 || (is_person && there.0 == 403), "{operation}: {there:?}");
        if !is_person {
            assert_eq!((there.0, &there.1), (not.0, &not.1), "{operation}");
        }
        cases += 1;
    }
    // Things of another's as the other part of a request.
    let worktree = things.id("worktree").to_owned();
    let refused: Vec<Option<u16>> = vec![
        ana.client.create_session(&new_session(&worktree)).unwrap_err().status(),
        ana.client.create_session(&shell(&worktree)).unwrap_err().status(),
        ana.client.import_session(&new_import(&worktree)).unwrap_err().status(),
        ana.client.add_secret(&secret("X", Some(worktree.clone()))).unwrap_err().status(),
        ana.client.add_secret(&secret("X", Some(bo.id.clone()))).unwrap_err().status(),
        ana.client.remove_secret(&worktree, "TREE_TOKEN").unwrap_err().status(),
        ana.client.remove_secret(&bo.id, "BO_TOKEN").unwrap_err().status(),
        ana.client.secrets(Some(&worktree), None).unwrap_err().status(),
        ana.client.secrets(Some(&bo.id), None).unwrap_err().status(),
        ana.client.follow_session(things.id("session"), 0).map(drop).unwrap_err().status(),
    ];
    assert!(refused.iter().all(|status| matches!(status, Some(403 | 404))), "{refused:?}");
    cases += refused.len();
    // What is listed.
    let mut lists = Vec::new();
    for filter in [
        SessionFilter::default(),
        SessionFilter { worktree: Some(worktree.clone()), closed: true, ..Default::default() },
        SessionFilter { creator: Some(bo.id.clone()), closed: true, ..Default::default() },
        SessionFilter { after: Some(things.id("session").to_owned()), ..Default::default() },
    ] {
        lists.push(serde_json::to_string(&ana.client.sessions(&filter).unwrap()).unwrap());
    }
    for filter in [
        WorktreeFilter { archived: true, ..Default::default() },
        WorktreeFilter { name: Some("theirs".into()), ..Default::default() },
        WorktreeFilter { after: Some(worktree.clone()), ..Default::default() },
    ] {
        lists.push(serde_json::to_string(&ana.client.worktrees(&filter).unwrap()).unwrap());
    }
    for filter in [
        LedgerFilter { user: Some(bo.id.clone()), ..Default::default() },
        LedgerFilter { action: Some("session.create".into()), ..Default::default() },
    ] {
        lists.push(serde_json::to_string(&ana.client.ledger(&filter).unwrap()).unwrap());
    }
    lists.push(serde_json::to_string(&ana.client.secrets(None, None).unwrap()).unwrap());
    let hidden = ["task", "approval", "consent", "key", "pass"].map(|word| things.id(word).to_owned());
    for told in &lists {
        assert!(!told.contains(MARK) && !told.contains("BO_TOKEN"), "{told}");
        assert!(hidden.iter().all(|id| !told.contains(id)), "{told}");
        assert!(!told.contains(&format!("\"id\":\"{worktree}\"")), "{told}");
    }
    cases += lists.len();
    assert!(cases >= 60, "{cases} cases");

    // A hit takes as long as a miss.
    let routes =
        ["/api/v1/worktrees/{worktree}", "/api/v1/sessions/{session}", "/api/v1/sessions/{session}/steps"];
    for path in routes {
        let (real, made_up) = things.filled(path);
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..tests::scale(200, 40) {
            for (path, times) in [&real, &made_up].into_iter().zip(&mut times) {
                times.push(without_request_id(&ana.client, "GET", path, "").2);
            }
        }
        let [there, not] = times.map(|mut times| {
            times.sort();
            times[times.len() / 2]
        });
        assert!(there.abs_diff(not) < Duration::from_millis(20), "{path}: {there:?} {not:?}");
    }
    let after = (
        bo.client.worktree(things.id("worktree")).unwrap(),
        bo.client.session(things.id("session")).unwrap(),
        bo.client.approvals(things.id("session"), false).unwrap().items.len(),
    );
    assert_eq!(after, before, "nothing of theirs was changed");
    assert_eq!(bo.client.keys(&bo.id, None).unwrap().items.iter().filter(|key| key.label == MARK).count(), 1);
}

/// Tries everything that its argument names, and says of each what became of it.
const ATTACK: &str = r#"
import ctypes, glob, json, os, socket, sys
asked = json.loads(sys.argv[1])
def tried(name, act):
    try:
        found = act()
        print(name, "GOT" if found else "nothing")
    except (OSError, ValueError) as error:
        print(name, "refused", type(error).__name__)
def has(path):
    with open(path, "rb") as file: return asked["mark"].encode() in file.read(1 << 20)
def below(path):
    return any(has(os.path.join(folder, name)) for folder, _, names in os.walk(path) for name in names)
for path in asked["files"]: tried("read:" + path, lambda: len(open(path, "rb").read(1)) > 0)
for path in asked["folders"]: tried("walk:" + path, lambda: below(path))
for path in asked["folders"]: tried("write:" + path, lambda: open(os.path.join(path, "planted"), "w"))
for path in ["/tmp", "/var/tmp", "/dev/shm", "/run"]: tried("shared:" + path, lambda: below(path))
for pid in asked["pids"]:
    for part in ["environ", "cmdline", "mem", "maps"]: tried("proc:%s:%s" % (pid, part), lambda: has("/proc/%s/%s" % (pid, part)))
    for part in ["root", "cwd"]: tried("proc:%s:%s" % (pid, part), lambda: os.listdir("/proc/%s/%s" % (pid, part)))
    tried("proc:%s:fd" % pid, lambda: os.listdir("/proc/%s/fd" % pid))
    tried("kill:%s" % pid, lambda: os.kill(pid, 0) is None)
    tried("trace:%s" % pid, lambda: ctypes.CDLL(None).ptrace(16, pid, 0, 0) == 0)
others = [pid for pid in os.listdir("/proc") if pid.isdigit()]
tried("any process", lambda: any(asked["mark"].encode() in open("/proc/%s/cmdline" % pid, "rb").read() for pid in others if int(pid) != os.getpid()))
def dialled(to):
    with socket.socket(socket.AF_INET) as one:
        one.settimeout(2); one.connect(to); return True
tried("daemon", lambda: dialled(("127.0.0.1", asked["port"])))
def reached(path):
    # By a short name: a long one is refused for its length.
    os.chdir(os.path.dirname(path))
    with socket.socket(socket.AF_UNIX) as one: one.settimeout(2); one.connect(os.path.basename(path)); return True
for path in asked["sockets"]: tried("socket:" + path, lambda: reached(path))
tried("named sockets", lambda: any("palisade" in line for line in open("/proc/net/unix").read().splitlines()))
"#;

fn below(folder: &Path, wanted: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if wanted(&entry.path()) {
                found.push(entry.path());
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(entry.path());
            }
        }
    }
    found
}

/// Processes whose command line has this.
pub fn processes(word: &str) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let has = |entry: &std::fs::DirEntry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(word)
    };
    entries.filter(has).filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// ADV-A04: from inside a sandbox of their own nobody reaches the files, homes, processes, sockets and shared places of another's, nor
/// what the daemon keeps.
#[test]
fn adv_a04_no_sandbox_reaches_what_belongs_to_another() {
    use std::os::unix::fs::FileTypeExt;
    let host = quiet();
    let (ana, bo) = (host.user("ana", "member"), host.user("bo", "member"));
    let (hers, his) = (host.tree(&ana, "hers", "none").id, host.tree(&bo, "his", "none").id);
    let (mine, theirs) = (
        ana.client.create_session(&shell(&hers)).unwrap().id,
        bo.client.create_session(&shell(&his)).unwrap().id,
    );
    // His own argument has it, too, for whoever could see that.
    let script = format!(
        "for place in . ~ /tmp /var/tmp /dev/shm; do echo {MARK} > $place/mark 2>/dev/null; done; echo ready; sh -c 'sleep 300; : {MARK}'"
    );
    bo.client.prompt_session(&theirs, &script).unwrap();
    until("he is at work", || said(&steps(&bo, &theirs)).contains("ready").then_some(()));
    let task = bo.client.session(&theirs).unwrap().at_work.unwrap();
    let mut pids = processes(&format!("{task}.json"));
    pids.push(host.pid());
    let data = host.data();
    let is_socket = |path: &Path| std::fs::metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
    let mut files = vec![host.place().join("config.toml"), host.place().join("master.key")];
    files.extend(below(&data, &|path| {
        path.extension().is_some_and(|end| ["db", "key", "sqlite"].iter().any(|one| end == *one))
    }));
    let folders = vec![
        data.join("worktrees").join(&his),
        data.join("runs/sessions").join(&theirs),
        data.join("runs"),
        data.join("ledger"),
        data.clone(),
    ];
    assert!(folders.iter().filter(|path| path.is_dir()).count() >= 4, "{folders:?}");
    assert!(!below(&data, &|path| path.ends_with("mark")).is_empty(), "his mark is on this machine");
    let port: u16 = host.base().rsplit(':').next().unwrap().parse().unwrap();
    let asked = serde_json::json!({
        "mark": MARK, "files": files, "folders": folders, "pids": pids, "port": port, "sockets": below(host.place(), &is_socket),
    });
    let program = format!("python3 - '{asked}' <<'END'{ATTACK}END\n");
    let task = ana.client.prompt_session(&mine, &program).unwrap();
    let done = crate::sessions::ended(&ana, &mine, &task.id);
    let told = said(&steps(&ana, &mine));
    assert_eq!(done.state, "done", "{done:?} {told}");
    let lines: Vec<&str> = told.lines().filter(|line| !line.is_empty()).collect();
    // Places that have the name of ours inside are the sandbox's own; whether one of ours was written to is seen from here.
    assert_eq!(below(&data, &|path| path.ends_with("planted")), Vec::<PathBuf>::new());
    let got: Vec<_> =
        lines.iter().filter(|line| line.contains("GOT") && !line.starts_with("write:")).collect();
    assert!(got.is_empty(), "{got:?}");
    let known = ["refused", "nothing", "GOT"];
    assert!(
        lines.len() >= 35 && lines.iter().all(|line| known.iter().any(|word| line.contains(word))),
        "{told}"
    );
    assert!(bo.client.session(&theirs).unwrap().at_work.is_some(), "his goes on");
    bo.client.stop_session(&theirs).unwrap();
}
