//! Acts on sessions: opened, asked, come from others, decided on, ended; and what they may spend.

use model::{
    AgentName, ApprovalId, BudgetKind, BudgetScope, ConsentId, ConsentScope, DisplayName, Millis, SessionId,
    TaskId, WorktreeId,
};

use super::shown;
use crate::act::{self, Act, Action, Resource};

/// What spending is summed up by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageBy {
    /// People.
    User,
    /// Worktrees.
    Worktree,
    /// Sessions.
    Session,
    /// Agents.
    Agent,
}

/// What is consented to beyond the effect that was shown.
#[derive(Clone, Debug)]
pub struct WiderConsent {
    /// Where.
    pub scope: ConsentScope,
    /// Effects of the same kind on paths beneath this directory of the worktree; the same effect again unless told.
    pub beneath: Option<String>,
    /// How often.
    pub uses: i64,
    /// For how many milliseconds.
    pub lasts: Millis,
}

acts! {
    /// Start each agent that is installed, alone in a sandbox, to hear whether it is ready.
    CheckAgents = AGENT_CHECK on |_| Resource::Installation; {}
    /// List sessions.
    ListSessions = SESSION_LIST on |_| Resource::Installation; {}
    /// Read a session, its tasks and what happened in it.
    ReadSession = SESSION_READ on |a| Resource::Session(a.session); {
        /// Which.
        session: SessionId,
    }
    /// Open a session in a worktree; the caller is its creator.
    CreateSession = SESSION_CREATE on |a| Resource::Worktree(a.worktree), names session,
        detail |a| {
            let mut told = vec![("worktree", a.worktree.to_string()), ("agent", a.agent.to_string())];
            told.extend(shown("mode", a.mode.as_ref()));
            told.extend(shown("model", a.model.as_ref()));
            told
        }; {
        /// Its id, minted here.
        session: SessionId,
        /// Where.
        worktree: WorktreeId,
        /// Which agent works there.
        agent: AgentName,
        /// How it is shown.
        title: DisplayName,
        /// What the agent may do without asking, in its own words.
        mode: Option<String>,
        /// Which model it uses, unless it chooses.
        model: Option<String>,
        /// What a program without a protocol of its own is started as.
        command: Vec<String>,
    }
    /// Go on from a place of a session's conversation, in a session of the caller's own.
    ForkSession = SESSION_FORK on |a| Resource::Session(a.parent), names session,
        detail |a| {
            let mut told = vec![("parent", a.parent.to_string())];
            told.extend(shown("at", a.at));
            told
        }; {
        /// Its id, minted here.
        session: SessionId,
        /// Where it comes from.
        parent: SessionId,
        /// The last step that it has; the last there is unless told.
        at: Option<i64>,
        /// How it is shown; like the other unless told.
        title: Option<DisplayName>,
    }
    /// Open a session for another one, within what that one may.
    SpawnSession = SESSION_SPAWN on |a| Resource::Session(a.parent), names session,
        detail |a| {
            let mut told = vec![("parent", a.parent.to_string())];
            told.extend(shown("agent", a.agent.as_ref()));
            told.extend(shown("mode", a.mode.as_ref()));
            told.extend(shown("model", a.model.as_ref()));
            told
        }; {
        /// Its id, minted here.
        session: SessionId,
        /// For which.
        parent: SessionId,
        /// Which agent works there; the other's unless told.
        agent: Option<AgentName>,
        /// How it is shown.
        title: Option<DisplayName>,
        /// What the agent may do without asking; no more than the other's.
        mode: Option<String>,
        /// Which model it uses, unless it chooses.
        model: Option<String>,
        /// What a program without a protocol of its own is started as.
        command: Vec<String>,
        /// Whether the other is told of its end.
        reports: bool,
    }
    /// Keep a page of a transcript as a session that is closed.
    ImportSession = SESSION_IMPORT on |a| Resource::Worktree(a.worktree), names session,
        detail |a| vec![
            ("worktree", a.worktree.to_string()),
            ("after", a.after.to_string()),
            ("lines", a.lines.to_string()),
        ]; {
        /// Its id, minted here with the first page.
        session: SessionId,
        /// Where.
        worktree: WorktreeId,
        /// How it is shown.
        title: DisplayName,
        /// Whether this is the first page.
        begins: bool,
        /// How many lines came before.
        after: i64,
        /// How many lines this has.
        lines: i64,
        /// Whether nothing more comes.
        last: bool,
    }
    /// Say something to a session's agent: a task behind those that wait.
    PromptSession = SESSION_PROMPT on |a| Resource::Session(a.session), detail |a| vec![("task", a.task.to_string())]; {
        /// Which.
        session: SessionId,
        /// The task, minted here.
        task: TaskId,
        /// The epoch it is sealed under.
        epoch: u32,
        /// What is said, sealed for its row.
        prompt: Vec<u8>,
        /// Who asks, to be judged again when it begins.
        claim: String,
    }
    /// Put what waits in another order.
    ReorderTasks = SESSION_REORDER on |a| Resource::Session(a.session); {
        /// Of which session.
        session: SessionId,
        /// All that wait, in the order that is wanted.
        tasks: Vec<TaskId>,
    }
    /// Take back what a task changed in the tree, or bring it back.
    UndoTask = SESSION_UNDO on |a| Resource::Session(a.session),
        detail |a| {
            let mut told: Vec<_> = shown("task", a.task).into_iter().collect();
            told.push(("again", a.again.to_string()));
            told
        }; {
        /// Of which session.
        session: SessionId,
        /// Which; the last that can be unless told.
        task: Option<TaskId>,
        /// Bring back what was taken back.
        again: bool,
    }
    /// Begin the task whose turn it is, with an agent in a sandbox.
    StartTask = SESSION_START on |a| Resource::Session(a.session), detail |a| vec![("task", a.task.to_string())]; {
        /// Of which session.
        session: SessionId,
        /// Which.
        task: TaskId,
    }
    /// Let a session go on with its queue.
    ResumeSession = SESSION_RESUME on |a| Resource::Session(a.session); {
        /// Which.
        session: SessionId,
    }
    /// End what runs, or one task of the queue.
    StopSession = SESSION_STOP on |a| Resource::Session(a.session), detail |a| shown("task", a.task).into_iter().collect(); {
        /// Which.
        session: SessionId,
        /// One task; what runs now unless told.
        task: Option<TaskId>,
    }
    /// Finish a session: what runs ends, and nothing is begun any more.
    CloseSession = SESSION_CLOSE on |a| Resource::Session(a.session); {
        /// Which.
        session: SessionId,
    }
    /// Allow an effect that waits, as it was shown; also the next ones that are like it, if that is wanted.
    AllowApproval = APPROVAL_ALLOW on |a| Resource::Session(a.session),
        detail |a| {
            let mut told = vec![
                ("approval", a.approval.to_string()),
                ("effect", a.effect.clone()),
                ("choice", a.choice.clone()),
            ];
            if let Some(wider) = &a.wider {
                told.extend([("scope", wider.scope.to_string()), ("consent", a.consent.to_string())]);
                told.extend([("uses", wider.uses.to_string()), ("lasts", wider.lasts.to_string())]);
                told.extend(shown("beneath", wider.beneath.as_ref()));
            }
            told.extend(shown("by", a.by));
            told
        }; {
        /// Of which session.
        session: SessionId,
        /// Which.
        approval: ApprovalId,
        /// The digest of the effect that was shown.
        effect: String,
        /// What the agent is answered.
        choice: String,
        /// What else is consented to.
        wider: Option<WiderConsent>,
        /// The consent that is kept, minted here.
        consent: ConsentId,
        /// Who allows, to be judged again when the consent is used.
        claim: String,
        /// The consent by which it is allowed, if nobody was asked.
        by: Option<ConsentId>,
    }
    /// Take a consent back.
    RevokeConsent = CONSENT_REVOKE on |a| Resource::Session(a.session), detail |a| vec![("consent", a.consent.to_string())]; {
        /// Where it holds.
        session: SessionId,
        /// Which.
        consent: ConsentId,
    }
    /// Deny an effect that waits.
    DenyApproval = APPROVAL_DENY on |a| Resource::Session(a.session),
        detail |a| vec![("approval", a.approval.to_string()), ("effect", a.effect.clone())]; {
        /// Of which session.
        session: SessionId,
        /// Which.
        approval: ApprovalId,
        /// The digest of the effect that was shown.
        effect: String,
    }

    /// Read which budgets are set.
    ListBudgets = BUDGET_READ on |_| Resource::Installation; {}
    /// Set a budget, or take it away.
    SetBudget = BUDGET_SET on |_| Resource::Installation,
        detail |a| {
            let mut told = vec![("scope", a.scope.to_string()), ("owner", a.owner.clone())];
            told.extend([("kind", a.kind.to_string()), ("period", a.period.to_string())]);
            told.push(("most", a.most.map_or_else(|| "none".to_owned(), |most| most.to_string())));
            told
        }; {
        /// Whose.
        scope: BudgetScope,
        /// Which of these.
        owner: String,
        /// Of what.
        kind: BudgetKind,
        /// In how many milliseconds; 0 is ever.
        period: Millis,
        /// How much; none is as usual.
        most: Option<i64>,
    }
    /// Read what was spent.
    ReadUsage = USAGE_READ on |_| Resource::Installation; {
        /// Summed up by what.
        by: UsageBy,
        /// Since when.
        since: Millis,
    }
}
