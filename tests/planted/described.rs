//! Every field of every body that the API describes, and every answer that can be read afterwards.
//!
//! Flow: the description of the API -> for each operation with a body one request for each field that text can stand in, with a
//! secret there -> everything that can be read, and the rows of a database that keeps them as they are. Invariant: an operation or a
//! field that is described later is tried without anybody naming it here.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use tests::{Host, PASSWORD};

use crate::daemon::{host, send};
use crate::search::Search;
use crate::secrets::{Planted, all};

/// What stands in the places of paths and fields that need something that is there.
pub struct Known(Vec<(&'static str, String)>);

impl Known {
    /// A daemon's person, repository, worktree and session.
    pub fn of(host: &Host, session: &str, worktree: &str, repo: &str) -> Self {
        let person = host.user("bo", "member");
        let known = [
            ("user", person.id.as_str()),
            ("session", session),
            ("worktree", worktree),
            ("repo", repo),
            ("agent", "fake"),
            ("role", "member"),
            ("owner", "daemon"),
        ];
        Self(known.map(|(name, id)| (name, id.to_owned())).into())
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, id)| id.as_str())
    }

    /// A path with what is there in its places.
    fn path(&self, template: &str) -> String {
        self.0.iter().fold(template.to_owned(), |path, (name, id)| path.replace(&format!("{{{name}}}"), id))
    }
}

fn document() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/openapi.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// A schema, where it stands.
fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    let one_of = schema["oneOf"].as_array().and_then(|all| all.iter().find(|one| one["type"] != "null"));
    let schema = one_of.unwrap_or(schema);
    match schema["$ref"].as_str() {
        Some(at) => resolved(document, document.pointer(at.trim_start_matches('#')).unwrap()),
        None => schema,
    }
}

fn is(schema: &Value, kind: &str) -> bool {
    schema["type"] == kind || schema["type"].as_array().is_some_and(|all| all.iter().any(|one| one == kind))
}

/// A value with the secret in it, if text can stand there.
fn with(document: &Value, schema: &Value, planted: &Planted) -> Option<Value> {
    let schema = resolved(document, schema);
    match () {
        () if is(schema, "string") => Some(json!(planted.text)),
        () if is(schema, "array") => {
            let item = with(document, &schema["items"], planted).unwrap_or_else(|| json!(planted.text));
            Some(json!([item, planted.line()]))
        }
        () if is(schema, "object") || schema["type"].is_null() => {
            let fields = schema["properties"].as_object();
            let fields = fields
                .into_iter()
                .flatten()
                .filter_map(|(name, field)| Some((name.clone(), with(document, field, planted)?)));
            let mut all: Map<String, Value> = fields.collect();
            if all.is_empty() {
                all.insert(planted.line(), json!([planted.text, { "deep": planted.line() }]));
            }
            Some(Value::Object(all))
        }
        () => None,
    }
}

/// What stands in a field that must be there and is not the one that is tried.
fn usual(document: &Value, known: &Known, name: &str, schema: &Value, n: usize) -> Value {
    let schema = resolved(document, schema);
    match () {
        () if name == "email" => json!(format!("d{n}@example.org")),
        () if name == "password" => json!(PASSWORD),
        () if name == "document" => json!({ "systemPrompt": "Review.", "agent": "fake" }),
        () if is(schema, "string") => json!(known.get(name).map_or_else(|| format!("d-{n}"), str::to_owned)),
        () if is(schema, "integer") => json!(1),
        () if is(schema, "boolean") => json!(false),
        () if is(schema, "array") => json!([]),
        () => json!({}),
    }
}

/// One request: the line it begins with, and its body.
struct Tried {
    operation: String,
    head: String,
    body: Value,
}

/// All that there is to try with one secret.
fn tried(document: &Value, known: &Known, n: usize, planted: &Planted) -> Vec<Tried> {
    let mut all = Vec::new();
    for (template, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let Some(schema) = operation.pointer("/requestBody/content/application~1json/schema") else {
                continue;
            };
            let schema = resolved(document, schema);
            let fields = schema["properties"].as_object().unwrap();
            let needed = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let usual: Map<String, Value> = needed
                .map(|name| (name.to_owned(), usual(document, known, name, &fields[name], n)))
                .collect();
            let head = format!("{} {}", method.to_uppercase(), known.path(template));
            for (name, field) in fields {
                let Some(value) = with(document, field, planted) else { continue };
                let mut body = usual.clone();
                body.insert(name.clone(), value);
                let operation = operation["operationId"].as_str().unwrap().to_owned();
                all.push(Tried { operation, head: head.clone(), body: Value::Object(body) });
            }
        }
    }
    all
}

/// Everything that can be read by one answer.
pub fn read_everything(host: &Host, known: &Known, search: &mut Search) -> usize {
    let token = format!("Authorization: Bearer {}", host.owner().client.token().unwrap());
    let document = document();
    let mut read = 0;
    for (template, methods) in document["paths"].as_object().unwrap() {
        let answers = &methods["get"]["responses"]["200"]["content"];
        if answers.is_null() || !answers["text/event-stream"].is_null() {
            continue;
        }
        for query in ["", "?limit=100", "?session=SESSION", "?path=", "?worktree=WORKTREE&all=true"] {
            let query = query
                .replace("SESSION", known.get("session").unwrap_or_default())
                .replace("WORKTREE", known.get("worktree").unwrap_or_default());
            let head = format!("GET {}{query}", known.path(template));
            let answer = send(host, &head, std::slice::from_ref(&token), b"");
            read += usize::from(answer.starts_with(b"HTTP/1.1 200"));
            search.look(&head, &answer);
        }
    }
    read
}

/// SEC-16: no body, whichever field a secret stands in, brings it to an answer, a list, a log or a column.
#[test]
fn sec_16_no_field_of_any_body_brings_a_secret_out() {
    let planted = all();
    let mut search = Search::new(&planted);
    let address = tests::database();
    let host = host()
        .set("store.url", &address)
        .set("budgets.session_messages_per_minute", "0")
        .variable("PALISADE_MASTER_KEY", &tests::master_key())
        .start();
    let owner = host.owner();
    let worktree = host.tree(owner, "demo", "session");
    let new = api::CreateSessionRequest {
        worktree: worktree.id.clone(),
        agent: "fake".into(),
        title: None,
        mode: None,
        model: None,
        command: Vec::new(),
    };
    let session = owner.client.create_session(&new).unwrap().id;
    let known = Known::of(&host, &session, &worktree.id, &worktree.repo);
    let token = format!("Authorization: Bearer {}", owner.client.token().unwrap());
    let json_type = "Content-Type: application/json".to_owned();
    let document = document();
    let step = (planted.len() / tests::scale(planted.len(), 3)).max(1);
    let (mut operations, mut done, mut known_as_secret) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for (n, one) in planted.iter().enumerate() {
        for (at, Tried { operation, head, body }) in tried(&document, &known, n, one).into_iter().enumerate()
        {
            // Ordinarily some secrets in each field, and every secret in some.
            if (at + n) % step != 0 {
                continue;
            }
            let bytes = serde_json::to_vec(&body).unwrap();
            let answer = send(&host, &head, &[token.clone(), json_type.clone()], &bytes);
            assert!(answer.starts_with(b"HTTP/1.1 "), "{head}: no answer");
            search.look(&format!("the answer to {head} with {} in {body}", one.family), &answer);
            if answer.starts_with(b"HTTP/1.1 2") {
                done.insert(operation.clone());
            } else if String::from_utf8_lossy(&answer).contains("holds what looks like a secret") {
                known_as_secret.insert(operation.clone());
            }
            operations.insert(operation);
        }
    }
    assert!(operations.len() >= 38, "operations with a body: {operations:?}");
    assert!(done.len() >= 8, "some were done, so that there is something to read: {done:?}");
    // The rest of what is right but for the secret: it is refused for it, and not for how the request is written.
    let right = done.union(&known_as_secret).count();
    assert!(right >= 18, "done: {done:?}; refused for the secret: {known_as_secret:?}");
    assert!(read_everything(&host, &known, &mut search) >= 25, "answers that were read");
    let dump = tests::dump(&address);
    assert!(dump.contains("***"), "what was kept is kept without secrets");
    search.look("the database", dump.as_bytes());
    search.look("the log", host.log().as_bytes());
    search.assert_clean();
}
