//! The spawner, on a real kernel. No test harness: the spawner is forked while there is one thread.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "tests with a main function of their own"
)]

use std::collections::BTreeMap;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sandbox::spawner::{Answer, Options, Order, Spawner, Verb};
use sandbox::{Ended, RunId};

fn main() {
    // `cargo test -- FILTER` and `--list` are for harnesses; this one has one list and runs it.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    if std::env::args().any(|word| word == "--list") {
        return;
    }
    type Test = (&'static str, fn());
    let all: [Test; 8] = [
        ("a_command_runs_and_its_end_is_told", a_command_runs_and_its_end_is_told),
        ("sbx_14_what_is_no_order_changes_nothing", sbx_14_what_is_no_order_changes_nothing),
        ("sbx_14_no_path_outside_the_roots_is_given", sbx_14_no_path_outside_the_roots_is_given),
        ("sbx_14_no_link_leads_out_of_a_root", sbx_14_no_link_leads_out_of_a_root),
        ("sbx_06_two_sandboxes_share_no_namespace", sbx_06_two_sandboxes_share_no_namespace),
        ("sbx_08_many_starts_and_kills_leave_nothing", sbx_08_many_starts_and_kills_leave_nothing),
        ("a_frozen_sandbox_stands_still_and_goes_on", a_frozen_sandbox_stands_still_and_goes_on),
        ("sbx_08_when_the_caller_goes_everything_goes", sbx_08_when_the_caller_goes_everything_goes),
    ];
    let mut ran = 0;
    for (name, test) in all {
        if words.is_empty() || words.iter().any(|word| name.contains(word.as_str())) {
            print!("test {name} ... ");
            test();
            println!("ok");
            ran += 1;
        }
    }
    println!("test result: ok. {ran} passed; 0 failed");
}

struct Stage {
    spawner: Spawner,
    folder: tempfile::TempDir,
}

impl Stage {
    fn new(pool: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().canonicalize().unwrap();
        for name in ["work", "home"] {
            std::fs::create_dir(place.join(name)).unwrap();
        }
        let spawner = Spawner::start(Options { roots: vec![place], pool }).unwrap();
        Self { spawner, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn order(&self, command: &[&str]) -> Order {
        Order {
            run: RunId::new().unwrap(),
            command: command.iter().map(Into::into).collect(),
            directory: self.path("work"),
            read: Vec::new(),
            write: vec![self.path("work")],
            home: (self.path("home"), "/home/agent".into()),
            user: "agent".into(),
            environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
            files: 256,
            file_size: 1 << 20,
            pids: 64,
            memory: Some(256 << 20),
            cpu: None,
            tmp: 16 << 20,
            trace: false,
        }
    }

    /// Orders and starts a command; what it prints comes from the pipe.
    fn start(&self, order: Order) -> Result<(RunId, OwnedFd), String> {
        let run = order.run.clone();
        let (reads, writes) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        let null = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        self.spawner.launch(order, [null.as_fd(), writes.as_fd(), writes.as_fd()]).unwrap();
        match self.spawner.hear().unwrap() {
            Answer::Ready { account, .. } if account.differences.is_empty() => {
                self.spawner.go(run.clone()).unwrap();
                Ok((run, reads))
            }
            Answer::Ready { account, .. } => Err(account.differences.join("; ")),
            Answer::Refused { why, .. } => Err(why),
            Answer::Ended { .. } => panic!("ended before it began"),
        }
    }

    fn ended(&self, run: &RunId) -> Ended {
        match self.spawner.hear().unwrap() {
            Answer::Ended { run: which, ended } if which == *run => ended,
            other => panic!("{other:?}"),
        }
    }
}

fn text(from: OwnedFd) -> String {
    let mut text = String::new();
    std::fs::File::from(from).read_to_string(&mut text).unwrap();
    text
}

fn a_command_runs_and_its_end_is_told() {
    let stage = Stage::new(2);
    for _ in 0..5 {
        let order = stage.order(&["sh", "-c", "echo here > file; cat file; id -u; exit 7"]);
        let (run, out) = stage.start(order).unwrap();
        assert_eq!(stage.ended(&run), Ended::Code(7));
        let said = text(out);
        assert!(said.starts_with("here\n") && !said.ends_with("\n0\n"), "{said}");
        assert_eq!(std::fs::read_to_string(stage.path("work/file")).unwrap(), "here\n");
    }
    let missing = stage.start(stage.order(&["no-such-program"])).unwrap_err();
    assert!(missing.contains("no-such-program"), "{missing}");
}

/// SBX-14: fuzzed messages: answered, no crash, no effect.
fn sbx_14_what_is_no_order_changes_nothing() {
    let stage = Stage::new(1);
    let valid = serde_json::to_vec(&Verb::Launch(Box::new(stage.order(&["true"])))).unwrap();
    let scale: f64 = std::env::var("PALISADE_SCALE").ok().and_then(|text| text.parse().ok()).unwrap_or(0.05);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of tries")]
    let tries = (1_000_000.0 * scale) as u64;
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for n in 0..tries {
        let mut bytes = valid.clone();
        for _ in 0..=(next() % 4) {
            let place = usize::try_from(next()).unwrap_or(0) % bytes.len();
            match next() % 3 {
                0 => bytes[place] = u8::try_from(next() & 0xff).unwrap(),
                1 => bytes.truncate(place.max(1)),
                _ => bytes.insert(place, u8::try_from(next() & 0xff).unwrap()),
            }
        }
        // Whatever it is, it comes without descriptors: nothing can be launched.
        rustix::net::send(stage.spawner.as_fd(), &bytes, rustix::net::SendFlags::NOSIGNAL).unwrap();
        match stage.spawner.hear().unwrap() {
            Answer::Refused { .. } => {}
            other => panic!("try {n}: {other:?}"),
        }
    }
    let (run, _out) = stage.start(stage.order(&["true"])).unwrap();
    assert_eq!(stage.ended(&run), Ended::Code(0), "it still works");
}

fn sbx_14_no_path_outside_the_roots_is_given() {
    let stage = Stage::new(1);
    for path in ["/etc", "/", "/root", "/var/lib"] {
        let order = Order { read: vec![path.into()], ..stage.order(&["true"]) };
        let why = stage.start(order).unwrap_err();
        assert!(why.contains("beneath none"), "{path}: {why}");
    }
    let mut dots = stage.path("work");
    dots.push("../../..");
    let order = Order { write: vec![dots], ..stage.order(&["true"]) };
    stage.start(order).unwrap_err();
}

fn sbx_14_no_link_leads_out_of_a_root() {
    let stage = Stage::new(1);
    std::os::unix::fs::symlink("/etc", stage.path("work/link")).unwrap();
    let order = Order { read: vec![stage.path("work/link")], ..stage.order(&["true"]) };
    stage.start(order).unwrap_err();
    let order = Order { read: vec![stage.path("work/link/ssl")], ..stage.order(&["true"]) };
    stage.start(order).unwrap_err();
}

fn sbx_06_two_sandboxes_share_no_namespace() {
    let stage = Stage::new(4);
    let list = ["sh", "-c", "for n in user mnt pid net ipc uts cgroup; do readlink /proc/self/ns/$n; done"];
    let own = |pid: &str| -> Vec<String> {
        let names = ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"];
        let read = |name| std::fs::read_link(Path::new("/proc").join(pid).join("ns").join(name)).unwrap();
        names.map(|name| read(name).to_string_lossy().into_owned()).to_vec()
    };
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for name in own("self") {
        *seen.entry(name).or_default() += 1;
    }
    for _ in 0..2 {
        let (run, out) = stage.start(stage.order(&list)).unwrap();
        assert_eq!(stage.ended(&run), Ended::Code(0));
        for line in text(out).lines() {
            *seen.entry(line.to_owned()).or_default() += 1;
        }
    }
    // A namespace that is gone may give its number to a later one: only the host's must never come again.
    for name in own("self") {
        assert_eq!(seen.get(&name), Some(&1), "{name}");
    }
}

fn processes() -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().bytes().all(|byte| byte.is_ascii_digit()))
        .count()
}

fn leftovers() -> usize {
    let mut found = 0;
    for controller in ["", "unified", "memory", "pids", "cpu"] {
        let mut folders = vec![Path::new("/sys/fs/cgroup").join(controller)];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    let own = format!("palisade-{}-", std::process::id());
                    found += usize::from(entry.file_name().to_string_lossy().starts_with(&own));
                    folders.push(entry.path());
                }
            }
        }
    }
    found
}

/// SBX-08: children that detach themselves are gone too.
fn sbx_08_many_starts_and_kills_leave_nothing() {
    let before = processes();
    {
        let stage = Stage::new(4);
        let began = Instant::now();
        for n in 0..40 {
            let script = "(setsid sh -c 'trap \"\" TERM HUP; sleep 1000 & sleep 1000' &) ; sleep 1000";
            let command: &[&str] = if n % 2 == 0 { &["sh", "-c", script] } else { &["true"] };
            let (run, _out) = stage.start(stage.order(command)).unwrap();
            if n % 2 == 0 {
                stage.spawner.say(&Verb::Kill { run: run.clone() }).unwrap();
                assert_eq!(stage.ended(&run), Ended::Killed);
            } else {
                assert_eq!(stage.ended(&run), Ended::Code(0));
            }
        }
        assert!(began.elapsed() < Duration::from_secs(60));
    }
    let deadline = Instant::now() + Duration::from_secs(5);
    while processes() > before + 3 && Instant::now() < deadline {
        std::thread::yield_now();
    }
    assert!(processes() <= before + 3, "{} processes, {before} before", processes());
    assert_eq!(leftovers(), 0, "control groups");
}

fn a_frozen_sandbox_stands_still_and_goes_on() {
    let stage = Stage::new(1);
    let script = "while :; do echo x >> ticks; done";
    let (run, _out) = stage.start(stage.order(&["sh", "-c", script])).unwrap();
    let size = || std::fs::metadata(stage.path("work/ticks")).map_or(0, |found| found.len());
    let grows = |from: u64| {
        let deadline = Instant::now() + Duration::from_secs(5);
        while size() <= from && Instant::now() < deadline {
            std::thread::yield_now();
        }
        size() > from
    };
    assert!(grows(0));
    stage.spawner.say(&Verb::Freeze { run: run.clone(), frozen: true }).unwrap();
    // Freezing is asynchronous: it stands when two looks in a row are equal.
    let deadline = Instant::now() + Duration::from_secs(5);
    let mut last = size();
    let stood = loop {
        std::thread::sleep(Duration::from_millis(20));
        if size() == last {
            break true;
        }
        if Instant::now() > deadline {
            break false;
        }
        last = size();
    };
    // Without a group of version 2 (an ordinary user without delegation) the spawner says that it cannot.
    let mut answer =
        [rustix::event::PollFd::from_borrowed_fd(stage.spawner.as_fd(), rustix::event::PollFlags::IN)];
    let zero = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    if rustix::event::poll(&mut answer, Some(&zero)).unwrap() > 0 {
        assert!(matches!(stage.spawner.hear().unwrap(), Answer::Refused { .. }));
        return;
    }
    assert!(stood);
    stage.spawner.say(&Verb::Freeze { run: run.clone(), frozen: false }).unwrap();
    assert!(grows(last), "it goes on");
    stage.spawner.say(&Verb::Kill { run: run.clone() }).unwrap();
    assert_eq!(stage.ended(&run), Ended::Killed);
}

fn sbx_08_when_the_caller_goes_everything_goes() {
    let stage = Stage::new(2);
    let order = stage.order(&["sleep", "1000"]);
    let (_, out) = stage.start(order).unwrap();
    drop(stage);
    // The pipe ends when the last process that holds it is gone.
    assert_eq!(text(out), "");
}
