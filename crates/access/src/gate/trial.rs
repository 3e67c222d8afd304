//! The policies in force: how they are loaded, tried, shown and changed.

use std::sync::Arc;

use model::UserId;

use super::{Gate, GateConfig};
use crate::policy::Subject;
use crate::{Action, AddedPolicy, Asks, Backing, Permit, Policies, PolicyError, Resource, Unavailable, Why};

/// A question to the policies that has no effect.
#[derive(Debug)]
pub struct Trial {
    /// For whom.
    pub user: UserId,
    /// To do what.
    pub action: &'static Action,
    /// On what.
    pub resource: Resource,
    /// Asking for what.
    pub asks: Asks,
    /// A policy that is not in force, to be tried with those that are.
    pub with: Option<AddedPolicy>,
}

/// Why a trial gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The policy to be tried is not right.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The action is not one for this kind of resource.
    #[error("`{0}` is not something that is done to this kind of resource")]
    Misfit(&'static str),
    /// The store did not answer.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl<B: Backing> Gate<B> {
    /// What the policies would say of someone, and why; perhaps with one more. Takes no effect.
    pub async fn explain(
        &self,
        _permit: Permit<crate::TryPolicy>,
        trial: Trial,
    ) -> Result<Option<Why>, TrialError> {
        let Some(user) = self.user(trial.user).await? else { return Ok(None) };
        let Some(found) = self.find(trial.resource).await? else { return Ok(None) };
        let subject = Subject { user: user.id, role: user.role, via: "login" };
        let mut added = self.backing.added_policies().await?;
        added.extend(trial.with);
        let policies =
            Policies::load(&added, self.config.worktree_rbac)?.sharing(self.config.session_sharing);
        if !Policies::fits(trial.action, &found.target()) {
            return Err(TrialError::Misfit(trial.action.name));
        }
        Ok(Some(policies.explain(subject, trial.action, &found.target(), trial.asks)))
    }

    /// Every policy in force: id, whether it forbids, text.
    pub fn list_policies(&self, _permit: Permit<crate::ReadPolicies>) -> Vec<(String, bool, String)> {
        self.policies.load().as_ref().as_ref().map(Policies::list).unwrap_or_default()
    }

    /// Checks that the policies in force and this one make a whole, without using it.
    pub async fn check_policy(&self, new: &AddedPolicy) -> Result<Result<(), PolicyError>, Unavailable> {
        let mut added = self.backing.added_policies().await?;
        added.push(new.clone());
        Ok(Policies::load(&added, self.config.worktree_rbac).map(drop))
    }

    /// Reads the added policies again, after they changed. What cannot be read shuts the gate: the old
    /// ones may lack the very `forbid` that was just added.
    pub async fn reload_policies(&self) {
        let policies = match self.backing.added_policies().await {
            Ok(added) => load(&added, &self.config),
            Err(error) => {
                tracing::error!(error = %error.0, "the changed policies cannot be read; everything is refused");
                Err(PolicyError::Unread)
            }
        };
        self.policies.store(Arc::new(policies));
        self.epoch.bump();
    }
}

/// The policies, or why there are none; the log says so.
pub(super) fn load(added: &[AddedPolicy], config: &GateConfig) -> Result<Policies, PolicyError> {
    let loaded = Policies::load(added, config.worktree_rbac);
    let loaded = loaded.map(|policies| policies.sharing(config.session_sharing));
    if let Err(error) = &loaded {
        tracing::error!(%error, "the policies cannot be loaded; everything is refused");
    }
    loaded
}
