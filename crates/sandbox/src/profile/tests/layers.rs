//! How layers come together.

use super::*;

#[test]
fn own_profiles_stand_on_each_other() {
    let own = [
        (
            "team",
            "name = \"team\"\nbase = \"dev\"\nread = [\"/opt/sdk\", \"/opt/sdk/priv\"]\nenvironment = [\"APP_*\"]\n[limits]\npids = 100\n",
        ),
        ("mine", "base = \"team\"\nwrite = [\"/opt/sdk\", \"./out\"]\nshow = [\".env\"]\ntrace = false\n"),
    ];
    let mine = resolve("mine", &own).unwrap();
    assert_eq!(at(&mine, "/opt/sdk/x"), Some(Worktree::Write), "the later layer counts");
    assert_eq!(at(&mine, "/opt/sdk/priv/x"), Some(Worktree::Read), "and the more exact path");
    assert_eq!(at(&mine, "/opt"), None);
    assert!(mine.passes("APP_MODE") && mine.passes("TERM") && !mine.passes("APP"));
    assert_eq!((mine.limits.pids, mine.trace, mine.limits.files), (100, false, 65_536));
    assert!(!mine.hidden.hides(b".env") && mine.hidden.hides(b".env.local"));
    assert!(paths(&mine.write).contains(&"/opt/sdk".into()));
    assert!(
        !paths(&mine.write).contains(&"/home/ana/work/shop/out".into()),
        "no mount for what holds anyway"
    );
}

#[test]
fn a_base_that_does_not_do_is_named() {
    for (own, expected) in [
        (&[][..], "there is no profile `x`; `palisade profile list` shows all"),
        (&[("x", "trace = true\n")], "x.toml: `base` is missing"),
        (&[("x", "\nbase = \"nope\"\n")], "x.toml:2: there is no profile `nope` to start from"),
        (&[("x", "base = \"x\"\n")], "x.toml:1: `x` starts from itself"),
        (&[("x", "base = \"y\"\n"), ("y", "base = \"x\"\n")], "y.toml:1: `x` starts from itself"),
        (&[("x", "name = \"y\"\nbase = \"dev\"\n")], "x.toml: `name` is `y`, the file is for `x`"),
        (&[("x", "base = \"dev\"\nbad = 1\n")], "x.toml:2: unknown key `bad`"),
    ] {
        let error = resolve("x", own).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    assert!(resolve("../x", &[]).unwrap_err().contains("expected a name"));
    let taken = check(b"base = \"strict\"\n", Path::new("dev.toml"), &Name::parse("dev").unwrap());
    assert!(taken.unwrap_err().to_string().contains("built-in"));
}

#[test]
fn sbx_10_no_document_takes_a_required_layer_away() {
    let own = [("own", "base = \"strict\"\nrequire = []\n")];
    let profile = resolve("own", &own).unwrap();
    assert!(Layer::ALWAYS.iter().all(|layer| profile.require.contains(layer)));
    assert!(profile.require.contains(&Layer::Cgroup));
}

#[test]
fn the_command_line_has_the_last_word() {
    let flags = Flags {
        ro: vec!["/data".into()],
        rw: vec!["/scratch".into()],
        env: vec!["AWS_REGION".into(), "MODE=test".into()],
        inherit: false,
        show: vec![".env".into()],
        limit: vec!["memory=2g,pids=512".into(), "wall=30m".into()],
        overlay: true,
        offline: false,
    };
    let project = project("worktree = \"read\"\n[limits]\nmemory = \"1g\"\n").unwrap();
    let profile = resolve_with("dev", &[], Some(&project), false, &flags).unwrap().profile;
    assert_eq!(
        (profile.worktree, profile.limits.memory, profile.limits.pids),
        (Worktree::Overlay, 2 * GIB, 512)
    );
    assert_eq!(
        (at(&profile, "/data"), at(&profile, "/scratch")),
        (Some(Worktree::Read), Some(Worktree::Write))
    );
    assert!(profile.passes("AWS_REGION") && !profile.hidden.hides(b".env"));
    assert_eq!(profile.set.get("MODE").map(String::as_str), Some("test"));
    assert_eq!(profile.limits.wall, Some(std::time::Duration::from_secs(1_800)));

    let wrong = |flags: Flags| flags.parse().unwrap_err().to_string();
    let one = |text: &str| vec![text.to_owned()];
    assert!(
        wrong(Flags { ro: one("data"), ..Flags::default() }).starts_with("`--ro`: expected an absolute path")
    );
    assert!(
        wrong(Flags { limit: one("memory"), ..Flags::default() }).contains("expected `memory=2g,pids=512`")
    );
    assert!(wrong(Flags { limit: one("ram=2g"), ..Flags::default() }).contains("there is no limit `ram`"));
    assert!(wrong(Flags { limit: one("pids=1,pids=2"), ..Flags::default() }).contains("keep one"));
    assert!(wrong(Flags { env: one("A*=1"), ..Flags::default() }).contains("`NAME=value`"));
    assert!(wrong(Flags { ro: one("/a"), rw: one("/a/"), ..Flags::default() }).contains("keep one"));
}

#[test]
fn adv_f02_a_path_an_agent_could_redirect_says_what_to_stay_in() {
    let own = [(
        "own",
        "base = \"dev\"\nworktree = \"read\"\nread = [\"/data/in\"]\nwrite = [\"/data\", \"./target\", \"~/cache\"]\n",
    )];
    let within = |profile: &Profile, path: &str| {
        let mut all = profile.read.iter().chain(&profile.write);
        all.find(|entry| entry.path == Path::new(path)).map(|entry| entry.within.clone())
    };
    let profile = resolve("own", &own).unwrap();
    assert_eq!(within(&profile, "/home/ana/work/shop/target"), Some("/home/ana/work/shop".into()));
    assert_eq!(within(&profile, "/data/in"), Some("/data".into()), "it lies in what the agent can write");
    assert_eq!(within(&profile, "/home/ana/cache"), Some("/home/ana/cache".into()), "the person's own name");
    let project = project("write = [\"~/cache/x\"]\n").unwrap();
    let narrowed = resolve_with("own", &own, Some(&project), false, &Flags::default()).unwrap().profile;
    assert_eq!(
        within(&narrowed, "/home/ana/cache/x"),
        Some("/home/ana/cache".into()),
        "the project chose the name"
    );
}

#[test]
fn egr_04_rules_are_data_in_a_profile() {
    let own = [
        ("team", "base = \"dev\"\nallow = [\"site.org\", \"db.site.org:5432\"]\npresets = [\"crates\"]\n"),
        (
            "mine",
            "base = \"team\"\ndeny = [\"bad.site.org\"]\n\n[[rule]]\nhost = \"api.site.org\"\nmethods = \"read-only\"\npaths = [\"/v1/**\"]\n",
        ),
    ];
    let mine = resolve("mine", &own).unwrap();
    let hosts: Vec<(&str, u16, bool)> =
        mine.rules.iter().map(|rule| (rule.host.as_str(), rule.ports[0], rule.deny)).collect();
    let expected = [
        ("site.org", 443, false),
        ("db.site.org", 5432, false),
        ("bad.site.org", 443, true),
        ("api.site.org", 443, false),
    ];
    assert_eq!(hosts.iter().copied().collect::<BTreeSet<_>>(), expected.into_iter().collect());
    assert_eq!(mine.presets, ["crates".to_owned()].into());
    assert_eq!(mine.network, Network::Rules);
    // What is shown can be read again, and means the same.
    let shown =
        format!("base = \"strict\"\n{}", mine.to_toml().replace("name = \"mine\"", "name = \"again\""));
    let again = resolve("again", &[("again", &shown)]).unwrap();
    assert_eq!((again.rules, again.presets, again.network), (mine.rules, mine.presets, mine.network));

    // A project narrows by itself, and gets what it asks for after consent.
    let text = "network = \"none\"\ndeny = [\"site.org\"]\n[ask]\nallow = [\"own.site.org\"]\n[[ask.rule]]\nhost = \"more.site.org\"\npaths = [\"/a\"]\n";
    let project = project(text).unwrap();
    let without = resolve_with("team", &own, Some(&project), false, &Flags::default()).unwrap();
    assert_eq!(without.profile.network, Network::None);
    assert!(without.profile.rules.iter().any(|rule| rule.deny && rule.host == "site.org"));
    let asked: Vec<String> = without.pending.iter().map(ToString::to_string).collect();
    assert_eq!(asked, ["allow `own.site.org`", "rule `host: \"more.site.org\", paths: [\"/a\"]`"]);
    let with = resolve_with("team", &own, Some(&project), true, &Flags::default()).unwrap().profile;
    assert!(with.rules.iter().any(|rule| rule.host == "more.site.org"));
    let offline = Flags { offline: true, ..Flags::default() };
    let offline = resolve_with("mine", &own, None, false, &offline).unwrap().profile;
    assert_eq!(offline.network, Network::None);
}

#[test]
fn egr_05_rules_that_are_wrong_refuse_the_whole_document() {
    for (text, expected) in [
        ("allow = [\"*.org\"]\n", "`allow`: host `*.org`: anybody can have a name under this suffix"),
        ("allow = [\"a.org:0\"]\n", "`ports` needs at least one port"),
        ("presets = [\"npm\"]\n", "`presets`: expected `anthropic`"),
        ("\n[[rule]]\nhost = \"a.org\"\nmethod = [\"GET\"]\n", "own.toml:4: `rule`: unknown field `method`"),
        ("[[rule]]\nhost = \"a.org\"\n[[rule]]\nhost = \"a.org\"\n", "the same as rule 1"),
        ("rule = 3\n", "`rule`: expected tables `[[rule]]`"),
    ] {
        let error = document::person(text.as_bytes(), Path::new("own.toml")).unwrap_err().to_string();
        assert!(error.contains(expected), "{text:?}: {error}");
    }
    for (text, expected) in [
        ("allow = [\"a.org\"]\n", "adds; move it to the section `[ask]`"),
        ("[[rule]]\nhost = \"a.org\"\n", "`rule`: allows; a project's file narrows"),
        ("[[ask.rule]]\nhost = \"a.org\"\nreason = \"\\u202Ex\"\n", "does not show itself"),
        ("[[ask.rule]]\nhost = \"a.org\"\ndeny = true\n", "only rules that allow are asked for"),
        ("[[ask.rule]]\nhost = \"a.org\"\naccess = \"pass\"\n", "only rules that allow are asked for"),
        (
            "[[ask.rule]]\nhost = \"db.a.org\"\naddress = \"10.0.0.1\"\n",
            "only rules that allow are asked for",
        ),
    ] {
        let error = project(text).unwrap_err();
        assert!(error.contains(expected), "{text:?}: {error}");
    }
}

#[test]
fn adv_a08_what_a_project_asks_for_cannot_be_made_to_look_smaller() {
    let text = "[[ask.rule]]\nhost = \"evil.test\"\nlabel = \"docs, methods: [GET]\"\nreason = \"x\"\npaths = [\"/a, methods: [GET]\"]\n";
    // Odd paths are refused by whoever knows rules; what is left is in quotes.
    assert!(project(text).is_err());
    let text = text.replace("/a, methods: [GET]", "/a");
    let asks: Vec<String> = project(&text).unwrap().asks.iter().map(ToString::to_string).collect();
    assert_eq!(asks, ["rule `host: \"evil.test\", paths: [\"/a\"]`"]);
}
