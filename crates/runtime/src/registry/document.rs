//! What an artifact says, read from what somebody wrote: a closed document in, the same in one normal form out.
//!
//! Invariant: two documents that mean the same have the same normal form, whatever order they were written in. Sets are in
//! order and each word stands once; what has its default is left out.

use std::collections::BTreeSet;

use model::{AgentName, ArtifactName, HostPattern, Reference, SecretName};
use serde_json::{Map, Value, json};

use super::closed::{Faults, Object};

/// Bytes of a prompt or template, and of one value.
const MOST_PROMPT: usize = 256 * 1_024;
pub(super) const MOST_VALUE: usize = 64 * 1_024;
/// Values of an env.
const MOST_VALUES: usize = 256;
/// The longest that a worker may run, in seconds.
const DAY: i64 = 86_400;
/// What a notification can be about.
const EVENTS: [&str; 6] = ["accepted", "started", "finished", "needs_input", "failed", "cancelled"];

/// A set in its order.
fn listed<T: ToString>(set: BTreeSet<T>) -> Value {
    set.into_iter().map(|one| Value::String(one.to_string())).collect()
}

/// An object of what is there.
fn made<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let there = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(there.collect::<Map<_, _>>())
}

/// A capability without its files: tool rules, MCP servers, the set-up script, notifications.
pub(super) fn capability(document: Value, paths: &BTreeSet<&str>, faults: &mut Faults) -> Value {
    let Some(mut top) = Object::at("", document, faults) else { return Value::Null };
    let about = top.text("about", 4_096).map(Value::from);
    let tools = top.object("tools", |tools| {
        let rules =
            |tools: &mut Object<'_>, key| tools.texts(key, 256).map(|all| listed(all.into_iter().collect()));
        let allow = rules(tools, "allow");
        made([("allow", allow), ("deny", rules(tools, "deny"))])
    });
    let servers = top.entries("mcp", 64, |name, value, all| {
        if let Err(error) = name.parse::<ArtifactName>() {
            all.fault(name, format!("{error}"));
            return None;
        }
        all.read_as(name, value, |server| {
            let command = server.texts("command", 64);
            let url = server.text("url", 2_048);
            let env = server.entries("env", 64, value_of);
            match (&command, &url) {
                (Some(command), None) if !command.is_empty() => {}
                (None, Some(url)) if is_web_address(url) => {}
                _ => server.fault("command", "expected either `command` or `url` (https://…)"),
            }
            let env = env.map(|all| Value::Object(all.into_iter().map(|(k, v)| (k, v.into())).collect()));
            made([("command", command.map(Value::from)), ("url", url.map(Value::from)), ("env", env)])
        })
    });
    let servers = servers.map(|all| Value::Object(all.into_iter().collect()));
    let setup = top.text("setup", 1_024);
    if setup.as_deref().is_some_and(|path| !paths.contains(path)) {
        top.fault("setup", "expected the path of one of its files");
    }
    let notifications = top.objects("notifications", 16, |one| {
        let url = one.text("url", 2_048);
        if !url.as_deref().is_some_and(is_web_address) {
            one.fault("url", "expected an address that begins with https://");
        }
        let on = one.texts("on", EVENTS.len()).map(|on| on.into_iter().collect::<BTreeSet<_>>());
        if on.iter().flatten().any(|event| !EVENTS.contains(&event.as_str())) {
            one.fault("on", format!("expected some of {}", EVENTS.join(", ")));
        }
        made([("url", url.map(Value::from)), ("on", on.map(listed))])
    });
    let notifications = notifications.map(|mut all| {
        all.sort_by_key(ToString::to_string);
        all.dedup();
        Value::from(all)
    });
    top.end();
    made([
        ("about", about),
        ("tools", tools),
        ("mcp", servers),
        ("setup", setup.map(Value::from)),
        ("notifications", notifications),
    ])
}

/// Whether it looks like an address of the web that nobody put a login into.
fn is_web_address(text: &str) -> bool {
    let Some((authority, _)) =
        text.strip_prefix("https://").map(|rest| rest.split_once('/').unwrap_or((rest, "")))
    else {
        return false;
    };
    authority.parse::<HostPattern>().is_ok_and(|_| !authority.contains('*'))
        && !text.chars().any(char::is_control)
}

fn value_of(key: &str, value: Value, all: &mut Object<'_>) -> Option<String> {
    if !is_variable(key) {
        all.fault(key, "expected 1 to 64 characters from A-Z, a-z, 0-9 and `_`, not starting with a digit");
        return None;
    }
    match value {
        Value::String(text) if text.len() <= MOST_VALUE && !text.contains('\0') => Some(text),
        _ => {
            all.fault(key, format!("expected text of at most {MOST_VALUE} bytes without NUL"));
            None
        }
    }
}

/// Whether it can be the name of a variable.
pub(super) fn is_variable(name: &str) -> bool {
    name.len() <= 64 && name.parse::<SecretName>().is_ok()
}

/// What a subagent says, in its normal form, and the capabilities that it names.
pub(super) fn subagent(document: Value, faults: &mut Faults) -> (Value, BTreeSet<Reference>) {
    let Some(mut top) = Object::at("", document, faults) else { return (Value::Null, BTreeSet::new()) };
    let about = top.text("about", 4_096).map(Value::from);
    let prompt = top.text("systemPrompt", MOST_PROMPT);
    let template = top.text("template", MOST_PROMPT);
    if prompt.is_none() && template.is_none() {
        top.fault("systemPrompt", "expected `systemPrompt`, `template`, or both");
    }
    let agent: Option<AgentName> = top.word("agent");
    if agent.is_none() {
        top.fault("agent", "expected the name of a kind of agent; `palisade agent list` has them");
    }
    let model = top.text("model", 256).map(Value::from);
    let capabilities: BTreeSet<Reference> = top.set("capabilities").unwrap_or_default();
    let verify = top.object("verify", |verify| {
        let command = verify.texts("command", 256).filter(|command| !command.is_empty());
        if command.is_none() {
            verify.fault("command", "expected a program and its arguments");
        }
        let time = verify.number("timeoutSeconds", 1, DAY).map(Value::from);
        made([("command", command.map(Value::from)), ("timeoutSeconds", time)])
    });
    let needs = top.object("needs", |needs| {
        let mut words =
            |key| needs.texts(key, 256).map(|all| listed(all.into_iter().collect::<BTreeSet<_>>()));
        let (paths, programs) = (words("paths"), words("programs"));
        made([
            ("paths", paths),
            ("programs", programs),
            ("gitHistory", needs.switch("gitHistory").map(Value::from)),
        ])
    });
    let target = top.word::<ArtifactName>("target").map(|name| json!(name.as_str()));
    let image = top.text("workerImage", 256);
    if image.as_deref().is_some_and(|image| !is_pinned(image)) {
        top.fault("workerImage", "expected an image that is pinned by its digest, like NAME@sha256:…");
    }
    let allow = top.object("allow", allowed);
    top.end();
    let own = listed(capabilities.clone());
    let document = made([
        ("about", about),
        ("systemPrompt", prompt.map(Value::from)),
        ("template", template.map(Value::from)),
        ("agent", agent.map(|name| json!(name.as_str()))),
        ("model", model),
        ("capabilities", Some(own).filter(|_| !capabilities.is_empty())),
        ("verify", verify),
        ("needs", needs),
        ("target", target),
        ("workerImage", image.map(Value::from)),
        ("allow", allow),
    ]);
    (document, capabilities)
}

/// What may be asked for at run time; what is not named is not allowed.
fn allowed(allow: &mut Object<'_>) -> Value {
    let images: Option<BTreeSet<String>> = allow.texts("images", 256).map(|all| all.into_iter().collect());
    if images.iter().flatten().any(|image| !is_pinned(image)) {
        allow.fault("images", "expected images that are pinned by their digest, like NAME@sha256:…");
    }
    let resources = allow.object("resources", |most| {
        let cpu = most.number("cpu", 1, 1_024).map(Value::from);
        made([("cpu", cpu), ("memory", most.number("memory", 1 << 20, 1 << 44).map(Value::from))])
    });
    made([
        ("targets", allow.set::<ArtifactName>("targets").map(listed)),
        ("images", images.map(listed)),
        ("envs", allow.set::<Reference>("envs").map(listed)),
        ("capabilities", allow.set::<Reference>("capabilities").map(listed)),
        ("hosts", hosts(allow, "hosts")),
        ("secrets", allow.set::<SecretName>("secrets").map(listed)),
        ("callbackHosts", hosts(allow, "callbackHosts")),
        ("timeoutSeconds", allow.number("timeoutSeconds", 1, DAY).map(Value::from)),
        ("resources", resources),
    ])
}

/// Hosts as they are written in their normal form.
fn hosts(allow: &mut Object<'_>, key: &str) -> Option<Value> {
    let mut set = BTreeSet::new();
    for (at, text) in allow.texts(key, 256)?.into_iter().enumerate() {
        match text.parse::<HostPattern>() {
            Ok(host) => drop(set.insert(host.to_string())),
            Err(error) => allow.fault(&format!("{key}.{at}"), format!("{error}")),
        }
    }
    Some(listed(set))
}

fn is_pinned(image: &str) -> bool {
    let digits = image.rsplit_once("@sha256:").filter(|(name, _)| !name.is_empty()).map(|(_, digits)| digits);
    digits.is_some_and(|digits| digits.len() == 64 && digits.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// What an env says; secrets that came along are references by now.
pub(super) struct Env {
    pub(super) about: Option<Value>,
    pub(super) values: Vec<(String, String)>,
    pub(super) secrets: Vec<(String, SecretName)>,
}

pub(super) fn env(document: Value, faults: &mut Faults) -> Env {
    let mut read = Env { about: None, values: Vec::new(), secrets: Vec::new() };
    let Some(mut top) = Object::at("", document, faults) else { return read };
    read.about = top.text("about", 4_096).map(Value::from);
    read.values = top.entries("values", MOST_VALUES, value_of).unwrap_or_default();
    let reference = |key: &str, value: Value, all: &mut Object<'_>| {
        let name =
            value.as_str().and_then(|text| text.parse::<SecretName>().ok()).filter(|_| is_variable(key));
        if name.is_none() {
            all.fault(key, "expected the name of a variable, and the name of a secret");
        }
        name
    };
    read.secrets = top.entries("secrets", MOST_VALUES, reference).unwrap_or_default();
    let twice: Vec<_> =
        read.secrets.iter().filter(|(key, _)| read.values.iter().any(|(other, _)| other == key)).collect();
    for (key, _) in twice {
        top.fault(key, "it has a value and a secret; expected one of them");
    }
    top.end();
    read
}

impl Env {
    pub(super) fn into_value(self) -> Value {
        let values: Map<_, _> = self.values.into_iter().map(|(key, value)| (key, value.into())).collect();
        let secrets: Map<_, _> =
            self.secrets.into_iter().map(|(key, name)| (key, json!(name.as_str()))).collect();
        let there = |map: Map<String, Value>| Some(Value::Object(map)).filter(|map| map != &json!({}));
        made([("about", self.about), ("values", there(values)), ("secrets", there(secrets))])
    }
}
