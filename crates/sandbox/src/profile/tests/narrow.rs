//! A repository's own profile only narrows.

use proptest::prelude::*;

use super::*;

const OWN: Own<'static> = &[(
    "own",
    "base = \"dev\"\nread = [\"/opt/sdk\", \"/data\", \"./vendor\"]\nwrite = [\"/data/out\", \"/opt/sdk/cache\", \"~/scratch\"]\n\
     environment = [\"AWS_*\", \"APP_MODE\"]\nhide = [\"*.secret\", \"*.key\"]\nshow = [\"demo.key\", \"*.example.key\"]\n\
     unprotect = [\".vscode/\"]\n[limits]\nmemory = \"4g\"\ncpu = 4\nwall = \"2h\"\n",
)];

fn with(name: &str, text: &str, consented: bool) -> Resolved {
    resolve_with(name, OWN, Some(&project(text).unwrap()), consented, &Flags::default()).unwrap()
}

/// Paths, names and variables at which two profiles are compared.
const PATHS: &[&str] = &[
    "/",
    "/opt",
    "/opt/sdk",
    "/opt/sdk/bin/x",
    "/opt/sdk/cache",
    "/opt/sdk/cache/deep/x",
    "/data",
    "/data/in",
    "/data/out",
    "/data/out/a/b",
    "/home/ana",
    "/home/ana/.ssh",
    "/home/ana/scratch",
    "/home/ana/scratch/x",
    "/home/ana/work/shop",
    "/home/ana/work/shop/src/x",
    "/home/ana/work/shop/vendor",
    "/home/ana/work/shop/vendor/x",
    "/home/ana/work/shop/target/x",
    "/home/ana/work",
    "/etc/shadow",
    "/var/lib",
];
const NAMES: &[&str] = &[
    ".env",
    ".env.local",
    ".env.test",
    "x.key",
    "demo.key",
    "a.example.key",
    "x.secret",
    "x.pem",
    "id_rsa",
    "main.rs",
];
const VARIABLES: &[&str] =
    &["TERM", "LC_ALL", "AWS_REGION", "AWS_SECRET_ACCESS_KEY", "APP_MODE", "GITHUB_TOKEN", "A", "PATH"];

/// Every way in which `after` allows more than `before`.
fn wider(before: &Profile, after: &Profile) -> Vec<String> {
    let mut found = Vec::new();
    let mut tell = |wider: bool, what: &str| {
        if wider {
            found.push(what.to_owned());
        }
    };
    tell(after.worktree > before.worktree, "worktree");
    for path in PATHS {
        tell(at(after, path) > at(before, path), path);
    }
    for entry in after.read.iter().chain(&after.write) {
        let path = entry.path.to_str().unwrap();
        tell(at(after, path) > at(before, path), path);
        let new = !before.read.iter().chain(&before.write).any(|old| old.path == entry.path);
        tell(new && before.guards(&entry.path, &roots()), "a mount of what is protected");
        tell(
            new && before.hidden.hides(entry.path.file_name().unwrap().as_encoded_bytes()),
            "a mount of what is hidden",
        );
        let named = before.read.iter().chain(&before.write).any(|old| entry.within == old.within);
        tell(!named && entry.within != roots().worktree, "within");
    }
    for name in NAMES {
        tell(before.hidden.hides(name.as_bytes()) && !after.hidden.hides(name.as_bytes()), name);
    }
    tell(before.protect.iter().any(|held| !after.protect.contains(held)), "protect");
    tell(after.unprotect.iter().any(|open| !before.unprotect.contains(open)), "unprotect");
    for name in VARIABLES {
        tell(after.passes(name) && !before.passes(name), name);
    }
    tell(
        after.environment.iter().any(|new| !before.environment.iter().any(|old| old.covers(new))),
        "environment",
    );
    tell(after.inherit && !before.inherit, "inherit");
    tell(after.set != before.set, "set");
    tell(after.toolchains && !before.toolchains, "toolchains");
    tell(after.trace && !before.trace, "trace");
    tell(after.network > before.network, "network");
    tell(after.rules.iter().any(|rule| !rule.deny && !before.rules.contains(rule)), "rules");
    tell(before.rules.iter().any(|rule| rule.deny && !after.rules.contains(rule)), "denials");
    tell(after.presets != before.presets, "presets");
    tell(!before.limits.contains(&after.limits), "limits");
    tell(!after.require.is_superset(&before.require), "require");
    found
}

fn list(items: &'static [&'static str]) -> impl Strategy<Value = String> {
    proptest::sample::subsequence(items, 0..=items.len().min(5)).prop_map(|items| format!("{items:?}"))
}

/// In a box: as many of these as there are keys do not fit on a test's stack.
fn line(key: &'static str, value: impl Strategy<Value = String> + 'static) -> BoxedStrategy<String> {
    proptest::option::of(value)
        .prop_map(move |value| value.map_or(String::new(), |value| format!("{key} = {value}\n")))
        .boxed()
}

fn limits(section: &'static str) -> impl Strategy<Value = String> {
    let amount = prop_oneof![
        Just("\"16m\""),
        Just("\"3g\""),
        Just("\"100%\""),
        Just("\"900g\""),
        Just("\"1% up to 1g\"")
    ];
    let space = prop_oneof![Just("0"), Just("\"1g\""), Just("\"900t\"")];
    let cpu = prop_oneof![Just("0.1"), Just("3"), Just("\"all\""), Just("4000")];
    let count = prop_oneof![Just("16"), Just("5000"), Just("1_000_000")];
    let speed = prop_oneof![Just("\"64k\""), Just("\"1g\""), Just("\"none\"")];
    let wall = prop_oneof![Just("\"1s\""), Just("\"300d\""), Just("\"none\"")];
    (
        line("memory", amount.clone().prop_map(str::to_owned)),
        line("tmp", amount.prop_map(str::to_owned)),
        line("disk", space.clone().prop_map(str::to_owned)),
        line("file_size", space.prop_map(str::to_owned)),
        line("cpu", cpu.prop_map(str::to_owned)),
        line("pids", count.clone().prop_map(str::to_owned)),
        line("files", count.clone().prop_map(str::to_owned)),
        line("inodes", count.prop_map(str::to_owned)),
        line("io", speed.prop_map(str::to_owned)),
        line("wall", wall.prop_map(str::to_owned)),
    )
        .prop_map(move |(a, b, c, d, e, f, g, h, i, j)| format!("{section}\n{a}{b}{c}{d}{e}{f}{g}{h}{i}{j}"))
}

const READ: &[&str] = &[
    "/opt",
    "/opt/sdk",
    "/opt/sdk/bin",
    "/opt/sdk/cache/deep",
    "/data",
    "/data/out/a",
    "/etc",
    "~",
    "~/.ssh",
    "./vendor",
    "./src",
    "/home/ana/work",
    "/home/ana/work/shop",
    "/var",
];
const WRITE: &[&str] = &[
    "/opt/sdk/bin/x",
    "/opt/sdk/cache",
    "/data/in",
    "/data/out",
    "/usr",
    "~/scratch/x",
    "~/work",
    "./target",
    "./vendor/x",
    "/home",
    "./.idea",
    "./.claude/hooks",
    "./.Envrc",
    "./sub/.git/hooks",
    "./.env",
    "/home/ana/work/shop/.git/hooks",
    "/home/ana/work/shop/.mcp.json",
];

/// Documents that try everything: each is well formed, and each key is there or not.
fn documents() -> impl Strategy<Value = String> {
    let flag = || prop_oneof![Just("true".to_owned()), Just("false".to_owned())];
    let narrows = (
        line(
            "worktree",
            prop_oneof![Just("\"write\""), Just("\"overlay\""), Just("\"read\"")].prop_map(str::to_owned),
        ),
        line("read", list(READ)),
        line("write", list(WRITE)),
        line("hide", list(&["*.pem", "demo.key", "*.rs", ".env.*", "a.*"])),
        line("protect", list(&["deploy/", ".vscode/", "x.toml"])),
        line("environment", list(&["TERM", "LC_*", "AWS_REGION", "AW*", "GITHUB_TOKEN", "A*"])),
        line("toolchains", flag()),
        line("inherit", flag()),
        line("trace", flag()),
        line("require", list(&["cgroup", "landlock"])),
    )
        .prop_map(|(a, b, c, d, e, f, g, h, i, j)| [a, b, c, d, e, f, g, h, i, j].concat());
    let asks = (
        line("read", list(READ)),
        line("write", list(WRITE)),
        line("show", list(&[".env", "*.key", "*.secret", "id_*"])),
        line("unprotect", list(&[".claude/", ".envrc", ".mcp.json"])),
        line("environment", list(&["GITHUB_TOKEN", "LANG*"])),
        line("set", prop_oneof![Just("{}"), Just("{ APP_HOOK = \"/x\" }")].prop_map(str::to_owned)),
        line("toolchains", Just("true".to_owned())),
        line("trace", Just("true".to_owned())),
        line("inherit", Just("true".to_owned())),
    )
        .prop_map(|(a, b, c, d, e, f, g, h, i)| format!("[ask]\n{}", [a, b, c, d, e, f, g, h, i].concat()));
    let reached = (
        line("network", prop_oneof![Just("\"none\""), Just("\"rules\"")].prop_map(str::to_owned)),
        line("deny", list(&["a.site.org", "*.site.org:80"])),
        line("rule", Just("[{ host = \"b.site.org\", paths = [\"/x\"], deny = true }]".to_owned())),
    )
        .prop_map(|(a, b, c)| [a, b, c].concat());
    let wished = (
        line("allow", list(&["a.site.org", "b.site.org:8443"])),
        line("presets", list(&["npm-install", "crates"])),
        line("rule", Just("[{ host = \"c.site.org\", methods = \"read-only\" }]".to_owned())),
    )
        .prop_map(|(a, b, c)| [a, b, c].concat());
    let limited = prop_oneof![
        limits("[limits]").prop_map(|limits| (limits, String::new())),
        limits("[ask.limits]").prop_map(|limits| (String::new(), limits)),
    ];
    (narrows, reached, asks, wished, limited).prop_map(|(narrows, reached, asks, wished, (top, asked))| {
        format!("{narrows}{reached}{top}\n{asks}{wished}{asked}")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn sbx_13_adv_a08_no_project_widens_anything(text in documents(), name in "own|dev|strict|read-only") {
        let project = project(&text).unwrap();
        let before = resolve(&name, OWN).unwrap();
        let after = resolve_with(&name, OWN, Some(&project), false, &Flags::default()).unwrap();
        prop_assert_eq!(wider(&before, &after.profile), Vec::<String>::new(), "{}", text);
        prop_assert_eq!(&after.pending, &project.asks);
        // To say the same twice changes nothing more.
        let again = resolve_with(&name, OWN, Some(&project), false, &Flags::default()).unwrap();
        prop_assert_eq!(again, after);
    }

    #[test]
    fn what_was_consented_to_takes_nothing_away(text in documents()) {
        let project = project(&text).unwrap();
        let without = resolve_with("own", OWN, Some(&project), false, &Flags::default()).unwrap().profile;
        let with = resolve_with("own", OWN, Some(&project), true, &Flags::default()).unwrap();
        prop_assert!(with.pending.is_empty());
        prop_assert!(with.profile.limits.contains(&without.limits));
        for path in PATHS {
            prop_assert!(at(&with.profile, path) >= at(&without, path), "{}: {}", path, text);
        }
    }
}

#[test]
fn sbx_13_a_project_takes_the_lesser_of_both_at_each_path() {
    let narrowed =
        with("own", "read = [\"/opt/sdk/bin\"]\nwrite = [\"/opt/sdk/cache/deep\", \"/data/in\"]\n", false)
            .profile;
    for (path, expected) in [
        ("/opt/sdk/bin", Some(Worktree::Read)),
        ("/opt/sdk", None),
        ("/opt/sdk/cache", None),
        ("/opt/sdk/cache/deep", Some(Worktree::Write)),
        ("/data/in", Some(Worktree::Read)),
        ("/data/out", None),
        ("/home/ana/work/shop/src", Some(Worktree::Write)),
        ("/home/ana/work/shop/vendor", Some(Worktree::Read)),
    ] {
        assert_eq!(at(&narrowed, path), expected, "{path}");
    }
    let no_writes = with("own", "worktree = \"read\"\nwrite = [\"./target\"]\n", false).profile;
    assert_eq!(at(&no_writes, "/data/out"), Some(Worktree::Read), "no longer written, still read");
    assert_eq!(at(&no_writes, "/home/ana/work/shop/target"), Some(Worktree::Write));
    assert_eq!(no_writes.worktree, Worktree::Read);
    let layered = with("own", "worktree = \"overlay\"\n", false).profile;
    assert_eq!((layered.worktree, at(&layered, "/data/out")), (Worktree::Overlay, Some(Worktree::Write)));
    let nothing = with("own", "read = []\nwrite = []\nenvironment = []\n", false).profile;
    assert!(nothing.write.is_empty() && nothing.environment.is_empty());
    assert_eq!(paths(&nothing.read), [PathBuf::from("/home/ana/work/shop/vendor")], "part of the worktree");
}

#[test]
fn sbx_13_what_a_project_asks_for_waits_for_consent_to_these_bytes() {
    let text = "[ask]\nread = [\"/opt/other\"]\nset = { MODE = \"test\" }\nshow = [\"x.key\"]\n[ask.limits]\nmemory = \"8g\"\npids = 1\n";
    let resolved = with("own", text, false);
    assert_eq!(resolved.profile, resolve("own", OWN).unwrap());
    let words: Vec<String> = resolved.pending.iter().map(ToString::to_string).collect();
    assert_eq!(
        words,
        ["limits.memory `8g`", "limits.pids `1`", "read `/opt/other`", "set.MODE `test`", "show `x.key`"]
    );
    assert!(
        pending_notice(&resolved.pending).unwrap().contains("read `/opt/other`")
            && pending_notice(&[]).is_none()
    );

    let given = with("own", text, true);
    assert!(given.pending.is_empty());
    assert_eq!((given.profile.limits.memory, given.profile.limits.pids), (8 * GIB, 4_096), "it only adds");
    assert_eq!(at(&given.profile, "/opt/other/x"), Some(Worktree::Read));
    assert!(!given.profile.hidden.hides(b"x.key") && given.profile.hidden.hides(b"y.key"));

    let (one, other) = (project(text).unwrap(), project(&format!("{text}# more\n")).unwrap());
    assert_ne!(one.hash, other.hash, "a comment is enough to be asked again");
    assert_eq!(ContentHash::parse(&one.hash.to_string()), Ok(one.hash));
}

#[test]
fn sbx_13_a_projects_file_is_closed_too() {
    for (text, expected) in [
        ("base = \"dev\"\n", ".palisade/profile.toml:1: `base` is the person's choice"),
        ("name = \"x\"\n", "`name` is the person's choice"),
        (
            "trace = false\nshow = [\".env\"]\n",
            ".palisade/profile.toml:2: `show` adds; move it to the section `[ask]`",
        ),
        ("set = { A = \"1\" }\n", "`set` adds; move it to the section `[ask]`"),
        ("unprotect = [\".vscode/\"]\n", "`unprotect` adds"),
        ("[ask]\nhide = [\"x\"]\n", ".palisade/profile.toml:2: `ask.hide` narrows and needs no asking"),
        ("[ask]\nworktree = \"write\"\n", "`ask.worktree` narrows"),
        ("[ask]\nbase = \"dev\"\n", "`ask.base` is the person's choice"),
        ("[ask]\ntrace = false\n", "`trace`: expected true"),
        ("[ask]\nhosts = [\"x\"]\n", "unknown key `ask.hosts`"),
        ("[ask]\n[ask.ask]\n", "unknown key `ask.ask`"),
        ("ask = 1\n", "`ask`: expected a section `[ask]`"),
        ("hosts = [\"x\"]\n", "unknown key `hosts`"),
        ("secrets = []\n", "unknown key `secrets`"),
        ("[limits]\npids = 5\n[ask.limits]\npids = 9\n", "`pids` is in `limits` and in `ask.limits`"),
        ("[ask]\nunprotect = [\".palisade/\"]\n", "it stays protected"),
    ] {
        let error = project(text).unwrap_err();
        assert!(error.contains(expected), "{text:?}: {error}");
    }
}

#[test]
fn sbx_13_adv_f04_a_mount_of_its_own_does_not_lift_protection() {
    let text = "worktree = \"read\"\nwrite = [\"/home/ana/work/shop/.git/hooks\", \"./.claude/hooks\", \"./a/.envrc\", \"./out\"]\n";
    let narrowed = with("dev", text, false).profile;
    assert_eq!(paths(&narrowed.write), [PathBuf::from("/home/ana/work/shop/out")]);
    assert!(project("write = [\"./.git/hooks\"]\n").unwrap_err().contains("`.git` is kept apart"));
    // A person is told, and has a way.
    let own = |extra: &str| {
        let text = format!("base = \"dev\"\nworktree = \"read\"\nwrite = [\"./.vscode\"]\n{extra}");
        resolve("own", &[("own", &text)])
    };
    assert!(own("").unwrap_err().contains("name it in `unprotect`"));
    assert_eq!(
        at(&own("unprotect = [\".vscode/\"]\n").unwrap(), "/home/ana/work/shop/.vscode/x"),
        Some(Worktree::Write)
    );
    // Nor does consent to a path alone.
    let asked = with("dev", "worktree = \"read\"\n[ask]\nwrite = [\"./.vscode\"]\n", true).profile;
    assert_eq!(at(&asked, "/home/ana/work/shop/.vscode/x"), Some(Worktree::Read));
}
