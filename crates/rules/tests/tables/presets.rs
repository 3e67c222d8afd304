//! The presets open what they are for, and nothing that writes elsewhere.

use rules::presets::{PRESETS, find};
use rules::{Decision, Host, Look, Rules};

use crate::cases::hold_against;

fn preset(name: &str) -> Rules {
    Rules::compile(find(name).unwrap().rules().unwrap()).unwrap()
}

#[test]
fn every_preset_is_right_alone_and_beside_all_others() {
    let mut all = Vec::new();
    for one in PRESETS {
        let rules = one.rules().unwrap();
        assert!(
            !rules.is_empty() && rules.iter().all(|rule| rule.label.as_deref() == Some(one.name)),
            "{}",
            one.name
        );
        assert!(rules.iter().all(|rule| !rule.is_admin_only() && !rule.deny), "{}", one.name);
        Rules::from_toml(one.text).unwrap();
        all.extend(rules);
    }
    let all = Rules::compile(all).unwrap();
    assert!(all.list().all(|(_, _, look)| look == Some(Look::Inspect)));
    assert_eq!(find("github-write"), None);
    let mut names = PRESETS.map(|one| one.name);
    names.sort_unstable();
    assert_eq!(names, PRESETS.map(|one| one.name), "sorted by name");
}

#[test]
fn egr_21_github_read_reads_and_writes_nothing() {
    hold_against(
        &preset("github-read"),
        "
        + GET github.com/acme/app.git/info/refs?service=git-upload-pack
        + POST github.com/acme/app.git/git-upload-pack
        + GET github.com/acme/app
        + GET github.com/acme/app/archive/refs/heads/main.tar.gz
        + GET github.com/acme/app/releases/download/v1/app.tar.gz
        + GET codeload.github.com/acme/app/tar.gz/main
        + GET raw.githubusercontent.com/acme/app/main/README.md
        + GET objects.githubusercontent.com/x
        + GET release-assets.githubusercontent.com/github-production-release-asset/1?sig=x
        + GET api.github.com/repos/acme/app/issues
        + HEAD api.github.com/repos/acme/app
        - GET github.com/acme/app.git/info/refs?service=git-receive-pack
        - POST github.com/acme/app.git/git-receive-pack
        - POST github.com/acme/app.git/git-receive-pack refs/heads/main
        - POST github.com/acme/app.git/info/lfs/objects/batch
        - POST api.github.com/gists
        - PATCH api.github.com/gists/1
        - POST api.github.com/repos/acme/app/issues
        - POST api.github.com/repos/acme/app/issues/1/comments
        - POST api.github.com/repos/acme/app/pulls
        - PUT api.github.com/repos/acme/app/contents/x
        - POST api.github.com/graphql
        - POST api.github.com/user/repos
        - DELETE api.github.com/repos/acme/app
        - POST github.com/login/device/code
        - GET gist.github.com/
        - POST gist.github.com/
        - POST uploads.github.com/repos/acme/app/releases/1/assets?name=x
        - GET github.com:22/acme/app
        - GET github.com:80/acme/app
        - GET evil.github.io/
        - GET evil.githubusercontent.com/x
        ",
    );
}

#[test]
fn egr_21_npm_install_installs() {
    hold_against(
        &preset("npm-install"),
        "
        + GET registry.npmjs.org/react
        + GET registry.npmjs.org/@babel%2fcore
        + GET registry.npmjs.org/@babel/core/-/core-7.0.0.tgz
        + GET registry.yarnpkg.com/react/-/react-18.0.0.tgz
        - PUT registry.npmjs.org/react
        - PUT registry.npmjs.org/@evil%2fx
        - PUT registry.npmjs.org/-/user/org.couchdb.user:x
        - POST registry.npmjs.org/-/v1/login
        - GET registry.npmjs.org/-/npm/v1/tokens
        - DELETE registry.npmjs.org/react/-rev/1
        - GET www.npmjs.com/
        ",
    );
}

#[test]
fn egr_21_pypi_install_installs() {
    hold_against(
        &preset("pypi-install"),
        "
        + GET pypi.org/simple/requests/
        + GET pypi.org/pypi/requests/json
        + GET files.pythonhosted.org/packages/aa/bb/cc/requests-2.31.0-py3-none-any.whl
        + GET files.pythonhosted.org/packages/aa/bb/cc/requests-2.31.0-py3-none-any.whl.metadata
        - POST upload.pypi.org/legacy/
        - POST pypi.org/legacy/
        - POST pypi.org/simple/
        - GET pypi.org/manage/
        - GET test.pypi.org/simple/x/
        ",
    );
}

#[test]
fn egr_21_crates_builds() {
    hold_against(
        &preset("crates"),
        "
        + GET index.crates.io/config.json
        + GET index.crates.io/se/rd/serde
        + GET index.crates.io/3/s/syn
        + GET static.crates.io/crates/serde/1.0.0/download
        + GET static.crates.io/crates/serde/serde-1.0.0.crate
        + GET crates.io/api/v1/crates/serde/1.0.0/download
        - PUT crates.io/api/v1/crates/new
        - DELETE crates.io/api/v1/crates/serde/1.0.0/yank
        - PUT crates.io/api/v1/crates/serde/owners
        - GET crates.io/api/v1/me
        - GET crates.io/settings/tokens
        ",
    );
}

#[test]
fn egr_05_models_are_reached_and_nothing_else_of_their_makers() {
    hold_against(
        &preset("anthropic"),
        "
        + POST api.anthropic.com/v1/messages
        + POST api.anthropic.com/v1/messages?beta=true
        + POST api.anthropic.com/v1/messages/count_tokens
        + GET api.anthropic.com/v1/models
        + GET api.anthropic.com/v1/models/claude-x
        + GET api.anthropic.com/api/hello
        + HEAD api.anthropic.com/api/hello
        + GET api.anthropic.com/api/claude_cli/bootstrap?entrypoint=sdk-cli
        + GET api.anthropic.com/api/claude_code/policy_limits
        + GET api.anthropic.com/api/claude_code_penguin_mode
        + GET api.anthropic.com/api/directory/server-urls
        - POST api.anthropic.com/api/directory/server-urls
        - POST api.anthropic.com/api/event_logging/v2/batch
        - POST api.anthropic.com/api/eval/sdk-x
        - POST api.anthropic.com/v1/files
        - GET api.anthropic.com/v1/files
        - POST api.anthropic.com/v1/messages/batches
        - POST api.anthropic.com/v1/organizations/api_keys
        - GET api.anthropic.com/v1/messages
        - POST claude.ai/api/x
        - POST api.anthropic.com:80/v1/messages
        - GET evil.anthropic.com/
        ",
    );
    hold_against(
        &preset("openai"),
        "
        + POST api.openai.com/v1/responses
        + GET api.openai.com/v1/responses ws
        + POST api.openai.com/v1/chat/completions
        + GET api.openai.com/v1/models
        + GET api.openai.com/v1/responses/resp_1
        + POST chatgpt.com/backend-api/codex/responses
        + GET chatgpt.com/backend-api/codex/responses ws
        - POST api.openai.com/v1/files
        - POST api.openai.com/v1/uploads
        - DELETE api.openai.com/v1/models/ft
        - GET api.openai.com/v1/organization/users
        - GET api.openai.com/v1/models ws
        - POST chatgpt.com/backend-api/conversation
        - GET chatgpt.com/
        - GET platform.openai.com/
        ",
    );
    hold_against(
        &preset("gemini"),
        "
        + POST generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:generateContent
        + POST generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse
        + GET generativelanguage.googleapis.com/v1beta/models
        + POST cloudcode-pa.googleapis.com/v1internal:generateContent
        - POST generativelanguage.googleapis.com/upload/v1beta/files
        - POST generativelanguage.googleapis.com/v1beta/files
        - POST generativelanguage.googleapis.com/v1beta/cachedContents
        - POST storage.googleapis.com/upload/storage/v1/b/evil/o
        - GET www.googleapis.com/
        - POST cloudcode-pa.googleapis.com/v1internal:other
        ",
    );
}

#[test]
fn models_are_looked_into_so_that_a_secret_can_be_put_in() {
    for (name, host) in [
        ("anthropic", "api.anthropic.com"),
        ("openai", "api.openai.com"),
        ("openai", "chatgpt.com"),
        ("gemini", "generativelanguage.googleapis.com"),
    ] {
        let decision = preset(name).connect(&host.parse::<Host>().unwrap(), 443);
        assert!(matches!(decision, Decision::Allowed { look: Look::Inspect, .. }), "{host}");
    }
}
