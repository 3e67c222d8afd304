//! Sandboxes that stand before they are ordered: used where an order would have made the same, and only there.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use sandbox::spawner::{Answer, Order, Verb};
use sandbox::{Ended, Permit};

use super::{Stage, text};

/// One that stood before it was ordered has no words but its own name; the others have their command.
fn stood_before(pid: i32) -> bool {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap();
    words.split(|byte| *byte == 0).filter(|word| !word.is_empty()).count() == 1
}

impl Stage {
    /// Runs an order to its end: whether it stood before, what it printed, how it ended.
    fn whole(&self, order: Order) -> (bool, String, Ended) {
        let run = order.run.clone();
        let (reads, writes) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        let (input, feeds) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        rustix::io::write(&feeds, b"said\n").unwrap();
        drop(feeds);
        self.spawner
            .launch(Permit::own_process(), order, [input.as_fd(), writes.as_fd(), writes.as_fd()])
            .unwrap();
        drop(writes);
        let stood = match self.spawner.hear().unwrap() {
            Answer::Ready { account, .. } => {
                assert!(account.differences.is_empty(), "{:?}", account.differences);
                stood_before(account.pid)
            }
            other => panic!("{other:?}"),
        };
        self.spawner.go(run.clone()).unwrap();
        let ended = self.ended(&run);
        (stood, text(reads), ended)
    }

    /// Orders until one is used that stood before; what that printed.
    fn whole_from_one_that_stood(&self, order: impl Fn() -> Order) -> (String, Ended) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while Instant::now() < deadline {
            if let (true, said, ended) = self.whole(order()) {
                return (said, ended);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("none ever stood before")
    }
}

pub(crate) fn one_that_stood_before_is_like_any_other() {
    let script = "cat; echo \"$0 $# $2\"; env | sort; pwd; ls /proc/self/fd; cat /proc/self/status | grep -E \
        '^(Uid|Cap|NoNew|Seccomp)'; touch /tmp/x /home/agent/x here; ls / /tmp; exit 9";
    let order = |stage: &Stage| {
        let environment = vec![("PATH".into(), "/usr/bin:/bin".into()), ("WORD".into(), "a b\nc".into())];
        Order { environment, ..stage.order(&["sh", "-c", script, "name", "", "two words"]) }
    };
    let plain = |said: String| {
        // Each has a user of its own, and there was more or less in the home before.
        said.lines()
            .filter(|line| !line.starts_with("Uid"))
            .map(|line| format!("{line}\n"))
            .collect::<String>()
    };
    // Without a pool nothing is made ahead.
    let fresh = Stage::new(0);
    let (stood, said, ended) = fresh.whole(order(&fresh));
    assert!(!stood && said.starts_with("said\n") && ended == Ended::Code(9), "{said}");
    let said = said.replace(fresh.path("").to_str().unwrap(), "<place>/");
    let stage = Stage::new(4);
    let (other, ended) = stage.whole_from_one_that_stood(|| order(&stage));
    let other = other.replace(stage.path("").to_str().unwrap(), "<place>/");
    assert_eq!((plain(other), ended), (plain(said), Ended::Code(9)));
    assert!(stage.path("work/here").exists());
    let missing = stage.start(stage.order(&["no-such-program"])).unwrap_err();
    assert!(missing.contains("no-such-program"), "{missing}");
    // What process 1 has no room for is made anew.
    let mut many = vec!["sh", "-c", "echo $#", "sh"];
    many.resize(3004, "x");
    let (stood, said, _) = stage.whole(stage.order(&many));
    assert_eq!((stood, said.as_str()), (false, "3000\n"));
}

/// SBX-14: a place is what it is when it is ordered, not what it was when a sandbox was made ahead.
pub(crate) fn sbx_14_a_place_that_was_replaced_is_not_given() {
    let stage = Stage::new(4);
    let order = || stage.order(&["sh", "-c", "cat which; ls"]);
    std::fs::write(stage.path("work/which"), "old\n").unwrap();
    stage.whole_from_one_that_stood(order);
    for turn in 0..3 {
        // By now another one stands, with the old place in it.
        std::thread::sleep(Duration::from_millis(100));
        std::fs::rename(stage.path("work"), stage.path(&format!("old-{turn}"))).unwrap();
        std::fs::create_dir(stage.path("work")).unwrap();
        std::fs::write(stage.path("work/which"), format!("new {turn}\n")).unwrap();
        let (_, said, _) = stage.whole(order());
        assert_eq!(said, format!("new {turn}\nwhich\n"));
    }
    std::thread::sleep(Duration::from_millis(100));
    std::fs::rename(stage.path("work"), stage.path("kept")).unwrap();
    std::os::unix::fs::symlink("/etc", stage.path("work")).unwrap();
    stage.start(order()).unwrap_err();
}

pub(crate) fn an_order_of_another_shape_gets_what_it_names() {
    let stage = Stage::new(4);
    std::fs::create_dir(stage.path("other")).unwrap();
    std::fs::write(stage.path("other/file"), "other\n").unwrap();
    let first = || stage.order(&["sh", "-c", "ulimit -n; ls .."]);
    let second = || Order {
        files: 111,
        read: vec![stage.path("other")],
        ..stage.order(&[
            "sh",
            "-c",
            "ulimit -n; ls ..; cat ../other/file; echo x > ../other/file || echo refused",
        ])
    };
    for _ in 0..3 {
        let (_, ended) = stage.whole_from_one_that_stood(first);
        assert_eq!(ended, Ended::Code(0));
        let (stood, said, _) = stage.whole(second());
        assert!(
            !stood && said.starts_with("111\nother\nwork\nother\n") && said.ends_with("refused\n"),
            "{said}"
        );
        let (stood, said, _) = stage.whole(first());
        assert_eq!((stood, said.as_str()), (false, "256\nwork\n"));
    }
}

/// SBX-14: what was mounted on the host meanwhile, to hide something, hides it.
pub(crate) fn sbx_14_mounts_of_the_host_are_as_they_are_now() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root mounts");
        return;
    }
    let stage = Stage::new(4);
    std::fs::create_dir(stage.path("work/secrets")).unwrap();
    std::fs::write(stage.path("work/secrets/key"), "real\n").unwrap();
    let order = || stage.order(&["sh", "-c", "cat secrets/key || echo hidden"]);
    assert_eq!(stage.whole_from_one_that_stood(order).0, "real\n");
    std::thread::sleep(Duration::from_millis(100));
    let at = stage.path("work/secrets");
    rustix::mount::mount("none", &at, "tmpfs", rustix::mount::MountFlags::empty(), None::<&std::ffi::CStr>)
        .unwrap();
    let (_, said, _) = stage.whole(order());
    rustix::mount::unmount(&at, rustix::mount::UnmountFlags::DETACH).unwrap();
    assert!(said.ends_with("hidden\n"), "{said}");
    let (_, said, _) = stage.whole(order());
    assert_eq!(said, "real\n");
}

/// The parent of a process.
fn parent(pid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

/// Everything that this process' spawners have made.
fn made() -> Vec<i32> {
    let own = i32::try_from(std::process::id()).unwrap();
    let all = std::fs::read_dir("/proc").unwrap();
    all.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok())
        .filter(|pid| parent(*pid).and_then(parent) == Some(own))
        .collect()
}

/// Those that stand without a command.
fn standing() -> Vec<i32> {
    let is_one = |pid: &i32| {
        std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|words| words == b"palisade-init\0")
    };
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let found: Vec<i32> = made().into_iter().filter(is_one).collect();
        if !found.is_empty() {
            // Long enough that it was looked at; if it was not, less is shown.
            std::thread::sleep(Duration::from_millis(100));
            return found;
        }
        assert!(Instant::now() < deadline, "none stands");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// SBX-14: what was looked at ahead counts only as long as it is so.
pub(crate) fn sbx_14_what_was_mounted_in_one_that_waits_is_noticed() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root mounts");
        return;
    }
    let stage = Stage::new(4);
    let order = || stage.order(&["true"]);
    for change in ["mount -t tmpfs none /usr/share", "mount -o remount,bind,rw /usr"] {
        stage.whole_from_one_that_stood(order);
        for pid in standing() {
            let mut mount = std::process::Command::new("nsenter");
            mount.args(["-t", &pid.to_string(), "-m"]).args(change.split(' '));
            assert!(mount.status().unwrap().success(), "{change}");
        }
        let (stood, ..) = stage.whole(order());
        assert!(!stood, "it was used after `{change}`");
    }
}

/// SBX-14: the kernel does not tell of a directory above a mount that gets another name.
pub(crate) fn sbx_14_places_that_exchanged_their_names_are_noticed() {
    let stage = Stage::new(4);
    for name in ["a/x", "b/x"] {
        std::fs::create_dir_all(stage.path("work").join(name)).unwrap();
    }
    let order = || Order {
        read: vec![stage.path("work/a/x")],
        write: vec![stage.path("work"), stage.path("work/b/x")],
        ..stage.order(&[
            "sh",
            "-c",
            "touch a/x/p 2>/dev/null && echo a; touch b/x/p 2>/dev/null && echo b; true",
        ])
    };
    assert_eq!(stage.whole_from_one_that_stood(order).0, "b\n");
    for _ in 0..2 {
        standing();
        for (from, to) in [("a", "t"), ("b", "a"), ("t", "b")] {
            std::fs::rename(stage.path("work").join(from), stage.path("work").join(to)).unwrap();
        }
        let (stood, said, _) = stage.whole(order());
        assert_eq!((stood, said.as_str()), (false, "b\n"));
        stage.whole_from_one_that_stood(order);
    }
}

/// One that cannot come to stand is not made again and again.
pub(crate) fn a_directory_that_went_is_asked_for_once() {
    let stage = Stage::new(4);
    std::fs::create_dir(stage.path("work/sub")).unwrap();
    let order = || Order { directory: stage.path("work/sub"), ..stage.order(&["pwd"]) };
    stage.whole_from_one_that_stood(order);
    standing();
    std::fs::remove_dir(stage.path("work/sub")).unwrap();
    stage.start(order()).unwrap_err();
    // What was begun before is over, then nobody new comes.
    std::thread::sleep(Duration::from_millis(500));
    let before = made();
    let end = Instant::now() + Duration::from_secs(1);
    while Instant::now() < end {
        let new: Vec<i32> = made().into_iter().filter(|pid| !before.contains(pid)).collect();
        assert!(new.is_empty(), "{new:?}");
    }
}

pub(crate) fn a_signal_right_after_the_word_arrives() {
    let stage = Stage::new(4);
    for turn in 0..40 {
        // Every other time one stands already.
        if turn % 2 == 0 {
            std::thread::sleep(Duration::from_millis(30));
        }
        let order = stage.order(&["sleep", "1000"]);
        let run = order.run.clone();
        let null = std::fs::File::open("/dev/null").unwrap();
        stage.spawner.launch(Permit::own_process(), order, [null.as_fd(); 3]).unwrap();
        assert!(matches!(stage.spawner.hear().unwrap(), Answer::Ready { .. }));
        let early = Verb::Signal { run: run.clone(), signal: 15 };
        stage.spawner.say(&early).unwrap();
        assert!(matches!(stage.spawner.hear().unwrap(), Answer::Refused { .. }), "before the word");
        stage.spawner.go(run.clone()).unwrap();
        stage.spawner.say(&early).unwrap();
        assert_eq!(stage.ended(&run), Ended::Signal(15), "turn {turn}");
    }
}

pub(crate) fn what_cannot_be_executed_is_told_as_that() {
    use std::os::unix::fs::PermissionsExt;
    let stage = Stage::new(2);
    let program = stage.path("work/no-program");
    std::fs::write(&program, [0u8; 64]).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (_, _, ended) = stage.whole(stage.order(&["./no-program"]));
    assert!(matches!(ended, Ended::NotExecuted(_)), "{ended:?}");
}
