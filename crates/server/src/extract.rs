//! Parses requests once, at the edge. What does not parse is a clear 4xx, and an attempt at an effect that
//! does not parse is on the ledger.

use std::str::FromStr;

use access::Principal;
use api::Code;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use serde::de::DeserializeOwned;

use crate::app::App;
use crate::patient::whole;
use crate::pipeline::Client;
use crate::problem::Problem;
use crate::routes::{Needs, Route};

/// The caller; the pipeline has made sure there is one.
pub(crate) struct Caller(pub(crate) Principal);

impl FromRequestParts<App> for Caller {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        parts.extensions.get::<Principal>().cloned().map(Caller).ok_or_else(Problem::unauthenticated)
    }
}

/// The address that attempts count against.
pub(crate) struct From(pub(crate) String);

impl FromRequestParts<App> for From {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        parts.extensions.get::<Client>().map(|client| From(client.0.clone())).ok_or_else(Problem::internal)
    }
}

/// A JSON body of exactly this shape.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: DeserializeOwned + Send> FromRequest<App> for Json<T> {
    type Rejection = Problem;
    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let attempt = Attempt::of(request.extensions());
        match parse(request, app).await {
            Ok(value) => Ok(Self(value)),
            Err(problem) => {
                attempt.record(app, problem.detail()).await;
                Err(problem)
            }
        }
    }
}

async fn parse<T: DeserializeOwned>(request: Request, app: &App) -> Result<T, Problem> {
    let kind =
        request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        let text = "send `Content-Type: application/json`";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, Code::BadRequest, text));
    }
    document(&whole(request.into_body(), app.settings.body_bytes).await?)
}

/// A JSON document of exactly this shape.
pub(crate) fn document<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let text = std::str::from_utf8(bytes).map_err(|_| Problem::bad_request("the body is not UTF-8"))?;
    // serde would also take a list of the fields' values; the description says an object.
    if !text.trim_start().starts_with('{') && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() {
        return Err(Problem::unprocessable("expected an object"));
    }
    serde_json::from_str(text).map_err(|error| {
        // The message names fields and places, never values: values may be secrets.
        let place = format!("line {}, column {}", error.line(), error.column());
        match error.classify() {
            serde_json::error::Category::Data => {
                Problem::unprocessable(format!("{} ({place})", shape_only(&error)))
            }
            _ => Problem::bad_request(format!("not JSON ({place})")),
        }
    })
}

/// What serde says about a shape, without the text it complains about: that may be long, or a secret.
fn shape_only(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let (text, _) = text.rsplit_once(" at line ").unwrap_or((text.as_str(), ""));
    // Our own words stand at the end; what was sent stands before them.
    let expected = text.rsplit_once("expected ").map(|(_, expected)| expected);
    let expected =
        expected.map(|expected| if expected.starts_with("struct ") { "an object" } else { expected });
    match (text.split_once(' '), expected) {
        (Some(("missing" | "duplicate", _)), _) => text.to_owned(),
        (Some(("unknown", rest)), Some(expected)) if rest.starts_with("field") => {
            format!("unknown field; expected {expected}")
        }
        (_, Some(expected)) if expected.len() <= 200 => format!("a value does not fit: expected {expected}"),
        _ => "a value does not fit".to_owned(),
    }
}

/// A query string of exactly this shape.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<App> for Query<T> {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let parsed = axum::extract::Query::<T>::from_request_parts(parts, app).await;
        parsed
            .map(|query| Self(query.0))
            .map_err(|_| Problem::unprocessable("the query string has unknown, repeated or bad parameters"))
    }
}

/// One id in the path. What cannot be an id is answered like an id that does not exist.
pub(crate) struct Id<T>(pub(crate) T);

impl<T: FromStr + Send> FromRequestParts<App> for Id<T> {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let path = axum::extract::Path::<String>::from_request_parts(parts, app).await;
        match path.ok().and_then(|text| text.parse().ok()) {
            Some(id) => Ok(Self(id)),
            None => Err(no_such_id(parts, app).await),
        }
    }
}

/// Two ids in the path.
pub(crate) struct Ids<A, B>(pub(crate) A, pub(crate) B);

impl<A: FromStr + Send, B: FromStr + Send> FromRequestParts<App> for Ids<A, B> {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let path = axum::extract::Path::<(String, String)>::from_request_parts(parts, app).await.ok();
        let parsed = path.and_then(|axum::extract::Path((a, b))| Some((a.parse().ok()?, b.parse().ok()?)));
        match parsed {
            Some((a, b)) => Ok(Self(a, b)),
            None => Err(no_such_id(parts, app).await),
        }
    }
}

async fn no_such_id(parts: &Parts, app: &App) -> Problem {
    Attempt::of(&parts.extensions).record(app, "not an id").await;
    Problem::not_found()
}

/// Who tried what, in case it turns out not to make sense.
pub(crate) struct Attempt(Option<(Principal, &'static access::Action)>);

impl Attempt {
    pub(crate) fn of(extensions: &axum::http::Extensions) -> Self {
        let who = extensions.get::<Principal>().cloned();
        let action = match extensions.get::<&'static Route>().map(|route| route.needs) {
            Some(Needs::Action(name)) => access::action_named(name).filter(|action| has_effect(action)),
            _ => None,
        };
        Self(who.zip(action))
    }

    pub(crate) async fn record(&self, app: &App, why: &str) {
        if let Some((who, action)) = &self.0 {
            app.runtime.refuse_malformed(who, action, why).await;
        }
    }
}

/// A read that makes no sense was no attempt at anything.
fn has_effect(action: &access::Action) -> bool {
    match action.class {
        access::Class::Read => false,
        access::Class::Widens | access::Class::Narrows => true,
    }
}

/// Turns text of a request into what it means, or says which field does not do. An attempt at an effect is
/// written down.
pub(crate) async fn field<T>(
    app: &App,
    who: &Principal,
    action: &'static str,
    name: &str,
    text: &str,
) -> Result<T, Problem>
where
    T: FromStr<Err: std::fmt::Display>,
{
    match text.parse() {
        Ok(value) => Ok(value),
        Err(error) => Err(refused(app, who, action, format!("`{name}`: {error}")).await),
    }
}

/// The same for a text that will be kept and shown under a name: it is refused if it holds a secret, since whoever may
/// read the name would get that too.
pub(crate) async fn kept<T>(
    app: &App,
    who: &Principal,
    action: &'static str,
    name: &str,
    text: &str,
) -> Result<T, Problem>
where
    T: FromStr<Err: std::fmt::Display>,
{
    if crate::logs::holds_secret(text) {
        let detail =
            format!("`{name}` holds what looks like a secret; everyone who may read it would see it");
        return Err(refused(app, who, action, detail).await);
    }
    field(app, who, action, name, text).await
}

/// A value that does not do, written down.
pub(crate) async fn refused(app: &App, who: &Principal, action: &'static str, detail: String) -> Problem {
    if let Some(action) = access::action_named(action).filter(|action| has_effect(action)) {
        app.runtime.refuse_malformed(who, action, &detail).await;
    }
    Problem::unprocessable(detail)
}

#[cfg(test)]
mod tests {
    use super::shape_only;

    #[test]
    fn gtw_09_a_complaint_about_a_body_does_not_repeat_it() {
        let secret = "sk-live-0123456789abcdef";
        for (body, expected) in [
            (format!("{{\"email\":\"a\",\"{secret}\":1}}"), "unknown field; expected"),
            (format!("{{\"email\":{{\"{secret}\":1}}}}"), "a value does not fit: expected a string"),
            ("{\"email\":7}".into(), "a value does not fit: expected a string"),
            ("{\"email\":\"a\"}".into(), "missing field `password`"),
            ("{\"email\":\"a\",\"email\":\"b\"}".into(), "duplicate field `email`"),
            (
                format!("{{\"{} at line 9 expected {secret}\":1}}", "x".repeat(9_000)),
                "unknown field; expected",
            ),
        ] {
            let error = serde_json::from_str::<api::LoginRequest>(&body).unwrap_err();
            let said = shape_only(&error);
            assert!(said.starts_with(expected), "{said}");
            assert!(!said.contains(secret) && said.len() < 200, "{said}");
        }
    }
}
