//! What a check says: findings with their places, a verdict, and claims no stronger than the evidence.
//!
//! Invariant: `tampered` needs evidence of a change, `intact` needs evidence of none; everything else is
//! `unverifiable`. The words and their weights are all here.

use serde::Serialize;

/// The outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// All entries are what was written.
    Intact,
    /// Something was changed.
    Tampered,
    /// It cannot be told.
    Unverifiable,
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Intact => "intact",
            Self::Tampered => "tampered",
            Self::Unverifiable => "unverifiable",
        })
    }
}

/// What may be said about an intact ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Claim {
    /// Changes would show, even by those who hold the keys: anchored outside and signed.
    TamperEvident,
    /// Changes by those without the keys would show.
    TamperDetecting,
    /// Nothing.
    None,
}

impl std::fmt::Display for Claim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::TamperEvident => "tamper-evident",
            Self::TamperDetecting => "tamper-detecting",
            Self::None => "none",
        })
    }
}

/// Whose word the times are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Time {
    /// The machine's own clock.
    Asserted,
    /// Someone outside saw the newest checkpoint at a time.
    Attested,
}

/// Whether the ledger says who permitted what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Authorization {
    /// No decision is recorded.
    None,
    /// Decisions are recorded.
    Recorded,
}

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// An entry is not what was written.
    Edited,
    /// Entries are missing between others.
    Deleted,
    /// An entry was added or copied.
    Inserted,
    /// Entries are in another order.
    Reordered,
    /// The end is missing.
    Truncated,
    /// Two genuine entries or records claim one place: two writers.
    Fork,
    /// A record's signature does not fit.
    ForgedCheckpoint,
    /// A signed root does not describe the entries.
    ForgedRoot,
    /// A record has no signature.
    Unsigned,
    /// A record is signed by a key that the trust root does not know.
    WrongKey,
    /// A record is signed by a revoked key.
    RevokedKey,
    /// A record is signed outside its key's validity.
    ExpiredKey,
    /// Records are missing from the checkpoint file.
    CheckpointsCut,
    /// An anchor outside knows more, or something else.
    RolledBack,
    /// A bundle has no manifest.
    MissingManifest,
    /// A bundle's manifest is not what was signed, or contradicts itself.
    ForgedManifest,
    /// A proof does not lead from a bundle's entries to the signed root.
    ForgedProof,
    /// An input that an entry or the manifest names is not in the bundle, or is another one.
    DanglingInput,
    /// A bundle holds a file that its manifest does not list.
    Unlisted,
    /// An unfinished write is at the end.
    TornTail,
    /// Entries that no valid checkpoint covers, and no chain key to check them.
    NotCovered,
    /// There is no checkpoint at all.
    NoCheckpoint,
    /// No trust root was given.
    NoTrust,
    /// A file could not be read.
    Unreadable,
    /// The clock went back.
    ClockJump,
}

/// What a finding does to the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    Tampering,
    Doubt,
    Remark,
}

impl Kind {
    /// The one word for it, as in the report.
    #[must_use]
    pub fn word(self) -> String {
        let word = serde_json::to_value(self).ok();
        word.and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
    }

    pub(crate) fn weight(self) -> Weight {
        match self {
            Self::Edited
            | Self::Deleted
            | Self::Inserted
            | Self::Reordered
            | Self::Truncated
            | Self::Fork
            | Self::ForgedCheckpoint
            | Self::ForgedRoot
            | Self::Unsigned
            | Self::WrongKey
            | Self::RevokedKey
            | Self::ExpiredKey
            | Self::CheckpointsCut
            | Self::RolledBack
            | Self::MissingManifest
            | Self::ForgedManifest
            | Self::ForgedProof
            | Self::DanglingInput
            | Self::Unlisted => Weight::Tampering,
            Self::TornTail | Self::NotCovered | Self::NoCheckpoint | Self::NoTrust | Self::Unreadable => {
                Weight::Doubt
            }
            Self::ClockJump => Weight::Remark,
        }
    }
}

/// One thing that was found, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it is.
    pub kind: Kind,
    /// The entry (or, for records, the last entry they cover).
    pub index: Option<u64>,
    /// The segment; `None` for the checkpoint file.
    pub segment: Option<u32>,
    /// The line of that file, from 1.
    pub line: Option<u64>,
    /// In words.
    pub message: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(index) = self.index {
            write!(f, "entry {index}: ")?;
        }
        f.write_str(&self.message)
    }
}

/// Entries that are not there, with a reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// First entry missing.
    pub first: u64,
    /// Last entry missing.
    pub last: u64,
    /// Why: `retention`.
    pub reason: &'static str,
}

/// What the check knows when it judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// Nothing was changed.
    pub intact: bool,
    /// Anchors from outside fix the newest checkpoint, and it covers every entry.
    pub anchored: bool,
    /// Every record is signed by a trusted key.
    pub signed: bool,
    /// The anchor carries a time from outside.
    pub attested: bool,
}

impl Evidence {
    /// The strongest claim that the evidence carries.
    #[must_use]
    pub fn claim(self) -> Claim {
        match (self.intact, self.anchored && self.signed) {
            (true, true) => Claim::TamperEvident,
            (true, false) => Claim::TamperDetecting,
            (false, _) => Claim::None,
        }
    }

    /// Whose word the times are; a time from outside counts only for what it is known to be about.
    #[must_use]
    pub fn time(self) -> Time {
        if self.intact && self.anchored && self.signed && self.attested {
            Time::Attested
        } else {
            Time::Asserted
        }
    }
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The outcome.
    pub verdict: Verdict,
    /// What may be said about it.
    pub claim: Claim,
    /// Whose word the times are.
    pub time: Time,
    /// Whether decisions are recorded.
    pub authorization: Authorization,
    /// What was found, in order; the first thousand.
    pub findings: Vec<Finding>,
    /// Entries read.
    pub entries: u64,
    /// Records read from the checkpoint file.
    pub checkpoints: u64,
    /// The last entry under a valid checkpoint.
    pub covered: u64,
    /// The last entry under an anchored checkpoint.
    pub anchored: Option<u64>,
    /// Entries missing for a reason.
    pub gaps: Vec<Gap>,
    /// Of a bundle: what it is about, and what that rests on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bundle: Option<BundleFacts>,
}

/// What a bundle is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BundleFacts {
    /// The id whose entries were asked for, if one was.
    pub about: Option<String>,
    /// The first entry that was looked at.
    pub from: u64,
    /// The last entry that was looked at.
    pub to: u64,
    /// That no entry is left out: shown by the numbers, or the signer's word.
    pub complete: Complete,
    /// Inputs whose hash an entry names: as firm as the entry.
    pub inputs_recorded: u64,
    /// Inputs that only the manifest names: what the signer had when it made the bundle.
    pub inputs_asserted: u64,
}

/// What it rests on that no entry is left out of a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Complete {
    /// Every number in the range is there.
    Proved,
    /// Entries were chosen by what they say; the signer says that these are all.
    Asserted,
}

/// Collects findings, up to a bound.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) list: Vec<Finding>,
    pub(crate) tampering: u64,
    pub(crate) doubts: u64,
}

const MAX_FINDINGS: usize = 1000;

impl Findings {
    pub(crate) fn add(&mut self, finding: Finding) {
        match finding.kind.weight() {
            Weight::Tampering => self.tampering = self.tampering.saturating_add(1),
            Weight::Doubt => self.doubts = self.doubts.saturating_add(1),
            Weight::Remark => {}
        }
        if self.list.len() < MAX_FINDINGS {
            self.list.push(finding);
        }
    }

    /// Without a trust root nothing is called tampering, for nobody said what would be genuine.
    pub(crate) fn verdict(&self) -> Verdict {
        let no_trust = self.list.iter().any(|finding| finding.kind == Kind::NoTrust);
        match (self.tampering, self.doubts) {
            _ if no_trust => Verdict::Unverifiable,
            (0, 0) => Verdict::Intact,
            (0, _) => Verdict::Unverifiable,
            _ => Verdict::Tampered,
        }
    }
}
