//! What the real daemon costs: requests a second, memory, and the time to its first answer.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::json;

use crate::bare::Bare;
use crate::daemon::{Daemon, Installation};
use crate::load::{self, Round};
use crate::measure::median;
use crate::report::{Bound, Row};
use crate::wire::{Connection, request};

const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(3);
const STARTS: usize = 9;
/// So many different worktrees are asked for in turn.
const ASKED: usize = 1000;

/// The figures of items 3 and 5, and how to read them.
pub(crate) fn rows(binary: &Path, home: &Path, worktrees: usize) -> anyhow::Result<(Vec<Row>, Vec<String>)> {
    let installation = Installation::new(binary, home)?;
    let is_new = !home.join("data").exists();
    let threads = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (mut rows, mut notes) = (Vec::new(), Vec::new());

    let daemon = installation.start()?;
    let token = threads.block_on(daemon.sign_in())?;
    if is_new {
        std::thread::sleep(Duration::from_secs(2));
        rows.push(memory("idle daemon: resident memory", daemon.resident()?, Bound::Below(60.0)));
        let started = Instant::now();
        threads.block_on(fill(&daemon, &token, worktrees))?;
        let seconds = started.elapsed().as_secs_f64();
        notes.push(format!(
            "filling: {worktrees} worktrees through the API in {seconds:.1} s ({:.0}/s)",
            worktrees as f64 / seconds
        ));
    }
    daemon.stop()?;

    rows.push(first_answers(&installation, worktrees)?);
    let daemon = installation.start()?;
    std::thread::sleep(Duration::from_secs(2));
    rows.push(memory(
        "  the same with the full store, nobody signed in yet",
        daemon.resident()?,
        Bound::Information,
    ));
    let token = threads.block_on(daemon.sign_in())?;
    let (requests, body) = threads.block_on(reads(&daemon, &token))?;
    drop(threads);
    // After a start the daemon brings its search index up to date; that is not what is measured.
    load::settle(daemon.pid())?;
    rows.extend(side_by_side(&daemon, requests, &body)?);
    rows.push(memory("  resident memory after the load", daemon.resident()?, Bound::Information));
    daemon.stop()?;
    notes.push(format!(
        "the bare route answers with the same {} bytes of body and no headers but type, length and date",
        body.len()
    ));
    Ok((rows, notes))
}

fn memory(name: &str, mib: f64, bound: Bound) -> Row {
    Row { name: name.into(), unit: "MiB", ours: mib, reference: None, bound }
}

/// Makes one repository and its worktrees, by many connections at once: every write waits for the disk.
async fn fill(daemon: &Daemon, token: &str, worktrees: usize) -> anyhow::Result<()> {
    const AT_ONCE: usize = 32;
    let mut connection = Connection::open(daemon.address).await?;
    let repo = json!({ "name": "repo", "origin": "https://example.org/repo" });
    let repo = connection.call("POST", "/api/v1/repos", token, Some(&repo)).await?["id"].clone();
    let mut tasks = tokio::task::JoinSet::new();
    for first in 0..AT_ONCE {
        let (token, repo, address) = (token.to_owned(), repo.clone(), daemon.address);
        tasks.spawn(async move {
            let mut connection = Connection::open(address).await?;
            for number in (first..worktrees).step_by(AT_ONCE) {
                let body = json!({ "repo": repo, "name": format!("worktree-{number}"), "about": "a place to work in" });
                connection.call("POST", "/api/v1/worktrees", &token, Some(&body)).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

fn first_answers(installation: &Installation, worktrees: usize) -> anyhow::Result<Row> {
    let mut times = Vec::new();
    for _ in 0..STARTS {
        let daemon = installation.start()?;
        times.push(daemon.answered_after.as_secs_f64() * 1000.0);
        daemon.stop()?;
    }
    let name = format!("start to first answer, {worktrees} worktrees");
    Ok(Row { name, unit: "ms", ours: median(&mut times), reference: None, bound: Bound::Below(300.0) })
}

/// The requests to repeat, and the body of one of the answers.
async fn reads(daemon: &Daemon, token: &str) -> anyhow::Result<(Arc<Vec<Vec<u8>>>, Vec<u8>)> {
    let mut connection = Connection::open(daemon.address).await?;
    let (mut requests, mut after) = (Vec::new(), String::new());
    while requests.len() < ASKED {
        let page =
            connection.call("GET", &format!("/api/v1/worktrees?limit=100{after}"), token, None).await?;
        for item in page["items"].as_array().context("no items")? {
            let id = item["id"].as_str().context("no id")?;
            requests.push(request("GET", &format!("/api/v1/worktrees/{id}"), token, ""));
        }
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    let (_, at) = connection.exchange(requests.first().context("there are no worktrees")?).await?;
    let body = connection.answer().get(at).unwrap_or_default().to_vec();
    Ok((Arc::new(requests), body))
}

fn side_by_side(daemon: &Daemon, requests: Arc<Vec<Vec<u8>>>, body: &[u8]) -> anyhow::Result<Vec<Row>> {
    let bare = Bare::start(body)?;
    let (mut ours, mut reference) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(load::round(daemon.address, daemon.pid(), &requests, ROUND)?);
        reference.push(load::round(bare.address, bare.pid(), &requests, ROUND)?);
    }
    let row = |name: &str, unit, figure: fn(&Round) -> f64, bound| {
        let middle = |rounds: &[Round]| median(&mut rounds.iter().map(figure).collect::<Vec<_>>());
        Row { name: name.into(), unit, ours: middle(&ours), reference: Some(middle(&reference)), bound }
    };
    Ok(vec![
        row(
            "GET a worktree, 64 connections / bare axum: requests",
            "/s",
            |round| round.per_second,
            Bound::RatioAtLeast(0.3),
        ),
        row(
            "GET a worktree, 64 connections / bare axum: p99",
            "us",
            |round| round.p99,
            Bound::RatioAtMost(4.0),
        ),
        row("  the same: p50", "us", |round| round.p50, Bound::Information),
        row(
            "  the same: processor time of the server per request",
            "us",
            |round| round.processor,
            Bound::Information,
        ),
    ])
}
