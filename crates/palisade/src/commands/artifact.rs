//! What people register for workers: directories and documents in, versions out.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use api::{
    ArtifactOutcome, CapabilityFile, Client, EnvSecret, RegisterCapabilityRequest, RegisterEnvRequest,
    RegisterSubagentRequest,
};
use files::{FileError, Kind, Root, Rule};
use serde_json::{Map, Value, json};

use super::secret;
use crate::cli::{self, Registering};
use crate::failure::Failure;
use crate::output::{Shown, moment, table};
use crate::session::Session;

/// What the daemon takes of files, and what a document may have.
const MOST_BYTES: u64 = 50 * 1_024 * 1_024;
const MOST_FILES: usize = 4_096;
const MOST_DEPTH: usize = 32;
const MOST_DOCUMENT: u64 = 1_024 * 1_024;
/// The file of a directory that says what is no file.
const ABOUT: &str = "capability.toml";

pub(super) fn capability(session: &Session, command: cli::Capability) -> Result<Shown, Failure> {
    let client = session.client()?;
    match command {
        cli::Capability::Register { name, directory, how } => {
            Ok(shown(&register_directory(&client, &name, &directory, &how)?))
        }
        cli::Capability::Fetch { reference, path, output } => {
            let bytes = client.capability_file(&reference, &path)?;
            write_new(&output, &bytes)?;
            let text = format!("{} bytes are in {}\n", bytes.len(), output.display());
            Ok(Shown::new(&json!({ "output": output, "bytes": bytes.len() }), text))
        }
        cli::Capability::Common(command) => common(&client, "capability", command),
    }
}

pub(super) fn subagent(session: &Session, command: cli::Subagent) -> Result<Shown, Failure> {
    let client = session.client()?;
    match command {
        cli::Subagent::Register { name, file, how } => {
            Ok(shown(&register_subagent(&client, &name, document(&file)?, &how, &[])?))
        }
        cli::Subagent::Common(command) => common(&client, "subagent", command),
    }
}

pub(super) fn env(session: &Session, command: cli::Env) -> Result<Shown, Failure> {
    let client = session.client()?;
    match command {
        cli::Env::Register { name, file, secret: variable, ttl, renew, how } => {
            let document = document(&file)?;
            let typed = match variable {
                Some(variable) => {
                    Some((variable, EnvSecret { value: secret::value()?, ttl_seconds: ttl, renew }))
                }
                None => None,
            };
            Ok(shown(&register_env(&client, &name, document, typed, &how)?))
        }
        cli::Env::Common(command) => common(&client, "env", command),
    }
}

fn common(client: &Client, kind: &str, command: cli::Artifact) -> Result<Shown, Failure> {
    match command {
        cli::Artifact::Assign { name, to } => Ok(shown(&client.assign_artifact(kind, &name, &to)?)),
        cli::Artifact::List => {
            let (mut all, mut after) = (Vec::new(), None);
            loop {
                let page = client.artifacts(kind, after.as_deref())?;
                all.extend(page.items);
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            let rows: Vec<_> = all
                .iter()
                .map(|one| {
                    let state = if one.revoked_at.is_some() { "revoked" } else { "" };
                    vec![one.name.clone(), one.hash.clone(), moment(one.registered_at), state.to_owned()]
                })
                .collect();
            Ok(Shown::new(&all, table(&["NAME", "VERSION", "REGISTERED", ""], &rows)))
        }
        cli::Artifact::Show { reference } => {
            let mut found = client.artifact(kind, &reference)?;
            // A name beside the name of a secret variable would be masked like one: they are told as a list.
            let secrets =
                found.document.as_mut().filter(|_| kind == "env").and_then(|all| all.get_mut("secrets"));
            if let Some(Value::Object(named)) = secrets.as_deref() {
                let one = |(variable, name): (&String, &Value)| json!({ "variable": variable, "from": name });
                let list: Vec<_> = named.iter().map(one).collect();
                if let Some(secrets) = secrets {
                    *secrets = list.into();
                }
            }
            let mut text = format!(
                "{kind} {}\nnames       {}\nregistered  {} by {}\n",
                found.hash,
                found.names.join(" "),
                moment(found.registered_at),
                found.registered_by
            );
            if let Some(at) = found.revoked_at {
                text.push_str(&format!("revoked     {}\n", moment(at)));
            }
            if let Some(document) = &found.document {
                text.push_str(&serde_json::to_string_pretty(document).unwrap_or_default());
                text.push('\n');
            }
            Ok(Shown::new(&found, text))
        }
        cli::Artifact::Revoke { reference } => {
            let gone = client.revoke_artifact(kind, &reference)?;
            Ok(Shown::new(&gone, format!("{kind} {} is revoked, for good\n", gone.hash)))
        }
        cli::Artifact::History { name } => {
            let all = client.artifact_history(kind, &name)?.items;
            let rows: Vec<_> = all
                .iter()
                .map(|one| vec![moment(one.at), one.change.clone(), one.hash.clone(), one.by.clone()])
                .collect();
            Ok(Shown::new(&all, table(&["WHEN", "CHANGE", "VERSION", "BY"], &rows)))
        }
    }
}

fn shown(done: &ArtifactOutcome) -> Shown {
    Shown::new(done, format!("{}\n", told(done)))
}

/// What became of one, in a line.
pub(super) fn told(done: &ArtifactOutcome) -> String {
    let thing = format!("{} {}", done.kind, done.name);
    match (done.changed, &done.before, done.dry_run) {
        (false, _, _) => format!("{thing} stands for {} already; nothing changed", done.hash),
        (true, None, false) => format!("{thing} stands for {}", done.hash),
        (true, Some(before), false) => {
            format!("{thing} stands for {}, and no longer for {before}", done.hash)
        }
        (true, None, true) => format!("{thing} would be new: {}", done.hash),
        (true, Some(before), true) => format!("{thing} would go from {before} to {}", done.hash),
    }
}

pub(super) fn register_directory(
    client: &Client,
    name: &str,
    directory: &Path,
    how: &Registering,
) -> Result<ArtifactOutcome, Failure> {
    let root = Root::open(directory).map_err(Failure::file(directory))?;
    let mut found = Gathered::default();
    found
        .gather(&root, Path::new(""), 0)
        .map_err(|why| Failure::Usage(format!("`{}`: {why}", directory.display())))?;
    let document = match &found.about {
        Some(text) => table_of(text, &directory.join(ABOUT))?,
        None => Map::new(),
    };
    let body = RegisterCapabilityRequest {
        name: name.to_owned(),
        document,
        files: found.files,
        accept_credentials: how.accept_credentials,
        dry_run: how.dry_run,
    };
    Ok(client.register_capability(&body, &found.contents)?)
}

pub(super) fn register_subagent(
    client: &Client,
    name: &str,
    document: Map<String, Value>,
    how: &Registering,
    planned: &[String],
) -> Result<ArtifactOutcome, Failure> {
    Ok(client.register_subagent(&RegisterSubagentRequest {
        name: name.to_owned(),
        document,
        accept_credentials: how.accept_credentials,
        dry_run: how.dry_run,
        planned: planned.to_vec(),
    })?)
}

pub(super) fn register_env(
    client: &Client,
    name: &str,
    mut document: Map<String, Value>,
    typed: Option<(String, EnvSecret)>,
    how: &Registering,
) -> Result<ArtifactOutcome, Failure> {
    let mut inline: BTreeMap<String, EnvSecret> = match document.remove("inline") {
        Some(given) => serde_json::from_value(given).map_err(|_| {
            Failure::Usage(
                "`inline`: expected variables, each with `value` and perhaps `ttlSeconds` and `renew`".into(),
            )
        })?,
        None => BTreeMap::new(),
    };
    inline.extend(typed);
    Ok(client.register_env(&RegisterEnvRequest {
        name: name.to_owned(),
        document,
        inline,
        accept_credentials: how.accept_credentials,
        dry_run: how.dry_run,
    })?)
}

/// What a directory holds.
#[derive(Default)]
struct Gathered {
    files: Vec<CapabilityFile>,
    contents: Vec<Vec<u8>>,
    about: Option<String>,
    bytes: u64,
}

impl Gathered {
    fn gather(&mut self, root: &Root, folder: &Path, depth: usize) -> Result<(), String> {
        if depth > MOST_DEPTH {
            return Err(format!("directories are more than {MOST_DEPTH} deep"));
        }
        for entry in root.list(folder, MOST_FILES).map_err(|error| error.to_string())? {
            let path = folder.join(&entry.name);
            let text =
                path.to_str().ok_or_else(|| format!("the name of `{}` is not text", path.display()))?;
            match entry.kind {
                Kind::Folder => self.gather(root, &path, depth + 1)?,
                Kind::File => {
                    self.take(root, &path, text.to_owned()).map_err(|why| format!("`{text}`: {why}"))?
                }
                Kind::Link => return Err(format!("`{text}` is a link; a capability has plain files only")),
                Kind::Other => return Err(format!("`{text}` is no plain file")),
            }
        }
        Ok(())
    }

    fn take(&mut self, root: &Root, path: &Path, text: String) -> Result<(), String> {
        let odd = |error: FileError| error.to_string();
        let file = root.file(path, Rule::Any).map_err(odd)?;
        let mode = file.metadata().map_err(|error| error.to_string())?.permissions().mode();
        let mut content = Vec::new();
        let read =
            file.take(MOST_BYTES.saturating_sub(self.bytes).saturating_add(1)).read_to_end(&mut content);
        read.map_err(|error| error.to_string())?;
        if text == ABOUT {
            self.about = Some(String::from_utf8(content).map_err(|_| "it is not text".to_owned())?);
            return Ok(());
        }
        self.bytes = self.bytes.saturating_add(content.len() as u64);
        if self.bytes > MOST_BYTES {
            return Err(format!("the files have more than {MOST_BYTES} bytes together"));
        }
        if self.files.len() >= MOST_FILES {
            return Err(format!("there are more than {MOST_FILES} files"));
        }
        self.files.push(CapabilityFile {
            path: text,
            bytes: content.len() as u64,
            executable: mode & 0o111 != 0,
        });
        self.contents.push(content);
        Ok(())
    }
}

/// A document, TOML or JSON by its name.
pub(super) fn document(file: &Path) -> Result<Map<String, Value>, Failure> {
    let bytes = files::read(file, MOST_DOCUMENT, Rule::Any)
        .map_err(|error| Failure::Usage(format!("`{}`: {error}", file.display())))?;
    let text = String::from_utf8(bytes);
    let text = text.map_err(|_| Failure::Usage(format!("`{}` is not text", file.display())))?;
    if file.extension().is_some_and(|end| end == "json") {
        let parsed = serde_json::from_str(&text);
        return parsed.map_err(|error| {
            let place = format!("line {}, column {}", error.line(), error.column());
            Failure::Usage(format!("`{}`: not a JSON object ({place})", file.display()))
        });
    }
    table_of(&text, file)
}

fn table_of(text: &str, file: &Path) -> Result<Map<String, Value>, Failure> {
    let wrong = |why: &str| Failure::Usage(format!("`{}`: {why}", file.display()));
    let table: toml::Table = toml::from_str(text).map_err(|error| wrong(error.message()))?;
    match serde_json::to_value(table) {
        Ok(Value::Object(fields)) => Ok(fields),
        _ => Err(wrong("expected a table")),
    }
}

/// Writes a file that is not there yet.
fn write_new(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let mut file = std::fs::File::create_new(path).map_err(Failure::file(path))?;
    std::io::Write::write_all(&mut file, bytes).map_err(Failure::file(path))
}

/// A path of a document, which is beside it unless it is absolute.
pub(super) fn beside(manifest: &Path, path: &str) -> PathBuf {
    manifest.parent().map_or_else(|| PathBuf::from(path), |folder| folder.join(path))
}
