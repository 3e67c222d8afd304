//! Where a repository comes from: text -> something that can be fetched from.

use std::path::{Path, PathBuf};

use store::StoreError;
use zeroize::Zeroizing;

use crate::Mode;

/// The variable that holds the word for a credential, inside.
const TOKEN: &str = "ORIGIN_TOKEN";
/// Who a credential is for unless somebody said so; forges that take tokens do not look.
const LOGIN: &str = "x-access-token";

/// What an origin asks for. Its value goes to the launcher, and as a word into the sandbox.
pub(crate) struct Credential {
    login: String,
    value: Zeroizing<String>,
}

impl Credential {
    /// For this login, or the usual one.
    pub(crate) fn new(login: Option<&str>, value: Zeroizing<String>) -> Self {
        Self { login: login.filter(|login| is_login(login)).unwrap_or(LOGIN).to_owned(), value }
    }
}

/// Whether this can be a login: what means nothing to a shell.
#[must_use]
pub fn is_login(text: &str) -> bool {
    let first = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
    first && text.len() <= 100 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._@+-".contains(&b))
}

/// How a sandbox gets to an origin.
#[derive(Default)]
pub(super) struct Way {
    /// What git is told.
    pub(super) address: String,
    /// Options of the launcher.
    pub(super) options: Vec<String>,
    /// Rules of the network, where the options are not enough.
    pub(super) rules: Option<String>,
    /// Settings of git.
    pub(super) settings: Vec<String>,
    /// What the origin asks for.
    pub(super) token: Option<Zeroizing<String>>,
    /// A host whose key must be known, and the key that we sign with there.
    pub(super) ssh: Option<Signed>,
}

/// A host that we show who we are by signing.
pub(super) struct Signed {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) login: String,
    pub(super) key: Zeroizing<String>,
}

/// As TOML writes text; none of what comes here holds a quote, a backslash or a control character.
fn quoted(text: &str) -> String {
    format!("'{text}'")
}

/// The longest origin.
const MOST: usize = 1_000;

/// Where a repository comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A host that speaks HTTPS.
    Https {
        /// The whole of it.
        address: String,
        /// Host and port, as a rule writes them.
        host: String,
    },
    /// A host that speaks SSH.
    Ssh {
        /// Its name.
        host: String,
        /// Its port.
        port: u16,
        /// What is asked of it.
        path: String,
    },
    /// A directory of this machine.
    Local(PathBuf),
}

/// Why text is no origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadOrigin {
    /// It is none.
    #[error("expected `https://host/path` or `ssh://host/path` without user, password or query")]
    Unknown,
    /// A directory, where several people share the daemon.
    #[error(
        "a directory of this machine can be an origin in solo mode only: the daemon would read it for others"
    )]
    Local,
}

impl Origin {
    /// Reads one. A directory is one only where the daemon serves the one person whose machine it is.
    ///
    /// # Errors
    /// [`BadOrigin`].
    pub fn parse(text: &str, mode: Mode) -> Result<Self, BadOrigin> {
        if text.len() > MOST {
            return Err(BadOrigin::Unknown);
        }
        if text.starts_with('/') {
            let plain = Path::new(text)
                .components()
                .all(|part| matches!(part, std::path::Component::RootDir | std::path::Component::Normal(_)));
            return match (plain && !text.chars().any(char::is_control), mode) {
                (false, _) => Err(BadOrigin::Unknown),
                (true, Mode::Team) => Err(BadOrigin::Local),
                (true, Mode::Solo) => Ok(Self::Local(text.into())),
            };
        }
        let (rest, secure) = match (text.strip_prefix("https://"), text.strip_prefix("ssh://")) {
            (Some(rest), _) => (rest, true),
            (None, Some(rest)) => (rest, false),
            (None, None) => return Err(BadOrigin::Unknown),
        };
        let (host, path) = rest.split_once('/').ok_or(BadOrigin::Unknown)?;
        // `git@` is a name, not a secret; anything else before `@` could be one.
        let host = host.strip_prefix("git@").unwrap_or(host);
        let name = host.split(':').next().unwrap_or_default().trim_end_matches('.');
        let is_own = ["palisade.local", "localhost"].iter().any(|own| {
            let name = name.to_ascii_lowercase();
            name == *own || name.ends_with(&format!(".{own}"))
        });
        let host_fits = !host.is_empty()
            && !is_own
            && !host.starts_with('-')
            && host.bytes().all(|b| b.is_ascii_alphanumeric() || b".-:".contains(&b));
        let path_fits =
            !path.is_empty() && path.bytes().all(|b| b.is_ascii_graphic() && !b"@?#\\\"'`".contains(&b));
        match (host_fits && path_fits, secure) {
            (false, _) => Err(BadOrigin::Unknown),
            (true, true) => {
                Ok(Self::Https { address: format!("https://{host}/{path}"), host: host.to_owned() })
            }
            (true, false) => {
                let (host, text) = host.split_once(':').unwrap_or((host, "22"));
                let port: u16 = text.parse().map_err(|_| BadOrigin::Unknown)?;
                // Git reads an address of SSH after it resolved `%40` and the like, and finds other hosts and logins in it then.
                let plain = |b: u8| b.is_ascii_alphanumeric() || b"._~/+-".contains(&b);
                match !host.is_empty() && port != 0 && port.to_string() == text && path.bytes().all(plain) {
                    true => Ok(Self::Ssh { host: host.to_owned(), port, path: path.to_owned() }),
                    false => Err(BadOrigin::Unknown),
                }
            }
        }
    }

    /// The host and port that a credential for it may go to.
    pub(crate) fn host(&self) -> Option<String> {
        match self {
            Self::Https { host, .. } if host.contains(':') => Some(host.clone()),
            Self::Https { host, .. } => Some(format!("{host}:443")),
            Self::Ssh { host, port, .. } => Some(format!("{host}:{port}")),
            Self::Local(_) => None,
        }
    }

    /// The way there, for a sandbox that reads from it.
    pub(super) fn reading(&self, credential: Option<Credential>) -> Result<Way, StoreError> {
        match (self, credential) {
            (Self::Https { address, host }, None) => Ok(Way {
                address: address.clone(),
                options: vec!["--allow".into(), host.clone()],
                ..Way::default()
            }),
            (Self::Https { .. }, Some(credential)) => self.opened("git = { read = true }", Some(credential)),
            (Self::Local(path), _) => {
                let address = path.display().to_string();
                Ok(Way { options: vec!["--ro".into(), address.clone()], address, ..Way::default() })
            }
            (Self::Ssh { host, port, path }, credential) => signed(host, *port, path, credential),
        }
    }

    /// The way there, for a sandbox that pushes one branch and nothing else.
    pub(super) fn pushing(&self, credential: Option<Credential>, to: &str) -> Result<Way, StoreError> {
        match self {
            Self::Https { address, host } => {
                let path = address.strip_prefix("https://").and_then(|rest| rest.strip_prefix(host.as_str()));
                let path = path.unwrap_or_default().trim_matches('/');
                let repo = path.strip_suffix(".git").unwrap_or(path);
                let git = format!(
                    "git = {{ read = true, push = [{{ repo = {}, refs = [{}] }}] }}",
                    quoted(repo),
                    quoted(&format!("refs/heads/{to}"))
                );
                self.opened(&git, credential)
            }
            Self::Local(_) => Err(StoreError::Unusable(
                "the origin is a directory of this machine, and nobody pushes there; `palisade worktree merge` brings the \
                 result into it"
                    .into(),
            )),
            // Nobody sees into it; what is pushed there is what we say.
            Self::Ssh { host, port, path } => signed(host, *port, path, credential),
        }
    }

    /// A way that is looked into, for these requests of git's only; the credential goes to this repository only.
    fn opened(&self, git: &str, credential: Option<Credential>) -> Result<Way, StoreError> {
        let Self::Https { address, host } = self else { return Ok(Way::default()) };
        let (name, port) = host.split_once(':').unwrap_or((host, "443"));
        if port.parse::<u16>().is_err() {
            return Err(StoreError::Unusable("the port of the origin is no number".into()));
        }
        let rules = format!("[[rule]]\nhost = {}\nports = [{port}]\n{git}\n", quoted(name));
        let mut way = Way { address: address.clone(), rules: Some(rules), ..Way::default() };
        if let Some(Credential { login, value }) = credential {
            let path = address.strip_prefix("https://").and_then(|rest| rest.strip_prefix(host.as_str()));
            // What could mean something in a pattern binds to the host alone.
            let plain =
                |path: &&str| path.bytes().all(|b| b.is_ascii_alphanumeric() || b"/._~-".contains(&b));
            let bound = path
                .filter(plain)
                .map(|path| format!("{}/**", path.trim_end_matches('/')))
                .unwrap_or_default();
            way.options = super::frames::option(TOKEN, &format!("{host}{bound}")).to_vec();
            let helper = format!(
                "credential.helper=!f() {{ test \"$1\" = get && printf 'username=%s\\npassword=%s\\n' {login} \"${TOKEN}\"; }}; f"
            );
            way.settings = vec!["-c".into(), "credential.helper=".into(), "-c".into(), helper];
            way.token = Some(value);
        }
        Ok(way)
    }
}

/// The way to a host that speaks SSH.
fn signed(host: &str, port: u16, path: &str, credential: Option<Credential>) -> Result<Way, StoreError> {
    let Some(Credential { login, value }) = credential else {
        return Err(StoreError::Unusable(format!(
            "an origin over ssh asks for a key; keep one with `palisade secret add NAME --host {host}:{port} < KEYFILE`, and name \
             it with `--secret` where the repository is registered"
        )));
    };
    // Forges know everybody by one name.
    let login = if login == LOGIN { "git".to_owned() } else { login };
    Ok(Way {
        address: format!("ssh://{login}@{host}:{port}/{path}"),
        options: vec!["--allow".into(), format!("{host}:{port}")],
        ssh: Some(Signed { host: host.to_owned(), port, login, key: value }),
        ..Way::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wt_01_only_what_can_be_fetched_without_harm_is_an_origin() {
        let good = Origin::parse("https://git@forge.example:8443/a/b.git", Mode::Team).unwrap();
        let Origin::Https { address, host } = good else { panic!("{good:?}") };
        assert_eq!(
            (address.as_str(), host.as_str()),
            ("https://forge.example:8443/a/b.git", "forge.example:8443")
        );
        let host = |text| Origin::parse(text, Mode::Team).unwrap().host().unwrap();
        assert_eq!(host("ssh://git@forge.example/a/b.git"), "forge.example:22");
        assert_eq!(host("ssh://forge.example:2222/a/b.git"), "forge.example:2222");
        assert_eq!(host("https://forge.example/a/b.git"), "forge.example:443");
        assert_eq!(Origin::parse("/srv/x", Mode::Solo), Ok(Origin::Local("/srv/x".into())));
        assert_eq!(Origin::parse("/srv/x", Mode::Team), Err(BadOrigin::Local));
        for bad in [
            "",
            "x",
            "file:///etc",
            "ext::sh -c id",
            "http://forge.example/a",
            "https://u:p@forge.example/a",
            "https://forge.example",
            "https://forge.example/",
            "https://-x/a",
            "https://forge.example/a?t=1",
            "/a/../b",
            "/a/./../b",
            "/a\nb",
            "git://x/y",
            "ssh://x",
            "ssh://x:y/z",
            "ssh://x:022/z",
            "ssh://x:0/z",
            "ssh://:22/z",
            "ssh://git@forge.example/x%40[evil.example]:2222/repo",
            "ssh://git@forge.example/x%40[forge.example]:22/repo",
            "ssh://forge.example/a%0ab",
            "ssh://forge.example/a;b",
            "ssh://x:70000/z",
            "ssh://u:p@x/z",
            "--upload-pack=x",
            "https:///a",
            "https://token@forge.example/a",
            "https://forge.example/a b",
            "https://host.palisade.local:8443/a",
            "https://HOST.Palisade.Local./a",
            "https://-oProxyCommand=x/a",
        ] {
            assert_eq!(Origin::parse(bad, Mode::Solo), Err(BadOrigin::Unknown), "{bad}");
        }
    }
}
