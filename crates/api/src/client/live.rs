//! Live events: tickets, server-sent events, and a socket.
//!
//! Words of a newer server are no error here: an event of an unknown kind is an event, and a message of an
//! unknown kind is passed over.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use tungstenite::client::IntoClientRequest;
use tungstenite::handshake::HandshakeError;
use tungstenite::http::HeaderValue;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::{Message, WebSocket};

use super::{Called, Client, ClientError, NOTHING, part, query};
use crate::*;

const CONNECT: Duration = Duration::from_secs(10);
/// The daemon pings at least every 30 seconds; whoever says nothing for this long is gone.
const SILENCE: Duration = Duration::from_secs(90);

/// Live events.
impl Client {
    /// A ticket for a socket.
    pub fn ticket(&self) -> Called<Ticket> {
        self.call("POST", "/api/v1/events/ticket", NOTHING)
    }

    /// Live events as the bytes of server-sent events.
    pub fn events(&self, after: Option<i64>) -> Called<impl Read + use<>> {
        let query = query(&[("after", after.map(|n| n.to_string()))]);
        self.stream("GET", &format!("/api/v1/events{query}"))
    }

    /// Live events, one by one.
    pub fn follow(&self, after: Option<i64>) -> Called<Events> {
        Ok(Events::new(self.events(after)?))
    }

    /// What happens in a session after a place, one by one.
    pub fn follow_session(&self, session: &str, after: i64) -> Called<Events<Step>> {
        let query = query(&[("after", Some(after.to_string()))]);
        Ok(Events::new(self.stream("GET", &format!("/api/v1/sessions/{}/stream{query}", part(session)))?))
    }

    /// Live events over a WebSocket.
    pub fn socket(&self, after: Option<i64>) -> Called<Socket> {
        let (scheme, authority) =
            self.base.split_once("://").ok_or_else(|| self.unreachable("not an address with a scheme"))?;
        let query = query(&[("after", after.map(|n| n.to_string()))]);
        let scheme = if scheme == "https" { "wss" } else { "ws" };
        let url = format!("{scheme}://{authority}/api/v1/events/socket{query}");
        let mut request = url.into_client_request().map_err(|error| self.unreachable(error))?;
        let headers = request.headers_mut();
        let value = |text: &str| HeaderValue::from_str(text).map_err(|error| self.unreachable(error));
        headers.insert("origin", value(&self.base)?);
        headers.insert("sec-websocket-protocol", HeaderValue::from_static("palisade.v1"));
        if let Some(token) = self.token() {
            headers.insert("authorization", value(&format!("Bearer {token}"))?);
        }
        let wire = self.dial(authority, scheme == "wss")?;
        match tungstenite::client(request, wire) {
            Ok((socket, _)) => Ok(Socket(socket)),
            Err(HandshakeError::Failure(tungstenite::Error::Http(answer))) => {
                let problem = answer.body().as_ref().and_then(|body| serde_json::from_slice(body).ok());
                Err(problem.map_or_else(
                    || ClientError::Unexpected(format!("status {}", answer.status())),
                    |problem| ClientError::Problem(Box::new(problem)),
                ))
            }
            Err(error) => Err(self.unreachable(error)),
        }
    }

    pub(super) fn unreachable(&self, why: impl ToString) -> ClientError {
        ClientError::Unreachable { base: self.base.clone(), why: why.to_string() }
    }

    /// A connection for a socket, with TLS where the address says so.
    fn dial(&self, authority: &str, secure: bool) -> Called<Box<dyn Wire>> {
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()),
            _ => (authority, Some(if secure { 443 } else { 80 })),
        };
        let port = port.ok_or_else(|| self.unreachable("not a port"))?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let mut found = (host, port).to_socket_addrs().map_err(|error| self.unreachable(error))?;
        let address = found.next().ok_or_else(|| self.unreachable("the name has no address"))?;
        let stream =
            TcpStream::connect_timeout(&address, CONNECT).map_err(|error| self.unreachable(error))?;
        let bounded =
            stream.set_read_timeout(Some(SILENCE)).and_then(|()| stream.set_write_timeout(Some(CONNECT)));
        bounded.map_err(|error| self.unreachable(error))?;
        if !secure {
            return Ok(Box::new(stream));
        }
        let mut roots = rustls::RootCertStore::empty();
        roots.add_parsable_certificates(self.roots.iter().map(|one| one.der().to_vec().into()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| self.unreachable(error))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = rustls::pki_types::ServerName::try_from(host.to_owned());
        let name = name.map_err(|error| self.unreachable(error))?;
        let session = rustls::ClientConnection::new(Arc::new(config), name);
        let session = session.map_err(|error| self.unreachable(error))?;
        Ok(Box::new(rustls::StreamOwned::new(session, stream)))
    }
}

/// What a socket is spoken over.
trait Wire: Read + Write + Send {}
impl<T: Read + Write + Send> Wire for T {}

/// Server-sent events, one by one. It ends with an error that says why, when the daemon ended it.
pub struct Events<T = Event> {
    lines: Option<Lines<BufReader<Box<dyn Read + Send>>>>,
    of: std::marker::PhantomData<T>,
}

impl<T> Events<T> {
    /// Reads events from bytes as [`Client::events`] gives them.
    pub fn new(bytes: impl Read + Send + 'static) -> Self {
        let lines = BufReader::new(Box::new(bytes) as Box<dyn Read + Send>).lines();
        Self { lines: Some(lines), of: std::marker::PhantomData }
    }
}

impl<T: serde::de::DeserializeOwned> Iterator for Events<T> {
    type Item = Called<T>;
    fn next(&mut self) -> Option<Called<T>> {
        let lines = self.lines.as_mut()?;
        let mut name = String::new();
        let ended = loop {
            let line = match lines.next()? {
                Ok(line) => line,
                Err(error) => break error.to_string(),
            };
            if let Some(rest) = line.strip_prefix("event:") {
                rest.trim().clone_into(&mut name);
            }
            let Some(data) = line.strip_prefix("data:") else { continue };
            if name == "ended" {
                break data.trim().to_owned();
            }
            match serde_json::from_str(data.trim()) {
                Ok(event) => return Some(Ok(event)),
                // Not an event at all: something for programs that know more.
                Err(_) => name.clear(),
            }
        };
        self.lines = None;
        Some(Err(ClientError::Unexpected(ended)))
    }
}

impl<T> std::fmt::Debug for Events<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Events")
    }
}

/// Events over a WebSocket.
pub struct Socket(WebSocket<Box<dyn Wire>>);

impl std::fmt::Debug for Socket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Socket")
    }
}

impl Socket {
    /// Waits for the next event; none once the other side closed in the ordinary way.
    pub fn event(&mut self) -> Called<Option<Event>> {
        let gone = |error: tungstenite::Error| ClientError::Unexpected(error.to_string());
        loop {
            match self.0.read() {
                Ok(Message::Text(text)) => match serde_json::from_str(text.as_str()) {
                    Ok(event) => return Ok(Some(event)),
                    Err(_) => complaint(text.as_str())?,
                },
                Ok(Message::Close(Some(frame))) if frame.code != CloseCode::Normal => {
                    return Err(ClientError::Unexpected(frame.reason.to_string()));
                }
                Ok(Message::Close(_)) | Err(tungstenite::Error::ConnectionClosed) => return Ok(None),
                Ok(Message::Ping(_) | Message::Pong(_) | Message::Binary(_) | Message::Frame(_)) => {}
                Err(error) => return Err(gone(error)),
            }
        }
    }

    /// Says that someone is still here.
    pub fn ping(&mut self) -> Called<()> {
        let sent = self.0.send(Message::text(r#"{"type":"ping"}"#));
        sent.map_err(|error| ClientError::Unexpected(error.to_string()))
    }

    /// Closes it.
    pub fn close(mut self) -> Called<()> {
        let closed = self.0.close(None).and_then(|()| self.0.flush());
        closed.map_err(|error| ClientError::Unexpected(error.to_string()))
    }
}

/// What is not an event is an answer to a ping, or a complaint; words of a newer server are neither.
fn complaint(text: &str) -> Called<()> {
    let message: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    match message.get("type").and_then(serde_json::Value::as_str) {
        Some("error") => {
            let detail = message.get("detail").and_then(serde_json::Value::as_str);
            Err(ClientError::Unexpected(detail.unwrap_or("the daemon did not understand").to_owned()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gtw_15_a_stream_of_a_newer_server_is_read() {
        let text = "\
            : keep-alive\n\n\
            id: 7\nevent: galaxy.folded\ndata: {\"seq\":7,\"at\":1,\"kind\":\"galaxy.folded\",\"worktree\":null,\"user\":null,\"orbit\":[1]}\n\n\
            event: weather\ndata: [\"not an event\"]\n\n\
            id: 8\nretry: 5\nevent: worktree.changed\ndata: {\"seq\":8,\"at\":2,\"kind\":\"worktree.changed\",\"worktree\":\"wt_1\",\"user\":null}\n\n\
            event: ended\ndata: you may no longer follow; sign in again\n\n";
        let mut events: Events = Events::new(text.as_bytes());
        assert_eq!(events.next().unwrap().unwrap().kind, "galaxy.folded");
        assert_eq!(events.next().unwrap().unwrap().seq, 8);
        let end = events.next().unwrap().unwrap_err();
        assert!(end.to_string().contains("no longer follow"), "{end}");
        assert!(events.next().is_none());
    }

    #[test]
    fn gtw_15_messages_of_a_newer_server_are_passed_over() {
        assert!(complaint(r#"{"type":"pong"}"#).is_ok());
        assert!(complaint(r#"{"type":"weather","sky":"clear"}"#).is_ok());
        assert!(complaint("no JSON").is_ok());
        assert!(complaint(r#"{"type":"error","detail":"x"}"#).is_err());
    }
}
