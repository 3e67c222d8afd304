//! Everything that people register, at once: capabilities, then subagents, then envs, from one document.
//!
//! Invariant: it stops at the first that does not do, and says what was done before it; what stands already changes nothing.

use std::collections::BTreeMap;
use std::path::Path;

use api::{ArtifactOutcome, Client};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::artifact::{beside, document, register_directory, register_env, register_subagent, told};
use crate::cli::{DeployArgs, Registering};
use crate::failure::Failure;
use crate::output::Shown;
use crate::session::Session;

/// What is registered, by name.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    #[serde(default)]
    capabilities: BTreeMap<String, Directory>,
    #[serde(default)]
    subagents: BTreeMap<String, Document>,
    #[serde(default)]
    envs: BTreeMap<String, Document>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Directory {
    directory: String,
}

/// The path of a document, or the document itself.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Document {
    File(DocumentFile),
    Whole(Map<String, Value>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DocumentFile {
    document: String,
}

impl Document {
    fn read(self, manifest: &Path) -> Result<Map<String, Value>, Failure> {
        match self {
            Self::File(file) => document(&beside(manifest, &file.document)),
            Self::Whole(fields) => Ok(fields),
        }
    }
}

pub(super) fn run(session: &Session, args: DeployArgs) -> Result<Shown, Failure> {
    let client = session.client()?;
    let fields = document(&args.manifest)?;
    let manifest: Manifest = serde_json::from_value(Value::Object(fields))
        .map_err(|error| Failure::Usage(format!("`{}`: {error}", args.manifest.display())))?;
    let mut done = Vec::new();
    match all(&client, manifest, &args.manifest, &args.how, &mut done) {
        Ok(()) => {
            let mut text: String = done.iter().map(|one| format!("{}\n", told(one))).collect();
            if args.how.dry_run {
                text.push_str("Nothing was changed.\n");
            }
            Ok(Shown::new(&done, text))
        }
        Err(Stopped { what, failure }) => {
            let before = match (done.is_empty(), args.how.dry_run) {
                (_, true) => "nothing was changed".to_owned(),
                (true, false) => "nothing was done before it".to_owned(),
                (false, false) => {
                    let names = done.iter().map(|one| format!("{} {}", one.kind, one.name));
                    format!("done before it: {}", names.collect::<Vec<_>>().join(", "))
                }
            };
            Err(Failure::Deploy(format!("{what}: {failure}; {before}"), failure))
        }
    }
}

/// What it stopped at, and why.
struct Stopped {
    what: String,
    failure: Box<Failure>,
}

impl Stopped {
    fn at(kind: &str, name: &str) -> impl FnOnce(Failure) -> Self {
        let what = format!("{kind} {name}");
        move |failure| Self { what, failure: Box::new(failure) }
    }
}

fn all(
    client: &Client,
    manifest: Manifest,
    file: &Path,
    how: &Registering,
    done: &mut Vec<ArtifactOutcome>,
) -> Result<(), Stopped> {
    let planned: Vec<String> = manifest.capabilities.keys().filter(|_| how.dry_run).cloned().collect();
    for (name, one) in manifest.capabilities {
        let made = register_directory(client, &name, &beside(file, &one.directory), how);
        done.push(made.map_err(Stopped::at("capability", &name))?);
    }
    for (name, one) in manifest.subagents {
        let made =
            one.read(file).and_then(|document| register_subagent(client, &name, document, how, &planned));
        done.push(made.map_err(Stopped::at("subagent", &name))?);
    }
    for (name, one) in manifest.envs {
        let made = one.read(file).and_then(|document| register_env(client, &name, document, None, how));
        done.push(made.map_err(Stopped::at("env", &name))?);
    }
    Ok(())
}
