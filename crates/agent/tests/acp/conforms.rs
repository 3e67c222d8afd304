//! The contract that every agent keeps whom the daemon drives.

use std::time::Duration;

use acp_kit::conforms::{Scene, Started, Subject, WORDS, conforms};
use serde_json::json;

use crate::client::Agent;
use crate::model::Reply;
use crate::world::{KEY, World};

fn subject(world: &World) -> Subject {
    let (config, home, model) = (world.config.clone(), world.home(), world.model.clone());
    let start = move || Started::program(Agent::command(&config, &[("MODEL_KEY", KEY)], &home));
    let scene = move |scene| {
        match scene {
            Scene::Says => model.plays([Reply::Say(WORDS)]),
            Scene::Stalls => model.plays([Reply::Stall("one moment please", Duration::from_secs(60))]),
            Scene::Asks => {
                let write = ("write_file", json!({ "path": "made.txt", "content": "made" }));
                model.plays([Reply::Call(vec![write]), Reply::Say("so it is")]);
            }
        }
        format!("{scene:?}")
    };
    Subject {
        start: Box::new(start),
        scene: Box::new(scene),
        cwd: world.tree(),
        made: world.tree().join("made.txt"),
        asking_mode: Some("supervised".to_owned()),
        patience: Duration::from_secs(60),
    }
}

#[tokio::test]
async fn ses_14_the_built_in_agent_keeps_the_contract() {
    let world = World::new();
    let report = conforms(&subject(&world)).await;
    report.assert_held(&[]);
    assert!(report.odd.is_empty(), "{report:#?}");
}
