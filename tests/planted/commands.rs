//! Every command of the client, as its own parser tells of them: one that is added fails here until somebody said how it is tried.
//!
//! Flow: the manual, which is made from the parser -> the commands that there are, each with its row in [`ROWS`] -> what `--help` says
//! that each takes -> each of these places filled with a secret -> what is said, and what is found afterwards. Invariant: no place is
//! named here by hand, so one that a command gets later is tried too.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use tests::Host;

use crate::daemon::{afterwards, host, sign_in};
use crate::search::Search;
use crate::secrets::all;

/// How a command is tried.
enum Row {
    /// A secret in each place that takes a value, and on standard input.
    Typed,
    /// The same, with nothing on standard input: what comes there is carried out or carried on, and belongs to what is run.
    TypedAlone,
    /// It takes nothing: what it says after all others is looked at.
    Says,
    /// The same of a command that fails on such a machine or installation.
    Complains,
    /// Not here, for this reason.
    Not(&'static str),
}

use Row::{Complains, Not, Says, Typed, TypedAlone};

const ROWS: &[(&str, Row)] = &[
    ("account password", Typed),
    ("account totp-off", Typed),
    ("account totp-on", Typed),
    ("acp", Typed),
    ("agent doctor", Typed),
    ("agent list", Says),
    ("apply", Typed),
    ("approval allow", Typed),
    ("approval consents", Typed),
    ("approval deny", Typed),
    ("approval list", Typed),
    ("approval revoke", Typed),
    ("backup create", Typed),
    ("backup encrypt-store", Complains),
    ("backup migrate-store", Complains),
    ("backup restore", Typed),
    ("budget list", Says),
    ("budget remove", Typed),
    ("budget set", Typed),
    ("budget usage", Typed),
    ("capability assign", Typed),
    ("capability fetch", Typed),
    ("capability history", Typed),
    ("capability list", Says),
    ("capability register", Typed),
    ("capability revoke", Typed),
    ("capability show", Typed),
    ("completions", Typed),
    ("config path", Says),
    ("config show", Says),
    ("deploy", Typed),
    ("diff", Typed),
    ("discard", Typed),
    ("doctor", Typed),
    ("env assign", Typed),
    ("env history", Typed),
    ("env list", Says),
    ("env register", Typed),
    ("env revoke", Typed),
    ("env show", Typed),
    ("freeze", Typed),
    ("init", Typed),
    ("key create", Typed),
    ("key list", Typed),
    ("key pair", Typed),
    ("key revoke", Typed),
    ("ledger export", Typed),
    ("ledger search", Typed),
    ("ledger tail", Typed),
    ("ledger trust", Says),
    ("ledger verify", Typed),
    ("login", Typed),
    ("logout", Not("takes nothing and says one word of ours; whoever tries the others stays signed in")),
    ("man", Typed),
    ("offline", Typed),
    ("pass list", Typed),
    ("pass mint", Typed),
    ("pass revoke", Typed),
    ("plan show", Typed),
    ("plan validate", Typed),
    ("policy add", Typed),
    ("policy explain", Typed),
    ("policy remove", Typed),
    ("policy show", Typed),
    ("policy template apply", Typed),
    ("policy template list", Says),
    ("policy template show", Typed),
    ("policy test", Typed),
    ("profile check", Typed),
    ("profile consent", Complains),
    ("profile forget", Typed),
    ("profile keys", Says),
    ("profile list", Says),
    ("profile remembered", Says),
    ("profile show", Typed),
    ("ps", Says),
    ("receipt key", Complains),
    ("receipt show", Typed),
    ("receipt verify", Typed),
    ("redact", Typed),
    ("repo add", Typed),
    ("repo delete", Typed),
    ("repo fetch", Typed),
    ("repo list", Says),
    ("repo show", Typed),
    ("rules", Typed),
    ("run", TypedAlone),
    ("runs", Says),
    ("secret add", Typed),
    ("secret import", Typed),
    ("secret list", Typed),
    ("secret remove", Typed),
    ("secret rotate", Typed),
    ("session attach", Typed),
    ("session close", Typed),
    ("session export", Typed),
    ("session fork", Typed),
    ("session import", Typed),
    ("session lineage", Typed),
    ("session list", Typed),
    ("session new", Typed),
    ("session prompt", Typed),
    ("session reorder", Typed),
    ("session resume", Typed),
    ("session show", Typed),
    ("session spawn", Typed),
    ("session stop", Typed),
    ("session undo", Typed),
    ("session usage", Typed),
    ("setup apparmor", Not("changes the machine, and takes no text")),
    ("shell", TypedAlone),
    ("status", Says),
    ("stop", Typed),
    ("subagent assign", Typed),
    ("subagent history", Typed),
    ("subagent list", Says),
    ("subagent register", Typed),
    ("subagent revoke", Typed),
    ("subagent show", Typed),
    ("thaw", Typed),
    ("up", Typed),
    ("user add", Typed),
    ("user delete", Typed),
    ("user disable", Typed),
    ("user enable", Typed),
    ("user list", Says),
    ("user reset-password", Typed),
    ("user show", Typed),
    ("user sign-out", Typed),
    ("user update", Typed),
    ("whoami", Says),
    ("worktree add-owner", Typed),
    ("worktree archive", Typed),
    ("worktree create", Typed),
    ("worktree delete", Typed),
    ("worktree diff", Typed),
    ("worktree files", Typed),
    ("worktree link", Typed),
    ("worktree list", Typed),
    ("worktree log", Typed),
    ("worktree merge", Typed),
    ("worktree push", Typed),
    ("worktree remove-owner", Typed),
    ("worktree restore", Typed),
    ("worktree sharing", Typed),
    ("worktree show", Typed),
    ("worktree tier", Typed),
    ("worktree update", Typed),
];

/// What every command takes; tried with `whoami` where everything is typed.
const EVERYWHERE: &[&str] = &["--config", "--url", "--ca", "--totp"];

/// Every command that can be carried out, by the pages that the parser makes.
fn commands() -> BTreeSet<String> {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(tests::program("palisade"));
    let made = command.args(["man", "--dir"]).arg(folder.path()).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let (mut groups, mut leaves) = (BTreeSet::new(), BTreeSet::new());
    for page in std::fs::read_dir(folder.path()).unwrap().map(Result::unwrap) {
        let name = page.file_name().into_string().unwrap();
        let Some(name) = name.trim_end_matches(".1").strip_prefix("palisade-") else { continue };
        let is_group = std::fs::read_to_string(page.path()).unwrap().contains(".SH SUBCOMMANDS");
        let kind = if is_group { &mut groups } else { &mut leaves };
        kind.insert(name.to_owned());
    }
    // `policy-template-show` is `policy template show`, and `worktree-add-owner` is `worktree add-owner`.
    let words = |leaf: &String| {
        let above = groups.iter().filter(|group| leaf.starts_with(&format!("{group}-")));
        let mut marks: Vec<usize> = above.map(String::len).collect();
        marks.sort_unstable();
        let mut name = leaf.clone();
        marks.iter().for_each(|at| name.replace_range(*at..=*at, " "));
        name
    };
    leaves.iter().map(words).filter(|name| name.split(' ').all(|word| word != "help")).collect()
}

/// What a command takes: what it has to have, as its usage writes it; options each with a value; those that read standard input.
#[derive(Debug, Default)]
struct Takes {
    needed: Vec<String>,
    options: Vec<String>,
    reads: Vec<String>,
}

impl Takes {
    fn of(name: &str) -> Self {
        let mut command = Command::new(tests::program("palisade"));
        let help = command.args(name.split(' ')).arg("--help").output().unwrap();
        let help = String::from_utf8(help.stdout).unwrap();
        let usage = help.lines().find_map(|line| line.strip_prefix("Usage: palisade ")).unwrap();
        let words = usage.split_whitespace().skip(name.split(' ').count());
        let needed = words.filter(|word| *word != "[OPTIONS]").map(str::to_owned).collect();
        let mut takes = Self { needed, ..Self::default() };
        for line in help.lines().filter(|line| line.starts_with("  ")) {
            // `-n, --lines <LINES>` or `--lines <LINES>`
            let line = line.trim_start();
            let line =
                if line.starts_with("--") { line } else { line.split_once(", ").map_or("", |both| both.1) };
            let mut words = line.split(' ');
            let Some(option) = words.next().filter(|word| word.starts_with("--")) else { continue };
            let value = words.next().unwrap_or_default();
            let is_known = EVERYWHERE.contains(&option) || takes.needed.iter().any(|one| one == option);
            match () {
                () if is_known => {}
                () if value.starts_with('<') || value.starts_with('[') => {
                    takes.options.push(option.to_owned());
                }
                () if option.ends_with("-stdin") => takes.reads.push(option.to_owned()),
                () => {}
            }
        }
        takes
    }

    /// What it has to have: a secret in one place, or wherever nothing is known that could stand there, or in all of them.
    fn filled(&self, at: Option<usize>, known: &[(&str, String)]) -> Vec<String> {
        let of = |word: &str| {
            let name = word.trim_matches(|c: char| !c.is_ascii_uppercase());
            known.iter().find(|(known, _)| *known == name).map(|(_, id)| id.clone())
        };
        let place = |(number, word): (usize, &String)| match of(word) {
            _ if word.starts_with("--") => word.clone(),
            Some(id) if at != Some(number) => id,
            _ => SECRET.to_owned(),
        };
        self.needed.iter().enumerate().map(place).collect()
    }

    /// The words to type, for each place some.
    fn lines(&self, known: &[(&str, String)]) -> Vec<Vec<String>> {
        let all = self.filled(None, &[]);
        let mut lines = Vec::new();
        lines.extend(all.contains(&SECRET.to_owned()).then_some(all));
        let places = self.needed.iter().enumerate().filter(|(_, word)| !word.starts_with("--"));
        lines.extend(places.map(|(number, _)| self.filled(Some(number), known)));
        let usual = self.filled(None, known);
        // As `--option=VALUE`, which no value can be taken out of.
        let options = self.options.iter().map(|option| format!("{option}={SECRET}"));
        lines.extend(
            options.chain(self.reads.iter().cloned()).map(|option| [vec![option], usual.clone()].concat()),
        );
        lines.dedup();
        lines
    }
}

/// Where the secret goes.
const SECRET: &str = "{SECRET}";

/// What can stand in places that need something that is there.
fn known(host: &Host) -> Vec<(&'static str, String)> {
    let worktree = host.tree(host.owner(), "demo", "session");
    let new = api::CreateSessionRequest {
        worktree: worktree.id.clone(),
        agent: "fake".into(),
        title: None,
        mode: None,
        model: None,
        command: Vec::new(),
    };
    let session = host.owner().client.create_session(&new).unwrap().id;
    let user = host.user("bo", "member").id;
    vec![("WORKTREE", worktree.id), ("REPO", worktree.repo), ("SESSION", session), ("USER", user)]
}

/// A command of somebody who is signed in, ended if it takes too long.
fn typed(host: &Host, cwd: &Path, words: &[String], input: &str) -> std::process::Output {
    let own = host.command("palisade");
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "120"]).arg(own.get_program()).args(own.get_args());
    command.env_clear().envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.args(["--url", host.base()]).args(words).current_dir(cwd);
    tests::fed(&mut command, input)
}

/// SEC-16: every command there is has its row.
#[test]
fn sec_16_no_command_is_left_out() {
    let known: BTreeSet<String> = ROWS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(known.len(), ROWS.len(), "a row stands there twice");
    let there = commands();
    assert!(there.len() > 100, "{there:?}");
    let missing: Vec<_> = there.difference(&known).collect();
    assert!(missing.is_empty(), "commands that nobody plants a secret in: {missing:?}");
    let gone: Vec<_> = known.difference(&there).collect();
    assert!(gone.is_empty(), "rows of commands that there are not: {gone:?}");
    for (name, row) in ROWS {
        let places = Takes::of(name).lines(&[]);
        match row {
            Typed | TypedAlone => {
                assert!(!places.is_empty(), "`{name}` takes nothing: it only says something")
            }
            Says | Complains => assert!(places.is_empty(), "`{name}` takes something: {places:?}"),
            Not(why) => assert!(why.len() > 20 && places.is_empty(), "`{name}`: {why}"),
        }
    }
    // The control: what `--help` says is read as it is meant.
    let run = Takes::of("run");
    assert!(run.options.iter().any(|one| one == "--env") && run.needed == ["<CMD>..."], "{run:?}");
    let tail = Takes::of("ledger tail");
    assert!(tail.options.iter().any(|one| one == "--lines"), "{tail:?}");
    let add = Takes::of("user add");
    assert!(add.reads.iter().any(|one| one == "--password-stdin"), "{add:?}");
    let explain = Takes::of("policy explain");
    assert_eq!(explain.filled(None, &[]), ["--action", SECRET]);
    let spawn = Takes::of("session spawn").lines(&[("SESSION", "ses_1".to_owned())]);
    assert!(spawn.contains(&vec!["ses_1".to_owned(), SECRET.to_owned()]), "{spawn:?}");
}

/// SEC-16: a secret in any place of any command is said and kept nowhere.
#[test]
fn sec_16_no_place_of_any_command_brings_a_secret_out() {
    let planted = all();
    let mut search = Search::new(&planted);
    let mut host = host().start();
    let known = known(&host);
    sign_in(&host);
    // What is written where a caller named a place is the caller's, and so is what is called by a secret there.
    let cwd = tempfile::tempdir().unwrap();
    let mut next = planted.iter().cycle();
    let rounds = tests::scale(planted.len() / 8, 1);
    let (mut tried, mut failed) = (0, 0);
    for _ in 0..rounds {
        for (name, row) in ROWS {
            let is_alone = matches!(row, TypedAlone);
            if !is_alone && !matches!(row, Typed) {
                continue;
            }
            for line in Takes::of(name).lines(&known) {
                let one = next.next().unwrap();
                let (family, text) = (one.family, one.line());
                let words = name.split(' ').map(str::to_owned);
                let words: Vec<String> =
                    words.chain(line.iter().map(|word| word.replace(SECRET, &text))).collect();
                let input = if is_alone { String::new() } else { format!("{text}\n{text}\n") };
                let output = typed(&host, cwd.path(), &words, &input);
                assert_ne!(output.status.code(), Some(124), "`palisade {name}` does not end: {line:?}");
                failed += usize::from(!output.status.success());
                tried += 1;
                let place = format!("what `palisade {name} {}` says with {family}", line.join(" "));
                search.look(&place, &[output.stdout, output.stderr].concat());
            }
        }
    }
    println!("{tried} lines were typed, {failed} of them refused");
    // Most are refused for the secret itself; the others were done, so that there is something to find.
    assert!(tried > 250 && failed + 10 <= tried, "{tried} lines, {failed} of them refused");
    for (name, row) in ROWS.iter().filter(|(_, row)| matches!(row, Says | Complains)) {
        let words: Vec<String> = name.split(' ').map(str::to_owned).collect();
        let output = typed(&host, cwd.path(), &words, "");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() || matches!(row, Complains), "`palisade {name}`: {said}");
        search.look(&format!("what `palisade {name}` says"), &[output.stdout, output.stderr].concat());
    }
    afterwards(&mut host, &mut search);
    search.assert_clean();
}
