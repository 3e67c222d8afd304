//! Terminals for another agent: programs that go on by themselves, a few at once, bounded in time and in what is kept of their words.
//!
//! There is no terminal device and no shell: a program and its arguments, through a minder, so that all it started ends with it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::files::{beneath, read};
use crate::limits::Limits;
use crate::tools::{Bounds, Manner, Running, ToolError, failed, names_a_secret, refused};

/// Terminals that were not released, and of these those that still run are fewer.
const KEPT: usize = 64;
/// Waits for an end at once.
const WAITS: usize = 32;
/// Variables that a program may be given.
const VARIABLES: usize = 64;
/// How often a program is looked at that somebody waits for.
const LOOK: Duration = Duration::from_millis(20);

/// Takes the answer to a question that takes its time.
pub(super) type Answer = Box<dyn FnOnce(Result<Value, ToolError>) + Send>;

pub(super) struct Terminals {
    here: PathBuf,
    limits: Limits,
    all: Mutex<All>,
    waits: AtomicUsize,
}

#[derive(Default)]
struct All {
    last: u64,
    open: BTreeMap<String, Arc<Mutex<Terminal>>>,
    is_over: bool,
}

struct Terminal {
    running: Running,
    is_killed: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Which {
    terminal_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wanted {
    command: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: Vec<Variable>,
    cwd: Option<String>,
    output_byte_limit: Option<u64>,
}

#[derive(Deserialize)]
struct Variable {
    name: String,
    value: String,
}

impl Terminals {
    pub(super) fn new(here: &Path, limits: Limits) -> Self {
        Self { here: here.to_owned(), limits, all: Mutex::default(), waits: AtomicUsize::new(0) }
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn create(&self, params: Value) -> Result<Value, ToolError> {
        let wanted: Wanted = read(params)?;
        let cwd = self.cwd(wanted.cwd.as_deref())?;
        self.judge(&wanted, &cwd)?;
        let mut all = self.all();
        let running = all
            .open
            .values()
            .filter(|one| locked(one).running.ended().is_ok_and(|code| code.is_none()))
            .count();
        if running as u64 >= self.limits.processes || all.open.len() >= KEPT || all.is_over {
            return Err(refused("processes", "too many terminals are open; release some first"));
        }
        let bytes = wanted.output_byte_limit.unwrap_or(u64::MAX).min(self.limits.process_bytes);
        let bounds = Bounds { time: Duration::from_millis(self.limits.process_ms), bytes };
        let mut env: Vec<(String, OsString)> = Vec::new();
        env.extend(std::env::var_os("PATH").map(|path| ("PATH".to_owned(), path)));
        env.extend(wanted.env.into_iter().map(|one| (one.name, one.value.into())));
        let manner = Manner::joined(env);
        let running = Running::start(Path::new(&wanted.command), &wanted.args, &cwd, bounds, &manner)?;
        all.last += 1;
        let id = format!("terminal_{}", all.last);
        all.open.insert(id.clone(), Arc::new(Mutex::new(Terminal { running, is_killed: false })));
        Ok(json!({ "terminalId": id }))
    }

    /// Whether such a program is started.
    fn judge(&self, wanted: &Wanted, cwd: &Path) -> Result<(), ToolError> {
        if wanted.command.is_empty() || wanted.command.starts_with('-') {
            return Err(refused("program", "there is no program of that name"));
        }
        let arguments = &wanted.args;
        if arguments.len() as u64 > self.limits.shell_args {
            return Err(refused("arguments", format!("at most {} arguments", self.limits.shell_args)));
        }
        let is_long = |text: &String| text.chars().count() as u64 > self.limits.shell_arg_chars;
        if arguments.iter().any(is_long) || is_long(&wanted.command) {
            return Err(refused(
                "argument_length",
                format!("at most {} characters each", self.limits.shell_arg_chars),
            ));
        }
        if arguments.iter().chain([&wanted.command]).any(|text| text.contains('\0')) {
            return Err(refused("argument_text", "no NUL"));
        }
        if arguments.iter().any(|argument| names_a_secret(argument, cwd)) {
            return Err(refused("sensitive_name", "an argument names a file that is never read or written"));
        }
        let bad = |one: &Variable| {
            one.name.is_empty() || one.name.contains(['=', '\0']) || one.value.contains('\0')
        };
        if wanted.env.len() > VARIABLES || wanted.env.iter().any(bad) {
            return Err(refused("variables", format!("at most {VARIABLES} variables, with names")));
        }
        Ok(())
    }

    /// Where a program works: beneath the directory, links resolved.
    fn cwd(&self, given: Option<&str>) -> Result<PathBuf, ToolError> {
        let Some(given) = given else { return Ok(self.here.clone()) };
        let path = self.here.join(beneath(&self.here, given)?);
        let path = std::fs::canonicalize(path)
            .map_err(|error| failed(format!("there is no such directory: {error}")))?;
        let here = std::fs::canonicalize(&self.here).map_err(failed)?;
        if !path.starts_with(&here) || !path.is_dir() {
            return Err(refused(
                "path_outside",
                format!("only what is beneath `{}` is served", here.display()),
            ));
        }
        Ok(path)
    }

    fn one(&self, params: Value) -> Result<Arc<Mutex<Terminal>>, ToolError> {
        let which: Which = read(params)?;
        self.all().open.get(&which.terminal_id).cloned().ok_or_else(|| failed("there is no such terminal"))
    }

    pub(super) fn output(&self, params: Value) -> Result<Value, ToolError> {
        let one = self.one(params)?;
        let mut terminal = locked(&one);
        let ended = terminal.ended()?;
        let (output, is_cut) = terminal.running.out.so_far();
        Ok(json!({ "output": output, "truncated": is_cut, "exitStatus": ended }))
    }

    /// Ends the program; what it said can still be asked for.
    pub(super) fn kill(&self, params: Value) -> Result<Value, ToolError> {
        let one = self.one(params)?;
        locked(&one).end();
        Ok(json!({}))
    }

    pub(super) fn release(&self, params: Value) -> Result<Value, ToolError> {
        let which: Which = read(params)?;
        let one =
            self.all().open.remove(&which.terminal_id).ok_or_else(|| failed("there is no such terminal"))?;
        locked(&one).end();
        Ok(json!({}))
    }

    /// Answers when the program has ended.
    pub(super) fn wait(self: &Arc<Self>, params: Value, answer: Answer) {
        let one = match self.one(params) {
            Ok(one) => one,
            Err(error) => return answer(Err(error)),
        };
        if self.waits.fetch_add(1, Ordering::SeqCst) >= WAITS {
            self.waits.fetch_sub(1, Ordering::SeqCst);
            return answer(Err(refused("waits", "too many wait already")));
        }
        let terminals = Arc::clone(self);
        std::thread::spawn(move || {
            let ended = loop {
                match locked(&one).ended() {
                    Ok(Some(ended)) => break Ok(ended),
                    Ok(None) => {}
                    Err(error) => break Err(error),
                }
                std::thread::sleep(LOOK);
            };
            terminals.waits.fetch_sub(1, Ordering::SeqCst);
            answer(ended);
        });
    }

    /// Ends all of them; there will be no more.
    pub(super) fn end(&self) {
        let mut all = self.all();
        all.is_over = true;
        let open = std::mem::take(&mut all.open);
        drop(all);
        for one in open.into_values() {
            locked(&one).end();
        }
    }
}

fn locked(one: &Mutex<Terminal>) -> MutexGuard<'_, Terminal> {
    one.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Terminal {
    /// How it ended, if it has: everything that it said is there then.
    fn ended(&mut self) -> Result<Option<Value>, ToolError> {
        let Some(code) = self.running.ended()? else { return Ok(None) };
        self.running.settle();
        let is_killed = self.is_killed || self.running.is_timed_out(code);
        Ok(Some(if is_killed {
            json!({ "exitCode": null, "signal": "SIGKILL" })
        } else {
            json!({ "exitCode": code })
        }))
    }

    fn end(&mut self) {
        if self.running.ended().is_ok_and(|code| code.is_none()) {
            self.is_killed = true;
        }
        self.running.stop();
    }
}
