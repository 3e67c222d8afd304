//! An independent script of attempts (`attempts.py`), in three worlds: Palisade, bubblewrap, and no sandbox at all.
//!
//! The script knows nothing of Palisade: it plants secrets, serves as a host's service, launches carelessly, tries from
//! inside, and judges from outside. Where only the host knows, the inside has no say. Left: other sandboxes than these.

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::kit::{Stage, Who, both, finish, finished, read_line};
use crate::terminal::Terminal;

/// What is said not to be held: hooks that package managers write at every install, so that they can only be told
/// (`control.toml`).
const NOT_HELD: [&str; 1] = ["plant-commit-tool"];

/// What gets through on any host, for anybody: no privilege is needed, and nothing that a kernel may lack.
const ORDINARY: [&str; 7] = ["read-", "change-outside-", "plant-", "connect-", "send-", "leave-set", "find-"];

/// Of these, what is of root's, of process 1 of the host, or of the kernel's making.
const NOT_ORDINARY: [&str; 4] = ["process-1", "read-by-handle", "read-password-hashes", "read-proc-"];

/// The system's own, which is there in every world; another one may be first on the path.
const PYTHON: &str = "/usr/bin/python3";

/// One fixture, which is used once: what gets through changes it.
struct World {
    stage: Stage,
    plan: Value,
}

impl World {
    fn new(who: Who) -> Self {
        let stage = Stage::of(who).unwrap();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/escape/attempts.py");
        assert!(
            Command::new("cp").args([script, &stage.path("work/attempts.py")]).status().unwrap().success()
        );
        let name = format!("attempts-{}", stage.path("").rsplit('-').next().unwrap().trim_end_matches('/'));
        let key =
            stage.at("").metadata().map(|found| std::os::unix::fs::MetadataExt::ino(&found)).unwrap() as i32;
        let plan = json!({
            "mark": format!("MARK{name}"), "planted": format!("planted by {name}\n"), "name": name, "key": key,
            "home": stage.path("home"), "work": stage.path("work"), "outside": stage.path("outside"),
            "hostname": rustix::system::uname().nodename().to_string_lossy(),
        });
        let world = Self { stage, plan };
        world.write_plan();
        let mut prepare = world.script("prepare");
        prepare.env("GIT_CONFIG_GLOBAL", "/dev/null");
        finish(prepare).assert_code(0);
        world.a_program_of_root();
        world.stage.settle();
        world
    }

    fn write_plan(&self) {
        self.stage.file("work/plan.json", self.plan.to_string());
    }

    /// Only root can leave one in a user's project.
    fn a_program_of_root(&self) {
        let path = self.stage.at("work/id-of-root");
        assert!(Command::new("cp").arg("/usr/bin/id").arg(&path).status().unwrap().success());
        if self.stage.is_thrown_away() {
            chown(&path, Some(0), Some(0)).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o4755)).unwrap();
        }
    }

    fn script(&self, word: &str) -> Command {
        let mut command = self.stage.command(PYTHON);
        command.args(["attempts.py", word, "plan.json"]);
        command
    }

    /// A process of the same user, with secrets on its command line and in its environment.
    fn serve(&mut self) -> Child {
        let mut service = self.script("serve");
        let mark = self.plan["mark"].as_str().unwrap();
        service.arg(format!("{mark}-argument")).env("SERVICE_TOKEN", format!("{mark}-variable"));
        service.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut service = service.spawn().unwrap();
        let told = read_line(&mut service);
        let told: Value = serde_json::from_str(&told).unwrap_or_else(|error| panic!("{error}: {told}"));
        self.plan.as_object_mut().unwrap().extend(told.as_object().unwrap().clone());
        self.write_plan();
        service
    }

    /// Tries everything behind this command.
    fn verdicts(mut self, sandbox: &[String]) -> Came {
        let service = self.serve();
        let mut run = self.script("launch");
        run.args(sandbox).args([PYTHON, "attempts.py", "attempt", "plan.json"]);
        let terminal = Terminal::open();
        terminal.silence();
        let shown = terminal.run(run);
        let typed = terminal.waiting();
        let of = |text: &str| -> BTreeMap<String, String> {
            let lines = text.lines().filter_map(|line| line.trim().rsplit_once(": "));
            let known = lines.filter(|(_, verdict)| ["through", "stopped", "host"].contains(verdict));
            known.map(|(name, verdict)| (name.to_owned(), verdict.to_owned())).collect()
        };
        let inside = of(&shown.stdout);
        let mut service = service;
        drop(service.stdin.take());
        let mut host = of(&finished(service).assert_code(0).stdout);
        host.extend(of(&finish(self.script("judge")).assert_code(0).stdout));
        // What was planted or reached counts whatever the inside thinks of it.
        let through = |(name, verdict): (&String, &String)| {
            let judged = host.get(name).map(String::as_str);
            assert!(verdict != "host" || judged.is_some(), "nobody judged {name}");
            (name.clone(), judged.unwrap_or(verdict) == "through")
        };
        let verdicts: BTreeMap<String, bool> = inside.iter().map(through).collect();
        assert!(verdicts.len() >= 92, "only {} attempts: {shown:?}", verdicts.len());
        Came { verdicts, typed, shown: shown.stdout }
    }
}

/// What came of it all.
struct Came {
    /// Whether each got through.
    verdicts: BTreeMap<String, bool>,
    /// How much was typed into the person's terminal.
    typed: u64,
    shown: String,
}

impl Came {
    fn through(&self) -> Vec<&str> {
        self.verdicts.iter().filter(|(_, through)| **through).map(|(name, _)| name.as_str()).collect()
    }

    fn count(&self, world: &str, who: Who) {
        let (all, through) = (self.verdicts.len(), self.through());
        println!("{world}, {who:?}: {} of {all} stopped; through: {through:?}", all - through.len());
    }
}

/// bubblewrap as its page recommends it, around the same root.
fn bubblewrap(stage: &Stage) -> Vec<String> {
    let mut words: Vec<String> =
        ["bwrap", "--unshare-all", "--die-with-parent", "--new-session"].map(Into::into).into();
    let mut add = |all: &[&str]| words.extend(all.iter().map(|word| (*word).to_owned()));
    add(&["--ro-bind", "/usr", "/usr", "--ro-bind", "/etc", "/etc"]);
    for name in ["bin", "sbin", "lib", "lib64"] {
        let place = format!("/{name}");
        if Path::new(&place).is_symlink() {
            add(&["--symlink", &format!("usr/{name}"), &place]);
        } else if Path::new(&place).exists() {
            add(&["--ro-bind", &place, &place]);
        }
    }
    stage.folder("bare-home", 0o700);
    let (work, home) = (stage.path("work"), stage.path("home"));
    add(&["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--bind", &stage.path("bare-home"), &home]);
    add(&["--bind", &work, &work, "--chdir", &work, "--"]);
    words
}

both! {
    fn adv_attempts_a_an_independent_script_finds_no_way_out(stage) {
        let world = World::new(stage.who);
        let palisade = [world.stage.path("palisade"), "run".into(), "--".into()];

        let came = world.verdicts(&palisade);

        came.count("palisade", stage.who);
        assert_eq!(came.through(), NOT_HELD);
        assert!(came.shown.contains("changed .husky/pre-commit"), "not told: {}", came.shown);
        assert_eq!(came.typed, 0, "something is in the input of the person's terminal");
    }

    fn adv_attempts_b_control_without_a_sandbox_most_get_through(stage) {
        let came = World::new(stage.who).verdicts(&[]);

        came.count("no sandbox", stage.who);
        for (name, through) in &came.verdicts {
            let must = ORDINARY.iter().any(|word| name.starts_with(word)) && !NOT_ORDINARY.iter().any(|word| name.contains(word));
            assert!(*through || !must, "the control did not get through: {name}");
        }
        assert!(came.through().len() > came.verdicts.len() / 2);
    }

    fn adv_attempts_c_beside_bubblewrap(stage) {
        if Command::new("bwrap").arg("--version").output().is_err() {
            // Not needed by anything else of the tests, so its absence is no fault.
            println!("bubblewrap is not installed: not compared");
            return;
        }
        let world = World::new(stage.who);
        let command = bubblewrap(&world.stage);

        let came = world.verdicts(&command);

        came.count("bubblewrap", stage.who);
        assert!(came.through().len() > NOT_HELD.len());
    }
}
