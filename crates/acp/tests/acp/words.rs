//! What is sent for what is wanted, and what is understood of what is told.

use acp::{AcpError, Limits, McpServer, Stop, Update};
use serde_json::{Value, json};

use crate::peer::{next, opened, rest, said, talk};

/// Asks, and gives what was sent and what came of the answer.
macro_rules! asked {
    ($peer:expr, $asked:expr, $answer:expr) => {{
        let asking = tokio::spawn($asked);
        let sent = $peer.heard().await;
        let answer: Value = $answer;
        let mut message = json!({ "jsonrpc": "2.0", "id": sent["id"] });
        message.as_object_mut().unwrap().extend(answer.as_object().unwrap().clone());
        $peer.send(message).await;
        (sent, asking.await.unwrap())
    }};
}

/// The method and the parameters that were sent.
#[track_caller]
fn golden(sent: &Value, expected: &str) {
    let (method, params) = expected.split_once(' ').unwrap();
    let params: Value = serde_json::from_str(params).unwrap();
    assert_eq!((sent["method"].as_str(), &sent["params"]), (Some(method), &params));
}

#[tokio::test]
async fn ses_14_what_is_sent_is_what_the_protocol_says() {
    let (agent, _heard, mut peer) = talk(Limits::default());
    let one = agent.clone();
    let greeting = json!({ "result": { "protocolVersion": 1, "agentCapabilities": { "loadSession": true }, "authMethods": [{ "id": "key", "name": "A key" }] } });
    let (sent, able) = asked!(peer, async move { one.initialize("palisade", "0.1").await }, greeting);
    golden(
        &sent,
        r#"initialize {"clientCapabilities":{"fs":{"readTextFile":false,"writeTextFile":false},"terminal":false},"clientInfo":{"name":"palisade","version":"0.1"},"protocolVersion":1}"#,
    );
    assert!(able.unwrap().can_load);
    let one = agent.clone();
    let (sent, _) = asked!(peer, async move { one.authenticate("key").await }, json!({ "result": {} }));
    golden(&sent, r#"authenticate {"methodId":"key"}"#);
    let one = agent.clone();
    let server = McpServer {
        name: "m".into(),
        command: "/bin/m".into(),
        args: vec!["-x".into()],
        env: vec![("A".into(), "b".into())],
    };
    let made = json!({ "result": { "sessionId": "s1",
        "modes": { "currentModeId": "ask", "availableModes": [{ "id": "ask", "name": "Ask" }, { "id": "plan", "name": "Plan", "description": "d" }] },
        "configOptions": [
            { "id": "m", "name": "Model", "category": "model", "type": "select", "currentValue": "a", "options": [{ "group": "g", "name": "G", "options": [{ "value": "a", "name": "A" }] }, { "value": "b", "name": "B" }] },
            { "id": "e", "name": "Effort", "category": "thought_level", "type": "select", "currentValue": "low", "options": [] }] } });
    let (sent, opened) = asked!(peer, async move { one.open("/tree".as_ref(), &[server]).await }, made);
    golden(
        &sent,
        r#"session/new {"cwd":"/tree","mcpServers":[{"args":["-x"],"command":"/bin/m","env":[{"name":"A","value":"b"}],"name":"m"}]}"#,
    );
    let opened = opened.unwrap();
    assert_eq!(
        (opened.modes.len(), opened.mode.as_deref(), opened.model.as_deref()),
        (2, Some("ask"), Some("a"))
    );
    assert_eq!(opened.models.iter().map(|model| model.id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    let session = opened.session;
    let (one, of) = (agent.clone(), session.clone());
    let (sent, _) = asked!(peer, async move { one.set_mode(&of, "plan").await }, json!({ "result": null }));
    golden(&sent, r#"session/set_mode {"modeId":"plan","sessionId":"s1"}"#);
    let (one, of) = (agent.clone(), session.clone());
    let (sent, _) = asked!(peer, async move { one.set_model(&of, "--flag").await }, json!({ "result": {} }));
    golden(&sent, r#"session/set_config_option {"configId":"m","sessionId":"s1","value":"--flag"}"#);
    let (one, of) = (agent.clone(), session.clone());
    let (sent, _) = asked!(peer, async move { one.set(&of, "e", "high").await }, json!({ "result": {} }));
    golden(&sent, r#"session/set_config_option {"configId":"e","sessionId":"s1","value":"high"}"#);
    let (one, of) = (agent.clone(), session.clone());
    let ended = json!({ "result": { "stopReason": "max_tokens", "usage": { "totalTokens": 5 }, "_meta": { "x": 1 } } });
    let (sent, stopped) = asked!(peer, async move { one.prompt(&of, "-rf \"quoted\"\n").await }, ended);
    golden(
        &sent,
        r#"session/prompt {"prompt":[{"text":"-rf \"quoted\"\n","type":"text"}],"sessionId":"s1"}"#,
    );
    let stopped = stopped.unwrap();
    assert_eq!(
        (stopped.why, stopped.usage, stopped.meta),
        (Stop::MaxTokens, Some(json!({ "totalTokens": 5 })), Some(json!({ "x": 1 })))
    );
    agent.cancel(&session);
    golden(&peer.heard().await, r#"session/cancel {"sessionId":"s1"}"#);
    let of = session.clone();
    let (sent, loaded) =
        asked!(peer, async move { agent.load(&of, "/tree".as_ref()).await }, json!({ "result": null }));
    golden(&sent, r#"session/load {"cwd":"/tree","mcpServers":[],"sessionId":"s1"}"#);
    assert_eq!(loaded.unwrap().session, session);
}

#[tokio::test]
async fn models_that_are_told_the_older_way_are_set_the_older_way() {
    let (agent, _heard, mut peer) = talk(Limits::default());
    let one = agent.clone();
    let made = json!({ "result": { "sessionId": "s1", "models": { "currentModelId": "a", "availableModels": [{ "modelId": "a", "name": "A" }] } } });
    let (_, opened) = asked!(peer, async move { one.open("/tree".as_ref(), &[]).await }, made);
    let opened = opened.unwrap();
    assert_eq!(opened.model.as_deref(), Some("a"));
    let (sent, _) =
        asked!(peer, async move { agent.set_model(&opened.session, "a").await }, json!({ "result": {} }));
    assert_eq!(sent["params"], json!({ "sessionId": "s1", "modelId": "a" }));
}

#[tokio::test]
async fn answers_that_cannot_be_used_are_errors_that_say_so() {
    let (agent, _heard, mut peer) = talk(Limits::default());
    for (answer, expected) in [
        (json!({ "result": { "protocolVersion": 2 } }), AcpError::Version(2)),
        (
            json!({ "result": {} }),
            AcpError::Garbled { method: "initialize", why: "it names no version".into() },
        ),
        (
            json!({}),
            AcpError::Garbled { method: "initialize", why: "it has neither a result nor an error".into() },
        ),
        (
            json!({ "error": { "code": -32_000, "message": "no key" } }),
            AcpError::SignIn { message: "no key".into() },
        ),
        (
            json!({ "error": { "code": -32_603, "message": "internal", "data": { "details": "the disk is full" } } }),
            AcpError::Refused {
                method: "initialize",
                code: -32_603,
                message: "internal: the disk is full".into(),
            },
        ),
        (
            json!({ "error": 7, "result": { "protocolVersion": 1 } }),
            AcpError::Refused { method: "initialize", code: 0, message: "it does not say why".into() },
        ),
    ] {
        let one = agent.clone();
        let (_, result) = asked!(peer, async move { one.initialize("x", "1").await }, answer);
        assert_eq!(result, Err(expected));
    }
    for id in [json!(""), json!("a\nb"), json!("x".repeat(2000)), json!(7), Value::Null] {
        let one = agent.clone();
        let (_, result) = asked!(
            peer,
            async move { one.open("/".as_ref(), &[]).await },
            json!({ "result": { "sessionId": id } })
        );
        assert!(matches!(result, Err(AcpError::Garbled { .. })), "{result:?}");
    }
}

#[tokio::test]
async fn every_update_is_understood() {
    let (_agent, mut heard, mut peer, _) = opened(Limits::default()).await;
    let text = |text: &str| json!({ "type": "text", "text": text });
    for (update, expected) in [
        (said("hi"), r#"Said("hi")"#),
        (json!({ "sessionUpdate": "agent_thought_chunk", "content": text("hm") }), r#"Thought("hm")"#),
        (json!({ "sessionUpdate": "user_message_chunk", "content": text("go") }), r#"Person("go")"#),
        (
            json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "image", "mimeType": "image/png", "data": "AAAAAAAA" } }),
            r#"Said("[image image/png, about 6 bytes]")"#,
        ),
        (
            json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "resource_link", "name": "n", "uri": "file:///x" } }),
            r#"Said("[link n: file:///x]")"#,
        ),
        (
            json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "hologram" } }),
            r#"Said("[content of the kind `hologram`]")"#,
        ),
        (
            json!({ "sessionUpdate": "tool_call", "toolCallId": "c", "title": "Run", "kind": "execute", "status": "in_progress", "rawInput": { "command": "ls" },
                "locations": [{ "path": "/a", "line": 3 }, "junk"], "content": [{ "type": "terminal", "terminalId": "t" }, { "type": "content", "content": text("out") }] }),
            r#"Call(Call { id: "c", title: "Run", name: None, kind: Execute, status: InProgress, locations: [Location { path: "/a", line: Some(3) }], content: [Terminal("t"), Text("out")], input: Some(Object {"command": String("ls")}), output: None })"#,
        ),
        (
            json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed", "content": [{ "type": "diff", "path": "/a", "oldText": null, "newText": "n" }] }),
            r#"CallChanged(CallChange { id: "c", title: None, name: None, kind: None, status: Some(Completed), locations: None, content: Some([Diff { path: "/a", old: None, new: "n" }]), input: None, output: None })"#,
        ),
        (
            json!({ "sessionUpdate": "plan", "entries": [{ "content": "look", "priority": "high", "status": "completed" }] }),
            r#"Plan([Step { text: "look", priority: High, status: Completed }])"#,
        ),
        (json!({ "sessionUpdate": "current_mode_update", "currentModeId": "bypass" }), r#"Mode("bypass")"#),
        (
            json!({ "sessionUpdate": "available_commands_update", "availableCommands": [{ "name": "web", "description": "d", "input": { "hint": "h" } }] }),
            r#"Commands([Command { name: "web", about: "d", hint: Some("h") }])"#,
        ),
        (json!({ "sessionUpdate": "session_info_update", "title": "T" }), r#"Title("T")"#),
        (
            json!({ "sessionUpdate": "usage_update", "used": 5, "size": 10, "cost": { "amount": 0.5, "currency": "USD" } }),
            r#"Usage(Usage { used: 5, size: 10, cost: Some(Cost { amount: 0.5, currency: "USD" }), meta: None })"#,
        ),
        (json!({ "sessionUpdate": "config_option_update", "configOptions": [] }), "Settings([])"),
    ] {
        peer.update(update.clone()).await;
        assert_eq!(format!("{:?}", next(&mut heard).await), expected, "{update}");
    }
}

#[tokio::test]
async fn ses_08_what_lacks_what_belongs_to_it_is_odd_at_its_place() {
    let (_agent, heard, mut peer, _) = opened(Limits::default()).await;
    for update in [
        json!({ "sessionUpdate": "tool_call", "title": "no id" }),
        json!({ "sessionUpdate": "tool_call", "toolCallId": "x".repeat(5000), "title": "long id" }),
        json!({ "sessionUpdate": "plan" }),
        json!({ "sessionUpdate": 5 }),
        json!([]),
        json!({ "sessionUpdate": "usage_update", "used": -1, "size": 1 }),
    ] {
        peer.update(update).await;
        peer.say("next").await;
    }
    peer.send(json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": "another", "update": said("x") } })).await;
    // What is not known is told once, however often it comes; what an agent adds to the protocol, by its sign, not at all.
    for _ in 0..3 {
        peer.update(json!({ "sessionUpdate": "levitation" })).await;
        peer.send(json!({ "jsonrpc": "2.0", "method": "vendor/thing", "params": {} })).await;
        peer.send(json!({ "jsonrpc": "2.0", "method": "_vendor/thing", "params": {} })).await;
    }
    drop(peer);
    let all = rest(heard).await;
    let odd: Vec<bool> = all.iter().map(|one| one.starts_with("Odd")).collect();
    let mut expected = [true, false].repeat(6);
    expected.extend([true, true, true]);
    assert_eq!(odd, expected, "{all:#?}");
}

#[tokio::test]
async fn what_is_told_while_a_session_is_loaded_is_told_again() {
    let (agent, mut heard, mut peer) = talk(Limits::default());
    let one = agent.clone();
    let greeting =
        json!({ "result": { "protocolVersion": 1, "agentCapabilities": { "loadSession": true } } });
    let _ = asked!(peer, async move { one.initialize("x", "1").await }, greeting);
    let loading = tokio::spawn(async move { agent.load(&"s1".parse().unwrap(), "/tree".as_ref()).await });
    let sent = peer.heard().await;
    peer.say("before").await;
    peer.answer(&sent, json!({})).await;
    peer.say("after").await;
    assert!(
        matches!(next(&mut heard).await, Update::Again(update) if matches!(&*update, Update::Said(text) if text == "before"))
    );
    assert!(matches!(next(&mut heard).await, Update::Said(text) if text == "after"));
    loading.await.unwrap().unwrap();
}

#[tokio::test]
async fn the_end_of_a_turn_stands_behind_what_belongs_to_it() {
    let (agent, mut heard, mut peer, session) = opened(Limits::default()).await;
    let prompt = tokio::spawn(async move { (agent.prompt(&session, "go").await, agent) });
    let sent = peer.heard().await;
    peer.say("in the turn").await;
    peer.answer(&sent, json!({ "stopReason": "end_turn" })).await;
    peer.say("behind it").await;
    assert_eq!(prompt.await.unwrap().0.unwrap().why, Stop::EndTurn);
    let all = [next(&mut heard).await, next(&mut heard).await, next(&mut heard).await];
    assert_eq!(format!("{all:?}"), r#"[Said("in the turn"), TurnOver, Said("behind it")]"#);
}
