//! What the agent can do, and what each of it is.
//!
//! Flow: a call -> `prepare` (arguments checked, every file read, the effect made but for its last step) -> [`Prepared`], which
//! is shown to whoever decides -> [`Work`], carried out or dropped. So nothing is decided about one thing and done to another,
//! and a dry run is everything but the last step.

mod background;
mod code;
mod fetch;
mod look;
mod minder;
mod patch;
mod place;
mod program;
mod sensitive;
mod shell;
mod wall;
mod write;

use std::sync::Arc;

use model::Grant;
use redact::Redactor;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::autonomy::Class;
use crate::cancel::Cancel;
use crate::limits::Limits;
use crate::provider::Web;

pub(crate) use background::Processes;
pub use minder::run as minder;
pub(crate) use place::Tree;
pub(crate) use program::{Programs, default_programs, names_a_secret};
pub(crate) use shell::{Bounds, Manner, Running};

/// A tool. The class has no default: a tool without one does not compile.
pub struct Tool {
    /// What a model calls it.
    pub name: &'static str,
    /// What a model is told of it.
    pub about: &'static str,
    /// What it does to the world.
    pub class: Class,
    /// What ACP calls such tools.
    pub kind: &'static str,
    /// Which arguments it takes.
    pub(crate) input: fn() -> Value,
    pub(crate) prepare: fn(Value, &Arc<Desk>) -> Result<Prepared, ToolError>,
}

/// Every tool there is.
#[must_use]
pub fn registry() -> &'static [Tool] {
    &TOOLS
}

/// What tools work with.
pub(crate) struct Desk {
    pub(crate) tree: Arc<Tree>,
    pub(crate) limits: Limits,
    pub(crate) writing: bool,
    pub(crate) programs: Arc<Programs>,
    pub(crate) interpreters: Arc<Programs>,
    pub(crate) grant: Grant,
    pub(crate) processes: Arc<Processes>,
    pub(crate) web: Web,
    pub(crate) redactor: Redactor,
}

impl Desk {
    /// The same desk for somebody with a narrower grant.
    pub(crate) fn narrowed(&self, grant: Grant) -> Self {
        Self {
            tree: Arc::clone(&self.tree),
            limits: self.limits.clone(),
            writing: self.writing,
            programs: Arc::clone(&self.programs),
            interpreters: Arc::clone(&self.interpreters),
            grant,
            processes: Arc::clone(&self.processes),
            web: self.web.clone(),
            redactor: self.redactor.clone(),
        }
    }
}

/// Why a tool did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ToolError {
    #[error("refused by the rule `{rule}`: {why}")]
    Refused { rule: &'static str, why: String },
    #[error("{0}")]
    Failed(String),
}

pub(crate) fn refused(rule: &'static str, why: impl Into<String>) -> ToolError {
    ToolError::Refused { rule, why: why.into() }
}

pub(crate) fn failed(why: impl std::fmt::Display) -> ToolError {
    ToolError::Failed(why.to_string())
}

/// A change to one file, as people see it.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) path: String,
    pub(crate) old: Option<String>,
    pub(crate) new: String,
}

/// The last step of a call.
type Run = Box<dyn FnOnce(&Cancel) -> Result<String, ToolError> + Send>;

/// What remains to be done.
pub(crate) enum Work {
    Run(Run),
    Plan(Vec<Value>),
    Delegate { task: String, grant: Box<Grant> },
}

/// A call that is ready.
pub(crate) struct Prepared {
    pub(crate) title: String,
    /// What "always" would be about: a path, a program, a host.
    pub(crate) subject: String,
    pub(crate) places: Vec<String>,
    pub(crate) changes: Vec<Change>,
    pub(crate) work: Work,
}

impl Prepared {
    fn plain(
        title: String,
        subject: &str,
        run: impl FnOnce(&Cancel) -> Result<String, ToolError> + Send + 'static,
    ) -> Self {
        let work = Work::Run(Box::new(run));
        Self { title, subject: subject.to_owned(), places: Vec::new(), changes: Vec::new(), work }
    }

    fn at(mut self, place: &str) -> Self {
        self.places.push(place.to_owned());
        self
    }
}

/// Arguments as a tool wants them.
fn arguments<T: DeserializeOwned>(input: Value) -> Result<T, ToolError> {
    if !input.is_object() {
        return Err(failed("the arguments are no JSON object"));
    }
    serde_json::from_value(input).map_err(|error| failed(format!("the arguments do not fit: {error}")))
}

fn object(properties: Value, required: &[&str]) -> Value {
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

const TOOLS: [Tool; 14] = [
    Tool {
        name: "read_file",
        about: "Reads one text file. Paths are relative to the working directory.",
        class: Class::Read,
        kind: "read",
        input: || object(json!({ "path": { "type": "string" } }), &["path"]),
        prepare: look::read_file,
    },
    Tool {
        name: "list",
        about: "Lists one directory. Directories end in `/`, links in `@`.",
        class: Class::Read,
        kind: "read",
        input: || object(json!({ "path": { "type": "string" } }), &[]),
        prepare: look::list,
    },
    Tool {
        name: "search",
        about: "Searches the lines of text files beneath a directory for a regular expression.",
        class: Class::Read,
        kind: "search",
        input: || {
            object(
                json!({ "pattern": { "type": "string" }, "path": { "type": "string" },
                    "ignore_case": { "type": "boolean" } }),
                &["pattern"],
            )
        },
        prepare: look::search,
    },
    Tool {
        name: "write_file",
        about: "Writes a whole file. Replaces a file that is there only with `overwrite`. `dry_run` changes nothing.",
        class: Class::Write,
        kind: "edit",
        input: || {
            object(
                json!({ "path": { "type": "string" }, "content": { "type": "string" },
                    "overwrite": { "type": "boolean" }, "dry_run": { "type": "boolean" } }),
                &["path", "content"],
            )
        },
        prepare: write::write_file,
    },
    Tool {
        name: "edit",
        about: "Replaces `old` by `new` in a file. `old` must be there exactly once, or `every` be set.",
        class: Class::Write,
        kind: "edit",
        input: || {
            object(
                json!({ "path": { "type": "string" }, "old": { "type": "string" }, "new": { "type": "string" },
                    "every": { "type": "boolean" }, "dry_run": { "type": "boolean" } }),
                &["path", "old", "new"],
            )
        },
        prepare: write::edit,
    },
    Tool {
        name: "apply_patch",
        about: "Applies a unified diff to any number of files, wholly or not at all. `/dev/null` makes or removes a file.",
        class: Class::Write,
        kind: "edit",
        input: || {
            object(json!({ "patch": { "type": "string" }, "dry_run": { "type": "boolean" } }), &["patch"])
        },
        prepare: patch::apply_patch,
    },
    Tool {
        name: "shell",
        about: "Runs one listed program with arguments, and waits. There is no shell: no pipes, redirections, variables or \
                patterns. Quote arguments with spaces.",
        class: Class::Execute,
        kind: "execute",
        input: || object(json!({ "command": { "type": "string" } }), &["command"]),
        prepare: shell::shell,
    },
    Tool {
        name: "run_code",
        about: "Runs code by a listed interpreter, without network and files outside of the working directory.",
        class: Class::Execute,
        kind: "execute",
        input: || {
            object(
                json!({ "interpreter": { "type": "string" }, "code": { "type": "string" } }),
                &["interpreter", "code"],
            )
        },
        prepare: code::run_code,
    },
    Tool {
        name: "start_process",
        about: "Starts one listed program in the background, as `shell` would; gives its number.",
        class: Class::Execute,
        kind: "execute",
        input: || object(json!({ "command": { "type": "string" } }), &["command"]),
        prepare: background::start,
    },
    Tool {
        name: "process_output",
        about: "What a program in the background has said since the last look, and whether it runs; waits up to `wait_s`.",
        class: Class::Read,
        kind: "read",
        input: || {
            object(json!({ "number": { "type": "integer" }, "wait_s": { "type": "integer" } }), &["number"])
        },
        prepare: background::output,
    },
    Tool {
        name: "stop_process",
        about: "Stops a program in the background and everything that it started.",
        class: Class::Inner,
        kind: "execute",
        input: || object(json!({ "number": { "type": "integer" } }), &["number"]),
        prepare: background::stop,
    },
    Tool {
        name: "web_fetch",
        about: "Fetches one web page by GET. Does not follow redirections: it tells where they lead.",
        class: Class::Network,
        kind: "fetch",
        input: || object(json!({ "url": { "type": "string" } }), &["url"]),
        prepare: fetch::web_fetch,
    },
    Tool {
        name: "plan",
        about: "Tells people what is planned: a list of steps with `content`, `priority` (high, medium, low) and `status` \
                (pending, in_progress, completed).",
        class: Class::Inner,
        kind: "think",
        input: || {
            let step = object(
                json!({ "content": { "type": "string" },
                    "priority": { "type": "string", "enum": ["high", "medium", "low"] },
                    "status": { "type": "string", "enum": ["pending", "in_progress", "completed"] } }),
                &["content", "priority", "status"],
            );
            object(json!({ "entries": { "type": "array", "items": step } }), &["entries"])
        },
        prepare: plan,
    },
    Tool {
        name: "delegate",
        about: "Gives a task to a sub-agent with a fresh conversation, and waits for its answer. `tools` narrows what it may use.",
        class: Class::Inner,
        kind: "think",
        input: || {
            object(
                json!({ "task": { "type": "string" }, "tools": { "type": "array", "items": { "type": "string" } } }),
                &["task"],
            )
        },
        prepare: delegate,
    },
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    content: String,
    priority: Priority,
    status: Status,
}

#[derive(Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
enum Priority {
    High,
    Medium,
    Low,
}

#[derive(Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Pending,
    InProgress,
    Completed,
}

fn plan(input: Value, _desk: &Arc<Desk>) -> Result<Prepared, ToolError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Given {
        entries: Vec<Step>,
    }
    let given: Given = arguments(input)?;
    if given.entries.len() > 64 {
        return Err(refused("plan_entries", "a plan has at most 64 entries"));
    }
    let entries = given.entries.into_iter().map(|step| {
        let content: String = step.content.chars().take(1_000).collect();
        json!({ "content": content, "priority": step.priority, "status": step.status })
    });
    let work = Work::Plan(entries.collect());
    Ok(Prepared {
        title: "plan".into(),
        subject: "plan".into(),
        places: Vec::new(),
        changes: Vec::new(),
        work,
    })
}

fn delegate(input: Value, _desk: &Arc<Desk>) -> Result<Prepared, ToolError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Given {
        task: String,
        tools: Option<Vec<String>>,
    }
    let given: Given = arguments(input)?;
    if given.task.trim().is_empty() {
        return Err(failed("a task has words"));
    }
    let mut grant = Grant::everything();
    if let Some(tools) = given.tools {
        let parsed: Result<Vec<model::Patterns>, _> = tools.iter().map(|name| name.parse()).collect();
        grant.tools = model::Rights::new(parsed.map_err(failed)?, None);
    }
    let title: String = given.task.chars().take(80).collect();
    Ok(Prepared {
        title: format!("sub-agent: {title}"),
        subject: "delegate".into(),
        places: Vec::new(),
        changes: Vec::new(),
        work: Work::Delegate { task: given.task, grant: Box::new(grant) },
    })
}
