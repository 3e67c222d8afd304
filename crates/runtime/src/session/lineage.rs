//! Sessions that come from others: forked at a place of the conversation, or opened for another within what that may; and
//! a child's end told to its parent.
//!
//! Invariants: a child asks at least what its parent asks; it is the caller's; its end is told once, as a task of the
//! parent's queue, for whoever asked for the child.

use std::sync::Arc;

use ::agents::Mode;
use access::{ForkSession, Permit, Principal, ReadSession, SpawnSession};
use model::{AgentName, DisplayName, SessionId, StepKind};
use serde_json::{Value, json};
use store::{Child, Lineage, Notice, Session, StoreError, Task};
use zeroize::Zeroizing;

use super::agents::{COMMAND, Kind};
use crate::{ActError, Runtime};

/// Ends that are told in one go.
const AT_ONCE: i64 = 64;
/// Steps of a child that are looked at for what it said last, and characters of that.
const LAST_STEPS: i64 = 200;
const LAST_SAID: usize = 8_000;

/// A session to open for another.
#[derive(Clone, Debug)]
pub struct NewChild {
    /// Which agent; the other's unless told.
    pub agent: Option<AgentName>,
    /// How it is shown; like the agent unless told.
    pub title: Option<DisplayName>,
    /// What the agent may do without asking.
    pub mode: Option<String>,
    /// Which model it uses.
    pub model: Option<String>,
    /// What is run, where the agent is any program.
    pub command: Vec<String>,
    /// What is asked of it.
    pub prompt: Zeroizing<String>,
    /// Whether the other is told of its end.
    pub reports: bool,
}

/// How much is done without asking; more is a higher number.
fn freedom(agent: &str, mode: Option<&str>) -> u8 {
    if agent == COMMAND {
        return 4;
    }
    match mode.map_or(Ok(Mode::Default), str::parse) {
        Ok(Mode::Plan) => 0,
        Ok(Mode::Ask | Mode::Default) => 1,
        Ok(Mode::AcceptEdits) => 2,
        Ok(Mode::OnFailure | Mode::Auto) => 3,
        Ok(Mode::BypassPermissions | Mode::AllowAll) | Err(_) => 4,
    }
}

/// What a child is, by what is wanted and what its parent is; an error says why it cannot be.
fn narrowed(parent: &Session, wanted: &SpawnSession) -> Result<Child, String> {
    let agent = wanted.agent.clone().unwrap_or_else(|| parent.agent.clone());
    let same = agent == parent.agent;
    let most = freedom(parent.agent.as_str(), parent.mode.as_deref());
    let usual = parent.mode.clone().filter(|_| same);
    let mode = match (wanted.mode.clone(), usual) {
        (Some(mode), _) => Some(mode),
        // Another agent's own default may be more than the parent has.
        (None, usual) if freedom(agent.as_str(), usual.as_deref()) > most => parent.mode.clone(),
        (None, usual) => usual,
    };
    if freedom(agent.as_str(), mode.as_deref()) > most {
        return Err(match agent.as_str() {
            COMMAND => {
                "a program asks nobody, and the session that it would be opened for has to ask".to_owned()
            }
            _ => format!(
                "mode `{}` asks less than the session that it would be opened for",
                mode.as_deref().unwrap_or("default")
            ),
        });
    }
    let model = wanted.model.clone().or_else(|| parent.model.clone().filter(|_| same));
    let inherits = wanted.command.is_empty() && same;
    let command = if inherits { parent.command.clone() } else { wanted.command.clone() };
    let title = wanted.title.clone().or_else(|| agent.as_str().parse().ok());
    let title = title.unwrap_or_else(|| parent.title.clone());
    Ok(Child { agent, title, mode, model, command })
}

impl Runtime {
    /// Goes on from a place of a session's conversation, in one of the caller's own.
    pub async fn fork_session(
        self: &Arc<Self>,
        who: &Principal,
        parent: SessionId,
        at: Option<i64>,
        title: Option<DisplayName>,
    ) -> Result<Session, ActError> {
        let act = ForkSession { session: SessionId::random(), parent, at, title };
        let effect = async |store: Arc<store::Store>, permit| store.fork_session(permit).await;
        let forked = self.perform(who, act, effect).await?;
        let text = format!("this goes on from step {} of {parent}", forked.steps);
        self.journal.write_soon(forked.id(), None, StepKind::System, json!({ "text": text })).await;
        Ok(forked)
    }

    /// Opens a session for another and asks it for something.
    pub async fn spawn_session(
        self: &Arc<Self>,
        who: &Principal,
        parent: SessionId,
        child: NewChild,
    ) -> Result<(Session, Task), ActError> {
        let NewChild { agent, title, mode, model, command, prompt, reports } = child;
        let session = SessionId::random();
        let act = SpawnSession { session, parent, agent, title, mode, model, command, reports };
        let this = Arc::clone(self);
        let effect = async move |store: Arc<store::Store>, permit: Permit<SpawnSession>| {
            let (permit, row) = store.parent_of_new(permit).await?;
            let child = narrowed(&row, permit.act()).and_then(|child| {
                Kind::fits(
                    &this.agents,
                    this.trees.launcher(),
                    child.agent.as_str(),
                    child.mode.as_deref(),
                    &child.command,
                )?;
                Ok(child)
            });
            store.spawn_session(permit, child.map_err(StoreError::Unusable)?, this.bounds.reach()).await
        };
        let spawned = self.perform(who, act, effect).await?;
        let body = json!({ "text": format!("opened for {parent}") });
        self.journal.write_soon(spawned.id(), None, StepKind::System, body).await;
        let body = json!({ "session": spawned.id(), "agent": spawned.agent, "title": spawned.title });
        self.journal.write_soon(parent, None, StepKind::Subagent, body).await;
        let task = self.prompt_session(who, spawned.id(), prompt).await?;
        Ok((self.session(who, task.session).await?, task))
    }

    /// Where a session comes from and what comes from it, cut to what the caller may know of.
    pub async fn lineage(&self, who: &Principal, session: SessionId) -> Result<Lineage, ActError> {
        let permit = self.look(who, ReadSession { session }).await?;
        let as_of = self.gate.epoch().now();
        let mut all = self.store.lineage(permit).await?;
        for rows in [&mut all.ancestors, &mut all.descendants] {
            rows.retain(|row| self.gate.may_read_session(who, &row.facts, as_of));
        }
        // Rights that changed meanwhile are not those that these rows were judged by.
        match self.gate.epoch().now() == as_of {
            true => Ok(all),
            false => Err(ActError::Interrupted),
        }
    }

    /// Tells parents of children that came to their end.
    pub(super) async fn tell_parents(self: &Arc<Self>) -> Result<(), StoreError> {
        if self.store.is_tight() {
            return Ok(());
        }
        for notice in self.store.due_notices(AT_ONCE).await? {
            let (child, parent) = (notice.child, notice.parent);
            match self.tell_parent(notice).await {
                // One that cannot be told now keeps no other from it.
                Told::Once | Told::Later => {}
                Told::Never(why) => {
                    self.store.drop_notice(child).await?;
                    let text = format!(
                        "{child}, which was opened for this session, ended; nobody is asked about it: {why}"
                    );
                    let body = json!({ "text": super::told::clean(&self.redactor, &text), "session": child });
                    self.journal.write_soon(parent, None, StepKind::Subagent, body).await;
                }
            }
        }
        Ok(())
    }

    async fn tell_parent(self: &Arc<Self>, notice: Notice) -> Told {
        let who = match self.auth.claimed(&notice.claim, &notice.task.to_string()).await {
            Ok(Some(who)) => who,
            Ok(None) => return Told::Never("whoever asked for it is not who they were".into()),
            Err(error) => {
                tracing::warn!(error = %error.0, "who asked for a child cannot be told now");
                return Told::Later;
            }
        };
        let text = match self.last_said(&who, &notice).await {
            Ok(text) => text,
            Err(ActError::Denied(denied)) if denied.reason() != access::Reason::Unavailable => String::new(),
            Err(error) => {
                tracing::warn!(%error, "what a child said last cannot be read now");
                return Told::Later;
            }
        };
        let value = |word: &str| match word {
            "session" => notice.child.to_string(),
            "task" => notice.task.to_string(),
            "title" => notice.title.clone(),
            "state" => notice.state.clone(),
            "why" => notice.why.clone(),
            "text" => text.clone(),
            _ => String::new(),
        };
        let prompt = Zeroizing::new(self.bounds.notice.with(value));
        match self.queue_prompt(&who, notice.parent, prompt, Some(notice.child)).await {
            Ok(_) => Told::Once,
            Err(ActError::Denied(denied)) if denied.reason() == access::Reason::Unavailable => Told::Later,
            Err(
                error @ (ActError::Denied(_)
                | ActError::Store(StoreError::Unusable(_) | StoreError::Missing(_))),
            ) => Told::Never(error.to_string()),
            Err(error) => {
                tracing::warn!(%error, "a child's end could not be told; it is tried again");
                Told::Later
            }
        }
    }

    /// The end of what a child's agent said in its last task.
    async fn last_said(&self, who: &Principal, notice: &Notice) -> Result<String, ActError> {
        let permit = self.look(who, ReadSession { session: notice.child }).await?;
        let steps = self.store.steps_before(permit, i64::MAX, LAST_STEPS).await?;
        let of_task = steps.iter().filter(|step| step.task == Some(notice.task));
        let said = of_task.take_while(|step| step.kind == StepKind::Assistant);
        let mut pieces: Vec<&str> =
            said.filter_map(|step| step.body.get("text").and_then(Value::as_str)).collect();
        pieces.reverse();
        let whole: String = pieces.concat();
        let over = whole.chars().count().saturating_sub(LAST_SAID);
        let end: String = whole.chars().skip(over).collect();
        // Marked line by line: nothing in it can pass for ours.
        Ok(end.lines().map(|line| format!("> {line}")).collect::<Vec<_>>().join("\n"))
    }
}

/// What became of telling an end.
enum Told {
    Once,
    Later,
    Never(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ACC-09, SES-09: what is not known counts as the most, and a program as one that asks nobody.
    #[test]
    fn acc_09_modes_are_ordered_by_how_little_they_ask() {
        let order = ["plan", "ask", "acceptEdits", "auto", "bypassPermissions"];
        let numbers: Vec<u8> = order.iter().map(|mode| freedom("x", Some(mode))).collect();
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
        assert_eq!(freedom("x", None), freedom("x", Some("default")));
        assert_eq!(freedom("x", Some("what")), 4);
        assert_eq!(freedom(COMMAND, None), 4);
    }
}
