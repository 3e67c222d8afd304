//! `palisade receipt`: what really held in a run, and whether the receipt is still what was signed.

use std::path::{Path, PathBuf};

use ed25519_dalek::VerifyingKey;
use ledger::verify::{Trust, Verdict, verify};
use sandbox::receipt::{Receipt, RunId, Sealed, check_in_ledger, show};
use serde_json::json;

use super::record::OwnRecord;
use super::run::Home;
use crate::cli::{ReceiptCommand, ReceiptOf};
use crate::failure::Failure;
use crate::output::Shown;

/// The most that a receipt may be long.
const MOST_BYTES: u64 = 1 << 20;

pub(super) fn run(config: Option<&Path>, command: ReceiptCommand) -> Result<Shown, Failure> {
    let home = Home::find(config);
    let record = OwnRecord::existing(&home.state)?;
    let record =
        record.ok_or_else(|| Failure::NotFound("nothing was run here yet; see `palisade run`".into()))?;
    match command {
        ReceiptCommand::Show { of } => {
            let (sealed, place) = sealed(&record, &home, &of)?;
            let receipt = verified(&record, &of, &sealed, &place)?;
            Ok(Shown::new(receipt, show(receipt)))
        }
        ReceiptCommand::Verify { of } => check(&record, &home, &of),
        ReceiptCommand::Key => {
            let key = hex::encode(record.receipt_key().verifying_key().as_bytes());
            Ok(Shown::new(&json!({ "key": key }), format!("{key}\n")))
        }
    }
}

fn bad(error: &dyn std::fmt::Display) -> Failure {
    Failure::Tampered(json!({ "verdict": "tampered", "why": error.to_string() }), format!("{error}\n"))
}

/// Whose signature counts: one's own, or the one that was given.
fn trusted(record: &OwnRecord, of: &ReceiptOf) -> Result<VerifyingKey, Failure> {
    let Some(given) = &of.key else { return Ok(record.receipt_key().verifying_key()) };
    let mut bytes = [0u8; 32];
    let parsed = hex::decode_to_slice(given.trim(), &mut bytes).ok();
    let key = parsed.and_then(|()| VerifyingKey::from_bytes(&bytes).ok());
    key.ok_or_else(|| {
        Failure::Usage("`--key` takes the 64 hex digits that `palisade receipt key` prints".into())
    })
}

/// What a receipt says, if it is signed and, where it is kept under the name of a run, that run's own.
fn verified<'a>(
    record: &OwnRecord,
    of: &ReceiptOf,
    sealed: &'a Sealed,
    place: &Path,
) -> Result<&'a Receipt, Failure> {
    let receipt = sealed.verify(&trusted(record, of)?).map_err(|error| bad(&error))?;
    if of.file.is_none() && *place != record.receipt(&receipt.run) {
        let (place, run) = (place.display(), &receipt.run);
        return Err(bad(&format!("at `{place}` is the receipt of another run, `{run}`")));
    }
    Ok(receipt)
}

/// A receipt that was not checked yet, and where it was.
fn sealed(record: &OwnRecord, home: &Home, of: &ReceiptOf) -> Result<(Sealed, PathBuf), Failure> {
    let path = match (&of.file, &of.run) {
        (Some(file), _) => file.clone(),
        (None, Some(run)) => {
            let run: RunId = run.parse().map_err(|error| Failure::Usage(format!("{error}")))?;
            record.receipt(&run)
        }
        (None, None) => latest(home)?,
    };
    let text = super::run::bytes(&path).map_err(Failure::file(&path))?;
    let Some(text) = text else {
        return Err(Failure::NotFound(format!("there is no receipt at `{}`", path.display())));
    };
    if u64::try_from(text.len()).unwrap_or(u64::MAX) >= MOST_BYTES {
        return Err(Failure::NotFound(format!("`{}` is too long for a receipt", path.display())));
    }
    let sealed = Sealed::from_text(&String::from_utf8_lossy(&text)).map_err(|error| bad(&error))?;
    Ok((sealed, path))
}

/// The receipt of the last run.
fn latest(home: &Home) -> Result<PathBuf, Failure> {
    let folder = home.state.join("receipts");
    let entries = std::fs::read_dir(&folder).map_err(Failure::file(&folder))?;
    let newest =
        entries.flatten().filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())));
    let newest = newest.max_by_key(|(when, _)| *when).map(|(_, path)| path);
    newest.ok_or_else(|| Failure::NotFound("there is no receipt yet; see `palisade run`".into()))
}

/// The signature, the entry that names it, and the ledger that holds the entry.
fn check(record: &OwnRecord, home: &Home, of: &ReceiptOf) -> Result<Shown, Failure> {
    let (sealed, place) = sealed(record, home, of)?;
    let receipt = verified(record, of, &sealed, &place)?;
    let run = receipt.run.clone();
    if of.key.is_some() {
        let text =
            format!("{run}: the signature fits the given key; whose ledger names it is not known here\n");
        return Ok(Shown::new(
            &json!({ "run": run.as_str(), "signature": "fits", "ledger": "unknown" }),
            text,
        ));
    }
    let trust = Trust::from_keys([record.seed().trusted_key()]).map_err(|error| bad(&error))?;
    let report = verify(&record.ledger(), &trust, Some(&record.seed().chain_key()), None);
    let entries = ledger::read(&record.ledger(), 1).map_err(|error| bad(&error))?;
    let mut named = None;
    for stored in entries {
        let entry = stored.map_err(|error| bad(&error))?.entry;
        if entry.resource == run.as_str() && entry.action == "sandbox.launch" {
            check_in_ledger(&entry, &sealed).map_err(|error| bad(&error))?;
            named = Some(entry.seq);
        }
    }
    let Some(entry) = named else { return Err(bad(&format!("no entry of the ledger names `{run}`"))) };
    if report.verdict == Verdict::Tampered {
        let findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
        return Err(bad(&format!("the ledger was tampered with: {}", findings.join("; "))));
    }
    let text = format!(
        "{run}: the signature fits, entry {entry} of the ledger names it, and the ledger is intact\n"
    );
    let told = json!({ "run": run.as_str(), "signature": "fits", "entry": entry, "ledger": report.verdict });
    Ok(Shown::new(&told, text))
}
