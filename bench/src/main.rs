//! Measures what Palisade must reach, side by side with what it is measured against.
//!
//! Flow: each item gives [`report::Row`]s -> a table, or JSON. Ours and the reference take turns in the same
//! run, and medians count, because machines are noisy. Nothing here is part of the product.

mod authorize;
mod bare;
mod daemon;
mod daemon_cost;
mod egress;
mod inside;
mod launch;
mod ledger_disk;
mod ledger_pace;
mod ledger_query;
mod load;
mod machine;
mod measure;
mod owner;
mod pass;
mod peers;
mod plans;
mod redact;
mod report;
mod scanners;
mod sessions;
mod vault;
mod whole;
mod wire;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};

/// Measures Palisade against its references.
#[derive(Parser)]
#[command(name = "bench")]
struct Arguments {
    /// Ends with status 1 if a bound is missed.
    #[arg(long)]
    check: bool,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
    /// Measures only these.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Item>,
    /// The daemon to measure.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/release/palisaded"))]
    daemon: PathBuf,
    /// The launcher to measure.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/release/palisade"))]
    palisade: PathBuf,
    /// A directory on the disk to measure.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../target"))]
    disk: PathBuf,
    /// Keeps the filled installation here and uses it again the next time.
    #[arg(long)]
    home: Option<PathBuf>,
    /// How many worktrees the store holds.
    #[arg(long, default_value_t = 10_000)]
    worktrees: usize,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Item {
    Launch,
    Inside,
    Authorize,
    Pass,
    Ledger,
    Redact,
    Vault,
    Plans,
    Daemon,
    Egress,
    Sessions,
}

#[derive(Subcommand)]
enum Command {
    /// The reference server; the benchmark starts it itself.
    #[command(hide = true)]
    ServeBare,
    /// The spawner's part; the benchmark starts it itself.
    #[command(hide = true)]
    Warm {
        /// Where its directories are.
        place: PathBuf,
    },
    /// Parts of the egress figures; the benchmark starts them itself.
    #[command(hide = true)]
    EgressPart {
        /// Which.
        name: String,
        /// What it is told.
        argument: String,
    },
}

fn main() -> anyhow::Result<ExitCode> {
    // The spawner attacks its first sandbox with this very program.
    if std::env::args_os().nth(1).is_some_and(|word| word == sandbox::probe::ARGUMENT) {
        return Ok(sandbox::probe::answer().map(|()| ExitCode::SUCCESS)?);
    }
    let arguments = Arguments::parse();
    match &arguments.command {
        Some(Command::ServeBare) => return bare::serve().map(|()| ExitCode::SUCCESS),
        Some(Command::Warm { place }) => return launch::warm_alone(place).map(|()| ExitCode::SUCCESS),
        Some(Command::EgressPart { name, argument }) => {
            return egress::part(name, argument).map(|()| ExitCode::SUCCESS);
        }
        None => {}
    }
    let machine = machine::described();
    let (rows, notes) = measured(&arguments)?;
    if arguments.json {
        report::json(&machine, &rows, &notes);
    } else {
        report::table(&machine, &rows, &notes);
    }
    let missed = rows.iter().any(|row| row.reached() == Some(false));
    Ok(if arguments.check && missed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn measured(arguments: &Arguments) -> anyhow::Result<(Vec<report::Row>, Vec<String>)> {
    let wanted = |item| arguments.only.is_empty() || arguments.only.contains(&item);
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    if wanted(Item::Launch) {
        eprintln!("launch ...");
        let (more, said) = launch::rows(&arguments.palisade)?;
        rows.extend(more);
        notes.extend(said);
    }
    if wanted(Item::Inside) {
        eprintln!("inside (makes 100,000 files first) ...");
        rows.extend(inside::rows(&arguments.palisade)?);
    }
    if wanted(Item::Authorize) {
        eprintln!("authorize ...");
        rows.extend(authorize::rows()?);
    }
    if wanted(Item::Pass) {
        eprintln!("pass ...");
        rows.extend(pass::rows()?);
    }
    if wanted(Item::Redact) {
        eprintln!("redact (asks other scanners too; this takes a while) ...");
        let one = machine::OneCore::take()?;
        for figures in [redact::rows, peers::rows] {
            let (more, said) = figures()?;
            rows.extend(more);
            notes.extend(said);
        }
        let (more, said) = whole::rows(&arguments.palisade)?;
        rows.extend(more);
        notes.extend(said);
        drop(one);
    }
    if wanted(Item::Vault) {
        eprintln!("vault ...");
        let one = machine::OneCore::take()?;
        let (more, said) = vault::rows()?;
        rows.extend(more);
        notes.extend(said);
        drop(one);
    }
    if wanted(Item::Plans) {
        eprintln!("plans ...");
        let one = machine::OneCore::take()?;
        let (more, said) = plans::rows()?;
        rows.extend(more);
        notes.extend(said);
        drop(one);
    }
    if wanted(Item::Egress) {
        eprintln!("egress (other proxies too; this takes a few minutes) ...");
        let (more, said) = egress::rows(&arguments.palisade)?;
        rows.extend(more);
        notes.extend(said);
    }
    if wanted(Item::Sessions) {
        machine::on_a_disk(&arguments.disk)?;
        let (more, said) = sessions::rows(&arguments.daemon, &arguments.disk)?;
        rows.extend(more);
        notes.extend(said);
    }
    if wanted(Item::Daemon) {
        eprintln!("daemon (fills a store first; this takes a while) ...");
        let temporary = tempfile::tempdir_in(&arguments.disk)?;
        let home = arguments.home.clone().unwrap_or_else(|| temporary.path().join("home"));
        machine::on_a_disk(&arguments.disk)?;
        let (more, said) = daemon_cost::rows(&arguments.daemon, &home, arguments.worktrees)?;
        rows.extend(more);
        notes.extend(said);
    }
    if wanted(Item::Ledger) {
        eprintln!("ledger ...");
        machine::on_a_disk(&arguments.disk)?;
        for figures in [ledger_disk::rows, ledger_pace::rows, ledger_query::rows] {
            let (more, said) = figures(&arguments.disk)?;
            rows.extend(more);
            notes.extend(said);
        }
    }
    Ok((rows, notes))
}
