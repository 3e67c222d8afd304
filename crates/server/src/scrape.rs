//! `/metrics` on a listener of its own, for a scraper on this machine that has no credential.
//!
//! Invariant: it listens on loopback only (the settings refuse anything else), answers nothing but metrics,
//! and only under this machine's own names: a page in a browser that was made to resolve here learns nothing.

use std::net::SocketAddr;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use runtime::MetricsReader;

use crate::app::App;
use crate::measure;
use crate::problem::Problem;

/// What is answered at this address.
pub(crate) fn router(app: App, address: SocketAddr) -> Router {
    let port = address.port();
    let names = ["127.0.0.1", "localhost", "[::1]"].iter().map(|name| format!("{name}:{port}"));
    let hosts: Vec<String> = names.chain([address.to_string()]).collect();
    let unknown = async || Problem::not_found();
    Router::new()
        .route("/metrics", get(metrics))
        .fallback(unknown)
        .method_not_allowed_fallback(unknown)
        .with_state((app, hosts))
}

async fn metrics(State((app, hosts)): State<(App, Vec<String>)>, request: Request) -> Response {
    let asked = request.headers().get(header::HOST).and_then(|value| value.to_str().ok());
    if !asked.is_some_and(|asked| hosts.iter().any(|host| host.eq_ignore_ascii_case(asked))) {
        let text = "this is not the host you asked for";
        return Problem::new(StatusCode::MISDIRECTED_REQUEST, api::Code::BadRequest, text).into_response();
    }
    let headers = [
        (header::CONTENT_TYPE, "text/plain; version=0.0.4"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (headers, measure::text(&app, MetricsReader::Scraper).await).into_response()
}
