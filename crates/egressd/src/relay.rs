//! Carries bytes between two connections without looking at them, and without taking them out of the kernel.
//!
//! Invariants: a pipe is held only while bytes are in it, so a connection at rest costs two descriptors; an end of one
//! direction is passed on and the other goes on.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rules::Host;
use rustix::net::RecvFlags;
use rustix::pipe::{PipeFlags, SpliceFlags};
use tokio::io::Interest;
use tokio::net::TcpStream;

use crate::connection::may_follow;
use crate::first::{self, Waits};
use crate::quota::Quota;

/// The most bytes that are moved at once.
const AT_ONCE: usize = 1 << 20;
/// Pipes that are kept for the next one.
const MOST_KEPT: usize = 64;
/// How much a pipe holds, where one may have that much.
const ROOM: usize = 1 << 20;

/// How often it is looked whether anything moves. Once one side has said everything, the other one may be silent for as long.
const LOOKS: Duration = Duration::from_secs(15 * 60);
/// How often nothing may have moved while both sides may still speak: two hours and a quarter. Who stands between two networks
/// has to let a connection rest for two hours and four minutes (RFC 5382).
const RESTS: u32 = 9;

/// Pipes that nobody uses just now.
#[derive(Debug, Default)]
pub(crate) struct Pipes(Mutex<Vec<Pipe>>);

#[derive(Debug)]
struct Pipe {
    out: OwnedFd,
    into: OwnedFd,
}

impl Pipes {
    fn take(&self) -> io::Result<Pipe> {
        if let Some(pipe) = self.kept().pop() {
            return Ok(pipe);
        }
        let (out, into) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // Whoever has many gets small ones; they work as well.
        let _ = rustix::pipe::fcntl_setpipe_size(&into, ROOM);
        Ok(Pipe { out, into })
    }

    fn give_back(&self, pipe: Pipe) {
        let mut kept = self.kept();
        if kept.len() < MOST_KEPT {
            kept.push(pipe);
        }
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Vec<Pipe>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// What went each way.
#[derive(Debug)]
pub(crate) struct Moved {
    pub(crate) sent: AtomicU64,
    pub(crate) received: AtomicU64,
    /// Whether one side has said everything.
    is_half: AtomicBool,
    /// How often it is looked.
    looks: Duration,
    /// Where it counts for the whole sandbox, if it does.
    quota: Option<Arc<Quota>>,
}

impl Default for Moved {
    fn default() -> Self {
        let [sent, received] = [AtomicU64::new(0), AtomicU64::new(0)];
        Self { sent, received, is_half: AtomicBool::new(false), looks: LOOKS, quota: None }
    }
}

/// One direction of what goes.
#[derive(Clone, Copy)]
pub(crate) struct Meter<'a> {
    count: &'a AtomicU64,
    quota: Option<&'a Quota>,
    is_out: bool,
}

impl Moved {
    /// Nothing yet; it counts for the whole sandbox.
    pub(crate) fn counted(quota: Arc<Quota>) -> Self {
        Self { quota: Some(quota), ..Self::default() }
    }

    /// What goes out.
    pub(crate) fn out(&self) -> Meter<'_> {
        Meter { count: &self.sent, quota: self.quota.as_deref(), is_out: true }
    }

    /// What comes back.
    fn back(&self) -> Meter<'_> {
        Meter { count: &self.received, quota: self.quota.as_deref(), is_out: false }
    }

    /// Comes back when nothing has moved for too long.
    pub(crate) async fn rested(&self) -> io::Error {
        let mut still = 0;
        loop {
            let now = || (self.sent.load(Ordering::Relaxed), self.received.load(Ordering::Relaxed));
            let before = (now(), self.is_half.load(Ordering::Relaxed));
            tokio::time::sleep(self.looks).await;
            still = if now() == before.0 { still + 1 } else { 0 };
            if still >= RESTS || still > 0 && before.1 {
                return io::Error::new(io::ErrorKind::TimedOut, "nobody said anything for too long");
            }
        }
    }
}

impl Meter<'_> {
    /// Counts bytes that went.
    pub(crate) fn add(self, bytes: u64) {
        self.count.fetch_add(bytes, Ordering::Relaxed);
        match (self.quota, self.is_out) {
            (Some(quota), true) => quota.sent(bytes),
            (Some(quota), false) => quota.received(bytes),
            (None, _) => {}
        }
    }

    /// Whether so many bytes may go.
    pub(crate) fn check(self, bytes: &[u8]) -> io::Result<()> {
        let bytes = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        match self.quota {
            Some(quota) if bytes > quota.left() => Err(quota.no_bytes().into()),
            Some(_) | None => Ok(()),
        }
    }

    /// How many bytes may be moved at once; an error if there are some and none may.
    fn most(self, from: &TcpStream) -> io::Result<usize> {
        let Some(quota) = self.quota else { return Ok(AT_ONCE) };
        match usize::try_from(quota.left()).unwrap_or(usize::MAX) {
            0 => {
                let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
                // An end is not one too many.
                match rustix::net::recv(from, &mut [0u8; 1], flags) {
                    Ok((1.., _)) => Err(quota.no_bytes().into()),
                    Ok(_) | Err(_) => Ok(1),
                }
            }
            left => Ok(left.min(AT_ONCE)),
        }
    }
}

/// Carries everything both ways until both ends have ended.
///
/// # Errors
/// When one of the connections breaks.
pub(crate) async fn both(
    pipes: &Pipes,
    inside: &TcpStream,
    outside: &TcpStream,
    moved: &Moved,
) -> io::Result<()> {
    let out = async {
        one(pipes, inside, outside, moved.out()).await?;
        moved.is_half.store(true, Ordering::Relaxed);
        Ok(())
    };
    both_ways(out, pipes, inside, outside, moved).await
}

/// Carries back what comes while this goes out, until both have ended or nothing moves any more.
async fn both_ways(
    out: impl Future<Output = io::Result<()>>,
    pipes: &Pipes,
    inside: &TcpStream,
    outside: &TcpStream,
    moved: &Moved,
) -> io::Result<()> {
    let back = async {
        one(pipes, outside, inside, moved.back()).await?;
        moved.is_half.store(true, Ordering::Relaxed);
        Ok(())
    };
    tokio::select! {
        carried = async { tokio::try_join!(out, back) } => carried.map(drop),
        rested = moved.rested() => Err(rested),
    }
}

/// The same for a client that lets its server speak first: what it then says itself is looked at like any first words.
///
/// # Errors
/// As [`both`], and when the first words do not agree with where they go.
pub(crate) async fn spoken_to(
    pipes: &Pipes,
    inside: &TcpStream,
    outside: &TcpStream,
    moved: &Moved,
    host: &Host,
) -> io::Result<()> {
    let speaks = async {
        let mut read = Vec::new();
        let first = first::read(inside, &mut read, Waits::Ever).await?;
        may_follow(host, &first).map_err(io::Error::other)?;
        moved.out().check(&read)?;
        let mut rest = read.as_slice();
        while !rest.is_empty() {
            outside.writable().await?;
            match outside.try_write(rest) {
                Ok(put) => {
                    moved.out().add(u64::try_from(put).unwrap_or_default());
                    rest = rest.get(put..).unwrap_or_default();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        one(pipes, inside, outside, moved.out()).await?;
        moved.is_half.store(true, Ordering::Relaxed);
        Ok(())
    };
    both_ways(speaks, pipes, inside, outside, moved).await
}

/// Carries everything one way.
async fn one(pipes: &Pipes, from: &TcpStream, to: &TcpStream, meter: Meter<'_>) -> io::Result<()> {
    loop {
        from.readable().await?;
        let pipe = pipes.take()?;
        let mut held = 0;
        loop {
            // The pipe is empty here, so that nothing can be moved means that nothing has come.
            let most = meter.most(from)?;
            match from.try_io(Interest::READABLE, || splice(from, &pipe.into, most)) {
                Ok(0) => {
                    pipes.give_back(pipe);
                    return rustix::net::shutdown(to, rustix::net::Shutdown::Write).or_else(
                        |error| match error {
                            // It has gone by itself.
                            rustix::io::Errno::NOTCONN => Ok(()),
                            error => Err(error.into()),
                        },
                    );
                }
                Ok(got) => held += got,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
            while held > 0 {
                match to.try_io(Interest::WRITABLE, || splice(&pipe.out, to, AT_ONCE)) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(put) => {
                        held = held.saturating_sub(put);
                        meter.add(u64::try_from(put).unwrap_or_default());
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => to.writable().await?,
                    Err(error) => return Err(error),
                }
            }
        }
        pipes.give_back(pipe);
    }
}

fn splice(from: impl std::os::fd::AsFd, to: impl std::os::fd::AsFd, most: usize) -> io::Result<usize> {
    let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
    loop {
        match rustix::pipe::splice(&from, None, &to, None, most, flags) {
            Err(rustix::io::Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (near, far) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        (near.unwrap(), far.unwrap().0)
    }

    #[tokio::test]
    async fn everything_crosses_both_ways_and_an_end_is_passed_on() {
        let ((mut client, inside), (outside, mut server)) = (pair().await, pair().await);
        let (pipes, moved) = (Pipes::default(), Moved::default());
        let sent: Vec<u8> = (0..5_000_000u32).map(|number| number.to_le_bytes()[1]).collect();
        let talk = async {
            let write = async {
                client.write_all(&sent).await.unwrap();
                client.shutdown().await.unwrap();
                let mut answer = Vec::new();
                client.read_to_end(&mut answer).await.unwrap();
                assert_eq!(answer, b"thanks");
            };
            let read = async {
                let mut got = Vec::new();
                server.read_to_end(&mut got).await.unwrap();
                assert!(got == sent);
                // The other direction is still open.
                server.write_all(b"thanks").await.unwrap();
                server.shutdown().await.unwrap();
            };
            tokio::join!(write, read);
        };
        let (carried, ()) = tokio::join!(both(&pipes, &inside, &outside, &moved), talk);
        carried.unwrap();
        assert_eq!(moved.sent.load(Ordering::Relaxed), 5_000_000);
        assert_eq!(moved.received.load(Ordering::Relaxed), 6);
    }

    #[tokio::test]
    async fn adv_n16_a_connection_on_which_nothing_moves_ends_and_sooner_when_one_side_has_ended() {
        let looks = Duration::from_millis(100);
        for (is_half, least) in [(false, 9), (true, 1)] {
            let ((mut client, inside), (outside, mut server)) = (pair().await, pair().await);
            let (pipes, moved) = (Pipes::default(), Moved { looks, ..Moved::default() });
            let begun = std::time::Instant::now();
            let talk = async {
                client.write_all(b"hello").await.unwrap();
                server.read_exact(&mut [0; 5]).await.unwrap();
                if is_half {
                    client.shutdown().await.unwrap();
                }
            };
            let (carried, ()) = tokio::join!(both(&pipes, &inside, &outside, &moved), talk);
            assert_eq!(carried.unwrap_err().kind(), io::ErrorKind::TimedOut);
            let rested = begun.elapsed();
            assert!(rested >= looks * least, "{is_half}: {rested:?}");
            assert!(!is_half || rested < looks * 9, "it does not wait as if both could speak: {rested:?}");
        }
    }

    #[tokio::test]
    async fn a_connection_that_breaks_is_told() {
        let ((client, inside), (outside, server)) = (pair().await, pair().await);
        let (pipes, moved) = (Pipes::default(), Moved::default());
        let breaks = async {
            rustix::net::sockopt::set_socket_linger(&server, Some(std::time::Duration::ZERO)).unwrap();
            drop(server);
        };
        let (carried, ()) = tokio::join!(both(&pipes, &inside, &outside, &moved), breaks);
        assert!(carried.is_err());
        drop(client);
    }
}
