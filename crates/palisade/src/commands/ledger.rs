//! The ledger.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use api::{Client, LedgerEntry, LedgerFilter};
use ledger::verify::{Anchors, Report, Trust, lies_inside, verify, verify_bundle};
use ledger::{Layout, LayoutError};
use serde::{Deserialize, Serialize};

use super::resolve;
use crate::cli;
use crate::failure::Failure;
use crate::output::{Shown, moment, table};
use crate::session::Session;

pub(super) fn run(session: &Session, command: cli::Ledger, json: bool) -> Result<Shown, Failure> {
    match command {
        cli::Ledger::Tail { lines, follow } => tail(&session.client()?, lines, follow, json),
        cli::Ledger::Search { search, limit } => {
            let client = session.client()?;
            let user = search.user.map(|user| resolve::user(&client, &user)).transpose()?;
            let filter = LedgerFilter {
                user,
                action: search.action,
                resource: search.resource,
                decision: search.decision,
                since: search.since,
                until: search.until,
                limit: Some(limit),
                ..LedgerFilter::default()
            };
            let found = client.ledger(&filter)?.items;
            Ok(Shown::new(&found, entries(&found)))
        }
        cli::Ledger::Verify { dir, bundle, trust: Some(trust), anchor } => match (dir, bundle) {
            (Some(dir), _) => offline(&dir, &trust, anchor.as_deref(), |dir, trust, anchors| {
                verify(dir, trust, None, anchors)
            }),
            (None, Some(bundle)) if lies_inside(&trust, &bundle) => {
                Err(Failure::Usage("the trust root lies inside the bundle; take it from elsewhere".into()))
            }
            (None, Some(bundle)) => offline(&bundle, &trust, anchor.as_deref(), verify_bundle),
            (None, None) => Err(Failure::Usage("--trust is for --dir or --bundle".into())),
        },
        cli::Ledger::Verify { .. } => online(&session.client()?),
        cli::Ledger::Export { dir, chosen } => match (dir, &chosen.bundle) {
            (Some(dir), _) => export(&session.client()?, &dir),
            (None, Some(bundle)) => export_bundle(&session.client()?, bundle, &chosen),
            (None, None) => Err(Failure::Usage("name a directory".into())),
        },
        cli::Ledger::Trust => {
            let trust = session.client()?.ledger_trust()?;
            Ok(Shown::new(&trust, format!("{}\n", trust.trust)))
        }
    }
}

fn entries(found: &[LedgerEntry]) -> String {
    let row = |entry: &LedgerEntry| {
        vec![
            entry.seq.to_string(),
            moment(entry.at),
            entry.who.clone(),
            entry.action.clone(),
            entry.decision.clone(),
            entry.resource.clone(),
        ]
    };
    let rows: Vec<_> = found.iter().map(row).collect();
    table(&["SEQ", "TIME", "WHO", "ACTION", "DECISION", "RESOURCE"], &rows)
}

fn tail(client: &Client, lines: u32, follow: bool, json: bool) -> Result<Shown, Failure> {
    let newest = |limit: u32| -> Result<Vec<LedgerEntry>, Failure> {
        let mut found = client.ledger(&LedgerFilter { limit: Some(limit), ..LedgerFilter::default() })?.items;
        found.reverse();
        Ok(found)
    };
    let first = newest(lines)?;
    if !follow {
        return Ok(Shown::new(&first, entries(&first)));
    }
    let mut last = 0;
    let mut found = first;
    loop {
        for entry in found.iter().filter(|entry| entry.seq > last) {
            let line = if json {
                format!("{}\n", serde_json::to_string(entry).unwrap_or_default())
            } else {
                format!(
                    "{} {} {} {} {} {}\n",
                    entry.seq,
                    moment(entry.at),
                    entry.who,
                    entry.action,
                    entry.decision,
                    entry.resource
                )
            };
            if !crate::output::next_line(&line) {
                return Ok(Shown::new(&(), ""));
            }
        }
        last = found.last().map_or(last, |entry| entry.seq.max(last));
        std::thread::sleep(Duration::from_secs(1));
        found = newest(1_000)?;
    }
}

/// A verdict and what it rests on, as the daemon or this program found it.
struct Found<'a> {
    verdict: &'a str,
    claim: &'a str,
    entries: u64,
    checkpoints: u64,
    findings: Vec<String>,
}

fn judged(report: &impl Serialize, found: &Found<'_>) -> Result<Shown, Failure> {
    let Found { verdict, claim, entries, checkpoints, findings } = found;
    let mut text = format!("{verdict}: {entries} entries, {checkpoints} checkpoints; claim: {claim}\n");
    for finding in findings {
        text.push_str(&format!("  {finding}\n"));
    }
    let value = serde_json::to_value(report).unwrap_or_default();
    match *verdict {
        "intact" => Ok(Shown::new(report, text)),
        "tampered" => Err(Failure::Tampered(value, text)),
        _ => Err(Failure::Unverifiable(value, text)),
    }
}

fn online(client: &Client) -> Result<Shown, Failure> {
    let report = client.verify_ledger()?;
    let found = Found {
        verdict: &report.verdict,
        claim: &report.claim,
        entries: report.entries,
        checkpoints: report.checkpoints,
        findings: report.findings.clone(),
    };
    judged(&report, &found)
}

fn offline(
    dir: &Path,
    trust: &Path,
    anchor: Option<&Path>,
    check: impl FnOnce(&Path, &Trust, Option<&Anchors>) -> Report,
) -> Result<Shown, Failure> {
    let bytes = fs::read(trust).map_err(Failure::file(trust))?;
    let trust = Trust::from_json(&bytes).map_err(|error| Failure::Usage(error.to_string()))?;
    let anchors = match anchor {
        Some(path) => {
            let text = fs::read_to_string(path).map_err(Failure::file(path))?;
            Some(Anchors::from_lines(&text).map_err(|error| Failure::Usage(error.to_string()))?)
        }
        None => None,
    };
    let report = check(dir, &trust, anchors.as_ref());
    let (verdict, claim) = (report.verdict.to_string(), report.claim.to_string());
    let found = Found {
        verdict: &verdict,
        claim: &claim,
        entries: report.entries,
        checkpoints: report.checkpoints,
        findings: report.findings.iter().map(ToString::to_string).collect(),
    };
    judged(&report, &found)
}

/// One line of an export, or in hex the bytes of what is no line.
#[derive(Deserialize)]
struct Line {
    file: String,
    line: Option<String>,
    hex: Option<String>,
}

impl Line {
    fn bytes(self) -> Option<Vec<u8>> {
        match (self.line, self.hex) {
            (Some(line), None) => Some(format!("{line}\n").into_bytes()),
            (None, hex) => Piece { file: self.file, text: None, hex }.bytes(),
            (Some(_), Some(_)) => None,
        }
    }
}

/// Lays the ledger's files out in a new directory. Names that are not the ledger's own are refused.
fn export(client: &Client, dir: &Path) -> Result<Shown, Failure> {
    fs::DirBuilder::new().mode(0o700).create(dir).map_err(Failure::file(dir))?;
    let segments = dir.join("segments");
    fs::DirBuilder::new().mode(0o700).create(&segments).map_err(Failure::file(&segments))?;
    let mut files: HashMap<String, BufWriter<File>> = HashMap::new();
    let mut count = 0u64;
    for text in BufReader::new(client.export_ledger()?).lines() {
        let text = text.map_err(|error| Failure::Program(format!("the export broke off: {error}")))?;
        let line: Line = serde_json::from_str(&text)
            .map_err(|error| Failure::Program(format!("the export is damaged: {error}")))?;
        let number = line.file.strip_prefix("segments/").and_then(|rest| rest.strip_suffix(".seg"));
        let known = line.file == "checkpoints.jsonl"
            || number.is_some_and(|n| n.len() == 8 && n.bytes().all(|b| b.is_ascii_digit()));
        if !known {
            return Err(Failure::Program(format!(
                "the export names a file that is not the ledger's: `{}`",
                line.file.escape_debug()
            )));
        }
        // What is no line is counted by the verifier, not here.
        count += u64::from(number.is_some() && line.line.is_some());
        let path = dir.join(&line.file);
        if !files.contains_key(&line.file) {
            let made = fs::OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&path)
                .map_err(Failure::file(&path))?;
            files.insert(line.file.clone(), BufWriter::new(made));
        }
        if let Some(file) = files.get_mut(&line.file) {
            let damaged = || Failure::Program("the export is damaged: a line is not one".into());
            file.write_all(&line.bytes().ok_or_else(damaged)?).map_err(Failure::file(&path))?;
        }
    }
    for (name, mut file) in files {
        file.flush().map_err(Failure::file(&dir.join(name)))?;
    }
    let shown = dir.display();
    let text = format!(
        "{count} entries in {shown}\ncheck them with: palisade-verify {shown} --trust TRUST (from `palisade ledger trust`)\n"
    );
    Ok(Shown::new(&serde_json::json!({ "entries": count, "dir": shown.to_string() }), text))
}

/// One piece of a bundle: text, or hex of what is no text.
#[derive(Deserialize)]
struct Piece {
    file: String,
    text: Option<String>,
    hex: Option<String>,
}

impl Piece {
    fn bytes(self) -> Option<Vec<u8>> {
        match (self.text, self.hex) {
            (Some(text), None) => Some(text.into_bytes()),
            (None, Some(hex)) => from_hex(&hex),
            _ => None,
        }
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let pairs =
        text.as_bytes().chunks(2).map(|pair| str::from_utf8(pair).ok().filter(|pair| pair.len() == 2));
    pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect()
}

/// Lays a bundle out in a new directory, which appears only when all of it is there.
fn export_bundle(client: &Client, dir: &Path, chosen: &cli::Chosen) -> Result<Shown, Failure> {
    let mut layout = Layout::begin(dir).map_err(not_laid_out)?;
    let pieces = client.export_bundle(chosen.about.as_deref(), chosen.from, chosen.to)?;
    for line in BufReader::new(pieces).lines() {
        let line = line.map_err(|error| Failure::Program(format!("the bundle broke off: {error}")))?;
        let damaged = || Failure::Program("the bundle is damaged: a piece is not one".into());
        let piece: Piece = serde_json::from_str(&line).map_err(|_| damaged())?;
        let file = piece.file.clone();
        layout.add(&file, &piece.bytes().ok_or_else(damaged)?).map_err(not_laid_out)?;
    }
    let count = layout.finish().map_err(not_laid_out)?;
    let shown = dir.display();
    let text = format!(
        "{count} entries in {shown}\ncheck them with: palisade-verify --bundle {shown} --trust TRUST (from `palisade ledger trust`)\n"
    );
    Ok(Shown::new(&serde_json::json!({ "entries": count, "dir": shown.to_string() }), text))
}

fn not_laid_out(error: LayoutError) -> Failure {
    match error {
        LayoutError::Io { path, source } => Failure::file(&path)(source),
        LayoutError::Exists(_) | LayoutError::Name(_) | LayoutError::Incomplete(_) => {
            Failure::Program(error.to_string())
        }
    }
}
