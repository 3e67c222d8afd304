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
use crate::routes::{Needs, Route, body_bytes, route};
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
    let most = body_bytes(declared, app.settings.body_bytes);
    let patience = if most > app.settings.body_bytes { patient::UPLOAD } else { patient::BODY };
    request = request.map(|body| patient::bounded(body, most, patience));
    let standing = match declared.map(|route| route.needs) {
        Some(Needs::Nobody) => app.limiter.admit_stranger(&client),
        Some(Needs::Action(_) | Needs::Ticket(_)) | None => {
            match who(app, request.headers(), declared, &client).await {
                Ok(who) => {
                    let standing = app.limiter.admit(&who);
                    request.extensions_mut().insert(who);
                    standing
                }
                Err(problem) => {
                    // Guessing credentials is limited like everything else.
                    let stranger = format!("peer:{client}");
                    return match app.limiter.admit_stranger(&client) {
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
    let mut response = match (standing.retry_after, unfit(most, request.headers())) {
        (Some(seconds), _) => {
            let caller = request.extensions().get::<Principal>();
            let caller =
                caller.map(|who| if standing.whole_user { who.user().to_string() } else { who.label() });
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
        Ok(who) => code_shown(app, who, headers, declared, client).await,
        Err(access::AuthError::Busy) => Err(Problem::unavailable("credentials cannot be checked now")),
        Err(_) => {
            auth.refused_stranger(client, "no valid credential").await;
            Err(Problem::unauthenticated())
        }
    }
}

/// The one-time password that came with a request whose action asks for one; elsewhere it is not looked at,
/// so that it is not used up.
async fn code_shown(
    app: &App,
    who: Principal,
    headers: &HeaderMap,
    declared: Option<&Route>,
    client: &str,
) -> Result<Principal, Problem> {
    let action = match declared.map(|route| route.needs) {
        Some(Needs::Action(name)) => access::action_named(name),
        _ => None,
    };
    let asking = action.filter(|action| app.runtime.gate().asks_totp(action));
    let (Some(action), Some(code)) = (asking, headers.get(api::TOTP_HEADER)) else { return Ok(who) };
    let code = code.to_str().unwrap_or_default();
    Ok(app.runtime.auth().show_code(&who, action, code, client).await?)
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
    let said = headers.get_all("x-forwarded-for").iter().map(|value| value.to_str().unwrap_or_default());
    let hops: Vec<&str> = said.flat_map(|text| text.split(',')).collect();
    let address = nearest(peer, &hops, &app.settings.trusted_proxies);
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            format!("{a:x}:{b:x}:{c:x}:{d:x}::/64")
        }
    }
}

/// The nearest hop that is not one of our own proxies. What stands left of a hop that makes no sense was said
/// by nobody we know, so it does not count.
fn nearest(peer: IpAddr, hops: &[&str], proxies: &[IpAddr]) -> IpAddr {
    let mut address = peer.to_canonical();
    for hop in hops.iter().rev() {
        if !proxies.contains(&address) {
            break;
        }
        let Some(before) = hop_address(hop.trim()) else { break };
        address = before.to_canonical();
    }
    address
}

/// An address as proxies write it: `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:80`.
fn hop_address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    bare.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()))
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
            let allowed = HeaderValue::from_static(
                "authorization, content-type, idempotency-key, last-event-id, x-palisade-totp",
            );
            headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed);
            headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
            response
        }
        _ => Problem::new(StatusCode::FORBIDDEN, api::Code::Forbidden, "this origin may not call the API")
            .into_response(),
    }
}

/// What can be told about a body before it is read. It is bounded while it arrives all the same.
fn unfit(most: usize, headers: &HeaderMap) -> Option<Problem> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gtw_03_a_client_does_not_choose_the_address_it_is_counted_by() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let proxies = [ip("10.0.0.1"), ip("10.0.0.2")];
        for (peer, said, expected) in [
            ("192.0.2.9", "198.51.100.7", "192.0.2.9"),
            ("10.0.0.1", "", "10.0.0.1"),
            ("10.0.0.1", "203.0.113.5, 198.51.100.7", "198.51.100.7"),
            ("10.0.0.1", "203.0.113.5, 198.51.100.7, 10.0.0.2", "198.51.100.7"),
            ("10.0.0.1", "203.0.113.5, 198.51.100.7:4711", "198.51.100.7"),
            ("10.0.0.1", "203.0.113.5, [2001:db8::7]:4711", "2001:db8::7"),
            ("10.0.0.1", "203.0.113.5, [2001:db8::7]", "2001:db8::7"),
            ("10.0.0.1", "203.0.113.5, unknown", "10.0.0.1"),
            ("10.0.0.1", "203.0.113.5, unknown, 10.0.0.2", "10.0.0.2"),
            ("10.0.0.1", "203.0.113.5,", "10.0.0.1"),
            ("10.0.0.1", "10.0.0.2", "10.0.0.2"),
            ("::ffff:10.0.0.1", "::ffff:198.51.100.7", "198.51.100.7"),
        ] {
            let hops: Vec<&str> = said.split(',').collect();
            assert_eq!(nearest(ip(peer), &hops, &proxies), ip(expected), "{peer}: {said}");
        }
    }
}
