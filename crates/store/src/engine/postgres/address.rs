//! Turns a PostgreSQL URL into a configuration and the TLS it must use.
//!
//! Invariant: a remote server is spoken to over TLS with its certificate and name verified, or the URL says
//! `sslmode=disable`. `require` verifies as `verify-full` does: encryption to an unknown peer protects nothing.
//! Local sockets and loopback addresses need no TLS. Not here: libpq's environment, password and service files.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::engine::open::OpenError;

/// Where distributions keep the certificates they trust.
const SYSTEM_ROOTS: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// A database to connect to.
pub(super) struct Address {
    pub(super) config: Config,
    pub(super) tls: Tls,
}

/// Whether the connection is encrypted, and whom it trusts.
pub(super) enum Tls {
    Off,
    Verified(Box<ClientConfig>),
}

/// What a URL says about TLS, before it is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Unsaid,
    Disable,
    Opportunistic,
    Verify,
}

/// Parses `postgres://user:password@host:port/database?sslmode=..&sslrootcert=..`.
pub(super) fn parse(url: &str) -> Result<Address, OpenError> {
    let (url, mode, roots) = split(url)?;
    let mut config: Config = url.parse().map_err(|_| OpenError::BadUrl("it is not a `postgres://` URL"))?;
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        return Err(OpenError::BadUrl("it names no host"));
    }
    let tls = match (mode, remote(&config)) {
        (Mode::Disable, _) | (Mode::Unsaid | Mode::Opportunistic, None) => Tls::Off,
        (Mode::Opportunistic, Some(host)) => return Err(OpenError::Insecure { host }),
        (Mode::Unsaid, Some(_)) | (Mode::Verify, _) => Tls::Verified(Box::new(verifying(roots.as_deref())?)),
    };
    config.ssl_mode(match tls {
        Tls::Off => SslMode::Disable,
        Tls::Verified(_) => SslMode::Require,
    });
    Ok(Address { config, tls })
}

/// Takes `sslmode` and `sslrootcert` out of the URL: the client library knows only part of them.
fn split(url: &str) -> Result<(String, Mode, Option<PathBuf>), OpenError> {
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return Err(OpenError::BadUrl("it does not begin with `postgres://`"));
    }
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let (mut mode, mut roots, mut rest) = (Mode::Unsaid, None, Vec::new());
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("sslmode", value)) => mode = named_mode(value)?,
            Some(("sslrootcert", value)) => roots = Some(PathBuf::from(percent_decoded(value)?)),
            Some(_) | None => rest.push(pair),
        }
    }
    Ok((format!("{base}?{}", rest.join("&")), mode, roots))
}

fn named_mode(value: &str) -> Result<Mode, OpenError> {
    match value {
        "disable" => Ok(Mode::Disable),
        "allow" | "prefer" => Ok(Mode::Opportunistic),
        "require" | "verify-ca" | "verify-full" => Ok(Mode::Verify),
        _ => Err(OpenError::BadUrl("`sslmode` is one of disable, prefer, require, verify-full")),
    }
}

fn percent_decoded(text: &str) -> Result<String, OpenError> {
    const BAD: OpenError = OpenError::BadUrl("a `%` in it is not followed by two hexadecimal digits");
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (code, rest) = part.split_at_checked(2).ok_or(BAD)?;
        bytes.push(u8::from_str_radix(code, 16).map_err(|_| BAD)?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).map_err(|_| OpenError::BadUrl("it is not UTF-8"))
}

/// The first host that is not this machine.
fn remote(config: &Config) -> Option<String> {
    let away = |address: &IpAddr| !address.is_loopback();
    if let Some(address) = config.get_hostaddrs().iter().find(|address| away(address)) {
        return Some(address.to_string());
    }
    if !config.get_hostaddrs().is_empty() {
        return None; // every address that will be used is given and local
    }
    config.get_hosts().iter().find_map(|host| match host {
        Host::Unix(_) => None,
        Host::Tcp(name) if name == "localhost" => None,
        Host::Tcp(name) => {
            let literal = name.trim_matches(['[', ']']).parse::<IpAddr>();
            literal.map_or(true, |address| away(&address)).then(|| name.clone())
        }
    })
}

fn verifying(roots: Option<&Path>) -> Result<ClientConfig, OpenError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|_| OpenError::BadUrl("TLS is not available in this build"))?;
    Ok(builder.with_root_certificates(trusted(roots)?).with_no_client_auth())
}

fn trusted(roots: Option<&Path>) -> Result<RootCertStore, OpenError> {
    let system = || SYSTEM_ROOTS.iter().map(Path::new).find(|path| path.exists());
    let path = roots.or_else(system).unwrap_or(Path::new("/etc/ssl/certs/ca-certificates.crt"));
    let unreadable = || OpenError::NoRoots(path.into());
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|_| unreadable())? {
        // A bundle may hold a certificate this library cannot use; the others still count.
        let _ = store.add(certificate.map_err(|_| unreadable())?);
    }
    if store.is_empty() { Err(unreadable()) } else { Ok(store) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(url: &str) -> &'static str {
        match parse(url) {
            Ok(Address { tls: Tls::Off, .. }) => "clear",
            Ok(Address { tls: Tls::Verified(_), .. }) => "tls",
            Err(OpenError::Insecure { .. }) => "insecure",
            Err(OpenError::NoRoots(_)) => "no roots",
            Err(_) => "bad",
        }
    }

    #[test]
    fn a_remote_server_needs_tls_unless_the_url_says_otherwise() {
        for (url, expected) in [
            ("postgres://u@localhost/db", "clear"),
            ("postgres://u@127.0.0.1:5432/db", "clear"),
            ("postgres://u@[::1]/db", "clear"),
            ("postgres://u@%2Frun%2Fpg/db", "clear"),
            ("postgres:///db?host=/run/pg", "clear"),
            ("postgres://u@localhost/db?sslmode=prefer", "clear"),
            ("postgres://u@db.example/db?sslmode=disable", "clear"),
            ("postgres://u@db.example/db?sslmode=prefer", "insecure"),
            ("postgres://u@db.example/db?sslmode=allow", "insecure"),
            ("postgres://u@localhost,db.example/db?sslmode=prefer", "insecure"),
            ("postgres://u@localhost/db?hostaddr=203.0.113.7&sslmode=prefer", "insecure"),
            ("postgres://u@db.example/db?sslrootcert=/nowhere", "no roots"),
            ("postgres://u@localhost/db?sslmode=verify-full&sslrootcert=%2Fnowhere", "no roots"),
            ("postgres://u@db.example/db?sslmode=maybe", "bad"),
            ("postgres://u@db.example/db?sslrootcert=%zz", "bad"),
            ("mysql://u@localhost/db", "bad"),
            ("host=localhost", "bad"),
            ("postgres://", "bad"),
        ] {
            assert_eq!(judged(url), expected, "{url}");
        }
    }
}
