//! What an agent tells of a call of one of its tools.

use serde_json::Value;

use crate::fields::{ABOUT, Fields, NAME, PATH};

/// What a tool does, in the agent's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the words of the protocol say it")]
pub enum Kind {
    Read,
    Edit,
    Delete,
    Move,
    Search,
    Execute,
    Think,
    Fetch,
    SwitchMode,
    Other,
}

impl Kind {
    fn of(word: &str) -> Self {
        match word {
            "read" => Self::Read,
            "edit" => Self::Edit,
            "delete" => Self::Delete,
            "move" => Self::Move,
            "search" => Self::Search,
            "execute" => Self::Execute,
            "think" => Self::Think,
            "fetch" => Self::Fetch,
            "switch_mode" => Self::SwitchMode,
            _ => Self::Other,
        }
    }

    /// The protocol's word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Edit => "edit",
            Self::Delete => "delete",
            Self::Move => "move",
            Self::Search => "search",
            Self::Execute => "execute",
            Self::Think => "think",
            Self::Fetch => "fetch",
            Self::SwitchMode => "switch_mode",
            Self::Other => "other",
        }
    }
}

/// How far a call, or a step of a plan, is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the words of the protocol say it")]
pub enum Status {
    Pending,
    InProgress,
    Completed,
    Failed,
}

impl Status {
    pub(crate) fn of(word: &str) -> Option<Self> {
        match word {
            "pending" => Some(Self::Pending),
            "in_progress" => Some(Self::InProgress),
            "completed" => Some(Self::Completed),
            "failed" => Some(Self::Failed),
            _ => None,
        }
    }

    /// The protocol's word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }
}

/// A place that a call is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// As the agent names it.
    pub path: String,
    /// From one.
    pub line: Option<u64>,
}

/// What a call shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A text; what is none is a mark that says what it is.
    Text(String),
    /// A change of a file.
    Diff {
        /// As the agent names it.
        path: String,
        /// Nothing for a file that is new.
        old: Option<String>,
        /// The whole text, or the part that changes.
        new: String,
    },
    /// A terminal, by its id.
    Terminal(String),
}

/// A call that an agent makes, or means to make.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The agent's name for it.
    pub id: String,
    /// What it does, in the agent's words.
    pub title: String,
    /// The tool.
    pub name: Option<String>,
    /// What sort of tool.
    pub kind: Kind,
    /// How far it is.
    pub status: Status,
    /// What it is about.
    pub locations: Vec<Location>,
    /// What it shows.
    pub content: Vec<Content>,
    /// The tool's arguments; `{"omitted": …}` if they are long.
    pub input: Option<Value>,
    /// What the tool gave; `{"omitted": …}` if it is long.
    pub output: Option<Value>,
}

/// What is new of a call. What is not there stays as it was; a list that is there is the whole list.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the fields of `Call`")]
pub struct CallChange {
    pub id: String,
    pub title: Option<String>,
    pub name: Option<String>,
    pub kind: Option<Kind>,
    pub status: Option<Status>,
    pub locations: Option<Vec<Location>>,
    pub content: Option<Vec<Content>>,
    pub input: Option<Value>,
    pub output: Option<Value>,
}

impl CallChange {
    pub(crate) fn read(fields: &mut Fields) -> Option<Self> {
        Some(Self {
            id: fields.id("toolCallId")?,
            title: fields.short("title", ABOUT),
            name: fields.short("name", NAME),
            kind: fields.text("kind").map(|word| Kind::of(&word)),
            status: fields.text("status").and_then(|word| Status::of(&word)),
            locations: fields.list("locations", location),
            content: fields.list("content", content),
            input: fields.json("rawInput"),
            output: fields.json("rawOutput"),
        })
    }
}

impl Call {
    pub(crate) fn read(fields: &mut Fields) -> Option<Self> {
        let told = CallChange::read(fields)?;
        Some(Self {
            id: told.id,
            title: told.title?,
            name: told.name,
            kind: told.kind.unwrap_or(Kind::Other),
            status: told.status.unwrap_or(Status::Pending),
            locations: told.locations.unwrap_or_default(),
            content: told.content.unwrap_or_default(),
            input: told.input,
            output: told.output,
        })
    }
}

fn location(value: Value) -> Option<Location> {
    let mut fields = Fields::of(value)?;
    Some(Location { path: fields.short("path", PATH)?, line: fields.number("line") })
}

fn content(value: Value) -> Option<Content> {
    let mut fields = Fields::of(value)?;
    match fields.text("type").as_deref() {
        Some("content") => Some(Content::Text(block(fields.take("content")?))),
        Some("diff") => Some(Content::Diff {
            path: fields.short("path", PATH)?,
            old: fields.text("oldText"),
            new: fields.text("newText")?,
        }),
        Some("terminal") => Some(Content::Terminal(fields.id("terminalId")?)),
        Some(other) => {
            Some(Content::Text(format!("[content of the kind `{}`]", crate::fields::shown(other.as_bytes()))))
        }
        None => None,
    }
}

/// The text of a block of content, or a mark in its place.
pub(crate) fn block(value: Value) -> String {
    let Some(mut fields) = Fields::of(value) else {
        return "[content that is none]".to_owned();
    };
    let kind = fields.short("type", NAME).unwrap_or_default();
    let length = |fields: &mut Fields| fields.text("data").map_or(0, |data| data.len() / 4 * 3);
    let of = |fields: &mut Fields, name| fields.short(name, NAME).unwrap_or_default();
    match kind.as_str() {
        "text" => fields.text("text").unwrap_or_default(),
        "image" | "audio" => {
            let (mime, bytes) = (of(&mut fields, "mimeType"), length(&mut fields));
            format!("[{kind} {mime}, about {bytes} bytes]")
        }
        "resource_link" => format!("[link {}: {}]", of(&mut fields, "name"), of(&mut fields, "uri")),
        "resource" => {
            let uri = fields.object("resource").and_then(|mut resource| resource.short("uri", NAME));
            format!("[content of {}]", uri.unwrap_or_default())
        }
        _ => format!("[content of the kind `{}`]", crate::fields::shown(kind.as_bytes())),
    }
}
