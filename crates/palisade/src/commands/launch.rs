//! Starts other programs of the package, and prints what belongs to this one.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cli::Cli;
use crate::failure::Failure;
use crate::output::Shown;
use crate::session::Session;

/// The daemon's program: beside this one, or on the path.
fn program() -> PathBuf {
    let own = std::env::current_exe().ok();
    let beside =
        own.and_then(|own| own.parent().map(|folder| folder.join("palisaded"))).filter(|path| path.exists());
    beside.unwrap_or_else(|| "palisaded".into())
}

fn command(session: &Session) -> Command {
    let mut command = Command::new(program());
    if let Some(config) = &session.config {
        command.arg("--config").arg(config);
    }
    command
}

fn missing(error: &std::io::Error) -> Failure {
    Failure::Program(format!("`palisaded` cannot be started: {error}; it belongs beside `palisade`"))
}

/// Becomes the daemon.
pub(super) fn up(session: &Session, set: &[String], accept_ledger_loss: bool) -> Result<Shown, Failure> {
    let mut command = command(session);
    for pair in set {
        command.arg("--set").arg(pair);
    }
    command.arg("up");
    if accept_ledger_loss {
        command.arg("--accept-ledger-loss");
    }
    let error = command.exec();
    Err(missing(&error))
}

/// Runs a command of the daemon's program that works while no daemon does.
pub(super) fn daemon(session: &Session, words: &[&OsStr]) -> Result<Shown, Failure> {
    let output =
        command(session).args(words).stdin(Stdio::null()).output().map_err(|error| missing(&error))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(Shown::done(said.trim_end()));
    }
    let why = String::from_utf8_lossy(&output.stderr);
    Err(Failure::Program(why.trim().trim_start_matches("palisaded: ").to_owned()))
}

/// What is in force and where it comes from.
pub(super) fn config(session: &Session) -> Result<Shown, Failure> {
    let run = |words: &[&str]| {
        command(session).args(words).stdin(Stdio::null()).output().map_err(|error| missing(&error))
    };
    let (text, json) = (run(&["config"])?, run(&["config", "--json"])?);
    if !text.status.success() {
        let why = String::from_utf8_lossy(&text.stderr);
        return Err(Failure::Program(why.trim().trim_start_matches("palisaded: ").to_owned()));
    }
    let value: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap_or_default();
    Ok(Shown::new(&value, String::from_utf8_lossy(&text.stdout)))
}

/// A completion script.
pub(super) fn completions(shell: clap_complete::Shell) -> Shown {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::parser(), "palisade", &mut script);
    let text = String::from_utf8_lossy(&script).into_owned();
    Shown::new(&text, text.clone()).revealing()
}

/// The manual.
pub(super) fn man(dir: Option<&Path>) -> Result<Shown, Failure> {
    match dir {
        Some(dir) => {
            clap_mangen::generate_to(Cli::parser(), dir).map_err(Failure::file(dir))?;
            Ok(Shown::done(format!("the manual is in {}", dir.display())))
        }
        None => {
            let mut page = Vec::new();
            let rendered = clap_mangen::Man::new(Cli::parser()).render(&mut page);
            rendered.map_err(|error| Failure::Program(error.to_string()))?;
            let text = String::from_utf8_lossy(&page).into_owned();
            Ok(Shown::new(&text, text.clone()).revealing())
        }
    }
}
