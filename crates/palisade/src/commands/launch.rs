//! Starts other programs of the package, and prints what belongs to this one.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

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

/// Becomes the daemon. Whoever wants JSON gets it also when the daemon does not start.
pub(super) fn up(
    session: &Session,
    set: &[String],
    accept_ledger_loss: bool,
    json: bool,
) -> Result<Shown, Failure> {
    let with_settings = || {
        let mut command = command(session);
        for pair in set {
            command.arg("--set").arg(pair);
        }
        command
    };
    let mut command = with_settings();
    command.arg("up");
    if accept_ledger_loss {
        command.arg("--accept-ledger-loss");
    }
    if json {
        // Until it knows its settings the daemon speaks to people only, so they are tried here first.
        told(with_settings().arg("config"))?;
        command.env("PALISADE_UP_JSON", "1");
    }
    let error = command.exec();
    Err(missing(&error))
}

/// What a command of the daemon's program says, if it succeeds.
fn told(command: &mut Command) -> Result<String, Failure> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| missing(&error))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let why = String::from_utf8_lossy(&output.stderr);
    Err(Failure::Program(why.trim().trim_start_matches("palisaded: ").to_owned()))
}

/// Runs a command of the daemon's program that works while no daemon does.
pub(super) fn daemon(session: &Session, words: &[&OsStr]) -> Result<Shown, Failure> {
    told(command(session).args(words)).map(|said| Shown::done(said.trim_end()))
}

/// Every key with its value and its origin, as the daemon's program reads them.
fn in_force(session: &Session) -> Result<Value, Failure> {
    let said = told(command(session).args(["config", "--json"]))?;
    let unread =
        |_| Failure::Program("`palisaded` does not tell its settings; is it of the same release?".into());
    serde_json::from_str(&said).map_err(unread)
}

/// What is in force and where it comes from.
pub(super) fn config(session: &Session) -> Result<Shown, Failure> {
    let text = told(command(session).arg("config"))?;
    Ok(Shown::new(&in_force(session)?, text))
}

/// Where the files of this installation are, as the daemon would find them.
pub(super) fn paths(session: &Session) -> Result<Shown, Failure> {
    let places = &session.places;
    let settings = in_force(session)?;
    let named = |key: &str| {
        let text = settings.get(key).and_then(|row| row.get("value")).and_then(Value::as_str);
        text.filter(|text| !text.is_empty()).map(|text| places.config_dir().join(text))
    };
    let printed = named("key.file").is_none() && named("key.command").is_some();
    let variable = ["PALISADE_MASTER_KEY", "PALISADE_MASTER_PASSPHRASE"]
        .into_iter()
        .find(|name| std::env::var_os(name).is_some());
    let given = variable.is_some() || printed;
    let credential = || {
        let folder = std::env::var_os("CREDENTIALS_DIRECTORY")?;
        let there = |name: &&str| Path::new(&folder).join(name).exists();
        let name = ["palisade-master-key", "palisade-master-passphrase"].into_iter().find(there)?;
        Some(Path::new(&folder).join(name))
    };
    let file = || named("key.file").or_else(|| named("key.passphrase_file"));
    let key = || file().or_else(credential).unwrap_or_else(|| places.master_key());
    let rows = [
        ("config", Some(places.config.clone())),
        ("data", Some(named("data_dir").unwrap_or_else(|| places.data.clone()))),
        ("credentials", Some(places.credentials())),
        ("master_key", (!given).then(key)),
    ];
    let (mut text, mut json) = (String::new(), serde_json::Map::new());
    for (name, path) in rows {
        let path = path.map(|path| std::path::absolute(&path).unwrap_or(path).display().to_string());
        text.push_str(&format!(
            "{name:12} {}\n",
            path.clone().unwrap_or(match variable {
                Some(name) => format!("in {name}"),
                None => "printed by `key.command`".to_owned(),
            })
        ));
        json.insert(name.to_owned(), path.into());
    }
    // A path under the name `master_key` looks like a key; there is no secret here.
    Ok(Shown::new(&json, text).revealing())
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
