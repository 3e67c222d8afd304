//! From the command line to a client that may call: which daemon, which credential.

use std::io::{BufRead, IsTerminal};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use api::{Client, Hidden, Places};
use zeroize::Zeroizing;

use crate::credentials::{Credentials, CredentialsFile};
use crate::failure::Failure;

const DEFAULT_URL: &str = "http://127.0.0.1:7717";
/// A token that ends this soon is traded before the call.
const SOON: i64 = 30_000;
/// Room for a password up front, so that it is not moved and left behind.
const MOST_LINE: usize = 4_096;

/// Where to call and as whom.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) places: Places,
    pub(crate) config: Option<PathBuf>,
    url: Option<String>,
    ca: Option<PathBuf>,
    insecure_http: bool,
    /// A one-time password for what asks for one.
    pub(crate) totp: Option<String>,
}

impl Session {
    pub(crate) fn new(
        config: Option<PathBuf>,
        url: Option<String>,
        ca: Option<PathBuf>,
        insecure_http: bool,
        totp: Option<String>,
    ) -> Self {
        Self { places: Places::find(config.as_deref()), config, url, ca, insecure_http, totp }
    }

    /// The file that credentials are kept in.
    pub(crate) fn file(&self) -> CredentialsFile {
        CredentialsFile(self.places.credentials())
    }

    /// The daemon: as told, as last signed in, as configured here, or the usual address.
    pub(crate) fn url(&self) -> Result<String, Failure> {
        if let Some(url) = &self.url {
            return Ok(url.clone());
        }
        if let Some(kept) = self.file().read()? {
            return Ok(kept.url);
        }
        Ok(self.configured().unwrap_or_else(|| DEFAULT_URL.to_owned()))
    }

    /// What the configuration file of a local daemon says about its address.
    fn configured(&self) -> Option<String> {
        let text = std::fs::read_to_string(&self.places.config).ok()?;
        let table: toml::Table = text.parse().ok()?;
        let server = table.get("server")?.as_table()?;
        let scheme = if server.contains_key("tls_cert") { "https" } else { "http" };
        let listen = server.get("listen").and_then(toml::Value::as_str).unwrap_or("127.0.0.1:7717");
        Some(
            server
                .get("public_url")
                .and_then(toml::Value::as_str)
                .map_or_else(|| format!("{scheme}://{listen}"), str::to_owned),
        )
    }

    /// A client without a credential.
    pub(crate) fn anonymous(&self) -> Result<Client, Failure> {
        let pem = match &self.ca {
            Some(path) => Some(std::fs::read(path).map_err(Failure::file(path))?),
            None => None,
        };
        let url = self.url()?;
        // Whatever is sent there, sooner or later a password or a token is in it.
        if !self.insecure_http && !is_private(&url) {
            return Err(Failure::Usage(format!(
                "`{url}` is another machine and there is no TLS: anyone between could read the password; \
                 use `https://`, or say --insecure-http (PALISADE_INSECURE_HTTP=1) if the way there is safe"
            )));
        }
        Ok(Client::new(&url, pem.as_deref())?)
    }

    /// A client with a credential that is good for the next call.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        let client = self.signed_in()?;
        Ok(match &self.totp {
            Some(code) => client.with_totp(code),
            None => client,
        })
    }

    fn signed_in(&self) -> Result<Client, Failure> {
        if let Ok(key) = std::env::var("PALISADE_API_KEY") {
            return Ok(self.anonymous()?.with_token(&key));
        }
        let kept = self.file().read()?.ok_or(Failure::SignedOut)?;
        // Tokens belong to the daemon that gave them; another one must not see them.
        if self.url.as_ref().is_some_and(|url| url.trim_end_matches('/') != kept.url.trim_end_matches('/')) {
            return Err(Failure::SignedOut);
        }
        let kept = if kept.access_expires - now() < SOON { self.renewed()? } else { kept };
        Ok(self.anonymous()?.with_token(&kept.access_token))
    }

    /// Trades the refresh token, unless another process just did.
    fn renewed(&self) -> Result<Credentials, Failure> {
        let file = self.file();
        let held = file.hold()?;
        let kept = file.read()?.ok_or(Failure::SignedOut)?;
        if kept.access_expires - now() >= SOON {
            return Ok(kept);
        }
        // The key of a paired device is not traded: when it ends, the device is paired again.
        let Some(refresh) = &kept.refresh_token else { return Err(Failure::SignedOut) };
        let tokens = match self.anonymous()?.refresh(refresh) {
            Ok(tokens) => tokens,
            Err(error) if error.status() == Some(401) => return Err(Failure::SignedOut),
            Err(error) => return Err(error.into()),
        };
        let fresh = Credentials::of(&kept.url, tokens);
        file.write(&fresh)?;
        drop(held);
        Ok(fresh)
    }
}

/// Whether nobody else can read what is sent there: TLS, or this machine.
fn is_private(url: &str) -> bool {
    let lower = url.to_ascii_lowercase();
    if lower.starts_with("https://") {
        return true;
    }
    let Some(rest) = lower.strip_prefix("http://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if is_port(port) => host,
        _ => authority,
    };
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

/// The present moment.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// A secret from the first line of standard input, or typed at the terminal; never from the command line.
pub(crate) fn secret(what: &'static str, from_stdin: bool, prompt: &str) -> Result<Hidden, Failure> {
    if from_stdin {
        let mut line = Zeroizing::new(String::with_capacity(MOST_LINE));
        let read = std::io::stdin().lock().read_line(&mut line);
        read.map_err(|error| Failure::Program(format!("standard input cannot be read: {error}")))?;
        let text = line.trim_end_matches(['\n', '\r']);
        return if text.is_empty() {
            Err(Failure::Usage(format!("{what}: standard input was empty")))
        } else {
            Ok(Hidden(text.to_owned()))
        };
    }
    if !std::io::stdin().is_terminal() {
        return Err(Failure::NoTerminal(what, "use --password-stdin"));
    }
    rpassword::prompt_password(prompt)
        .map(Hidden)
        .map_err(|error| Failure::Program(format!("the terminal cannot be read: {error}")))
}

/// A new password, typed twice.
pub(crate) fn new_password(from_stdin: bool) -> Result<Hidden, Failure> {
    let first = secret("a password", from_stdin, "New password (12 characters or more): ")?;
    if !from_stdin && secret("a password", false, "Again: ")? != first {
        return Err(Failure::Usage("the two passwords differ".into()));
    }
    Ok(first)
}

/// A word that is typed when it was not given.
pub(crate) fn asked(
    given: Option<String>,
    what: &'static str,
    flag: &'static str,
) -> Result<String, Failure> {
    if let Some(given) = given {
        return Ok(given);
    }
    if !std::io::stdin().is_terminal() {
        return Err(Failure::NoTerminal(what, flag));
    }
    let mut line = String::new();
    crate::output::ask(what);
    let read = std::io::stdin().lock().read_line(&mut line);
    read.map_err(|error| Failure::Program(format!("the terminal cannot be read: {error}")))?;
    Ok(line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::is_private;

    #[test]
    fn gtw_01_credentials_do_not_cross_a_network_in_clear() {
        for private in [
            "https://palisade.example",
            "HTTPS://palisade.example",
            "http://127.0.0.1:7717",
            "http://127.8.0.1/",
            "http://localhost:7717",
            "http://LOCALHOST",
            "http://[::1]:7717",
            "http://[::1]",
            "HTTP://127.0.0.1",
        ] {
            assert!(is_private(private), "{private}");
        }
        for open in [
            "http://palisade.example",
            "http://192.0.2.1:7717",
            "http://[2001:db8::1]:7717",
            "http://127.0.0.1.evil.example",
            "http://127.0.0.1@evil.example",
            "http://localhost:7717@evil.example",
            "http://localhost@evil.example:80",
            "http://localhost.evil.example",
            "http://[::1].evil.example",
            "http://0.0.0.0:7717",
            "ftp://127.0.0.1",
            "palisade.example",
            "",
        ] {
            assert!(!is_private(open), "{open}");
        }
    }
}
