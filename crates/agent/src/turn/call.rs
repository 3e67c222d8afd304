//! One call: prepared, judged, perhaps asked about, carried out, and told to the model as what it is.

use std::sync::Arc;
use std::time::Duration;

use model::Grant;
use serde_json::{Value, json};

use super::{Ended, Scope, Turn};
use crate::acp::{Unanswered, words};
use crate::autonomy::Verdict;
use crate::document::set;
use crate::history::random_hex;
use crate::provider::{Call, Entry};
use crate::purse::Purse;
use crate::tools::{Prepared, Tool, ToolError, Work, failed, refused, registry};

/// Sub-agents of one agent in one turn.
const FAN_OUT: u8 = 8;

impl Turn<'_> {
    /// Makes a call; what the model is told of it, and whether it failed.
    pub(super) fn call(&self, call: &Call, scope: &mut Scope) -> (String, bool) {
        let session = &self.session.id;
        let tool = registry().iter().find(|tool| tool.name == call.name);
        self.peer.update(session, words::call(&call.id, call, tool, &scope.who));
        let mut changes = None;
        let result = match tool {
            Some(tool) => self.made(tool, call, scope, &mut changes),
            None => Err(failed("there is no such tool")),
        };
        let is_failed = result.is_err();
        let text = result.unwrap_or_else(|error| error.to_string());
        let text = cut(&scope.desk.redactor.scrub(&text), scope.desk.limits.output_bytes);
        self.peer.update(session, words::ended(&call.id, is_failed, &text, changes.filter(|_| !is_failed)));
        (labelled(&call.name, &text), is_failed)
    }

    fn made(
        &self,
        tool: &'static Tool,
        call: &Call,
        scope: &mut Scope,
        changes: &mut Option<Value>,
    ) -> Result<String, ToolError> {
        if !tool.name.parse().is_ok_and(|name| scope.desk.grant.tools.allows(&name)) {
            return Err(refused("grant_tools", "the grant of this session does not have that tool"));
        }
        if self.session.mode().judge(tool.class) == Verdict::Refuse {
            return Err(level_refuses(self.session.mode().word()));
        }
        let prepared = (tool.prepare)(call.input.clone(), &scope.desk)?;
        let mut fields = words::prepared(&call.id, &prepared, scope.desk.tree.shown(), &scope.who);
        *changes = fields.get("content").cloned();
        self.decided(tool, &prepared, &fields)?;
        set(&mut fields, "sessionUpdate", json!("tool_call_update"));
        set(&mut fields, "status", json!("in_progress"));
        self.peer.update(&self.session.id, fields);
        match prepared.work {
            Work::Run(run) => run(self.cancel),
            Work::Plan(entries) => {
                self.peer.update(&self.session.id, json!({ "sessionUpdate": "plan", "entries": entries }));
                Ok("the plan is told".to_owned())
            }
            Work::Delegate { task, grant } => self.delegated(task, &grant, scope),
        }
    }

    /// Whether it may be done, by the level and whoever is asked.
    fn decided(&self, tool: &'static Tool, prepared: &Prepared, fields: &Value) -> Result<(), ToolError> {
        match self.session.mode().judge(tool.class) {
            Verdict::Allow => return Ok(()),
            Verdict::Refuse => return Err(level_refuses(self.session.mode().word())),
            Verdict::Ask if self.session.is_always(tool.name, &prepared.subject) => return Ok(()),
            Verdict::Ask => {}
        }
        let time = Duration::from_millis(self.house.config.limits.ask_ms);
        let question = words::question(self.session, fields, tool, &prepared.subject);
        let answer = match self.peer.ask("session/request_permission", question, self.cancel, time) {
            Ok(answer) => answer,
            Err(Unanswered::Cancelled) => return Err(failed("stopped")),
            Err(Unanswered::Refused) => return Err(refused("permission", "nobody could be asked")),
            Err(Unanswered::Late) => return Err(refused("permission", "nobody answered in time")),
        };
        let chosen = answer.pointer("/outcome/optionId").and_then(Value::as_str);
        let selected = answer.pointer("/outcome/outcome").and_then(Value::as_str) == Some("selected");
        match chosen.filter(|_| selected) {
            Some("once") => {}
            Some("always") => self.session.allow_always(tool.name, &prepared.subject),
            Some(_) | None => return Err(refused("permission", "the person said no")),
        }
        // The level may have been lowered while somebody thought.
        match self.session.mode().judge(tool.class) {
            Verdict::Refuse => Err(level_refuses(self.session.mode().word())),
            Verdict::Allow | Verdict::Ask => Ok(()),
        }
    }

    /// A task given to a sub-agent: its answer is the call's.
    fn delegated(&self, task: String, wanted: &Grant, scope: &mut Scope) -> Result<String, ToolError> {
        let grant = scope.desk.grant.child(wanted);
        let grant = grant.ok_or_else(|| refused("depth", "sub-agents go no deeper here"))?;
        if scope.children >= FAN_OUT {
            return Err(refused("fan_out", format!("an agent has at most {FAN_OUT} sub-agents in a turn")));
        }
        scope.children += 1;
        let purse = Purse::new(grant.budget, Some(Arc::clone(&scope.purse)));
        let who = format!("{}sub-agent {}: ", scope.who, scope.children);
        let desk = Arc::new(scope.desk.narrowed(grant));
        let mut child = Scope { who, desk, purse, children: 0, told: false };
        let mut entries = vec![Entry::User { text: task }];
        let ended = self.converse(&mut entries, &mut child);
        let said = entries.iter().rev().find_map(|entry| match entry {
            Entry::Assistant { text, .. } if !text.is_empty() => Some(text.clone()),
            Entry::Assistant { .. } | Entry::User { .. } | Entry::Results { .. } => None,
        });
        let said = said.unwrap_or_else(|| "[it said nothing]".to_owned());
        match ended {
            Ended::Done(_) => Ok(said),
            Ended::Cancelled => Err(failed("stopped")),
            Ended::Stopped(why) => Err(failed(format!("the sub-agent was {why}; it said last: {said}"))),
            Ended::Failed(why) => Err(failed(why)),
        }
    }
}

fn level_refuses(level: &str) -> ToolError {
    refused("autonomy", format!("the level `{level}` has no such tools"))
}

/// What a tool said, between marks that it cannot have known.
fn labelled(tool: &str, text: &str) -> String {
    match random_hex(8) {
        Ok(mark) => {
            // The name is the model's own word, and may be anything.
            let tool: String = tool.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
            format!("<untrusted-{mark} from=\"{tool}\">\n{text}\n</untrusted-{mark}>")
        }
        // Without a mark that cannot be forged nothing is handed on.
        Err(why) => format!("[the output is withheld: {why}]"),
    }
}

/// At most so many bytes.
fn cut(text: &str, most: u64) -> String {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    if text.len() <= most {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(most);
    format!("{}\n[{} bytes more are left out]", text.get(..end).unwrap_or_default(), text.len() - end)
}
