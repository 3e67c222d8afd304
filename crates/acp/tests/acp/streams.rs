//! What holds for every stream of bytes: it is read to its end, what comes of it is bounded, and where it is cut changes nothing.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use acp::{Limits, Update};
use proptest::prelude::*;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that come in pieces of so many, once something was said to whoever they are from.
struct Pieces {
    bytes: Vec<u8>,
    at: usize,
    piece: usize,
    was_asked: Arc<AtomicBool>,
}

impl AsyncRead for Pieces {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.was_asked.load(Ordering::SeqCst) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let end = self.at.saturating_add(self.piece.min(to.remaining())).min(self.bytes.len());
        to.put_slice(&self.bytes[self.at..end]);
        self.at = end;
        Poll::Ready(Ok(()))
    }
}

/// Takes everything.
struct Ear(Arc<AtomicBool>);

impl AsyncWrite for Ear {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.store(true, Ordering::SeqCst);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// What comes of a stream, as it is printed.
fn heard(bytes: &[u8], piece: usize) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let limits = Limits { record: 600, odd: 10_000, ..Limits::default() };
        let was_asked = Arc::new(AtomicBool::new(false));
        let pieces = Pieces { bytes: bytes.to_vec(), at: 0, piece, was_asked: Arc::clone(&was_asked) };
        let (agent, mut heard) = acp::connect(Ear(was_asked), pieces, limits);
        let opening = tokio::spawn(async move { agent.open("/".as_ref(), &[]).await });
        let (mut all, mut open) = (Vec::new(), Vec::new());
        while let Some(update) = heard.next().await {
            all.push(format!("{update:?}"));
            if let Update::Asked(question) = update {
                assert!(question.choices.len() <= 16);
                // Held to the end, so that which ones are open does not depend on when they are taken.
                open.push(question);
            }
        }
        // Its answer may be among the bytes; it is told something in any case.
        let _ = opening.await.unwrap();
        all
    })
}

fn record() -> impl Strategy<Value = Vec<u8>> {
    let value = prop_oneof![
        Just(json!(null)),
        Just(json!("s1")),
        Just(json!(1)),
        Just(json!({ "type": "text", "text": "hello" })),
        Just(json!([{ "optionId": "a", "name": "A", "kind": "allow_once" }])),
        Just(json!({ "toolCallId": "c", "title": "t" })),
        Just(json!([[[[[[[[[1]]]]]]]]])),
        any::<i64>().prop_map(|n| json!(n)),
        ".{0,30}".prop_map(|text| json!(text)),
    ];
    let name = prop_oneof![
        Just("id"),
        Just("method"),
        Just("params"),
        Just("result"),
        Just("error"),
        Just("sessionId"),
        Just("update"),
        Just("sessionUpdate"),
        Just("content"),
        Just("toolCall"),
        Just("options"),
        Just("toolCallId"),
        Just("title"),
        Just("code"),
    ];
    let kind = prop_oneof![
        Just("agent_message_chunk"),
        Just("tool_call"),
        Just("tool_call_update"),
        Just("plan"),
        Just("usage_update"),
        Just("current_mode_update"),
        Just("available_commands_update"),
        Just("config_option_update"),
        Just("nothing"),
    ];
    let method = prop_oneof![
        Just("session/update"),
        Just("session/request_permission"),
        Just("fs/read_text_file"),
        Just("$/cancel_request")
    ];
    let fields = proptest::collection::vec((name, value), 0..5);
    let message = (method, kind, fields.clone(), fields, any::<bool>()).prop_map(|(method, kind, inner, outer, asks)| {
        let mut update = json!({ "sessionUpdate": kind });
        for (name, value) in inner {
            update[name] = value;
        }
        let mut message = json!({ "jsonrpc": "2.0", "method": method, "params": { "sessionId": "s1", "update": update, "toolCall": update, "options": update["options"] } });
        if asks {
            message["id"] = json!(7);
        }
        for (name, value) in outer {
            message[name] = value;
        }
        message.to_string().into_bytes()
    });
    prop_oneof![
        4 => message,
        1 => proptest::collection::vec(any::<u8>(), 0..80),
        1 => (1usize..900).prop_map(|count| vec![b'['; count]),
        1 => Just(br#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s1"}}"#.to_vec()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn ses_08_no_stream_breaks_the_reader(records in proptest::collection::vec(record(), 0..30), piece in 1usize..200) {
        let bytes = records.join(&b'\n');
        let whole = heard(&bytes, usize::MAX);
        let lines = bytes.split(|byte| *byte == b'\n').count();
        prop_assert!(whole.len() <= lines, "{} updates of {} lines", whole.len(), lines);
        prop_assert_eq!(heard(&bytes, piece), whole);
    }
}
