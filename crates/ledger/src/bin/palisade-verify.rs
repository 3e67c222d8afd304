//! Checks a ledger offline: `palisade-verify DIR --trust FILE`; or a bundle: `palisade-verify --bundle DIR --trust FILE`.
//!
//! Thin: parses arguments, reads the files from outside the ledger, calls the verifier, prints. Exit codes:
//! 0 intact, 1 tampered, 2 cannot be checked, 64 usage.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the output of a command")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use ledger::ChainKey;
use ledger::verify::{Anchors, Complete, Report, Trust, Verdict, lies_inside, verify, verify_bundle};
use zeroize::Zeroizing;

/// Checks that a ledger, or a bundle of some of its entries, is what was written.
///
/// Exit codes: 0 intact, 1 tampered, 2 cannot be checked, 64 wrong usage.
#[derive(Debug, Parser)]
#[command(name = "palisade-verify", version)]
struct Args {
    /// The ledger's directory, or a copy of it.
    #[arg(required_unless_present = "bundle")]
    dir: Option<PathBuf>,
    /// A bundle instead: a directory that `palisade ledger export --bundle` made.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["dir", "chain_key_file"])]
    bundle: Option<PathBuf>,
    /// The trust root: which public keys count. It must not come from the ledger or the bundle itself.
    #[arg(long)]
    trust: Option<PathBuf>,
    /// The chain key (32 raw bytes or 64 hex digits); with it, changes are found to the entry.
    #[arg(long)]
    chain_key_file: Option<PathBuf>,
    /// Hashes of checkpoints kept elsewhere, one `<number> <sha256> [<milliseconds>]` per line.
    #[arg(long)]
    anchor: Option<PathBuf>,
    /// Prints the report as JSON.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            let wrong = error.use_stderr();
            let _ = error.print(); // nobody to tell if the terminal is gone
            return ExitCode::from(if wrong { 64 } else { 0 });
        }
    };
    match check(&args) {
        Ok(report) => {
            print(&report, args.json);
            ExitCode::from(match report.verdict {
                Verdict::Intact => 0,
                Verdict::Tampered => 1,
                Verdict::Unverifiable => 2,
            })
        }
        Err(message) => {
            eprintln!("cannot check: {message}");
            ExitCode::from(2)
        }
    }
}

fn check(args: &Args) -> Result<Report, String> {
    let trust = match &args.trust {
        None => Trust::default(),
        Some(path) => {
            Trust::from_json(&read(path)?).map_err(|error| format!("`{}`: {error}", path.display()))?
        }
    };
    let anchors = args.anchor.as_deref().map(anchors).transpose()?;
    let Some(dir) = args.bundle.as_ref().or(args.dir.as_ref()) else { return Err("no directory".into()) };
    if !dir.is_dir() {
        return Err(format!("`{}` is not a directory", dir.display()));
    }
    if args.bundle.is_some() {
        for outside in [&args.trust, &args.anchor].into_iter().flatten() {
            if lies_inside(outside, dir) {
                return Err(format!(
                    "`{}` lies inside the bundle; take it from elsewhere",
                    outside.display()
                ));
            }
        }
        return Ok(verify_bundle(dir, &trust, anchors.as_ref()));
    }
    let key = args.chain_key_file.as_deref().map(chain_key).transpose()?;
    Ok(verify(dir, &trust, key.as_ref(), anchors.as_ref()))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("`{}`: {error}", path.display()))
}

fn chain_key(path: &Path) -> Result<ChainKey, String> {
    let bytes = Zeroizing::new(read(path)?);
    let mut key = Zeroizing::new([0; 32]);
    if bytes.len() == 32 {
        key.copy_from_slice(&bytes);
    } else {
        hex::decode_to_slice(bytes.trim_ascii(), &mut *key)
            .map_err(|_| format!("`{}` does not hold 32 bytes or 64 hex digits", path.display()))?;
    }
    Ok(ChainKey::new(key))
}

fn anchors(path: &Path) -> Result<Anchors, String> {
    let bytes = read(path)?;
    let text = str::from_utf8(&bytes).map_err(|error| format!("`{}`: {error}", path.display()))?;
    Anchors::from_lines(text).map_err(|error| format!("`{}`: {error}", path.display()))
}

fn print(report: &Report, json: bool) {
    let as_json = |value: &dyn Fn() -> serde_json::Result<String>| value().unwrap_or_default();
    if json {
        println!("{}", as_json(&|| serde_json::to_string_pretty(report)));
        return;
    }
    // The words are the ones of the JSON report.
    let words = [
        ("verdict", as_json(&|| serde_json::to_string(&report.verdict))),
        ("claim", as_json(&|| serde_json::to_string(&report.claim))),
        ("time", as_json(&|| serde_json::to_string(&report.time))),
        ("authorization", as_json(&|| serde_json::to_string(&report.authorization))),
    ];
    for (name, word) in words {
        println!("{name}: {}", word.trim_matches('"'));
    }
    println!(
        "entries: {}, covered to {}, checkpoints: {}",
        report.entries, report.covered, report.checkpoints
    );
    if let Some(bundle) = &report.bundle {
        let about =
            bundle.about.as_ref().map_or(String::new(), |id| format!(" about `{}`", id.escape_debug()));
        let complete = match bundle.complete {
            Complete::Proved => "none is left out",
            Complete::Asserted => "that none is left out is the signer's word",
        };
        println!("scope: entries {} to {}{about}; {complete}", bundle.from, bundle.to);
        println!(
            "inputs: {} named by entries, {} the signer's word",
            bundle.inputs_recorded, bundle.inputs_asserted
        );
    }
    for gap in &report.gaps {
        println!("gap: entries {} to {} ({})", gap.first, gap.last, gap.reason);
    }
    for finding in &report.findings {
        let kind = finding.kind.word();
        let place =
            |name: &str, number: Option<u64>| number.map_or(String::new(), |n| format!(" {name}={n}"));
        let places = place("index", finding.index)
            + &place("segment", finding.segment.map(u64::from))
            + &place("line", finding.line);
        println!("{}{places}: {}", kind, finding.message);
    }
}
