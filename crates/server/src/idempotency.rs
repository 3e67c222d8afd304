//! Repeatable writes: the first answer under an `Idempotency-Key` is the only one, for 24 hours.
//!
//! Answers may hold secrets that are shown once, so they are kept sealed, and told again only to the very same
//! credential. A keyed write runs to its end even
//! when its caller is gone: coming back for the answer is what the key is for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use access::Principal;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use model::WorktreeId;
use runtime::{EngineError, Remembered, StoreError};
use sha2::{Digest, Sha256};
use tokio::sync::Notify;
use vault::{Place, Sealed};

use crate::app::App;
use crate::extract::Attempt;
use crate::patient::whole;
use crate::problem::{Problem, REQUEST};
use crate::routes::{Needs, Route, UPLOAD};

const KEPT: i64 = 24 * 60 * 60 * 1_000;
const PATIENCE: Duration = Duration::from_secs(30);
/// Longer answers are given and not kept: more cannot be sealed.
const MOST_ANSWER: usize = 1024 * 1024 - 1024;

/// Requests under way, so that their doubles wait instead of running.
#[derive(Debug, Default)]
pub(crate) struct InFlight(Mutex<HashMap<(String, String), Arc<Notify>>>);

/// Ends the waiting of doubles, however the first request ended.
struct Under<'a> {
    all: &'a InFlight,
    name: (String, String),
}

impl InFlight {
    fn enter(&self, name: (String, String)) -> Result<Under<'_>, Arc<Notify>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match all.get(&name) {
            Some(first) => Err(Arc::clone(first)),
            None => {
                all.insert(name.clone(), Arc::default());
                Ok(Under { all: self, name })
            }
        }
    }
}

impl Drop for Under<'_> {
    fn drop(&mut self) {
        let mut all = self.all.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waiting) = all.remove(&self.name) {
            waiting.notify_waiters();
        }
    }
}

/// Runs a write once per key and gives its answer to every repetition.
pub(crate) async fn remember(State(app): State<App>, request: Request, next: Next) -> Response {
    let reads = request.method() == Method::GET || request.method() == Method::HEAD;
    let keyed = request.headers().get("idempotency-key").filter(|_| !reads).cloned();
    // Content that is registered twice is the same twice, without a copy of all of it being kept here meanwhile.
    let uploads = request.extensions().get::<&'static Route>().is_some_and(|route| route.path == UPLOAD);
    let Some(key) = keyed.filter(|_| !uploads) else { return next.run(request).await };
    let Some(who) = request.extensions().get::<Principal>().map(Principal::mark) else {
        return next.run(request).await;
    };
    let fits = |text: &&str| (1..=128).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
    let Some(key) = key.to_str().ok().filter(fits).map(str::to_owned) else {
        return Problem::bad_request("an `Idempotency-Key` is 1 to 128 printable characters").into_response();
    };
    // Whoever puts a token there by mistake has not put it into the store.
    let key = hex::encode(Sha256::digest(key));
    let id = REQUEST.try_with(|id| *id).unwrap_or_else(|_| model::RequestId::random());
    let whole =
        async move { once(&app, who, key, request, next).await.unwrap_or_else(Problem::into_response) };
    match tokio::spawn(REQUEST.scope(id, whole)).await {
        Ok(response) => response,
        Err(_) => Problem::internal().into_response(),
    }
}

async fn once(
    app: &App,
    who: String,
    key: String,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let bytes = match whole(body, app.settings.body_bytes).await {
        Ok(bytes) => bytes,
        Err(problem) => {
            Attempt::of(&parts.extensions).record(app, problem.detail()).await;
            return Err(problem);
        }
    };
    let mut digest = Sha256::new();
    // A body may hold a secret that could be guessed: without the key its digest tells nothing.
    digest.update(app.runtime.ring().subkey(vault::Purpose::Digests).expose());
    digest.update(parts.method.as_str());
    digest.update([0]);
    digest.update(parts.uri.to_string());
    digest.update([0]);
    digest.update(&bytes);
    let print = hex::encode(digest.finalize());
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let under = loop {
        match app.in_flight.enter((who.clone(), key.clone())) {
            Ok(under) => break under,
            Err(first) => {
                // The first may end between the look and the wait; a short wait makes that harmless.
                let wait = tokio::time::timeout(Duration::from_millis(100), first.notified());
                drop(wait.await);
                if tokio::time::Instant::now() > deadline {
                    return Err(Problem::conflict(
                        "the first request with this `Idempotency-Key` is still running",
                    ));
                }
            }
        }
    };
    let forget = app.runtime.clock().now().saturating_sub(KEPT);
    let narrows = narrows(&parts.extensions);
    let claim = app.runtime.answers().claim_key(&who, &key, &print, forget).await;
    let request = Request::from_parts(parts, Body::from(bytes));
    let answer = match claim {
        // What narrows happens also on a full disk, and twice is the same as once.
        Err(StoreError::Engine(EngineError::Full)) if narrows => Ok(next.run(request).await),
        Err(error) => Err(error.into()),
        Ok(Remembered::Fresh) => first_answer(app, &who, &key, next.run(request).await).await,
        Ok(Remembered::Answer(status, sealed)) => {
            let caller = request.extensions().get::<Principal>().cloned();
            let named = request.uri().path().split('/').find_map(|part| part.parse::<WorktreeId>().ok());
            match hidden_since(app, caller, named).await {
                true => Err(Problem::not_found()),
                false => replay(app, &who, &key, status, sealed),
            }
        }
        Ok(Remembered::Another) => Err(Problem::unprocessable(
            "this `Idempotency-Key` was used for another request; choose a new one",
        )),
        Ok(Remembered::Pending) => Err(Problem::conflict(
            "the first request with this `Idempotency-Key` was interrupted, or its answer was too long to be kept; look at what there is before trying with a new key",
        )),
    };
    drop(under);
    answer
}

/// Whether the worktree that the request names may no longer be known to the caller: then its answer is not
/// repeated either.
async fn hidden_since(app: &App, who: Option<Principal>, named: Option<WorktreeId>) -> bool {
    let Some(who) = who else { return true };
    let Some(worktree) = named else { return false };
    let gate = app.runtime.gate();
    let as_of = gate.epoch().now();
    match gate.worktree(worktree).await {
        Ok(facts) => facts.is_some_and(|facts| !gate.may_read(&who, &facts, as_of)),
        Err(_) => true,
    }
}

/// Whether the request asks for something that only narrows, or may: what widens after all is refused where it is
/// judged, and twice is the same as once for these too.
fn narrows(extensions: &axum::http::Extensions) -> bool {
    match extensions.get::<&'static Route>().map(|route| route.needs) {
        Some(Needs::Action(name)) => access::action_named(name)
            .is_some_and(|action| action.class == access::Class::Narrows || action.may_narrow),
        Some(Needs::Nobody | Needs::Ticket(_)) | None => false,
    }
}

/// An answer, read as far as it can be kept.
enum Short {
    Whole(Vec<u8>),
    /// Too long: all of it, to be sent on.
    Longer(Body),
}

async fn short(body: Body) -> Result<Short, axum::Error> {
    let mut rest = body.into_data_stream();
    let mut bytes = Vec::new();
    while let Some(piece) = rest.next().await {
        bytes.extend_from_slice(&piece?);
        if bytes.len() > MOST_ANSWER {
            let begun = futures_util::stream::once(std::future::ready(Ok(Bytes::from(bytes))));
            return Ok(Short::Longer(Body::from_stream(begun.chain(rest))));
        }
    }
    Ok(Short::Whole(bytes))
}

/// Keeps what was answered, unless nothing can have happened and trying again makes sense.
async fn first_answer(app: &App, who: &str, key: &str, response: Response) -> Result<Response, Problem> {
    let status = response.status();
    // After a 500 nobody knows what happened, so the key stays taken.
    let nothing_happened =
        [StatusCode::SERVICE_UNAVAILABLE, StatusCode::TOO_MANY_REQUESTS, StatusCode::UNAUTHORIZED];
    if nothing_happened.contains(&status) {
        if let Err(error) = app.runtime.answers().free_key(who, key).await {
            tracing::warn!(%error, "an idempotency key could not be given back");
        }
        return Ok(response);
    }
    let (parts, body) = response.into_parts();
    let bytes = match short(body).await.map_err(|_| Problem::internal())? {
        Short::Whole(bytes) => bytes,
        Short::Longer(body) => return Ok(Response::from_parts(parts, body)),
    };
    let kind =
        parts.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut plain = kind.as_bytes().to_vec();
    plain.push(b'\n');
    plain.extend_from_slice(&bytes);
    // What was done is done, and is said so; only a repetition will not hear it.
    match app.runtime.ring().seal(&place(who, key), &plain) {
        Ok(sealed) => {
            let (status, sealed) = (status.as_u16(), sealed.as_bytes().to_vec());
            if let Err(error) = app.runtime.answers().keep_answer(who, key, status, sealed).await {
                tracing::warn!(%error, "an answer could not be kept for repetitions");
            }
        }
        Err(error) => tracing::warn!(%error, "an answer is too long to be kept for repetitions"),
    }
    Ok(Response::from_parts(parts, Body::from(bytes)))
}

fn replay(app: &App, who: &str, key: &str, status: u16, sealed: Vec<u8>) -> Result<Response, Problem> {
    let status = StatusCode::from_u16(status).map_err(|_| Problem::internal())?;
    let sealed = Sealed::parse(sealed).map_err(|_| Problem::internal())?;
    let plain = app.runtime.ring().open(&place(who, key), &sealed).map_err(|_| Problem::internal())?;
    let (kind, body) = match plain.expose().iter().position(|byte| *byte == b'\n') {
        Some(end) => plain.expose().split_at(end),
        None => return Err(Problem::internal()),
    };
    let body = body.get(1..).unwrap_or_default().to_vec();
    let mut response = (status, body).into_response();
    if let (Ok(kind), false) = (HeaderValue::from_bytes(kind), kind.is_empty()) {
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
    }
    response.headers_mut().insert("idempotent-replay", HeaderValue::from_static("true"));
    Ok(response)
}

fn place<'a>(who: &'a str, key: &'a str) -> Place<'a> {
    Place { record: key, owner: who, field: "idempotency" }
}
