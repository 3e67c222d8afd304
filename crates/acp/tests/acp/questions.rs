//! Questions of an agent: each answered once, by whoever may.

use acp::{AcpError, Limits, Question, Update};
use serde_json::{Value, json};

use crate::peer::{Peer, next, opened, rest};

fn question(id: Value) -> Value {
    let call = json!({ "toolCallId": "c", "title": "Run", "rawInput": { "command": "ls" } });
    let options = json!([{ "optionId": "y", "name": "Yes", "kind": "allow_once" }, { "optionId": "n", "name": "No", "kind": "reject_once" }]);
    json!({ "jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": { "sessionId": "s1", "toolCall": call, "options": options } })
}

async fn asked(heard: &mut acp::Heard) -> Question {
    match next(heard).await {
        Update::Asked(question) => question,
        other => panic!("{other:?}"),
    }
}

fn outcome(answer: &Value) -> (Value, String) {
    let outcome = &answer["result"]["outcome"];
    (
        answer["id"].clone(),
        outcome["optionId"].as_str().or(outcome["outcome"].as_str()).unwrap_or("none").to_owned(),
    )
}

async fn heard_outcome(peer: &mut Peer) -> (Value, String) {
    outcome(&peer.heard().await)
}

#[tokio::test]
async fn a_question_is_answered_once_with_what_was_offered() {
    let (_agent, mut heard, mut peer, _) = opened(Limits::default()).await;
    for (id, answer, told) in [
        (json!(1), Some("y"), "y"),
        (json!(0), Some("n"), "n"),
        (json!("words"), Some("yes, please"), "cancelled"),
        (json!(-3), None, "cancelled"),
    ] {
        peer.send(question(id.clone())).await;
        let question = asked(&mut heard).await;
        assert_eq!(question.call.input, Some(json!({ "command": "ls" })));
        match answer {
            Some(choice) => question.answer(choice),
            None => question.cancel(),
        }
        assert_eq!(heard_outcome(&mut peer).await, (id, told.to_owned()));
    }
}

#[tokio::test]
async fn ids_that_an_agent_invents_do_not_collide() {
    let (_agent, mut heard, mut peer, _) = opened(Limits::default()).await;
    peer.send(question(json!(1))).await;
    let first = asked(&mut heard).await;
    // The same id while the first is open: refused, and the first stays what it is.
    peer.send(question(json!(1))).await;
    let refused = peer.heard().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(1), &json!(-32_600)));
    assert!(matches!(next(&mut heard).await, Update::Odd(_)));
    first.answer("n");
    assert_eq!(heard_outcome(&mut peer).await, (json!(1), "n".to_owned()));
    // And again later: another question.
    peer.send(question(json!(1))).await;
    asked(&mut heard).await.answer("y");
    assert_eq!(heard_outcome(&mut peer).await, (json!(1), "y".to_owned()));
}

#[tokio::test]
async fn so_many_questions_are_open_at_once_and_no_more() {
    let (_agent, mut heard, mut peer, _) = opened(Limits { questions: 2, ..Limits::default() }).await;
    for id in 0..3 {
        peer.send(question(json!(id))).await;
    }
    let _open = (asked(&mut heard).await, asked(&mut heard).await);
    assert!(matches!(next(&mut heard).await, Update::Odd(_)));
    assert_eq!(peer.heard().await["error"]["code"], -32_600);
}

#[tokio::test]
async fn a_question_that_cannot_be_shown_as_it_is_meant_is_put_to_nobody() {
    let (_agent, heard, mut peer, _) = opened(Limits::default()).await;
    let choice = |id: &str, kind: &str| json!({ "optionId": id, "name": "x", "kind": kind });
    let mut bad = Vec::new();
    for options in [
        json!([]),
        json!("all"),
        json!([choice("a", "allow_once"), choice("a", "reject_once")]),
        json!([choice("a", "allow_everything")]),
        json!([choice("", "allow_once")]),
        json!((0..17).map(|n| choice(&n.to_string(), "allow_once")).collect::<Vec<_>>()),
    ] {
        let mut one = question(json!(bad.len()));
        one["params"]["options"] = options;
        bad.push(one);
    }
    for (name, value) in [("sessionId", json!("s2")), ("sessionId", json!(null)), ("toolCall", json!({}))] {
        let mut one = question(json!(bad.len()));
        one["params"][name] = value;
        bad.push(one);
    }
    let count = bad.len();
    for one in bad {
        let id = one["id"].clone();
        peer.send(one).await;
        let answer = peer.heard().await;
        assert_eq!(answer["id"], id);
        assert!(answer["error"]["code"].is_number(), "{answer}");
    }
    drop(peer);
    let all = rest(heard).await;
    assert!(all.len() == count && all.iter().all(|one| one.starts_with("Odd")), "{all:#?}");
}

#[tokio::test]
async fn stopping_a_turn_answers_what_it_asked_and_what_it_still_asks() {
    let (agent, mut heard, mut peer, session) = opened(Limits::default()).await;
    let (one, of) = (agent.clone(), session.clone());
    let prompt = tokio::spawn(async move { one.prompt(&of, "go").await });
    let sent = peer.heard().await;
    assert_eq!(agent.prompt(&session, "at the same time").await, Err(AcpError::Busy));
    peer.send(question(json!(1))).await;
    let open = asked(&mut heard).await;
    agent.cancel(&session);
    assert_eq!(peer.heard().await["method"], "session/cancel");
    assert_eq!(heard_outcome(&mut peer).await, (json!(1), "cancelled".to_owned()));
    assert!(!open.is_open());
    open.answer("y");
    peer.send(question(json!(2))).await;
    assert_eq!(heard_outcome(&mut peer).await, (json!(2), "cancelled".to_owned()));
    peer.answer(&sent, json!({ "stopReason": "cancelled" })).await;
    assert_eq!(prompt.await.unwrap().unwrap().why, acp::Stop::Cancelled);
    assert!(matches!(next(&mut heard).await, Update::TurnOver));
    // The next turn is not stopped.
    peer.send(question(json!(3))).await;
    asked(&mut heard).await.answer("y");
    assert_eq!(heard_outcome(&mut peer).await, (json!(3), "y".to_owned()));
}

#[tokio::test]
async fn an_agent_takes_a_question_back() {
    let (_agent, mut heard, mut peer, _) = opened(Limits::default()).await;
    peer.send(question(json!("q"))).await;
    let open = asked(&mut heard).await;
    peer.send(json!({ "jsonrpc": "2.0", "method": "$/cancel_request", "params": { "requestId": "q" } }))
        .await;
    assert_eq!(heard_outcome(&mut peer).await, (json!("q"), "cancelled".to_owned()));
    assert!(!open.is_open());
}
