//! Starts a listed program, through a minder, and takes in what it says up to a bound.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::Value;

use super::minder::TIME_OVER;
use super::program::FOLDERS;
use super::wall::Wall;
use super::{Desk, Prepared, ToolError, arguments, failed, refused};
use crate::cancel::Cancel;

/// How often a program is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// What a program gets of the agent's environment: nothing that holds a key.
const PASSED: [&str; 11] = [
    "HOME",
    // Who commits; a git under /usr/local looks elsewhere by itself.
    "GIT_CONFIG_SYSTEM",
    "LANG",
    "LC_ALL",
    "TMPDIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "TZ",
];

pub(super) fn shell(input: Value, desk: &Arc<Desk>) -> Result<Prepared, ToolError> {
    let (command, program, arguments) = commanded(input, desk)?;
    let desk = Arc::clone(desk);
    let subject = program.display().to_string();
    let run = move |cancel: &Cancel| {
        let limits = &desk.limits;
        let bounds = Bounds { time: Duration::from_millis(limits.shell_ms), bytes: limits.shell_bytes };
        let running = Running::start(&program, &arguments, desk.tree.shown(), bounds, &Manner::default())?;
        waited(running, bounds, cancel)
    };
    Ok(Prepared::plain(command, &subject, run))
}

/// Waits for a program; how it ended and what it said.
pub(super) fn waited(mut running: Running, bounds: Bounds, cancel: &Cancel) -> Result<String, ToolError> {
    let ended = loop {
        match running.ended()? {
            Some(_) if running.is_over() => break format!("ended after {} s", bounds.time.as_secs()),
            Some(code) => break format!("exit code {code}"),
            None if cancel.wait(LOOK) => {
                running.stop();
                return Err(failed("stopped"));
            }
            None => {}
        }
    };
    running.settle();
    let out = running.out.whole();
    let err = running.err.whole();
    Ok(format!("[{ended}]\n{out}{}{err}", if err.is_empty() { "" } else { "\n[standard error]\n" }))
}

/// What a line asks for.
pub(super) fn commanded(input: Value, desk: &Desk) -> Result<(String, PathBuf, Vec<String>), ToolError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Given {
        command: String,
    }
    let given: Given = arguments(input)?;
    if given.command.len() > 1 << 18 {
        return Err(refused("argument_length", "the line is too long"));
    }
    let (program, arguments) = desk.programs.parsed(&given.command, desk.tree.shown(), &desk.limits)?;
    Ok((given.command, program, arguments))
}

/// How long a program may run, and how much is kept of each of its streams.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) time: Duration,
    pub(crate) bytes: u64,
}

/// How a program is started, where that is not as usual.
#[derive(Default)]
pub(crate) struct Manner<'a> {
    /// What it is kept from.
    wall: Option<&'a Wall>,
    /// Variables that it gets besides.
    env: Vec<(String, OsString)>,
    /// Both its streams are kept as one.
    is_joined: bool,
}

impl<'a> Manner<'a> {
    /// Behind a wall.
    pub(super) fn behind(wall: &'a Wall) -> Self {
        Self { wall: Some(wall), ..Self::default() }
    }

    /// With further variables, and both streams kept as one, in the order in which they come.
    pub(crate) fn joined(env: Vec<(String, OsString)>) -> Self {
        Self { wall: None, env, is_joined: true }
    }
}

/// A program at work. Dropping it ends it.
pub(crate) struct Running {
    until: Instant,
    minder: Child,
    pub(crate) out: Kept,
    pub(super) err: Kept,
    readers: Vec<std::thread::JoinHandle<()>>,
}

impl Running {
    pub(crate) fn start(
        program: &Path,
        arguments: &[String],
        cwd: &Path,
        bounds: Bounds,
        manner: &Manner<'_>,
    ) -> Result<Self, ToolError> {
        // Before the minder begins to count: what it ended is over here too.
        let until = Instant::now() + bounds.time;
        let mut command = Command::new("/proc/self/exe");
        command
            .arg("--minder")
            .arg(bounds.time.as_millis().to_string())
            .arg(Wall::word(manner.wall))
            .arg(program)
            .args(arguments)
            .current_dir(cwd);
        command.env_clear().env("PATH", FOLDERS.join(":")).env("TERM", "dumb");
        for name in PASSED {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.envs(manner.env.iter().map(|(name, value)| (name, value)));
        // The minder's input is how it is told to end: the program itself gets none.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut minder = command.spawn().map_err(|error| failed(format!("could not be started: {error}")))?;
        let out = Kept::new(bounds.bytes);
        let err = if manner.is_joined { out.clone() } else { Kept::new(bounds.bytes) };
        let mut readers = Vec::new();
        if let Some(stream) = minder.stdout.take() {
            readers.push(out.fill(stream));
        }
        if let Some(stream) = minder.stderr.take() {
            readers.push(err.fill(stream));
        }
        Ok(Self { until, minder, out, err, readers })
    }

    /// The code it ended with, if it has.
    pub(crate) fn ended(&mut self) -> Result<Option<i32>, ToolError> {
        Ok(self.minder.try_wait().map_err(failed)?.map(|status| status.code().unwrap_or(255)))
    }

    /// Whether its time is over.
    fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    /// Whether it ended with that code because its time was over.
    pub(crate) fn is_timed_out(&self, code: i32) -> bool {
        self.is_over() && code == i32::from(TIME_OVER)
    }

    /// Ends it and all that it started, and waits until that is so.
    pub(crate) fn stop(&mut self) {
        drop(self.minder.stdin.take());
        let until = Instant::now() + Duration::from_secs(12);
        while Instant::now() < until {
            match self.minder.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(1)),
                Ok(Some(_)) | Err(_) => return,
            }
        }
        let _ = self.minder.kill();
        let _ = self.minder.wait();
    }

    /// Waits for the rest of what it said: everybody who could write is gone.
    pub(crate) fn settle(&mut self) {
        let until = Instant::now() + Duration::from_secs(2);
        while self.readers.iter().any(|reader| !reader.is_finished()) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The last bytes of a stream, at most so many.
#[derive(Clone)]
pub(crate) struct Kept(Arc<Mutex<Bytes>>);

struct Bytes {
    kept: VecDeque<u8>,
    lost: u64,
    most: usize,
}

impl Kept {
    fn new(most: u64) -> Self {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        Self(Arc::new(Mutex::new(Bytes { kept: VecDeque::new(), lost: 0, most })))
    }

    fn fill(&self, mut stream: impl Read + Send + 'static) -> std::thread::JoinHandle<()> {
        let kept = self.clone();
        std::thread::spawn(move || {
            let mut piece = [0; 8_192];
            while let Ok(count) = stream.read(&mut piece) {
                if count == 0 {
                    return;
                }
                let mut bytes = kept.0.lock().unwrap_or_else(PoisonError::into_inner);
                bytes.kept.extend(piece.iter().take(count));
                let over = bytes.kept.len().saturating_sub(bytes.most);
                bytes.kept.drain(..over);
                bytes.lost += over as u64;
            }
        })
    }

    /// What there is, as text; and it is gone.
    pub(super) fn whole(&self) -> String {
        let mut bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text: Vec<u8> = bytes.kept.drain(..).collect();
        let lost = std::mem::take(&mut bytes.lost);
        let text = String::from_utf8_lossy(&redact::tame(&text)).into_owned();
        if lost > 0 { format!("[{lost} bytes before this are left out]\n{text}") } else { text }
    }
    /// What there is, as text, which stays; and whether something before it was left out.
    pub(crate) fn so_far(&self) -> (String, bool) {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The rest of a character whose beginning was left out is none.
        let torn = |byte: &&u8| bytes.lost > 0 && **byte & 0xc0 == 0x80;
        let text: Vec<u8> = bytes.kept.iter().skip_while(torn).copied().collect();
        (String::from_utf8_lossy(&redact::tame(&text)).into_owned(), bytes.lost > 0)
    }
}
