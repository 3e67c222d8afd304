//! `palisade rules`: which rules the network of a run at work has, and others in their place.

use std::path::Path;

use rules::{Access, Limits, Rules};
use sandbox::{Ask, Control, RunId};
use serde_json::json;

use super::live;
use super::network::{Kept, Typed};
use super::record::OwnRecord;
use super::run::Home;
use crate::cli::RulesArgs;
use crate::failure::Failure;
use crate::output::{Shown, table};

pub(super) fn run(config: Option<&Path>, args: &RulesArgs) -> Result<Shown, Failure> {
    let home = Home::find(config);
    let run = live::named(&home, args.run.as_deref())?;
    let is_typed = !(args.allow.is_empty() && args.preset.is_empty() && args.rules.is_empty());
    if is_typed { put(&home, &run, args) } else { show(&home, &run) }
}

/// Puts what was typed in the place of all other rules.
fn put(home: &Home, run: &RunId, args: &RulesArgs) -> Result<Shown, Failure> {
    let typed = Typed { allow: &args.allow, preset: &args.preset, rules: &args.rules, limits: &[] };
    let wrong = |why: String| Failure::Program(format!("{why}; the rules of `{run}` are as before"));
    let (rules, limits) = typed.read(Vec::new()).map_err(|failure| wrong(failure.to_string()))?;
    if limits != Limits::default() {
        return Err(wrong("limits are for a run that begins".into()));
    }
    // Here too, so that what is wrong is told of the file that it stands in.
    Rules::compile(rules.clone()).map_err(|faults| wrong(faults.to_string()))?;
    let folder = live::folder(home);
    let text = serde_json::to_vec(&rules).map_err(|error| wrong(error.to_string()))?;
    Control::leave(&folder, run, &text).map_err(Failure::file(&folder))?;
    // Whoever does not take it leaves it lying, and it may have a secret in it.
    let said = live::asked(home, run, Ask::Rules).inspect_err(|_| Control::withdraw(&folder, run))?;
    if let Some(why) = said.why {
        Control::withdraw(&folder, run);
        return Err(wrong(why));
    }
    let count = rules.len();
    let value = json!({ "run": run.as_str(), "rules": count, "rules_sha256": said.rules });
    Ok(Shown::new(&value, format!("{run} has {count} rules from now on\n")))
}

/// Shows the rules that hold.
fn show(home: &Home, run: &RunId) -> Result<Shown, Failure> {
    let said = live::asked(home, run, Ask::Tell)?;
    let Some(hash) = said.rules else {
        return Err(Failure::Program(format!("`{run}` has no network")));
    };
    let path = OwnRecord::open(&home.state)?.rules(&hash);
    let text = std::fs::read(&path).map_err(Failure::file(&path))?;
    let odd = |error: &dyn std::fmt::Display| Failure::Program(format!("`{}`: {error}", path.display()));
    let kept: Kept = serde_json::from_slice(&text).map_err(|error| odd(&error))?;
    let listed: Vec<_> = kept.rules.iter().zip(kept.looks.into_iter().map(word)).collect();
    let value: Vec<_> = listed.iter().map(|(rule, look)| json!({ "rule": rule, "look": look })).collect();
    let rows: Vec<Vec<String>> = listed
        .iter()
        .map(|(rule, look)| {
            let ports: Vec<String> = rule.ports.iter().map(ToString::to_string).collect();
            vec![rule.host.clone(), ports.join(" "), (*look).into(), rule.label.clone().unwrap_or_default()]
        })
        .collect();
    let text = if rows.is_empty() {
        format!("{run} reaches nothing\n")
    } else {
        table(&["HOST", "PORTS", "TLS", "RULE"], &rows)
    };
    Ok(Shown::new(&json!({ "run": run.as_str(), "rules_sha256": hash, "rules": value }), text))
}

/// What becomes of the TLS that a rule lets through.
fn word(look: Option<Access>) -> &'static str {
    match look {
        Some(Access::Inspect) => "inspected",
        Some(Access::Pass) => "not inspected",
        None => "denied",
    }
}
