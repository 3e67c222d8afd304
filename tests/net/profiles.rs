//! Rules that are kept: in a person's own profile and in a project's file.

use crate::world::{EVERYONE, PUBLIC, World};

#[test]
fn egr_04_a_profile_says_what_may_be_reached() {
    for who in EVERYONE {
        let world = World::new(who);
        let server = world.http(PUBLIC, 80);
        world.profile(
            "web",
            "base = \"dev\"\n\n[[rule]]\nhost = \"site.test\"\nports = [80]\npaths = [\"/open/**\"]\n",
        );
        let script =
            "curl -fsS http://site.test/open/a >/dev/null; if curl -fsS http://site.test/b; then exit 1; fi";
        world.run(&["--profile", "web"], script).ok();
        assert_eq!(server.asked(), ["GET /open/a HTTP/1.1"], "{who:?}");
        // What is typed is the last word, and so is that there is nothing.
        world
            .run(&["--profile", "web", "--offline"], "if curl -m 3 http://site.test/open/a; then exit 1; fi")
            .ok();
        // A project takes away by itself.
        world.project_profile("deny = [\"site.test:80\"]\n");
        let refused = "if curl -fsS -m 3 http://site.test/open/a; then exit 1; fi";
        world.run(&["--profile", "web"], refused).ok();
        world.project_profile("network = \"none\"\n");
        world.run(&["--profile", "web"], refused).ok();
        // And adds nothing by itself.
        world.project_profile("[ask]\nallow = [\"other.test:80\"]\n");
        let asked = "if curl -fsS -m 3 http://other.test/; then exit 1; fi";
        world.run(&["--profile", "web"], asked).ok().tells("allow `other.test:80`");
        assert_eq!(server.asked().len(), 1, "{who:?}");
    }
}

#[test]
fn egr_05_a_profile_with_a_wrong_rule_starts_nothing() {
    let world = World::new(EVERYONE[0]);
    world.profile("web", "base = \"dev\"\n\n[[rule]]\nhost = \"site.test\"\nmethod = [\"GET\"]\n");
    let said = world.run(&["--profile", "web"], "true");
    assert_eq!(said.code, Some(125), "{}", said.err);
    said.tells("web.toml:5").tells("unknown field `method`");
}
