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
mod logins;
mod metered;
mod published;
mod quota;
mod relay;
mod sigv4;
mod telling;
mod tls;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use egress::control::{Line, Order, Report, Verdict, Wanted};

use crate::house::{House, Said};

/// Threads that carry; more do not help on the machines that agents run on, and each has its own memory.
const MOST_THREADS: usize = 4;
/// Reports in one packet.
const AT_ONCE: usize = 64;
/// What strangers chose of them, in bytes; one report may have more by itself.
const ROOM: usize = 16 * 1024;
/// How long reports are gathered while there are many.
const MOMENT: Duration = Duration::from_millis(4);

fn main() -> ExitCode {
    // What a panic says may hold what passed here, and nobody reads it: whoever started it sees that the line ends.
    std::panic::set_hook(Box::new(|_| ()));
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
    // A session of its own: where processors are shared by sessions, all that it does has the share of one, and others theirs.
    let _ = rustix::process::setsid();
    // What says how many there are lies in files that it is about to give up.
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
    confine::confine(user)?;
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
    let (mut parts, mut loans, mut logins) = (Vec::new(), Vec::new(), Vec::new());
    while let Some((order, with)) = line.hear::<Order>(true)? {
        match order {
            Order::Begin { .. } => return Err(io::Error::other("it has begun already")),
            Order::Authority => sign(line, house, with.first())?,
            Order::Lend(loan) => loans.push(loan),
            Order::Login(login) => logins.push(login),
            Order::NotRenewed { name, turn, why, is_final } => {
                house.logins.not_renewed(&name, turn, why, is_final);
            }
            Order::Part(some) => parts.extend(some),
            Order::Rules { generation } => {
                // What is lent comes before the rules that let it go anywhere.
                if !loans.is_empty() {
                    house.lend(std::mem::take(&mut loans));
                }
                // Whoever waits for a token finds it lent.
                if !logins.is_empty() {
                    house.logins.hold(std::mem::take(&mut logins));
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
fn speak(line: &Line, Said { mut said, mut urgent }: Said) {
    let mut spoke = Instant::now();
    // Whoever says something urgent says something else as well, so this wakes up for it.
    while let Some(first) = said.blocking_recv() {
        while let Ok(report) = urgent.try_recv() {
            if line.say(&report, &[], true).is_err() {
                std::process::exit(1);
            }
        }
        // Whoever has just spoken waits a moment, so that much is said at once and little at once. Where there is much
        // already nobody waits: those who decide would soon wait too.
        if spoke.elapsed() < MOMENT && said.len() < AT_ONCE {
            std::thread::sleep(MOMENT);
        }
        let mut is_last = first == Report::Last;
        let (mut room, mut reports) = (ROOM.saturating_sub(size(&first)), vec![first]);
        while !is_last && room > 0 && reports.len() < AT_ONCE {
            let Ok(next) = said.try_recv() else { break };
            is_last = next == Report::Last;
            room = room.saturating_sub(size(&next));
            reports.push(next);
        }
        let last = if is_last { reports.pop() } else { None };
        let several = match reports.len() {
            0 => None,
            1 => reports.pop(),
            _ => Some(Report::Several(reports)),
        };
        for report in several.into_iter().chain(last) {
            if line.say(&report, &[], true).is_err() {
                // A proxy whose word nobody hears must not go on.
                std::process::exit(1);
            }
        }
        if is_last {
            return;
        }
        spoke = Instant::now();
    }
}

/// What stands in every report besides, with room to spare.
const FRAME: usize = 64;

/// About how many bytes the parts of a report are that strangers choose. In a packet they may be several times as many.
fn size(report: &Report) -> usize {
    let of = |wanted: &Wanted, more: &str| {
        let Wanted { host, method, path, .. } = wanted;
        let texts = [Some(host), method.as_ref(), path.as_ref()];
        more.len() + texts.into_iter().flatten().map(String::len).sum::<usize>()
    };
    let chosen = match report {
        Report::Judged {
            wanted,
            verdict: Verdict::Refused { why: more } | Verdict::Allowed { rule: more, .. },
            ..
        }
        | Report::Finding { wanted, what: more }
        | Report::TooMuch { wanted, why: more, .. }
        | Report::Stolen { wanted, name: more } => of(wanted, more),
        Report::Over { wanted, trouble, .. } => of(wanted, trouble.as_deref().unwrap_or_default()),
        Report::Unusable { why, .. } => why.len(),
        Report::Authority { .. }
        | Report::Holds { .. }
        | Report::Several(_)
        | Report::Came { .. }
        | Report::Used(_)
        | Report::Entered { .. }
        | Report::Stale { .. }
        | Report::Asks { .. }
        | Report::Unasked { .. }
        | Report::Last
        | Report::Broken { .. } => 0,
    };
    chosen + FRAME
}

fn taken(listener: OwnedFd) -> io::Result<tokio::net::TcpListener> {
    let listener = std::net::TcpListener::from(listener);
    listener.set_nonblocking(true)?;
    tokio::net::TcpListener::from_std(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process has one hook, so this is a second one: `main` itself puts it there, and then something panics.
    #[test]
    fn sec_16_a_panic_is_not_told() {
        const NAME: &str = "A_PANIC_SAYS";
        if let Ok(secret) = std::env::var(NAME) {
            let _ = super::main();
            panic!("unexpected {secret}\u{1b}[2J");
        }
        let secret = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
        let mut again = std::process::Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", "tests::sec_16_a_panic_is_not_told"]).env(NAME, &secret);
        let output = again.stdin(std::process::Stdio::null()).output().unwrap();
        let said = String::from_utf8([output.stderr, output.stdout].concat()).unwrap();
        assert!(!output.status.success() && !said.contains(&secret), "{said}");
        assert!(!said.contains("unexpected") && !said.contains("main.rs"), "{said}");
    }

    #[test]
    fn egr_19_reports_are_said_in_their_order_and_within_a_packet_however_many_and_long() {
        let (near, far) = Line::pair().unwrap();
        let (reports, said) = tokio::sync::mpsc::channel(4096);
        let (_, urgent) = tokio::sync::mpsc::unbounded_channel();
        let said = Said { said, urgent };
        let judged = |number: u16| Report::Judged {
            // A path of strangers is as long as a head lets it be.
            wanted: Wanted {
                host: "x.test".into(),
                port: number,
                method: Some("GET".into()),
                path: Some("/".repeat(if number.is_multiple_of(7) { 60_000 } else { 10 })),
            },
            verdict: Verdict::Refused { why: "no".into() },
            address: None,
            from: None,
        };
        (0..500).for_each(|number| reports.blocking_send(judged(number)).unwrap());
        reports.blocking_send(Report::Last).unwrap();
        let speaker = std::thread::spawn(move || speak(&far, said));
        let (mut heard, mut packets) = (Vec::new(), 0);
        loop {
            let (report, _) = near.hear::<Report>(true).unwrap().unwrap();
            packets += 1;
            match report {
                Report::Several(several) => heard.extend(several),
                Report::Last => break,
                one => heard.push(one),
            }
        }
        speaker.join().unwrap();
        assert!(heard.into_iter().eq((0..500).map(judged)));
        assert!(packets < 250, "{packets}");
    }
}
