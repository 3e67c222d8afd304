//! Programs that go on while the agent does: a few, each bounded in time and in what is kept of its words.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::Value;

use super::shell::{Bounds, Manner, Running, commanded};
use super::{Desk, Prepared, ToolError, arguments, failed, refused};
use crate::cancel::Cancel;

/// Programs of which the last words can still be asked for.
const REMEMBERED: usize = 64;

/// The programs of one session. Dropping them ends them.
#[derive(Default)]
pub(crate) struct Processes(Mutex<State>);

#[derive(Default)]
struct State {
    next: u64,
    all: BTreeMap<u64, Running>,
}

pub(super) fn start(input: Value, desk: &Arc<Desk>) -> Result<Prepared, ToolError> {
    let (command, program, arguments) = commanded(input, desk)?;
    let desk = Arc::clone(desk);
    let subject = program.display().to_string();
    let run = move |_: &Cancel| {
        let mut state = desk.processes.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut running = 0;
        for process in state.all.values_mut() {
            running += u64::from(process.ended()?.is_none());
        }
        if running >= desk.limits.processes {
            return Err(refused(
                "processes",
                format!("{running} programs run in the background; stop one first"),
            ));
        }
        if state.all.len() >= REMEMBERED {
            // Of those that ended, the one that came first makes room.
            let gone =
                state.all.iter_mut().find_map(|(number, one)| one.ended().ok().flatten().map(|_| *number));
            gone.and_then(|number| state.all.remove(&number));
        }
        let time = Duration::from_millis(desk.limits.process_ms);
        let bounds = Bounds { time, bytes: desk.limits.process_bytes };
        let started = Running::start(&program, &arguments, desk.tree.shown(), bounds, &Manner::default())?;
        state.next += 1;
        let number = state.next;
        state.all.insert(number, started);
        Ok(format!("started as number {number}"))
    };
    Ok(Prepared::plain(format!("{command} (in the background)"), &subject, run))
}

pub(super) fn output(input: Value, desk: &Arc<Desk>) -> Result<Prepared, ToolError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Given {
        number: u64,
        #[serde(default)]
        wait_s: u64,
    }
    let given: Given = arguments(input)?;
    let desk = Arc::clone(desk);
    let run = move |cancel: &Cancel| {
        let until = Instant::now() + Duration::from_secs(given.wait_s.min(30));
        loop {
            let mut state = desk.processes.0.lock().unwrap_or_else(PoisonError::into_inner);
            let process = state
                .all
                .get_mut(&given.number)
                .ok_or_else(|| failed("there is no program of that number"))?;
            let ended = process.ended()?;
            if ended.is_some() || Instant::now() >= until || cancel.is_cancelled() {
                if ended.is_some() {
                    process.settle();
                }
                let said = format!("{}{}", process.out.whole(), process.err.whole());
                let how =
                    ended.map_or_else(|| "running".to_owned(), |code| format!("ended with code {code}"));
                return Ok(format!("[{how}]\n{said}"));
            }
            drop(state);
            cancel.wait(Duration::from_millis(20));
        }
    };
    Ok(Prepared::plain(format!("output of program {}", given.number), "process_output", run))
}

pub(super) fn stop(input: Value, desk: &Arc<Desk>) -> Result<Prepared, ToolError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Given {
        number: u64,
    }
    let given: Given = arguments(input)?;
    let desk = Arc::clone(desk);
    let run = move |_: &Cancel| {
        let mut state = desk.processes.0.lock().unwrap_or_else(PoisonError::into_inner);
        let process =
            state.all.get_mut(&given.number).ok_or_else(|| failed("there is no program of that number"))?;
        process.stop();
        Ok("stopped".to_owned())
    };
    Ok(Prepared::plain(format!("stop program {}", given.number), "stop_process", run))
}
