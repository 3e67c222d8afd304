//! Sends a request and hands on its answer piece by piece, from a thread of its own: whoever waits can stop waiting.

use std::io::Read;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use super::Trouble;
use super::lines::{Events, Form};

/// Pieces that wait for whoever reads them.
const WAITING: usize = 8;
/// Bytes of an error's body that are looked at.
const EXCERPT: u64 = 4_096;

/// A piece of an answer.
#[derive(Debug)]
pub(crate) enum Piece {
    Event(String),
    End,
    Failed(Trouble),
}

/// What to send where.
pub(crate) struct Order {
    pub(crate) url: String,
    pub(crate) headers: Vec<(&'static str, zeroize::Zeroizing<String>)>,
    pub(crate) body: Vec<u8>,
    pub(crate) form: Form,
    pub(crate) connect: Duration,
    pub(crate) first_byte: Duration,
    pub(crate) silence: Duration,
    pub(crate) whole: Duration,
    pub(crate) most: u64,
}

/// Connections to the web, through the proxy that the environment names, if it does.
#[derive(Clone, Debug)]
pub(crate) struct Web(Arc<OnceLock<ureq::Agent>>);

impl Web {
    pub(crate) fn new() -> Self {
        Self(Arc::new(OnceLock::new()))
    }

    /// Made when it is first needed: reading what is trusted takes a moment.
    pub(crate) fn agent(&self) -> &ureq::Agent {
        self.0.get_or_init(|| {
            let provider = rustls::crypto::aws_lc_rs::default_provider();
            let tls = TlsConfig::builder()
                .unversioned_rustls_crypto_provider(provider.into())
                .root_certs(RootCerts::Specific(Arc::new(trusted())))
                .build();
            let config = ureq::Agent::config_builder()
                .http_status_as_error(false)
                .max_redirects(0)
                .max_redirects_will_error(false)
                .proxy(ureq::Proxy::try_from_env())
                .tls_config(tls)
                .user_agent("palisade-agent")
                .build();
            config.new_agent()
        })
    }

    /// Sends it. The thread ends when the answer does, when nobody listens any more, or when a time is over.
    pub(crate) fn send(&self, order: Order) -> Receiver<Piece> {
        let (told, heard) = sync_channel(WAITING);
        let web = self.clone();
        std::thread::spawn(move || {
            let last = match relayed(&web, order, &told) {
                Ok(()) => Piece::End,
                Err(trouble) => Piece::Failed(trouble),
            };
            let _ = told.send(last);
        });
        heard
    }
}

fn relayed(web: &Web, order: Order, told: &SyncSender<Piece>) -> Result<(), Trouble> {
    let mut request = web
        .agent()
        .post(&order.url)
        .config()
        .timeout_connect(Some(order.connect))
        .timeout_resolve(Some(order.connect))
        .timeout_recv_response(Some(order.first_byte))
        .timeout_per_read(Some(order.silence))
        .timeout_per_write(Some(order.silence))
        .timeout_global(Some(order.whole))
        .build()
        .header("content-type", "application/json");
    for (name, value) in &order.headers {
        request = request.header(*name, value.as_str());
    }
    let answer = request.send(order.body.as_slice()).map_err(|error| failed(&error))?;
    let status = answer.status();
    if !status.is_success() {
        let header = |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok());
        let wait_ms = header("retry-after").and_then(|text| text.trim().parse::<u64>().ok());
        let wait_ms = wait_ms.map(|seconds| seconds.saturating_mul(1_000));
        let mut body = Vec::new();
        // Only for the words: what cannot be read is left out.
        let _ = answer.into_body().into_reader().take(EXCERPT).read_to_end(&mut body);
        let excerpt = told_reason(&body);
        return Err(Trouble::Status { status: status.as_u16(), excerpt, wait_ms });
    }
    let mut events = Events::new(answer.into_body().into_reader(), order.form, order.most);
    while let Some(event) = events.next()? {
        if told.send(Piece::Event(event)).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// A provider's own words about an error, if they can be found: short, in one line.
fn told_reason(body: &[u8]) -> String {
    let found = serde_json::from_slice::<serde_json::Value>(body).ok().and_then(|value| {
        let places = ["/error/message", "/error", "/message", "/0/error/message"];
        places.iter().find_map(|place| value.pointer(place)?.as_str().map(str::to_owned))
    });
    let words = found.unwrap_or_default();
    words.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect()
}

fn failed(error: &ureq::Error) -> Trouble {
    match error {
        ureq::Error::Timeout(_) => Trouble::Slow,
        ureq::Error::Io(io) if io.kind() == std::io::ErrorKind::TimedOut => Trouble::Slow,
        other => Trouble::Unreachable(other.to_string()),
    }
}

/// What is trusted: the bundle that the environment names, or the one that a distribution keeps.
fn trusted() -> Vec<Certificate<'static>> {
    let named = std::env::var_os("SSL_CERT_FILE").map(std::path::PathBuf::from);
    let usual =
        ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];
    let mut places = named.into_iter().chain(usual.iter().map(Into::into));
    let Some(bundle) = places.find_map(|path| std::fs::read(path).ok()) else { return Vec::new() };
    let found = parse_pem(&bundle).filter_map(|item| match item {
        Ok(PemItem::Certificate(one)) => Some(one),
        Ok(_) | Err(_) => None,
    });
    found.collect()
}
