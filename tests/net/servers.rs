//! Servers of the small internet that speak more than HTTP/1: HTTP/2, and WebSockets.

use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use tungstenite::Message;

use crate::world::{Certificate, PUBLIC, World};

const TRUSTED: Certificate = Certificate { expired: false, trusted: true };

/// What came to a server that speaks HTTP/2.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Method and path.
    pub line: String,
    pub authority: String,
    pub fields: HeaderMap,
    pub body: Vec<u8>,
    pub trailers: Option<HeaderMap>,
}

/// A server that speaks HTTP/2 and nothing else, at port 443 of the public machine.
pub struct Two {
    seen: Arc<Mutex<Vec<Asked>>>,
    shared: Arc<Shared>,
}

/// What its streams share.
#[derive(Default)]
struct Shared {
    /// Streams that wait for each other.
    waiting: AtomicUsize,
    /// How many have to.
    crowd: usize,
    /// Streams that hang, and those that were given up by the other side.
    hanging: AtomicUsize,
    given_up: AtomicUsize,
    connections: AtomicUsize,
    /// The same with those that broke off before anything was said.
    dialled: AtomicUsize,
    /// What `/big/..` is answered with.
    big: Bytes,
}

impl Two {
    /// For these hosts. Streams for `/wait/..` are answered when as many as `crowd` are there.
    pub fn start(world: &World, hosts: &[&str], crowd: usize) -> Self {
        let listener = world.listen(PUBLIC, 443);
        let mut config = (*world.identity(hosts, TRUSTED)).clone();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let seen: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let shared = Arc::new(Shared { crowd, big: vec![b'b'; 5_000_000].into(), ..Shared::default() });
        let (all, more) = (Arc::clone(&seen), Arc::clone(&shared));
        // Ends with the process, as the other servers do.
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(accept(listener, Arc::new(config), all, more));
        });
        Self { seen, shared }
    }

    pub fn seen(&self) -> Vec<Asked> {
        self.seen.lock().unwrap().clone()
    }

    pub fn lines(&self) -> Vec<String> {
        self.seen().into_iter().map(|asked| asked.line).collect()
    }

    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    pub fn dialled(&self) -> usize {
        self.shared.dialled.load(Ordering::SeqCst)
    }

    pub fn hanging(&self) -> usize {
        self.shared.hanging.load(Ordering::SeqCst)
    }

    pub fn given_up(&self) -> usize {
        self.shared.given_up.load(Ordering::SeqCst)
    }

    /// Waits until something holds of it.
    #[track_caller]
    pub fn until(&self, holds: impl Fn(&Self) -> bool) {
        let end = Instant::now() + Duration::from_secs(20);
        while !holds(self) {
            assert!(Instant::now() < end, "it does not come to that: {:?}", self.lines());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

async fn accept(
    listener: TcpListener,
    config: Arc<rustls::ServerConfig>,
    seen: Arc<Mutex<Vec<Asked>>>,
    shared: Arc<Shared>,
) {
    listener.set_nonblocking(true).unwrap();
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(config);
    while let Ok((stream, _)) = listener.accept().await {
        shared.dialled.fetch_add(1, Ordering::SeqCst);
        let (acceptor, seen, shared) = (acceptor.clone(), Arc::clone(&seen), Arc::clone(&shared));
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            if stream.get_ref().1.alpn_protocol() != Some(b"h2") {
                return;
            }
            shared.connections.fetch_add(1, Ordering::SeqCst);
            let Ok(mut connection) = h2::server::handshake(stream).await else { return };
            while let Some(Ok((request, send))) = connection.accept().await {
                let is_last = request.uri().path() == "/ok/last";
                tokio::spawn(answer(request, send, Arc::clone(&seen), Arc::clone(&shared)));
                if is_last {
                    connection.graceful_shutdown();
                }
            }
        });
    }
}

/// Answers with what it got; see the paths.
async fn answer(
    request: http::Request<h2::RecvStream>,
    mut send: h2::server::SendResponse<Bytes>,
    seen: Arc<Mutex<Vec<Asked>>>,
    shared: Arc<Shared>,
) {
    let (parts, mut recv) = request.into_parts();
    let path = parts.uri.path().to_owned();
    let head = http::Response::builder().header("content-type", "application/grpc").body(()).unwrap();
    let mut talk = path.starts_with("/talk").then(|| send.send_response(head.clone(), false).unwrap());
    let mut body = Vec::new();
    while let Some(Ok(data)) = recv.data().await {
        let _ = recv.flow_control().release_capacity(data.len());
        if let Some(talk) = &mut talk {
            talk.send_data(data.clone(), false).unwrap();
        }
        body.extend_from_slice(&data);
    }
    let trailers = recv.trailers().await.ok().flatten();
    let asked = Asked {
        line: format!("{} {}", parts.method, parts.uri.path_and_query().unwrap()),
        authority: parts.uri.authority().map(ToString::to_string).unwrap_or_default(),
        fields: parts.headers.clone(),
        body: body.clone(),
        trailers,
    };
    seen.lock().unwrap().push(asked.clone());
    if path.starts_with("/hang") {
        shared.hanging.fetch_add(1, Ordering::SeqCst);
        let _ = std::future::poll_fn(|cx| send.poll_reset(cx)).await;
        shared.given_up.fetch_add(1, Ordering::SeqCst);
        return;
    }
    if path.starts_with("/wait") {
        shared.waiting.fetch_add(1, Ordering::SeqCst);
        while shared.waiting.load(Ordering::SeqCst) < shared.crowd {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    if path.starts_with("/ok/reset") {
        return send.send_reset(h2::Reason::INTERNAL_ERROR);
    }
    if path.starts_with("/ok/cut") {
        let Ok(mut out) = send.send_response(http::Response::new(()), false) else { return };
        let _ = out.send_data(Bytes::from_static(b"some of it"), false);
        tokio::time::sleep(Duration::from_millis(50)).await;
        return out.send_reset(h2::Reason::INTERNAL_ERROR);
    }
    if path.starts_with("/pkg.Greeter/Fail") {
        // Everything is in the head.
        let head = http::Response::builder().header("grpc-status", "5").body(()).unwrap();
        let _ = send.send_response(head, true);
        return;
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    if let Some(key) = parts.headers.get("x-key") {
        trailers.insert("grpc-message", key.clone());
    }
    let is_call = parts.headers.get("content-type").is_some_and(|kind| kind == "application/grpc");
    if let Some(mut talk) = talk {
        let _ = talk.send_trailers(trailers);
    } else if is_call {
        let Ok(mut out) = send.send_response(head, false) else { return };
        let _ = out.send_data(body.into(), false);
        let _ = out.send_trailers(trailers);
    } else if path.starts_with("/big") {
        let Ok(mut out) = send.send_response(http::Response::new(()), false) else { return };
        let _ = out.send_data(shared.big.clone(), true);
    } else {
        let mut told = format!("{}\n{:?}\n", asked.line, asked.fields).into_bytes();
        told.extend_from_slice(&body);
        let Ok(mut out) = send.send_response(http::Response::new(()), false) else { return };
        let _ = out.send_data(told.into(), true);
    }
}

/// A server of WebSockets that says everything back, at port 443 of the public machine.
pub struct Sockets {
    heads: Arc<Mutex<Vec<String>>>,
    heard: Arc<Mutex<Vec<Message>>>,
}

impl Sockets {
    pub fn start(world: &World, hosts: &[&str]) -> Self {
        let listener = world.listen(PUBLIC, 443);
        let config = world.identity(hosts, TRUSTED);
        let heads: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard: Arc<Mutex<Vec<Message>>> = Arc::default();
        let (all, more) = (Arc::clone(&heads), Arc::clone(&heard));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (config, heads, heard) = (Arc::clone(&config), Arc::clone(&all), Arc::clone(&more));
                std::thread::spawn(move || echo(stream, config, &heads, &heard));
            }
        });
        Self { heads, heard }
    }

    /// The path and the fields of each that was opened.
    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    pub fn heard(&self) -> Vec<Message> {
        self.heard.lock().unwrap().clone()
    }

    pub fn texts(&self) -> Vec<String> {
        self.heard().iter().filter_map(|message| Some(message.to_text().ok()?.to_owned())).collect()
    }
}

fn echo(
    stream: TcpStream,
    config: Arc<rustls::ServerConfig>,
    heads: &Mutex<Vec<String>>,
    heard: &Mutex<Vec<Message>>,
) {
    let connection = rustls::ServerConnection::new(config).unwrap();
    let stream = rustls::StreamOwned::new(connection, stream);
    #[expect(clippy::result_large_err, reason = "the type is the library's")]
    let told = |request: &tungstenite::handshake::server::Request, answer| {
        heads.lock().unwrap().push(format!("{} {:?}", request.uri(), request.headers()));
        Ok(answer)
    };
    let Ok(mut socket) = tungstenite::accept_hdr(stream, told) else { return };
    while let Ok(message) = socket.read() {
        heard.lock().unwrap().push(message.clone());
        match message {
            Message::Text(_) | Message::Binary(_) => {
                if socket.send(message).is_err() {
                    return;
                }
            }
            // The library answers these by itself.
            _ => {
                let _ = socket.flush();
            }
        }
    }
}
