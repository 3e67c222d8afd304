//! The machine that everything connects to: bytes on demand, and requests that are answered if the secret is right.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use bytes::Bytes;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::world::PUBLIC;
use super::{RAW, SECRET};

/// Serves until it is ended.
pub(super) fn serve(at: &Path) -> anyhow::Result<()> {
    let tls = tokio_rustls::TlsAcceptor::from(Arc::new(identity(at)?));
    let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    threads.block_on(async {
        let listener = |port: u16| async move {
            // More may wait than most servers let: the benchmark opens thousands at once.
            let socket = tokio::net::TcpSocket::new_v4()?;
            socket.set_reuseaddr(true)?;
            socket.bind(format!("{PUBLIC}:{port}").parse()?)?;
            anyhow::Ok(socket.listen(8192)?)
        };
        let (raw, plain, private) = (listener(RAW).await?, listener(80).await?, listener(443).await?);
        println!("ready");
        std::io::stdout().flush()?;
        tokio::spawn(accept(raw, |stream| async move { drop(bytes(stream).await) }));
        tokio::spawn(accept(plain, |stream| async move { drop(requests(stream).await) }));
        accept(private, move |stream| {
            let tls = tls.clone();
            async move {
                let Ok(stream) = tls.accept(stream).await else { return };
                if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                    drop(streams(stream).await);
                } else {
                    drop(requests(stream).await);
                }
            }
        })
        .await;
        Ok(())
    })
}

fn identity(at: &Path) -> anyhow::Result<rustls::ServerConfig> {
    let pem = std::fs::read(at.join("site.pem"))?;
    let key = PrivateKeyDer::from_pem_slice(&pem)?;
    let certificates = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>()?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder =
        rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = builder.with_no_client_auth().with_single_cert(certificates, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

async fn accept<F: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    serve: impl Fn(TcpStream) -> F + Send + 'static,
) {
    while let Ok((stream, _)) = listener.accept().await {
        drop(stream.set_nodelay(true));
        tokio::spawn(serve(stream));
    }
}

/// A one and a length, and so many bytes back, again and again.
async fn bytes(mut stream: TcpStream) -> std::io::Result<()> {
    let block = vec![0x5a_u8; 256 * 1024];
    loop {
        let mut asked = [0; 9];
        stream.read_exact(&mut asked).await?;
        let length = asked.last_chunk::<8>().copied().unwrap_or_default();
        let mut left = usize::try_from(u64::from_le_bytes(length)).unwrap_or_default();
        while left > 0 {
            let some = left.min(block.len());
            stream.write_all(block.get(..some).unwrap_or_default()).await?;
            left -= some;
        }
    }
}

/// Requests without content, each answered with a kilobyte.
async fn requests<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S) -> anyhow::Result<()> {
    let body = "x".repeat(1024);
    let answer = |status: &str| {
        format!("HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: 1024\r\n\r\n{body}")
    };
    let (right, wrong) = (answer("200 OK"), answer("401 Unauthorized"));
    let bearer = format!("Bearer {SECRET}\r\n");
    let mut read = Vec::with_capacity(4096);
    loop {
        let end = loop {
            if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            if stream.read_buf(&mut read).await? == 0 {
                return Ok(());
            }
        };
        let head = str::from_utf8(read.get(..end).context("no head")?)?;
        if head.starts_with("GET /hang") {
            std::future::pending::<()>().await;
        }
        let answer = if head.contains(&bearer) { &right } else { &wrong };
        stream.write_all(answer.as_bytes()).await?;
        stream.flush().await?;
        read.drain(..end);
    }
}

/// The same over HTTP/2.
async fn streams<S: AsyncRead + AsyncWrite + Unpin>(stream: S) -> anyhow::Result<()> {
    let body = Bytes::from("x".repeat(1024));
    let bearer = format!("Bearer {SECRET}");
    let mut connection = h2::server::handshake(stream).await?;
    while let Some(next) = connection.accept().await {
        let (request, mut respond) = next?;
        let is_right = request.headers().get("authorization").is_some_and(|value| value == bearer.as_str());
        let answer = http::Response::builder()
            .status(if is_right { 200 } else { 401 })
            .header("content-type", "text/plain")
            .header("content-length", body.len())
            .body(())?;
        respond.send_response(answer, false)?.send_data(body.clone(), true)?;
    }
    Ok(())
}
