//! Asks a person about destinations that no rule knows, or allows them to learn what a command needs.
//!
//! Invariants: an answer is recorded before it takes effect; what is allowed is a rule like any other, with its reason;
//! whoever does not answer has said no.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;

use egress::control::{Report, Verdict, Wanted};
use egress::{Front, Told};
use ledger::{Decision, Draft};
use rules::{Access, Rule};
use sandbox::RunId;

use super::change::Bounds;
use super::learn::Learnt;
use crate::commands::record::OwnRecord;
use crate::commands::remembered;
use crate::commands::run::{now, who};
use crate::failure::Failure;
use crate::output;

/// What an answer is called in the ledger.
const ANSWER: &str = "network.answer";
/// Ports where what is spoken can be looked into.
const WEB_PORTS: [u16; 4] = [80, 443, 8080, 8443];

/// What is done about a destination that no rule knows.
#[derive(Debug, Default)]
pub(in crate::commands) enum Unknown {
    /// It is refused.
    #[default]
    Refused,
    /// The person at the terminal is asked.
    Asked,
    /// It is allowed, to see what is needed.
    Learnt(Box<Learnt>),
}

/// Where what is allowed for good is kept, and for which project.
#[derive(Debug)]
pub(in crate::commands) struct Remembers {
    pub(in crate::commands) config: PathBuf,
    pub(in crate::commands) project: PathBuf,
}

/// The most questions at a time.
const MOST_WAITING: usize = 64;

/// Takes back what was allowed once.
fn withdraw(front: &mut Front, rule: &Rule) {
    if let Err(faults) = front.withdraw(rule) {
        output::tell_now(&format!("nothing is reached any more: {faults}"));
    }
}

/// A host and a port.
type Destination = (String, u16);

/// The questions of one run.
pub(super) struct Asking<'a> {
    pub(super) unknown: Unknown,
    bounds: Bounds,
    remembers: Remembers,
    record: &'a OwnRecord,
    run: RunId,
    waits: VecDeque<Destination>,
    /// What was allowed for one time, and how much of it goes on.
    once: HashMap<Destination, (Rule, u64)>,
}

impl<'a> Asking<'a> {
    pub(super) fn new(
        unknown: Unknown,
        bounds: Bounds,
        remembers: Remembers,
        record: &'a OwnRecord,
        run: RunId,
    ) -> Self {
        let (waits, once) = (VecDeque::new(), HashMap::new());
        Self { unknown, bounds, remembers, record, run, waits, once }
    }

    /// Takes what the proxy said about destinations.
    pub(super) fn hear(&mut self, front: &mut Front, told: &[Told]) -> Result<(), Failure> {
        for one in told {
            match one {
                Told::Proxy(Report::Asks { host, port }) => self.asked(front, (host.clone(), *port))?,
                Told::Proxy(Report::Judged { wanted, verdict, .. }) => {
                    if let Unknown::Learnt(learnt) = &mut self.unknown {
                        learnt.judged(wanted, verdict);
                    }
                    // What failed before anything of it went on is over.
                    let begins = matches!(verdict, Verdict::Allowed { .. });
                    self.counts(front, wanted, if begins { 1 } else { 0 });
                }
                Told::Proxy(Report::Over { wanted, .. }) => self.counts(front, wanted, -1),
                Told::Proxy(Report::Unasked { host, port }) => {
                    self.waits.retain(|(own, at)| own != host || at != port);
                }
                // Nobody will tell what becomes of what was open.
                Told::ProxyGone(_) => {
                    self.waits.clear();
                    for (_, (rule, _)) in std::mem::take(&mut self.once) {
                        withdraw(front, &rule);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn asked(&mut self, front: &mut Front, destination: Destination) -> Result<(), Failure> {
        // Nobody is asked about what no answer may open.
        let is_beyond = !self.bounds.admit(&self.rule(&destination, "asked"));
        match &mut self.unknown {
            Unknown::Refused => front.refuse(Some(destination)),
            Unknown::Asked | Unknown::Learnt(_) if is_beyond => front.refuse(Some(destination)),
            // A proxy that was started anew asks again.
            Unknown::Asked if self.waits.contains(&destination) => {}
            Unknown::Asked if self.waits.len() < MOST_WAITING => self.waits.push_back(destination),
            Unknown::Asked => front.refuse(Some(destination)),
            Unknown::Learnt(learnt) if !learnt.may_more() => front.refuse(Some(destination)),
            Unknown::Learnt(learnt) => {
                learnt.asked(&destination);
                let access = WEB_PORTS.contains(&destination.1).then_some(Access::Inspect);
                let rule = Rule { access, ..self.rule(&destination, "learn") };
                self.allow(front, &destination, rule, "learnt")?;
            }
        }
        Ok(())
    }

    /// What was allowed once is taken back when nothing of it goes on any more.
    fn counts(&mut self, front: &mut Front, wanted: &Wanted, step: i64) {
        let destination = (wanted.host.clone(), wanted.port);
        let Some((rule, open)) = self.once.get_mut(&destination) else { return };
        *open = open.saturating_add_signed(step);
        if *open == 0 {
            let rule = rule.clone();
            self.once.remove(&destination);
            withdraw(front, &rule);
        }
    }

    /// Nothing is reached any more, and nobody is asked about it.
    pub(super) fn cut(&mut self) {
        self.waits.clear();
        self.once.clear();
        if matches!(self.unknown, Unknown::Asked) {
            self.unknown = Unknown::Refused;
        }
    }

    fn rule(&self, destination: &Destination, answer: &str) -> Rule {
        let (host, port) = destination;
        let reason = format!("{answer} by {} in {}", who(), self.run);
        let label = format!("asked: {host}:{port}").chars().take(200).collect();
        Rule { ports: vec![*port], label: Some(label), reason: Some(reason), ..Rule::new(host.clone()) }
    }

    /// The question, if there is one.
    pub(super) fn question(&self) -> Option<String> {
        // As it is: it is what is decided about. A name has letters, digits, dots and hyphens only.
        let (host, port) = self.waits.front()?;
        Some(format!(
            "palisade: the command wants to reach\n\n    {host}:{port}\n\nand no rule knows it. May it? \
             once, session (this run), always (type the word; in this project), no, or quit (no to all): [n] "
        ))
    }

    /// Takes the answer to it.
    pub(super) fn answer(&mut self, front: &mut Front, question: &str, line: &str) -> Result<(), Failure> {
        // Somebody else may be the first by now.
        if self.question().is_none_or(|now| now != question) {
            return Ok(());
        }
        let Some(destination) = self.waits.pop_front() else { return Ok(()) };
        let words = ["once", "session", "always", "no", "quit"];
        let line = line.trim().to_ascii_lowercase();
        let word = match line.as_str() {
            "" => "no",
            // What holds for good is not said by the slip of a finger.
            "always" => "always",
            line => words.into_iter().find(|word| word.starts_with(line) && *word != "always").unwrap_or(""),
        };
        match word {
            "no" => self.refuse(front, Some(destination), word),
            "quit" => {
                self.waits.clear();
                self.unknown = Unknown::Refused;
                self.refuse(front, None, word)
            }
            // Not understood: asked again.
            "" => {
                self.waits.push_front(destination);
                Ok(())
            }
            word => {
                let rule = self.rule(&destination, word);
                if word == "once" {
                    self.once.insert(destination.clone(), (rule.clone(), 0));
                }
                self.allow(front, &destination, rule.clone(), word)?;
                if word == "always" {
                    let Remembers { config, project } = &self.remembers;
                    let day: String = output::moment(now()).chars().take(10).collect();
                    if let Err(failure) = remembered::add(config, project, &day, &rule) {
                        output::tell_now(&format!("allowed for this run only: {failure}"));
                    }
                }
                Ok(())
            }
        }
    }

    fn entry(&self, destination: Option<&Destination>, decision: Decision, word: &str) -> Draft {
        let draft = Draft::new(who(), ANSWER, decision).on(self.run.as_str()).with("answer", word.to_owned());
        let about = |draft: Draft, (host, port): &Destination| {
            draft.with("host", host.clone()).with("port", port.to_string())
        };
        destination.into_iter().fold(draft, about)
    }

    fn allow(
        &mut self,
        front: &mut Front,
        destination: &Destination,
        rule: Rule,
        word: &str,
    ) -> Result<(), Failure> {
        self.record.append(&self.entry(Some(destination), Decision::Allowed, word))?;
        if let Err(faults) = front.allow(rule) {
            self.once.remove(destination);
            output::tell_now(&format!("this does not go with the other rules: {faults}"));
            front.refuse(Some(destination.clone()));
        }
        Ok(())
    }

    fn refuse(
        &mut self,
        front: &mut Front,
        destination: Option<Destination>,
        word: &str,
    ) -> Result<(), Failure> {
        let entry = self.entry(destination.as_ref(), Decision::Refused, word);
        front.refuse(destination);
        self.record.append_narrowing(&entry).map(drop)
    }
}
