//! The contract and the bounds, tried with real processes: an agent that does what its prompt says, also what no agent should.

use std::process::Command;
use std::time::{Duration, Instant};

use acp::{AcpError, Limits, Status, Stop, Update};
use acp_kit::conforms::{Reply, Scene, Started, Subject, Talk, WORDS, conforms};

fn subject(folder: &tempfile::TempDir) -> Subject {
    let home = folder.path().to_owned();
    let start = move || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_acp-fake"));
        command.env_clear().env("ACP_FAKE_HOME", &home);
        Started::program(command)
    };
    let scene = |scene| match scene {
        Scene::Says => format!("say {WORDS}"),
        Scene::Stalls => "stall one moment please".to_owned(),
        Scene::Asks => "ask made.txt".to_owned(),
    };
    Subject {
        start: Box::new(start),
        scene: Box::new(scene),
        cwd: folder.path().to_owned(),
        made: folder.path().join("made.txt"),
        sign_in: None,
        asking_mode: Some("careful".to_owned()),
        patience: Duration::from_secs(60),
    }
}

async fn opened(folder: &tempfile::TempDir) -> Talk {
    let subject = subject(folder);
    let mut talk = Talk::greeted(&subject).await.unwrap();
    talk.open(&subject).await.unwrap();
    talk
}

#[tokio::test]
async fn ses_14_the_scripted_agent_keeps_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let report = conforms(&subject(&folder)).await;
    report.assert_held(&[]);
    assert!(report.odd.is_empty(), "{report:#?}");
}

#[tokio::test]
async fn ses_14_the_contract_is_not_kept_by_a_program_that_speaks_something_else() {
    let folder = tempfile::tempdir().unwrap();
    let mut subject = subject(&folder);
    subject.patience = Duration::from_secs(3);
    subject.start = Box::new(|| {
        let mut command = Command::new("cat");
        command.env_clear().env("PATH", "/usr/bin:/bin");
        Started::program(command)
    });
    let report = conforms(&subject).await;
    for (part, outcome) in report.parts {
        assert!(matches!(outcome, acp_kit::conforms::Outcome::Broken(_)), "{part:?}: {outcome:?}");
    }
}

#[tokio::test]
async fn ses_08_junk_is_told_at_its_place_and_the_session_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut talk = opened(&folder).await;
    let turn = talk.turn("junk", Reply::Leave).await.unwrap();
    assert_eq!(turn.why, Some(Stop::EndTurn));
    assert_eq!(turn.said.concat(), "after");
    assert_eq!(talk.odd.len(), 7, "{:?}", talk.odd);
    assert_eq!(talk.turn("say again", Reply::Leave).await.unwrap().said.concat(), "again");
}

#[tokio::test]
async fn ses_08_a_line_of_a_hundred_megabytes_is_left_out_and_the_session_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut talk = opened(&folder).await;
    let before = resident();
    let turn = talk.turn("long 104857600", Reply::Leave).await.unwrap();
    assert_eq!(turn.said.concat(), "after");
    assert_eq!(talk.odd.len(), 1, "{:?}", talk.odd);
    assert!(talk.odd[0].contains("longer than 1048576 bytes"), "{:?}", talk.odd);
    let grown = resident().saturating_sub(before);
    assert!(grown < 32 << 10, "{grown} KiB were kept of it");
    let turn = talk.turn("long 1048000", Reply::Leave).await.unwrap();
    assert_eq!((turn.why, talk.odd.len()), (Some(Stop::EndTurn), 2), "{:?}", talk.odd);
}

/// KiB of memory that this process has.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn ses_08_deep_nesting_is_cut_with_a_mark() {
    let folder = tempfile::tempdir().unwrap();
    let mut talk = opened(&folder).await;
    let turn = talk.turn("deep 100000", Reply::Leave).await.unwrap();
    assert_eq!(turn.said.concat(), "after");
    assert!(turn.others.iter().any(|one| one.contains("nested deeper than 32: cut")), "{turn:?}");
    assert!(talk.odd.is_empty(), "{:?}", talk.odd);
}

#[tokio::test]
async fn an_agent_that_floods_waits_in_its_pipe_and_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let mut talk = opened(&folder).await;
    let turn = talk.turn("flood 50000", Reply::Leave).await.unwrap();
    assert_eq!(turn.said.len(), 50_000);
    assert!(turn.said.iter().enumerate().all(|(n, text)| *text == format!("{n} ")));
    assert_eq!(turn.why, Some(Stop::EndTurn));
}

#[tokio::test]
async fn an_answer_to_nothing_and_a_second_one_are_odd() {
    let folder = tempfile::tempdir().unwrap();
    let mut talk = opened(&folder).await;
    talk.turn("twice", Reply::Leave).await.unwrap();
    assert_eq!(talk.turn("say on", Reply::Leave).await.unwrap().said.concat(), "on");
    assert_eq!(talk.odd.len(), 2, "{:?}", talk.odd);
}

#[tokio::test]
async fn what_is_not_served_is_refused_and_told_once_a_method() {
    let folder = tempfile::tempdir().unwrap();
    let mut talk = opened(&folder).await;
    let turn = talk.turn("unserved", Reply::Leave).await.unwrap();
    assert_eq!(turn.said.concat(), "-32601 -32601 -32601");
    assert_eq!(talk.odd.len(), 2, "{:?}", talk.odd);
}

#[tokio::test]
async fn an_agent_that_ends_or_closes_its_output_is_gone_at_once() {
    let folder = tempfile::tempdir().unwrap();
    for how in ["die", "close"] {
        let mut talk = opened(&folder).await;
        let before = Instant::now();
        let turn = talk.turn(how, Reply::Leave).await.unwrap();
        assert_eq!(turn.error, Some(AcpError::Gone), "{how}");
        assert!(before.elapsed() < Duration::from_secs(10));
        assert_eq!(talk.turn("say x", Reply::Leave).await.unwrap().error, Some(AcpError::Gone));
    }
}

/// A talk whose waits are short.
async fn hasty(
    folder: &tempfile::TempDir,
) -> (acp::Agent, acp::Heard, acp::AgentSession, Box<dyn FnMut() + Send>) {
    let started = (subject(folder).start)();
    let wait = Duration::from_secs(1);
    let (agent, heard) =
        acp::connect(started.to, started.from, Limits { answer: wait, turn: wait, ..Limits::default() });
    agent.initialize("test", "1").await.unwrap();
    let session = agent.open(folder.path(), &[]).await.unwrap().session;
    // It ends when the last of these is dropped.
    (agent, heard, session, started.kill)
}

#[tokio::test]
async fn an_agent_that_answers_nothing_is_waited_for_no_longer_than_said() {
    let folder = tempfile::tempdir().unwrap();
    let (agent, _heard, session, _kill) = hasty(&folder).await;
    let before = Instant::now();
    let late = agent.prompt(&session, "mute").await;
    assert_eq!(late, Err(AcpError::Late { method: "session/prompt", seconds: 1 }));
    assert!(before.elapsed() < Duration::from_secs(5));
    // The turn is given up, the agent is still there.
    assert_eq!(agent.prompt(&session, "say hello").await.unwrap().why, Stop::EndTurn);
}

#[tokio::test]
async fn an_agent_that_reads_nothing_holds_nobody_up() {
    let folder = tempfile::tempdir().unwrap();
    let (agent, mut heard, session, _kill) = hasty(&folder).await;
    let large = "x".repeat(1 << 20);
    let asking = agent.clone();
    let asked = tokio::spawn(async move {
        let before = Instant::now();
        assert!(asking.prompt(&session, "deaf").await.is_err());
        assert!(asking.prompt(&session, &large).await.is_err());
        asking.cancel(&session);
        before.elapsed()
    });
    let mut odd = Vec::new();
    while let Some(update) = heard.next().await {
        if let Update::Odd(why) = update {
            odd.push(why);
        }
    }
    assert!(odd.iter().any(|why| why.contains("does not read")), "{odd:?}");
    assert!(asked.await.unwrap() < Duration::from_secs(10));
}

#[tokio::test]
async fn settings_are_those_that_the_agent_offers() {
    let folder = tempfile::tempdir().unwrap();
    let started = (subject(&folder).start)();
    let (agent, _heard) = acp::connect(started.to, started.from, Limits::default());
    let not_offered = |result| matches!(result, Err(AcpError::NotOffered { .. }));
    let stranger = "ses_1".parse().unwrap();
    assert!(not_offered(agent.load(&stranger, folder.path()).await.map(drop)), "it did not greet yet");
    let able = agent.initialize("test", "1").await.unwrap();
    assert_eq!((able.name.as_deref(), able.can_load), (Some("acp-fake"), true));
    assert!(matches!(
        agent.load(&stranger, folder.path()).await,
        Err(AcpError::Refused { code: -32_002, .. })
    ));
    agent.authenticate("word").await.unwrap();
    assert!(not_offered(agent.authenticate("password").await));
    let opened = agent.open(folder.path(), &[]).await.unwrap();
    assert_eq!(
        (opened.mode.as_deref(), opened.model.as_deref(), opened.models.len()),
        (Some("careful"), Some("small"), 2)
    );
    agent.set_mode(&opened.session, "bold").await.unwrap();
    for bad in ["god", "Careful", ""] {
        assert!(not_offered(agent.set_mode(&opened.session, bad).await), "{bad}");
    }
    agent.set_model(&opened.session, "large").await.unwrap();
    assert!(not_offered(agent.set(&opened.session, "effort", "high").await));
}

#[tokio::test]
async fn a_call_is_told_as_it_is_asked_about() {
    let folder = tempfile::tempdir().unwrap();
    let (agent, mut heard, session, _kill) = hasty(&folder).await;
    let prompt = tokio::spawn(async move { agent.prompt(&session, "ask made.txt").await });
    let Some(Update::Call(call)) = heard.next().await else { panic!("no call") };
    assert_eq!(
        (call.title.as_str(), call.kind, call.status),
        ("Write made.txt", acp::Kind::Edit, Status::Pending)
    );
    let Some(Update::Asked(question)) = heard.next().await else { panic!("no question") };
    assert!(question.is_open());
    assert_eq!(question.call.content, Some(call.content.clone()));
    let path = folder.path().join("made.txt").to_str().unwrap().to_owned();
    assert_eq!(call.content, [acp::Content::Diff { path, old: None, new: "asked\n".to_owned() }]);
    question.answer("an answer that was not offered");
    assert_eq!(prompt.await.unwrap().unwrap().why, Stop::Cancelled);
    assert!(!folder.path().join("made.txt").exists());
}
