//! What a run spends, told while it is at work to the program that started it with `--report`: the time that it took of the processor in
//! milliseconds, and the bytes that it sent and received, as three numbers of a line in a file beside the report.
//!
//! Invariants: what is told never becomes less; the line has one length and is written at once, so whoever reads it reads a whole one;
//! a disk that takes nothing keeps no run from going on.

use std::fs::File;
use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::time::{Duration, Instant};

use sandbox::{Attendant, Meter};

use super::network::Watched;
use super::report::Report;

/// How often it is looked, and how often it is told though nothing changed: whoever reads it knows by that that the launcher lives.
const EVERY: Duration = Duration::from_millis(500);
const BEAT: Duration = Duration::from_secs(10);

/// Tells it, and lets the network have its turn.
pub(super) struct Telling<'a, 'b> {
    network: Option<&'a mut Watched<'b>>,
    meter: Meter,
    to: Option<File>,
    next: Instant,
    told: (u64, u64, u64),
    told_at: Option<Instant>,
}

impl<'a, 'b> Telling<'a, 'b> {
    pub(super) fn new(report: &Report, meter: Meter, mut network: Option<&'a mut Watched<'b>>) -> Self {
        network.iter_mut().for_each(|network| network.tells(report));
        let mut options = File::options();
        let no_link = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0);
        options.write(true).create(true).truncate(true).mode(0o600).custom_flags(no_link);
        let to = options.open(report.beside()).ok();
        Self { network, meter, to, next: Instant::now(), told: (0, 0, 0), told_at: None }
    }

    /// Milliseconds of the processor, in all.
    pub(super) fn took(&self) -> u64 {
        self.told.0
    }

    fn tell(&mut self, time: Duration) {
        let (sent, received) = self.network.as_ref().map_or((0, 0), |network| network.bytes());
        let now = (u64::try_from(time.as_millis()).unwrap_or(u64::MAX), sent, received);
        if now != self.told || self.told_at.is_none_or(|at| at.elapsed() >= BEAT) {
            (self.told, self.told_at) = (now, Some(Instant::now()));
            let line = format!("{:020} {sent:020} {received:020}\n", now.0);
            let _ = self.to.as_ref().map(|to| to.write_all_at(line.as_bytes(), 0));
        }
    }
}

impl Attendant for Telling<'_, '_> {
    fn waits_for(&self) -> Vec<BorrowedFd<'_>> {
        self.network.as_ref().map(|network| network.waits_for()).unwrap_or_default()
    }

    fn due(&self) -> Option<Instant> {
        let theirs = self.network.as_ref().and_then(|network| network.due());
        theirs.into_iter().chain([self.next]).min()
    }

    fn cut(&mut self) {
        self.network.iter_mut().for_each(|network| network.cut());
    }

    fn change(&mut self, written: &[u8]) -> Result<(), String> {
        match &mut self.network {
            Some(network) => network.change(written),
            None => Err("it has no network".into()),
        }
    }

    fn holds(&self) -> Option<String> {
        self.network.as_ref().and_then(|network| network.holds())
    }

    fn has_network(&self) -> bool {
        self.network.is_some()
    }

    fn gone(&mut self) {
        let last = self.meter.last();
        self.tell(last);
    }

    fn shows(&mut self, number: usize, printed: &[u8]) -> bool {
        self.network.as_mut().is_none_or(|network| network.shows(number, printed))
    }

    fn attend(&mut self) -> ControlFlow<()> {
        if Instant::now() >= self.next {
            self.next = Instant::now() + EVERY;
            let time = self.meter.read();
            self.tell(time);
            self.network.iter_mut().for_each(|network| network.counts());
        }
        self.network.as_mut().map_or(ControlFlow::Continue(()), |network| network.attend())
    }

    fn stops_everything(&mut self) -> bool {
        self.network.as_mut().is_some_and(|network| network.stops_everything())
    }

    fn question(&self) -> Option<String> {
        self.network.as_ref().and_then(|network| network.question())
    }

    fn answered(&mut self, question: &str, line: &str) -> ControlFlow<()> {
        match &mut self.network {
            Some(network) => network.answered(question, line),
            None => ControlFlow::Continue(()),
        }
    }
}
