//! Bounds that hold whatever the agent does: floods, silence, an end in the middle, and ends that are dropped.

use std::time::{Duration, Instant};

use acp::{AcpError, Limits, Update};
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::time::{sleep, timeout};

use crate::peer::{next, opened, rest, talk};

#[tokio::test]
async fn ses_08_a_flood_of_junk_is_counted_and_told_once_with_its_count() {
    let (_agent, heard, mut peer, _) = opened(Limits { odd: 5, ..Limits::default() }).await;
    let told = tokio::spawn(rest(heard));
    for _ in 0..500 {
        peer.raw(b"junk\n").await;
    }
    peer.say("still here").await;
    drop(peer);
    let all = told.await.unwrap();
    assert!(all.len() < 12, "{all:#?}");
    let counted: u64 = all
        .iter()
        .filter_map(|one| one.strip_prefix("Odd(\"")?.split_once(" further")?.0.parse::<u64>().ok())
        .sum();
    let told = all.iter().filter(|one| one.contains("`junk`")).count() as u64;
    assert_eq!(counted + told, 500, "{all:#?}");
    assert!(all.iter().any(|one| one.contains("still here")), "{all:#?}");
}

#[tokio::test]
async fn what_was_only_counted_is_told_when_it_is_quiet() {
    let (_agent, mut heard, mut peer, _) = opened(Limits { odd: 0, ..Limits::default() }).await;
    peer.raw(b"junk\njunk\n").await;
    assert!(matches!(next(&mut heard).await, Update::Odd(why) if why.starts_with("2 further")));
}

#[tokio::test]
async fn what_nobody_takes_holds_the_agent_up_within_a_bound() {
    let (_agent, mut heard, mut peer, _) = opened(Limits { ahead: 64 << 10, ..Limits::default() }).await;
    let text = "x".repeat(16 << 10);
    let sending = tokio::spawn(async move {
        for _ in 0..100 {
            peer.say(&text).await;
        }
        peer
    });
    sleep(Duration::from_millis(200)).await;
    assert!(!sending.is_finished(), "all of it was taken in");
    for _ in 0..100 {
        assert!(matches!(next(&mut heard).await, Update::Said(_)));
    }
    sending.await.unwrap();
}

#[tokio::test]
async fn junk_without_end_is_read_slowly() {
    let (_agent, heard, mut peer, _) = opened(Limits::default()).await;
    let told = tokio::spawn(rest(heard));
    let before = Instant::now();
    // One line of 16 MiB, and half a second at least.
    for _ in 0..256 {
        peer.raw(&[b'x'; 64 << 10]).await;
    }
    assert!(before.elapsed() > Duration::from_millis(300), "{:?}", before.elapsed());
    drop(peer);
    assert_eq!(told.await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_answer_that_is_too_long_is_waited_for_by_nobody() {
    let (agent, mut heard, mut peer, session) = opened(Limits::default()).await;
    let prompt = tokio::spawn(async move { agent.prompt(&session, "go").await });
    let sent = peer.heard().await;
    let long = "x".repeat(2 << 20);
    peer.send(json!({ "jsonrpc": "2.0", "id": sent["id"], "result": { "stopReason": "end_turn", "_meta": { "x": long } } })).await;
    let garbled = AcpError::Garbled { method: "session/prompt", why: "it is too long".into() };
    assert_eq!(timeout(Duration::from_secs(10), prompt).await.unwrap().unwrap(), Err(garbled));
    assert!(matches!(next(&mut heard).await, Update::Odd(_)));
    assert!(matches!(next(&mut heard).await, Update::TurnOver));
    // A question that is too long is refused, so that the agent does not wait either.
    peer.send(json!({ "jsonrpc": "2.0", "method": "session/request_permission", "params": { "x": long }, "id": "q" })).await;
    let refused = peer.heard().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!("q"), &json!(-32_600)));
}

#[tokio::test]
async fn json_that_is_passed_on_is_bounded() {
    let (_agent, mut heard, mut peer, _) = opened(Limits::default()).await;
    let input = json!({ "content": "x".repeat(100_000) });
    peer.update(json!({ "sessionUpdate": "tool_call", "toolCallId": "c", "title": "t".repeat(50_000), "rawInput": input })).await;
    let Update::Call(call) = next(&mut heard).await else { panic!("no call") };
    assert_eq!(call.input, Some(json!({ "omitted": "100014 bytes" })));
    assert!(call.title.len() < 9_000 && call.title.ends_with("bytes more]"));
}

#[tokio::test]
async fn a_prompt_that_no_line_can_hold_is_not_sent() {
    let (agent, _heard, _peer, session) = opened(Limits::default()).await;
    let long = "x".repeat(9 << 20);
    assert_eq!(agent.prompt(&session, &long).await, Err(AcpError::TooLong { most: 8 << 20 }));
}

#[tokio::test]
async fn when_the_stream_ends_everybody_who_waits_is_told() {
    let (agent, heard, mut peer, session) = opened(Limits::default()).await;
    let mut waiting = Vec::new();
    for n in 0..20 {
        let (agent, session) = (agent.clone(), session.clone());
        // More than can be under way at once.
        waiting.push(tokio::spawn(async move {
            if n == 0 {
                agent.prompt(&session, "go").await.map(drop)
            } else {
                agent.initialize("x", "1").await.map(drop)
            }
        }));
    }
    peer.heard().await;
    peer.raw(b"{\"jsonrpc\":\"2.0\",\"id\":2,\"resu").await;
    drop(peer);
    for one in waiting {
        assert_eq!(timeout(Duration::from_secs(10), one).await.unwrap().unwrap(), Err(AcpError::Gone));
    }
    assert_eq!(rest(heard).await.len(), 1, "the line that was cut off is odd");
    assert_eq!(agent.open("/".as_ref(), &[]).await, Err(AcpError::Gone));
}

#[tokio::test]
async fn a_request_that_was_given_up_is_not_sent_later() {
    let wait = Duration::from_millis(100);
    let (agent, _heard, mut peer, session) = opened(Limits { turn: wait, ..Limits::default() }).await;
    // The first fills the pipe, so the second waits in the queue.
    let large = "x".repeat(200 << 10);
    assert!(matches!(agent.prompt(&session, &large).await, Err(AcpError::Late { .. })));
    assert!(matches!(agent.prompt(&session, "forgotten").await, Err(AcpError::Late { .. })));
    agent.cancel(&session);
    agent.cancel(&session);
    assert_eq!(peer.heard().await["params"]["prompt"][0]["text"].as_str().unwrap().len(), large.len());
    assert_eq!(peer.heard().await["method"], "session/cancel");
    let asking = tokio::spawn(async move { agent.initialize("x", "1").await });
    assert_eq!(peer.heard().await["method"], "initialize", "the forgotten one, or a second word to stop");
    asking.abort();
}

#[tokio::test]
async fn ends_that_are_dropped_end_everything() {
    // The other side sees the end of both streams.
    let (ours, mut theirs) = tokio::io::duplex(1024);
    let (from, to) = tokio::io::split(ours);
    let (agent, heard) = acp::connect(to, from, Limits::default());
    drop((agent, heard));
    let mut byte = [0; 1];
    assert_eq!(timeout(Duration::from_secs(10), theirs.read(&mut byte)).await.unwrap().unwrap(), 0);

    // Also while nobody reads what is written.
    let (ours, theirs) = tokio::io::duplex(16);
    let (from, to) = tokio::io::split(ours);
    let (agent, heard) = acp::connect(to, from, Limits::default());
    let asking = tokio::spawn({
        let agent = agent.clone();
        async move { agent.initialize("x", "1").await }
    });
    sleep(Duration::from_millis(20)).await;
    drop(heard);
    assert_eq!(timeout(Duration::from_secs(10), asking).await.unwrap().unwrap(), Err(AcpError::Gone));
    drop(agent);
    let (mut theirs, _) = tokio::io::split(theirs);
    let read = async {
        let mut all = Vec::new();
        theirs.read_to_end(&mut all).await.unwrap();
    };
    timeout(Duration::from_secs(10), read).await.unwrap();
}

#[tokio::test]
async fn an_agent_whose_input_was_closed_is_heard_to_its_end() {
    let (agent, heard, mut peer, session) = opened(Limits::default()).await;
    let (one, of) = (agent.clone(), session.clone());
    let prompt = tokio::spawn(async move { one.prompt(&of, "go").await });
    let sent = peer.heard().await;
    agent.cancel(&session);
    agent.close();
    assert_eq!(agent.prompt(&session, "more").await, Err(AcpError::Gone));
    assert_eq!(peer.heard().await["method"], "session/cancel", "what was on the way is written");
    peer.end().await;
    peer.say("last words").await;
    peer.answer(&sent, json!({ "stopReason": "cancelled" })).await;
    drop(peer);
    assert_eq!(prompt.await.unwrap().unwrap().why, acp::Stop::Cancelled);
    assert_eq!(rest(heard).await, [r#"Said("last words")"#, "TurnOver"]);
}

#[tokio::test]
async fn a_stream_that_says_nothing_ends_as_one_that_did() {
    let (agent, heard, peer) = talk(Limits::default());
    drop(peer);
    assert!(rest(heard).await.is_empty());
    assert_eq!(agent.initialize("x", "1").await, Err(AcpError::Gone));
}
