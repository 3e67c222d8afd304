//! Policies: what is in force, what it would say, and `forbid` policies that administrators add.

use std::sync::Arc;

use access::{
    Act, AddPolicy, AddedPolicy, Asks, PolicyError, Principal, ReadPolicies, RemovePolicy, Resource, Trial,
    TrialError, TryPolicy, Why,
};
use model::{Role, UserId};

use crate::{ActError, Runtime};

/// Why a policy was not added or tried.
#[derive(Debug, thiserror::Error)]
pub enum PolicyFault {
    /// The gate or the store refused.
    #[error(transparent)]
    Act(#[from] ActError),
    /// The policy itself is not right.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The question makes no sense.
    #[error("{0}")]
    Question(String),
}

/// A question to the gate.
#[derive(Debug)]
pub struct Question {
    /// For whom.
    pub user: UserId,
    /// To do what.
    pub action: &'static access::Action,
    /// On what.
    pub resource: Resource,
    /// Asking for which role.
    pub role: Option<Role>,
    /// With which further policy.
    pub with: Option<(String, String)>,
}

/// What the gate would say.
#[derive(Debug)]
pub struct PolicyAnswer {
    /// Whether it would allow it.
    pub allowed: bool,
    /// Why, in words.
    pub because: String,
    /// Id and text of the policies that decided.
    pub policies: Vec<(String, String)>,
}

impl Runtime {
    /// Every policy in force: id, whether it forbids, text.
    pub async fn policies(&self, who: &Principal) -> Result<Vec<(String, bool, String)>, ActError> {
        let permit = self.look(who, ReadPolicies {}).await?;
        Ok(self.gate.list_policies(permit))
    }

    /// What the gate would say, without an effect.
    pub async fn try_policy(&self, who: &Principal, question: Question) -> Result<PolicyAnswer, PolicyFault> {
        let permit = self.look(who, TryPolicy {}).await?;
        let trial = Trial {
            user: question.user,
            action: question.action,
            resource: question.resource,
            asks: Asks { role: question.role },
            with: question.with.map(|(id, text)| AddedPolicy { id, text }),
        };
        match self.gate.explain(permit, trial).await {
            Ok(Some(why)) => Ok(answer(why)),
            Ok(None) => Err(PolicyFault::Question("there is no such user or resource".into())),
            Err(TrialError::Policy(error)) => Err(error.into()),
            Err(error @ TrialError::Misfit(_)) => Err(PolicyFault::Question(error.to_string())),
            Err(TrialError::Unavailable(_)) => Err(ActError::Interrupted.into()),
        }
    }

    /// Adds a `forbid` policy; it is in force when this returns.
    pub async fn add_policy(
        self: &Arc<Self>,
        who: &Principal,
        id: String,
        text: String,
    ) -> Result<(), PolicyFault> {
        let new = AddedPolicy { id: id.clone(), text: text.clone() };
        // Who may not add policies learns nothing about theirs.
        let gate = Arc::clone(&self.gate);
        let action = AddPolicy::ACTION;
        if gate.would_allow(who, action, Resource::Installation).await {
            let checked = gate.check_policy(&new).await.map_err(|_| ActError::Interrupted)?;
            if let Err(error) = checked {
                self.refuse_malformed(who, action, &error.to_string()).await;
                return Err(error.into());
            }
        }
        let effect = async move |store: Arc<store::Store>, permit| {
            store.add_policy(permit).await?;
            gate.reload_policies().await;
            Ok(())
        };
        Ok(self.perform(who, AddPolicy { id, text }, effect).await?)
    }

    /// Removes an added policy.
    pub async fn remove_policy(self: &Arc<Self>, who: &Principal, id: String) -> Result<(), ActError> {
        let gate = Arc::clone(&self.gate);
        let effect = async move |store: Arc<store::Store>, permit| {
            store.remove_policy(permit).await?;
            gate.reload_policies().await;
            Ok(())
        };
        self.perform(who, RemovePolicy { id }, effect).await
    }
}

fn answer(why: Why) -> PolicyAnswer {
    let decision = &why.decision;
    let because = if !decision.errors.is_empty() {
        format!("a policy could not be evaluated, which refuses: {}", decision.errors.join("; "))
    } else if decision.policies.is_empty() {
        "no policy permits it, and what is not permitted is refused".to_owned()
    } else if decision.allowed {
        format!("permitted by {}", decision.policies.join(", "))
    } else {
        format!("forbidden by {}", decision.policies.join(", "))
    };
    PolicyAnswer { allowed: decision.allowed, because, policies: why.texts }
}
