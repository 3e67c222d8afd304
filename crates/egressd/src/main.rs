//! `palisade-egress`: the proxy of one sandbox, alone in its process.
//!
//! Flow: orders on standard input (names, rules, listeners) -> connections that were led here -> each judged by the name
//! it asked for -> passed on, or refused with a reason -> a report of both. Invariants: it takes orders from its launcher
//! only and ends with it; it dials only addresses that were judged; what it cannot report it does not do. Not here: which
//! address stands for which name (the launcher decides and tells).

mod answers;
mod asked;
mod confine;
mod connection;
mod dial;
mod escapes;
mod first;
mod held;
mod house;
mod http;
mod lent;
mod metered;
mod published;
mod quota;
mod relay;
mod telling;
mod tls;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::sync::Arc;

use egress::control::{Line, Order, Report};

use crate::house::House;

/// Threads that carry; more do not help on the machines that agents run on, and each has its own memory.
const MOST_THREADS: usize = 4;

fn main() -> ExitCode {
    let Ok(line) = io::stdin().as_fd().try_clone_to_owned().map(Line::of) else { return ExitCode::from(2) };
    match serve(&line) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Whoever started it is told; there is no terminal here that would be ours to write to.
            let _ = line.say(&Report::Broken { why: error.to_string() }, &[], false);
            ExitCode::FAILURE
        }
    }
}

fn serve(line: &Line) -> io::Result<()> {
    let strange = || io::Error::new(io::ErrorKind::InvalidData, "the first order is not understood");
    let (Order::Begin { user }, _) = line.hear::<Order>(true)?.ok_or_else(strange)? else {
        return Err(strange());
    };
    confine::confine(user)?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    let (house, said) = House::new();
    let house = Arc::new(house);
    let speaker = line.as_fd().try_clone_to_owned().map(Line::of)?;
    let speaker = std::thread::Builder::new().name("reports".into()).spawn(move || speak(&speaker, said))?;
    runtime.spawn(house::account(Arc::clone(&house)));
    obey(line, &house, &runtime)?;
    // Nobody will order anything any more: what is open is told and closed.
    house.close();
    runtime.block_on(house.emptied());
    let _ = speaker.join();
    Ok(())
}

/// Does what the launcher says, until it says nothing any more.
fn obey(line: &Line, house: &Arc<House>, runtime: &tokio::runtime::Runtime) -> io::Result<()> {
    let (mut parts, mut loans) = (Vec::new(), Vec::new());
    while let Some((order, with)) = line.hear::<Order>(true)? {
        match order {
            Order::Begin { .. } => return Err(io::Error::other("it has begun already")),
            Order::Authority => sign(line, house, with.first())?,
            Order::Lend(loan) => loans.push(loan),
            Order::Part(some) => parts.extend(some),
            Order::Rules { generation } => {
                // What is lent comes before the rules that let it go anywhere.
                if !loans.is_empty() {
                    house.lend(std::mem::take(&mut loans));
                }
                house.rule(generation, std::mem::take(&mut parts));
            }
            Order::Names(names) => house.name(names),
            Order::Ask => house.questions.begin(),
            Order::Refuse(destination) => house.questions.refuse(destination),
            Order::Limit { limits, used } => house.quota.limit(limits, used),
            Order::WaysIn => house.ways_in.add(with),
            Order::Publish { port } => {
                let _inside = runtime.enter();
                for listener in with {
                    runtime.spawn(published::accept(Arc::clone(house), taken(listener)?, port));
                }
            }
            Order::Unpublish => house.ways_in.close(),
            Order::Listen => {
                let _inside = runtime.enter();
                for listener in with {
                    let listener = taken(listener)?;
                    runtime.spawn(connection::accept(Arc::clone(house), listener));
                }
            }
        }
    }
    Ok(())
}

/// Takes the authority that comes along, or makes one and gives it out.
fn sign(line: &Line, house: &House, memory: Option<&OwnedFd>) -> io::Result<()> {
    let authority = match memory {
        Some(memory) => tls::Authority::again(memory)?,
        None => {
            let (authority, certificate, memory) = tls::Authority::made()?;
            line.say(&Report::Authority { certificate }, &[memory.as_fd()], true)?;
            authority
        }
    };
    house.sign(authority);
    Ok(())
}

/// Says what was decided, in the order in which it was.
fn speak(line: &Line, mut said: tokio::sync::mpsc::Receiver<Report>) {
    while let Some(report) = said.blocking_recv() {
        if line.say(&report, &[], true).is_err() {
            // A proxy whose word nobody hears must not go on.
            std::process::exit(1);
        }
        if report == Report::Last {
            return;
        }
    }
}

fn taken(listener: OwnedFd) -> io::Result<tokio::net::TcpListener> {
    let listener = std::net::TcpListener::from(listener);
    listener.set_nonblocking(true)?;
    tokio::net::TcpListener::from_std(listener)
}
