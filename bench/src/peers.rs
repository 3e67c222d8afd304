//! Finding secrets in the labelled corpus: ours against other scanners and redactors. Speed here is that of a library at work;
//! what a command takes is in `whole`.
//!
//! All see the same texts, one file each, and the same large file; all run on one processor. One that names lines has
//! found a secret if it names one of the secret's lines, and touched a clean text if it names any.

use std::fmt::Write as _;
use std::path::Path;

use corpus::{Plain, Sample};

use crate::measure;
use crate::redact::{redactor, speed};
use crate::report::{Bound, Row};
use crate::scanners::{self, Answer};

/// What is enough for the slow ones to show their pace.
const LARGE: usize = 2 << 20;

struct Texts {
    positives: Vec<Sample>,
    negatives: Vec<Plain>,
    large: String,
}

/// How well one did.
#[derive(Clone, Copy)]
struct Score {
    found: usize,
    touched: usize,
    speed: f64,
}

/// The figures, and how to read them.
pub(crate) fn rows() -> anyhow::Result<(Vec<Row>, Vec<String>)> {
    let texts = Texts::made();
    let folder = tempfile::tempdir()?;
    let (small, large) = (folder.path().join("texts"), folder.path().join("large.txt"));
    texts.write(&small, &large)?;

    let ours = texts.ours();
    let percent = |part: usize, whole: usize| part as f64 * 100.0 / whole.max(1) as f64;
    let recall = |score: Score| percent(score.found, texts.positives.len());
    let touched = |score: Score| percent(score.touched, texts.negatives.len());
    let precision = |score: Score| percent(score.found, score.found + score.touched);
    let row = |name: String, unit, ours, reference, bound| Row { name, unit, ours, reference, bound };
    let mut rows = vec![
        row(
            format!("corpus, secrets found in {} texts", texts.positives.len()),
            "%",
            recall(ours),
            None,
            Bound::AtLeast(99.5),
        ),
        row(
            format!("corpus, touched of {} clean texts", texts.negatives.len()),
            "%",
            touched(ours),
            None,
            Bound::AtMost(0.5),
        ),
    ];
    let mut notes = Vec::new();
    for scanner in scanners::all() {
        let name = scanner.name;
        let answer = match scanner.ask(&small, &large) {
            Ok(answer) => answer,
            Err(why) => {
                rows.push(Row::missing(format!("corpus, compared with {name}"), "%"));
                notes.push(format!("{name} is not compared: {why}"));
                continue;
            }
        };
        let theirs = texts.theirs(&answer);
        // More precise than one that is always right is nobody: as precise will do.
        let (better, precise) = match name {
            "kingfisher" => (Bound::RatioAbove(1.0), Bound::RatioAtLeast(1.0)),
            _ => (Bound::Information, Bound::Information),
        };
        let pace = format!("corpus, speed inside, without any start / {name}");
        rows.push(row(pace, "MB/s", ours.speed, Some(theirs.speed), Bound::Information));
        rows.push(row(format!("  secrets found / {name}"), "%", recall(ours), Some(recall(theirs)), better));
        rows.push(row(
            format!("  precision / {name}"),
            "%",
            precision(ours),
            Some(precision(theirs)),
            precise,
        ));
        rows.push(row(
            format!("  clean texts touched / {name}"),
            "%",
            touched(ours),
            Some(touched(theirs)),
            Bound::Information,
        ));
        notes.push(format!("{name} {}, one processor; its speed inside does not count the start of its program, and carries no bound: `whole command` does", answer.version));
    }
    notes.push(
        "corpus: a scanner that names lines has found a secret if it names one of its lines, a redactor only if no eight bytes of it \
         are left; precision is secrets found of all that was found, with a clean text as one finding"
            .into(),
    );
    Ok((rows, notes))
}

impl Texts {
    fn made() -> Self {
        let (positives, negatives) =
            (corpus::positives(corpus::HELD_OUT), corpus::negatives(corpus::HELD_OUT));
        // As they come in a long session: something secret now and then, in much that is not.
        let mut large = String::with_capacity(LARGE * 2);
        let mut secret = positives.iter().cycle();
        for (number, one) in negatives.iter().cycle().enumerate() {
            if large.len() >= LARGE {
                break;
            }
            let _ = writeln!(large, "{}", one.text);
            if let Some(sample) = secret.next().filter(|_| number % 3 == 0) {
                let _ = writeln!(large, "{}", sample.text);
            }
        }
        Self { positives, negatives, large }
    }

    fn write(&self, small: &Path, large: &Path) -> anyhow::Result<()> {
        std::fs::create_dir(small)?;
        for (number, sample) in self.positives.iter().enumerate() {
            std::fs::write(small.join(secret_name(number)), &sample.text)?;
        }
        for (number, one) in self.negatives.iter().enumerate() {
            std::fs::write(small.join(clean_name(number)), &one.text)?;
        }
        Ok(std::fs::write(large, &self.large)?)
    }

    fn ours(&self) -> Score {
        let redactor = redactor();
        let masked = |sample: &&Sample| !sample.survives(&redactor.scrub(&sample.text));
        let changed = |one: &&Plain| one.touched(&redactor.scrub(&one.text));
        let time = measure::alone(20, || redactor.scrub(&self.large).len());
        Score {
            found: self.positives.iter().filter(masked).count(),
            touched: self.negatives.iter().filter(changed).count(),
            speed: speed(self.large.len(), time),
        }
    }

    fn theirs(&self, answer: &Answer) -> Score {
        let redacts = !answer.texts.is_empty();
        let found = |(number, sample): &(usize, &Sample)| {
            let name = secret_name(*number);
            if redacts {
                return answer.texts.get(&name).is_some_and(|text| !sample.survives(text));
            }
            let lines = sample.lines();
            answer.lines.get(&name).is_some_and(|found| found.iter().any(|line| lines.contains(line)))
        };
        let touched = |(number, one): &(usize, &Plain)| {
            let name = clean_name(*number);
            let changed = answer.texts.get(&name).is_some_and(|text| one.touched(text));
            changed || answer.lines.get(&name).is_some_and(|lines| !lines.is_empty())
        };
        Score {
            found: self.positives.iter().enumerate().filter(found).count(),
            touched: self.negatives.iter().enumerate().filter(touched).count(),
            speed: speed(answer.bytes, answer.seconds * 1e9),
        }
    }
}

fn secret_name(number: usize) -> String {
    format!("s{number:05}.txt")
}

fn clean_name(number: usize) -> String {
    format!("c{number:05}.txt")
}
