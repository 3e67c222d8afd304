//! Configuration: one table of keys is the source of names, defaults and documentation.
//!
//! What counts, strongest first: `--set key=value`, the environment (`PALISADE_SERVER_LISTEN`), the file, the
//! default. Invariant: an unknown key or a bad value is an error with file and line; nothing is guessed.

mod sessions;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use api::Places;
use runtime::{Mode, Source};

/// The most bytes of a configuration file.
const MOST_BYTES: u64 = 1 << 20;

/// One key.
#[derive(Debug)]
pub(crate) struct Key {
    /// `section.name`, or a bare name.
    pub name: &'static str,
    /// What holds when nobody says anything.
    pub default: &'static str,
    /// What it is for.
    pub about: &'static str,
    /// Whether `config show` masks it.
    pub secret: bool,
}

macro_rules! keys {
    ($($name:literal = $default:literal $(($secret:ident))?: $about:literal;)+) => {
        /// Every key there is.
        pub(crate) const KEYS: &[Key] = &[$(Key { name: $name, default: $default, about: $about, secret: keys!(@ $($secret)?) }),+];
    };
    (@ secret) => { true };
    (@) => { false };
}

keys! {
    "mode" = "solo": "`solo` for one person on one machine, `team` for several people";
    "production" = "false": "refuse to start with any setting that weakens the daemon";
    "data_dir" = "": "where everything is kept; empty: the usual place";
    "server.listen" = "127.0.0.1:7717": "address and port";
    "server.public_url" = "": "how browsers reach the daemon, when that is not the listening address";
    "server.tls_cert" = "": "certificate chain (PEM); with `server.tls_key` the daemon speaks TLS itself";
    "server.tls_key" = "": "private key (PEM)";
    "server.tls_client_ca" = "": "require client certificates signed by these (PEM)";
    "server.allow_plaintext" = "false": "listen on a network without TLS, because a proxy in front adds it";
    "server.trusted_proxies" = "": "addresses whose `X-Forwarded-For` is believed, separated by commas";
    "server.allowed_hosts" = "": "further names for the `Host` header, separated by commas";
    "server.cors_origins" = "": "origins of other web pages that may call the API, separated by commas";
    "store.url" = "" (secret): "`postgres://…`; empty: the embedded database in the data directory";
    "key.file" = "": "file that holds the master key; empty: in solo mode, made at first start";
    "key.passphrase_file" = "": "file that holds a passphrase instead; Argon2id makes the master key from it";
    "key.command" = "": "program that prints the master key, and its arguments, separated by commas; no shell runs it";
    "access.worktree_rbac" = "true": "divide worktrees by owners and tiers; false: one trusted circle";
    "access.token_minutes" = "15": "life of an access token, 1 to 10080";
    "access.totp_actions" = "": "actions that need a one-time password with the request, separated by commas";
    "ledger.retention_days" = "365": "how long entries of the ledger are kept, 1 to 3650";
    "limits.requests_per_minute" = "600": "per caller; 0 turns it off outside production";
    "agents.path" = "/usr/local/bin:/usr/bin:/bin": "directories in which programs of agents are looked for, with `:` between them";
    "git.known_hosts" = "/etc/ssh/ssh_known_hosts:~/.ssh/known_hosts": "files that say which keys hosts have that are reached over SSH, with `:` between them; `~` is the home of the daemon's user";
    "sessions.depth" = "3": "how many sessions may be opened for one another, 0 to 16";
    "sessions.fan_out" = "8": "how many sessions that are open may be opened for one, 0 to 1000";
    "sessions.per_person" = "64": "most tasks of one person that are at work at once, 1 to 256";
    "sessions.per_worktree" = "64": "most tasks in one worktree that are at work at once, 1 to 256";
    "sessions.goes_on" = "false": "begin what waits in a session though the task before it failed";
    "sessions.notice" = "": "what a session is told of the end of one that was opened for it, with {session} {task} {title} {state} {why} {text}; empty: the usual text";
    "sessions.four_eyes" = "false": "whoever asked for a task decides nothing that it asks for";
    "sessions.dangerously_allow_session_sharing" = "false": "people may prompt each other's sessions, each with their own rights and secrets, in worktrees that say so, too (`palisade worktree sharing`)";
    "sessions.unattended" = "hold": "what becomes of a question of an agent while nobody looks on: `hold`, the agent stands still until somebody decides, or `deny`, at once";
    "sessions.answer_seconds" = "60": "how long a question of an agent waits while somebody looks on, 1 to 86400; then it is denied";
    "sessions.stop_seconds" = "5": "how long an agent's program has to end by itself when it is stopped, 1 to 10; then everything of it is killed";
    "sessions.begin_seconds" = "300": "how long an agent may take until it is ready for what is asked, 1 to 3600; then its task is ended";
    "sessions.silence_seconds" = "3600": "how long an agent or a plain program may say nothing while nobody is asked anything, 1 to 86400; then its task is ended";
    "budgets.session_calls_per_minute" = "60": "most calls of tools of one session in a minute; 0: as many as it likes";
    "budgets.session_tokens_per_minute" = "100000": "most tokens of one session in a minute, as its agent tells them; 0: as many as it likes";
    "budgets.session_messages_per_minute" = "30": "most prompts to one session in a minute; 0: as many as there are";
    "budgets.user_cents_per_day" = "500": "most hundredths of a dollar of one person in a day, as agents tell them; 0: as many as they like";
    "budgets.patience_minutes" = "15": "how long a task whose budget is spent stands still for a decision, 1 to 10080; then it is ended";
    "limits.body_bytes" = "1048576": "largest request body, up to 10485760";
    "limits.sockets" = "500": "most live connections";
    "limits.sockets_per_user" = "20": "most live connections of one user";
    "limits.socket_message_bytes" = "1048576": "largest message on a socket, up to 10485760";
    "limits.socket_ping_seconds" = "25": "time between pings, 1 to 30";
    "redact.patterns" = "": "file with further patterns of what is masked, one regular expression a line; a change is in force within a second";
    "metrics.listen" = "": "loopback address and port where `/metrics` is open to everyone on this machine; empty: only with a credential";
    "log.level" = "info": "error, warn, info, debug or trace";
    "log.format" = "text": "`text` or `json`";
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Nobody said anything.
    Default,
    /// A line of the file.
    File(PathBuf, usize),
    /// An environment variable.
    Environment(String),
    /// The command line.
    Flag,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path, line) => write!(f, "{}:{line}", path.display()),
            Self::Environment(name) => write!(f, "environment variable {name}"),
            Self::Flag => f.write_str("command line"),
        }
    }
}

/// Why the configuration is not used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    /// The file cannot be read.
    #[error("`{0}` cannot be read")]
    File(PathBuf, #[source] std::io::Error),
    /// It is not TOML.
    #[error("{0}:{1}: not TOML: {2}")]
    Toml(PathBuf, usize, String),
    /// A key nobody knows.
    #[error("{0}: unknown key `{1}`; `palisade config show` lists all")]
    Unknown(Origin, String),
    /// A value that does not do.
    #[error("{0}: `{1}`: {2}")]
    Bad(Origin, &'static str, String),
    /// Two settings that do not go together.
    #[error("{0}")]
    Together(String),
}

/// The configuration, resolved.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// How the installation is used.
    pub mode: Mode,
    /// Whether weakening settings are refused.
    pub production: bool,
    /// The data directory.
    pub data: PathBuf,
    /// Address and port.
    pub listen: SocketAddr,
    /// How browsers reach it.
    pub public_url: String,
    /// Certificate and key files.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Who signs client certificates.
    pub tls_client_ca: Option<PathBuf>,
    /// Whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpAddr>,
    /// Names for the `Host` header.
    pub allowed_hosts: Vec<String>,
    /// Origins of other pages.
    pub cors_origins: Vec<String>,
    /// Where the store is.
    pub source: Source,
    /// The master key's file, if named.
    pub key_file: Option<PathBuf>,
    /// The passphrase's file, if named.
    pub passphrase_file: Option<PathBuf>,
    /// The program that prints the master key, and its arguments; none if empty.
    pub key_command: Vec<String>,
    /// Whether worktrees are divided.
    pub worktree_rbac: bool,
    /// Life of an access token in minutes.
    pub token_minutes: i64,
    /// What asks for a one-time password.
    pub totp_actions: Vec<&'static access::Action>,
    /// Days for which entries of the ledger are kept.
    pub retention_days: i64,
    /// Requests per caller and minute; 0 is no limit.
    pub requests_per_minute: usize,
    /// Where programs of agents are looked for.
    pub agent_path: String,
    /// Files that say which keys hosts have that are reached over SSH.
    pub known_hosts: Vec<PathBuf>,
    /// How far sessions go.
    pub bounds: runtime::SessionBounds,
    /// Largest request body.
    pub body_bytes: usize,
    /// Most live connections.
    pub sockets: usize,
    /// Most live connections of one user.
    pub sockets_per_user: usize,
    /// Largest message.
    pub socket_message_bytes: usize,
    /// Seconds between pings.
    pub socket_ping_seconds: u64,
    /// Further patterns of what is masked, if somebody has some.
    pub patterns: Option<PathBuf>,
    /// Where metrics are open without a credential, if anywhere.
    pub metrics_listen: Option<SocketAddr>,
    /// Log level.
    pub log_level: String,
    /// Whether logs are JSON.
    pub log_json: bool,
    /// Settings that weaken the daemon.
    pub degraded: Vec<String>,
    /// Every key with its value and where it came from.
    pub table: BTreeMap<&'static str, (String, Origin)>,
}

impl Settings {
    /// Reads everything there is to read.
    pub(crate) fn load(places: &Places, flags: &[(String, String)]) -> Result<Self, SettingsError> {
        let unread = |error| SettingsError::File(places.config.clone(), error);
        let file = match files::read(&places.config, MOST_BYTES, files::Rule::Any) {
            Ok(bytes) => {
                Some(String::from_utf8(bytes).map_err(|error| unread(std::io::Error::other(error)))?)
            }
            Err(files::FileError::Missing) => None,
            Err(error) => return Err(unread(error.into())),
        };
        Self::resolve(places, file.as_deref(), |name| std::env::var(name).ok(), flags)
    }

    fn resolve(
        places: &Places,
        file: Option<&str>,
        variable: impl Fn(&str) -> Option<String>,
        flags: &[(String, String)],
    ) -> Result<Self, SettingsError> {
        let mut table: BTreeMap<&'static str, (String, Origin)> =
            KEYS.iter().map(|key| (key.name, (key.default.to_owned(), Origin::Default))).collect();
        for (name, value, line) in file.map_or(Ok(Vec::new()), |text| leaves(&places.config, text))? {
            put(&mut table, &name, value, Origin::File(places.config.clone(), line))?;
        }
        for key in KEYS {
            let name = format!("PALISADE_{}", key.name.replace('.', "_").to_uppercase());
            if let Some(value) = variable(&name) {
                put(&mut table, key.name, value, Origin::Environment(name))?;
            }
        }
        for (name, value) in flags {
            put(&mut table, name, value.clone(), Origin::Flag)?;
        }
        Reader { table: &table, places }.read()
    }
}

fn put(
    table: &mut BTreeMap<&'static str, (String, Origin)>,
    name: &str,
    value: String,
    origin: Origin,
) -> Result<(), SettingsError> {
    match KEYS.iter().find(|key| key.name == name) {
        Some(key) => {
            table.insert(key.name, (value, origin));
            Ok(())
        }
        None => Err(SettingsError::Unknown(origin, name.to_owned())),
    }
}

/// Every `section.key` of a TOML text, with its value as text and its line.
fn leaves(path: &Path, text: &str) -> Result<Vec<(String, String, usize)>, SettingsError> {
    let line_of = |offset: usize| text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1;
    let parsed = toml::de::DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(span.start));
        SettingsError::Toml(path.to_owned(), line, error.message().to_owned())
    })?;
    let mut found = Vec::new();
    for (name, value) in parsed.get_ref() {
        let line = line_of(name.span().start);
        match value.get_ref() {
            toml::de::DeValue::Table(section) => {
                for (key, value) in section {
                    let whole = format!("{}.{}", name.get_ref(), key.get_ref());
                    let line = line_of(key.span().start);
                    found.push((whole.clone(), plain(path, &whole, value.get_ref(), line)?, line));
                }
            }
            other => {
                let whole = name.get_ref().to_string();
                found.push((whole.clone(), plain(path, &whole, other, line)?, line));
            }
        }
    }
    Ok(found)
}

fn plain(
    path: &Path,
    name: &str,
    value: &toml::de::DeValue<'_>,
    line: usize,
) -> Result<String, SettingsError> {
    use toml::de::DeValue;
    match value {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(number) => Ok(number.as_str().replace('_', "")),
        DeValue::Boolean(flag) => Ok(flag.to_string()),
        DeValue::Array(items) => {
            let texts: Result<Vec<String>, _> =
                items.iter().map(|item| plain(path, name, item.get_ref(), line)).collect();
            Ok(texts?.join(","))
        }
        DeValue::Float(_) | DeValue::Datetime(_) | DeValue::Table(_) => {
            Err(SettingsError::Unknown(Origin::File(path.to_owned(), line), name.to_owned()))
        }
    }
}

/// Turns texts into what they mean.
struct Reader<'a> {
    table: &'a BTreeMap<&'static str, (String, Origin)>,
    places: &'a Places,
}

impl Reader<'_> {
    fn text(&self, name: &'static str) -> &str {
        self.table.get(name).map_or("", |(value, _)| value)
    }

    fn bad(&self, name: &'static str, why: impl Into<String>) -> SettingsError {
        let origin = self.table.get(name).map_or(Origin::Default, |(_, origin)| origin.clone());
        SettingsError::Bad(origin, name, why.into())
    }

    fn flag(&self, name: &'static str) -> Result<bool, SettingsError> {
        self.text(name).parse().map_err(|_| self.bad(name, "expected true or false"))
    }

    fn number(&self, name: &'static str, least: u64, most: u64) -> Result<u64, SettingsError> {
        let number = self.text(name).parse::<u64>().ok().filter(|number| (least..=most).contains(number));
        number.ok_or_else(|| self.bad(name, format!("expected a number from {least} to {most}")))
    }

    fn size(&self, name: &'static str, least: u64, most: u64) -> Result<usize, SettingsError> {
        let number = self.number(name, least, most)?;
        usize::try_from(number).map_err(|_| self.bad(name, "too large for this machine"))
    }

    fn file(&self, name: &'static str) -> Option<PathBuf> {
        let text = self.text(name);
        // Relative paths are meant from where the configuration stands.
        (!text.is_empty()).then(|| self.places.config_dir().join(text))
    }

    fn list<T>(
        &self,
        name: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Vec<T>, SettingsError> {
        let parts = self.text(name).split(',').map(str::trim).filter(|part| !part.is_empty());
        parts.map(|part| parse(part).ok_or_else(|| self.bad(name, format!("`{part}` does not do")))).collect()
    }

    fn read(&self) -> Result<Settings, SettingsError> {
        let mode = match self.text("mode") {
            "solo" => Mode::Solo,
            "team" => Mode::Team,
            _ => return Err(self.bad("mode", "expected `solo` or `team`")),
        };
        let source = match self.text("store.url") {
            "" => Source::Embedded,
            url if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
                Source::Postgres(url.to_owned())
            }
            _ => {
                return Err(
                    self.bad("store.url", "expected `postgres://…`, or nothing for the embedded database")
                );
            }
        };
        let tls = match (self.file("server.tls_cert"), self.file("server.tls_key")) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            _ => {
                return Err(SettingsError::Together(
                    "`server.tls_cert` and `server.tls_key` go together; set both".into(),
                ));
            }
        };
        let log_level = self.text("log.level").to_owned();
        if !["error", "warn", "info", "debug", "trace"].contains(&log_level.as_str()) {
            return Err(self.bad("log.level", "expected error, warn, info, debug or trace"));
        }
        let log_json = match self.text("log.format") {
            "text" => false,
            "json" => true,
            _ => return Err(self.bad("log.format", "expected `text` or `json`")),
        };
        let listen: SocketAddr = self
            .text("server.listen")
            .parse()
            .map_err(|_| self.bad("server.listen", "expected `address:port`"))?;
        let origin = |part: &str| {
            let fits = (part.starts_with("https://") || part.starts_with("http://"))
                && !part.contains('*')
                && !part.ends_with('/');
            fits.then(|| part.to_owned())
        };
        let settings = Settings {
            mode,
            production: self.flag("production")?,
            data: self.file("data_dir").unwrap_or_else(|| self.places.data.clone()),
            listen,
            public_url: self.text("server.public_url").trim_end_matches('/').to_owned(),
            tls,
            tls_client_ca: self.file("server.tls_client_ca"),
            trusted_proxies: self.list("server.trusted_proxies", |part| part.parse().ok())?,
            allowed_hosts: self.list("server.allowed_hosts", |part| Some(part.to_ascii_lowercase()))?,
            cors_origins: self.list("server.cors_origins", origin)?,
            source,
            key_file: self.file("key.file"),
            passphrase_file: self.file("key.passphrase_file"),
            key_command: self.list("key.command", |part| Some(part.to_owned()))?,
            worktree_rbac: self.flag("access.worktree_rbac")?,
            token_minutes: i64::try_from(self.number("access.token_minutes", 1, 10_080)?).unwrap_or(15),
            totp_actions: self.list("access.totp_actions", asks_for_code)?,
            retention_days: i64::try_from(self.number("ledger.retention_days", 1, 3_650)?).unwrap_or(365),
            requests_per_minute: self.size("limits.requests_per_minute", 0, 1_000_000)?,
            agent_path: self.text("agents.path").to_owned(),
            known_hosts: known_hosts(self.text("git.known_hosts")),
            bounds: self.bounds()?,
            body_bytes: self.size("limits.body_bytes", 1_024, 10_485_760)?,
            sockets: self.size("limits.sockets", 1, 100_000)?,
            sockets_per_user: self.size("limits.sockets_per_user", 1, 100_000)?,
            socket_message_bytes: self.size("limits.socket_message_bytes", 1_024, 10_485_760)?,
            socket_ping_seconds: self.number("limits.socket_ping_seconds", 1, 30)?,
            patterns: self.file("redact.patterns"),
            metrics_listen: self.metrics_listen()?,
            log_level,
            log_json,
            degraded: Vec::new(),
            table: self.table.clone(),
        };
        self.together(settings)
    }

    /// Without a credential only this machine may look, so the address must be its own.
    fn metrics_listen(&self) -> Result<Option<SocketAddr>, SettingsError> {
        match self.text("metrics.listen") {
            "" => Ok(None),
            text => match text.parse::<SocketAddr>() {
                Ok(address) if address.ip().is_loopback() => Ok(Some(address)),
                Ok(_) => {
                    Err(self.bad("metrics.listen", "expected a loopback address, like `127.0.0.1:9717`"))
                }
                Err(_) => Err(self.bad("metrics.listen", "expected `address:port`")),
            },
        }
    }

    /// What must hold between settings.
    fn together(&self, mut settings: Settings) -> Result<Settings, SettingsError> {
        let plain_allowed = self.flag("server.allow_plaintext")?;
        let public = !settings.listen.ip().is_loopback();
        if public && settings.tls.is_none() && !plain_allowed {
            let text = format!(
                "`server.listen = {}` is reachable from a network and there is no TLS; set `server.tls_cert` and \
                 `server.tls_key`, or `server.allow_plaintext = true` behind a proxy that adds TLS",
                settings.listen
            );
            return Err(SettingsError::Together(text));
        }
        if settings.tls.is_none() && settings.tls_client_ca.is_some() {
            return Err(SettingsError::Together(
                "`server.tls_client_ca` needs `server.tls_cert` and `server.tls_key`".into(),
            ));
        }
        let named = [
            settings.key_file.is_some(),
            settings.passphrase_file.is_some(),
            !settings.key_command.is_empty(),
        ];
        if named.into_iter().filter(|named| *named).count() > 1 {
            return Err(SettingsError::Together(
                "`key.file`, `key.passphrase_file` and `key.command` each give the master key; set one"
                    .into(),
            ));
        }
        let mut degraded = Vec::new();
        if public && settings.tls.is_none() {
            degraded.push("server.allow_plaintext: listening on a network without TLS".to_owned());
        }
        if settings.requests_per_minute == 0 {
            degraded.push("limits.requests_per_minute = 0: callers are not limited".to_owned());
        }
        if !settings.worktree_rbac && settings.mode == Mode::Team {
            degraded.push("access.worktree_rbac = false: worktrees are not divided".to_owned());
        }
        if settings.bounds.shares {
            let what = "people may prompt each other's sessions";
            degraded.push(format!("sessions.dangerously_allow_session_sharing: {what}"));
        }
        let keys = [("key.file", &settings.key_file), ("key.passphrase_file", &settings.passphrase_file)];
        for (name, file) in keys {
            // Whatever way it is written, if it is there already.
            let real = |path: &std::path::Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
            let data = real(&settings.data);
            let is_beside =
                |file: &PathBuf| file.starts_with(&settings.data) || real(file).starts_with(&data);
            if file.as_ref().is_some_and(is_beside) {
                degraded
                    .push(format!("{name}: beside the data that it opens, so whoever copies one has both"));
            }
        }
        if settings.production {
            if ["debug", "trace"].contains(&settings.log_level.as_str()) {
                degraded.push("log.level below info".to_owned());
            }
            if !degraded.is_empty() {
                return Err(SettingsError::Together(format!(
                    "`production = true` refuses: {}",
                    degraded.join("; ")
                )));
            }
        }
        settings.degraded = degraded;
        Ok(settings)
    }
}

/// Paths with `:` between them; `~` is the home of whoever starts the daemon, and nothing where nobody says which that is.
fn known_hosts(text: &str) -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let placed = |part: &str| match part.strip_prefix("~/") {
        Some(rest) => Some(home.as_ref()?.join(rest)),
        None => Some(PathBuf::from(part)).filter(|path| path.is_absolute()),
    };
    text.split(':').filter(|part| !part.is_empty()).filter_map(placed).collect()
}

/// An action that can be made to ask for a one-time password: one that does something, and does not ask by
/// itself already.
fn asks_for_code(name: &str) -> Option<&'static access::Action> {
    let action = access::action_named(name)?;
    let by_itself = ["password.change", "totp.change"].contains(&name);
    (action.class != access::Class::Read && !by_itself).then_some(action)
}

#[cfg(test)]
mod tests;
