//! The load generator: told on standard input what to do, says on standard output what came of it.
//!
//! The same program runs in the sandbox and beside it, so what differs is the way and nothing else. It is one thread, so
//! that servers and proxies have the rest of the machine.

use std::future::poll_fn;
use std::io::{BufRead, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use h2::client::SendRequest;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::world::NAME;

/// How long anything may take that is not measured by time.
const PATIENCE: Duration = Duration::from_secs(60);
/// Connections that are opened at the same time, of many.
const AT_ONCE: usize = 128;

/// What to do.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum Task {
    /// Take so many bytes over one connection.
    Bulk { via: Via, port: u16, bytes: u64 },
    /// Connect, get one byte, and end, one after the other.
    Connects { via: Via, port: u16, count: usize },
    /// Hold so many connections open.
    Hold { count: usize, what: What },
    /// End those.
    Release,
    /// Requests over TLS, so many at a time, on connections that stay: as fast as they go, or so many in a second.
    Requests { via: Via, speaks: Http, at_once: usize, millis: u64, pace: Option<f64> },
}

/// Which way.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum Via {
    /// As any program connects.
    Straight,
    /// By asking a proxy.
    Proxy(SocketAddr),
}

/// Which HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Http {
    /// One request at a time on each connection.
    One,
    /// A few connections, each with several streams.
    Two,
}

/// What is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum What {
    /// A tunnel that has carried something and rests.
    Tunnel,
    /// Nobody says anything.
    Silent,
    /// A head that comes a byte at a time.
    Drip,
    /// A head without an end.
    Bomb,
    /// A request that the server does not answer.
    Hang,
    /// Connections that need not be answered, from many processes.
    HalfOpen,
    /// As many processes, and no connections.
    Compute,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Figures {
    /// How many, in all, and how many of them failed.
    pub(super) count: u64,
    pub(super) failed: u64,
    pub(super) seconds: f64,
    /// Microseconds.
    pub(super) p50: f64,
    pub(super) p95: f64,
    pub(super) p99: f64,
}

impl Figures {
    fn of(mut nanos: Vec<u64>, count: u64, seconds: f64) -> Self {
        nanos.sort_unstable();
        let at = |part: f64| {
            let place = (nanos.len() as f64 * part) as usize;
            nanos.get(place).copied().map_or(f64::NAN, |nanos| nanos as f64 / 1000.0)
        };
        Self { count, failed: 0, seconds, p50: at(0.5), p95: at(0.95), p99: at(0.99) }
    }
}

/// Does what it is told until it is told nothing any more.
pub(super) fn serve() -> anyhow::Result<()> {
    let one = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut held = Held::default();
    let mut answers = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        let task: Task = serde_json::from_str(&line?)?;
        let done = one.block_on(done(task, &mut held)).map_err(|error| format!("{error:#}"));
        writeln!(answers, "{}", serde_json::to_string(&done)?)?;
        answers.flush()?;
    }
    Ok(())
}

/// What is held open.
#[derive(Default)]
struct Held {
    tasks: tokio::task::JoinSet<()>,
    others: Vec<std::process::Child>,
}

async fn done(task: Task, held: &mut Held) -> anyhow::Result<Figures> {
    match task {
        Task::Bulk { via, port, bytes } => bulk(via, port, bytes).await,
        Task::Connects { via, port, count } => connects(via, port, count).await,
        Task::Hold { count, what: What::HalfOpen } => crowd(count, "storm", held).await,
        Task::Hold { count, what: What::Compute } => crowd(count, "burn", held).await,
        Task::Hold { count, what } => hold(count, what, held).await,
        Task::Release => {
            held.tasks.shutdown().await;
            for mut other in held.others.drain(..) {
                drop(other.kill());
                drop(other.wait());
            }
            Ok(Figures::default())
        }
        Task::Requests { via, speaks, at_once, millis, pace } => {
            let askers = askers(via, speaks, at_once).await?;
            requests(askers, Duration::from_millis(millis), pace).await
        }
    }
}

/// The address of the one machine, as this place knows it.
async fn found(port: u16) -> anyhow::Result<SocketAddr> {
    tokio::net::lookup_host((NAME, port)).await?.next().context("the name has no address")
}

async fn connected(via: Via, to: SocketAddr) -> anyhow::Result<TcpStream> {
    let Via::Proxy(proxy) = via else {
        let stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        return Ok(stream);
    };
    let mut stream = TcpStream::connect(proxy).await?;
    stream.set_nodelay(true)?;
    let port = to.port();
    let ask = format!("CONNECT {NAME}:{port} HTTP/1.1\r\nHost: {NAME}:{port}\r\n\r\n");
    stream.write_all(ask.as_bytes()).await?;
    let (mut answer, mut byte) = (Vec::new(), [0]);
    while !answer.ends_with(b"\r\n\r\n") {
        ensure!(stream.read(&mut byte).await? == 1 && answer.len() < 4096, "no answer of the proxy");
        answer.extend(byte);
    }
    let answer = String::from_utf8_lossy(&answer);
    ensure!(answer.split(' ').nth(1) == Some("200"), "the proxy says {answer}");
    Ok(stream)
}

fn asked(bytes: u64) -> [u8; 9] {
    let mut asked = [1; 9];
    asked[1..].copy_from_slice(&bytes.to_le_bytes());
    asked
}

async fn bulk(via: Via, port: u16, bytes: u64) -> anyhow::Result<Figures> {
    let mut stream = connected(via, found(port).await?).await?;
    let mut buffer = vec![0; 256 * 1024];
    let begun = Instant::now();
    stream.write_all(&asked(bytes)).await?;
    let mut got = 0;
    while got < bytes {
        let some = stream.read(&mut buffer).await?;
        ensure!(some > 0, "the connection ended after {got} bytes");
        got += u64::try_from(some)?;
    }
    Ok(Figures { count: got, seconds: begun.elapsed().as_secs_f64(), ..Figures::default() })
}

async fn connects(via: Via, port: u16, count: usize) -> anyhow::Result<Figures> {
    let (to, begun) = (found(port).await?, Instant::now());
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let start = Instant::now();
        let mut stream = connected(via, to).await?;
        stream.write_all(&asked(1)).await?;
        stream.read_exact(&mut [0]).await?;
        times.push(u64::try_from(start.elapsed().as_nanos())?);
    }
    Ok(Figures::of(times, u64::try_from(count)?, begun.elapsed().as_secs_f64()))
}

async fn hold(count: usize, what: What, held: &mut Held) -> anyhow::Result<Figures> {
    let begun = Instant::now();
    let to = found(if what == What::Tunnel { super::RAW } else { 80 }).await?;
    let turn = Arc::new(tokio::sync::Semaphore::new(AT_ONCE));
    let (done, mut dones) = tokio::sync::mpsc::unbounded_channel();
    for _ in 0..count {
        let (turn, done) = (Arc::clone(&turn), done.clone());
        held.tasks.spawn(async move {
            let place = turn.acquire_owned().await;
            let opened = match tokio::time::timeout(PATIENCE, open(to, what)).await {
                Ok(opened) => opened,
                Err(_) => Err(anyhow::anyhow!("it took too long")),
            };
            drop(done.send(opened.as_ref().err().map(|error| format!("{error:#}"))));
            drop((place, done));
            if let Ok(stream) = opened {
                stay(stream, what).await;
            }
        });
    }
    drop(done);
    let mut failed = 0;
    while let Some(opened) = dones.recv().await {
        if let Some(why) = opened {
            failed += 1;
            if failed == 1 {
                eprintln!("{what:?}: {why}");
            }
        }
    }
    Ok(Figures {
        count: u64::try_from(count)?,
        failed,
        seconds: begun.elapsed().as_secs_f64(),
        ..Figures::default()
    })
}

async fn open(to: SocketAddr, what: What) -> anyhow::Result<TcpStream> {
    let mut stream = connected(Via::Straight, to).await?;
    match what {
        What::Tunnel => {
            stream.write_all(&asked(1)).await?;
            stream.read_exact(&mut [0]).await?;
        }
        What::Silent | What::HalfOpen | What::Compute => {}
        What::Drip | What::Bomb => {
            stream.write_all(format!("GET / HTTP/1.1\r\nHost: {NAME}\r\n").as_bytes()).await?
        }
        What::Hang => {
            stream.write_all(format!("GET /hang HTTP/1.1\r\nHost: {NAME}\r\n\r\n").as_bytes()).await?
        }
    }
    Ok(stream)
}

/// Stays, and goes on being what it is.
async fn stay(mut stream: TcpStream, what: What) {
    loop {
        let sent = match what {
            What::Drip => stream.write_all(b"x").await,
            What::Bomb => stream.write_all(&b"x-more: and-more\r\n".repeat(64)).await,
            What::Tunnel | What::Silent | What::Hang | What::HalfOpen | What::Compute => {
                std::future::pending().await
            }
        };
        if sent.is_err() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Processes that each have as many connections under way as they may, or that only compute for as long as that takes.
async fn crowd(count: usize, part: &str, held: &mut Held) -> anyhow::Result<Figures> {
    const EACH: usize = 8_000;
    let begun = Instant::now();
    let mut left = count;
    while left > 0 {
        let some = left.min(EACH);
        let mut other = std::process::Command::new(std::env::current_exe()?);
        let other = other.args(["egress-part", part, &some.to_string()]).stdout(std::process::Stdio::piped());
        held.others.push(other.spawn()?);
        left -= some;
    }
    for other in &mut held.others {
        let mut line = String::new();
        std::io::BufReader::new(other.stdout.take().context("no output")?).read_line(&mut line)?;
        ensure!(line == "ready\n", "a process did not start");
    }
    Ok(Figures { count: u64::try_from(count)?, seconds: begun.elapsed().as_secs_f64(), ..Figures::default() })
}

/// One of those that connect. It is ready when each connection has been begun.
pub(super) fn storm(count: usize) -> anyhow::Result<()> {
    let one = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    one.block_on(async {
        let to = found(80).await?;
        let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
        for _ in 0..count {
            let begun = begun.clone();
            tokio::spawn(async move {
                let mut connects = Box::pin(TcpStream::connect(to));
                let first = poll_fn(|cx| Poll::Ready(connects.as_mut().poll(cx))).await;
                let _ = begun.send(());
                let stream = match first {
                    Poll::Ready(stream) => stream,
                    Poll::Pending => connects.await,
                };
                std::future::pending::<()>().await;
                drop(stream);
            });
        }
        for _ in 0..count {
            begins.recv().await.context("a connection was not begun")?;
        }
        println!("ready");
        std::io::stdout().flush()?;
        std::future::pending::<anyhow::Result<()>>().await
    })
}

/// One of those that only compute.
pub(super) fn burn() -> anyhow::Result<()> {
    let until = Instant::now() + Duration::from_millis(1_500);
    let mut number = 1u64;
    while Instant::now() < until {
        number = (0..10_000).fold(number, |number, more| number.wrapping_mul(31).wrapping_add(more));
    }
    println!("ready");
    std::io::stdout().flush()?;
    std::thread::sleep(PATIENCE);
    ensure!(number != 0, "it came to nothing");
    Ok(())
}

fn trusting(speaks: Http) -> anyhow::Result<tokio_rustls::TlsConnector> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(
        CertificateDer::pem_file_iter("/etc/ssl/certs/ca-certificates.crt")?.flatten(),
    );
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder =
        rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![if speaks == Http::Two { b"h2".to_vec() } else { b"http/1.1".to_vec() }];
    Ok(Arc::new(config).into())
}

/// Not counted, at the start.
const WARM_UP: Duration = Duration::from_millis(400);

/// Streams of one connection at the same time.
const STREAMS: usize = 8;

/// Somebody who asks and hears the answer, again and again.
enum Asker {
    One { stream: Box<TlsStream<TcpStream>>, request: Arc<[u8]>, read: Vec<u8> },
    Two { send: SendRequest<Bytes>, request: http::Request<()> },
}

/// As many as are to ask at a time.
async fn askers(via: Via, speaks: Http, count: usize) -> anyhow::Result<Vec<Asker>> {
    let (to, tls) = (found(443).await?, trusting(speaks)?);
    let key = std::env::var("KEY").context("KEY is not set")?;
    let mut askers = Vec::new();
    while askers.len() < count {
        let stream = connected(via, to).await?;
        let stream = Box::new(tls.connect(ServerName::try_from(NAME)?, stream).await?);
        match speaks {
            Http::One => {
                let request = format!(
                    "GET /v1/items/17?page=2 HTTP/1.1\r\nHost: {NAME}\r\nUser-Agent: bench/1\r\n\
                     Accept: application/json\r\nAuthorization: Bearer {key}\r\nX-Request-Id: 6f0f3b9a\r\n\r\n"
                );
                askers.push(Asker::One { stream, request: request.into_bytes().into(), read: Vec::new() });
            }
            Http::Two => {
                ensure!(stream.get_ref().1.alpn_protocol() == Some(b"h2"), "it does not speak HTTP/2");
                let (send, connection) = h2::client::handshake(stream).await?;
                tokio::spawn(connection);
                let request = http::Request::builder()
                    .uri(format!("https://{NAME}/v1/items/17?page=2"))
                    .version(http::Version::HTTP_2)
                    .header("user-agent", "bench/1")
                    .header("accept", "application/json")
                    .header("authorization", format!("Bearer {key}"))
                    .header("x-request-id", "6f0f3b9a")
                    .body(())?;
                let one = || Asker::Two { send: send.clone(), request: request.clone() };
                askers.extend((0..STREAMS.min(count - askers.len())).map(|_| one()));
            }
        }
    }
    Ok(askers)
}

impl Asker {
    /// Asks once; the answer must be the right one.
    async fn ask(&mut self) -> anyhow::Result<()> {
        match self {
            Self::One { stream, request, read } => {
                stream.write_all(request).await?;
                stream.flush().await?;
                answer(stream, read).await
            }
            Self::Two { send, request } => {
                let mut ready = send.clone().ready().await?;
                let answer = ready.send_request(request.clone(), true)?.0.await?;
                ensure!(answer.status() == 200, "answered with {}", answer.status());
                let (mut body, mut got) = (answer.into_body(), 0);
                while let Some(data) = body.data().await {
                    let data = data?;
                    got += data.len();
                    body.flow_control().release_capacity(data.len())?;
                }
                ensure!(got == 1024, "the answer has {got} bytes");
                Ok(())
            }
        }
    }
}

async fn requests(askers: Vec<Asker>, lasting: Duration, pace: Option<f64>) -> anyhow::Result<Figures> {
    let at_once = askers.len();
    let from = Instant::now() + WARM_UP;
    let until = from + lasting;
    let mut tasks = tokio::task::JoinSet::new();
    for (number, asker) in askers.into_iter().enumerate() {
        let beat = pace.map(|pace| {
            let every = Duration::from_secs_f64(at_once as f64 / pace);
            (Instant::now() + every.mul_f64(number as f64 / at_once as f64), every)
        });
        let worker = Worker { asker, from, until, beat };
        tasks.spawn(tokio::time::timeout(WARM_UP + lasting + PATIENCE, worker.keep_busy()));
    }
    let (mut times, mut count) = (Vec::new(), 0);
    while let Some(done) = tasks.join_next().await {
        let (some, all) = done???;
        times.extend(some);
        count += all;
    }
    if times.is_empty() {
        // On a busy machine a slow proxy may answer nothing in the time: it takes at least that long.
        times.push(u64::try_from(lasting.as_nanos())?);
    }
    let measured = times.len() as f64 / lasting.as_secs_f64();
    let figures = Figures::of(times, count, 0.0);
    // Seconds per request, so that all ways can be compared.
    Ok(Figures { seconds: 1.0 / measured, ..figures })
}

/// One of them at work.
struct Worker {
    asker: Asker,
    from: Instant,
    until: Instant,
    /// When the next request is due, and how far they are apart.
    beat: Option<(Instant, Duration)>,
}

impl Worker {
    /// The times of answers that were measured, in nanoseconds, and how many there were in all.
    async fn keep_busy(mut self) -> anyhow::Result<(Vec<u64>, u64)> {
        let (mut times, mut count) = (Vec::with_capacity(16 * 1024), 0);
        loop {
            let mut sent = Instant::now();
            if let Some((due, every)) = &mut self.beat {
                if sent < *due {
                    tokio::time::sleep_until((*due).into()).await;
                    sent = Instant::now();
                } else {
                    // The answer before was late, and this request waited for it.
                    sent = *due;
                }
                *due += *every;
            }
            if sent >= self.until {
                return Ok((times, count));
            }
            self.asker.ask().await?;
            count += 1;
            let now = Instant::now();
            if sent >= self.from && now < self.until {
                times.push(u64::try_from((now - sent).as_nanos())?);
            }
        }
    }
}

/// Reads one answer, which must be the right one.
async fn answer<S: AsyncRead + Unpin>(stream: &mut S, read: &mut Vec<u8>) -> anyhow::Result<()> {
    read.clear();
    loop {
        if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = str::from_utf8(read.get(..end).unwrap_or_default())?;
            if !head.starts_with("HTTP/1.1 200") {
                bail!("answered with: {}", String::from_utf8_lossy(read));
            }
            let length = |line: &str| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
            };
            let length = head.lines().find_map(length).context("an answer without a length")?;
            let all = end + 4 + length;
            while read.len() < all {
                ensure!(stream.read_buf(read).await? > 0, "the answer is cut");
            }
            ensure!(read.len() == all, "more than one answer");
            return Ok(());
        }
        ensure!(stream.read_buf(read).await? > 0, "the connection ended");
    }
}
