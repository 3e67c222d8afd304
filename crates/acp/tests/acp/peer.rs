//! The other end: an agent that a test plays by hand.

use std::time::Duration;

use acp::{Agent, AgentSession, Heard, Limits, Update};
use acp_kit::schema;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};
use tokio::time::timeout;

/// No test waits longer for one message.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Peer {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    out: WriteHalf<DuplexStream>,
}

/// Both ends of a talk.
pub(crate) fn talk(limits: Limits) -> (Agent, Heard, Peer) {
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    let (from, to) = tokio::io::split(ours);
    let (agent, heard) = acp::connect(to, from, limits);
    let (from, out) = tokio::io::split(theirs);
    (agent, heard, Peer { lines: BufReader::new(from).lines(), out })
}

/// A talk about one session, `s1`.
pub(crate) async fn opened(limits: Limits) -> (Agent, Heard, Peer, AgentSession) {
    let (agent, heard, mut peer) = talk(limits);
    let asking = agent.clone();
    let opening = tokio::spawn(async move { asking.open("/tree".as_ref(), &[]).await.unwrap().session });
    let asked = peer.heard().await;
    peer.answer(&asked, json!({ "sessionId": "s1" })).await;
    (agent, heard, peer, opening.await.unwrap())
}

impl Peer {
    /// The next message, which the protocol's own types can read.
    pub(crate) async fn heard(&mut self) -> Value {
        let line = timeout(PATIENCE, self.lines.next_line()).await.expect("nothing is said").unwrap();
        let message: Value = serde_json::from_str(&line.expect("the stream ended")).unwrap();
        assert_eq!(message["jsonrpc"], "2.0");
        match message["method"].as_str() {
            Some(method) => schema::check_asked(method, &message["params"]),
            None if message["error"].is_null() => schema::check_decided(&message["result"]),
            None => {}
        }
        message
    }

    /// The end of what is said.
    pub(crate) async fn end(&mut self) {
        let line = timeout(PATIENCE, self.lines.next_line()).await.expect("the stream does not end").unwrap();
        assert_eq!(line, None);
    }

    pub(crate) async fn raw(&mut self, bytes: &[u8]) {
        self.out.write_all(bytes).await.unwrap();
    }

    pub(crate) async fn send(&mut self, message: Value) {
        self.raw(format!("{message}\n").as_bytes()).await;
    }

    pub(crate) async fn answer(&mut self, asked: &Value, result: Value) {
        self.send(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result })).await;
    }

    pub(crate) async fn update(&mut self, update: Value) {
        let params = json!({ "sessionId": "s1", "update": update });
        self.send(json!({ "jsonrpc": "2.0", "method": "session/update", "params": params })).await;
    }

    pub(crate) async fn say(&mut self, text: &str) {
        self.update(said(text)).await;
    }
}

pub(crate) fn said(text: &str) -> Value {
    json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } })
}

/// The next update.
pub(crate) async fn next(heard: &mut Heard) -> Update {
    timeout(PATIENCE, heard.next()).await.expect("nothing is told").expect("the stream ended")
}

/// Updates as they are printed, to the end.
pub(crate) async fn rest(mut heard: Heard) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(update) = timeout(PATIENCE, heard.next()).await.expect("nothing is told") {
        all.push(format!("{update:?}"));
    }
    all
}
