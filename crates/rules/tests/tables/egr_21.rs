//! Rules can name the owner behind a shared host.

use rules::path::canonical;
use rules::{Decision, Deed, Host, Request, Rule, Rules, Why, git};

use crate::cases::{faults, hold};

const GIT: &str = "
[[rule]]
host = 'git.example'
git = { read = true, push = [
  { repo = 'acme/app', refs = ['refs/heads/agent/*', 'refs/heads/fix'] },
  { repo = 'acme/docs', refs = ['refs/heads/**'] },
  { repo = 'tools/*', refs = ['refs/tags/*'] },
  { repo = 'group/**', refs = ['refs/heads/main'] },
] }
[[rule]]
host = 'git.example'
methods = ['GET', 'POST']
paths = ['/**']
[[rule]]
host = 'mirror.example'
git = { read = true }
";

const GIT_TABLE: &str = "
# Clone and fetch of anything.
+ GET git.example/any/thing.git/info/refs?service=git-upload-pack
+ GET git.example/any/thing/info/refs?service=git-upload-pack
+ POST git.example/any/thing.git/git-upload-pack
+ GET mirror.example/any/thing/info/refs?service=git-upload-pack
# Push only where it is named.
+ GET git.example/acme/app.git/info/refs?service=git-receive-pack
+ GET git.example/acme/app/info/refs?service=git-receive-pack
+ POST git.example/acme/app.git/git-receive-pack refs/heads/agent/one
+ POST git.example/acme/app/git-receive-pack refs/heads/agent/one refs/heads/agent/two
+ POST git.example/acme/app.git/git-receive-pack refs/heads/fix
+ POST git.example/acme/app.git/git-receive-pack
- POST git.example/acme/app.git/git-receive-pack unread
- POST git.example/acme/app.git/git-receive-pack refs/heads/main
- POST git.example/acme/app.git/git-receive-pack refs/heads/agent/one refs/heads/main
- POST git.example/acme/app.git/git-receive-pack refs/heads/main refs/heads/agent/one
- POST git.example/acme/app.git/git-receive-pack refs/heads/agent
- POST git.example/acme/app.git/git-receive-pack refs/heads/agent/a/b
- POST git.example/acme/app.git/git-receive-pack refs/heads/agent/../main
- POST git.example/acme/app.git/git-receive-pack refs/heads/agent/
- POST git.example/acme/app.git/git-receive-pack refs/heads/Agent/one
- POST git.example/acme/app.git/git-receive-pack refs/tags/v1
- POST git.example/acme/app.git/git-receive-pack xrefs/heads/fix
+ POST git.example/acme/docs.git/git-receive-pack refs/heads/a/b/c
- POST git.example/acme/docs.git/git-receive-pack refs/tags/v1
- POST git.example/acme/docs.git/git-receive-pack refs/heads/../tags/v1
- POST git.example/acme/docs.git/git-receive-pack refs/heads/a..b
- POST git.example/acme/docs.git/git-receive-pack refs/heads//a
- POST git.example/acme/docs.git/git-receive-pack refs/heads/a.lock
- POST git.example/acme/docs.git/git-receive-pack refs/heads/a refs/heads/b:c
+ POST git.example/tools/lint.git/git-receive-pack refs/tags/v1
- POST git.example/tools/lint.git/git-receive-pack refs/heads/main
- POST git.example/tools/a/b.git/git-receive-pack refs/tags/v1
+ POST git.example/group/sub/sub/x.git/git-receive-pack refs/heads/main
# Other owners and repositories.
- GET git.example/evil/app.git/info/refs?service=git-receive-pack
- POST git.example/evil/app.git/git-receive-pack refs/heads/agent/one
- POST git.example/acme/other.git/git-receive-pack refs/heads/agent/one
- POST git.example/Acme/app.git/git-receive-pack refs/heads/agent/one
- POST git.example/x/acme/app.git/git-receive-pack refs/heads/agent/one
- POST git.example/acme/app.git.git/git-receive-pack refs/heads/agent/one
- POST git.example/acme/git-receive-pack refs/heads/agent/one
- POST mirror.example/acme/app.git/git-receive-pack refs/heads/agent/one
- GET mirror.example/acme/app.git/info/refs?service=git-receive-pack
# What is nearly git is not opened by the rule beside it.
- PUT git.example/acme/app.git/git-receive-pack refs/heads/agent/one
- GET git.example/acme/app.git/git-receive-pack
- POST git.example/evil/app.git/git-receive-pack/
- POST git.example/evil/app.git/Git-Receive-Pack
- GET git.example/evil/app.git/info/refs
- GET git.example/evil/app.git/info/refs?service=git-receive-pack&x=1
- GET git.example/evil/app.git/info/refs?x=1&service=git-receive-pack
- GET git.example/evil/app.git/info/refs?service=git%2Dreceive-pack
- GET git.example/a/b.git/info/refs?service=git-upload-archive
- POST mirror.example/a/b.git/info/lfs/objects/batch
- GET mirror.example/a/b
+ GET git.example/a/b
+ GET git.example/a/b.git/HEAD
! POST git.example/acme/app.git/../../evil/app.git/git-receive-pack
! POST git.example/evil%2fapp.git/git-receive-pack
! POST git.example/evil/app.git/git%2Dreceive-pack
! POST git.example/evil/app.git/git-receive%2dpack refs/heads/agent/one
";

#[test]
fn egr_21_a_push_goes_to_named_repositories_and_refs_only() {
    assert!(hold(GIT, GIT_TABLE) >= 40);
}

#[test]
fn egr_21_a_push_can_be_denied_where_everything_else_is_allowed() {
    let set = "[[rule]]\nhost = 'git.example'\n[[rule]]\nhost = 'git.example'\ndeny = true\n\
               git = { push = [{ repo = 'acme/app', refs = ['refs/heads/main', 'refs/heads/release/**'] }] }";
    hold(
        set,
        "
        + GET git.example/acme/app/info/refs?service=git-upload-pack
        + POST git.example/acme/app/git-upload-pack
        + POST git.example/acme/app/git-receive-pack refs/heads/fix
        - POST git.example/acme/app/git-receive-pack refs/heads/main
        - POST git.example/ACME/App.git/git-receive-pack refs/heads/main
        - POST git.example/acme/app/git-receive-pack refs/heads/fix refs/heads/release/1/2
        - POST git.example/acme/app/git-receive-pack refs/heads//main
        - POST git.example/acme/app/git-receive-pack unread
        - POST git.example/acme/app/git-receive-pack/ refs/heads/main
        + POST git.example/acme/other/git-receive-pack refs/heads/main
        + GET git.example/
        ",
    );
}

const REGISTRIES: &str = "
[[rule]]
host = 'npm.example'
registry = 'npm'
[[rule]]
host = 'own.example'
registry = { kind = 'npm', publish = ['@acme/*', '@tools/lint', 'left-pad'] }
[[rule]]
host = 'pypi.example'
registry = 'pypi'
[[rule]]
host = 'crates.example'
registry = 'crates'
";

const REGISTRIES_TABLE: &str = "
+ GET npm.example/react
+ HEAD npm.example/react
+ GET npm.example/react/18.2.0
+ GET npm.example/react/latest
+ GET npm.example/react/-/react-18.2.0.tgz
+ GET npm.example/@babel%2fcore
+ GET npm.example/@babel%2Fcore
+ GET npm.example/@babel/core
+ GET npm.example/@babel/core/-/core-7.0.0.tgz
+ GET npm.example/-/ping
+ GET npm.example/-/npm/v1/keys
+ GET npm.example/-/npm/v1/attestations/react@18.2.0
- GET npm.example/
- GET npm.example/-/whoami
- GET npm.example/-/npm/v1/tokens
- GET npm.example/-/npm/v1/user
- GET npm.example/-/v1/search?text=x
- GET npm.example/react/-/evil
- GET npm.example/react/-rev/1
- GET npm.example/react/a/b
- GET npm.example/@babel%2fcore/a/b
+ GET npm.example/@babel%2fcore/7.0.0
- GET npm.example/react ws
- POST npm.example/-/npm/v1/security/advisories/bulk
- POST npm.example/-/npm/v1/security/audits/quick
- PUT npm.example/react
- PUT npm.example/@babel%2fcore
- PUT npm.example/-/user/org.couchdb.user:ana
- POST npm.example/-/v1/login
- POST npm.example/-/npm/v1/tokens
- DELETE npm.example/-/npm/v1/tokens/token/abc
- DELETE npm.example/react/-rev/1
- DELETE npm.example/react/-/react-1.tgz/-rev/1
- PUT npm.example/-/package/react/dist-tags/latest
- PATCH npm.example/react
- GET npm.example:80/react
! GET npm.example/@babel%2f..%2fcore
! GET npm.example/@babel%2fcore%2fx
! GET npm.example/babel%2fcore
! GET npm.example/x/@babel%2fcore
+ GET own.example/@other%2fthing
+ PUT own.example/@acme%2fapp
+ PUT own.example/@acme/app
+ PUT own.example/@acme/app/-rev/3
+ DELETE own.example/@acme/app/-/app-1.0.0.tgz/-rev/3
+ PUT own.example/-/package/@acme/app/dist-tags/next
+ PUT own.example/@tools%2flint
+ PUT own.example/left-pad
- PUT own.example/@tools%2fother
- PUT own.example/@evil%2fapp
- PUT own.example/right-pad
- PUT own.example/Left-Pad
- PUT own.example/-/package/@evil/app/dist-tags/latest
- PUT own.example/-/user/org.couchdb.user:ana
- POST own.example/-/v1/login
- POST own.example/@acme%2fapp
+ GET pypi.example/simple
+ GET pypi.example/simple/
+ GET pypi.example/simple/requests/
+ GET pypi.example/pypi/requests/json
+ GET pypi.example/pypi/requests/2.31.0/json
+ GET pypi.example/packages/aa/bb/requests-2.31.0.tar.gz
+ HEAD pypi.example/packages/aa/bb/requests-2.31.0-py3-none-any.whl
- POST pypi.example/legacy/
- POST pypi.example/legacy
- POST pypi.example/pypi
- GET pypi.example/manage/account/
- GET pypi.example/search/?q=x
- POST pypi.example/simple/
- PUT pypi.example/packages/aa/bb/x
- GET pypi.example/@a%2fb
+ GET crates.example/config.json
+ GET crates.example/se/rd/serde
+ GET crates.example/1/a
+ GET crates.example/3/s/syn
+ GET crates.example/api/v1/crates/serde/1.0.0/download
+ GET crates.example/crates/serde/serde-1.0.0.crate
+ GET crates.example/crates/serde/1.0.0/download
- PUT crates.example/api/v1/crates/new
- DELETE crates.example/api/v1/crates/serde/1.0.0/yank
- PUT crates.example/api/v1/crates/serde/1.0.0/unyank
- PUT crates.example/api/v1/crates/serde/owners
- GET crates.example/api/v1/me
- GET crates.example/me
- POST crates.example/config.json
";

#[test]
fn egr_21_installing_is_not_publishing() {
    assert!(hold(REGISTRIES, REGISTRIES_TABLE) >= 40);
}

#[test]
fn egr_21_gists_and_issues_are_opened_one_by_one() {
    let set = "[[rule]]\nhost = 'api.github.com'\nmethods = 'read-only'\n\
               [[rule]]\nhost = 'api.github.com'\nmethods = ['POST']\npaths = ['/repos/acme/app/issues']\n\
               [[rule]]\nhost = 'api.github.com'\nmethods = ['PATCH']\npaths = ['/repos/acme/*/issues/*']\n";
    hold(
        set,
        "
        + GET api.github.com/gists
        + GET api.github.com/repos/evil/app/issues
        + POST api.github.com/repos/acme/app/issues
        + PATCH api.github.com/repos/acme/app/issues/7
        + PATCH api.github.com/repos/acme/docs/issues/7
        - POST api.github.com/repos/evil/app/issues
        - POST api.github.com/repos/acme/app/issues/7/comments
        - POST api.github.com/repos/acme/docs/issues
        - POST api.github.com/repos/Acme/app/issues
        - PATCH api.github.com/repos/evil/app/issues/7
        - POST api.github.com/gists
        - PATCH api.github.com/gists/7
        - POST api.github.com/graphql
        - POST api.github.com/user/repos
        - PUT api.github.com/repos/acme/app/contents/x
        ! POST api.github.com/repos/evil/../acme/app/issues
        ",
    );
}

#[test]
fn egr_21_a_refusal_names_the_owner_and_what_to_ask_for() {
    let rules = rules::presets::find("github-read").unwrap().rules().unwrap();
    let rules = Rules::compile(
        rules
            .into_iter()
            .chain([Rule {
                registry: Some(rules::Registry::Install(rules::RegistryKind::Npm)),
                ..Rule::new("registry.npmjs.org")
            }])
            .collect(),
    )
    .unwrap();
    for (method, host, target, deed, told) in [
        (
            "POST",
            "github.com",
            "/evil/app.git/git-receive-pack",
            Deed::Push { repo: "evil/app".into() },
            "this would push to the repository `evil/app`, which no rule allows; ask for a rule that names it",
        ),
        (
            "POST",
            "api.github.com",
            "/gists",
            Deed::Gist,
            "this would make or change a gist, which no rule allows; ask for a rule that names it",
        ),
        (
            "POST",
            "api.github.com",
            "/repos/evil/app/issues",
            Deed::Issue { repo: "evil/app".into() },
            "this would make or change an issue or pull request of `evil/app`, which no rule allows; ask for a rule that names it",
        ),
        (
            "PUT",
            "registry.npmjs.org",
            "/@evil%2fapp",
            Deed::Publish { package: Some("@evil/app".into()) },
            "this would publish or change the package `@evil/app`, which no rule allows; ask for a rule that names it",
        ),
    ] {
        let host: Host = host.parse().unwrap();
        let path = canonical(target).unwrap();
        let refs = vec!["refs/heads/main".to_owned()];
        let git = git::act(method, &path, None).map(|act| git::Act { verb: git::Verb::Push { refs }, ..act });
        let request = Request { method, path, query: None, websocket: false, git };
        let Decision::Refused(why) = rules.request(&host, 443, &request) else {
            panic!("{target} was allowed")
        };
        assert_eq!(why, Why::Deed(deed));
        assert_eq!(why.to_string(), told);
        // What is to be asked for opens exactly this.
        let wanted = Rules::compile(vec![Rule::wanted(&host, 443, Some(&request))]).unwrap();
        assert!(wanted.request(&host, 443, &request).is_allowed(), "{target}");
        let other = canonical("/other/thing").unwrap();
        let other = Request { path: other, git: None, ..request };
        assert!(!wanted.request(&host, 443, &other).is_allowed(), "{target}");
    }
}

#[test]
fn egr_21_what_cannot_be_judged_cannot_be_written() {
    for (rule, told) in [
        ("git = {}", "`git` needs"),
        ("git = { push = [{ repo = 'a/b', refs = [] }] }", "`git` needs"),
        ("git = { push = [{ repo = 'a/b', refs = ['main'] }] }", "`git` needs"),
        ("git = { push = [{ repo = 'a/b', refs = ['refs/heads/..'] }] }", "`git` needs"),
        ("git = { push = [{ repo = 'a/b', refs = ['refs/*x/y'] }] }", "one whole segment"),
        ("git = { push = [{ repo = '', refs = ['refs/heads/x'] }] }", "`git` needs"),
        ("git = { push = [{ repo = '/a/b', refs = ['refs/heads/x'] }] }", "`git` needs"),
        ("git = { push = [{ repo = 'a/b.git', refs = ['refs/heads/x'] }] }", "`git` needs"),
        ("git = { push = [{ repo = '*', refs = ['refs/heads/x'] }] }", "`git` needs"),
        ("git = { push = [{ repo = '*/b', refs = ['refs/heads/x'] }] }", "`git` needs"),
        ("git = { push = [{ repo = '**', refs = ['refs/heads/x'] }] }", "`git` needs"),
        ("git = { push = [{ repo = 'a/b' }] }", "missing field"),
        ("registry = { kind = 'npm', publish = [] }", "`publish` needs"),
        ("registry = { kind = 'npm', publish = ['*'] }", "`publish` needs"),
        ("registry = { kind = 'npm', publish = ['@*/x'] }", "`publish` needs"),
        ("registry = { kind = 'npm', publish = ['@a'] }", "`publish` needs"),
        ("registry = { kind = 'npm', publish = ['-'] }", "`publish` needs"),
        ("registry = { kind = 'pypi', publish = ['x'] }", "works for npm only"),
        ("registry = { kind = 'crates', publish = ['x'] }", "works for npm only"),
    ] {
        let found = faults(&format!("[[rule]]\nhost = 'a.b'\n{rule}"));
        assert!(found.contains(told), "{rule}\n{found}");
    }
}
