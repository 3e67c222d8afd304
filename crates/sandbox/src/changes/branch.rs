//! What the branch that a run committed to does when the run's changes are applied, and taken back.
//!
//! Flow: the branch on record, and what the host has now -> [`Following`] (before the journal) -> [`Moving::go`] (after the last step)
//! -> [`Followed`]. Invariant: files, index and branch go together: whatever keeps the branch from following keeps everything, unless
//! it can only stay, which is told. Not here: how git does it ([`crate::repo::follow`]).

use std::io;

use super::apply::{Apply, ApplyError, Conflict};
use super::folder::Kept;
use super::journal::{Journal, Progress};
use super::undo::UndoError;
use crate::repo::follow::{Back, Follow, Host, Move};
use crate::repo::{Branch, FollowError};

/// What became of a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    /// Its short name.
    pub name: String,
    /// What it names now; none where it has no commit, or that was not looked at.
    pub now: Option<String>,
    /// How it came there.
    pub became: Follows,
}

/// What a branch did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Follows {
    /// It moved, and the index with it.
    Moved,
    /// It moved to a commit that joins what the run and others committed, and the index with it.
    Joined,
    /// It had the commits already.
    There,
    /// It stays, for this reason.
    Stays(String),
}

/// A branch that is about to move.
pub(super) struct Moving {
    pub(super) host: Host,
    pub(super) to: Move,
    run: String,
}

impl Moving {
    pub(super) fn go(self, journal: &mut Journal) -> io::Result<()> {
        let listed = self.host.go(&self.to, &self.run).map_err(io::Error::other)?;
        journal.note_moved(listed)
    }
}

/// What happens to the branch, if there is one.
#[derive(Default)]
pub(super) struct Following {
    pub(super) moving: Option<Moving>,
    pub(super) followed: Option<Followed>,
}

impl Kept {
    /// What the branch will do; with a conflict, in files or in commits, nothing happens, unless forced.
    pub(super) fn following(
        &self,
        asked: &Apply<'_>,
        mut conflicts: Vec<Conflict>,
    ) -> Result<Following, ApplyError> {
        let refused = |conflicts: Vec<Conflict>| {
            if conflicts.is_empty() || asked.force { Ok(()) } else { Err(ApplyError::Conflicts(conflicts)) }
        };
        let Some(branch) = &self.record.branch else {
            return refused(conflicts).map(|()| Following::default());
        };
        if !asked.paths.is_empty() {
            refused(conflicts)?;
            return Ok(stays(branch, "only some paths were asked for".into()));
        }
        let host = Host::find(&self.record.worktree);
        let found = host.and_then(|host| host.follow(branch, &self.record.run).map(|follow| (host, follow)));
        let (host, follow) = match found {
            Err(error) if asked.force => return Ok(stays(branch, error.to_string())),
            other => other?,
        };
        let both = match follow {
            Follow::Conflicts(paths) => {
                conflicts.extend(paths.iter().map(|path| Conflict { path: path.clone() }));
                conflicts.sort_by(|one, other| one.path.cmp(&other.path));
                conflicts.dedup();
                refused(conflicts)?;
                return Ok(stays(branch, "others committed changes of the same files meanwhile".into()));
            }
            Follow::Staged(why) if !asked.force => {
                refused(conflicts)?;
                return Err(ApplyError::Staged(why));
            }
            Follow::Staged(why) => return Ok(stays(branch, format!("what is staged is in the way ({why})"))),
            Follow::Stays(why) => {
                refused(conflicts)?;
                return Ok(stays(branch, why));
            }
            Follow::There => None,
            Follow::Moves(to) => Some((to, Follows::Moved)),
            Follow::Joins(to) => Some((to, Follows::Joined)),
        };
        refused(conflicts)?;
        let name = branch.name.clone();
        let Some((to, became)) = both else {
            let followed = Followed { name, now: None, became: Follows::There };
            return Ok(Following { moving: None, followed: Some(followed) });
        };
        let followed = Followed { name, now: Some(to.to.clone()), became };
        let moving = Moving { host, to, run: self.record.run.clone() };
        Ok(Following { moving: Some(moving), followed: Some(followed) })
    }

    /// Whether every branch that moved can go back.
    pub(super) fn branch_can_go_back(&self, journals: &[Journal]) -> Result<(), UndoError> {
        for journal in journals {
            let Some(to) = &journal.branch else { continue };
            let host = Host::find(&self.record.worktree)?;
            if let Some(why) = host.held(to, journal.listed.as_deref())? {
                return Err(UndoError::Branch(to.name.clone(), why));
            }
        }
        Ok(())
    }

    /// Takes the branch and the index back, before the files.
    pub(super) fn branch_back(&self, journal: &mut Journal) -> Result<Option<Followed>, UndoError> {
        let Some(to) = journal.branch.clone() else { return Ok(None) };
        journal.reached(Progress::Undoing).map_err(UndoError::Journal)?;
        let host = match Host::find(&self.record.worktree) {
            // What is gone cannot be taken back, and keeps nothing from it.
            Err(error @ (FollowError::NoRepository | FollowError::Unusable(_))) => {
                let became = Follows::Stays(error.to_string());
                return Ok(Some(Followed { name: to.name, now: None, became }));
            }
            other => other?,
        };
        let (saved, listed) = (journal.index(), journal.listed.as_deref());
        let back = host.back(&to, saved.as_deref(), listed, &self.record.run)?;
        let (now, became) = match back {
            Back::There => (to.from, Follows::Moved),
            Back::Stays(why) => (None, Follows::Stays(why)),
        };
        Ok(Some(Followed { name: to.name, now, became }))
    }
}

fn stays(branch: &Branch, why: String) -> Following {
    let followed = Followed { name: branch.name.clone(), now: None, became: Follows::Stays(why) };
    Following { moving: None, followed: Some(followed) }
}
