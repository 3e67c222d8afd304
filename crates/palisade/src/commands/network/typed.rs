//! What was typed about the network into rules, for a run that is to begin and for one at work.

use std::path::PathBuf;

use rules::{Limits, Rule, Rules};

use crate::commands::run::bytes;
use crate::failure::Failure;

/// What was typed.
pub(in crate::commands) struct Typed<'a> {
    pub(in crate::commands) allow: &'a [String],
    pub(in crate::commands) preset: &'a [String],
    pub(in crate::commands) rules: &'a [PathBuf],
    pub(in crate::commands) limits: &'a [String],
}

impl Typed<'_> {
    /// The rules that it means, with those of further presets, and how much may be done.
    pub(in crate::commands) fn read(&self, presets: Vec<String>) -> Result<(Vec<Rule>, Limits), Failure> {
        let wrong = |text: String| Failure::Sandbox(text, 125);
        let (mut all, mut limits) = (Vec::new(), Limits::default());
        for text in self.limits {
            let more = Limits::parse(text).map_err(|what| wrong(format!("--net-limit {text}: {what}")))?;
            limits = limits.and(more);
        }
        for text in self.allow {
            let rule = Rules::allowing(text).map_err(|what| wrong(format!("--allow {text}: {what}")))?;
            all.push(Rule { label: Some(format!("--allow {text}")), ..rule });
        }
        for path in self.rules {
            let shown = path.display();
            let text = bytes(path).map_err(Failure::file(path))?;
            let text = text.ok_or_else(|| wrong(format!("--rules {shown}: there is no such file")))?;
            let text = String::from_utf8_lossy(&text).into_owned();
            let (read, more) =
                Rules::from_document(&text).map_err(|faults| wrong(format!("{shown}: {faults}")))?;
            limits = limits.and(more);
            all.extend(read.list().map(|(_, rule, _)| rule.clone()));
        }
        let mut presets: Vec<String> = self.preset.iter().cloned().chain(presets).collect();
        presets.sort();
        presets.dedup();
        for name in &presets {
            let known = || rules::presets::PRESETS.map(|preset| preset.name).join(", ");
            let preset = rules::presets::find(name).ok_or_else(|| {
                wrong(format!("--preset {name}: there is no such preset; there are: {}", known()))
            })?;
            all.extend(preset.rules().map_err(|faults| wrong(faults.to_string()))?);
        }
        Ok((all, limits))
    }
}
