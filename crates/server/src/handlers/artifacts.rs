//! What people register for workers: capabilities with their files, subagents, envs; versions and names.

use std::collections::BTreeSet;

use access::{Asks, Principal, Resource};
use api::{
    Artifact, ArtifactChange, ArtifactHistory, ArtifactOutcome, ArtifactPage, AssignArtifactRequest,
    NamedArtifact, RegisterCapabilityRequest, RegisterEnvRequest, RegisterSubagentRequest,
};
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use model::{ArtifactKind, ArtifactName, Reference};
use runtime::{InlineSecret, MOST_CAPABILITY, NewArtifact, NewContent, NewFile, Outcome, RegisterError};
use serde_json::Value;
use utoipa::IntoParams;
use vault::Secret;

use super::{Answer, Made, cursor, limit};
use crate::app::App;
use crate::extract::{Caller, Id, Ids, Json, Query, document, field, kept};
use crate::outflow;
use crate::patient::unread;
use crate::problem::Problem;

const REGISTER: &str = "artifact.register";
/// A piece of a file on its way out.
const PIECE: usize = 64 * 1_024;

/// Which page of a list.
#[derive(Debug, serde::Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct ArtifactPaging {
    /// The `next` of the page before.
    #[param(pattern = "^[a-z0-9](?:[a-z0-9-]{0,78}[a-z0-9])?$")]
    after: Option<String>,
    /// How many, 50 unless told.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<i64>,
}

/// Which file.
#[derive(Debug, serde::Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileQuery {
    /// Its path in the capability.
    #[param(max_length = 1024)]
    path: Option<String>,
}

fn outcome(name: &ArtifactName, dry_run: bool, done: &Outcome) -> ArtifactOutcome {
    ArtifactOutcome {
        kind: done.kind.to_string(),
        name: name.to_string(),
        hash: done.hash.to_string(),
        bytes: done.bytes,
        before: done.before.map(|hash| hash.to_string()),
        changed: done.before != Some(done.hash),
        dry_run,
    }
}

fn told(about: &runtime::Artifact) -> Artifact {
    Artifact {
        kind: about.kind.to_string(),
        hash: about.hash.to_string(),
        names: Vec::new(),
        bytes: about.bytes,
        registered_by: about.created_by.to_string(),
        registered_at: about.created_at,
        revoked_at: about.revoked_at,
        document: None,
    }
}

/// Lists the names of a kind of artifact, each with the version that it stands for.
#[utoipa::path(get, path = "/api/v1/artifacts/{kind}", tag = "artifacts",
    params(("kind" = String, Path, pattern = "^(?:capability|subagent|env)$"), ArtifactPaging), responses((status = 200, body = ArtifactPage)))]
pub(crate) async fn list(
    State(app): State<App>,
    Caller(who): Caller,
    Id(kind): Id<ArtifactKind>,
    Query(paging): Query<ArtifactPaging>,
) -> Answer<ArtifactPage> {
    let most = limit(paging.limit, 100)?;
    let page = app.runtime.artifacts(&who, kind, cursor(paging.after)?, most).await?;
    let item = |one: runtime::NamedArtifact| NamedArtifact {
        name: one.name.to_string(),
        hash: one.about.hash.to_string(),
        registered_at: one.about.created_at,
        revoked_at: one.about.revoked_at,
    };
    Ok(axum::Json(ArtifactPage { items: page.items.into_iter().map(item).collect(), next: page.next }))
}

/// One version, by a name that stands for it or by its hash.
#[utoipa::path(get, path = "/api/v1/artifacts/{kind}/{artifact}", tag = "artifacts",
    params(("kind" = String, Path, pattern = "^(?:capability|subagent|env)$"), ("artifact" = String, Path, pattern = "^(?:sha256:[0-9a-f]{64}|[a-z0-9-]{1,80})$")),
    responses((status = 200, body = Artifact)))]
pub(crate) async fn read(
    State(app): State<App>,
    Caller(who): Caller,
    Ids(kind, reference): Ids<ArtifactKind, Reference>,
) -> Answer<Artifact> {
    let view = app.runtime.artifact(&who, kind, reference).await?;
    let names = view.names.iter().map(ToString::to_string).collect();
    let document = runtime::masked_document(crate::logs::redactor(), view.about.kind, view.document);
    Ok(axum::Json(Artifact { names, document: Some(document), ..told(&view.about) }))
}

/// What a name stood for, the newest first.
#[utoipa::path(get, path = "/api/v1/artifacts/{kind}/{artifact}/history", tag = "artifacts",
    params(("kind" = String, Path, pattern = "^(?:capability|subagent|env)$"), ("artifact" = String, Path, pattern = "^[a-z0-9-]{1,80}$")),
    responses((status = 200, body = ArtifactHistory)))]
pub(crate) async fn history(
    State(app): State<App>,
    Caller(who): Caller,
    Ids(kind, name): Ids<ArtifactKind, ArtifactName>,
) -> Answer<ArtifactHistory> {
    let changes = app.runtime.artifact_history(&who, kind, name).await?;
    let item = |one: runtime::ArtifactChange| ArtifactChange {
        hash: one.hash.to_string(),
        change: one.change,
        by: one.by.to_string(),
        at: one.at,
    };
    Ok(axum::Json(ArtifactHistory { items: changes.into_iter().map(item).collect() }))
}

/// Lets a name stand for another version.
#[utoipa::path(post, path = "/api/v1/artifacts/{kind}/{artifact}/assign", tag = "artifacts",
    params(("kind" = String, Path, pattern = "^(?:capability|subagent|env)$"), ("artifact" = String, Path, pattern = "^[a-z0-9-]{1,80}$")),
    request_body = AssignArtifactRequest, responses((status = 200, body = ArtifactOutcome)))]
pub(crate) async fn assign(
    State(app): State<App>,
    Caller(who): Caller,
    Ids(kind, name): Ids<ArtifactKind, ArtifactName>,
    Json(body): Json<AssignArtifactRequest>,
) -> Answer<ArtifactOutcome> {
    let to: Reference = field(&app, &who, "artifact.assign", "to", &body.to).await?;
    let done = app.runtime.assign_artifact(&who, kind, name.clone(), to).await?;
    Ok(axum::Json(outcome(&name, false, &done)))
}

/// Takes a version out of use, for good.
#[utoipa::path(post, path = "/api/v1/artifacts/{kind}/{artifact}/revoke", tag = "artifacts",
    params(("kind" = String, Path, pattern = "^(?:capability|subagent|env)$"), ("artifact" = String, Path, pattern = "^(?:sha256:[0-9a-f]{64}|[a-z0-9-]{1,80})$")),
    responses((status = 200, body = Artifact)))]
pub(crate) async fn revoke(
    State(app): State<App>,
    Caller(who): Caller,
    Ids(kind, reference): Ids<ArtifactKind, Reference>,
) -> Answer<Artifact> {
    Ok(axum::Json(told(&app.runtime.revoke_artifact(&who, kind, reference).await?)))
}

/// Registers a capability. One with files comes as `application/vnd.palisade.capability`: the request as one line of JSON,
/// then the bytes of its files in their order.
#[utoipa::path(post, path = "/api/v1/capabilities", tag = "artifacts", request_body = RegisterCapabilityRequest,
    responses((status = 200, body = ArtifactOutcome), (status = 201, body = ArtifactOutcome)))]
pub(crate) async fn register_capability(
    State(app): State<App>,
    Caller(who): Caller,
    request: Request,
) -> Made<ArtifactOutcome> {
    // Nobody else's files are read at all.
    let action = access::action_named(REGISTER).ok_or_else(Problem::internal)?;
    app.runtime.gate().check(&who, action, Resource::Installation, Asks::default()).await?;
    let _seat = app.uploads.take(who.user()).map_err(|full| full.problem("capabilities being sent"))?;
    let (asked, files) = match received(&app, request).await {
        Ok(received) => received,
        Err(problem) => {
            app.runtime.refuse_malformed(&who, action, problem.detail()).await;
            return Err(problem);
        }
    };
    let name: ArtifactName = kept(&app, &who, REGISTER, "name", &asked.name).await?;
    let content = NewContent::Capability(Value::Object(asked.document), files);
    register(&app, &who, name, content, asked.accept_credentials, asked.dry_run).await
}

/// One file of a capability, as it was registered.
#[utoipa::path(get, path = "/api/v1/capabilities/{artifact}/file", tag = "artifacts",
    params(("artifact" = String, Path, pattern = "^(?:sha256:[0-9a-f]{64}|[a-z0-9-]{1,80})$"), FileQuery),
    responses((status = 200, content_type = "application/octet-stream", body = Vec<u8>)))]
pub(crate) async fn file(
    State(app): State<App>,
    Caller(who): Caller,
    Id(reference): Id<Reference>,
    Query(query): Query<FileQuery>,
) -> Result<Response, Problem> {
    // Taken until the last byte is: it is in memory as long.
    let seat = app.uploads.take(who.user()).map_err(|full| full.problem("capabilities being sent"))?;
    let content = app.runtime.capability_file(&who, reference, &query.path.unwrap_or_default()).await?;
    let body = outflow::produced(seat, move |send| {
        let _all_taken = content.chunks(PIECE).all(|piece| send(Ok(Bytes::copy_from_slice(piece))));
    })?;
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], body).into_response())
}

/// Registers a subagent.
#[utoipa::path(post, path = "/api/v1/subagents", tag = "artifacts", request_body = RegisterSubagentRequest,
    responses((status = 200, body = ArtifactOutcome), (status = 201, body = ArtifactOutcome)))]
pub(crate) async fn register_subagent(
    State(app): State<App>,
    Caller(who): Caller,
    Json(body): Json<RegisterSubagentRequest>,
) -> Made<ArtifactOutcome> {
    let name: ArtifactName = kept(&app, &who, REGISTER, "name", &body.name).await?;
    let planned = if body.dry_run { body.planned.into_iter().collect() } else { BTreeSet::new() };
    let content = NewContent::Subagent(Value::Object(body.document), planned);
    register(&app, &who, name, content, body.accept_credentials, body.dry_run).await
}

/// Registers an env. Secrets that come along go into the vault, as the installation's.
#[utoipa::path(post, path = "/api/v1/envs", tag = "artifacts", request_body = RegisterEnvRequest,
    responses((status = 200, body = ArtifactOutcome), (status = 201, body = ArtifactOutcome)))]
pub(crate) async fn register_env(
    State(app): State<App>,
    Caller(who): Caller,
    Json(body): Json<RegisterEnvRequest>,
) -> Made<ArtifactOutcome> {
    let name: ArtifactName = kept(&app, &who, REGISTER, "name", &body.name).await?;
    let inline = body.inline.into_iter().map(|(variable, secret)| InlineSecret {
        variable,
        value: Secret::new(secret.value.into_text().into_bytes()),
        seconds: secret.ttl_seconds,
        renew: secret.renew,
    });
    let content = NewContent::Env(Value::Object(body.document), inline.collect());
    register(&app, &who, name, content, body.accept_credentials, body.dry_run).await
}

async fn register(
    app: &App,
    who: &Principal,
    name: ArtifactName,
    content: NewContent,
    accept_credentials: bool,
    dry_run: bool,
) -> Made<ArtifactOutcome> {
    let new = NewArtifact { name: name.clone(), content, accept_credentials, dry_run };
    let done = app.runtime.register(who, new).await.map_err(|error| match error {
        RegisterError::Faults(faults) => Problem::unprocessable(faults.to_string()),
        RegisterError::Act(error) => error.into(),
    })?;
    let told = outcome(&name, dry_run, &done);
    let status = if told.changed && !dry_run { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, axum::Json(told)))
}

/// A body that is read piece by piece.
struct Arriving {
    body: Body,
    held: Bytes,
    most: usize,
}

impl Arriving {
    /// The next piece; none at the end.
    async fn more(&mut self) -> Result<bool, Problem> {
        while self.held.is_empty() {
            match self.body.frame().await {
                None => return Ok(false),
                Some(Ok(frame)) => self.held = frame.into_data().unwrap_or_default(),
                Some(Err(error)) => return Err(unread(&error, self.most)),
            }
        }
        Ok(true)
    }

    /// Everything up to a line end, or to the end; so much at the most.
    async fn line(&mut self, most: usize) -> Result<Vec<u8>, Problem> {
        let mut line = Vec::new();
        while self.more().await? {
            let end = self.held.iter().position(|byte| *byte == b'\n');
            line.extend(self.held.split_to(end.unwrap_or(self.held.len())));
            if line.len() > most {
                return Err(Problem::too_large(most));
            }
            if end.is_some() {
                drop(self.held.split_to(1));
                break;
            }
        }
        Ok(line)
    }

    /// Exactly so many bytes.
    async fn exactly(&mut self, count: usize) -> Result<Vec<u8>, Problem> {
        let mut bytes = Vec::with_capacity(count);
        while bytes.len() < count {
            if !self.more().await? {
                return Err(Problem::unprocessable("`files`: fewer bytes came than they have"));
            }
            bytes.extend(self.held.split_to(self.held.len().min(count - bytes.len())));
        }
        Ok(bytes)
    }

    /// Takes what is left, so that whoever still sends gets the answer; bounded like everything that comes.
    async fn drain(&mut self) -> bool {
        let mut any = false;
        while let Ok(true) = self.more().await {
            any = true;
            self.held = Bytes::new();
        }
        any
    }
}

/// A capability as it came: the request, and the files that follow it.
async fn received(app: &App, request: Request) -> Result<(RegisterCapabilityRequest, Vec<NewFile>), Problem> {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let (usual, most) = (app.settings.body_bytes, MOST_CAPABILITY);
    let mut body = Arriving { body: request.into_body(), held: Bytes::new(), most };
    let outcome = match kind.as_str() {
        api::CAPABILITY_TYPE => with_files(&mut body, usual).await,
        "application/json" => alone(&mut body, usual).await,
        _ => {
            let text =
                format!("send `Content-Type: application/json`, or `{}` with files", api::CAPABILITY_TYPE);
            Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, api::Code::BadRequest, text))
        }
    };
    if outcome.is_err() {
        body.drain().await;
    }
    outcome
}

/// A request without files, which may have more than one line.
async fn alone(
    body: &mut Arriving,
    usual: usize,
) -> Result<(RegisterCapabilityRequest, Vec<NewFile>), Problem> {
    let mut text = Vec::new();
    while body.more().await? {
        text.extend(std::mem::take(&mut body.held));
        if text.len() > usual {
            return Err(Problem::too_large(usual));
        }
    }
    let asked: RegisterCapabilityRequest = document(&text)?;
    match asked.files.is_empty() {
        true => Ok((asked, Vec::new())),
        false => {
            let text = format!("`files`: send them behind the request, as `{}`", api::CAPABILITY_TYPE);
            Err(Problem::unprocessable(text))
        }
    }
}

async fn with_files(
    body: &mut Arriving,
    usual: usize,
) -> Result<(RegisterCapabilityRequest, Vec<NewFile>), Problem> {
    let asked: RegisterCapabilityRequest = document(&body.line(usual).await?)?;
    let sizes = asked.files.iter().map(|file| usize::try_from(file.bytes).unwrap_or(usize::MAX));
    if sizes.fold(0_usize, usize::saturating_add) > MOST_CAPABILITY {
        return Err(Problem::too_large(MOST_CAPABILITY));
    }
    if asked.files.len() > runtime::MOST_CAPABILITY_FILES {
        let most = runtime::MOST_CAPABILITY_FILES;
        return Err(Problem::unprocessable(format!("`files`: at most {most} are taken")));
    }
    let mut files = Vec::with_capacity(asked.files.len());
    for file in &asked.files {
        let content = body.exactly(usize::try_from(file.bytes).unwrap_or(usize::MAX)).await?;
        files.push(NewFile { path: file.path.clone(), executable: file.executable, content });
    }
    match body.drain().await {
        true => Err(Problem::unprocessable("`files`: more bytes came than they have")),
        false => Ok((asked, files)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arriving(bytes: &[u8], size: usize) -> Arriving {
        let pieces: Vec<Result<Bytes, std::io::Error>> =
            bytes.chunks(size).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
        let body = Body::from_stream(futures_util::stream::iter(pieces));
        Arriving { body, held: Bytes::new(), most: MOST_CAPABILITY }
    }

    #[tokio::test]
    async fn reg_01_where_the_body_was_cut_does_not_matter() {
        let head =
            r#"{"name":"a","files":[{"path":"x","bytes":4},{"path":"y","bytes":0},{"path":"z","bytes":3}]}"#;
        let bytes = [head.as_bytes(), b"\n1\n34567"].concat();
        for size in 1..=bytes.len() {
            let (asked, files) = with_files(&mut arriving(&bytes, size), 1_000).await.unwrap();
            let contents: Vec<_> = files.iter().map(|file| file.content.as_slice()).collect();
            assert_eq!((asked.files.len(), contents), (3, vec![&b"1\n34"[..], b"", b"567"]), "{size}");
        }
        for wrong in
            [&bytes[..bytes.len() - 1], &[bytes.as_slice(), b"8"].concat(), &bytes[..20], b"", b"\n", b"[]\n"]
        {
            for size in [1, 7, 1_000] {
                assert!(with_files(&mut arriving(wrong, size), 1_000).await.is_err());
            }
        }
        assert!(with_files(&mut arriving(&bytes, 5), 20).await.is_err(), "a request that is too long");
    }
}
