//! Providers that answer, and providers that do not.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Agent;
use crate::model::{Model, Reply, TOKENS};
use crate::world::{KEY, World, provider};

fn status(status: u16) -> Reply {
    Reply::Status(status, Vec::new(), String::new())
}

fn failed(agent: &mut Agent) -> String {
    agent.prompt("go").unwrap_err()["message"].as_str().unwrap().to_owned()
}

fn meta(answer: &Value) -> Value {
    answer["_meta"]["palisade"].clone()
}

#[test]
fn ses_32_every_wire_format_streams_calls_tools_and_counts_tokens() {
    for kind in ["anthropic", "openai", "gemini", "ollama"] {
        let world = World::new();
        let world = {
            let base = world.model.base();
            world.with("providers", json!([provider("main", kind, &base)]))
        };
        world.file("a.txt", "content of the file");
        world.model.plays([
            Reply::Call(vec![("read_file", json!({ "path": "a.txt" }))]),
            Reply::Say("I have read it"),
        ]);
        let mut agent = world.opened();
        let answer = agent.prompt("read a.txt").unwrap();
        assert_eq!(answer["stopReason"], "end_turn", "{kind}");
        assert_eq!(agent.said(), "I have read it", "{kind}");
        assert_eq!(agent.results()[0].1, "content of the file", "{kind}");
        let seen = world.model.seen();
        assert!(seen[1].body.to_string().contains("content of the file"), "{kind}");
        assert!(seen.iter().all(|one| one.headers.iter().any(|(_, value)| value.contains(KEY))), "{kind}");
        assert!(
            seen.iter().all(|one| !one.path.contains(KEY) && !one.body.to_string().contains(KEY)),
            "{kind}"
        );
        let [input, output, read, written] = TOKENS;
        let usage = meta(&answer)["usage"].clone();
        assert_eq!(
            (usage["input"].as_u64(), usage["output"].as_u64()),
            (Some(2 * input), Some(2 * output)),
            "{kind}"
        );
        let cached = if kind == "ollama" { 0 } else { 2 * read };
        assert_eq!(usage["cacheRead"], cached, "{kind}");
        assert_eq!(usage["cacheWrite"], if kind == "anthropic" { 2 * written } else { 0 }, "{kind}");
    }
}

#[test]
fn ses_32_each_format_says_a_conversation_as_its_provider_wants_it() {
    for kind in ["openai", "gemini", "ollama"] {
        let world = World::new();
        let world = {
            let base = world.model.base();
            world.with("providers", json!([provider("main", kind, &base)]))
        };
        world.model.plays([Reply::Call(vec![("list", json!({ "path": "." }))]), Reply::Say("ok")]);
        world.opened().prompt("go").unwrap();
        let seen = world.model.seen();
        let body = &seen[1].body;
        match kind {
            "openai" => {
                let messages = body["messages"].as_array().unwrap();
                assert_eq!(messages[2]["tool_calls"][0]["id"], messages[3]["tool_call_id"]);
                assert_eq!(messages[2]["tool_calls"][0]["function"]["arguments"], r#"{"path":"."}"#);
                assert_eq!(body["stream_options"]["include_usage"], true);
            }
            "gemini" => {
                let contents = body["contents"].as_array().unwrap();
                assert_eq!(contents[1]["parts"][0]["functionCall"]["name"], "list");
                assert_eq!(contents[1]["parts"][0]["thoughtSignature"], "sig");
                assert_eq!(contents[2]["parts"][0]["functionResponse"]["name"], "list");
                assert!(seen[1].path.contains("/models/gemini-2.5-flash:streamGenerateContent?alt=sse"));
            }
            _ => {
                let messages = body["messages"].as_array().unwrap();
                assert_eq!(messages[2]["tool_calls"][0]["function"]["arguments"]["path"], ".");
                assert_eq!(messages[3]["tool_name"], "list");
            }
        }
    }
}

#[test]
fn ses_32_cost_is_what_the_provider_would_say() {
    let world = World::new();
    let answer = world.opened().prompt("go").unwrap();
    let [input, output, read, written] = TOKENS;
    // The price list of that model, in dollars for a million tokens, written down once more by hand.
    let dollars = [(input, 3.0), (output, 15.0), (read, 0.3), (written, 3.75)];
    let expected: f64 =
        dollars.iter().map(|(tokens, price)| f64::from(u32::try_from(*tokens).unwrap()) * price).sum();
    let told = meta(&answer)["calls"][0]["costMicroUsd"].as_f64().unwrap();
    assert!((told - expected).abs() / expected < 0.01, "{told} of {expected}");
    assert_eq!(meta(&answer)["calls"][0]["provider"], "main");
    let unknown = World::new();
    let mut one = provider("main", "anthropic", &unknown.model.base());
    one["model"] = json!("unheard-of");
    let unknown = unknown.with("providers", json!([one]));
    assert_eq!(
        meta(&unknown.opened().prompt("go").unwrap())["costMicroUsd"],
        Value::Null,
        "no price is not free"
    );
}

/// SES-32: what was spent is told with each answer of a model, not only at an end that may not come.
#[test]
fn ses_32_what_is_spent_is_told_as_it_is_spent() {
    let world = World::new();
    let read = || Reply::Call(vec![("read_file", json!({ "path": "notes.txt" }))]);
    world.model.plays([read(), Reply::Say("done")]);
    let mut client = world.opened();
    let answer = client.prompt("go").unwrap();
    let told: Vec<&Value> =
        client.updates.iter().filter(|update| update["sessionUpdate"] == "usage_update").collect();
    assert_eq!(told.len(), 2, "{told:?}");
    let cost = |update: &Value| update["_meta"]["palisade"]["costMicroUsd"].as_u64().unwrap();
    assert!(cost(told[0]) > 0 && cost(told[1]) == 2 * cost(told[0]), "{told:?}");
    assert_eq!(meta(&answer)["costMicroUsd"], told[1]["_meta"]["palisade"]["costMicroUsd"]);
    assert_eq!(meta(&answer)["usage"], told[1]["_meta"]["palisade"]["usage"]);
    // An answer that never comes takes nothing of that back.
    world.model.plays([read()]);
    world.model.otherwise(Reply::Status(500, Vec::new(), String::new()));
    client.prompt("go").unwrap_err();
    assert!(client.updates.iter().any(|update| update["sessionUpdate"] == "usage_update"));
}

#[test]
fn ses_32_each_illness_is_tried_three_times_and_told_without_a_secret() {
    let echo = format!(r#"{{"error":{{"message":"bad thing about {KEY}"}}}}"#);
    let long = format!("data: {}\n\n", "x".repeat(2 << 20));
    for (name, reply, words) in [
        ("500", Reply::Status(500, Vec::new(), echo.clone()), "answered 500"),
        ("garbage", Reply::Raw(b"data: {nonsense\n\n".to_vec()), "no answer"),
        ("no text", Reply::Raw(b"data: \xff\xff\n\n".to_vec()), "no answer"),
        ("empty", Reply::Raw(Vec::new()), "cut its answer off"),
        ("cut off", Reply::CutOff("I was about to"), "cut its answer off"),
        ("mute", Reply::Mute(Duration::from_secs(20)), "in time"),
        ("stall", Reply::Stall("I was", Duration::from_secs(20)), "in time"),
        ("long line", Reply::Raw(long.into_bytes()), "more than"),
        ("endless", Reply::Endless("data: {\"type\":\"ping\"}\n\n"), "more than"),
        ("endless line", Reply::Endless("xxxxxxxxxxxxxxxx"), "more than"),
        (
            "overloaded",
            Reply::Raw(b"data: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n".to_vec()),
            "overloaded",
        ),
    ] {
        let world = World::new()
            .limit("first_byte_ms", 1_000)
            .limit("silence_ms", 1_000)
            .limit("answer_bytes", 1 << 20);
        world.model.otherwise(reply);
        let mut agent = world.opened();
        let why = failed(&mut agent);
        assert!(why.contains(words), "{name}: {why}");
        assert!(why.contains("tried 3 of 3 times"), "{name}: {why}");
        assert!(!why.contains(KEY), "{name}: {why}");
        assert_eq!(world.model.seen().len(), 3, "{name}");
        world.model.otherwise(Reply::Say("well again"));
        assert_eq!(
            agent.prompt("once more").unwrap()["stopReason"],
            "end_turn",
            "{name}: the session is still usable"
        );
        assert!(
            world.model.seen().last().unwrap().body.to_string().contains("go"),
            "what was typed is not lost"
        );
    }
}

#[test]
fn ses_32_an_answer_that_broke_off_is_asked_for_again_and_said_so() {
    let world = World::new();
    world.model.plays([Reply::CutOff("half an"), Reply::Say("a whole answer")]);
    let mut agent = world.opened();
    assert_eq!(agent.prompt("go").unwrap()["stopReason"], "end_turn");
    assert_eq!(agent.said(), "half an\n[the answer broke off and is asked for again]\na whole answer");
    world.model.plays([Reply::Say("ok")]);
    agent.prompt("more").unwrap();
    let last = world.model.seen().last().unwrap().body.to_string();
    assert!(last.contains("a whole answer") && !last.contains("half an"), "only the whole one is remembered");
}

#[test]
fn ses_32_the_next_provider_is_asked_when_one_does_not_answer() {
    let (first, second) = (Model::start(), Model::start());
    first.otherwise(status(503));
    let world = World::new().with(
        "providers",
        json!([
            provider("first", "anthropic", &first.base()),
            provider("second", "openai", &format!("{}/v1", second.base()))
        ]),
    );
    let mut agent = world.opened();
    let answer = agent.prompt("go").unwrap();
    assert_eq!((first.seen().len(), second.seen().len()), (3, 1));
    assert_eq!(meta(&answer)["calls"][0]["provider"], "second");
    assert_eq!(second.seen()[0].path, "/v1/chat/completions");
    // A request that is wrong is not sent again.
    let world = World::new();
    world.model.otherwise(status(400));
    failed(&mut world.opened());
    assert_eq!(world.model.seen().len(), 1);
}

#[test]
fn ses_32_too_many_requests_waits_as_told_or_as_usual() {
    for (headers, least) in [(vec![("retry-after", "1".to_owned())], 1_000), (Vec::new(), 400)] {
        let world = World::new().limit("rate_wait_ms", 400);
        world.model.plays([Reply::Status(429, headers, String::new()), Reply::Say("ok")]);
        world.opened().prompt("go").unwrap();
        let seen = world.model.seen();
        let waited = seen[1].at - seen[0].at;
        assert!(waited >= Duration::from_millis(least), "{waited:?} of {least} ms");
        assert!(waited < Duration::from_millis(least + 5_000), "{waited:?} of {least} ms");
    }
}

#[test]
fn ses_32_a_wait_that_is_too_long_is_not_waited_for() {
    let (first, second) = (Model::start(), Model::start());
    first.otherwise(Reply::Status(429, vec![("retry-after", "86400".to_owned())], String::new()));
    let world = World::new().with(
        "providers",
        json!([
            provider("first", "anthropic", &first.base()),
            provider("second", "anthropic", &second.base())
        ]),
    );
    let before = Instant::now();
    world.opened().prompt("go").unwrap();
    assert!(before.elapsed() < Duration::from_secs(20));
    assert_eq!((first.seen().len(), second.seen().len()), (1, 1));
}

#[test]
fn ses_32_the_next_key_is_used_when_one_is_refused_or_rests() {
    for (reply, code) in
        [(status(401), 401), (Reply::Status(429, vec![("retry-after", "50".to_owned())], String::new()), 429)]
    {
        let world = World::new();
        let mut one = provider("main", "anthropic", &world.model.base());
        one["keys"] = json!(["MODEL_KEY", "SECOND_KEY"]);
        let world = world.with("providers", json!([one]));
        world.model.plays([reply]);
        let second = "another-key-0c2b4d6e8f10";
        let mut agent =
            Agent::start(&world.config, &[("MODEL_KEY", KEY), ("SECOND_KEY", second)], &world.home());
        agent.open(&world.tree());
        let before = Instant::now();
        agent.prompt("go").unwrap();
        agent.prompt("again").unwrap();
        assert!(before.elapsed() < Duration::from_secs(20));
        let keys: Vec<_> =
            world.model.seen().iter().map(|one| one.header("x-api-key").unwrap().to_owned()).collect();
        assert_eq!(keys, [KEY, second, second], "{code}");
    }
}

#[test]
fn ses_33_five_failures_open_a_breaker_and_one_probe_closes_it() {
    let (first, second) = (Model::start(), Model::start());
    first.otherwise(status(500));
    let world = World::new().limit("breaker_open_ms", 4_000).with(
        "providers",
        json!([
            provider("first", "anthropic", &first.base()),
            provider("second", "anthropic", &second.base())
        ]),
    );
    let mut agent = world.opened();
    let closed = meta(&agent.prompt("one").unwrap())["breakers"].clone();
    assert_eq!((first.seen().len(), closed["first"].as_str()), (3, Some("closed")));
    let open = meta(&agent.prompt("two").unwrap())["breakers"].clone();
    assert_eq!((first.seen().len(), open["first"].as_str()), (5, Some("open")), "the fifth failure opens it");
    assert_eq!(open["second"], "closed", "one provider's breaker is its own");
    agent.prompt("three").unwrap();
    assert_eq!(first.seen().len(), 5, "nobody hammers at it");
    std::thread::sleep(Duration::from_millis(4_100));
    agent.prompt("four").unwrap();
    assert_eq!(first.seen().len(), 6, "one probe, and it fails");
    std::thread::sleep(Duration::from_millis(4_100));
    first.otherwise(Reply::Say("well again"));
    let answer = agent.prompt("five").unwrap();
    assert_eq!((first.seen().len(), meta(&answer)["breakers"]["first"].as_str()), (7, Some("closed")));
    assert_eq!(agent.said(), "well again");
}

#[test]
fn ses_33_a_person_who_stops_a_turn_stops_its_tries() {
    let world = World::new().limit("backoff_ms", 10_000);
    world.model.otherwise(status(500));
    let mut agent = world.opened();
    let prompt = json!([{ "type": "text", "text": "go" }]);
    let id = agent.begin("session/prompt", json!({ "sessionId": agent.session, "prompt": prompt }));
    let until = Instant::now() + Duration::from_secs(20);
    while world.model.seen().is_empty() {
        assert!(Instant::now() < until);
        std::thread::sleep(Duration::from_millis(5));
    }
    agent.cancel();
    assert_eq!(agent.finish(id, "session/prompt").unwrap()["stopReason"], "cancelled");
    assert_eq!(world.model.seen().len(), 1);
}
