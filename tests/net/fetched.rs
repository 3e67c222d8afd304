//! What the built-in agent fetches from the web goes the way of everything that leaves a sandbox.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::agents::{SAYS, anthropic_turn};
use crate::daemon::{ANTHROPIC, Stage, document, programs, said};
use crate::world::{EVERYONE, Request, World, answer};

const PAGE: &str = "what a page of the registry says";

/// Pages at hosts, and a model that has one fetched that a rule allows, and then one that none does.
fn answers(request: &Request) -> Vec<u8> {
    if request.field("host") != Some("api.anthropic.com") {
        return answer("200 OK", "Content-Type: text/plain\r\n", PAGE.as_bytes());
    }
    let done = String::from_utf8_lossy(&request.body).matches("\"tool_result\"").count();
    let Some(url) = ["https://registry.npmjs.org/left-pad", "https://other.test/page"].get(done) else {
        let delta = json!({ "type": "text_delta", "text": SAYS }).to_string();
        return anthropic_turn(r#"{"type":"text","text":""}"#, &delta, "end_turn");
    };
    let block =
        json!({ "type": "tool_use", "id": format!("toolu_{done}"), "name": "web_fetch", "input": {} });
    let delta = json!({ "type": "input_json_delta", "partial_json": json!({ "url": url }).to_string() });
    anthropic_turn(&block.to_string(), &delta.to_string(), "tool_use")
}

/// EGR-01: a person allowed both; the rules of the session allow one, and that is what happens.
#[test]
fn egr_01_what_the_built_in_agent_fetches_is_judged_by_the_rules_of_its_session() {
    for who in EVERYONE {
        let world = World::new(who);
        let hosts = ["api.anthropic.com", "registry.npmjs.org", "other.test"];
        let server = world.answering(443, &hosts, Arc::new(answers));
        let here = "based_on = \"palisade\"\ntitle = \"Palisade's own agent, and packages\"\n\
                    presets = [\"anthropic\", \"npm-install\"]\n";
        document(&world, "fetches", here);
        let stage = Stage::new(&world, &programs(&world, &[]));
        stage.keeps(ANTHROPIC);
        let session = stage.session(&["--agent", "fetches"]);
        let task = stage.asks(&session, "what do they say?");
        let (task, kinds) = stage.allows(&session, &task);
        let steps = stage.steps(&session);
        assert_eq!(task["state"], "done", "{task} {steps:?}");
        assert_eq!(kinds, ["fetch", "fetch"], "both were asked for, and allowed by a person: {steps:?}");
        assert!(said(&steps).contains(SAYS), "{steps:?}");
        // One came to its host; of the other nothing left the sandbox.
        let seen = server.seen();
        let at = |host: &str| seen.iter().filter(|one| one.field("host") == Some(host)).count();
        assert_eq!((at("registry.npmjs.org"), at("other.test")), (1, 0), "{:?}", server.asked());
        // The model has the page, and of the other one why there is none.
        let last = seen.iter().rfind(|one| one.field("host") == Some("api.anthropic.com")).unwrap();
        let body: Value = serde_json::from_slice(&last.body).unwrap();
        let results: Vec<&Value> = body["messages"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|one| one["content"].as_array())
            .flatten()
            .filter(|one| one["type"] == "tool_result")
            .collect();
        let [page, none] = results[..] else { panic!("{results:?}") };
        assert!(page["content"].as_str().unwrap().contains(PAGE) && page["is_error"] != true, "{page}");
        assert!(!none["content"].as_str().unwrap().contains(PAGE) && none["is_error"] == true, "{none}");
    }
}
