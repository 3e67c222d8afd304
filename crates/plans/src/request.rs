//! What an item of a plan dispatches: the fields of a dispatch that a plan may carry, each within its bounds.
//!
//! Closed: any other key is refused, and so are those that a run sets itself (`dispatchId`, `dedupeOnDispatchId`, `trace`).
//! Not here: whether what is named exists and may be used; whoever resolves the names says so ([`crate::Plan::pinned`]).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::fault::What;
use crate::name::Hash;
use crate::read::{At, Reader, Table};
use crate::tree::Tree;

/// The longest input, as JSON.
pub const MOST_INPUT: usize = 1024 * 1024;
/// How long an item may take unless told.
pub const DEADLINE_SECONDS: u64 = 7_200;
/// How long an item may take at most.
pub const MOST_DEADLINE_SECONDS: u64 = 86_400;
const MOST_REFS: usize = 64;
const MOST_NAMES: usize = 64;
const MOST_CPU: f64 = 1_024.0;
const MOST_MEMORY: u64 = 16 * 1024 * 1024;

/// A name, and which version of what it names, once that is settled.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ref {
    /// The name.
    pub name: String,
    /// The version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_hash: Option<Hash>,
}

/// Where the end of a dispatch is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Callback {
    /// Where.
    pub url: String,
    /// The name of what is sent along to prove who tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bearer_ref: Option<String>,
}

/// What a dispatch may use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resources {
    /// Processors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<f64>,
    /// MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
}

/// What is dispatched, as a plan says it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Request {
    /// Where it runs; the subagent's own unless told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Who does it.
    pub subagent: Ref,
    /// What it runs in, pinned by digest; the subagent's own unless told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_image: Option<String>,
    /// Its environments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<Ref>,
    /// In place of the subagent's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Vec<Ref>>,
    /// Besides the subagent's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add_capabilities: Vec<Ref>,
    /// What it is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<serde_json::Value>,
    /// Sealed products from elsewhere, by hash.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub input_refs: BTreeMap<String, Hash>,
    /// fast, standard, max, or an exact name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Names inside, and what they are called in the vault.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<String, String>,
    /// Who is told of the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback: Option<Callback>,
    /// Who is told besides those of the capabilities; for whoever knows their form.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notifications: Vec<serde_json::Value>,
    /// How long what it leaves is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention_days: Option<u64>,
    /// How long it may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
    /// How long it may take if nothing else is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_dispatch_timeout_seconds: Option<u64>,
    /// What it may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// What it is a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline_ref: Option<Ref>,
}

const KEYS: &[&str] = &[
    "target",
    "subagent",
    "workerImage",
    "env",
    "capabilities",
    "addCapabilities",
    "input",
    "inputRefs",
    "model",
    "secrets",
    "callback",
    "notifications",
    "retentionDays",
    "timeoutSeconds",
    "defaultDispatchTimeoutSeconds",
    "resources",
    "pipelineRef",
];
/// Keys of a dispatch that a run fills in.
const OF_THE_RUN: [&str; 4] = ["dispatchId", "dedupeOnDispatchId", "trace", "waitSeconds"];

const NAME: &str = "a name: 1 to 128 visible characters of ASCII";
const VARIABLE: &str = "the name of a variable: letters, digits and `_`, no digit first";
const KEY: &str = "a key: 1 to 64 letters, digits, `.`, `_` or `-`";
const IMAGE: &str = "an image pinned by digest: a name, `@sha256:` and 64 lower-case hex digits";
const URL: &str = "an address: `https://` or `http://`, at most 2,048 visible characters of ASCII";

fn is_visible(text: &str, most: usize) -> bool {
    (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

pub(crate) fn is_key(text: &str) -> bool {
    crate::name::is_id(text)
}

fn is_image(text: &str) -> bool {
    let parts = text.rsplit_once("@sha256:");
    is_visible(text, 512)
        && parts.is_some_and(|(name, hex)| !name.is_empty() && hex.len() == 64 && crate::name::is_hex(hex))
}

fn is_variable(text: &str) -> bool {
    (1..=128).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !text.bytes().next().is_some_and(|first| first.is_ascii_digit())
}

fn is_url(text: &str) -> bool {
    is_visible(text, 2_048) && (text.starts_with("https://") || text.starts_with("http://"))
}

impl Request {
    pub(crate) fn read(reader: &mut Reader, at: &At<'_>, tree: &Tree) -> Option<Self> {
        let table = reader.any_table(at, tree)?;
        for key in table.keys().filter(|key| !KEYS.contains(key)) {
            let what = if OF_THE_RUN.contains(&key) {
                What::SetByRun(key.to_owned())
            } else {
                What::UnknownKey { key: crate::read::cut(key), known: KEYS }
            };
            reader.fault(&at.key(key), what);
        }
        if table.has("capabilities") && table.has("addCapabilities") {
            reader.fault(at, What::Together("capabilities", "addCapabilities"));
        }
        let subagent = reader.required(at, table, "subagent");
        let subagent = subagent.and_then(|tree| reference(reader, &at.key("subagent"), tree));
        let mut fields = Of { reader, at, table };
        Some(Self {
            target: fields.word("target", NAME, |text| is_visible(text, 128)),
            worker_image: fields.word("workerImage", IMAGE, is_image),
            env: fields.refs("env", true).unwrap_or_default(),
            capabilities: fields.refs("capabilities", false),
            add_capabilities: fields.refs("addCapabilities", false).unwrap_or_default(),
            input: fields.input(),
            input_refs: fields.names("inputRefs", KEY, is_key, |reader, at, tree| {
                reader.parsed(at, tree, Hash::EXPECTED, Hash::parse)
            }),
            model: fields.word("model", NAME, |text| is_visible(text, 128)),
            secrets: fields.names("secrets", VARIABLE, is_variable, |reader, at, tree| {
                if matches!(tree, Tree::Table(_)) {
                    reader.fault(at, What::InlineSecret);
                    return None;
                }
                reader.word(at, tree, NAME, |text| is_visible(text, 128))
            }),
            callback: fields.with("callback", callback),
            notifications: fields.with("notifications", notifications).unwrap_or_default(),
            retention_days: fields.number("retentionDays", 2_555),
            timeout_seconds: fields.number("timeoutSeconds", MOST_DEADLINE_SECONDS),
            default_dispatch_timeout_seconds: fields
                .number("defaultDispatchTimeoutSeconds", MOST_DEADLINE_SECONDS),
            resources: fields.with("resources", resources),
            pipeline_ref: fields.with("pipelineRef", pinned),
            subagent: subagent?,
        })
    }

    /// How long this may take: what it says, or the default.
    pub(crate) fn seconds(&self) -> u64 {
        self.timeout_seconds.or(self.default_dispatch_timeout_seconds).unwrap_or(DEADLINE_SECONDS)
    }
}

/// The fields of one request.
struct Of<'r, 't> {
    reader: &'r mut Reader,
    at: &'r At<'r>,
    table: Table<'t>,
}

impl Of<'_, '_> {
    fn with<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&mut Reader, &At<'_>, &Tree) -> Option<T>,
    ) -> Option<T> {
        read(self.reader, &self.at.key(key), self.table.get(key)?)
    }

    fn word(&mut self, key: &'static str, expected: &'static str, fits: fn(&str) -> bool) -> Option<String> {
        self.with(key, |reader, at, tree| reader.word(at, tree, expected, fits))
    }

    fn number(&mut self, key: &'static str, most: u64) -> Option<u64> {
        self.with(key, |reader, at, tree| reader.number(at, tree, 1, most))
    }

    /// A list of references; one alone where that is allowed.
    fn refs(&mut self, key: &'static str, may_be_one: bool) -> Option<Vec<Ref>> {
        self.with(key, |reader, at, tree| {
            if may_be_one && !matches!(tree, Tree::List(_)) {
                return reference(reader, at, tree).map(|one| vec![one]);
            }
            let all = reader.list(at, tree, 0, MOST_REFS)?;
            Some(all.iter().enumerate().filter_map(|(n, one)| reference(reader, &at.index(n), one)).collect())
        })
    }

    /// A table of names.
    fn names<T>(
        &mut self,
        key: &'static str,
        expected: &'static str,
        fits: fn(&str) -> bool,
        mut read: impl FnMut(&mut Reader, &At<'_>, &Tree) -> Option<T>,
    ) -> BTreeMap<String, T> {
        let found = self.with(key, |reader, at, tree| {
            let table = reader.any_table(at, tree)?;
            if !reader.count(at, table.keys().count(), 0, MOST_NAMES) {
                return None;
            }
            let mut all = BTreeMap::new();
            for name in table.keys() {
                let at = at.key(name);
                if !fits(name) {
                    reader.fault(&at, What::Word { found: crate::read::cut(name), expected });
                } else if let Some(value) = table.get(name).and_then(|tree| read(reader, &at, tree)) {
                    all.insert(name.to_owned(), value);
                }
            }
            Some(all)
        });
        found.unwrap_or_default()
    }

    fn input(&mut self) -> Option<serde_json::Value> {
        self.with("input", |reader, at, tree| {
            let value = reader.opaque(at, tree);
            if json_length(&value) > MOST_INPUT {
                reader.fault(at, What::TooLong(MOST_INPUT));
            }
            Some(value)
        })
    }
}

/// How long this is, as JSON.
pub(crate) fn json_length(value: &serde_json::Value) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self.0.saturating_add(bytes.len());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

fn reference(reader: &mut Reader, at: &At<'_>, tree: &Tree) -> Option<Ref> {
    let is_name = |text: &str| is_visible(text, 128);
    if matches!(tree, Tree::Text(_)) {
        let name = reader.word(at, tree, NAME, is_name)?;
        return Some(Ref { name, content_hash: None });
    }
    let table = reader.table(at, tree, &["name", "contentHash"])?;
    let name = reader.required(at, table, "name");
    let hash = reader.required(at, table, "contentHash");
    let name = name.and_then(|tree| reader.word(&at.key("name"), tree, NAME, is_name));
    let hash = hash.and_then(|tree| reader.parsed(&at.key("contentHash"), tree, Hash::EXPECTED, Hash::parse));
    Some(Ref { name: name?, content_hash: Some(hash?) })
}

fn pinned(reader: &mut Reader, at: &At<'_>, tree: &Tree) -> Option<Ref> {
    let found = reference(reader, at, tree)?;
    if found.content_hash.is_none() {
        reader.fault(at, What::Missing("contentHash"));
    }
    Some(found)
}

fn callback(reader: &mut Reader, at: &At<'_>, tree: &Tree) -> Option<Callback> {
    let table = reader.table(at, tree, &["url", "bearerRef"])?;
    let url = reader.required(at, table, "url");
    let url = url.and_then(|tree| reader.word(&at.key("url"), tree, URL, is_url));
    let bearer = table.get("bearerRef");
    let bearer_ref =
        bearer.and_then(|tree| reader.word(&at.key("bearerRef"), tree, NAME, |text| is_visible(text, 128)));
    Some(Callback { url: url?, bearer_ref })
}

fn notifications(reader: &mut Reader, at: &At<'_>, tree: &Tree) -> Option<Vec<serde_json::Value>> {
    let all = reader.list(at, tree, 0, 16)?;
    Some(all.iter().enumerate().map(|(index, one)| reader.opaque(&at.index(index), one)).collect())
}

fn resources(reader: &mut Reader, at: &At<'_>, tree: &Tree) -> Option<Resources> {
    let table = reader.table(at, tree, &["cpu", "memory"])?;
    let cpu = table.get("cpu").and_then(|tree| {
        let cpu = match tree {
            // Within the bounds every number is exact.
            Tree::Natural(number) => u32::try_from(*number).map_or(f64::INFINITY, f64::from),
            Tree::Float(number) => *number,
            Tree::Negative(_)
            | Tree::Null
            | Tree::Bool(_)
            | Tree::Text(_)
            | Tree::List(_)
            | Tree::Table(_) => f64::NAN,
        };
        if cpu > 0.0 && cpu <= MOST_CPU {
            return Some(cpu);
        }
        reader.fault(
            &at.key("cpu"),
            What::Kind { expected: "a number above 0, at most 1024,", found: tree.kind() },
        );
        None
    });
    let memory = table.get("memory");
    let memory = memory.and_then(|tree| reader.number(&at.key("memory"), tree, 1, MOST_MEMORY));
    Some(Resources { cpu, memory })
}
