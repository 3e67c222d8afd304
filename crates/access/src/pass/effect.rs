//! What the caveats of a Pass add up to.
//!
//! Invariant: every caveat is inside what the ones before it allow, or the Pass is refused. This one
//! function judges attenuation at mint and at use, so the two cannot differ.

use model::{Grant, Millis, PassId, Pattern, Rights, UserId};

use super::wire::Raw;
use super::{Caveat, PassError};

/// What every identifier begins with; the Pass's id follows.
pub(super) const IDENTIFIER: &str = "v1 ";

/// The sum of the caveats seen so far.
pub(super) struct Effect {
    ids: Vec<PassId>,
    last: PassId,
    user: Option<UserId>,
    expires: Option<Millis>,
    grant: Option<Grant>,
}

/// An effect with nothing missing.
#[derive(Debug)]
pub(super) struct Whole {
    /// Where it comes from, the root first and `last` last.
    pub(super) ids: Vec<PassId>,
    pub(super) last: PassId,
    pub(super) user: UserId,
    pub(super) expires: Millis,
    pub(super) grant: Grant,
}

impl Effect {
    /// Adds up the caveats of a Pass. Does not look at the signature.
    pub(super) fn of(raw: &Raw<'_>) -> Result<Self, PassError> {
        let id = identified(raw.identifier).ok_or(PassError::Malformed)?;
        let id: PassId = id.parse().map_err(|_| PassError::Malformed)?;
        let mut effect = Self { ids: vec![id], last: id, user: None, expires: None, grant: None };
        for caveat in raw.caveats() {
            let text = std::str::from_utf8(caveat).map_err(|_| PassError::UnknownCaveat)?;
            effect.apply(text.parse().map_err(|_| PassError::UnknownCaveat)?)?;
        }
        Ok(effect)
    }

    /// Narrows by one caveat, or says why that is no narrowing.
    pub(super) fn apply(&mut self, caveat: Caveat) -> Result<(), PassError> {
        match caveat {
            Caveat::User(user) => {
                inside(self.user.is_none_or(|known| known == user)).map(|()| self.user = Some(user))
            }
            Caveat::Before(end) => {
                inside(self.expires.is_none_or(|known| end <= known)).map(|()| self.expires = Some(end))
            }
            Caveat::Grant(asked) => match &mut self.grant {
                None => {
                    self.grant = Some(*asked);
                    Ok(())
                }
                Some(grant) => inside(grant.contains(&asked)).map(|()| *grant = grant.meet(&asked)),
            },
            Caveat::Id(id) => {
                inside(!self.ids.contains(&id))?;
                let grant = self.grant()?;
                grant.depth = grant.depth.checked_sub(1).ok_or(PassError::LastDepth)?;
                self.ids.push(id);
                self.last = id;
                Ok(())
            }
            Caveat::Path(path) => only(&mut self.grant()?.paths, path),
            Caveat::Host(host) => only(&mut self.grant()?.hosts, host),
            Caveat::Tool(tool) => only(&mut self.grant()?.tools, tool),
            Caveat::Secret(secret) => only(&mut self.grant()?.secrets, secret),
            Caveat::Budget(budget) => {
                let grant = self.grant()?;
                inside(grant.budget.contains(&budget)).map(|()| grant.budget = budget)
            }
            Caveat::Depth(depth) => {
                let grant = self.grant()?;
                inside(depth <= grant.depth).map(|()| grant.depth = depth)
            }
        }
    }

    pub(super) fn whole(self) -> Result<Whole, PassError> {
        match (self.user, self.expires, self.grant) {
            (Some(user), Some(expires), Some(grant)) => {
                Ok(Whole { ids: self.ids, last: self.last, user, expires, grant })
            }
            _ => Err(PassError::Incomplete),
        }
    }

    fn grant(&mut self) -> Result<&mut Grant, PassError> {
        self.grant.as_mut().ok_or(PassError::Incomplete)
    }
}

/// The id within an identifier, as text.
pub(super) fn identified(identifier: &[u8]) -> Option<&str> {
    std::str::from_utf8(identifier).ok()?.strip_prefix(IDENTIFIER)
}

fn only<P: Pattern>(rights: &mut Rights<P>, one: P) -> Result<(), PassError> {
    inside(rights.allows(&one))?;
    *rights = rights.meet(&Rights::new([one], []));
    Ok(())
}

fn inside(fits: bool) -> Result<(), PassError> {
    if fits { Ok(()) } else { Err(PassError::WouldWiden) }
}
