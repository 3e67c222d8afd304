//! Connections: accept, TLS, HTTP, and an orderly end.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::Version;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tower::Service;

use crate::outflow::Pace;
use crate::patient::Patient;
use crate::pipeline::Peer;
use crate::seats::Seats;
use crate::settings::Settings;

const HEADER_BYTES: usize = 16 * 1024;
const HEADER_TIME: Duration = Duration::from_secs(15);
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
const GRACE: Duration = Duration::from_secs(5);
/// Streams of one HTTP/2 connection at once, and what is held for each.
const STREAMS: u32 = 64;
const SEND_BYTES: usize = 64 * 1024;
/// The most bytes of a file of certificates.
const MOST_PEM: u64 = 4 << 20;
/// One peer has at most this part of all connections.
const PEER_PART: usize = 4;

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    #[error("`{0}` cannot be read: {1}")]
    File(String, String),
    #[error("certificate and key do not go together")]
    Pair(#[from] rustls::Error),
    #[error("`server.tls_client_ca` cannot be used: {0}")]
    Clients(String),
}

/// TLS from the settings, if there is any.
pub(crate) fn tls(settings: &Settings) -> Result<Option<TlsAcceptor>, TlsError> {
    let Some((cert, key)) = &settings.tls else { return Ok(None) };
    let chain = certificates(cert)?;
    let key_error =
        |error: rustls::pki_types::pem::Error| TlsError::File(key.display().to_string(), error.to_string());
    let private = PrivateKeyDer::from_pem_slice(&pem(key)?).map_err(key_error)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder =
        ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    let builder = match &settings.tls_client_ca {
        None => builder.with_no_client_auth(),
        Some(file) => {
            let mut roots = rustls::RootCertStore::empty();
            for one in certificates(file)? {
                roots.add(one)?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.map_err(|error| TlsError::Clients(error.to_string()))?)
        }
    };
    let mut config = builder.with_single_cert(chain, private)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Some(TlsAcceptor::from(Arc::new(config))))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |error: String| TlsError::File(path.display().to_string(), error);
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem(path)?).collect();
    match found {
        Ok(list) if list.is_empty() => Err(failed("there is no certificate in it".into())),
        Ok(list) => Ok(list),
        Err(error) => Err(failed(error.to_string())),
    }
}

/// A file of certificates or of a key, as the settings name it.
fn pem(path: &Path) -> Result<Vec<u8>, TlsError> {
    let failed = |error: files::FileError| TlsError::File(path.display().to_string(), error.to_string());
    files::read(path, MOST_PEM, files::Rule::Any).map_err(failed)
}

/// Serves until told to stop, then lets requests under way finish for a moment.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    proxies: Vec<IpAddr>,
    mut stop: watch::Receiver<bool>,
) {
    let graceful = Arc::new(GracefulShutdown::new());
    let mut http = Builder::new(TokioExecutor::new());
    http.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIME).max_buf_size(HEADER_BYTES);
    let most = u32::try_from(HEADER_BYTES).unwrap_or(u32::MAX);
    http.http2()
        .timer(TokioTimer::new())
        .max_header_list_size(most)
        .max_concurrent_streams(STREAMS)
        .max_send_buf_size(SEND_BYTES)
        .keep_alive_interval(Duration::from_secs(30));
    let http = Arc::new(http);
    let seats = Seats::new(most_connections(), most_connections() / PEER_PART);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = crate::up::stopped(&mut stop) => break,
        };
        let Ok((stream, peer)) = accepted else {
            // Out of descriptors: wait for some to be given back.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        // Behind a proxy, which often is on this machine, everyone has the proxy's address.
        let address = peer.ip().to_canonical();
        let many = address.is_loopback() || proxies.contains(&address);
        let each = if many { usize::MAX } else { seats.each() };
        let Ok(seat) = seats.take_within(network(address), each) else {
            drop(stream);
            continue;
        };
        let pace = Pace::new();
        let service = for_peer(router.clone(), Peer(peer), pace.clone());
        let (http, tls, watcher) = (Arc::clone(&http), tls.clone(), graceful.watcher());
        tokio::spawn(async move {
            let _seat = seat;
            let _counted = Counted::new();
            drop(stream.set_nodelay(true));
            match tls {
                None => {
                    let connection =
                        http.serve_connection_with_upgrades(TokioIo::new(Patient::new(stream)), service);
                    unless_stalled(&pace, watcher.watch(connection.into_owned())).await;
                }
                Some(tls) => {
                    let Some(stream) = handshake(&tls, stream).await else { return };
                    let connection =
                        http.serve_connection_with_upgrades(TokioIo::new(Patient::new(stream)), service);
                    unless_stalled(&pace, watcher.watch(connection.into_owned())).await;
                }
            }
        });
    }
    drop(listener);
    let Some(graceful) = Arc::into_inner(graceful) else { return };
    if tokio::time::timeout(GRACE, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests did not end in time");
    }
}

/// Serves a connection to its end, or until a stream of it stands still.
async fn unless_stalled<T>(pace: &Pace, connection: impl Future<Output = T>) {
    tokio::select! {
        ended = connection => drop(ended),
        () = pace.stalled() => tracing::info!("a connection was closed: a stream of it stands still"),
    }
}

/// What connections are counted by: the address, or the network of an IPv6 address.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(address) => IpAddr::from((address.to_bits() & (u128::MAX << 64)).to_be_bytes()),
        IpAddr::V4(_) => address,
    }
}

/// One connection, as the metrics count it.
struct Counted;

impl Counted {
    fn new() -> Self {
        metrics::gauge!("palisade_connections").increment(1.0);
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        metrics::gauge!("palisade_connections").decrement(1.0);
    }
}

/// Connections beyond this are closed at once, so that files can still be opened.
fn most_connections() -> usize {
    const WANTED: u64 = 4_096;
    const OTHER_FILES: u64 = 200;
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(WANTED);
    usize::try_from(files.saturating_sub(OTHER_FILES).clamp(32, WANTED)).unwrap_or(32)
}

async fn handshake(
    tls: &TlsAcceptor,
    stream: TcpStream,
) -> Option<tokio_rustls::server::TlsStream<TcpStream>> {
    tokio::time::timeout(HANDSHAKE_TIME, tls.accept(stream)).await.ok()?.ok()
}

/// The router for one connection: every request on it carries where it came from.
fn for_peer(
    router: Router,
    peer: Peer,
    pace: Pace,
) -> impl hyper::service::Service<
    Request<Incoming>,
    Response = axum::response::Response,
    Error = std::convert::Infallible,
    Future: Send + 'static,
> + Clone
+ Send
+ 'static {
    hyper::service::service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        // Of HTTP/1 there is one answer at a time, and the connection itself shows whether it is taken.
        let pace = (request.version() == Version::HTTP_2).then(|| pace.clone());
        let answer = router.clone().call(request);
        async move {
            let answer = answer.await?;
            Ok(match pace {
                Some(pace) => answer.map(|body| pace.watch(body)),
                None => answer,
            })
        }
    })
}
