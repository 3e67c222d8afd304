//! The set-up page: one form, no script. It does what `POST /api/v1/auth/bootstrap` does.

use axum::extract::{Form, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use vault::Secret;

use crate::app::App;
use crate::extract::From;

/// The link that the daemon prints.
#[derive(serde::Deserialize)]
pub(crate) struct Link {
    #[serde(default)]
    secret: String,
}

/// What the form sends.
#[derive(serde::Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Filled {
    secret: String,
    #[schema(
        max_length = 254,
        pattern = r#"^[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~.]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$"#
    )]
    email: String,
    #[schema(
        min_length = 1,
        max_length = 80,
        pattern = r#"^[^\u0000-\u001f\u007f-\u009f]*[^\s\u0000-\u001f\u007f-\u009f][^\u0000-\u001f\u007f-\u009f]*$"#
    )]
    name: String,
    #[schema(min_length = 12, max_length = 1024)]
    password: String,
}

/// The form with which the first owner is made.
#[utoipa::path(get, path = "/setup", tag = "setup", security(()), params(("secret" = Option<String>, Query)),
    responses((status = 200, content_type = "text/html", body = String)))]
pub(crate) async fn page(link: Result<Query<Link>, axum::extract::rejection::QueryRejection>) -> Response {
    let secret = link.map(|link| link.0.secret).unwrap_or_default();
    form(StatusCode::OK, &secret, "", "", "")
}

/// Makes the first owner.
#[utoipa::path(post, path = "/setup", tag = "setup", security(()),
    request_body(content = Filled, content_type = "application/x-www-form-urlencoded"),
    responses((status = 200, content_type = "text/html", body = String),
        (status = 401, content_type = "text/html", body = String),
        (status = 415, content_type = "text/html", body = String),
        (status = 422, content_type = "text/html", body = String),
        (status = 429, content_type = "text/html", body = String),
        (status = 503, content_type = "text/html", body = String)))]
pub(crate) async fn submit(
    State(app): State<App>,
    From(peer): From,
    filled: Result<Form<Filled>, axum::extract::rejection::FormRejection>,
) -> Response {
    let filled = match filled {
        Ok(Form(filled)) => filled,
        Err(rejection) => {
            return form(rejection.status(), "", "", "", "The form was not filled in as it should be.");
        }
    };
    // The link's secret goes back, so that the form can be sent again; nothing else that could be one does.
    let shown = |text: &str| crate::logs::redactor().scrub(text).into_owned();
    let again = |status: StatusCode, problem: &str| {
        form(status, &filled.secret, &shown(&filled.email), &shown(&filled.name), problem)
    };
    if [&filled.email, &filled.name].into_iter().any(|text| crate::logs::holds_secret(text)) {
        return again(StatusCode::UNPROCESSABLE_ENTITY, "The address or the name looks like a secret.");
    }
    let (Ok(email), Ok(name)) = (filled.email.parse(), filled.name.parse()) else {
        return again(
            StatusCode::UNPROCESSABLE_ENTITY,
            "That is not an e-mail address, or the name is empty.",
        );
    };
    let made = app
        .runtime
        .auth()
        .bootstrap(&filled.secret, email, name, Secret::new(filled.password.clone()), &peer)
        .await;
    match made {
        Ok(_) => {
            let text = "<h1>Palisade is yours</h1><p>You are its owner. Sign in from a terminal:</p><pre>palisade login</pre>";
            html(StatusCode::OK, text)
        }
        Err(access::AuthError::BadPassword) => {
            again(StatusCode::UNPROCESSABLE_ENTITY, "A password has at least 12 characters.")
        }
        Err(access::AuthError::Throttled { .. }) => {
            again(StatusCode::TOO_MANY_REQUESTS, "Too many attempts; wait a minute.")
        }
        Err(access::AuthError::Busy) => {
            again(StatusCode::SERVICE_UNAVAILABLE, "Not possible now; nothing was changed.")
        }
        Err(access::AuthError::Invalid | access::AuthError::TotpNeeded) => again(
            StatusCode::UNAUTHORIZED,
            "The link was used, is too old, or there is an owner already. Restart the daemon for a new one.",
        ),
    }
}

fn form(status: StatusCode, secret: &str, email: &str, name: &str, problem: &str) -> Response {
    // Only what a link of ours can have brought: anything else that was sent here is not repeated.
    let is_ours = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let secret = if secret.starts_with("pbs_") && secret.chars().all(is_ours) { secret } else { "" };
    let text = format!(
        "<h1>Set up Palisade</h1><p>Make the first owner of this installation.</p><p role=\"alert\">{}</p>\
         <form method=\"post\" action=\"/setup\">\
         <input type=\"hidden\" name=\"secret\" value=\"{}\">\
         <p><label>E-mail<br><input name=\"email\" type=\"email\" value=\"{}\" required autofocus></label></p>\
         <p><label>Name<br><input name=\"name\" value=\"{}\" required maxlength=\"80\"></label></p>\
         <p><label>Password (12 characters or more)<br>\
         <input name=\"password\" type=\"password\" required minlength=\"12\" autocomplete=\"new-password\"></label></p>\
         <p><button>Make me the owner</button></p></form>",
        escape(problem),
        escape(secret),
        escape(email),
        escape(name)
    );
    html(status, &text)
}

fn html(status: StatusCode, body: &str) -> Response {
    let page = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Palisade</title>\
         <meta name=\"viewport\" content=\"width=device-width\"></head><body>{body}</body></html>"
    );
    (status, [(header::CONTENT_TYPE, "text/html; charset=utf-8")], page).into_response()
}

fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}
