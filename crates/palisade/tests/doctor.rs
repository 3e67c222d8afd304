//! `palisade doctor`, and `palisade run` on machines that lack a layer or break a shape (SBX-10, SBX-11, SBX-12).
//!
//! Machines are simulated for real: this program puts a seccomp filter on itself, as an outer container does, and
//! becomes `palisade` under it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "what helps tests fails as they do")]

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

const CALLS: &str = "DOCTOR_TEST_CALLS";
const WORDS: &str = "DOCTOR_TEST_WORDS";
const SECRET: &str = "hunter2-very-secret";

const FSOPEN: u32 = 430;
const CLONE3: u32 = 435;
const MOUNT_SETATTR: u32 = 442;
const LANDLOCK: u32 = 444;
const SECCOMP: u32 = 317;
const SETHOSTNAME: u32 = 170;
const IOCTL: u32 = 16;
const UNSHARE: u32 = 272;
const EPERM: u16 = 1;
const EINVAL: u16 = 22;
const ENOSYS: u16 = 38;
const EOPNOTSUPP: u16 = 95;

/// A home and a worktree that nobody else uses.
struct Place {
    folder: tempfile::TempDir,
    program: PathBuf,
    user: Option<u32>,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // A copy, because somebody may build it anew meanwhile, and then it is another program.
        let program = folder.path().join("palisade");
        std::fs::copy(env!("CARGO_BIN_EXE_palisade"), &program).unwrap();
        for name in ["home", "work"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self { folder, program, user: None }
    }

    /// The same for somebody who is not root; none if the caller is not root and so is that already.
    fn of_user() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let user = 61_234;
        let mut place = Self::new();
        for path in [place.folder.path(), &place.program] {
            std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
        }
        for name in ["home", "work"] {
            std::os::unix::fs::chown(place.path(name), Some(user), Some(user)).unwrap();
        }
        place.user = Some(user);
        Some(place)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn dress<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.current_dir(self.path("work")).env_clear().env("HOME", self.path("home"));
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HTTPS_PROXY", format!("http://ana:{SECRET}@proxy.example:3128"))
            .env("ANTHROPIC_API_KEY", SECRET)
    }

    fn palisade(&self, words: &[&str]) -> Output {
        self.dress(&mut Command::new(&self.program)).args(words).output().unwrap()
    }

    /// The same where these calls fail with these errors.
    fn under(&self, calls: &[(u32, u16)], words: &[&str]) -> Output {
        let calls: Vec<String> = calls.iter().map(|(call, error)| format!("{call}={error}")).collect();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([
            "becomes_palisade_under_a_filter",
            "--exact",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ]);
        self.dress(&mut command).env(CALLS, calls.join(",")).env(WORDS, words.join("\n")).output().unwrap()
    }

    fn remembered(&self) -> usize {
        std::fs::read_dir(self.path("home/.local/state/palisade/selftest")).map_or(0, Iterator::count)
    }
}

#[test]
#[ignore = "run by the others, in a process of its own"]
fn becomes_palisade_under_a_filter() {
    let calls = std::env::var(CALLS).unwrap();
    let calls: Vec<(u32, u16)> = calls
        .split(',')
        .filter_map(|pair| pair.split_once('='))
        .map(|(call, error)| (call.parse().unwrap(), error.parse().unwrap()))
        .collect();
    let words = std::env::var(WORDS).unwrap();
    println!();
    sandbox::probe::refuse_calls(&calls).unwrap();
    let error = Command::new(env!("CARGO_BIN_EXE_palisade"))
        .args(words.lines())
        .env_remove(CALLS)
        .env_remove(WORDS)
        .exec();
    panic!("{error}");
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The one document on standard output.
fn json(output: &Output) -> Value {
    let text = text(&output.stdout);
    let line = text.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{output:?}"));
    serde_json::from_str(line).unwrap()
}

/// The check of this id.
fn check(document: &Value, id: &str) -> Value {
    let checks =
        document.pointer("/result/checks").and_then(Value::as_array).unwrap_or_else(|| panic!("{document}"));
    checks
        .iter()
        .find(|check| check.get("id").is_some_and(|own| own == id))
        .cloned()
        .unwrap_or_else(|| panic!("no {id}: {document}"))
}

#[test]
fn sbx_11_doctor_says_that_this_machine_is_fit_and_shows_no_secret() {
    for place in [Some(Place::new()), Place::of_user()].into_iter().flatten() {
        let shown = place.palisade(&["doctor"]);
        assert_eq!(shown.status.code(), Some(0), "{shown:?}");
        assert!(text(&shown.stdout).contains("user_namespaces"), "{shown:?}");
        let told = place.palisade(&["--json", "doctor"]);
        let document = json(&told);
        assert_eq!(document["ok"], true, "{document}");
        for id in ["user_namespaces", "network_namespace", "mounts", "proc", "landlock", "seccomp", "overlay"]
        {
            assert_eq!(check(&document, id)["status"], "ok", "{document}");
        }
        for output in [shown, told] {
            assert!(!text(&output.stdout).contains(SECRET) && !text(&output.stderr).contains(SECRET));
        }
        assert!(!place.path("home/.local/state/palisade").exists(), "looking leaves nothing behind");
    }
}

#[test]
fn doctor_removes_what_a_killed_run_left() {
    let place = Place::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_palisade"));
    let mut run = place.dress(&mut command).args(["run", "--", "sleep", "60"]).spawn().unwrap();
    let stub = place.path("work/.envrc");
    let begun = std::time::Instant::now();
    while !(stub.exists()
        && place
            .path("home/.local/state/palisade/live")
            .read_dir()
            .is_ok_and(|mut live| live.next().is_some()))
    {
        assert!(begun.elapsed().as_secs() < 20, "no stub was made");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    run.kill().unwrap();
    run.wait().unwrap();
    assert!(stub.exists(), "nobody was left to remove it");
    // The process that kept covers has the page for a moment longer.
    std::thread::sleep(std::time::Duration::from_millis(500));
    let output = place.palisade(&["--json", "doctor"]);
    let removed = json(&output)["result"]["removed"].to_string();
    assert!(removed.contains(".envrc"), "{removed}");
    assert!(!stub.exists());
}

#[test]
fn sbx_11_doctor_under_an_outer_filter_names_it() {
    let place = Place::new();
    let rows = [
        (CLONE3, EPERM, "user_namespaces", "seccomp filter"),
        (FSOPEN, EPERM, "mounts", "seccomp filter"),
        (MOUNT_SETATTR, ENOSYS, "mounts", "seccomp filter"),
        (LANDLOCK, ENOSYS, "landlock", "seccomp filter"),
        (LANDLOCK, EOPNOTSUPP, "landlock", "`lsm=`"),
        (SECCOMP, EPERM, "seccomp", "seccomp filter"),
    ];
    for (call, error, id, cause) in rows {
        let output = place.under(&[(call, error)], &["--json", "doctor"]);
        let document = json(&output);
        let found = check(&document, id);
        assert_eq!(output.status.code(), Some(1), "{document}");
        assert_eq!(
            (&found["status"], &found["severity"]),
            (&"fails".into(), &"required".into()),
            "{document}"
        );
        assert!(found["cause"].as_str().unwrap().contains(cause), "{found}");
        assert!(!found["fix"].as_str().unwrap().is_empty(), "{found}");
    }
}

#[test]
fn sbx_11_doctor_in_a_namespace_without_more_of_them_names_the_sysctl() {
    let place = Place::of_user().unwrap_or_else(Place::new);
    let kinds = [
        ("user", "user_namespaces"),
        ("mnt", "mount_namespace"),
        ("pid", "pid_namespace"),
        ("net", "network_namespace"),
        ("ipc", "ipc_namespace"),
        ("uts", "uts_namespace"),
        ("cgroup", "cgroup_namespace"),
    ];
    for (kind, id) in kinds {
        let within = |words: &str| {
            let script = format!("echo 0 > /proc/sys/user/max_{kind}_namespaces && exec \"$0\" {words}");
            let mut command = Command::new("unshare");
            command
                .args(["--user", "--map-current-user", "--keep-caps", "sh", "-c", &script])
                .arg(&place.program);
            place.dress(&mut command).output().unwrap()
        };
        let output = within("--json doctor");
        let found = check(&json(&output), id);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let key = format!("user.max_{kind}_namespaces");
        assert!(found["cause"].as_str().unwrap().contains(&format!("`{key}` is 0")), "{found}");
        assert!(found["fix"].as_str().unwrap().contains(&format!("sysctl -w {key}=")), "{found}");
        // What a run says about it, too.
        let output = within("run -- true");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{kind}: {output:?}");
        assert!(said.contains(&format!("sysctl -w {key}=")), "{kind}: {said}");
    }
}

#[test]
fn sbx_10_a_missing_layer_refuses_the_run_and_names_layer_and_remedy() {
    let rows = [
        (CLONE3, EPERM, "user namespaces"),
        (SETHOSTNAME, EPERM, "uts namespace"),
        (IOCTL, EPERM, "network namespace"),
        (UNSHARE, EPERM, "mount namespace"),
        (FSOPEN, ENOSYS, "mounts"),
        (MOUNT_SETATTR, EPERM, "mounts"),
        (LANDLOCK, ENOSYS, "landlock"),
        (LANDLOCK, EOPNOTSUPP, "landlock"),
        (SECCOMP, EINVAL, "seccomp"),
    ];
    for (call, error, layer) in rows {
        let place = Place::new();
        let output = place.under(&[(call, error)], &["run", "--", "touch", "it-ran"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{call}: {output:?}");
        assert!(said.contains(layer) && said.contains("to fix it: "), "{call}: {said}");
        assert!(!place.path("work/it-ran").exists(), "{call}: warned and ran");
        assert_eq!(place.remembered(), 0, "{call}");
    }
}

#[test]
fn sbx_10_a_layer_is_left_out_only_by_name_and_that_is_shown() {
    let place = Place::new();
    let missing = [(LANDLOCK, ENOSYS)];
    let output = place.under(&missing, &["run", "--allow-degraded", "landlock", "--", "touch", "it-ran"]);
    let said = text(&output.stderr);
    assert!(said.contains("palisade: DEGRADED: landlock is off because of --allow-degraded"), "{said}");
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(place.path("work/it-ran").exists(), "{said}");
    let receipt = place.palisade(&["receipt", "show"]);
    let receipt = text(&receipt.stdout);
    assert!(receipt.contains("DEGRADED") && receipt.contains("off because of --allow-degraded"), "{receipt}");
    let output = place.palisade(&["--json", "run", "--allow-degraded", "seccomp,landlock", "--", "true"]);
    assert_eq!(json(&output)["result"]["degraded"], serde_json::json!(["seccomp", "landlock"]), "{output:?}");
    // Another layer than the one that is missing.
    let output = place.under(&missing, &["run", "--allow-degraded", "seccomp", "--", "touch", "again"]);
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    assert!(!place.path("work/again").exists());
    let output = place.palisade(&["run", "--allow-degraded", "mounts", "--", "true"]);
    assert_eq!(output.status.code(), Some(2), "only some layers can be left out: {output:?}");
}

#[test]
fn sbx_12_the_built_in_shapes_hold_for_root_and_for_others() {
    for place in [Some(Place::new()), Place::of_user()].into_iter().flatten() {
        for profile in ["dev", "strict", "read-only"] {
            let output = place.palisade(&["--json", "doctor", "--self-test", "--profile", profile]);
            let test = json(&output)["result"]["self_test"].clone();
            assert_eq!(test["through"], 0, "{profile}: {test:#}\n{output:?}");
            assert!(test["attacks"].as_array().unwrap().len() >= 30, "{test}");
            println!("{profile}: {} us", test["micros"]);
        }
    }
}

#[test]
fn sbx_12_a_shape_is_attacked_once_and_says_nothing() {
    for place in [Some(Place::new()), Place::of_user()].into_iter().flatten() {
        for _ in 0..2 {
            let output = place.palisade(&["run", "--", "true"]);
            assert_eq!(output.status.code(), Some(0), "{output:?}");
            assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{output:?}");
            assert_eq!(place.remembered(), 1);
        }
        // `strict` needs control groups, which not every user has.
        let output = place.palisade(&["run", "--profile", "strict", "--", "true"]);
        match output.status.code() {
            Some(0) => assert_eq!(place.remembered(), 2),
            _ => {
                let said = text(&output.stderr);
                assert!(said.contains("control groups: ") && said.contains("Delegate=yes"), "{said}");
            }
        }
    }
}

#[test]
fn sbx_12_a_shape_that_does_not_hold_never_runs_a_command() {
    let place = Place::new();
    // With another configuration than the one in `/etc`, which is never given.
    let config = place.path("own/config.toml");
    let config = config.to_str().unwrap();
    let output = place.palisade(&["--config", config, "run", "--rw", "/etc", "--", "touch", "it-ran"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("`see-host-places`") && said.contains("got through"), "{said}");
    assert!(!place.path("work/it-ran").exists());
    assert_eq!(place.remembered(), 0);
}

#[test]
fn sbx_12_the_attacks_are_for_the_inside_only() {
    let place = Place::new();
    let output = place.palisade(&["--self-probe"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stderr).contains("inside of a sandbox only"), "{output:?}");
    assert!(!Path::new("/run/palisade-canary").exists());
}
