//! `palisade run` and its kin: what is typed, set, asked for by a project or tried inside, and what is said and kept of it.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::search::Search;
use crate::secrets::all;

/// A home with a project.
pub struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    pub fn new() -> Self {
        let folder = tempfile::tempdir_in("/tmp").unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::create_dir_all(folder.path().join("project")).unwrap();
        Self { folder }
    }

    pub fn project(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    pub fn state(&self) -> PathBuf {
        self.folder.path().join(".local/state/palisade")
    }

    pub fn palisade(&self, words: &[&str]) -> Command {
        let mut command = Command::new(tests::program("palisade"));
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", self.folder.path());
        command.current_dir(self.project()).args(words);
        command
    }

    /// Every text that is kept of runs, besides what agents wrote.
    pub fn kept(&self) -> Vec<(PathBuf, String)> {
        let mut found = Vec::new();
        for folder in ["receipts", "ledger", "ledger/segments"] {
            let entries = std::fs::read_dir(self.state().join(folder)).unwrap().map(Result::unwrap);
            // The reserve is room, filled with zeros.
            for entry in entries.filter(|entry| entry.file_name() != "reserve") {
                let text = std::fs::read(entry.path()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
                found.extend(text.map(|text| (entry.path(), text)));
            }
        }
        found
    }

    /// Writes a file of the project.
    pub fn file(&self, name: &str, text: &str) {
        let path = self.project().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

/// SEC-16: what a run is given, by a person or a project, is said and kept nowhere.
#[test]
fn sec_16_what_a_run_is_given_is_said_and_kept_nowhere() {
    let planted = all();
    let mut search = Search::new(&planted);
    let home = Home::new();
    let few = (planted.len() / tests::scale(planted.len(), 8)).max(1);
    for one in planted.iter().step_by(few) {
        let line = one.line();
        let l = line.as_str();
        let set = format!("APP_NOTE={l}");
        let (missing, value) = (format!("/nowhere/{l}"), one.alone().unwrap_or("other").replace('/', "_"));
        let words = one.text.replace('\'', "");
        let named = one.alone().unwrap_or("plain").to_owned();
        let login = format!("someone:{}", named.replace('\n', ""));
        let inside = format!("(true '{words}'; cat /nowhere-{value}; mkdir /{value}; exit 3) 2>/dev/null");
        let typed: Vec<Vec<&str>> = vec![
            // The command's own words and variables are scrubbed in what is kept of it; it says nothing itself.
            vec!["run", "--env", &set, "--", "sh", "-c", "cat >/dev/null", l],
            vec!["--json", "run", "--env", &set, "--", "true", l],
            vec!["run", "--overlay", "--", "sh", "-c", "cat >changed", l],
            // A word is a secret by the word before it, too.
            vec!["run", "--", "true", "--password", &named],
            vec!["run", "--overlay", "--", "true", "-H", "x", "--token", &named],
            vec!["run", "--", "sh", "-c", "true", "curl", "-u", &login],
            vec!["run", "--", &missing],
            vec!["--json", "run", "--", &missing],
            vec!["run", "--explain", "--", "sh", "-c", &inside],
            vec!["run", "--profile", l, "--", "true"],
            vec!["run", "--ro", &missing, "--", "true"],
            vec!["run", "--rw", &missing, "--", "true"],
            vec!["run", "--show", l, "--", "true"],
            vec!["run", "--limit", l, "--", "true"],
            vec!["run", "--env", l, "--", "true"],
            vec!["run", "--allow-degraded", l, "--", "true"],
            vec!["runs"],
            vec!["--json", "runs"],
            vec!["ps"],
            vec!["receipt", "show"],
            vec!["receipt", "verify"],
            vec!["profile", "show", l],
            vec!["shell", "--profile", l],
            vec!["freeze", l],
        ];
        for words in typed {
            let mut command = home.palisade(&words);
            command.env("GITHUB_TOKEN", &one.text);
            let encoded = one.encoded();
            command.envs(
                ["GITLAB_TOKEN", "MYSQL_PWD", "NPM_TOKEN"].iter().zip(encoded.iter().map(|(_, it)| &it.text)),
            );
            let output = tests::fed(&mut command, "");
            let place = format!(
                "what `palisade {} {}` says with {}",
                words[0],
                words.get(1).unwrap_or(&""),
                one.family
            );
            search.look(&place, &[output.stdout, output.stderr].concat());
        }
        // A project's own profile: what is wrong with it, and what it asks for.
        let quoted = one.text.replace('\\', "").replace('"', "'").replace('\n', " ");
        for profile in [
            one.text.clone(),
            format!("\"{quoted}\" = 1\n"),
            format!("read = [\"{quoted}\"]\n"),
            format!("worktree = \"{quoted}\"\n"),
            format!("[ask]\nset = {{ APP_NOTE = \"{quoted}\" }}\n"),
        ] {
            home.file(".palisade/profile.toml", &profile);
            for words in [
                &["run", "--", "true"][..],
                &["profile", "show"],
                &["profile", "check", ".palisade/profile.toml"],
            ] {
                let output = tests::fed(&mut home.palisade(words), "");
                let place = format!("what `palisade {}` says of a profile with {}", words[0], one.family);
                search.look(&place, &[output.stdout, output.stderr].concat());
            }
        }
        std::fs::remove_dir_all(home.project().join(".palisade")).unwrap();
    }
    search.look_below(&home.state());
    search.assert_clean();
}

/// Every process below this one, and whether it lives in another pid namespace.
fn below(top: u32) -> Vec<(u32, bool)> {
    let own = std::fs::read_link("/proc/self/ns/pid").unwrap();
    let parents: Vec<(u32, u32)> = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid: u32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            let parent = stat.rsplit(") ").next()?.split(' ').nth(1)?.parse().ok()?;
            Some((pid, parent))
        })
        .collect();
    let mut found = vec![top];
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        found.extend(parents.iter().filter(|(_, above)| *above == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    let elsewhere = |pid: &u32| std::fs::read_link(format!("/proc/{pid}/ns/pid")).is_ok_and(|ns| ns != own);
    found.into_iter().map(|pid| (pid, elsewhere(&pid))).collect()
}

/// SEC-16: what a person has in their environment is in no process inside, by argv or environment, as the host sees it.
#[test]
fn sec_16_no_process_inside_has_what_was_not_given() {
    let planted = all();
    let mut search = Search::new(&planted);
    let home = Home::new();
    let names = [
        "GITHUB_TOKEN",
        "MYSQL_PWD",
        "DATABASE_URL",
        "NETRC",
        "COOKIE",
        "MY_APIKEY",
        "LESSOPEN",
        "HTTPS_PROXY",
    ];
    for options in [&["run"][..], &["run", "--inherit-env"]] {
        let mut command = home.palisade(options);
        for (one, name) in planted.iter().zip(names) {
            // A proxy is an address; with a password in it, it stays out too.
            let is_proxy = name.ends_with("_PROXY");
            let value =
                if is_proxy { format!("http://ana:{}@proxy.example", one.text) } else { one.text.clone() };
            command.env(name, value);
        }
        for (one, names) in planted.iter().skip(names.len()).zip([
            ["GITLAB_TOKEN", "AWS_SECRET_ACCESS_KEY", "NPM_TOKEN"],
            ["PGPASSWORD", "AZURE_CLIENT_SECRET", "MY_PASSWORD"],
        ]) {
            let encoded = one.encoded();
            command.envs(names.iter().zip(encoded.iter().map(|(_, it)| &it.text)));
        }
        command.args(["--", "sh", "-c", "touch ready; while [ -e ready ]; do sleep 0.02; done"]);
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let ready = home.project().join("ready");
        let until = Instant::now() + Duration::from_secs(30);
        while !ready.exists() {
            assert!(Instant::now() < until && child.try_wait().unwrap().is_none(), "it did not start");
            std::thread::sleep(Duration::from_millis(5));
        }
        let inside: Vec<u32> =
            below(child.id()).into_iter().filter(|(_, inside)| *inside).map(|(pid, _)| pid).collect();
        assert!(inside.len() >= 2, "process 1 and the command: {inside:?}");
        for pid in inside {
            for name in ["cmdline", "environ"] {
                let path = format!("/proc/{pid}/{name}");
                search.look(&path, &std::fs::read(&path).unwrap_or_default());
            }
        }
        std::fs::remove_file(&ready).unwrap();
        assert!(child.wait().unwrap().success());
    }
    search.look_below(Path::new(&home.state()));
    search.assert_clean();
}
