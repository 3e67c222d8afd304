//! The daemon: `palisaded up`, and the few commands that need its store while it is down.
//!
//! Flow: settings -> data directory and key -> runtime -> router -> connections -> orderly end.

mod app;
mod data;
mod export;
mod extract;
mod handlers;
mod idempotency;
mod limits;
mod logs;
mod master;
mod measure;
mod offline;
mod openapi;
mod outflow;
mod patient;
mod patterns;
mod pipeline;
mod problem;
mod routes;
mod scrape;
mod seats;
mod serve;
mod settings;
mod up;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use runtime::OnLoss;

/// The Palisade daemon. People use `palisade`; this is what `palisade up` runs.
#[derive(Parser)]
#[command(name = "palisaded", version)]
struct Arguments {
    /// Configuration file; everything then lives beside it.
    #[arg(long, global = true, env = "PALISADE_CONFIG")]
    config: Option<PathBuf>,
    /// Sets a configuration key, stronger than file and environment.
    #[arg(long = "set", global = true, value_name = "KEY=VALUE", value_parser = pair)]
    set: Vec<(String, String)>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Starts the daemon.
    Up {
        /// Goes on, and records it, although the ledger lacks entries that the store remembers.
        #[arg(long)]
        accept_ledger_loss: bool,
    },
    /// Shows the configuration in force and where each value comes from.
    Config {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Makes a new installation from a backup.
    Restore {
        /// The file that `palisade backup create` wrote.
        file: PathBuf,
    },
    /// Encrypts a plain-text store in place, all or nothing.
    EncryptStore,
    /// Brings an older store to the present schema.
    MigrateStore,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn main() -> ExitCode {
    logs::guard_panics();
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return logs::misunderstood(&error),
    };
    let places = api::Places::find(arguments.config.as_deref());
    let outcome =
        settings::Settings::load(&places, &arguments.set).map_err(anyhow::Error::from).and_then(|settings| {
            match arguments.command {
                Command::Up { accept_ledger_loss: false } => up::run(&places, settings, OnLoss::Refuse),
                Command::Up { accept_ledger_loss: true } => up::run(&places, settings, OnLoss::Accept),
                Command::Config { json } => offline::show_config(&settings, json),
                Command::Restore { file } => offline::restore(&places, &settings, &file),
                Command::EncryptStore => offline::encrypt(&places, &settings),
                Command::MigrateStore => offline::migrate(&places, &settings),
            }
        });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let text = format!("palisaded: {error:#}\n");
            logs::tell(&mut std::io::stderr().lock(), &text);
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    /// A process has one hook, so this is a second one: `main` itself puts it there, and then something panics.
    #[test]
    fn sec_16_a_panic_is_told_without_its_secret() {
        const NAME: &str = "A_PANIC_SAYS";
        if let Ok(secret) = std::env::var(NAME) {
            let _ = super::main();
            panic!("unexpected {secret}\u{1b}[2J");
        }
        let secret = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
        let mut again = std::process::Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", "tests::sec_16_a_panic_is_told_without_its_secret"]).env(NAME, &secret);
        let output = again.stdin(std::process::Stdio::null()).output().unwrap();
        let said = String::from_utf8([output.stderr, output.stdout].concat()).unwrap();
        assert!(!output.status.success() && !said.contains(&secret), "{said}");
        assert!(
            said.contains("main.rs:") && said.contains("unexpected ***") && !said.contains('\u{1b}'),
            "{said}"
        );
    }
}
