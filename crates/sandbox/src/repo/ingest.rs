//! Takes a bundle over into the host's repository: [`Offer`] and its pack -> [`Commit`]s.
//!
//! git's own receiving end does it, as for a push from a stranger: the pack is indexed in a quarantine, every object
//! is checked, links must lead to what is there, and references change one by one with the value that they had.
//! Invariant: what is refused leaves the repository as it was. Not here: where the bundle comes from ([`super::leave`]).

use std::fs::File;
use std::io::{self, BufReader, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Stdio;

use super::bundle::{self, BadBundle, Offer};
use super::refs::{self, Head, Id};
use super::view::View;
use super::{Moves, Repository, exclusive, looked};
use crate::RunId;
use crate::sought::{Carried, Seeks};
use ::git::{Git, GitError, in_directory};

/// What a stranger may push.
const RECEIVING: [&str; 9] = [
    "receive.fsckObjects=true",
    "transfer.fsckObjects=true",
    "receive.denyNonFastForwards=true",
    "receive.denyDeletes=true",
    // The worktree is the agent's own work; the index is brought in step below.
    "receive.denyCurrentBranch=ignore",
    "receive.autogc=false",
    "receive.updateServerInfo=false",
    "receive.shallowUpdate=false",
    "receive.maxInputSize=2147483648",
];

/// What became of one branch that has new commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Its short name, or `HEAD`.
    pub branch: String,
    /// What the host had, where it had the branch checked out.
    pub old: Option<String>,
    /// What the agent made of it.
    pub new: String,
    /// The reference under which it is kept on the host.
    pub kept: String,
    /// Whether the branch of the host moved.
    pub became: Became,
}

/// Whether a branch of the host moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Became {
    /// It moved, and the index with it.
    Moved,
    /// It moved, and the index did not, for this reason.
    MovedWithoutIndex(String),
    /// It moves when the changes of the run are applied.
    Waits,
    /// It did not, for this reason.
    Kept(String),
}

/// Why nothing was taken over.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IngestError {
    #[error(transparent)]
    Bundle(#[from] BadBundle),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error("git refused what came out: {0}")]
    Refused(String),
    #[error("what came out cannot be handed on: {0}")]
    File(#[from] io::Error),
    #[error("{0}")]
    Carries(Carried),
    #[error("there is too much to be looked through for decoys, or it cannot be")]
    Unlooked,
}

/// A change of one reference.
struct Asked {
    old: String,
    new: Id,
    name: String,
}

pub(super) fn ingest(
    of: &Repository,
    run: &RunId,
    git: &Git,
    mut from: File,
    sought: Option<&dyn Seeks>,
) -> Result<Vec<Commit>, IngestError> {
    from.rewind()?;
    let offer = bundle::read(BufReader::new(&from))?;
    if (sought.is_some() || of.view.is_some())
        && let Some(carried) = looked::look(of, git, &offer, &mut from, sought)?
    {
        return Err(IngestError::Carries(carried));
    }
    let takes = of.view.as_ref().map(View::takes);
    let takes = takes.as_ref().unwrap_or(git);
    let offered = offered(&offer);
    let Some((_, first)) = offered.first() else { return Ok(Vec::new()) };
    let format = if first.none_like().len() == 40 { "sha1" } else { "sha256" };
    let kept = |branch: &str| format!("refs/palisade/{run}/{branch}");
    let mut asked: Vec<Asked> = offered
        .iter()
        .map(|(branch, new)| Asked { old: new.none_like(), new: new.clone(), name: kept(branch) })
        .collect();
    let moving = moving(of, &offer);
    if let Some((branch, old, new)) = &moving {
        let old = old.as_ref().map_or_else(|| new.none_like(), |old| old.as_str().to_owned());
        asked.push(Asked { old, new: (*new).clone(), name: format!("refs/heads/{branch}") });
    }
    let answers = push(of, takes, &asked, format, &mut from, offer.pack)?;
    let answer = |name: &str| answers.iter().find(|(known, _)| known == name).map(|(_, why)| why.clone());
    let mut commits = Vec::new();
    for (branch, new) in &offered {
        let kept = kept(branch);
        match answer(&kept) {
            Some(None) => {}
            why => {
                let why = why.flatten().unwrap_or_else(|| "no answer".into());
                return Err(IngestError::Refused(format!("{kept}: {why}")));
            }
        }
        let moved = moving.as_ref().filter(|(moving, ..)| moving == branch);
        let waits = waiting(of, branch, new);
        let became = match moved {
            None if waits.is_some() => Became::Waits,
            None => Became::Kept(why_not(of, branch)),
            Some((_, old, new)) => match answer(&format!("refs/heads/{branch}")) {
                Some(None) => in_step(of, git, branch, old.as_ref(), new),
                Some(Some(why)) => Became::Kept(why_stayed(of, branch, old.as_ref(), &why)),
                None => Became::Kept("git gave no answer".into()),
            },
        };
        let old = moved.map(|(_, old, _)| old).or(waits).and_then(Option::as_ref);
        let old = old.map(|old| old.as_str().to_owned());
        commits.push(Commit { branch: branch.clone(), old, new: new.as_str().to_owned(), kept, became });
    }
    Ok(commits)
}

/// What an earlier try has taken over, by the references that it made.
pub(super) fn taken_before(of: &Repository, run: &RunId) -> Vec<Commit> {
    let root = of.place.common.join("refs/palisade").join(run.as_str());
    let mut commits = Vec::new();
    for (branch, new) in refs::below(&root) {
        let waits = waiting(of, &branch, &new);
        let became = match waits {
            Some(_) => Became::Waits,
            None => Became::Kept("it was taken over before".into()),
        };
        let old = waits.and_then(Option::as_ref).map(|old| old.as_str().to_owned());
        let kept = format!("refs/palisade/{run}/{branch}");
        commits.push(Commit { branch, old, new: new.as_str().to_owned(), kept, became });
    }
    commits
}

/// Every branch, and the head where it is on none.
fn offered(offer: &Offer) -> Vec<(String, Id)> {
    let mut offered = offer.branches.clone();
    let detached =
        offer.head.as_ref().filter(|head| offered.iter().all(|(name, id)| id != *head && name != "HEAD"));
    offered.extend(detached.map(|head| ("HEAD".to_owned(), head.clone())));
    offered
}

/// The branch that was checked out at launch, if it has something new.
fn moving<'a>(of: &Repository, offer: &'a Offer) -> Option<(String, Option<Id>, &'a Id)> {
    match &of.head {
        Head::Branch(name, old) if of.may_move() => {
            let (_, new) =
                offer.branches.iter().find(|(branch, new)| branch == name && Some(new) != old.as_ref())?;
            Some((name.clone(), old.clone(), new))
        }
        Head::Branch(..) | Head::Other => None,
    }
}

/// What the branch that was checked out at launch named, if it waits for the changes of the run to be applied.
fn waiting<'a>(of: &'a Repository, branch: &str, new: &Id) -> Option<&'a Option<Id>> {
    match (&of.head, of.moves) {
        (Head::Branch(name, old), Moves::No) if name == branch && old.as_ref() != Some(new) => Some(old),
        (Head::Branch(..) | Head::Other, _) => None,
    }
}

fn why_not(of: &Repository, branch: &str) -> String {
    match (&of.head, of.moves) {
        (_, Moves::No) => "the changes of this run are kept apart".into(),
        (Head::Branch(name, _), _) if name != branch => format!("`{name}` was checked out at the start"),
        (Head::Branch(..), Moves::IfUntouched(None)) => "nobody saw when its launcher was killed".into(),
        (Head::Branch(..), Moves::IfUntouched(Some(_))) => {
            "git was used here after its launcher was killed".into()
        }
        (Head::Branch(..), _) => "it has nothing new".into(),
        (Head::Other, _) => "no branch was checked out at the start".into(),
    }
}

/// In our words where git's are known.
fn why_stayed(of: &Repository, branch: &str, old: Option<&Id>, why: &str) -> String {
    let now = refs::head(&of.place.own, &of.place.common).ok();
    match now {
        Some(Head::Branch(name, now)) if name == branch && now.as_ref() != old => {
            "it moved on the host meanwhile".into()
        }
        _ if why.contains("non-fast-forward") => "its history was rewritten".into(),
        _ => format!("git refused: {why}"),
    }
}

/// Hands pack and wishes to git's receiving end. The answers: a reference, and why not if not.
fn push(
    of: &Repository,
    git: &Git,
    asked: &[Asked],
    format: &str,
    from: &mut File,
    pack: u64,
) -> Result<Vec<(String, Option<String>)>, IngestError> {
    let path = of.folder.join("push");
    let _ = std::fs::remove_file(&path);
    let mut input = exclusive(&path)?;
    std::fs::remove_file(&path)?;
    for (number, Asked { old, new, name }) in asked.iter().enumerate() {
        let wishes =
            if number == 0 { format!("\0report-status object-format={format}") } else { String::new() };
        let line = format!("{old} {} {name}{wishes}", new.as_str());
        write!(input, "{:04x}{line}", line.len() + 4)?;
    }
    input.write_all(b"0000")?;
    from.seek(SeekFrom::Start(pack))?;
    io::copy(from, &mut input)?;
    input.rewind()?;
    let common = of.place.common.to_string_lossy().into_owned();
    let said = git.run(&RECEIVING, &["receive-pack", "--stateless-rpc", &common], Stdio::from(input))?;
    let mut answers = Vec::new();
    for line in lines(&said.out) {
        match line.split_once(' ') {
            Some(("unpack", "ok")) => {}
            Some(("unpack", why)) => {
                let told = if said.err.is_empty() { why } else { &said.err };
                return Err(IngestError::Refused(told.to_owned()));
            }
            Some(("ok", name)) => answers.push((name.to_owned(), None)),
            Some(("ng", rest)) => {
                let (name, why) = rest.split_once(' ').unwrap_or((rest, ""));
                answers.push((name.to_owned(), Some(why.to_owned())));
            }
            _ => {}
        }
    }
    if answers.is_empty() {
        return Err(IngestError::Refused(said.err));
    }
    Ok(answers)
}

/// The packets of an answer.
fn lines(mut bytes: &[u8]) -> Vec<String> {
    let mut lines = Vec::new();
    while let Some((length, rest)) = bytes.split_at_checked(4) {
        let length = std::str::from_utf8(length).ok().and_then(|text| usize::from_str_radix(text, 16).ok());
        let Some((line, rest)) = length.and_then(|length| rest.split_at_checked(length.saturating_sub(4)))
        else {
            break;
        };
        if !line.is_empty() {
            lines.push(String::from_utf8_lossy(line).trim_end().to_owned());
        }
        bytes = rest;
    }
    lines
}

/// Brings the host's index in step with its branch, as a fast-forward does; what is staged stays or stops it. The
/// worktree is not looked at.
fn in_step(of: &Repository, git: &Git, branch: &str, old: Option<&Id>, new: &Id) -> Became {
    let checked_out = refs::head(&of.place.own, &of.place.common);
    if !matches!(checked_out, Ok(Head::Branch(name, _)) if name == branch) {
        return Became::MovedWithoutIndex("another branch was checked out meanwhile".into());
    }
    let old = old.map_or_else(|| new.empty_tree_like(), Id::as_str);
    match read_tree(&of.place.own, git, old, new.as_str()) {
        Ok(()) => Became::Moved,
        Err(why) => Became::MovedWithoutIndex(why),
    }
}

fn read_tree(own: &Path, git: &Git, old: &str, new: &str) -> Result<(), String> {
    let [directory, nowhere] = in_directory(own);
    let said = git.run(&[], &[&directory, &nowhere, "read-tree", "-i", "-m", old, new], Stdio::null());
    match said {
        Ok(said) if said.ok => Ok(()),
        Ok(said) => Err(format!("what is staged is in the way ({})", said.err)),
        Err(error) => Err(error.to_string()),
    }
}
