//! The one table of what an environment may bring in: which names never go in, which only by their own name, and
//! which values not at all.
//!
//! Three rules, in this order. A name that steers programs before their first line ([`steers`]) never goes in, and
//! nobody may set it. A name that holds or finds a credential ([`is_withheld`]) goes in only when a person wrote that
//! very name; no `*` and no `inherit` brings it along. A proxy goes in without a credential or not at all.
//! The rest is the profile's list. Invariant: what stays out is absent inside, not masked.
//!
//! Not here: which names a profile lists (`profiles/*.toml`), files that variables name (`crate::variables`).

use super::names::{BadText, is_plain, shown};

/// The most variables with a value of their own that one sandbox has.
pub(super) const MOST_SET: usize = 64;
/// The longest value of one that a profile can allow, in characters.
pub(super) const LONGEST: usize = 10_240;

/// Set by Palisade for every sandbox, so nobody else's word counts.
pub(crate) const OURS: &[&str] =
    &["HOME", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD", "TMPDIR", "TMP", "TEMP", "TEMPDIR", "PALISADE"];

/// Names that make a program load, run or believe something before it has done anything. A caller who may choose one
/// chooses what every program inside is. `*` ends a beginning.
#[rustfmt::skip]
const STEERS: &[&str] = &[
    // Where programs are, and who one is.
    "_", "PATH", "COMSPEC", "PATHEXT",
    // Shells: files that they read at the start, and how they take text apart.
    "ENV", "BASH_ENV", "BASH_FUNC_*", "BASHOPTS", "SHELLOPTS", "ZDOTDIR", "FPATH", "IFS", "CDPATH", "PS4",
    "PROMPT_COMMAND", "INPUTRC", "GLOBIGNORE",
    // The loader and the C library: foreign code, foreign character sets, foreign names of hosts.
    "LD_*", "DYLD_*", "GCONV_PATH", "GETCONF_DIR", "GLIBC_TUNABLES", "LOCPATH", "NLSPATH", "MALLOC_TRACE",
    "HOSTALIASES", "LOCALDOMAIN", "RES_OPTIONS", "RESOLV_HOST_CONF", "NIS_PATH", "TZDIR",
    // TLS: modules and settings of the library; bundles of certificates are not among them.
    "OPENSSL_CONF", "OPENSSL_ENGINES", "OPENSSL_MODULES", "SSLKEYLOGFILE",
    // Interpreters: code before the program's own, and other places for its parts.
    "NODE_OPTIONS", "NODE_PATH", "NODE_REPL_EXTERNAL_MODULE", "PYTHON*", "PERL5LIB", "PERL5OPT", "PERL5DB",
    "PERLLIB", "PERL_*", "RUBYOPT", "RUBYLIB", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS",
    "CLASSPATH", "LUA_INIT*", "LUA_PATH*", "LUA_CPATH*", "PHPRC", "PHP_INI_SCAN_DIR", "R_PROFILE*", "R_ENVIRON*",
    "DOTNET_STARTUP_HOOKS", "CORECLR_*", "COR_*", "ERL_AFLAGS", "ERL_FLAGS", "ERL_ZFLAGS", "GUILE_LOAD_PATH",
    "TCLLIBPATH", "JULIA_LOAD_PATH", "BUN_OPTIONS",
    // git: settings and programs of somebody else, another repository.
    "GIT_CONFIG*", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSH_VARIANT", "GIT_ASKPASS", "GIT_EXEC_PATH", "GIT_TEMPLATE_DIR",
    "GIT_PROXY_COMMAND", "GIT_EXTERNAL_DIFF", "GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR",
    "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE",
    "GIT_PAGER", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR",
    "GIT_ATTR_SOURCE", "GIT_REPLACE_REF_BASE", "GIT_ALLOW_PROTOCOL", "GIT_SSL_NO_VERIFY",
    // Programs that others start: askers, viewers, wrappers of compilers.
    "SSH_ASKPASS", "SUDO_ASKPASS", "LESSOPEN", "LESSCLOSE", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER",
    "CARGO_BUILD_RUSTC*", "RUSTC", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS",
    // Where programs look for their settings, some of which name programs.
    "XDG_CONFIG_HOME",
];

/// Names that hold a credential, or say where one is. They end a program's search for one, so they stay out as the
/// files behind them do.
#[rustfmt::skip]
const WITHHELD: &[&str] = &[
    // Clouds: keys, profiles that name them, addresses that hand them out.
    "AWS_*", "AMAZON_*", "AZURE_*", "ARM_*", "GCP_*", "GCLOUD_*", "GOOGLE_*", "CLOUDSDK_*", "DIGITALOCEAN_*", "LINODE_*",
    "HCLOUD_*", "ALIBABA_*", "ALICLOUD_*", "OCI_*", "IBMCLOUD_*", "CLOUDFLARE_*", "CF_*", "HEROKU_*", "FLY_*",
    "VERCEL_*", "NETLIFY_*", "BOTO_CONFIG", "BOTO_PATH", "ECS_CONTAINER_METADATA_URI*", "IDENTITY_ENDPOINT",
    "IDENTITY_HEADER", "MSI_ENDPOINT", "MSI_SECRET",
    // Databases: some take the password from a name that does not say so.
    "MYSQL_PWD", "MYSQL_HOME", "MYSQL_TEST_LOGIN_FILE", "PGPASS*", "PGSERVICE*", "PGSSLKEY", "PGUSER", "PGOPTIONS",
    "REDISCLI_AUTH", "SSHPASS", "DATABASE_URL", "DB_URL", "POSTGRES_URL", "POSTGRESQL_URL", "MYSQL_URL", "MARIADB_URL",
    "MONGO_URL", "MONGODB_URL", "REDIS_URL", "RABBITMQ_URL", "AMQP_URL", "CLOUDAMQP_URL", "CELERY_BROKER_URL",
    "CELERY_RESULT_BACKEND", "BROKER_URL", "ELASTICSEARCH_URL", "CLICKHOUSE_URL", "JDBC_*", "SQLALCHEMY_DATABASE_URI",
    "SNOWSQL_*",
    // Files of logins.
    "NETRC", "CURL_HOME", "WGETRC", "DOCKER_*", "REGISTRY_*", "BUILDAH_*", "PODMAN_*", "CONTAINER_HOST", "CONTAINERS_CONF",
    "KUBECONFIG", "KUBE_*", "KUBERNETES_*", "HELM_*", "TF_VAR_*", "TF_TOKEN_*", "TF_CLI_*", "TF_HTTP_*", "TERRAFORM_*", "VAULT_*", "CONSUL_*", "NOMAD_*",
    "ANSIBLE_*", "RCLONE_*", "RESTIC_*", "BORG_*", "GNUPGHOME", "GPG_*", "SOPS_*", "AGE_*", "KRB5*", "HGRCPATH",
    "NPM_CONFIG_*", "PIP_CONFIG_FILE", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_INDEX*", "TWINE_*", "POETRY_HTTP_BASIC_*",
    "BUNDLE_*", "COMPOSER_AUTH", "CARGO_REGISTR*", "CARGO_HOME", "GRADLE_USER_HOME", "MAVEN_*", "NUGET_*",
    // Services of the host that act for the person, and sessions at them.
    "SSH_*", "DBUS_*", "XDG_RUNTIME_DIR", "XAUTHORITY", "DISPLAY", "WAYLAND_*", "ICEAUTHORITY", "TMUX*", "STY",
    "VSCODE_*", "GITHUB_*", "GH_*", "GITLAB_*", "CI_JOB_*", "CI_REGISTRY*", "ACTIONS_*", "RUNNER_*", "SYSTEM_ACCESSTOKEN",
    "BUILDKITE_*", "CIRCLE_*", "JENKINS_*", "CREDENTIALS_DIRECTORY", "SESSION", "SESSION_*", "SESSIONID", "COOKIE*", "OP_*",
    "BW_*", "LPASS_*", "SENTRY_*", "DD_*", "SLACK_*", "STRIPE_*", "TWILIO_*", "OPENAI_*", "ANTHROPIC_*", "GEMINI_*",
    "HF_*", "HUGGING_FACE_*", "HUGGINGFACE_*", "WANDB_*", "CONFLUENT_*", "KAFKA_*", "SMTP_*", "MAIL_*", "SUDO_*",
];

/// Exceptions to the list above and to the words below, besides certificates: places on a map, names of people.
#[rustfmt::skip]
const KEPT: &[&str] = &[
    "AWS_REGION", "AWS_DEFAULT_REGION", "GIT_AUTHOR_*", "GIT_COMMITTER_*",
];

/// Parts of a name, between `_`, that say what it holds. A part also counts when it ends so: `APIKEY`, `DBPASSWORD`.
#[rustfmt::skip]
const TELLING: &[&str] = &[
    "SECRET", "SECRETS", "TOKEN", "TOKENS", "PASSWORD", "PASSWORDS", "PASSWD", "PASSPHRASE", "PASSCODE", "APIKEY",
    "CREDENTIAL", "CREDENTIALS", "CREDS", "KEY", "KEYS", "COOKIE", "COOKIES", "WEBHOOK", "JWT", "HTPASSWD",
];

/// The same, only as a whole part: inside other words they mean something else (`AUTHOR`, `COMPASS`, `PATTERN`).
#[rustfmt::skip]
const TELLING_ALONE: &[&str] = &[
    "PASS", "PWD", "PW", "AUTH", "OAUTH", "PAT", "DSN", "SESSION", "SESSIONS", "PRIVATE", "PIN", "OTP", "TOTP", "SALT",
    "BEARER", "LOGIN", "MNEMONIC", "CONNSTR", "SID",
];

/// Words that end in `PASS` and mean something else.
const PASSES: &[&str] = &["COMPASS", "BYPASS", "SURPASS", "TRESPASS", "OVERPASS", "UNDERPASS"];

/// Variables that name a file of certificates.
#[rustfmt::skip]
const BUNDLES: &[&str] = &[
    "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "AWS_CA_BUNDLE", "GIT_SSL_CAINFO",
    "CARGO_HTTP_CAINFO", "NIX_SSL_CERT_FILE", "PIP_CERT", "NPM_CONFIG_CAFILE", "DENO_CERT",
];

/// Variables that name a directory of certificates.
const BUNDLE_FOLDERS: &[&str] = &["SSL_CERT_DIR", "GIT_SSL_CAPATH"];

/// What a variable that names certificates names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Certificates {
    File,
    Folder,
}

/// Whether a variable steers programs, or is Palisade's to set. Capitals do not matter.
pub(super) fn steers(name: &str) -> bool {
    listed(STEERS, name) || listed(OURS, name)
}

/// Whether a variable is one that holds or finds a credential.
pub(super) fn is_withheld(name: &str) -> bool {
    !listed(KEPT, name)
        && certificates(name).is_none()
        && (listed(WITHHELD, name) || name.split('_').any(tells))
}

/// Whether a variable says which proxy to take.
pub(super) fn is_proxy(name: &str) -> bool {
    ends(name, "_PROXY")
}

/// What certificates a variable names, if it does.
pub(crate) fn certificates(name: &str) -> Option<Certificates> {
    let folder = || listed(BUNDLE_FOLDERS, name).then_some(Certificates::Folder);
    if listed(BUNDLES, name) { Some(Certificates::File) } else { folder() }
}

/// Whether a value is, or has in it, an address with somebody's name and password.
pub(super) fn holds_credential(value: &[u8]) -> bool {
    let ends = |byte: &u8| byte.is_ascii_whitespace() || b"/?#\"'`,;".contains(byte);
    let mut rest = value;
    while let Some(at) = rest.windows(3).position(|three| three == b"://") {
        rest = rest.get(at + 3..).unwrap_or_default();
        let authority = rest.split(ends).next().unwrap_or_default();
        let person = authority.iter().rposition(|byte| *byte == b'@').and_then(|at| authority.get(..at));
        // `git@` is a name that everybody has.
        if person.is_some_and(|person| person != b"git") {
            return true;
        }
    }
    false
}

/// Whether a proxy's value has a credential in it, or is no address at all: proxies are also written without a scheme, and
/// then with a port. The list of those that need none is no address.
pub(super) fn proxy_holds_credential(name: &str, value: &[u8]) -> bool {
    let has_port = || {
        let port = value.rsplit(|byte| *byte == b':').next().unwrap_or_default();
        port.len() < value.len() && !port.is_empty() && port.iter().all(u8::is_ascii_digit)
    };
    let is_address = || ends(name, "NO_PROXY") || value.windows(3).any(|three| three == b"://") || has_port();
    value.contains(&b'@') || !(value.is_empty() || is_address())
}

/// A name that somebody wants to set, or why not.
pub(super) fn settable(name: &str) -> Result<(), BadText> {
    let fits = (1..=128).contains(&name.len())
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
    if !fits {
        return Err(BadText::expected("the name of a variable, of capitals, digits and `_`", name));
    }
    refuse_steering(name)
}

/// Refuses a name that steers.
pub(super) fn refuse_steering(name: &str) -> Result<(), BadText> {
    if !steers(name) {
        return Ok(());
    }
    let name = shown(name);
    Err(BadText(format!(
        "`{name}` steers every program inside and cannot be given; write `env {name}=… CMD` if one needs it"
    )))
}

/// The value of a variable: one line. It is not repeated when it does not do, since it may be a secret.
pub(super) fn value(text: &str) -> Result<String, BadText> {
    let fits = text.chars().count() <= LONGEST && text.chars().all(is_plain);
    let why = || BadText(format!("expected one line of at most {LONGEST} characters"));
    if fits { Ok(text.to_owned()) } else { Err(why()) }
}

/// Whether a name is on a list, whatever its capitals.
fn listed(list: &[&str], name: &str) -> bool {
    list.iter().any(|one| match one.strip_suffix('*') {
        Some(stem) => begins(name, stem),
        None => one.eq_ignore_ascii_case(name),
    })
}

/// A number says which one it is: `PASSWORD1`.
fn tells(part: &str) -> bool {
    let part = part.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_pass = ends(part, "PASS") && !PASSES.iter().any(|word| ends(part, word));
    is_pass
        || ends(part, "PW")
        || TELLING.iter().any(|word| ends(part, word))
        || TELLING_ALONE.iter().any(|word| word.eq_ignore_ascii_case(part))
}

fn begins(text: &str, with: &str) -> bool {
    text.as_bytes().get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with.as_bytes()))
}

fn ends(text: &str, with: &str) -> bool {
    let from = text.len().checked_sub(with.len());
    from.and_then(|from| text.as_bytes().get(from..))
        .is_some_and(|end| end.eq_ignore_ascii_case(with.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::{is_withheld, steers};

    #[test]
    fn sec_09_names_of_credentials_stay_out_and_others_do_not() {
        for name in ["DBPASS", "PASSWORD1", "DB_PASSWORD2", "LDAP_BINDPW", "SMTP2_USERPASS", "APIKEY3"] {
            assert!(is_withheld(name), "{name}");
        }
        for name in ["COMPASS", "BYPASS_CACHE", "PASSENGERS", "LANG", "EDITOR", "TERM", "PATTERN2"] {
            assert!(!is_withheld(name), "{name}");
        }
    }

    #[test]
    fn names_that_choose_programs_and_their_settings_steer() {
        for name in ["GIT_PAGER", "GIT_EDITOR", "XDG_CONFIG_HOME", "RUSTC", "RUSTFLAGS", "git_pager"] {
            assert!(steers(name), "{name}");
        }
        for name in ["PAGER", "EDITOR", "RUST_LOG", "XDG_CACHE_HOME", "GIT_AUTHOR_NAME"] {
            assert!(!steers(name), "{name}");
        }
    }
}
