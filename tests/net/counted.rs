//! What real agents say that they spent, as the daemon counts it: every answer of the model says how many tokens it took.

use acp_kit::conforms::Scene;

use crate::conforms::{Play, Real, TOKENS, built_in, claude, codex_acp, gemini_cli, opencode};
use crate::daemon::Stage;

/// What is counted of an agent, of so many questions to its model.
struct Counted {
    tokens: fn(i64) -> i64,
    /// Millionths of a dollar; none where it tells of no money.
    money: fn(i64) -> Option<std::ops::RangeInclusive<i64>>,
}

fn all(times: i64) -> i64 {
    times * TOKENS.iter().sum::<i64>()
}

/// Without those that were written to a cache, of which some providers say nothing.
fn all_but_written(times: i64) -> i64 {
    let [input, output, read, _] = TOKENS;
    times * (input + output + read)
}

/// A task in which a model is asked twice, and what was counted.
#[track_caller]
fn is_counted(real: &Real, counted: &Counted) {
    let play = Play::new();
    let Some((world, server, path)) = real.world(&play) else { return };
    let stage = Stage::new(&world, &path);
    stage.keeps(real.key);
    play.at(&stage.tree);
    let session = stage.session(&["--agent", real.name]);
    let task = stage.asks(&session, &play.next(Scene::Asks));
    let (task, kinds) = stage.allows(&session, &task);
    assert_eq!((task["state"].as_str(), kinds.len()), (Some("done"), 1), "{task} {kinds:?}");
    // The others are for a title, or for which model to ask.
    let asks = |body: &str| body.contains("please make that file") && body.contains("\"tools\":[{");
    let seen = server.seen();
    let times = seen.iter().filter(|one| asks(&String::from_utf8_lossy(&one.body))).count();
    // Claude Code asks more beside some turns, which it tells of or not.
    assert!(times >= 2, "{:?}", server.asked());
    let spent = stage.palisade(&["session", "usage", &session])["spent"].clone();
    let most = i64::try_from(times).unwrap();
    let told = (2..=most).find(|times| spent["tokens"].as_i64() == Some((counted.tokens)(*times)));
    let times = told.unwrap_or_else(|| panic!("{spent} {:?}", stage.steps(&session)));
    let money = spent["cost_micro_usd"].as_i64().unwrap();
    match (counted.money)(times) {
        Some(range) => assert!(range.contains(&money), "{money} is not in {range:?}"),
        None => assert_eq!(money, 0),
    }
    assert_eq!(spent["calls"], 1, "{spent}");
}

/// By `claude-sonnet-4` in `crates/agent/src/prices.toml`, which is what its maker says, within a hundredth.
fn by_the_list(times: i64) -> Option<std::ops::RangeInclusive<i64>> {
    let [input, output, read, written] = TOKENS;
    // Millionths of a dollar for a thousand tokens.
    let cost = times * (input * 3_000 + output * 15_000 + read * 300 + written * 3_750) / 1_000;
    Some(cost * 99 / 100..=cost * 101 / 100)
}

/// ACC-19: tokens of the turn, and money by its own prices, with what it asks besides (a title).
#[test]
fn acc_19_what_claude_code_spends_is_counted() {
    is_counted(&claude(), &Counted { tokens: all, money: |_| Some(1..=1_000_000) });
}

/// ACC-19: it tells how full its context is, which is the last question and its answer, and of no money.
#[test]
fn acc_19_what_codex_spends_is_counted_as_it_tells() {
    is_counted(&codex_acp(), &Counted { tokens: |_| all_but_written(1), money: |_| None });
}

/// ACC-19: it tells the tokens of the turn, but not those of the small model, and of no money.
#[test]
fn acc_19_what_gemini_spends_is_counted() {
    is_counted(&gemini_cli(), &Counted { tokens: all_but_written, money: |_| None });
}

/// ACC-19: it tells the money of the turn, and the tokens of its last answer.
#[test]
fn acc_19_what_opencode_spends_is_counted_as_it_tells() {
    is_counted(&opencode(), &Counted { tokens: |_| all(1), money: by_the_list });
}

/// SES-32: by prices that are data, within a hundredth.
#[test]
fn ses_32_what_the_built_in_agent_spends_is_counted() {
    is_counted(&built_in(), &Counted { tokens: all, money: by_the_list });
}
