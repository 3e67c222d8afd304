//! The contract that every agent keeps whom the daemon drives.

use std::process::Command;
use std::time::Duration;

use acp_kit::conforms::{Scene, Started, Subject, WORDS, conforms};
use serde_json::json;

use crate::client::Agent;
use crate::model::Reply;
use crate::world::{KEY, World};

fn subject(world: &World, started_by: fn(Command) -> Command) -> Subject {
    let (config, home, model) = (world.config.clone(), world.home(), world.model.clone());
    let tree = world.tree();
    let start = move || {
        let mut command = started_by(Agent::command(&config, &[("MODEL_KEY", KEY)], &home));
        command.current_dir(&tree);
        Started::program(command)
    };
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
        sign_in: None,
        asking_mode: Some("supervised".to_owned()),
        patience: Duration::from_secs(60),
    }
}

#[tokio::test]
async fn ses_14_the_built_in_agent_keeps_the_contract() {
    let world = World::new();
    let report = conforms(&subject(&world, |command| command)).await;
    report.assert_held(&[]);
    assert!(report.odd.is_empty(), "{report:#?}");
}

#[tokio::test]
async fn ses_14_an_agent_that_is_served_beside_keeps_the_contract_as_before() {
    let beside = |agent: Command| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_palisade-agent"));
        command.args(["beside", "--"]).arg(agent.get_program()).args(agent.get_args()).env_clear();
        command.envs(agent.get_envs().filter_map(|(name, value)| value.map(|value| (name, value))));
        command
    };
    let world = World::new();
    let report = conforms(&subject(&world, beside)).await;
    report.assert_held(&[]);
    assert!(report.odd.is_empty(), "{report:#?}");
}
