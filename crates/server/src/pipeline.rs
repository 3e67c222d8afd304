//! What happens to every request before a handler sees it, in order.
//!
//! id -> our host? -> preflight -> route known -> who -> how often -> small enough -> handler -> headers.
//!
//! Invariant: behind this function every request that needs a principal has one.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use access::Principal;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use model::RequestId;

use crate::app::App;
use crate::extract::Attempt;
use crate::limits::Standing;
use crate::problem::{Problem, REQUEST};
use crate::routes::{Needs, Route, route};
use crate::{measure, patient};

/// The address a request came from, as far as it can be believed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// The address that limits count against.
#[derive(Clone, Debug)]
pub(crate) struct Client(pub(crate) String);

/// Takes a request through.
pub(crate) async fn guard(State(app): State<App>, request: Request, next: Next) -> Response {
    let id = RequestId::random();
    let started = Instant::now();
    let method = request.method().clone();
    let declared =
        request.extensions().get::<MatchedPath>().and_then(|path| route(method.as_str(), path.as_str()));
    let origin = request.headers().get(header::ORIGIN).cloned();
    let secure = app.settings.tls.is_some();
    let mut response = REQUEST.scope(id, admitted(&app, request, next, declared)).await;
    let path = declared.map_or("unknown", |route| route.path);
    measure::request(&method, path, response.status(), started);
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(&id.to_string()) {
        headers.insert("x-request-id", value);
    }
    bound_browsers(headers, secure);
    if let Some(origin) = origin.filter(|origin| allowed_origin(&app, origin)) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.append(header::VARY, HeaderValue::from_static("origin"));
    }
    tracing::debug!(request = %id, %method, path, status = response.status().as_u16(), "answered");
    response
}

async fn admitted(app: &App, mut request: Request, next: Next, declared: Option<&'static Route>) -> Response {
    let peer = request.extensions().get::<Peer>().map_or(IpAddr::from([0, 0, 0, 0]), |peer| peer.0.ip());
    let client = client(app, peer, request.headers());
    request.extensions_mut().insert(Client(client.clone()));
    if let Err(problem) = host(app, &request) {
        return problem.into_response();
    }
    if request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
    {
        return preflight(app, request.headers());
    }
    let most = app.settings.body_bytes;
    request = request.map(|body| patient::bounded(body, most));
    let standing = match declared.map(|route| route.needs) {
        Some(Needs::Nobody) => app.limiter.admit(|| format!("peer:{client}")),
        Some(Needs::Action(_) | Needs::Ticket(_)) | None => {
            match who(app, request.headers(), declared, &client).await {
                Ok(who) => {
                    let standing = app.limiter.admit(|| who.label());
                    request.extensions_mut().insert(who);
                    standing
                }
                Err(problem) => {
                    // Guessing credentials is limited like everything else.
                    let stranger = format!("peer:{client}");
                    return match app.limiter.admit(|| stranger.clone()) {
                        Standing { retry_after: Some(seconds), .. } => {
                            app.runtime.auth().limited(&stranger).await;
                            Problem::rate_limited(seconds).into_response()
                        }
                        Standing { .. } => problem.into_response(),
                    };
                }
            }
        }
    };
    if let Some(route) = declared {
        request.extensions_mut().insert(route);
    }
    let mut response = match (standing.retry_after, unfit(app, request.headers())) {
        (Some(seconds), _) => {
            let caller = request.extensions().get::<Principal>().map(Principal::label);
            app.runtime.auth().limited(&caller.unwrap_or_else(|| format!("peer:{client}"))).await;
            Problem::rate_limited(seconds).into_response()
        }
        (None, Some(problem)) => {
            Attempt::of(request.extensions()).record(app, problem.detail()).await;
            problem.into_response()
        }
        (None, None) => next.run(request).await,
    };
    standing.show(response.headers_mut());
    response
}

/// The credential in the header, and nowhere else; a socket may bring a ticket instead.
async fn who(
    app: &App,
    headers: &HeaderMap,
    declared: Option<&Route>,
    client: &str,
) -> Result<Principal, Problem> {
    let auth = app.runtime.auth();
    let found = match (bearer(headers), declared.map(|route| route.needs)) {
        (Some(token), _) => auth.authenticate(token).await,
        (None, Some(Needs::Ticket(_))) => match ticket(headers) {
            Some(ticket) => auth.redeem(ticket).await,
            None => Err(access::AuthError::Invalid),
        },
        (None, _) => Err(access::AuthError::Invalid),
    };
    match found {
        Ok(who) => Ok(who),
        Err(access::AuthError::Busy) => Err(Problem::unavailable("credentials cannot be checked now")),
        Err(_) => {
            auth.refused_stranger(client, "no valid credential").await;
            Err(Problem::unauthenticated())
        }
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let (only, None) = (all.next()?, all.next()) else { return None };
    let (scheme, token) = only.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

/// `Sec-WebSocket-Protocol: palisade.v1, ticket.<ticket>`: the one header a browser's socket can set.
fn ticket(headers: &HeaderMap) -> Option<&str> {
    let offered = headers.get(header::SEC_WEBSOCKET_PROTOCOL)?.to_str().ok()?;
    offered.split(',').map(str::trim).find_map(|part| part.strip_prefix("ticket."))
}

/// The peer, or what a trusted proxy says about it. IPv6 counts by its network.
fn client(app: &App, peer: IpAddr, headers: &HeaderMap) -> String {
    let trusted = |address: &IpAddr| app.settings.trusted_proxies.contains(address);
    let mut address = peer;
    if trusted(&peer) {
        let said = headers.get_all("x-forwarded-for").iter().filter_map(|value| value.to_str().ok());
        let hops: Vec<IpAddr> =
            said.flat_map(|text| text.split(',')).filter_map(|hop| hop.trim().parse().ok()).collect();
        // The nearest hop that is not one of our own proxies.
        address = hops.into_iter().rev().find(|hop| !trusted(hop)).unwrap_or(peer);
    }
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            format!("{a:x}:{b:x}:{c:x}:{d:x}::/64")
        }
    }
}

/// A page that was made to resolve to us by another name must not reach us.
fn host(app: &App, request: &Request) -> Result<(), Problem> {
    let misdirected = || {
        Problem::new(
            StatusCode::MISDIRECTED_REQUEST,
            api::Code::BadRequest,
            "this is not the host you asked for; see `server.allowed_hosts`",
        )
    };
    let named = request.uri().authority().map(axum::http::uri::Authority::as_str);
    let mut all = request.headers().get_all(header::HOST).iter();
    let header = all.next().and_then(|value| value.to_str().ok());
    if all.next().is_some() {
        return Err(Problem::bad_request("more than one `Host`"));
    }
    // A target that names a host, and the header: whichever is there must be ours, and one must be.
    let ours = |asked: &str| app.hosts.contains(asked) || app.hosts.contains(&asked.to_ascii_lowercase());
    let any = named.is_some() || header.is_some();
    if any && named.into_iter().chain(header).all(ours) { Ok(()) } else { Err(misdirected()) }
}

/// Whether a page of this origin may open a socket. Another port of this machine is another origin.
pub(crate) fn our_origin(app: &App, origin: &HeaderValue) -> bool {
    let Ok(text) = origin.to_str() else { return false };
    let settings = &app.settings;
    let (scheme, usual) = if settings.tls.is_some() { ("https", 443) } else { ("http", 80) };
    let port = settings.listen.port();
    let suffix = if port == usual { String::new() } else { format!(":{port}") };
    let mut local =
        ["127.0.0.1", "localhost", "[::1]"].iter().map(|name| format!("{scheme}://{name}{suffix}"));
    let listening = format!("{scheme}://{}", settings.listen);
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    local.any(|own| own == text)
        || listening == text
        || (!settings.public_url.is_empty() && settings.public_url == text)
        || settings.allowed_hosts.iter().any(|name| host == Some(name))
        || allowed_origin(app, origin)
}

fn allowed_origin(app: &App, origin: &HeaderValue) -> bool {
    origin.to_str().is_ok_and(|text| app.settings.cors_origins.iter().any(|allowed| allowed == text))
}

fn preflight(app: &App, headers: &HeaderMap) -> Response {
    match headers.get(header::ORIGIN) {
        Some(origin) if allowed_origin(app, origin) => {
            let mut response = StatusCode::NO_CONTENT.into_response();
            let headers = response.headers_mut();
            headers.insert(
                header::ACCESS_CONTROL_ALLOW_METHODS,
                HeaderValue::from_static("GET, POST, PUT, PATCH, DELETE"),
            );
            let allowed =
                HeaderValue::from_static("authorization, content-type, idempotency-key, last-event-id");
            headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed);
            headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
            response
        }
        _ => Problem::new(StatusCode::FORBIDDEN, api::Code::Forbidden, "this origin may not call the API")
            .into_response(),
    }
}

/// What can be told about a body before it is read. It is bounded while it arrives all the same.
fn unfit(app: &App, headers: &HeaderMap) -> Option<Problem> {
    let most = app.settings.body_bytes;
    let length =
        headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > u64::try_from(most).unwrap_or(u64::MAX)) {
        return Some(Problem::too_large(most));
    }
    headers.contains_key(header::CONTENT_ENCODING).then(|| {
        let text = "send the body as it is; compressed bodies are not taken";
        Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, api::Code::BadRequest, text)
    })
}

fn bound_browsers(headers: &mut HeaderMap, secure: bool) {
    const ALWAYS: [(HeaderName, &str); 5] = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        ),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    headers.reserve(ALWAYS.len());
    for (name, value) in ALWAYS {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    if secure {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=31536000"));
    }
}
