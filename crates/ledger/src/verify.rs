//! Turns a ledger directory (or a copy of one) into a [`Report`], offline.
//!
//! Inputs from outside the directory: [`Trust`] (whose signatures count), the chain key and [`Anchors`] (both
//! optional). Invariants: the same function serves the daemon and `palisade-verify`; it writes nothing; what
//! cannot be checked is `unverifiable`, never `tampered`, and never `intact`. Nothing of the writer is used
//! but the formats.

mod bundle;
mod chain;
mod folder;
mod listing;
mod order;
mod pass;
mod records;
mod report;
mod trust;

use std::path::Path;

pub use bundle::verify_bundle;
pub use report::{
    Authorization, BundleFacts, Claim, Complete, Evidence, Finding, Gap, Kind, Report, Time, Verdict,
};
pub use trust::{Anchors, BadTrust, Status, Trust, TrustedKey, lies_inside};

use crate::keys::{ChainKey, Code};
use crate::state::Shared;
use report::Findings;

/// What a running writer knows to be durable: how far to read, and what must be there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Live {
    limits: Option<Limits>,
    seq: u64,
    head: Code,
}

/// Where the durable part of a ledger ends while it is being written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) segment: u32,
    pub(crate) bytes: u64,
    pub(crate) record_bytes: u64,
}

impl Live {
    /// The writer's state; without limits if the files did not end where it left them.
    pub(crate) fn new(shared: &Shared, ends_fit: bool) -> Self {
        let Shared { segment, bytes, record_bytes, seq, head, .. } = *shared;
        Self { limits: ends_fit.then_some(Limits { segment, bytes, record_bytes }), seq, head }
    }
}

/// Checks the ledger in `dir`.
#[must_use]
pub fn verify(dir: &Path, trust: &Trust, chain: Option<&ChainKey>, anchors: Option<&Anchors>) -> Report {
    check(dir, trust, chain, anchors, None)
}

pub(crate) fn verify_live(
    dir: &Path,
    trust: &Trust,
    chain: &ChainKey,
    anchors: Option<&Anchors>,
    live: &Live,
) -> Report {
    check(dir, trust, Some(chain), anchors, Some(live))
}

fn check(
    dir: &Path,
    trust: &Trust,
    key: Option<&ChainKey>,
    anchors: Option<&Anchors>,
    live: Option<&Live>,
) -> Report {
    let mut findings = Findings::default();
    if trust.is_empty() {
        findings.add(plain(Kind::NoTrust, None, "no trust root: no signature can be checked"));
    }
    let limits = live.zip(key).and_then(|(live, key)| {
        live.limits.filter(|limits| folder::goes_on(dir, trust, key, *limits, live.seq))
    });
    let checked = records::check(dir, trust, limits.map(|limits| limits.record_bytes), &mut findings);
    let records = &checked.list;
    let newest = anchors.and_then(|anchors| records::check_anchors(records, anchors, &mut findings));
    let outcome = chain::check(dir, key, &checked, limits, &mut findings);
    if let Some(live) = live
        && outcome.end_known
        && (outcome.last != live.seq || outcome.head.is_some_and(|head| head != live.head))
        && findings.tampering == 0
    {
        let message = format!("the running ledger ends with entry {}, the files do not", live.seq);
        findings.add(plain(Kind::Truncated, Some(outcome.last.saturating_add(1)), &message));
    }
    let verdict = findings.verdict();
    let anchored = newest.map(|(record, _)| record.checkpoint.last);
    let evidence = Evidence {
        intact: verdict == Verdict::Intact,
        anchored: anchored.is_some_and(|last| last == outcome.last),
        signed: !records.is_empty() && records.iter().all(|record| record.valid),
        attested: newest.is_some_and(|(_, at)| at.is_some()),
    };
    Report {
        verdict,
        claim: evidence.claim(),
        time: evidence.time(),
        authorization: if outcome.decisions { Authorization::Recorded } else { Authorization::None },
        findings: findings.list,
        entries: outcome.entries,
        checkpoints: u64::try_from(records.len()).unwrap_or(u64::MAX),
        covered: outcome.covered,
        anchored,
        gaps: outcome.gaps,
        bundle: None,
    }
}

fn plain(kind: Kind, index: Option<u64>, message: &str) -> Finding {
    Finding { kind, index, segment: None, line: None, message: message.to_owned() }
}
