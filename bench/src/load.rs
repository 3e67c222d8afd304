//! Keeps 64 connections busy for a while: each sends the next request when it has the answer to the last.
//!
//! One thread, so that the server has the rest of the machine. Every wait is bounded by the end of the round.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::wire::Connection;

/// How many connections.
pub(crate) const CONNECTIONS: usize = 64;
/// Not counted, at the start of every round.
const WARM_UP: Duration = Duration::from_millis(500);

/// What came of a round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    pub(crate) per_second: f64,
    /// Microseconds.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    /// Processor time of the server per request, in microseconds.
    pub(crate) processor: f64,
}

/// Sends `requests` in turn to the server that is process `pid`.
pub(crate) fn round(
    to: SocketAddr,
    pid: u32,
    requests: &Arc<Vec<Vec<u8>>>,
    lasting: Duration,
) -> anyhow::Result<Round> {
    let one = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    one.block_on(async {
        let from = Instant::now() + WARM_UP;
        let until = from + lasting;
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..CONNECTIONS {
            tasks.spawn(tokio::time::timeout(
                WARM_UP + lasting + Duration::from_secs(10),
                keep_busy(to, Arc::clone(requests), number, from, until),
            ));
        }
        tokio::time::sleep_until(from.into()).await;
        let before = processor_time(pid)?;
        tokio::time::sleep_until(until.into()).await;
        let processor = processor_time(pid)? - before;
        let mut times = Vec::new();
        while let Some(done) = tasks.join_next().await {
            times.extend(done??.context("a connection failed")?);
        }
        times.sort_unstable();
        let at = |part: f64| {
            times
                .get((times.len() as f64 * part) as usize)
                .copied()
                .map_or(f64::NAN, |nanos| nanos as f64 / 1000.0)
        };
        let count = times.len() as f64;
        Ok(Round {
            per_second: count / lasting.as_secs_f64(),
            p50: at(0.5),
            p99: at(0.99),
            processor: processor / count * 1e6,
        })
    })
}

/// The times of the answers that arrived within the round, in nanoseconds.
async fn keep_busy(
    to: SocketAddr,
    requests: Arc<Vec<Vec<u8>>>,
    number: usize,
    from: Instant,
    until: Instant,
) -> anyhow::Result<Vec<u64>> {
    let mut connection = Connection::open(to).await?;
    let mut times = Vec::with_capacity(16 * 1024);
    for request in requests.iter().cycle().skip(number * 13 % requests.len()) {
        let sent = Instant::now();
        let (status, _) = connection.exchange(request).await?;
        anyhow::ensure!(
            status == 200,
            "answered with {status}: {}",
            String::from_utf8_lossy(connection.answer())
        );
        let now = Instant::now();
        if now >= until {
            break;
        }
        if sent >= from {
            times.push(u64::try_from((now - sent).as_nanos())?);
        }
    }
    Ok(times)
}

/// Seconds that a process has used.
pub(crate) fn processor_time(pid: u32) -> anyhow::Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name may hold spaces; the fields after it are numbers. 14 and 15 are user and system time.
    let (_, rest) = text.rsplit_once(") ").context("no process status")?;
    let ticks: f64 = rest.split(' ').skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
    Ok(ticks / rustix::param::clock_ticks_per_second() as f64)
}

/// Waits until a process has nothing more to do, or half a minute.
pub(crate) fn settle(pid: u32) -> anyhow::Result<()> {
    for _ in 0..30 {
        let before = processor_time(pid)?;
        std::thread::sleep(Duration::from_secs(1));
        if processor_time(pid)? - before < 0.02 {
            break;
        }
    }
    Ok(())
}
