//! What of an environment goes in: the list, the opt-in for everything, and names that nobody may give.

use super::*;

fn with_flags(flags: &Flags) -> Profile {
    resolve_with("dev", &[], None, false, flags).unwrap().profile
}

fn everything() -> Profile {
    with_flags(&Flags { inherit: true, ..Flags::default() })
}

fn setting(env: &[&str]) -> Result<Resolved, String> {
    let env = env.iter().map(|text| (*text).to_owned()).collect();
    resolve_with("dev", &[], None, false, &Flags { env, ..Flags::default() })
}

/// Names under which credentials or ways to them are kept, and which lists of words like `TOKEN` do not find, or do.
#[rustfmt::skip]
const CREDENTIALS: &[&str] = &[
    "MYSQL_PWD", "PGPASSFILE", "PGPASSWORD", "PGSERVICEFILE", "NETRC", "DOCKER_CONFIG", "DOCKER_AUTH_CONFIG",
    "AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "ECS_CONTAINER_METADATA_URI_V4", "IDENTITY_ENDPOINT", "COOKIE", "SESSION",
    "SESSION_MANAGER", "DATABASE_URL", "REDIS_URL", "MONGODB_URL", "AMQP_URL", "KUBECONFIG", "BOTO_CONFIG",
    "GOOGLE_APPLICATION_CREDENTIALS", "AZURE_CONFIG_DIR", "CLOUDSDK_CONFIG", "VAULT_ADDR", "REDISCLI_AUTH", "SSHPASS",
    "SSH_AUTH_SOCK", "GNUPGHOME", "NPM_CONFIG_USERCONFIG", "PIP_INDEX_URL", "COMPOSER_AUTH", "SENTRY_DSN", "WGETRC",
    "CURL_HOME", "KRB5CCNAME", "BW_SESSION", "OP_SESSION_my", "RCLONE_CONFIG", "ANSIBLE_VAULT_PASSWORD_FILE",
    "GITHUB_TOKEN", "OPENAI_API_KEY", "MY_APIKEY", "dbpassword", "APP_SECRET", "X_PAT", "JWT", "SLACK_WEBHOOK_URL",
    "ACTIONS_ID_TOKEN_REQUEST_URL", "DBUS_SESSION_BUS_ADDRESS", "CREDENTIALS_DIRECTORY",
];

/// Names that older scrubbers take for credentials, or that programs cannot do without.
#[rustfmt::skip]
const USEFUL: &[&str] = &[
    "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "AWS_CA_BUNDLE", "AWS_REGION", "LANG", "LC_ALL", "TZ", "TERM", "NO_COLOR",
    "TOKENIZERS_PARALLELISM", "KEYBOARD_LAYOUT", "COMPASS_MODE", "AUTHORS", "PATTERN", "GOPATH", "EDITOR",
    "HISTSIZE", "NVM_DIR", "JAVA_HOME", "MONKEYPATCH",
];

/// Names that steer programs before their first line, or that Palisade sets.
#[rustfmt::skip]
const STEERING: &[&str] = &[
    "_", "PATH", "HOME", "USER", "LOGNAME", "SHELL", "ENV", "BASH_ENV", "COMSPEC", "NODE_OPTIONS", "GIT_SSH_COMMAND",
    "GIT_CONFIG", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_0", "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT",
    "DYLD_INSERT_LIBRARIES", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME", "PERL5OPT", "RUBYOPT", "JAVA_TOOL_OPTIONS",
    "IFS", "BASH_FUNC_ls", "GCONV_PATH", "GLIBC_TUNABLES", "OPENSSL_CONF", "PALISADE", "PALISADE_API_KEY", "PALISADE_X",
];

#[test]
fn sec_10_with_everything_inherited_credentials_stay_out_and_useful_names_go_in() {
    let profile = everything();
    assert!(CREDENTIALS.len() >= 32);
    for name in CREDENTIALS {
        assert!(!profile.passes(name), "{name}");
    }
    for name in USEFUL {
        assert!(profile.passes(name), "{name}");
    }
    for name in STEERING {
        assert!(!profile.passes(name), "{name}");
    }
    for odd in ["A-B", "", "x y", "BASH_FUNC_ls%%", "caf\u{e9}"] {
        assert!(!profile.passes(odd), "{odd}");
    }
}

#[test]
fn sec_09_a_star_brings_no_credential_and_a_whole_name_does() {
    let stars =
        ["A*", "M*", "PG*", "N*", "DOCKER_*", "S*", "C*", "D*", "K*", "GITHUB_*", "O*", "P*", "L*", "G*"];
    let profile = setting(&stars).unwrap().profile;
    for name in CREDENTIALS.iter().chain(STEERING) {
        assert!(!profile.passes(name), "{name}");
    }
    assert!(profile.passes("AWS_REGION") && profile.passes("GIT_AUTHOR_NAME"));
    for env in [&["GITHUB_TOKEN"][..], &["GITHUB_*", "GITHUB_TOKEN"], &["G*", "GITHUB_TOKEN", "GITHUB_*"]] {
        let named = setting(env).unwrap().profile;
        assert!(named.passes("GITHUB_TOKEN") && !named.passes("GITHUB_TOKEN_2"), "{env:?}");
    }
}

#[test]
fn sec_09_nothing_is_inherited_unless_a_person_says_so() {
    for name in built_in_names() {
        let profile = resolve(name, &[]).unwrap();
        assert!(!profile.inherit, "{name}");
        for variable in CREDENTIALS.iter().chain(STEERING).chain(&["GOPATH", "ANYTHING", "EDITOR"]) {
            assert!(!profile.passes(variable), "{name} passes {variable}");
        }
    }
    let dev = resolve("dev", &[]).unwrap();
    for variable in
        ["GIT_AUTHOR_NAME", "GIT_COMMITTER_EMAIL", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "NO_PROXY"]
    {
        assert!(dev.passes(variable), "{variable}");
    }
}

#[test]
fn sec_09_addresses_with_a_password_stay_out() {
    let (dev, all) = (resolve("dev", &[]).unwrap(), everything());
    for profile in [&dev, &all] {
        for name in ["HTTP_PROXY", "https_proxy", "ALL_PROXY"] {
            for value in ["http://proxy.example:3128", "proxy.example:3128", ""] {
                assert!(profile.lets_in(name, value.as_bytes()), "{name}={value}");
            }
            for value in [
                "http://ana:pw@proxy.example",
                "http://ana@proxy.example",
                "ana:pw@proxy.example:1",
                "some-secret",
                "some:secret",
            ] {
                assert!(!profile.lets_in(name, value.as_bytes()), "{name}={value}");
            }
        }
    }
    for value in ["postgres://u:p@db/x", "a https://t@h/x", "x=amqp://u:p@h", "http://a,redis://:p@h:1/0"] {
        assert!(!all.lets_in("WHATEVER", value.as_bytes()), "{value}");
    }
    for value in
        ["https://forge.example/a@b", "ssh://git@forge.example/x", "ana@example.org", "http://h:1/?x=@"]
    {
        assert!(all.lets_in("WHATEVER", value.as_bytes()), "{value}");
    }
    let named = setting(&["MY_URL"]).unwrap().profile;
    assert!(named.lets_in("MY_URL", b"https://u:p@h/"), "whoever writes the name means it");
}

#[test]
fn sec_11_names_that_steer_are_refused_from_everyone() {
    for name in STEERING {
        let text = setting(&[name]).unwrap_err();
        assert!(text.contains("`--env`"), "{name}: {text}");
        let value = setting(&[&format!("{name}=hunter22")]).unwrap_err();
        assert!(value.contains("`--env`") && !value.contains("hunter22"), "{name}: {value}");
        for document in [
            format!("base = \"dev\"\nset = {{ {name} = \"x\" }}\n"),
            format!("base = \"dev\"\nenvironment = [\"{name}\"]\n"),
        ] {
            assert!(resolve("own", &[("own", &document)]).is_err(), "{document}");
        }
        for asked in
            [format!("[ask]\nset = {{ {name} = \"x\" }}\n"), format!("[ask]\nenvironment = [\"{name}\"]\n")]
        {
            assert!(project(&asked).is_err(), "{asked}");
        }
    }
    for star in ["LD_*", "PYTHON*", "GIT_CONFIG_*", "PALISADE_*"] {
        assert!(setting(&[star]).is_err(), "{star}");
    }
}

#[test]
fn sec_11_what_is_set_has_bounds() {
    let long = |count: usize| format!("A={}", "é".repeat(count));
    assert!(setting(&[&long(4_096)]).is_ok());
    for bad in
        ["a=1", "1A=1", "A-B=1", "=1", "Ab=1", "A=x\u{0}", "A=x\r", "A=x\ny", "A=\u{1b}[2J", &long(4_097)]
    {
        assert!(setting(&[bad]).is_err(), "{bad:?}");
    }
    // More where the profile says so, up to a bound.
    let roomy = |most: &str, count: usize| {
        let own = format!("base = \"dev\"\n[limits]\nvariable = {most}\n");
        let flags = Flags { env: vec![long(count)], ..Flags::default() };
        resolve_with("own", &[("own", &own)], None, false, &flags)
    };
    assert!(roomy("10240", 10_240).is_ok());
    for (most, count) in [("10240", 10_241), ("10241", 1), ("0", 1), ("5000", 5_001), ("100", 4_096)] {
        assert!(roomy(most, count).is_err(), "{most} {count}");
    }
    let said = roomy("5000", 5_001).unwrap_err();
    assert!(said.contains("`A` has more than 5000 characters") && !said.contains('é'), "{said}");
    let many = |count: usize| (0..count).map(|n| format!("V{n}=1")).collect::<Vec<_>>();
    let set = |count| setting(&many(count).iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(set(64).unwrap().profile.set.len(), 64);
    assert!(set(65).unwrap_err().contains("at most 64"));
    // Also when layers come to more together.
    let half: Vec<String> = (0..40).map(|n| format!("W{n} = \"1\"")).collect();
    let own = format!("base = \"dev\"\nset = {{ {} }}\n", half.join(", "));
    let flags = Flags { env: many(40), ..Flags::default() };
    assert!(resolve_with("own", &[("own", &own)], None, false, &flags).unwrap_err().contains("80 variables"));
}

#[test]
fn sbx_13_a_project_does_not_inherit_without_consent() {
    assert!(project("inherit = true\n").is_ok(), "narrows nothing, adds nothing");
    let resolved = |name: &str, text: &str, consented| {
        let own = [("all", "base = \"dev\"\ninherit = true\n")];
        let project = project(text).unwrap();
        resolve_with(name, &own, Some(&project), consented, &Flags::default()).unwrap()
    };
    assert!(!resolved("dev", "inherit = true\n", false).profile.inherit);
    let asking = "[ask]\ninherit = true\n";
    let unasked = resolved("dev", asking, false);
    assert!(!unasked.profile.inherit && unasked.pending.len() == 1);
    assert!(resolved("dev", asking, true).profile.inherit);
    assert!(!resolved("all", "inherit = false\n", false).profile.inherit);
    // Of everything, a list leaves what is on it, and never what everything did not have.
    let listed = resolved("all", "environment = [\"GOPATH\", \"GITHUB_TOKEN\", \"AWS_*\"]\n", false).profile;
    assert!(listed.passes("GOPATH") && listed.passes("AWS_REGION") && !listed.passes("TERM"));
    assert!(!listed.passes("GITHUB_TOKEN") && !listed.passes("AWS_PROFILE") && !listed.inherit);
}
