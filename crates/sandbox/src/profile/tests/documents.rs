//! Documents are closed: what is wrong is refused whole, with file and line.

use super::*;

fn refused(text: &str) -> String {
    document::person(text.as_bytes(), Path::new("own.toml")).unwrap_err().to_string()
}

#[test]
fn sbx_13_what_is_wrong_is_refused_with_its_line() {
    for (text, expected) in [
        (
            "base = \"dev\"\n\nreed = []\n",
            "own.toml:3: unknown key `reed`; `palisade profile keys` lists all",
        ),
        ("[limits]\nmemory = \"1g\"\nmemmory = 2\n", "own.toml:3: unknown key `limits.memmory`"),
        ("[limits.deep]\nx = 1\n", "own.toml:1: `limits.deep`"),
        ("[secrets]\n", "own.toml:1: unknown key `secrets`"),
        ("trace = true\ntrace = false\n", "own.toml:2: not TOML: duplicate key"),
        ("trace = 1\n", "own.toml:1: `trace`: expected true or false"),
        ("\nread = \"/opt\"\n", "own.toml:2: `read`: expected a list of texts"),
        ("read = [\n  \"/opt\",\n  7,\n]\n", "own.toml:3: `read`: expected a text in quotes"),
        ("read = [\"opt\"]\n", "expected an absolute path, `~/…` or `./…`"),
        ("read = [\"/opt/../etc\"]\n", "own.toml:1: `read`: expected an absolute path"),
        ("read = [\"~/../bo\"]\n", "`read`: expected an absolute path"),
        ("write = [\"./a//b\"]\n", "`write`: expected an absolute path"),
        ("read = [\"~bo/x\"]\n", "`read`: expected an absolute path"),
        ("read = [\"/\"]\n", "`/` is the whole machine"),
        ("write = [\".\"]\n", "the worktree itself is set by `worktree"),
        ("read = [\"/proc/1\"]\n", "belongs to the kernel"),
        ("read = [\"/a\", \"/a/\"]\n", "`/a/` is there twice"),
        ("worktree = \"rw\"\n", "own.toml:1: `worktree`: expected `write`, `overlay`, `read`, found `rw`"),
        ("network = \"host\"\n", "`network`: expected `none`, `rules`"),
        ("require = [\"selinux\"]\n", "`require`: expected `namespaces`"),
        ("hide = [\"a/b\"]\n", "`hide`: expected a file name"),
        ("hide = [\"*\"]\n", "`hide`: expected a file name"),
        ("hide = [\"[a-z]\"]\n", "`hide`: expected a file name"),
        ("protect = [\"../x\"]\n", "`protect`: expected a path below the worktree"),
        ("protect = [\"/etc\"]\n", "`protect`: expected a path below the worktree"),
        ("unprotect = [\".git/\"]\n", "`.git` is kept apart"),
        ("unprotect = [\".Palisade/\"]\n", "it stays protected"),
        ("environment = [\"*\"]\n", "`environment`: expected a variable"),
        ("environment = [\"A-B\"]\n", "`environment`: expected a variable"),
        ("environment = [\"PALISADE_API_KEY\"]\n", "Palisade's own"),
        ("set = { \"A=B\" = \"x\" }\n", "`set.A=B`: expected the name of a variable"),
        ("set = { A = 1 }\n", "`set.A`: expected a text in quotes"),
        ("set = { A = \"x\\u0000\" }\n", "`set.A`: expected one line"),
        ("set = 3\n", "`set`: expected a table"),
        ("base = \"Dev\"\n", "`base`: expected a name of small letters"),
        ("[limits]\nmemory = \"lots\"\n", "own.toml:2: `limits.memory`: expected bytes, `512m`"),
        ("[limits]\nmemory = \"101%\"\n", "`limits.memory`: expected bytes"),
        ("[limits]\nmemory = \"1k\"\n", "`limits.memory`: expected at least 16777216 bytes"),
        ("[limits]\nmemory = -1\n", "`limits.memory`: expected bytes"),
        ("[limits]\nmemory = \"99999999999999999999g\"\n", "`limits.memory`: expected bytes"),
        ("[limits]\ndisk = \"10%\"\n", "`limits.disk`: expected bytes"),
        ("[limits]\ninodes = 0\n", "`limits.inodes`: expected a number from 1"),
        ("[limits]\nio = \"1k\"\n", "`limits.io`: expected at least `64k` bytes a second"),
        ("[limits]\ncpu = 0\n", "`limits.cpu`: expected processors"),
        ("[limits]\ncpu = nan\n", "`limits.cpu`: expected processors"),
        ("[limits]\npids = 0\n", "`limits.pids`: expected a number from 1"),
        ("[limits]\nwall = \"5\"\n", "`limits.wall`: expected a time"),
        ("[limits]\nwall = true\n", "`limits.wall`: expected a number or a text"),
        ("ask = {}\n", "unknown key `ask`"),
        ("name = \n", "own.toml:1: not TOML"),
    ] {
        let error = refused(text);
        assert!(error.contains(expected), "{text:?}: {error}");
    }
}

#[test]
fn adv_a08_contradictions_are_refused() {
    for (text, expected) in [
        ("read = [\"/a\"]\nwrite = [\"/a\"]\n", "own.toml:2: `/a` is in `read` and in `write`; keep one"),
        (
            "write = [\"~/keys/x.pem\"]\nhide = [\"*.pem\"]\n",
            "own.toml:2: `~/keys/x.pem` is in `write` and in `hide`",
        ),
        ("read = [\"./.env\"]\nhide = [\".ENV\"]\n", "`./.env` is in `read` and in `hide`"),
        (
            "write = [\"./.vscode/x\"]\nprotect = [\".vscode/\"]\n",
            "`.vscode/` is in `write` and in `protect`",
        ),
        ("hide = [\".env\"]\nshow = [\".env\"]\n", "`.env` is in `hide` and in `show`"),
        ("protect = [\"x/\"]\nunprotect = [\"x\"]\n", "is in `protect` and in `unprotect`"),
        ("environment = [\"A\"]\nset = { A = \"1\" }\n", "`A` is in `environment` and in `set`"),
    ] {
        let error = refused(text);
        assert!(error.contains(expected), "{text:?}: {error}");
    }
    let twice = resolve("own", &[("own", "base = \"dev\"\nread = [\"~/x\"]\nwrite = [\"/home/ana/x\"]\n")]);
    assert!(twice.unwrap_err().contains("written in two ways"));
}

#[test]
fn adv_a08_bombs_and_hiding_characters_are_refused() {
    let many: String = (0..1_001).map(|n| format!("\"/a{n}\",")).collect();
    let deep = format!("read = {}{}", "[".repeat(20_000), "]".repeat(20_000));
    let dotted = format!("{} = 1", vec!["a"; 20_000].join("."));
    for (text, expected) in [
        (format!("# {}", "x".repeat(65_536)), "own.toml: longer than 65536 bytes"),
        (format!("\nread = [{many}]\n"), "own.toml:2: more than 1000 values"),
        ((0..1_001).map(|n| format!("k{n} = 1\n")).collect(), "more than 1000 values"),
        (deep, "own.toml:1: not TOML: cannot recurse further"),
        (dotted, "own.toml:1: not TOML"),
        ("a = 1\u{7}\n".into(), "own.toml:1: not TOML: character \\u{7} does not show itself"),
        ("# ok\nread = [\"/opt/\u{202e}x\"]\n".into(), "own.toml:2: not TOML: character \\u{202e}"),
        ("read = [\"/opt/\\u202ex\"]\n".into(), "own.toml:1: `read`: expected an absolute path"),
        ("\u{feff}trace = true\n".into(), "character \\u{feff} does not show itself"),
    ] {
        let error = refused(&text);
        assert!(error.contains(expected), "{:?}: {error}", &text[..text.len().min(40)]);
        assert!(error.len() < 400, "messages stay short: {}", error.len());
    }
    let error = document::person(b"trace = true\n\xff\n", Path::new("own.toml")).unwrap_err().to_string();
    assert_eq!(error, "own.toml:2: not TOML: expected UTF-8");
}

#[test]
fn amounts_mean_what_they_say() {
    let limits = |text: &str| {
        let own = format!("base = \"dev\"\n[limits]\n{text}\n");
        resolve("own", &[("own", &own)]).unwrap().limits
    };
    assert_eq!(limits("memory = 1_073_741_824").memory, GIB);
    assert_eq!(limits("memory = \"2G\"").memory, 2 * GIB);
    assert_eq!(limits("memory = \"50%\"").memory, (16 * GIB / 100 * 50) & !4_095);
    assert_eq!(limits("memory = \"50% up to 1g\"").memory, GIB);
    assert_eq!(limits("cpu = 1.5").cpu, Cpu::Thousandths(1_500));
    assert_eq!(limits("cpu = \"0.25\"").cpu, Cpu::Thousandths(250));
    assert_eq!(limits("cpu = 8").cpu, Cpu::All, "as many as there are");
    assert_eq!(limits("wall = \"30m\"").wall, Some(std::time::Duration::from_secs(1_800)));
    assert_eq!(limits("wall = \"none\"").wall, None);
    assert_eq!(limits("inodes = 5").inodes, 5);
    assert_eq!((limits("io = \"50m\"").io, limits("io = \"none\"").io), (Some(50 << 20), None));
}

#[test]
fn every_key_of_the_table_is_read_and_documented() {
    for key in KEYS {
        let leaf = key.name.rsplit('.').next().unwrap();
        let text = match key.name.split_once('.') {
            Some((section, _)) => format!("[{section}]\n{leaf} = [[1]]\n"),
            None => format!("{leaf} = 1979-05-27\n"),
        };
        let error = refused(&text);
        assert!(error.contains(": expected"), "`{}` is known and refuses: {error}", key.name);
        assert!(reference().contains(&format!("| `{}` |", key.name)));
    }
}

proptest::proptest! {
    #[test]
    fn adv_a08_no_bytes_break_the_parser(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
        let _ = document::person(&bytes, Path::new("x"));
        let _ = Project::parse(&bytes, Path::new("x"));
        let _ = Consents::parse(&bytes, Path::new("x"));
    }

    #[test]
    fn a_pattern_matches_what_it_was_made_from(a in "[a-z.]{0,6}", b in "[a-z.]{1,6}x", mid in "[a-z.]{0,6}") {
        let pattern = NamePattern::parse(&format!("{a}*{b}")).unwrap();
        let name = format!("{a}{mid}{b}");
        proptest::prop_assert!(pattern.matches(name.as_bytes()));
        proptest::prop_assert!(pattern.matches(name.to_uppercase().as_bytes()));
        let exact = NamePattern::parse(&name).unwrap();
        proptest::prop_assert!(pattern.may_overlap(&exact) && exact.may_overlap(&pattern));
    }
}
