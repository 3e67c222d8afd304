//! What is counted of requests. Labels are few: declared routes, known methods, statuses.

use std::collections::HashMap;
use std::sync::{LazyLock, PoisonError, RwLock};
use std::time::Instant;

use axum::http::{Method, StatusCode};
use metrics::{Counter, Histogram};

/// Method, route and status.
type Labels = (&'static str, &'static str, u16);

/// Handles, so that a request does not look its counter up by text.
static REQUESTS: LazyLock<RwLock<HashMap<Labels, Counter>>> = LazyLock::new(RwLock::default);
static SECONDS: LazyLock<Histogram> = LazyLock::new(|| metrics::histogram!("palisade_request_seconds"));

/// Counts one answered request.
pub(crate) fn request(method: &Method, path: &'static str, status: StatusCode, started: Instant) {
    let key: Labels = (method_label(method), path, status.as_u16());
    let known = REQUESTS.read().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
    let counter = known.unwrap_or_else(|| {
        let labels =
            [("method", key.0.to_owned()), ("route", path.to_owned()), ("status", key.2.to_string())];
        let made = metrics::counter!("palisade_requests_total", &labels);
        REQUESTS.write().unwrap_or_else(PoisonError::into_inner).insert(key, made.clone());
        made
    });
    counter.increment(1);
    SECONDS.record(started.elapsed().as_secs_f64());
    if status.is_server_error() {
        metrics::counter!("palisade_errors_total").increment(1);
    }
    if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND) {
        metrics::counter!("palisade_refusals_total").increment(1);
    }
}

/// A caller can invent methods; labels must stay few.
fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}
