//! What an agent says that it can do, and what a session of it can be set to.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use crate::fields::{ABOUT, Fields, NAME};

/// The agent's own name for a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AgentSession(String);

/// A text that names no session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the id of an agent's session has 1 to 1024 bytes and no control characters")]
pub struct BadSession;

impl FromStr for AgentSession {
    type Err = BadSession;

    fn from_str(text: &str) -> Result<Self, BadSession> {
        let fits = !text.is_empty() && text.len() <= NAME && !text.contains(char::is_control);
        fits.then(|| Self(text.to_owned())).ok_or(BadSession)
    }
}

impl AgentSession {
    /// As the agent wrote it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AgentSession {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

/// What an agent can do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// Its name, if it tells.
    pub name: Option<String>,
    /// Its version, if it tells.
    pub version: Option<String>,
    /// It can go on with a conversation of an earlier process.
    pub can_load: bool,
    /// Ways to sign in.
    pub sign_in: Vec<SignIn>,
}

/// A way to sign in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignIn {
    /// What [`Agent::authenticate`](crate::Agent::authenticate) takes.
    pub id: String,
    /// For people.
    pub name: String,
    /// For people.
    pub about: Option<String>,
}

impl Abilities {
    /// The version of the protocol, and what the agent can do.
    pub(crate) fn read(result: Value) -> Option<(u64, Self)> {
        let mut fields = Fields::of(result)?;
        let version = fields.number("protocolVersion")?;
        let mut abilities = Self::default();
        if let Some(mut info) = fields.object("agentInfo") {
            abilities.name = info.short("name", NAME);
            abilities.version = info.short("version", NAME);
        }
        abilities.can_load =
            fields.object("agentCapabilities").is_some_and(|mut can| can.is_set("loadSession"));
        let way = |value| {
            let mut fields = Fields::of(value)?;
            let (id, about) = (fields.id("id")?, fields.short("description", ABOUT));
            Some(SignIn { name: fields.short("name", NAME).unwrap_or_else(|| id.clone()), id, about })
        };
        abilities.sign_in = fields.list("authMethods", way).unwrap_or_default();
        Some((version, abilities))
    }
}

/// A session that was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The agent's name for it.
    pub session: AgentSession,
    /// Modes that it can be in.
    pub modes: Vec<Mode>,
    /// The one it is in.
    pub mode: Option<String>,
    /// Models that it can use, if it tells.
    pub models: Vec<Model>,
    /// The one it uses, if it tells.
    pub model: Option<String>,
    /// What else can be set, the model among it.
    pub settings: Vec<Setting>,
}

/// A mode of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mode {
    /// What [`Agent::set_mode`](crate::Agent::set_mode) takes.
    pub id: String,
    /// For people.
    pub name: String,
    /// For people.
    pub about: Option<String>,
}

/// A model that a session can use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// What [`Agent::set_model`](crate::Agent::set_model) takes.
    pub id: String,
    /// For people.
    pub name: String,
}

/// Something about a session that can be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// What [`Agent::set`](crate::Agent::set) takes.
    pub id: String,
    /// For people.
    pub name: String,
    /// `mode`, `model`, `thought_level` or a word of the agent's own.
    pub category: Option<String>,
    /// What it is set to.
    pub current: String,
    /// What it can be set to.
    pub values: Vec<SettingValue>,
}

/// What a setting can be set to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingValue {
    /// What [`Agent::set`](crate::Agent::set) takes.
    pub id: String,
    /// For people.
    pub name: String,
}

impl Opened {
    /// What was told of a session; its id is in the answer, or known.
    pub(crate) fn read(result: Value, known: Option<AgentSession>) -> Option<Self> {
        let mut fields = match result {
            // An answer to loading may say nothing.
            Value::Null if known.is_some() => Fields::of(Value::Object(serde_json::Map::new()))?,
            other => Fields::of(other)?,
        };
        let session = known.or_else(|| fields.text("sessionId")?.parse().ok())?;
        let (mut modes, mut mode) = (Vec::new(), None);
        if let Some(mut told) = fields.object("modes") {
            mode = told.id("currentModeId");
            modes = told.list("availableModes", read_mode).unwrap_or_default();
        }
        let (mut models, mut model) = (Vec::new(), None);
        if let Some(mut told) = fields.object("models") {
            model = told.id("currentModelId");
            models = told.list("availableModels", |value| named(value, "modelId")).unwrap_or_default();
        }
        let settings = fields.list("configOptions", setting).unwrap_or_default();
        if let Some(setting) = settings.iter().find(|setting| setting.is_model()) {
            model = Some(setting.current.clone());
            models = setting
                .values
                .iter()
                .map(|one| Model { id: one.id.clone(), name: one.name.clone() })
                .collect();
        }
        Some(Self { session, modes, mode, models, model, settings })
    }
}

impl Setting {
    pub(crate) fn is_mode(&self) -> bool {
        self.category.as_deref() == Some("mode")
    }

    pub(crate) fn is_model(&self) -> bool {
        self.category.as_deref() == Some("model")
    }
}

/// The settings of an answer or an update.
pub(crate) fn settings(fields: &mut Fields) -> Option<Vec<Setting>> {
    fields.list("configOptions", setting)
}

fn read_mode(value: Value) -> Option<Mode> {
    let mut fields = Fields::of(value)?;
    let (id, about) = (fields.id("id")?, fields.short("description", ABOUT));
    Some(Mode { name: fields.short("name", NAME).unwrap_or_else(|| id.clone()), id, about })
}

fn named(value: Value, id: &str) -> Option<Model> {
    named_in(&mut Fields::of(value)?, id)
}

fn named_in(fields: &mut Fields, id: &str) -> Option<Model> {
    let id = fields.id(id)?;
    Some(Model { name: fields.short("name", NAME).unwrap_or_else(|| id.clone()), id })
}

fn setting(value: Value) -> Option<Setting> {
    let mut fields = Fields::of(value)?;
    let id = fields.id("id")?;
    let name = fields.short("name", NAME).unwrap_or_else(|| id.clone());
    let current = match fields.take("currentValue")? {
        Value::String(word) if word.len() <= NAME => word,
        Value::Bool(is_on) => is_on.to_string(),
        Value::Null | Value::String(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            return None;
        }
    };
    // Values come one by one or in groups.
    let mut values = Vec::new();
    for one in fields.list("options", Some).unwrap_or_default() {
        let Some(mut one) = Fields::of(one) else { continue };
        let group = one.list("options", |value| named(value, "value"));
        let found = group.unwrap_or_else(|| named_in(&mut one, "value").into_iter().collect());
        values.extend(found.into_iter().map(|model| SettingValue { id: model.id, name: model.name }));
    }
    values.truncate(crate::fields::LIST);
    Some(Setting { id, name, category: fields.short("category", NAME), current, values })
}
