//! The reference server: one axum route that answers with bytes it was given, in a process of its own.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use anyhow::Context;
use axum::Router;
use axum::body::Bytes;
use axum::http::header;
use axum::routing::get;

/// `bench serve-bare`: reads the body from standard input, says its address, serves until it is ended.
pub(crate) fn serve() -> anyhow::Result<()> {
    let mut body = Vec::new();
    std::io::stdin().lock().read_to_end(&mut body)?;
    let body = Bytes::from(body);
    let threads = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    threads.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?);
        std::io::stdout().flush()?;
        let answer = move || std::future::ready(([(header::CONTENT_TYPE, "application/json")], body.clone()));
        let router = Router::new().route("/api/v1/worktrees/{id}", get(answer));
        axum::serve(tokio_nodelay(listener), router).await
    })?;
    Ok(())
}

/// As the daemon's connections are.
fn tokio_nodelay(listener: tokio::net::TcpListener) -> impl axum::serve::Listener<Addr = SocketAddr> {
    use axum::serve::ListenerExt;
    listener.tap_io(|stream| drop(stream.set_nodelay(true)))
}

/// A running reference server; it ends with this value.
pub(crate) struct Bare {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Bare {
    pub(crate) fn start(body: &[u8]) -> anyhow::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("serve-bare")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        child.stdin.take().context("no input")?.write_all(body)?;
        let mut line = String::new();
        let out = child.stdout.take().context("no output")?;
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line)?;
        let address = line.trim().parse().context("the bare server did not start")?;
        Ok(Self { child, address })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
