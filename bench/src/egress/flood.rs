//! One sandbox misbehaves in the ways that programs on a network do: what its own proxy takes, and what another notices.

use std::time::Duration;

use super::client::{Http, Task, Via, What};
use super::world::{Client, World};
use super::{resident, row};
use crate::measure::median;
use crate::report::{Bound, Row};

/// Connections that do nothing, of one sandbox.
const IDLE: usize = 1_000;
/// Connections that are never answered, of one sandbox.
const STORM: usize = 100_000;
/// Requests of the other sandbox in a second.
const PACE: f64 = 500.0;
const ROUNDS: usize = 5;

/// How it misbehaves, how often, and what it is called.
const WAYS: [(What, usize, &str); 5] = [
    (What::Silent, IDLE, "1,000 connections of another sandbox rest"),
    (What::Drip, IDLE, "1,000 heads of another come a byte at a time"),
    (What::Bomb, IDLE, "1,000 heads of another have no end"),
    (What::Hang, IDLE, "1,000 requests of another are never answered"),
    (What::HalfOpen, STORM, "100,000 connections of another are held"),
];

pub(super) fn rows(world: &World, notes: &mut Vec<String>) -> anyhow::Result<Vec<Row>> {
    let mut other = world.sandboxed()?;
    let paced =
        Task::Requests { via: Via::Straight, speaks: Http::One, at_once: 8, millis: 1_000, pace: Some(PACE) };
    other.ask(&paced)?;
    let mut rows = Vec::new();
    for (what, count, name) in WAYS {
        // A new one each time: what is left of one way must not be counted for another.
        let mut flooder = world.sandboxed()?;
        flooder.ask(&Task::Connects { via: Via::Straight, port: super::RAW, count: 1 })?;
        let (proxy, launcher) = (flooder.proxy()?, flooder.process.pid());
        let before = resident(proxy)?;
        let (mut quiet, mut loud) = (Vec::new(), Vec::new());
        let (mut most, mut launchers) = (0.0_f64, 0.0_f64);
        for _ in 0..ROUNDS {
            quiet.push(other.ask(&paced)?.p95);
            flooder.ask(&Task::Hold { count, what })?;
            loud.push(other.ask(&paced)?.p95);
            (most, launchers) = (most.max(resident(proxy)?), launchers.max(resident(launcher)?));
            flooder.ask(&Task::Release)?;
        }
        rows.push(row(
            format!("{name}: p95"),
            "us",
            median(&mut loud),
            Some(median(&mut quiet)),
            Bound::RatioBelow(2.0),
        ));
        rows.push(row("  the same: memory of that one's proxy", "MiB", most, None, Bound::Below(150.0)));
        notes.push(format!(
            "{name}: its proxy had {before:.1} MiB before; its launcher {launchers:.1} MiB at most"
        ));
    }
    rows.extend(begun(world, &mut other, &paced)?);
    Ok(rows)
}

/// While the connections are begun. That is work of the processes that begin them, too: so it is also compared with as many
/// processes of that sandbox that only compute.
fn begun(world: &World, other: &mut Client, paced: &Task) -> anyhow::Result<[Row; 2]> {
    /// Not at once: the first requests of the other sandbox are not counted.
    const LATER: Duration = Duration::from_millis(300);
    let (mut quiet, mut loud, mut busy) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        quiet.push(other.ask(paced)?.p95);
        for (what, times) in [(What::HalfOpen, &mut loud), (What::Compute, &mut busy)] {
            let mut flooder = world.sandboxed()?;
            flooder.ask(&Task::Connects { via: Via::Straight, port: super::RAW, count: 1 })?;
            let figures = std::thread::scope(|scope| {
                let floods = scope.spawn(|| {
                    std::thread::sleep(LATER);
                    flooder.ask(&Task::Hold { count: STORM, what })
                });
                let figures = other.ask(paced);
                floods.join().map_err(|_| anyhow::anyhow!("the flood broke off"))??;
                figures
            })?;
            flooder.ask(&Task::Release)?;
            times.push(figures.p95);
        }
    }
    let (loud, quiet) = (median(&mut loud), Some(median(&mut quiet)));
    let name = "100,000 connections of another are begun: p95";
    let beside = "  the same / as many of its processes that only compute";
    Ok([
        row(name, "us", loud, quiet, Bound::RatioBelow(2.0)),
        row(beside, "us", loud, Some(median(&mut busy)), Bound::Information),
    ])
}
