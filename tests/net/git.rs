//! git over HTTP: reading and pushing are told apart, and so are repositories and refs.

use crate::world::{EVERYONE, World};

const RULES: &str = r#"
[[rule]]
host = "site.test"
ports = [80]
git = { read = true, push = [{ repo = "team/app", refs = ["refs/heads/agent/*"] }] }
"#;

#[test]
fn egr_21_a_push_goes_to_the_repository_and_refs_that_a_rule_names() {
    for who in EVERYONE {
        let world = World::new(who);
        let _forge = world.forge(&["team/app", "team/other"]);
        world.file("rules.toml", RULES);
        let script = "
            export GIT_TERMINAL_PROMPT=0
            git clone -q http://site.test/team/app.git app 2>&1; cd app
            git config user.name a; git config user.email a@b; echo x > new.txt; git add new.txt; git commit -qm second
            push() { git push -q \"$@\" >../log 2>&1 && echo yes || echo no; }
            push origin HEAD:refs/heads/agent/work
            push origin HEAD:refs/heads/main
            push origin HEAD:refs/heads/agent/two HEAD:refs/tags/v1
            push origin :refs/heads/main
            push http://site.test/team/other.git HEAD:refs/heads/agent/work
            git ls-remote http://site.test/team/other.git | wc -l
            git fetch -q origin && git rev-parse -q --verify origin/agent/work >/dev/null && echo fetched
            curl -s -o /dev/null -w '%{http_code}\\n' http://site.test/team/app.git/config";
        let said = world.run(&["--rules", "rules.toml"], script).ok();
        let lines: Vec<&str> = said.out.lines().map(str::trim).collect();
        assert_eq!(
            lines,
            ["yes", "no", "no", "no", "no", "2", "fetched", "403"],
            "{who:?} {} {}",
            said.out,
            said.err
        );
        let refs = world.forge_refs("team/app");
        assert!(refs.contains("refs/heads/agent/work") && !refs.contains("agent/two"), "{refs}");
        assert!(!refs.contains("refs/tags") && refs.contains("refs/heads/main"), "{refs}");
        assert!(!world.forge_refs("team/other").contains("agent"));
        said.tells("push to the repository `team/app`");
    }
}
