//! `palisade setup apparmor` (SBX-10, SBX-11): on a machine that is a directory, with a parser that is a script.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

const USER: u32 = 12_399;

/// A machine with AppArmor that keeps programs from user namespaces, and with palisade in `/usr/bin`.
struct Machine(tempfile::TempDir);

impl Machine {
    /// None, and it is told, where this is not root: programs must be root's.
    fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            tests::cannot_run("only root has programs that nobody else can change");
            return None;
        }
        let machine = Self(tempfile::tempdir().unwrap());
        fs::set_permissions(machine.0.path(), fs::Permissions::from_mode(0o755)).unwrap();
        machine.put("sys/module/apparmor/parameters/enabled", "Y\n", 0o644);
        machine.put("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n", 0o644);
        machine.put("etc/apparmor.d/other", "profile other /usr/bin/other {}\n", 0o644);
        machine.parser("exit 0");
        fs::create_dir_all(machine.at("usr/bin")).unwrap();
        fs::copy(tests::program("palisade"), machine.at("usr/bin/palisade")).unwrap();
        Some(machine)
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn put(&self, path: &str, text: &str, mode: u32) {
        fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        fs::write(self.at(path), text).unwrap();
        fs::set_permissions(self.at(path), fs::Permissions::from_mode(mode)).unwrap();
    }

    /// A parser that writes down what it is told, then does this.
    fn parser(&self, then: &str) {
        let told = self.at("told");
        let script = format!("#!/bin/sh\necho \"$1\" >> {0}\ncat \"$2\" >> {0}\n{then}\n", told.display());
        self.put("usr/sbin/apparmor_parser", &script, 0o755);
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.at("usr/bin/palisade"));
        command.args(["--json", "setup", "apparmor", "--root"]).arg(self.0.path()).args(words);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", self.at("root"));
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// What it says if it succeeds.
    #[track_caller]
    fn ok(&self, words: &[&str]) -> Value {
        let output = self.run(words);
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(output.status.success() && document["ok"] == true, "{document}");
        assert_eq!(document["command"], "setup apparmor");
        document["result"].clone()
    }

    /// Refused with these words, and nothing changed.
    #[track_caller]
    fn refuses(&self, command: &mut Command, words: &str) {
        let before = self.profiles();
        let output = command.output().unwrap();
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(1), "{document}");
        let said = document["error"]["message"].as_str().unwrap();
        assert!(said.contains(words), "`{words}` is not in: {said}");
        assert_eq!(self.profiles(), before);
    }

    /// The same, and the ledger has exactly one entry more, which says so.
    #[track_caller]
    fn refuses_on_record(&self, arguments: &[&str], words: &str) {
        let before = self.ledger().len();
        self.refuses(&mut self.command(arguments), words);
        let after = self.ledger();
        assert_eq!((after.len(), after.last().unwrap().1.as_str()), (before + 1, "refused"));
    }

    /// Every file where profiles are, whole.
    fn profiles(&self) -> Vec<(PathBuf, String)> {
        let Ok(folder) = fs::read_dir(self.at("etc/apparmor.d")) else { return Vec::new() };
        let mut all: Vec<_> = folder
            .map(|entry| entry.unwrap().path())
            .map(|path| (path.clone(), fs::read_to_string(path).unwrap()))
            .collect();
        all.sort();
        all
    }

    fn profile(&self) -> Option<String> {
        fs::read_to_string(self.at("etc/apparmor.d/palisade")).ok()
    }

    /// Actions and decisions on root's ledger.
    fn ledger(&self) -> Vec<(String, String)> {
        let folder = self.at("root/.local/state/palisade/ledger");
        let Ok(entries) = ledger::read(&folder, 1) else { return Vec::new() };
        let told = |entry: ledger::Entry| (entry.action, entry.decision.word().to_owned());
        entries.map(|stored| told(stored.unwrap().entry)).collect()
    }
}

fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter().map(|(action, decision)| ((*action).to_owned(), (*decision).to_owned())).collect()
}

#[test]
fn sbx_10_the_profile_names_this_program_is_loaded_and_is_taken_back() {
    let Some(machine) = Machine::new() else { return };
    let before = machine.profiles();
    let shown = machine.ok(&["--print"]);
    assert_eq!(machine.profiles(), before, "only shown");
    assert!(machine.ledger().is_empty());

    let done = machine.ok(&[]);
    assert_eq!((&done["written"], &done["loaded"]), (&true.into(), &true.into()), "{done}");
    let profile = machine.profile().unwrap();
    assert_eq!(shown["profile"], profile.as_str());
    assert!(
        profile.contains("profile palisade /usr/bin/palisade flags=(unconfined) {\n  userns,\n"),
        "{profile}"
    );
    assert_eq!(fs::read_to_string(machine.at("told")).unwrap(), format!("--replace\n{profile}"));
    assert_eq!(
        fs::metadata(machine.at("etc/apparmor.d/palisade")).unwrap().permissions().mode() & 0o777,
        0o644
    );
    assert_eq!(machine.profiles().len(), before.len() + 1, "nothing half-made is left");
    assert_eq!(machine.ledger(), pairs(&[("setup.apparmor", "allowed"), ("setup.apparmor", "done")]));
    machine.ok(&[]);
    assert_eq!(machine.profile().unwrap(), profile, "again is the same");

    fs::remove_file(machine.at("told")).unwrap();
    assert_eq!(machine.ok(&["--remove"])["removed"], true);
    assert_eq!(fs::read_to_string(machine.at("told")).unwrap(), format!("--remove\n{profile}"));
    assert_eq!(machine.profiles(), before, "and nothing else is gone");
    assert_eq!(machine.ledger().last(), pairs(&[("setup.apparmor.remove", "done")]).last());
    assert_eq!(machine.ok(&["--remove"])["removed"], false);
}

#[test]
fn sbx_10_a_profile_that_the_parser_refuses_is_not_there() {
    let Some(machine) = Machine::new() else { return };
    machine.parser("echo 'no abi/4.0' >&2; exit 1");
    machine.refuses(&mut machine.command(&[]), "no abi/4.0");
    assert_eq!(machine.ledger(), pairs(&[("setup.apparmor", "allowed"), ("setup.apparmor", "failed")]));
    // Where there is a profile of ours, the old one stays.
    machine.parser("exit 0");
    machine.ok(&[]);
    machine.parser("exit 1");
    machine.refuses(&mut machine.command(&[]), "apparmor_parser --replace");
    // Without a parser it is written and not loaded.
    fs::remove_file(machine.at("usr/sbin/apparmor_parser")).unwrap();
    fs::remove_file(machine.at("etc/apparmor.d/palisade")).unwrap();
    let done = machine.ok(&[]);
    assert_eq!((&done["written"], &done["loaded"]), (&true.into(), &false.into()), "{done}");
}

#[test]
fn sbx_10_no_profile_for_a_program_that_others_can_change() {
    let Some(machine) = Machine::new() else { return };
    let chmod =
        |path: &str, mode| fs::set_permissions(machine.at(path), fs::Permissions::from_mode(mode)).unwrap();
    let chown = |path: &str, user| std::os::unix::fs::chown(machine.at(path), Some(user), None).unwrap();
    for path in ["usr/bin/palisade", "usr/bin", "usr", ""] {
        for open in [0o777, 0o775] {
            chmod(path, open);
            machine.refuses_on_record(&[], "can be changed by others than root");
            chmod(path, 0o755);
        }
        chown(path, USER);
        machine.refuses_on_record(&[], "can be changed by others than root");
        chown(path, 0);
    }
    // A name that AppArmor would read as a pattern.
    fs::rename(machine.at("usr/bin"), machine.at("usr/b*n")).unwrap();
    let mut command = Command::new(machine.at("usr/b*n/palisade"));
    command
        .args(["--json", "setup", "apparmor", "--root"])
        .arg(machine.0.path())
        .env("HOME", machine.at("root"));
    machine.refuses(&mut command, "mean something to AppArmor");
    assert!(!machine.at("told").exists());
}

#[test]
fn sbx_10_what_is_not_ours_is_left_alone() {
    let Some(machine) = Machine::new() else { return };
    machine.put("etc/apparmor.d/palisade", "profile palisade /usr/bin/palisade { deny userns, }\n", 0o644);
    machine.refuses_on_record(&[], "was not written by this command");
    machine.refuses_on_record(&["--remove"], "was not written by this command");
    fs::remove_file(machine.at("etc/apparmor.d/palisade")).unwrap();
    std::os::unix::fs::symlink("other", machine.at("etc/apparmor.d/palisade")).unwrap();
    machine.refuses_on_record(&[], "etc/apparmor.d/palisade");
    assert!(!machine.at("told").exists());
}

#[test]
fn sbx_11_where_it_does_not_apply_it_says_what_to_do() {
    let Some(machine) = Machine::new() else { return };
    machine.refuses(machine.command(&[]).uid(USER).gid(USER), "sudo -H");
    machine.refuses(machine.command(&["--remove"]).uid(USER).gid(USER), "sudo -H");
    let shown = machine.command(&["--print"]).uid(USER).gid(USER).output().unwrap();
    assert!(shown.status.success(), "{shown:?}");
    // Somebody else's state, as some `sudo` leaves it.
    fs::create_dir(machine.at("home")).unwrap();
    std::os::unix::fs::chown(machine.at("home"), Some(USER), Some(USER)).unwrap();
    machine.refuses(machine.command(&[]).env("HOME", machine.at("home")), "sudo -H");
    assert_eq!(fs::read_dir(machine.at("home")).unwrap().count(), 0);
    // Nothing is kept from anything.
    machine.put("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "0\n", 0o644);
    assert_eq!(machine.ok(&[])["written"], false);
    assert!(machine.profile().is_none());
    machine.put("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n", 0o644);
    machine.put("sys/module/apparmor/parameters/enabled", "N\n", 0o644);
    machine.refuses(&mut machine.command(&[]), "palisade doctor");
    machine.put("sys/module/apparmor/parameters/enabled", "Y\n", 0o644);
    fs::remove_dir_all(machine.at("etc/apparmor.d")).unwrap();
    machine.refuses(&mut machine.command(&[]), "install the package `apparmor`");
    assert!(machine.ledger().is_empty() && !machine.at("told").exists());
}

/// `sudo` can keep the home of whoever called: files of root there would lock that person out.
#[test]
fn a_run_of_root_leaves_nothing_in_somebody_elses_home() {
    let Some(machine) = Machine::new() else { return };
    let (home, work) = (machine.at("home"), machine.at("work"));
    for folder in [&home, &work] {
        fs::create_dir(folder).unwrap();
    }
    std::os::unix::fs::chown(&home, Some(USER), Some(USER)).unwrap();
    let run = |home: &Path| {
        let mut command = Command::new(tests::program("palisade"));
        command.args(["run", "--", "true"]).current_dir(&work).env("HOME", home);
        command.env_remove("XDG_STATE_HOME").env_remove("XDG_CONFIG_HOME").output().unwrap()
    };
    let refused = run(&home);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(125) && said.contains("sudo -H"), "{said}");
    assert_eq!(fs::read_dir(&home).unwrap().count(), 0);
    // The control: in root's own it runs.
    let done = run(&machine.at("root-home"));
    assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
}
