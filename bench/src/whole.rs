//! Whole commands over one folder, as people and hooks use them: `palisade redact --check FILES` against the commands of
//! other scanners, timed from outside with their start.
//!
//! Flow: the labelled corpus -> a few hundred files -> one run of each command that tells lines (does it find anything
//! here at all?) -> timed runs in turns, whose output nobody reads. All see the same files, on one processor.
//!
//! Not here: finding line by line and speed without a start (`peers`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use crate::measure::median;
use crate::report::{Bound, Row};

/// Sizes of files, in KiB and in turns: notes, sources, logs. What such a folder is made of, not what somebody is slow at.
const SIZES: [usize; 12] = [2, 6, 3, 12, 4, 24, 8, 5, 40, 3, 16, 9];
/// Negatives between two texts with a secret.
const BETWEEN: usize = 3;
/// Of each pair.
const ROUNDS: usize = 5;

/// Files, and the lines of each secret in them.
struct Folder {
    place: tempfile::TempDir,
    names: Vec<String>,
    secrets: Vec<(String, BTreeSet<usize>)>,
    bytes: usize,
}

/// By file name: the lines of findings.
type Lines = BTreeMap<String, BTreeSet<usize>>;

/// A command line, and how to read what it says when it is asked for JSON.
struct Tool {
    name: &'static str,
    program: PathBuf,
    words: Vec<String>,
    /// Further words for the run that is read.
    told: Vec<String>,
    environment: Vec<(&'static str, PathBuf)>,
    read: fn(&str, &Folder) -> Option<Lines>,
    bound: Bound,
}

/// The figures, and how to read them.
pub(crate) fn rows(palisade: &Path) -> anyhow::Result<(Vec<Row>, Vec<String>)> {
    let folder = Folder::made()?;
    let ours = palisade_over(palisade, &folder);
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    let mut found = vec![(ours.name, folder.recall(&ours.lines(&folder)?))];
    for tool in others(folder.place.path()) {
        let lines = match tool.lines(&folder) {
            Ok(lines) => lines,
            Err(why) => {
                rows.push(Row::missing(format!("whole command / {}", tool.name), "MB/s"));
                notes.push(format!("{} as a command is not compared: {why}", tool.name));
                continue;
            }
        };
        found.push((tool.name, folder.recall(&lines)));
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            a.push(ours.time(&folder)?);
            b.push(tool.time(&folder)?);
        }
        let speed = |seconds: f64| folder.bytes as f64 / 1e6 / seconds;
        rows.push(Row {
            name: format!("whole command over {} files / {}", folder.names.len(), tool.name),
            unit: "MB/s",
            ours: speed(median(&mut a)),
            reference: Some(speed(median(&mut b))),
            bound: tool.bound,
        });
    }
    let told: Vec<String> = found.iter().map(|(name, recall)| format!("{name} {recall:.1} %")).collect();
    notes.push(format!(
        "whole command: from outside with its start, wall time, one processor, {} files of 2 to 40 KiB ({:.1} MB) from the corpus, the same for all; \
         caches are warm, validation at providers is off, output goes nowhere; secrets found by line: {}",
        folder.names.len(),
        folder.bytes as f64 / 1e6,
        told.join(", ")
    ));
    Ok((rows, notes))
}

impl Folder {
    /// Every text of the corpus once, in files as long as files are.
    fn made() -> anyhow::Result<Self> {
        let place = tempfile::tempdir()?;
        std::fs::create_dir(place.path().join("texts"))?;
        let mut folder = Self { place, names: Vec::new(), secrets: Vec::new(), bytes: 0 };
        let (positives, negatives) =
            (corpus::positives(corpus::HELD_OUT), corpus::negatives(corpus::HELD_OUT));
        let (mut with, mut without) = (positives.iter().peekable(), negatives.iter().peekable());
        let mut sizes = SIZES.iter().cycle().map(|size| size << 10);
        while with.peek().is_some() || without.peek().is_some() {
            let (name, size) = (format!("{:04}.txt", folder.names.len()), sizes.next().unwrap_or(4096));
            let (mut text, mut line) = (String::new(), 1);
            while text.len() < size && (with.peek().is_some() || without.peek().is_some()) {
                for one in without.by_ref().take(BETWEEN) {
                    push(&mut text, &mut line, &one.text);
                }
                if let Some(sample) = with.next() {
                    let lines = sample.lines().map(|number| number + line - 1).collect();
                    folder.secrets.push((name.clone(), lines));
                    push(&mut text, &mut line, &sample.text);
                }
            }
            folder.bytes += text.len();
            std::fs::write(folder.place.path().join("texts").join(&name), text)?;
            folder.names.push(name);
        }
        Ok(folder)
    }

    /// Per cent of the secrets of which a line was named.
    fn recall(&self, lines: &Lines) -> f64 {
        let named = |(name, of): &&(String, BTreeSet<usize>)| {
            lines.get(name).is_some_and(|found| !found.is_disjoint(of))
        };
        self.secrets.iter().filter(named).count() as f64 * 100.0 / self.secrets.len().max(1) as f64
    }
}

fn push(text: &mut String, line: &mut usize, more: &str) {
    text.push_str(more.trim_end_matches('\n'));
    text.push_str("\n\n");
    *line += more.trim_end_matches('\n').matches('\n').count() + 2;
}

fn palisade_over(palisade: &Path, folder: &Folder) -> Tool {
    let files = folder.names.iter().map(|name| format!("texts/{name}"));
    Tool {
        name: "palisade",
        program: palisade.to_owned(),
        words: ["redact", "--check"].into_iter().map(str::to_owned).chain(files).collect(),
        told: vec!["--json".into()],
        environment: Vec::new(),
        read: |said, folder| {
            let document: Value = serde_json::from_str(said).ok()?;
            let mut all = Lines::new();
            for one in document["result"]["found"].as_array()? {
                let (name, number) =
                    (one["file"].as_str()?, |key: &str| usize::try_from(one[key].as_u64()?).ok());
                let (first, offset, length) = (number("line")?, number("offset")?, number("length")?);
                // A key begins where its heading does and goes on for some lines.
                let text = std::fs::read(folder.place.path().join(name)).ok()?;
                let more = text.get(offset..offset + length)?.iter().filter(|byte| **byte == b'\n').count();
                let name = name.strip_prefix("texts/").unwrap_or(name);
                all.entry(name.to_owned()).or_default().extend(first..=first + more);
            }
            Some(all)
        },
        bound: Bound::Information,
    }
}

/// As their manuals say, with what makes them slower than they need be or asks a network switched off.
fn others(place: &Path) -> Vec<Tool> {
    let installed = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../target/bench/peers"));
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let rules = r#"{"rules":[{"id":"@secretlint/secretlint-rule-preset-recommend"}]}"#;
    let mut secretlint = words("--secretlintrcJSON");
    secretlint.extend([rules.to_owned(), "texts/**/*".to_owned()]);
    vec![
        Tool {
            name: "kingfisher",
            program: installed.join("python/bin/kingfisher"),
            words: words("scan texts --no-validate --no-update-check --no-dedup --jobs 1"),
            told: words("--format json"),
            environment: vec![("KF_RULE_CACHE_DIR", place.join("rules"))],
            read: |said, _| {
                // A summary follows its report.
                let report = serde_json::Deserializer::from_str(said).into_iter::<Value>().next()?.ok()?;
                let found = report["findings"].as_array()?.iter().map(|one| &one["finding"]);
                Some(lines(found.map(|one| (one["path"].as_str(), one["line"].as_u64()))))
            },
            bound: Bound::RatioAbove(1.0),
        },
        Tool {
            name: "detect-secrets",
            program: installed.join("python/bin/detect-secrets"),
            words: words("scan --all-files --no-verify texts"),
            told: Vec::new(),
            environment: Vec::new(),
            read: |said, _| {
                let report: Value = serde_json::from_str(said).ok()?;
                let found = report["results"].as_object()?.iter();
                let each = found.flat_map(|(name, all)| {
                    let all = all.as_array().into_iter().flatten();
                    all.map(move |one| (Some(name.as_str()), one["line_number"].as_u64()))
                });
                Some(lines(each))
            },
            bound: Bound::RatioAtLeast(20.0),
        },
        Tool {
            name: "secretlint",
            program: installed.join("node/node_modules/.bin/secretlint"),
            words: secretlint,
            told: words("--format json"),
            environment: Vec::new(),
            read: |said, _| {
                let report: Value = serde_json::from_str(said).ok()?;
                let found = report.as_array()?.iter().flat_map(|file| {
                    let all = file["messages"].as_array().into_iter().flatten();
                    all.map(|one| (file["filePath"].as_str(), one["loc"]["start"]["line"].as_u64()))
                });
                Some(lines(found))
            },
            bound: Bound::RatioAtLeast(20.0),
        },
    ]
}

/// Findings by the last part of a path.
fn lines<'a>(found: impl Iterator<Item = (Option<&'a str>, Option<u64>)>) -> Lines {
    let mut lines = Lines::new();
    for (path, line) in found {
        let (Some(path), Some(line)) = (path, line.and_then(|line| usize::try_from(line).ok())) else {
            continue;
        };
        let name = path.rsplit('/').next().unwrap_or(path);
        lines.entry(name.to_owned()).or_default().insert(line);
    }
    lines
}

impl Tool {
    fn command(&self, folder: &Folder) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(folder.place.path()).args(&self.words).stdin(Stdio::null());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// What it finds. Also warms whatever it keeps.
    fn lines(&self, folder: &Folder) -> anyhow::Result<Lines> {
        anyhow::ensure!(self.program.exists(), "it is not installed; `scripts/setup bench` says why");
        // Into a file: not every program waits until a pipe has taken all that it says.
        let told = folder.place.path().join("told");
        let output = self.command(folder).args(&self.told).stdout(File::create(&told)?).output()?;
        let found = (self.read)(&std::fs::read_to_string(&told)?, folder).filter(|found| !found.is_empty());
        let said = String::from_utf8_lossy(&output.stderr);
        found.ok_or_else(|| anyhow::anyhow!("it found nothing: {}", said.lines().last().unwrap_or_default()))
    }

    /// Seconds.
    fn time(&self, folder: &Folder) -> anyhow::Result<f64> {
        let mut command = self.command(folder);
        let begun = Instant::now();
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        let seconds = begun.elapsed().as_secs_f64();
        // Each has a code of its own for having found something; none is stopped by a signal.
        anyhow::ensure!(status.code().is_some(), "{} was killed", self.name);
        Ok(seconds)
    }
}
