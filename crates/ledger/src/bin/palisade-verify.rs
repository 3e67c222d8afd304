//! Checks a ledger offline: `palisade-verify DIR --trust FILE`; or a bundle: `palisade-verify --bundle DIR --trust FILE`.
//!
//! Thin: parses arguments, reads the files from outside the ledger, calls the verifier, prints. Exit codes:
//! 0 intact, 1 tampered, 2 cannot be checked, 64 usage.
//!
//! Invariant: a ledger from elsewhere is hostile text. Whatever is said, also by a panic, passes the redactor and cannot act
//! on a terminal. Paths stay whole: whoever checks needs them.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use ledger::ChainKey;
use ledger::verify::{Anchors, Complete, Report, Trust, Verdict, lies_inside, verify, verify_bundle};
use redact::Redactor;
use serde_json::Value;
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
    std::panic::set_hook(Box::new(|info| say(io::stderr().lock(), &clean(&told(info)))));
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) if error.use_stderr() => {
            say(io::stderr().lock(), &clean(&error.render().to_string()));
            return ExitCode::from(64);
        }
        Err(help) => {
            say(io::stdout().lock(), &help.render().to_string());
            return ExitCode::SUCCESS;
        }
    };
    match check(&args) {
        Ok(report) => {
            say(io::stdout().lock(), &shown(&report, args.json));
            ExitCode::from(match report.verdict {
                Verdict::Intact => 0,
                Verdict::Tampered => 1,
                Verdict::Unverifiable => 2,
            })
        }
        Err(message) => {
            say(io::stderr().lock(), &clean(&format!("cannot check: {message}\n")));
            ExitCode::from(2)
        }
    }
}

/// The one way out, for text that is clean. There is nobody to tell when the terminal is gone.
fn say(mut out: impl Write, text: &str) {
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

/// A text that is not ours, without secrets and without what acts on a terminal. Our own words do not pass here: some
/// (`authorization: recorded`) look like what they are not.
fn clean(text: &str) -> String {
    let tamed = redact::tame(text.as_bytes());
    String::from_utf8_lossy(&Redactor::new().scrub_bytes(&tamed)).into_owned()
}

/// Cleans every text of a document. Names of fields are ours.
fn clean_document(value: &mut Value) {
    match value {
        Value::String(text) => *text = clean(text),
        Value::Array(items) => items.iter_mut().for_each(clean_document),
        Value::Object(fields) => fields.values_mut().for_each(clean_document),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// What is said of a panic.
fn told(info: &std::panic::PanicHookInfo<'_>) -> String {
    let place = info.location().map(|at| format!("{}:{}", at.file(), at.line())).unwrap_or_default();
    format!("palisade-verify: failed at {place}: {}\n", info.payload_as_str().unwrap_or(""))
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

/// The report, for people or programs.
fn shown(report: &Report, json: bool) -> String {
    let as_json = |value: &dyn Fn() -> serde_json::Result<String>| value().unwrap_or_default();
    if json {
        let mut document = serde_json::to_value(report).unwrap_or_default();
        clean_document(&mut document);
        return format!("{document:#}\n");
    }
    let mut text = String::new();
    // The words are the ones of the JSON report.
    let words = [
        ("verdict", as_json(&|| serde_json::to_string(&report.verdict))),
        ("claim", as_json(&|| serde_json::to_string(&report.claim))),
        ("time", as_json(&|| serde_json::to_string(&report.time))),
        ("authorization", as_json(&|| serde_json::to_string(&report.authorization))),
    ];
    for (name, word) in words {
        let _ = writeln!(text, "{name}: {}", word.trim_matches('"'));
    }
    let _ = writeln!(
        text,
        "entries: {}, covered to {}, checkpoints: {}",
        report.entries, report.covered, report.checkpoints
    );
    if let Some(bundle) = &report.bundle {
        let about = bundle
            .about
            .as_ref()
            .map_or(String::new(), |id| format!(" about `{}`", clean(id).escape_debug()));
        let complete = match bundle.complete {
            Complete::Proved => "none is left out",
            Complete::Asserted => "that none is left out is the signer's word",
        };
        let _ = writeln!(text, "scope: entries {} to {}{about}; {complete}", bundle.from, bundle.to);
        let _ = writeln!(
            text,
            "inputs: {} named by entries, {} the signer's word",
            bundle.inputs_recorded, bundle.inputs_asserted
        );
    }
    for gap in &report.gaps {
        let _ = writeln!(text, "gap: entries {} to {} ({})", gap.first, gap.last, clean(gap.reason));
    }
    for finding in &report.findings {
        let kind = finding.kind.word();
        let place =
            |name: &str, number: Option<u64>| number.map_or(String::new(), |n| format!(" {name}={n}"));
        let places = place("index", finding.index)
            + &place("segment", finding.segment.map(u64::from))
            + &place("line", finding.line);
        let _ = writeln!(text, "{kind}{places}: {}", clean(&finding.message));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sec_16_what_is_not_ours_has_no_secret_and_does_not_act() {
        let secret = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
        let hostile =
            format!("`/home/ana/{secret}`: \u{1b}]52;c;ZWNobw==\u{7}\u{1b}[2J\u{9b}6n no such file\n");
        let mut document =
            serde_json::json!({ "findings": [{ "message": hostile }], "authorization": "recorded" });
        clean_document(&mut document);
        assert_eq!(document["authorization"], "recorded");
        for said in [clean(&hostile), document["findings"][0]["message"].as_str().unwrap().to_owned()] {
            assert!(said.contains("/home/ana/***") && !said.contains(&secret), "{said:?}");
            assert!(said.chars().all(|c| c == '\n' || !c.is_control()), "{said:?}");
        }
    }

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
            said.contains("palisade-verify.rs:")
                && said.contains("unexpected ***")
                && !said.contains('\u{1b}'),
            "{said}"
        );
    }
}
