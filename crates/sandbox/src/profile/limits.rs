//! Turns amounts as written (`2g`, `75%`, `1.5`, `30m`) into the limits of one sandbox on one machine.
//!
//! Invariant: a resolved limit is a number, or none where that is a choice; `a.meet(b)` is the smaller of both, for
//! each. Not here: how a limit is enforced (cgroup where the user has delegation, rlimits and a watchdog elsewhere).

use std::fmt;
use std::time::Duration;

use super::names::BadText;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const TIB: u64 = 1 << 40;

/// The machine that shares of it are meant of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    /// Memory in bytes.
    pub memory: u64,
    /// Processors.
    pub cores: u32,
}

/// Processor time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cpu {
    /// Thousandths of one processor.
    Thousandths(u32),
    /// Every processor there is.
    All,
}

/// The limits of one sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Memory of all processes together, in bytes.
    pub memory: u64,
    /// Processor time of all processes together.
    pub cpu: Cpu,
    /// Processes and threads.
    pub pids: u64,
    /// Open files of one process.
    pub files: u64,
    /// Size of one file, in bytes.
    pub file_size: u64,
    /// What may be written to disk in all, in bytes.
    pub disk: u64,
    /// Files and directories that may be made on disk in all.
    pub inodes: u64,
    /// Bytes that may be read from, and as many that may be written to, the worktree's disk in a second; `None` is
    /// without end.
    pub io: Option<u64>,
    /// Size of `/tmp`, in bytes.
    pub tmp: u64,
    /// How long it may run; `None` is without end.
    pub wall: Option<Duration>,
    /// Characters in the value of one variable.
    pub variable: u64,
}

impl Limits {
    /// The smaller of both, for each.
    #[must_use]
    pub fn meet(&self, other: &Self) -> Self {
        Self {
            memory: self.memory.min(other.memory),
            cpu: self.cpu.min(other.cpu),
            pids: self.pids.min(other.pids),
            files: self.files.min(other.files),
            file_size: self.file_size.min(other.file_size),
            disk: self.disk.min(other.disk),
            inodes: self.inodes.min(other.inodes),
            io: smaller(self.io, other.io),
            tmp: self.tmp.min(other.tmp),
            wall: smaller(self.wall, other.wall),
            variable: self.variable.min(other.variable),
        }
    }

    /// The larger of both, for each.
    #[must_use]
    pub(super) fn join(&self, other: &Self) -> Self {
        Self {
            memory: self.memory.max(other.memory),
            cpu: self.cpu.max(other.cpu),
            pids: self.pids.max(other.pids),
            files: self.files.max(other.files),
            file_size: self.file_size.max(other.file_size),
            disk: self.disk.max(other.disk),
            inodes: self.inodes.max(other.inodes),
            io: self.io.zip(other.io).map(|(a, b)| a.max(b)),
            tmp: self.tmp.max(other.tmp),
            wall: self.wall.zip(other.wall).map(|(a, b)| a.max(b)),
            variable: self.variable.max(other.variable),
        }
    }

    /// Whether `other` asks for no more of anything.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        self.meet(other) == *other
    }

    /// One of them for people, by its name.
    pub(crate) fn told(&self, name: &str) -> String {
        match name {
            "memory" => super::show::size(self.memory),
            "disk" => super::show::size(self.disk),
            "inodes" => self.inodes.to_string(),
            "wall" => self.wall.map_or("none".to_owned(), |wall| format!("{}s", wall.as_secs())),
            _ => String::new(),
        }
    }

    /// The least of everything: what a profile starts from that has not said anything yet.
    pub(super) const LEAST: Self = Self {
        memory: 16 * MIB,
        cpu: Cpu::Thousandths(10),
        pids: 1,
        files: 16,
        file_size: 0,
        disk: 0,
        inodes: 1,
        // Few machines can hold this one, and what cannot be held is refused: it is there when somebody says so.
        io: None,
        tmp: 64 * KIB,
        wall: Some(Duration::from_secs(1)),
        variable: 1,
    };
}

/// The smaller of both, where nothing is without end.
fn smaller<T: Ord>(a: Option<T>, b: Option<T>) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// An amount of bytes as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    Bytes(u64),
    /// Hundredths of the machine's memory, and at most so many bytes.
    Share(u64, u64),
}

impl Size {
    fn parse(text: &str, least: u64) -> Result<Self, BadText> {
        let expected =
            || BadText::expected("bytes, `512m`, `2g`, `75%` of the memory or `25% up to 8g`", text);
        let size = match text.split_once('%') {
            None => Self::Bytes(bytes(text).ok_or_else(expected)?),
            Some((share, rest)) => {
                let share = digits(share).filter(|share| (1..=100).contains(share)).ok_or_else(expected)?;
                let most = match rest.strip_prefix(" up to ") {
                    Some(most) => bytes(most).ok_or_else(expected)?,
                    None if rest.is_empty() => u64::MAX,
                    None => return Err(expected()),
                };
                Self::Share(share, most)
            }
        };
        let (Self::Bytes(most) | Self::Share(_, most)) = size;
        if most < least {
            Err(BadText(format!("expected at least {least} bytes, found `{text}`")))
        } else {
            Ok(size)
        }
    }

    fn of(self, memory: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            // In whole pages, as the kernel counts.
            Self::Share(share, most) => (memory / 100).saturating_mul(share).min(most) & !4_095,
        }
    }
}

/// A whole number and nothing else: no sign, no blank.
fn digits(text: &str) -> Option<u64> {
    let fits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if fits { text.parse().ok() } else { None }
}

fn bytes(text: &str) -> Option<u64> {
    let unit = match text.bytes().last()? {
        b'k' | b'K' => KIB,
        b'm' | b'M' => MIB,
        b'g' | b'G' => 1 << 30,
        b't' | b'T' => TIB,
        _ => return digits(text).filter(|bytes| *bytes <= 1_024 * TIB),
    };
    let number = text.get(..text.len().checked_sub(1)?)?;
    digits(number)?.checked_mul(unit).filter(|bytes| *bytes <= 1_024 * TIB)
}

/// An amount on disk: never a share, since shares are of the memory.
fn space(text: &str) -> Result<u64, BadText> {
    bytes(text).ok_or_else(|| BadText::expected("bytes, `512m` or `20g`", text))
}

impl Cpu {
    fn parse(text: &str) -> Result<Self, BadText> {
        let expected = || BadText::expected("processors such as `1` or `0.5`, or `all`", text);
        if text == "all" {
            return Ok(Self::All);
        }
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        let thousandths = (part.len() <= 3)
            .then(|| digits(&format!("{part:0<3}")))
            .flatten()
            .zip(digits(whole).filter(|whole| *whole <= 4_096))
            .map(|(part, whole)| whole * 1_000 + part);
        let fits = thousandths.and_then(|number| u32::try_from(number).ok()).filter(|number| *number >= 10);
        fits.map(Self::Thousandths).ok_or_else(expected)
    }

    fn of(self, cores: u32) -> Self {
        match self {
            Self::Thousandths(number) if number < cores.saturating_mul(1_000) => self,
            Self::Thousandths(_) | Self::All => Self::All,
        }
    }
}

impl fmt::Display for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Thousandths(number) => {
                let text = format!("{}.{:03}", number / 1_000, number % 1_000);
                f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
            }
        }
    }
}

/// Bytes in a second.
fn speed(text: &str) -> Result<Option<u64>, BadText> {
    if text == "none" {
        return Ok(None);
    }
    let speed = bytes(text).filter(|bytes| *bytes >= 64 * KIB);
    let expected = || BadText::expected("at least `64k` bytes a second such as `50m`, or `none`", text);
    speed.map(Some).ok_or_else(expected)
}

fn wall(text: &str) -> Result<Option<Duration>, BadText> {
    if text == "none" {
        return Ok(None);
    }
    let seconds =
        [("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400)].into_iter().find_map(|(unit, seconds)| {
            digits(text.strip_suffix(unit)?)?
                .checked_mul(seconds)
                .filter(|all| (1..=31_536_000).contains(all))
        });
    let expected = || BadText::expected("a time such as `90s`, `30m`, `2h`, `1d`, or `none`", text);
    seconds.map(|seconds| Some(Duration::from_secs(seconds))).ok_or_else(expected)
}

/// What a document says about limits; `None`: nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    memory: Option<Size>,
    cpu: Option<Cpu>,
    pids: Option<u64>,
    files: Option<u64>,
    file_size: Option<u64>,
    disk: Option<u64>,
    inodes: Option<u64>,
    io: Option<Option<u64>>,
    tmp: Option<Size>,
    wall: Option<Option<Duration>>,
    variable: Option<u64>,
}

impl Asked {
    /// Takes one value; false if there is no such limit.
    pub(super) fn put(&mut self, name: &str, text: &str) -> Result<bool, BadText> {
        let count = |most: u64, least: u64| {
            let number = digits(text).filter(|number| (least..=most).contains(number));
            let expected = || BadText::expected(&format!("a number from {least} to {most}"), text);
            number.map(Some).ok_or_else(expected)
        };
        match name {
            "memory" => self.memory = Some(Size::parse(text, 16 * MIB)?),
            "cpu" => self.cpu = Some(Cpu::parse(text)?),
            "pids" => self.pids = count(4_194_304, 1)?,
            "files" => self.files = count(1_048_576, 16)?,
            "file_size" => self.file_size = Some(space(text)?),
            "disk" => self.disk = Some(space(text)?),
            "inodes" => self.inodes = count(1_000_000_000, 1)?,
            "io" => self.io = Some(speed(text)?),
            "tmp" => self.tmp = Some(Size::parse(text, 64 * KIB)?),
            "wall" => self.wall = Some(wall(text)?),
            "variable" => self.variable = count(super::environment::LONGEST as u64, 1)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// What it comes to on this machine; what is not said stays as `or` has it.
    pub(super) fn on(&self, host: &Host, or: &Limits) -> Limits {
        let size = |asked: Option<Size>, or: u64| asked.map_or(or, |size| size.of(host.memory));
        Limits {
            memory: size(self.memory, or.memory),
            cpu: self.cpu.map_or(or.cpu, |cpu| cpu.of(host.cores)),
            pids: self.pids.unwrap_or(or.pids),
            files: self.files.unwrap_or(or.files),
            file_size: self.file_size.unwrap_or(or.file_size),
            disk: self.disk.unwrap_or(or.disk),
            inodes: self.inodes.unwrap_or(or.inodes),
            io: self.io.unwrap_or(or.io),
            tmp: size(self.tmp, or.tmp),
            wall: self.wall.unwrap_or(or.wall),
            variable: self.variable.unwrap_or(or.variable),
        }
    }
}
