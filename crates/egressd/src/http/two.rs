//! HTTP/2 of a sandbox, stream by stream.
//!
//! Flow: a stream's head -> the same head in lines -> the reader of HTTP/1, which refuses whatever can be read in two ways
//! -> judged, carried and recorded as every other request. Invariants: what HTTP/1 would refuse is refused here, by the same
//! code; a stream that is refused ends alone; who opens streams only to give them up is sent away. Not here: frames and the
//! tables of header fields (the `h2` crate, which bounds them).

use std::future::poll_fn;
use std::io::ErrorKind;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use egress::control::{Verdict, Wanted};
use egress::host::Authority;
use egress::http1::{Fields, Framing, MAX_HEAD, Request, Response, Upgrade};
use h2::ext::Protocol;
use h2::server::{Connection, SendResponse};
use h2::{Reason, RecvStream};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::task::JoinSet;
use tokio::time::timeout;
use zeroize::Zeroizing;

use super::client::Client;
use super::content::broken;
use super::gathered::Gathered;
use super::paced::Paced;
use super::server::Pool;
use super::{HEAD, RESTING, Trouble, Way, Wire, one};
use crate::connection::forbidden;
use crate::house::FROM;
use crate::{answers, tls};

/// The most streams of a connection at once.
const MOST_STREAMS: u32 = 100;
/// What may be on its way in one stream, and in all of them, before it is taken.
const STREAM_WINDOW: u32 = 512 * 1024;
const WINDOW: u32 = 1024 * 1024;
/// What waits in one stream to be written.
const TO_WRITE: usize = 32 * 1024;
/// How many streams a client may give up within a while; who gives up more is made to begin again.
const MOST_GIVEN_UP: u32 = 200;
const WHILE: Duration = Duration::from_secs(10);
/// How much is still taken of a stream that has its answer.
const LINGER: usize = 256 * 1024;
/// How long a connection that ends may take to say so.
const ENDING: Duration = Duration::from_secs(2);

/// Serves one connection until it ends.
pub(crate) async fn talk(way: Way, stream: Wire) {
    let stream = Gathered::new(Paced::new(stream, HEAD));
    let begun = timeout(HEAD, server().handshake::<_, Bytes>(stream)).await;
    let Ok(Ok(mut connection)) = begun else { return };
    let (way, pool) = (Arc::new(way), Arc::new(Pool::new(true)));
    let mut streams = JoinSet::new();
    let mut turns = way.house.turns();
    let mut patience = Patience::new();
    let mut ended = None;
    'talk: loop {
        if ended.is_some() {
            // Streams that are ready have their turn first: what several of them say is then written at once.
            after_others().await;
        }
        while let Some(one) = ended.take().or_else(|| streams.try_join_next()) {
            if matches!(one, Ok(Err(Trouble::Gone))) && patience.is_over() {
                let why = "the client gives up one stream after the other".to_owned();
                way.house.judged(&nowhere(&way), Verdict::Refused { why }, None).await;
                connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
                let _ = timeout(ENDING, poll_fn(|cx| connection.poll_closed(cx))).await;
                break 'talk;
            }
        }
        let has_room = streams.len() < MOST_STREAMS as usize;
        tokio::select! {
            biased;
            () = forbidden(&way.house, &mut turns, &way.host, way.port) => break,
            one = streams.join_next(), if !streams.is_empty() => ended = one,
            next = accept(&mut connection, has_room) => match next {
                Some(Ok((request, send))) => {
                    // In a place of its own: it is large, and is handed on a few times before it begins.
                    let serves = Box::pin(stream_of(Arc::clone(&way), Arc::clone(&pool), request, send));
                    match FROM.try_with(|from| *from) {
                        Ok(from) => streams.spawn(FROM.scope(from, serves)),
                        Err(_) => streams.spawn(serves),
                    };
                }
                Some(Err(error)) if error.get_io().is_some_and(|io| io.kind() == ErrorKind::TimedOut) => {
                    let why = "the head took too long".to_owned();
                    way.house.judged(&nowhere(&way), Verdict::Refused { why }, None).await;
                    break;
                }
                Some(Err(_)) | None => break,
            },
            () = tokio::time::sleep(RESTING), if streams.is_empty() => {
                connection.graceful_shutdown();
                let _ = timeout(ENDING, poll_fn(|cx| connection.poll_closed(cx))).await;
                break;
            }
        }
    }
    // Without it every stream ends by itself, and says so.
    drop(connection);
    while streams.join_next().await.is_some() {}
}

/// Comes back when everybody else who is ready has had a turn. What has come meanwhile is not looked for.
async fn after_others() {
    let mut waits = true;
    poll_fn(|cx| {
        if std::mem::take(&mut waits) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    })
    .await;
}

type Asked = (http::Request<RecvStream>, SendResponse<Bytes>);

/// The next stream. Without room for one, only what is open is moved: who gives up streams that wait here is counted.
async fn accept(
    connection: &mut Connection<Gathered<Paced<Wire>>, Bytes>,
    has_room: bool,
) -> Option<Result<Asked, h2::Error>> {
    if has_room {
        return connection.accept().await;
    }
    poll_fn(|cx| match connection.poll_closed(cx) {
        Poll::Ready(Ok(())) => Poll::Ready(None),
        Poll::Ready(Err(error)) => Poll::Ready(Some(Err(error))),
        Poll::Pending => Poll::Pending,
    })
    .await
}

/// Counts streams that were given up.
struct Patience {
    since: Instant,
    count: u32,
}

impl Patience {
    fn new() -> Self {
        Self { since: Instant::now(), count: 0 }
    }

    /// Counts one; whether that is too many.
    fn is_over(&mut self) -> bool {
        if self.since.elapsed() > WHILE {
            *self = Self::new();
        }
        self.count += 1;
        self.count > MOST_GIVEN_UP
    }
}

fn nowhere(way: &Way) -> Wanted {
    Wanted { host: way.host.to_string(), port: way.port, ..Wanted::default() }
}

/// Serves one stream.
async fn stream_of(
    way: Arc<Way>,
    pool: Arc<Pool>,
    request: http::Request<RecvStream>,
    mut send: SendResponse<Bytes>,
) -> Result<bool, Trouble> {
    let (parts, recv) = request.into_parts();
    let request = match read(&parts, recv.is_end_stream()) {
        Ok(request) => request,
        Err(why) => {
            way.house.judged(&nowhere(&way), Verdict::Refused { why: why.clone() }, None).await;
            refuse(&mut send, 400, &why, parts.method == http::Method::HEAD)?;
            return Ok(true);
        }
    };
    let takes_trailers = parts.headers.contains_key("te");
    let mut client = Client::Two { recv, send, takes_trailers };
    let ended = one(&way, &mut client, &pool, request).await;
    if let (Ok(_), Client::Two { recv, .. }) = (&ended, &mut client) {
        let _ = timeout(ENDING, linger(recv)).await;
    }
    ended
}

/// Takes some of what a client still sends after its answer: some take being cut off for no answer.
async fn linger(recv: &mut RecvStream) {
    let mut left = LINGER;
    while let Some(Ok(data)) = recv.data().await {
        let _ = recv.flow_control().release_capacity(data.len());
        left = left.saturating_sub(data.len());
        if left == 0 {
            return;
        }
    }
}

/// The head of a request as HTTP/1 has it, read by the same reader.
fn read(parts: &http::request::Parts, is_all: bool) -> Result<Request, String> {
    let socket = parts.extensions.get::<Protocol>().map(Protocol::as_str);
    let method = match (parts.method.as_str(), socket) {
        // As HTTP/1 asks for the same.
        ("CONNECT", Some("websocket")) => "GET",
        ("CONNECT", _) => return Err("this is no proxy; connect to the host itself".into()),
        (_, Some(_)) => return Err("the request asks for another protocol in an odd way".into()),
        (method, None) => method,
    };
    // One that names its host in a field only comes without its scheme.
    if parts.uri.scheme().is_some_and(|scheme| *scheme != http::uri::Scheme::HTTPS) {
        return Err("the request names another scheme than its connection has".into());
    }
    let target = parts.uri.path_and_query().ok_or("the request has no path")?;
    let mut head = format!("{method} {target} HTTP/1.1\r\n").into_bytes();
    match (parts.uri.authority(), hosts(&parts.headers)?) {
        (Some(authority), None) => line(&mut head, b"host", authority.as_str().as_bytes()),
        (None, Some(host)) => line(&mut head, b"host", host),
        (Some(authority), Some(host)) => {
            if !agree(authority.as_str().as_bytes(), host) {
                return Err("the Host header and the authority of the request do not agree".into());
            }
            line(&mut head, b"host", authority.as_str().as_bytes());
        }
        (None, None) => return Err("the request does not say which host it is for".into()),
    }
    lines(&mut head, &parts.headers)?;
    if socket.is_some() {
        let key = STANDARD.encode(tls::chance::<16>().map_err(|error| error.to_string())?);
        line(&mut head, b"connection", b"upgrade");
        line(&mut head, b"upgrade", b"websocket");
        line(&mut head, b"sec-websocket-key", key.as_bytes());
    } else if !is_all && !parts.headers.contains_key("content-length") {
        line(&mut head, b"transfer-encoding", b"chunked");
    }
    head.extend_from_slice(b"\r\n");
    let request = Request::parse(&head).map_err(|bad| bad.to_string())?;
    if is_all && !matches!(request.framing(), Framing::Empty | Framing::Length(0)) {
        return Err("the request says a length, and has no content".into());
    }
    Ok(request)
}

/// What the one Host header says, if there is one.
fn hosts(fields: &HeaderMap) -> Result<Option<&[u8]>, String> {
    let mut all = fields.get_all("host").iter();
    let host = all.next().map(HeaderValue::as_bytes);
    if all.next().is_some() { Err("the request has more than one Host header".into()) } else { Ok(host) }
}

/// Whether two texts name the same host and port.
fn agree(one: &[u8], other: &[u8]) -> bool {
    let read = |text| Authority::parse(text).ok().map(|it| (it.host, it.port.unwrap_or(443)));
    read(one).is_some_and(|one| read(other) == Some(one))
}

/// Fields as lines. A value has neither line ends nor zeros in it, or the `h2` crate would not have given it to us; what
/// is about one connection has no place in HTTP/2.
fn lines(head: &mut Vec<u8>, fields: &HeaderMap) -> Result<(), String> {
    for name in fields.keys() {
        match name.as_str() {
            "connection" | "keep-alive" | "proxy-connection" | "transfer-encoding" | "upgrade" => {
                return Err(format!("the header `{name}` has no place in HTTP/2"));
            }
            // The first two are said elsewhere, and the key of a WebSocket is none here.
            "host" | "te" | "sec-websocket-key" => {}
            // Here it may come in pieces.
            "cookie" => {
                let all: Vec<&[u8]> = fields.get_all(name).iter().map(HeaderValue::as_bytes).collect();
                line(head, b"cookie", &all.join(&b"; "[..]));
            }
            _ => fields.get_all(name).iter().for_each(|value| line(head, name.as_ref(), value.as_bytes())),
        }
        if head.len() > MAX_HEAD {
            return Err(egress::http1::BadHead::TooLong.to_string());
        }
    }
    Ok(())
}

fn line(head: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for part in [name, b": ", value, b"\r\n"] {
        head.extend_from_slice(part);
    }
}

/// The head of an answer as HTTP/1 has it.
pub(super) fn answered(parts: &http::response::Parts) -> Result<Vec<u8>, Trouble> {
    let mut head = format!("HTTP/1.1 {} \r\n", parts.status.as_str()).into_bytes();
    lines(&mut head, &parts.headers).map_err(Trouble::Odd)?;
    head.extend_from_slice(b"\r\n");
    Ok(head)
}

/// Fields as HTTP/2 has them. Those that may carry a secret are kept in no table.
pub(super) fn fields(fields: &Fields, is_secret: bool) -> Result<HeaderMap, Trouble> {
    let odd = || Trouble::Odd("a header has no form in HTTP/2".into());
    let mut map = HeaderMap::with_capacity(fields.len());
    for (name, value) in fields.iter() {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| odd())?;
        let mut value = match is_secret {
            // Wiped when nobody needs it any more.
            true => HeaderValue::from_maybe_shared(Bytes::from_owner(Zeroizing::new(value.to_vec()))),
            false => HeaderValue::from_bytes(value),
        }
        .map_err(|_| odd())?;
        value.set_sensitive(is_secret);
        map.try_append(name, value).map_err(|_| odd())?;
    }
    Ok(map)
}

/// A request as HTTP/2 has it.
pub(super) fn asked(
    request: &Request,
    takes_trailers: bool,
    is_secret: bool,
) -> Result<http::Request<()>, Trouble> {
    let odd = |error: http::Error| Trouble::Odd(error.to_string());
    let target = request.target.resource().map_or("*", |resource| resource.as_str());
    let uri = http::Uri::builder()
        .scheme(http::uri::Scheme::HTTPS)
        .authority(request.authority.to_string())
        .path_and_query(target)
        .build()
        .map_err(odd)?;
    let mut out = http::Request::builder().method(request.method.as_str()).uri(uri).body(()).map_err(odd)?;
    *out.version_mut() = http::Version::HTTP_2;
    *out.headers_mut() = fields(&request.fields, is_secret)?;
    if let Framing::Length(length) = request.framing() {
        out.headers_mut().insert("content-length", length.into());
    }
    if takes_trailers {
        out.headers_mut().insert("te", HeaderValue::from_static("trailers"));
    }
    Ok(out)
}

/// An answer as HTTP/2 has it.
pub(super) fn answer(answer: &Response) -> Result<http::Response<()>, Trouble> {
    let is_open = answer.upgrade() == Upgrade::WebSocket;
    let mut out = response(if is_open { 200 } else { answer.status })?;
    *out.headers_mut() = fields(&answer.fields, false)?;
    if is_open {
        // It answers our own key.
        out.headers_mut().remove("sec-websocket-accept");
    }
    if let Some(length) = answer.length() {
        out.headers_mut().insert("content-length", length.into());
    }
    Ok(out)
}

/// The word to go on.
pub(super) fn interim() -> Result<http::Response<()>, Trouble> {
    response(100)
}

fn response(status: u16) -> Result<http::Response<()>, Trouble> {
    let odd = |error: http::Error| Trouble::Odd(error.to_string());
    http::Response::builder().status(status).version(http::Version::HTTP_2).body(()).map_err(odd)
}

/// Says why there is no answer, in the same words as to anybody.
pub(super) fn refuse(
    send: &mut SendResponse<Bytes>,
    status: u16,
    why: &str,
    only_head: bool,
) -> Result<(), Trouble> {
    let body = format!("{}\n", answers::problem(status, why).1);
    whole(send, status, &answers::FIELDS, body, only_head)
}

/// A whole answer.
pub(super) fn whole(
    send: &mut SendResponse<Bytes>,
    status: u16,
    fields: &[(&'static str, &'static str)],
    body: String,
    only_head: bool,
) -> Result<(), Trouble> {
    let mut out = response(status)?;
    for (name, value) in fields {
        out.headers_mut().insert(*name, HeaderValue::from_static(value));
    }
    out.headers_mut().insert("content-length", body.len().into());
    let mut sent = send.send_response(out, only_head).map_err(broken)?;
    if !only_head {
        sent.send_data(body.into(), true).map_err(broken)?;
    }
    Ok(())
}

/// What a client may do.
fn server() -> h2::server::Builder {
    let mut builder = h2::server::Builder::new();
    builder
        .enable_connect_protocol()
        .max_concurrent_streams(MOST_STREAMS)
        .max_header_list_size(MAX_HEAD as u32)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_send_buffer_size(TO_WRITE);
    builder
}

/// What a server may do.
pub(super) fn client() -> h2::client::Builder {
    let mut builder = h2::client::Builder::new();
    builder
        .enable_push(false)
        .max_header_list_size(MAX_HEAD as u32)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_send_buffer_size(TO_WRITE);
    builder
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(uri: &str, fields: &[(&'static str, &'static str)]) -> http::request::Parts {
        let mut request = http::Request::builder().uri(uri);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn written(request: &Request) -> String {
        let mut out = Vec::new();
        request.write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn egr_10_a_stream_becomes_the_request_that_http_1_would_have_had() {
        let fields = [("cookie", "a=1"), ("cookie", "b=2"), ("x", "y"), ("te", "trailers")];
        let request = read(&parts("https://Site.test:443/a?b=c", &fields), true).unwrap();
        let text = written(&request);
        assert!(text.starts_with("GET /a?b=c HTTP/1.1\r\nHost: site.test:443\r\n"), "{text}");
        assert!(text.contains("\r\ncookie: a=1; b=2\r\n") && text.contains("\r\nx: y\r\n"), "{text}");
        assert!(!text.contains("te:") && request.framing() == Framing::Empty, "{text}");
        let request = read(&parts("https://site.test/", &[]), false).unwrap();
        assert_eq!(request.framing(), Framing::Chunked);
        let request = read(&parts("https://site.test/", &[("content-length", "5")]), false).unwrap();
        assert_eq!(request.framing(), Framing::Length(5));
        // What is asked for there is what was read here.
        let again = asked(&request, true, true).unwrap();
        assert_eq!(again.uri(), "https://site.test/");
        assert_eq!(again.headers()["content-length"], "5");
        assert_eq!(again.headers()["te"], "trailers");
    }

    #[test]
    fn adv_n11_what_has_two_meanings_is_refused_also_without_the_help_of_the_library() {
        type Case = (&'static str, &'static [(&'static str, &'static str)], bool);
        let cases: [Case; 11] = [
            ("http://site.test/", &[], true),
            ("https://site.test/", &[("host", "other.test")], true),
            ("https://site.test/", &[("host", "site.test"), ("host", "site.test")], true),
            ("/", &[], true),
            ("https://site.test/", &[("connection", "close")], true),
            ("https://site.test/", &[("transfer-encoding", "chunked")], false),
            ("https://site.test/", &[("upgrade", "websocket")], true),
            ("https://site.test/", &[("content-length", "5")], true),
            ("https://site.test/", &[("content-length", "5"), ("content-length", "6")], false),
            ("https://site.test/", &[("content-length", "05")], false),
            ("https://user@site.test/", &[], true),
        ];
        for (uri, fields, is_all) in cases {
            assert!(read(&parts(uri, fields), is_all).is_err(), "{uri} {fields:?}");
        }
    }

    #[test]
    fn adv_n16_who_gives_up_too_many_streams_in_a_while_is_sent_away() {
        let mut patience = Patience::new();
        assert!((0..MOST_GIVEN_UP).all(|_| !patience.is_over()));
        assert!(patience.is_over());
        patience.since -= WHILE * 2;
        assert!(!patience.is_over(), "another while");
    }
}
