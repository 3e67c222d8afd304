//! Control files: what cannot be planted, and what is found at the end of a run.

use super::*;

fn class(profile: &Profile, path: &str) -> Option<Class> {
    profile.control_of(Path::new(path)).map(|control| control.class)
}

#[test]
fn adv_f04_every_profile_protects_what_was_absent_at_start() {
    for name in built_in_names() {
        let profile = resolve(name, &[]).unwrap();
        for path in [".claude", ".codex", ".gemini", ".mcp.json", ".vscode", ".envrc", ".palisade"] {
            assert!(profile.protect.iter().any(|held| held.path == path), "{name}: {path}");
        }
        assert!(
            !profile.protect.iter().any(|held| held.path.starts_with(".git")),
            "`.git` is a mount of its own"
        );
        assert!(!profile.protect.iter().any(|held| held.path == ".bashrc"), "only in a home");
    }
}

#[test]
fn adv_g05_control_files_are_found_at_any_depth_and_in_any_capitals() {
    let profile = resolve("dev", &[]).unwrap();
    for (path, expected) in [
        ("sub/.git", Some(Class::Hard)),
        ("sub/.git/config", Some(Class::Hard)),
        ("a/b/c/.GIT/hooks/pre-commit", Some(Class::Hard)),
        (".git/config", None),
        ("sub/.envrc", Some(Class::Hard)),
        ("sub/.VSCode/tasks.json", Some(Class::Hard)),
        (".Claude/settings.json", Some(Class::Hard)),
        ("x/.mcp.json", Some(Class::Hard)),
        ("x/.cargo/config.toml", Some(Class::Watch)),
        (".github/workflows/ci.yml", Some(Class::Watch)),
        ("docs/.github/workflows/ci.yml", None),
        ("team.code-workspace", Some(Class::Watch)),
        ("CLAUDE.md", Some(Class::Watch)),
        (".husky/pre-commit", Some(Class::Watch)),
        ("package.json", None),
        (".gitattributes", None),
        (".gitignore", None),
        ("src/git/config", None),
        (".bashrc", None),
        ("", None),
    ] {
        assert_eq!(class(&profile, path), expected, "{path}");
    }
}

#[test]
fn a_person_can_give_up_a_control_file_and_a_project_takes_it_back() {
    let own = [("own", "base = \"dev\"\nunprotect = [\".vscode/\"]\n")];
    let open = resolve("own", &own).unwrap();
    assert!(!open.protect.iter().any(|held| held.path == ".vscode"));
    assert_eq!(class(&open, "sub/.vscode/tasks.json"), None);
    let project = project("protect = [\".vscode/\", \"deploy.toml\"]\n").unwrap();
    let closed = resolve_with("own", &own, Some(&project), false, &Flags::default()).unwrap().profile;
    assert!(closed.protect.iter().any(|held| held.path == ".vscode"));
    assert!(closed.protect.contains(&Protected { path: "deploy.toml".into(), kind: Kind::File }));
    assert_eq!(class(&closed, "sub/.vscode/tasks.json"), Some(Class::Hard));
}

#[test]
fn a_worktree_that_is_a_home_protects_what_shells_read() {
    let roots = Roots { home: "/home/ana".into(), worktree: "/home/ana".into() };
    let layers = Layers {
        name: "dev",
        own: &|_| Ok(None),
        project: None,
        consent: &|_| false,
        flags: &Draft::default(),
        host: &host(),
        roots: &roots,
    };
    let profile = Profile::resolve(&layers).unwrap().profile;
    for path in [".bashrc", ".zshenv", ".ssh", ".config"] {
        assert!(profile.protect.iter().any(|held| held.path == path), "{path}");
    }
    assert_eq!(class(&profile, ".bashrc"), Some(Class::Hard));
}
