//! What is refused in a run's network and what must not happen there, told while it is at work to the program that started it with `--report`: a
//! line of JSON for each, in the pipe beside the report, if that program made one. So are the sums, when they changed.
//!
//! Invariants: it is on record before it is told; nothing waits for whoever reads; what they do not take in time is counted, and the number told; a line
//! comes whole, and without what is secret.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use egress::Counts;
use egress::control::Wanted;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Map, Value, json};

use super::Watched;
use super::counts::Tally;
use crate::commands::report::Report;
use crate::output;

/// Bytes that wait for whoever reads.
const MOST: usize = 256 << 10;
/// Bytes of one text.
const LONGEST: usize = 1_024;
/// How long is waited at the end for them to take what is left.
const PARTING: Duration = Duration::from_secs(1);

/// What a line is about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum About {
    /// Something was not let through.
    Refused,
    /// Something that must not happen.
    Found,
    /// The proxy is in trouble.
    Proxy,
}

impl About {
    fn word(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Found => "found",
            Self::Proxy => "proxy",
        }
    }
}

/// The way to whoever started the run; without one nothing is told.
#[derive(Default)]
pub(super) struct Notices {
    to: Option<File>,
    /// What is on record by the next flush.
    new: Vec<Vec<u8>>,
    waits: Vec<u8>,
    untold: u64,
    told: Value,
}

impl Notices {
    /// By the pipe at this path, if that is one of ours and somebody reads it.
    fn at(path: &Path) -> Self {
        let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW;
        let mut options = File::options();
        options.write(true).custom_flags(i32::try_from(flags.bits()).unwrap_or(0));
        let is_ours = |found: std::fs::Metadata| {
            found.file_type().is_fifo() && found.uid() == rustix::process::geteuid().as_raw()
        };
        let to = options.open(path).ok().filter(|file| file.metadata().is_ok_and(is_ours));
        Self { to, ..Self::default() }
    }

    /// Says this once it is on record.
    pub(super) fn tell(&mut self, about: About, what: &str, why: &str, more: &[(&str, &str)]) {
        if self.to.is_none() {
            return;
        }
        let kind = ("kind", about.word());
        let all = [kind, ("what", what), ("why", why)];
        let fields = all.iter().chain(more).map(|(name, text)| ((*name).to_owned(), kept(text).into()));
        self.line(&Value::Object(fields.collect::<Map<_, _>>()));
    }

    fn line(&mut self, line: &Value) {
        let waiting = self.waits.len() + self.new.iter().map(Vec::len).sum::<usize>();
        let line = format!("{line}\n").into_bytes();
        match waiting + line.len() <= MOST {
            true => self.new.push(line),
            false => self.untold += 1,
        }
    }

    /// Says the sums, if they are others than before.
    pub(super) fn count(&mut self, tally: &Tally, names: Counts) {
        if self.to.is_none() || !self.waits.is_empty() {
            return;
        }
        let mut sums = tally.sums(names);
        if let Some(sums) = sums.as_object_mut() {
            sums.insert("untold".into(), self.untold.into());
        }
        if sums != self.told {
            self.line(&json!({ "counts": sums }));
            self.told = sums;
        }
    }

    /// What was to be told is on record now: as much of it goes as is taken.
    pub(super) fn flush(&mut self) {
        self.waits.extend(self.new.drain(..).flatten());
        let Some(to) = &mut self.to else { return };
        while !self.waits.is_empty() {
            match to.write(&self.waits) {
                Ok(count @ 1..) => drop(self.waits.drain(..count)),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                // Nobody reads any more.
                Ok(0) | Err(_) => {
                    self.to = None;
                    return;
                }
            }
        }
    }

    /// The last sums, and a moment for whoever reads to take what is left.
    pub(super) fn end(mut self, tally: &Tally, names: Counts) {
        let until = Instant::now() + PARTING;
        self.drains(until);
        self.count(tally, names);
        self.drains(until);
    }

    fn drains(&mut self, until: Instant) {
        loop {
            self.flush();
            let left = until.saturating_duration_since(Instant::now());
            let (Some(to), false, false) = (&self.to, self.waits.is_empty(), left.is_zero()) else { return };
            let left = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: 0, tv_nsec: 0 });
            let _ = poll(&mut [PollFd::new(to, PollFlags::OUT)], Some(&left));
        }
    }
}

/// What was wanted, field by field.
pub(super) fn fields(wanted: &Wanted) -> Vec<(&'static str, String)> {
    let Wanted { host, port, method, path } = wanted;
    let mut fields = vec![("host", host.clone()), ("port", port.to_string())];
    fields.extend(method.iter().map(|method| ("method", method.clone())));
    fields.extend(path.iter().map(|path| ("path", output::kept_path(host, path))));
    fields
}

/// As it is kept in the record, and no longer than somebody reads.
fn kept(text: &str) -> String {
    let kept = output::kept(text);
    let cut = kept.floor_char_boundary(LONGEST);
    match kept.get(..cut) {
        Some(shown) if shown.len() < kept.len() => format!("{shown}…"),
        _ => kept,
    }
}

impl Watched<'_> {
    /// Tells whoever reads the pipe beside this report what is refused and found from now on.
    pub(in crate::commands) fn tells(&mut self, report: &Report) {
        self.seen.notices = Notices::at(&report.pipe());
    }

    /// Tells the sums, if they are others than before.
    pub(in crate::commands) fn counts(&mut self) {
        let names = self.front.counts();
        self.seen.count(names);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn sec_16_a_path_is_told_without_what_its_host_or_its_escapes_make_a_secret() {
        for (host, path, secret) in [
            ("hooks.slack.com", "/services/T0A1B2C3D4/B0E5F6G7H8/x9Y8z7W6v5U4t3S2r1Q0p9O8", "x9Y8"),
            ("site.test", "/no/postgres%3A%2F%2Fapp%3Ahunter2horse%40db.example%2Fapp", "hunter2horse"),
        ] {
            let path = Some(path.to_owned());
            let told = fields(&Wanted { host: host.into(), port: 443, method: None, path });
            assert!(told.iter().any(|(name, text)| *name == "path" && text.contains("***")), "{told:?}");
            assert!(!told.iter().any(|(_, text)| text.contains(secret)), "{told:?}");
        }
    }

    fn piped() -> (Notices, File) {
        let (from, to) = std::io::pipe().unwrap();
        let to = File::from(std::os::fd::OwnedFd::from(to));
        rustix::io::ioctl_fionbio(&to, true).unwrap();
        rustix::io::ioctl_fionbio(&from, true).unwrap();
        (Notices { to: Some(to), ..Notices::default() }, File::from(std::os::fd::OwnedFd::from(from)))
    }

    fn heard(from: &mut File) -> Vec<Value> {
        let mut text = Vec::new();
        let _ = from.read_to_end(&mut text);
        let text = String::from_utf8(text).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn egr_19_nothing_is_told_before_it_is_on_record_and_no_secret_is() {
        let (mut notices, mut from) = piped();
        let token = "ghp_0123456789abcdefghijABCDEFGHIJ456789";
        notices.tell(
            About::Refused,
            &format!("GET a.test:80/{token}"),
            "no",
            &[("path", &format!("/{token}"))],
        );
        assert_eq!(heard(&mut from), Vec::<Value>::new());
        notices.flush();
        let told = heard(&mut from);
        assert_eq!((told.len(), &told[0]["kind"], &told[0]["why"]), (1, &"refused".into(), &"no".into()));
        assert!(told[0]["what"].as_str().unwrap().starts_with("GET a.test:80/"), "{told:?}");
        assert!(!told[0].to_string().contains("ghp_0123"), "{told:?}");
    }

    #[test]
    fn egr_19_whoever_does_not_read_holds_nobody_up_and_is_told_how_much_they_missed() {
        let (mut notices, mut from) = piped();
        let long = "x".repeat(900);
        for at in 0..2_000 {
            notices.tell(About::Found, &format!("{at} {long}"), "no", &[]);
            notices.flush();
        }
        assert!(notices.untold > 1_000 && notices.waits.len() <= MOST, "{}", notices.untold);
        let untold = notices.untold;
        let reader = std::thread::spawn(move || {
            // While it is written a line may come in two pieces.
            let (mut whole, mut piece) = (Vec::new(), [0; 4_096]);
            while !(whole.ends_with(b"\n") && String::from_utf8_lossy(&whole).contains("\"counts\"")) {
                match from.read(&mut piece) {
                    Ok(count @ 1..) => whole.extend_from_slice(&piece[..count]),
                    _ => std::thread::sleep(Duration::from_millis(1)),
                }
            }
            String::from_utf8(whole).unwrap()
        });
        notices.end(&Tally::default(), Counts::default());
        let whole = reader.join().unwrap();
        let lines: Vec<Value> = whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.last().unwrap()["counts"]["untold"], untold);
        assert_eq!(lines.len() as u64, 2_000 - untold + 1);
    }
}
