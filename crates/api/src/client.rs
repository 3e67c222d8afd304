//! A typed, blocking client for every route. `--json` output, tests and scripts all go through it.

mod account;
mod artifacts;
mod live;
mod people;
mod record;
mod secrets;
mod sessions;
mod worktrees;

use std::io::Read;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use ureq::http::{Method, Request};
use zeroize::Zeroizing;

pub use self::live::{Events, Socket};
pub use self::record::LedgerFilter;
pub use self::sessions::SessionFilter;
pub use self::worktrees::WorktreeFilter;
use crate::*;

/// An answer as it came: for streams, and for looking at headers.
pub type Answer = ureq::http::Response<ureq::Body>;

/// Why a call gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The daemon said no.
    #[error("{} ({})", .0.detail, .0.request_id)]
    Problem(Box<Problem>),
    /// Nobody answered.
    #[error("`{base}` does not answer ({why}); is the daemon running? start it with `palisade up`")]
    Unreachable {
        /// Where.
        base: String,
        /// What happened.
        why: String,
    },
    /// Something else answered.
    #[error("the answer is not one of Palisade's: {0}")]
    Unexpected(String),
}

impl ClientError {
    /// The problem's code, if the daemon answered.
    #[must_use]
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Problem(problem) => Some(problem.code),
            Self::Unreachable { .. } | Self::Unexpected(_) => None,
        }
    }

    /// The HTTP status, if the daemon answered.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Problem(problem) => Some(problem.status),
            Self::Unreachable { .. } | Self::Unexpected(_) => None,
        }
    }
}

type Called<T> = Result<T, ClientError>;

/// A connection to one daemon, perhaps with a credential.
#[derive(Clone, Debug)]
pub struct Client {
    base: String,
    token: Option<Hidden>,
    totp: Option<Hidden>,
    agent: ureq::Agent,
    /// What is trusted, where there is TLS; for sockets, which the agent does not open.
    roots: std::sync::Arc<Vec<ureq::tls::Certificate<'static>>>,
}

/// By then a whole answer is here, unless it is a stream.
const WHOLE: Duration = Duration::from_secs(60);
/// The daemon says something on a stream every 15 seconds; whoever says nothing for this long is gone.
const SILENCE: Duration = Duration::from_secs(90);
/// A connection that breaks within this time is tried once more.
const SOON: Duration = Duration::from_secs(10);
/// Nothing to send.
const NOTHING: Option<&()> = None;

impl Client {
    /// A client without a credential. `ca` names certificates (PEM) to trust besides the usual ones.
    pub fn new(base: &str, ca: Option<&[u8]>) -> Result<Self, ClientError> {
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let mut tls = ureq::tls::TlsConfig::builder().unversioned_rustls_crypto_provider(provider.into());
        let mut roots = Vec::new();
        if base.starts_with("https://") {
            roots = usual_certificates();
            for item in ureq::tls::parse_pem(ca.unwrap_or_default()) {
                match item {
                    Ok(ureq::tls::PemItem::Certificate(one)) => roots.push(one),
                    Ok(_) => {}
                    Err(error) => return Err(ClientError::Unexpected(error.to_string())),
                }
            }
        }
        let roots = std::sync::Arc::new(roots);
        if base.starts_with("https://") {
            tls = tls.root_certs(ureq::tls::RootCerts::Specific(std::sync::Arc::clone(&roots)));
        }
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .timeout_connect(Some(Duration::from_secs(10)))
            .timeout_recv_response(Some(WHOLE))
            .timeout_per_read(Some(SILENCE))
            .timeout_per_write(Some(SILENCE))
            .allow_non_standard_methods(true)
            .tls_config(tls.build())
            .build();
        let base = base.trim_end_matches('/').to_owned();
        Ok(Self { base, token: None, totp: None, agent: config.new_agent(), roots })
    }

    /// The same client with a credential.
    #[must_use]
    pub fn with_token(&self, token: &str) -> Self {
        Self { token: Some(Hidden(token.to_owned())), ..self.clone() }
    }

    /// The same client with a one-time password, for the next call that asks for one.
    #[must_use]
    pub fn with_totp(&self, code: &str) -> Self {
        Self { totp: Some(Hidden(code.to_owned())), ..self.clone() }
    }

    /// Where it calls.
    #[must_use]
    pub fn base(&self) -> &str {
        &self.base
    }

    /// The credential it calls with.
    #[must_use]
    pub fn token(&self) -> Option<&str> {
        self.token.as_ref().map(|token| token.0.as_str())
    }

    /// Sends anything; for tests, and for what has no method of its own.
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Called<Answer> {
        self.send_within(None, method, path, headers, &body)
    }

    /// The same, with all of the answer within this time.
    pub fn send_for(
        &self,
        time: Duration,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Called<Answer> {
        self.send_within(Some(time), method, path, headers, body)
    }

    fn send_within(
        &self,
        time: Option<Duration>,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Called<Answer> {
        let unreachable = |why: String| self.unreachable(why);
        let method = Method::from_bytes(method.as_bytes()).map_err(|error| unreachable(error.to_string()))?;
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {}", token.0));
        }
        if let Some(code) = &self.totp {
            request = request.header(TOTP_HEADER, code.0.as_str());
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body).map_err(|error| unreachable(error.to_string()))?;
        let mut request = self.agent.configure_request(request).timeout_global(time);
        if time.is_some_and(|time| time > WHOLE) {
            request = request.timeout_recv_response(time).timeout_per_read(time);
        }
        let request = request.build();
        self.agent.run(request).map_err(|error| unreachable(error.to_string()))
    }

    fn call<T: DeserializeOwned>(
        &self,
        method: &str,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Called<T> {
        self.call_within(WHOLE, method, path, body)
    }

    fn call_within<T: DeserializeOwned>(
        &self,
        time: Duration,
        method: &str,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Called<T> {
        let mut answer = self.checked(Some(time), method, path, body)?;
        let text =
            answer.body_mut().read_to_vec().map_err(|error| ClientError::Unexpected(error.to_string()))?;
        // 204 has no body; `()` reads from `null`.
        let text = if text.is_empty() { b"null".as_slice() } else { text.as_slice() };
        serde_json::from_slice(text).map_err(|error| ClientError::Unexpected(error.to_string()))
    }

    /// The same for what is to be done once: if the connection broke before the answer was here it is asked again, under the same key, and
    /// the daemon tells what it answered before.
    fn call_once<T: DeserializeOwned>(&self, method: &str, path: &str, body: &impl Serialize) -> Called<T> {
        let (key, bytes) = (model::RequestId::random().to_string(), written(body)?);
        let headers = [("content-type", "application/json"), ("idempotency-key", key.as_str())];
        let ask = || -> Result<Called<Vec<u8>>, ClientError> {
            let answer = self.send_within(Some(WHOLE), method, path, &headers, &bytes)?;
            let mut answer = match Self::judged(answer) {
                Ok(answer) => answer,
                Err(problem) => return Ok(Err(problem)),
            };
            let cut = |error: ureq::Error| self.unreachable(error.to_string());
            answer.body_mut().read_to_vec().map(Ok).map_err(cut)
        };
        let begun = Instant::now();
        let answered = match ask() {
            // Whoever waited for long is told.
            Err(_) if begun.elapsed() < SOON => ask(),
            answered => answered,
        };
        let text = answered??;
        serde_json::from_slice(&text).map_err(|error| ClientError::Unexpected(error.to_string()))
    }

    fn checked(
        &self,
        time: Option<Duration>,
        method: &str,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Called<Answer> {
        let (headers, bytes) = match body {
            None => (Vec::new(), Zeroizing::default()),
            Some(body) => (vec![("content-type", "application/json")], written(body)?),
        };
        Self::judged(self.send_within(time, method, path, &headers, &bytes)?)
    }

    /// An answer that is what was asked for, or the problem that it tells.
    fn judged(mut answer: Answer) -> Called<Answer> {
        if answer.status().is_success() {
            return Ok(answer);
        }
        let text = answer.body_mut().read_to_vec().unwrap_or_default();
        match serde_json::from_slice::<Problem>(&text) {
            Ok(problem) => Err(ClientError::Problem(Box::new(problem))),
            Err(_) => Err(ClientError::Unexpected(format!("status {}", answer.status()))),
        }
    }

    fn stream(&self, method: &str, path: &str) -> Called<impl Read + use<>> {
        Ok(self.checked(None, method, path, NOTHING)?.into_body().into_reader())
    }
}

/// What this machine trusts: the bundle that its distribution keeps.
fn usual_certificates() -> Vec<ureq::tls::Certificate<'static>> {
    let named = std::env::var_os("SSL_CERT_FILE").map(std::path::PathBuf::from);
    let usual =
        ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];
    let mut places = named.into_iter().chain(usual.iter().map(Into::into));
    let Some(bundle) = places.find_map(|path| std::fs::read(path).ok()) else { return Vec::new() };
    let certificates = ureq::tls::parse_pem(&bundle).filter_map(|item| match item {
        Ok(ureq::tls::PemItem::Certificate(one)) => Some(one),
        Ok(_) | Err(_) => None,
    });
    certificates.collect()
}

/// One segment of a path or one value of a query, escaped.
fn part(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                safe.push(char::from(byte))
            }
            other => safe.push_str(&format!("%{other:02X}")),
        }
    }
    safe
}

/// `?a=1&b=2` of what is there.
fn query(pairs: &[(&str, Option<String>)]) -> String {
    let given = pairs
        .iter()
        .filter_map(|(name, value)| value.as_ref().map(|value| format!("{name}={}", part(value))));
    let joined = given.collect::<Vec<_>>().join("&");
    if joined.is_empty() { joined } else { format!("?{joined}") }
}

/// A document that may hold a secret: its length is counted first, so that it is never moved, and it is wiped.
fn written(body: &impl Serialize) -> Called<Zeroizing<Vec<u8>>> {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let failed = |error: serde_json::Error| ClientError::Unexpected(error.to_string());
    let mut count = Count(0);
    serde_json::to_writer(&mut count, body).map_err(failed)?;
    let mut bytes = Zeroizing::new(Vec::with_capacity(count.0));
    serde_json::to_writer(&mut *bytes, body).map_err(failed)?;
    Ok(bytes)
}
