//! The spawner, on a real kernel. No test harness: the spawner is forked while there is one thread.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "tests with a main function of their own"
)]

mod ordered;
mod prepared;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sandbox::spawner::{Answer, Options, Order, Spawner, Verb};
use sandbox::{Ended, Permit, RunId};

fn main() {
    if std::env::args().nth(1).is_some_and(|word| word == sandbox::probe::ARGUMENT) {
        return sandbox::probe::answer().unwrap();
    }
    // `cargo test -- FILTER` and `--list` are for harnesses; this one has one list and runs it.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    if std::env::args().any(|word| word == "--list") {
        return;
    }
    type Test = (&'static str, fn());
    let all: [Test; 23] = [
        ("one_that_stood_before_is_like_any_other", prepared::one_that_stood_before_is_like_any_other),
        (
            "sbx_14_a_place_that_was_replaced_is_not_given",
            prepared::sbx_14_a_place_that_was_replaced_is_not_given,
        ),
        (
            "sbx_14_mounts_of_the_host_are_as_they_are_now",
            prepared::sbx_14_mounts_of_the_host_are_as_they_are_now,
        ),
        (
            "sbx_14_what_was_mounted_in_one_that_waits_is_noticed",
            prepared::sbx_14_what_was_mounted_in_one_that_waits_is_noticed,
        ),
        (
            "sbx_14_places_that_exchanged_their_names_are_noticed",
            prepared::sbx_14_places_that_exchanged_their_names_are_noticed,
        ),
        ("a_directory_that_went_is_asked_for_once", prepared::a_directory_that_went_is_asked_for_once),
        ("a_signal_right_after_the_word_arrives", prepared::a_signal_right_after_the_word_arrives),
        ("what_cannot_be_executed_is_told_as_that", prepared::what_cannot_be_executed_is_told_as_that),
        (
            "an_order_of_another_shape_gets_what_it_names",
            prepared::an_order_of_another_shape_gets_what_it_names,
        ),
        ("orders_wait_for_no_other", ordered::orders_wait_for_no_other),
        ("what_does_not_stand_yet_does_not_begin", ordered::what_does_not_stand_yet_does_not_begin),
        ("a_command_runs_and_its_end_is_told", a_command_runs_and_its_end_is_told),
        ("sbx_14_what_is_no_order_changes_nothing", sbx_14_what_is_no_order_changes_nothing),
        ("sbx_14_no_path_outside_the_roots_is_given", sbx_14_no_path_outside_the_roots_is_given),
        ("sbx_14_no_link_leads_out_of_a_root", sbx_14_no_link_leads_out_of_a_root),
        ("sbx_06_two_sandboxes_share_no_namespace", sbx_06_two_sandboxes_share_no_namespace),
        ("sbx_08_many_starts_and_kills_leave_nothing", sbx_08_many_starts_and_kills_leave_nothing),
        ("sbx_08_ten_thousand_starts_leak_nothing", sbx_08_ten_thousand_starts_leak_nothing),
        ("a_frozen_sandbox_stands_still_and_goes_on", a_frozen_sandbox_stands_still_and_goes_on),
        ("sbx_08_when_the_caller_goes_everything_goes", sbx_08_when_the_caller_goes_everything_goes),
        ("sbx_08_one_that_somebody_stopped_is_given_up", sbx_08_one_that_somebody_stopped_is_given_up),
        ("sbx_12_a_shape_is_attacked_once", sbx_12_a_shape_is_attacked_once),
        ("sbx_12_a_shape_that_does_not_hold_is_refused", sbx_12_a_shape_that_does_not_hold_is_refused),
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
        let (folder, place) = Self::folder();
        Self::beneath(folder, place, pool)
    }

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir_in("/tmp").unwrap();
        let place = folder.path().canonicalize().unwrap();
        for name in ["work", "home"] {
            std::fs::create_dir(place.join(name)).unwrap();
        }
        (folder, place)
    }

    /// The same with another root.
    fn beneath(folder: tempfile::TempDir, root: PathBuf, pool: usize) -> Self {
        let state = folder.path().canonicalize().unwrap().join("state");
        let spawner = Spawner::start(Options { roots: vec![root], pool, state }).unwrap();
        Self { spawner, folder }
    }

    /// How many shapes held.
    fn remembered(&self) -> usize {
        std::fs::read_dir(self.path("state/selftest")).map_or(0, Iterator::count)
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
        self.spawner
            .launch(Permit::own_process(), order, [null.as_fd(), writes.as_fd(), writes.as_fd()])
            .unwrap();
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

/// A count, scaled by `PALISADE_SCALE`: a twentieth unless told.
fn scaled(full: u32) -> u64 {
    let scale: f64 = std::env::var("PALISADE_SCALE").ok().and_then(|text| text.parse().ok()).unwrap_or(0.05);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of tries")]
    let count = (f64::from(full) * scale) as u64;
    count
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
    let tries = scaled(1_000_000);
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
    // The home is a path like any other.
    for path in ["work/link", "work/link/ssl", "work/../../../etc"] {
        let home = (stage.path("").join(path), "/home/agent".into());
        let order = Order { home, ..stage.order(&["true"]) };
        assert!(stage.start(order).is_err(), "{path} is given as the home");
    }
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

/// The control groups that sandboxes of a spawner are in now, by name.
fn groups_of(spawner: u32) -> BTreeSet<String> {
    let of = |pid: u32| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let names = text.lines().filter_map(|line| line.rsplit('/').next());
        names.filter(|name| name.starts_with("palisade-run_")).map(str::to_owned).collect::<Vec<_>>()
    };
    children(spawner).into_iter().flat_map(of).collect()
}

/// How many directories there are of these groups.
fn leftovers(names: &BTreeSet<String>) -> usize {
    let (mut found, mut folders) = (0, vec![PathBuf::from("/sys/fs/cgroup")]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                found += usize::from(names.contains(&*entry.file_name().to_string_lossy()));
                folders.push(entry.path());
            }
        }
    }
    found
}

/// The one process that was started since.
fn spawner_since(before: &[u32]) -> u32 {
    children(std::process::id()).into_iter().find(|pid| !before.contains(pid)).unwrap()
}

/// SBX-08: children that detach themselves are gone too.
fn sbx_08_many_starts_and_kills_leave_nothing() {
    let before = processes();
    let own = children(std::process::id());
    let mut groups = BTreeSet::new();
    {
        let stage = Stage::new(4);
        let spawner = spawner_since(&own);
        let began = Instant::now();
        for n in 0..40 {
            let script = "(setsid sh -c 'trap \"\" TERM HUP; sleep 1000 & sleep 1000' &) ; sleep 1000";
            let command: &[&str] = if n % 2 == 0 { &["sh", "-c", script] } else { &["true"] };
            let (run, _out) = stage.start(stage.order(command)).unwrap();
            groups.extend(groups_of(spawner));
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
    // Root has groups: the count counts something.
    assert!(!groups.is_empty() || !rustix::process::geteuid().is_root());
    assert_eq!(leftovers(&groups), 0, "control groups");
}

/// What a spawner has: descriptors, children, mounts, groups; and how many kibibytes of memory.
fn possessions(spawner: u32, groups: &BTreeSet<String>) -> (BTreeMap<&'static str, usize>, usize) {
    let entries = |path: String| std::fs::read_dir(path).unwrap().count();
    let status = std::fs::read_to_string(format!("/proc/{spawner}/status")).unwrap();
    let memory = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    let mounts = std::fs::read_to_string(format!("/proc/{spawner}/mountinfo")).unwrap();
    let own = BTreeMap::from([
        ("descriptors", entries(format!("/proc/{spawner}/fd"))),
        ("children", children(spawner).len()),
        ("mounts", mounts.lines().count()),
        ("groups", leftovers(groups)),
    ]);
    (own, memory.trim().trim_end_matches(" kB").parse().unwrap())
}

/// SBX-08: what a spawner has after its ten-thousandth sandbox is what it had after its first hundred.
fn sbx_08_ten_thousand_starts_leak_nothing() {
    let before = children(std::process::id());
    let stage = Stage::new(2);
    let spawner = spawner_since(&before);
    let groups = RefCell::new(BTreeSet::new());
    let start = |count: u64| {
        for _ in 0..count {
            let (run, _out) = stage.start(stage.order(&["true"])).unwrap();
            groups.borrow_mut().extend(groups_of(spawner));
            assert_eq!(stage.ended(&run), Ended::Code(0));
        }
    };
    let look = || {
        groups.borrow_mut().extend(groups_of(spawner));
        possessions(spawner, &groups.borrow())
    };
    // The most of everything that it has at any time: now and then one has to be reaped, or the pool to be filled.
    let (mut first, mut memory) = (BTreeMap::new(), 0);
    for _ in 0..100 {
        start(1);
        let (now, bytes) = look();
        for (what, count) in now {
            let most: &mut usize = first.entry(what).or_default();
            *most = count.max(*most);
        }
        memory = bytes.max(memory);
    }
    assert!(first["children"] > 0 && first["descriptors"] > 0, "{first:?}");
    start(scaled(10_000));
    let deadline = Instant::now() + Duration::from_secs(5);
    let is_more = |last: &BTreeMap<&str, usize>| last.iter().any(|(what, count)| *count > first[what]);
    let (mut last, mut more) = look();
    while is_more(&last) && Instant::now() < deadline {
        std::thread::yield_now();
        (last, more) = look();
    }
    assert!(!is_more(&last), "{first:?} became {last:?}");
    assert!(more <= memory + 1024, "{memory} KiB of memory became {more}");
    let work: Vec<_> = std::fs::read_dir(stage.path("work")).unwrap().collect();
    assert!(work.is_empty(), "{work:?}");
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

/// The children of a process.
fn children(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().map(|word| word.parse().unwrap()).collect()
}

fn state(pid: u32) -> Option<char> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    text.rsplit(") ").next()?.chars().next()
}

/// SBX-08: the spawner waits for none for ever; what does not come to stand is ended, and the next order is served.
fn sbx_08_one_that_somebody_stopped_is_given_up() {
    let before = children(std::process::id());
    let stage = Stage::new(1);
    let spawner = children(std::process::id()).into_iter().find(|pid| !before.contains(pid)).unwrap();
    // Now it knows whose files it makes sandboxes for, and keeps what it made ahead.
    let (run, _out) = stage.start(stage.order(&["true"])).unwrap();
    assert_eq!(stage.ended(&run), Ended::Code(0));
    let deadline = Instant::now() + Duration::from_secs(10);
    // Process 1 of another number space: the one in the pool, and not one that only lends its user namespace.
    let numbers = |pid: u32| std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    let is_begun = |pid: &u32| numbers(*pid).is_some_and(|found| Some(found) != numbers(spawner));
    // One that is begun, and one that stands already for another such order.
    let waiting: Vec<u32> = loop {
        let found: Vec<u32> = children(spawner).into_iter().filter(is_begun).collect();
        if found.len() == 2 {
            break found;
        }
        assert!(Instant::now() < deadline, "they do not wait: {found:?}");
        std::thread::yield_now();
    };
    for one in &waiting {
        let pid = rustix::process::Pid::from_raw(i32::try_from(*one).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    }
    while waiting.iter().any(|one| state(*one) != Some('T')) {
        assert!(Instant::now() < deadline, "they are not stopped");
        std::thread::yield_now();
    }
    let other = Order { pids: 63, ..stage.order(&["true"]) };
    let why = stage.start(other).unwrap_err();
    assert!(why.contains("did not stand after 10 seconds"), "{why}");
    let (run, _out) = stage.start(stage.order(&["true"])).unwrap();
    assert_eq!(stage.ended(&run), Ended::Code(0));
    let deadline = Instant::now() + Duration::from_secs(10);
    while waiting.iter().any(|one| state(*one).is_some()) {
        assert!(Instant::now() < deadline, "they are still there");
        std::thread::yield_now();
    }
}

/// SBX-12: a new shape is attacked before it is used, one that held is not attacked again.
fn sbx_12_a_shape_is_attacked_once() {
    let stage = Stage::new(1);
    let run = |order: Order| {
        let (run, _out) = stage.start(order).unwrap();
        assert_eq!(stage.ended(&run), Ended::Code(0));
    };
    assert_eq!(stage.remembered(), 0);
    run(stage.order(&["true"]));
    assert_eq!(stage.remembered(), 1);
    // Known without its file: by the spawner itself. Paths and sizes are no part of a shape.
    std::fs::remove_dir_all(stage.path("state")).unwrap();
    std::fs::create_dir(stage.path("work/sub")).unwrap();
    let sub = stage.path("work/sub");
    run(Order { directory: sub.clone(), write: vec![sub], pids: 32, ..stage.order(&["true"]) });
    assert_eq!(stage.remembered(), 0);
    // Whether processes may be traced is.
    run(Order { trace: true, ..stage.order(&["true"]) });
    assert_eq!(stage.remembered(), 1);
}

/// SBX-12: what an attack gets out of is not used, and the next order is served.
fn sbx_12_a_shape_that_does_not_hold_is_refused() {
    let (folder, _) = Stage::folder();
    let stage = Stage::beneath(folder, "/tmp".into(), 1);
    for _ in 0..2 {
        let ran = stage.path("work/it-ran");
        let order = stage.order(&["touch", ran.to_str().unwrap()]);
        let why = stage.start(Order { write: vec!["/tmp".into()], ..order }).unwrap_err();
        assert!(why.contains("does not hold"), "{why}");
        assert!(!ran.exists() && stage.remembered() == 0);
    }
    let (run, _out) = stage.start(stage.order(&["true"])).unwrap();
    assert_eq!(stage.ended(&run), Ended::Code(0));
}
