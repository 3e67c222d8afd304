//! What the daemon, and whatever it starts outside of sandboxes, does with trees that agents can write: by its system calls.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use api::{CreateSessionRequest, MergeRequest};

use crate::calls::new_session;
use crate::sessions::{ended, quiet};
use crate::trees::{tree, wanted};

/// What is looked at.
const CALLS: &str =
    "trace=execve,execveat,open,openat,openat2,chdir,fchdir,clone,clone3,fork,vfork,unshare,setns";

/// A trace of a process and of all that it starts.
struct Tracer {
    child: Child,
    file: PathBuf,
}

impl Tracer {
    fn attach(pid: u32, file: PathBuf) -> Self {
        let child = Command::new("strace")
            .args(["-f", "-qq", "-y", "-s", "4096", "--pidns-translation", "-e", CALLS, "-o"])
            .arg(&file)
            .args(["-p", &pid.to_string()])
            .stderr(Stdio::null())
            .spawn()
            .expect("strace is installed (scripts/setup)");
        let until = Instant::now() + Duration::from_secs(20);
        let is_traced = || {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            status.lines().any(|line| line.starts_with("TracerPid:") && !line.ends_with("\t0"))
        };
        while !is_traced() {
            assert!(Instant::now() < until, "the daemon can be traced");
            std::thread::sleep(Duration::from_millis(10));
        }
        Self { child, file }
    }

    /// Ends it; what was seen.
    fn end(mut self) -> String {
        let pid = rustix::process::Pid::from_raw(self.child.id().cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        self.child.wait().unwrap();
        String::from_utf8_lossy(&fs::read(&self.file).unwrap()).into_owned()
    }
}

/// What a process did, in order.
#[derive(Debug)]
enum Did {
    /// Started a program with these words.
    Exec(String, String),
    /// Opened this.
    Open(PathBuf),
}

/// What was done by processes outside of sandboxes: by whom, and with which program at that time.
struct Outside {
    done: Vec<(u32, String, PathBuf, Did)>,
}

/// Calls that were cut in two by others, put together; with the line that each began at.
fn whole(trace: &str) -> Vec<(usize, u32, String)> {
    let (mut begun, mut all) = (HashMap::new(), Vec::new());
    for (at, line) in trace.lines().enumerate() {
        let Some((pid, rest)) = line.trim_start().split_once(' ') else { continue };
        let (Ok(pid), rest) = (pid.parse::<u32>(), rest.trim_start()) else { continue };
        if let Some(first) = rest.strip_suffix(" <unfinished ...>") {
            begun.insert(pid, (at, first.to_owned()));
        } else if let Some(rest) = rest.strip_prefix("<... ") {
            let tail = rest.split_once(" resumed>").map_or("", |(_, tail)| tail);
            let (at, first) = begun.remove(&pid).unwrap_or_default();
            all.push((at, pid, format!("{first}{tail}")));
        } else {
            all.push((at, pid, rest.to_owned()));
        }
    }
    all
}

/// Name, arguments and result of a call.
fn parts(call: &str) -> (&str, &str, &str) {
    let (name, rest) = call.split_once('(').unwrap_or((call, ""));
    let (arguments, result) = rest.rsplit_once(" = ").unwrap_or((rest, "?"));
    (name, arguments, result)
}

/// Who started whom, and from which line on each is in a mount namespace of its own. A child may be seen at work before its
/// parent is seen to have started it, so this is read first.
#[derive(Default)]
struct Family {
    parents: HashMap<u32, (u32, usize)>,
    apart: HashMap<u32, usize>,
}

impl Family {
    fn of(calls: &[(usize, u32, String)]) -> Self {
        let mut family = Self::default();
        for (at, pid, call) in calls {
            match parts(call) {
                ("clone" | "clone3" | "fork" | "vfork", arguments, result) => {
                    // Where it has another number elsewhere, that of here stands behind it.
                    let told = result.split("/* ").nth(1).unwrap_or(result);
                    let Ok(child) = told.split(' ').next().unwrap_or_default().parse::<u32>() else {
                        continue;
                    };
                    family.parents.insert(child, (*pid, *at));
                    if arguments.contains("CLONE_NEWNS") {
                        family.apart.insert(child, 0);
                    }
                }
                ("unshare" | "setns", arguments, result)
                    if arguments.contains("CLONE_NEWNS") && !result.starts_with('-') =>
                {
                    family.apart.entry(*pid).or_insert(*at);
                }
                _ => {}
            }
        }
        family
    }

    fn is_inside(&self, pid: u32, at: usize) -> bool {
        let own = self.apart.get(&pid).is_some_and(|from| *from <= at);
        own || self
            .parents
            .get(&pid)
            .is_some_and(|(parent, begun)| *parent != pid && self.is_inside(*parent, *begun))
    }

    /// What is known of a process, or of the nearest one before it.
    fn known<T: Clone>(&self, of: &HashMap<u32, T>, mut pid: u32) -> Option<T> {
        loop {
            if let Some(found) = of.get(&pid) {
                return Some(found.clone());
            }
            pid = self.parents.get(&pid).filter(|(parent, _)| *parent != pid)?.0;
        }
    }
}

/// The text between the first quotes from here on.
fn quoted(text: &str) -> Option<&str> {
    let from = text.find('"')? + 1;
    let rest = text.get(from..)?;
    rest.get(..rest.find('"')?)
}

impl Outside {
    /// Reads a trace of a process that is outside.
    fn read(trace: &str) -> Self {
        let calls = whole(trace);
        let family = Family::of(&calls);
        let (mut program, mut place, mut done) = (HashMap::new(), HashMap::new(), Vec::new());
        for (at, pid, call) in &calls {
            let (name, arguments, result) = parts(call);
            if result.starts_with('-') || family.is_inside(*pid, *at) {
                continue;
            }
            let here = || family.known(&place, *pid).unwrap_or_default();
            match name {
                "chdir" => drop(place.insert(*pid, PathBuf::from(quoted(arguments).unwrap_or_default()))),
                "fchdir" => drop(place.insert(*pid, PathBuf::from(between(arguments)))),
                "execve" | "execveat" => {
                    let path = quoted(arguments).unwrap_or_default().to_owned();
                    program.insert(*pid, path.clone());
                    done.push((*pid, path.clone(), here(), Did::Exec(path, arguments.to_owned())));
                }
                "open" | "openat" | "openat2" => {
                    let named = PathBuf::from(quoted(arguments).unwrap_or_default());
                    // From the directory that the call names, if it names one.
                    let first = arguments.split(", ").next().unwrap_or_default();
                    let from = if first.contains('<') { PathBuf::from(between(first)) } else { here() };
                    let by: String = family.known(&program, *pid).unwrap_or_default();
                    done.push((*pid, by, here(), Did::Open(from.join(named))));
                }
                _ => {}
            }
        }
        Self { done }
    }

    /// What git had to do with what agents can write: a tree from the first run in it on until it is made anew, which git does
    /// only where nothing is; and everything that runs keep.
    fn faults(&self, trees: &Path, runs: &Path) -> Vec<String> {
        let named = |path: &Path, program: &str| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(program))
        };
        let tree_of =
            |path: &Path| Some(path.strip_prefix(trees).ok()?.components().next()?.as_os_str().to_owned());
        let is_theirs = |path: &Path, had: &HashSet<OsString>| {
            path.starts_with(runs) || tree_of(path).is_some_and(|tree| had.contains(&tree))
        };
        let mut had = HashSet::new();
        let mut faults = Vec::new();
        for (pid, by, at, did) in &self.done {
            let wrong = match did {
                Did::Exec(program, words) if named(Path::new(program), "git") => {
                    let paths: Vec<&Path> = words
                        .split('"')
                        .filter_map(|word| word.find('/').and_then(|from| word.get(from..)))
                        .map(Path::new)
                        .collect();
                    if words.contains("\"worktree\", \"add\"") {
                        for tree in paths.iter().filter_map(|path| tree_of(path)) {
                            had.remove(&tree);
                        }
                    }
                    paths.iter().any(|path| is_theirs(path, &had)) || is_theirs(at, &had)
                }
                Did::Exec(..) => {
                    had.extend(tree_of(at));
                    false
                }
                Did::Open(path) => named(Path::new(by), "git") && is_theirs(path, &had),
            };
            if wrong {
                faults.push(format!("{pid} ({by} at {}): {did:?}", at.display()));
            }
        }
        faults
    }

    fn ran(&self, program: &str) -> usize {
        let is = |did: &Did| matches!(did, Did::Exec(path, _) if Path::new(path).file_name().is_some_and(|name| name == program));
        self.done.iter().filter(|(.., did)| is(did)).count()
    }
}

/// What a descriptor names.
fn between(text: &str) -> &str {
    text.split_once('<').and_then(|(_, rest)| rest.split_once('>')).map_or("", |(path, _)| path)
}

/// What an agent does who wants the host's git to run something of theirs.
const HOSTILE: &str = "
evil() { printf '[core]\\n\\tfsmonitor = touch MARK\\n\\tsshCommand = touch MARK\\n[filter \"x\"]\\n\\tclean = touch MARK\\n\\tsmudge = touch MARK\\n' > \"$1\"; }
for folder in nested sub/deep; do mkdir -p $folder; git init -q $folder; evil $folder/.git/config; done
printf '* filter=x diff=x merge=x\\n' > .gitattributes
git config core.fsmonitor 'touch MARK' || true; git config filter.x.clean 'touch MARK' || true
mv .git .away || true; mkdir .git && evil .git/config || true
evil config; printf 'gitdir: nested/.git\\n' > gitfile; mkdir -p objects refs; printf 'ref: refs/heads/x\\n' > HEAD
echo hostile > theirs; git -c core.fsmonitor=false add theirs; git -c core.fsmonitor=false commit -qm hostile";

/// What any agent does.
const HONEST: &str = "git config user.name A; git config user.email a@b
echo x >> file; git add file; git commit -qm first";

/// WT-06: over create, tasks, ingest, diff, log, files, merge and every way of ending, no git process and no repository is
/// opened beneath a path that an agent can write. The same eyes see it when somebody does.
#[test]
fn wt_06_git_never_runs_on_what_an_agent_can_write() {
    let host = quiet();
    let owner = host.owner();
    let client = &owner.client;
    let repo = host.local_repo("demo");
    client.fetch_repo(&repo).unwrap();
    let mark = host.place().join("mark");
    let tracer = Tracer::attach(host.pid(), host.place().join("trace"));
    for files in ["kept", "cleaned", "removed"] {
        let made = client.create_worktree(&wanted(&repo, files)).unwrap();
        let command = vec!["sh".to_owned()];
        let body = CreateSessionRequest { agent: "command".into(), command, ..new_session(&made.id) };
        let session = client.create_session(&body).unwrap().id;
        for script in [HONEST, HOSTILE, HONEST, "echo more >> file; exit 3"] {
            let script = script.replace("MARK", mark.to_str().unwrap());
            let task = client.prompt_session(&session, &script).unwrap().id;
            ended(owner, &session, &task);
            client.resume_session(&session).unwrap();
        }
        let log = client.worktree_log(&made.id, None).unwrap().items;
        assert!(
            log.iter().any(|one| one.subject == "first"),
            "{log:?} {:?}",
            crate::sessions::steps(owner, &session)
        );
        assert!(client.worktree_diff(&made.id).unwrap().patch.contains("+x"));
        client.worktree_files(&made.id, "").unwrap();
        client.merge_worktree(&made.id, &MergeRequest { into: None, bundle: true }).unwrap();
        client.archive_worktree_and(&made.id, Some(files)).unwrap();
        client.restore_worktree(&made.id).unwrap();
        client.delete_worktree_and(&made.id, Some(files)).unwrap();
    }
    let seen = Outside::read(&tracer.end());
    assert!(!mark.exists(), "nothing of theirs ran outside");
    assert!(
        seen.ran("git") > 20 && seen.ran("palisade") > 10,
        "{} {}",
        seen.ran("git"),
        seen.ran("palisade")
    );
    let (trees, runs) = (host.data().join("worktrees"), host.data().join("runs"));
    let faults = seen.faults(&trees, &runs);
    assert!(faults.is_empty(), "{} {:#?}", faults.len(), &faults[..faults.len().min(20)]);

    // A daemon that did it would be seen.
    let made = client.create_worktree(&wanted(&repo, "control")).unwrap();
    let place = tree(&host, &made);
    for script in ["cd TREE; env true; git status", "(cd TREE; env true); cd /; git -C TREE status"] {
        let script = script.replace("TREE", place.to_str().unwrap());
        let trace = host.place().join("control");
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-y", "-s", "4096", "--pidns-translation", "-e", CALLS, "-o"]).arg(&trace);
        assert!(command.args(["sh", "-ec", &script]).stdout(Stdio::null()).status().unwrap().success());
        let seen = Outside::read(&fs::read_to_string(&trace).unwrap());
        let faults = seen.faults(&trees, &runs);
        assert!(faults.iter().any(|fault| fault.contains("Exec")), "{script}: {faults:?}");
        assert!(faults.iter().any(|fault| fault.contains("Open")), "{script}: {faults:?}");
    }
}
