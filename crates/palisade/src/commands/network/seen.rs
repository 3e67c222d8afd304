//! What was seen of a run's network, on its way to the record and to the person.
//!
//! Invariants: the first of each kind is recorded by itself and the rest is counted, so whoever makes noise hides nothing
//! and fills nothing; what is counted is recorded at the end.

use std::collections::HashMap;
use std::net::SocketAddr;

use egress::control::{Report, Verdict, Wanted};
use egress::published::Port;
use egress::{Counts, Told};
use ledger::{Decision, Draft};
use sandbox::{Carried, RunId};

use super::Summary;
use super::asker::Askers;
use super::counts::{Cause, Tally};
use super::models::Models;
use super::notices::{About, Notices, fields};
use crate::commands::record::OwnRecord;
use crate::commands::run::who;
use crate::failure::Failure;
use crate::output;

/// What a connection or request is called in the ledger.
const CONNECT: &str = "network.connect";
/// What its end is called.
const CLOSED: &str = "network.closed";
/// What a name that nothing allows is called.
const NAME: &str = "network.name";
/// What must not happen, and did or was tried.
const FINDING: &str = "network.finding";
/// What becomes of the proxy.
const PROXY: &str = "network.proxy";
/// What becomes of a login that is lent.
const LOGIN: &str = "network.login";
/// What is counted at the end.
const COUNTS: &str = "network.counts";
/// Why a connection came to nobody.
const FLOOD: &str =
    "connections come faster than a sandbox may begin them: 2,000 a second, after 2,048 at once";
/// Kinds that are recorded each by itself.
const MOST_KINDS: usize = 1024;
/// How much of a path is shown to a person.
const SHOWN: usize = 200;

/// How often something was seen, by what it was.
#[derive(Default)]
struct Kinds {
    kinds: HashMap<String, (String, u64)>,
    /// Of kinds that are too many, how often, by where they went.
    places: HashMap<String, u64>,
    /// The rest.
    others: u64,
}

impl Kinds {
    /// Counts one; true if it is the first of its kind, and there are not too many kinds.
    fn is_new(&mut self, what: &str, place: &str, why: &str) -> bool {
        if let Some((_, times)) = self.kinds.get_mut(what) {
            *times += 1;
            return false;
        }
        if self.kinds.len() < MOST_KINDS {
            self.kinds.insert(what.to_owned(), (why.to_owned(), 1));
            return true;
        }
        // A place that was not met before is told, however many kinds of the others there were.
        if let Some(times) = self.places.get_mut(place) {
            *times += 1;
            return false;
        }
        if self.places.len() < MOST_KINDS {
            self.places.insert(place.to_owned(), 1);
            return true;
        }
        self.others += 1;
        false
    }

    /// What, why, and how often.
    fn into_list(self) -> Vec<(String, String, u64)> {
        let mut list: Vec<_> =
            self.kinds.into_iter().map(|(what, (why, times))| (what, why, times)).collect();
        let many = || "more of these than are kept apart".to_owned();
        list.extend(self.places.into_iter().map(|(place, times)| (place, many(), times)));
        list.extend((self.others > 0).then(|| ("everything else".to_owned(), many(), self.others)));
        list.sort();
        list
    }
}

/// What was seen.
pub(super) struct Seen<'a> {
    record: &'a OwnRecord,
    run: RunId,
    /// Whether the person watches.
    watch: bool,
    tally: Tally,
    models: Models,
    /// Who asked, if that can be found out.
    askers: Option<Askers>,
    findings: Kinds,
    refused: Kinds,
    /// What the person could not be told at once.
    unsaid: u64,
    /// Told to whoever started the run.
    pub(super) notices: Notices,
}

impl<'a> Seen<'a> {
    pub(super) fn new(record: &'a OwnRecord, run: RunId, watch: bool) -> Self {
        let (findings, refused) = (Kinds::default(), Kinds::default());
        let (tally, models, notices) = (Tally::default(), Models::default(), Notices::default());
        Self { record, run, watch, tally, models, askers: None, findings, refused, unsaid: 0, notices }
    }

    /// With who lives there, and which ports are published.
    pub(super) fn with(self, askers: Askers, published: Vec<Port>) -> Self {
        Self { askers: Some(askers), tally: Tally::of(published), ..self }
    }

    /// Records what is told, all of it at once.
    pub(super) fn take(&mut self, told: Vec<Told>) -> Result<(), Failure> {
        let drafts: Vec<Draft> = told.into_iter().filter_map(|one| self.draft(one)).collect();
        if !drafts.is_empty() {
            self.record.append_all(&drafts)?;
        }
        self.notices.flush();
        Ok(())
    }

    /// Tells the sums to whoever started the run.
    pub(super) fn count(&mut self, names: Counts) {
        self.notices.count(&self.tally, names);
        self.notices.flush();
    }

    /// Records that a login is lent, or what became of one.
    pub(super) fn login(
        &self,
        decision: Decision,
        name: &str,
        what: &str,
        why: Option<&str>,
    ) -> Result<(), Failure> {
        let draft = self.entry(LOGIN, decision).with("login", name.to_owned()).with("what", what.to_owned());
        let draft = why.into_iter().fold(draft, |draft, why| draft.because(why.to_owned()));
        self.record.append_all(&[draft])
    }

    fn entry(&self, action: &str, decision: Decision) -> Draft {
        Draft::new(who(), action, decision).on(self.run.as_str())
    }

    fn draft(&mut self, told: Told) -> Option<Draft> {
        match told {
            Told::Unlisted(name) => {
                let why = "no rule could allow this name; ask for `--allow HOST[:PORT]`";
                self.refused(&name, &name, why, &[("host", &name)])
                    .then(|| self.entry(NAME, Decision::Refused).because(why).with("host", name))
            }
            Told::Packet(packet) => {
                let (host, kind) = (packet.to.ip().to_string(), packet.kind());
                let why = match packet.is_flood {
                    true => FLOOD,
                    false => {
                        "no rule lists this address, or it is not a connection; rules are about names, so ask for one by its name"
                    }
                };
                let (place, port) = (packet.to.to_string(), packet.to.port().to_string());
                let draft = self.entry(CONNECT, Decision::Refused).because(why).with("host", host.clone());
                let draft = draft.with("port", port.clone()).with("protocol", kind);
                self.tally.refused(Cause::Packet);
                let more = [("host", host.as_str()), ("port", port.as_str())];
                self.refused(&format!("{kind} {place}"), &place, why, &more).then_some(draft)
            }
            Told::ManyNames => {
                let many = egress::MANY_NAMES;
                let what = format!(
                    "names that nothing allows were asked for {many} times: data can be carried in names"
                );
                self.found(&what, None)
            }
            Told::ProxyGone(why) => Some(self.proxy(Decision::Failed, why)),
            Told::NoProxy(why) => {
                self.tally.refused(Cause::Proxy);
                let every = "every connection";
                self.refused.is_new(every, every, &why).then(|| {
                    self.show(&format!("refused {every}: {why}"));
                    self.proxy(Decision::Failed, why)
                })
            }
            Told::Proxy(Report::Judged { wanted, verdict, address, from }) => {
                self.judged(&wanted, verdict, address, from)
            }
            Told::Proxy(Report::Came { from, to }) => {
                self.askers.iter_mut().for_each(|askers| askers.look(from, to));
                None
            }
            Told::Proxy(Report::TooMuch { wanted, limit, why, from }) => {
                self.not_done(&format!("{} (limit `{limit}`)", short(&wanted)), &wanted, why, from)
            }
            Told::Proxy(Report::Used(used)) => {
                self.tally.used = used;
                None
            }
            Told::Proxy(Report::Entered { port, entered, left }) => {
                self.tally.entered(port, entered, left);
                None
            }
            Told::Proxy(Report::Over { wanted, sent, received, milliseconds, status, trouble }) => {
                self.models.answered(&wanted, status, trouble.as_deref());
                let decision = if trouble.is_none() { Decision::Done } else { Decision::Failed };
                let draft = about(self.entry(CLOSED, decision), &wanted)
                    .with("sent", sent.to_string())
                    .with("received", received.to_string())
                    .with("duration_ms", milliseconds.to_string());
                Some(trouble.into_iter().fold(draft, Draft::because))
            }
            Told::Proxy(Report::Finding { wanted, what }) => self.found(&what, Some(&wanted)),
            Told::Proxy(Report::Stolen { wanted, name }) => Some(self.stolen(&name, &wanted)),
            Told::Stolen { name, host } => {
                let wanted = Wanted { host, port: 53, ..Wanted::default() };
                Some(self.stolen(&name, &wanted))
            }
            Told::Printed { name } => {
                let what = format!("the decoy in the variable {name} was about to be printed");
                self.stood_still(&what);
                self.findings.is_new(&what, "output", &what);
                self.notices.tell(About::Found, &what, &what, &[("decoy", &name)]);
                self.tally.findings += 1;
                let draft = self.entry(FINDING, Decision::Noted).because(what);
                Some(draft.with("decoy", name).with("sink", "output"))
            }
            Told::Proxy(Report::Unusable { generation, why }) => {
                let draft = self.proxy(Decision::Refused, why);
                Some(draft.with("generation", generation.to_string()))
            }
            Told::Proxy(Report::Broken { why }) => Some(self.proxy(Decision::Failed, why)),
            Told::Proxy(
                Report::Holds { .. }
                | Report::Authority { .. }
                | Report::Last
                | Report::Stale { .. }
                | Report::Asks { .. }
                | Report::Unasked { .. }
                | Report::Several(_),
            ) => None,
        }
    }

    fn judged(
        &mut self,
        wanted: &Wanted,
        verdict: Verdict,
        address: Option<SocketAddr>,
        from: Option<SocketAddr>,
    ) -> Option<Draft> {
        match verdict {
            Verdict::Allowed { rule, inspected } => {
                self.tally.allowed += 1;
                self.tally.inspected += u64::from(inspected);
                let who = self.who(from);
                // Most runs are watched by nobody, and have many of these.
                if self.watch {
                    let by = who.iter().map(|who| format!(" by {who}")).collect::<String>();
                    self.show(&format!("allowed {} (rule `{rule}`){by}", short(wanted)));
                }
                let draft = about(self.entry(CONNECT, Decision::Allowed), wanted).with("rule", rule);
                let draft = draft.with("inspected", if inspected { "yes" } else { "no" });
                let with = |draft: Draft, address: SocketAddr| draft.with("address", address.to_string());
                let draft = address.into_iter().fold(draft, with);
                Some(who.into_iter().fold(draft, |draft, who| draft.with("process", who)))
            }
            Verdict::Refused { why } => {
                self.tally.refused(Cause::Rule);
                self.models.answered(wanted, None, Some(&why));
                self.not_done(&short(wanted), wanted, why, from)
            }
        }
    }

    /// Records a refusal, the first of its kind.
    fn not_done(
        &mut self,
        what: &str,
        wanted: &Wanted,
        why: String,
        from: Option<SocketAddr>,
    ) -> Option<Draft> {
        let place = format!("{}:{}", wanted.host, wanted.port);
        if !self.refused.is_new(what, &place, &why) {
            return None;
        }
        let who = self.who(from);
        let by = who.iter().map(|who| format!(" (by {who})")).collect::<String>();
        self.show(&format!("refused {what}: {why}{by}"));
        let owned = fields(wanted);
        let mut more: Vec<(&str, &str)> = owned.iter().map(|(name, text)| (*name, text.as_str())).collect();
        more.extend(who.iter().map(|who| ("by", who.as_str())));
        self.notices.tell(About::Refused, what, &why, &more);
        let draft = about(self.entry(CONNECT, Decision::Refused), wanted).because(why);
        Some(who.into_iter().fold(draft, |draft, who| draft.with("process", who)))
    }

    /// The processes behind a connection.
    fn who(&self, from: Option<SocketAddr>) -> Option<String> {
        self.askers.as_ref()?.who(from?)
    }

    /// Counts a refusal; true if it is to be recorded by itself.
    fn refused(&mut self, what: &str, place: &str, why: &str, more: &[(&str, &str)]) -> bool {
        let is_new = self.refused.is_new(what, place, why);
        if is_new {
            self.notices.tell(About::Refused, what, why, more);
            self.show(&format!("refused {what}: {why}"));
        }
        is_new
    }

    /// Something is the matter with the proxy.
    fn proxy(&mut self, decision: Decision, why: String) -> Draft {
        self.notices.tell(About::Proxy, "the proxy", &why, &[]);
        self.entry(PROXY, decision).because(why)
    }

    /// Records and tells of something that must not happen, the first time.
    fn found(&mut self, what: &str, wanted: Option<&Wanted>) -> Option<Draft> {
        self.tally.findings += 1;
        let place = wanted.map(|wanted| format!("{}:{}", wanted.host, wanted.port)).unwrap_or_default();
        let kind = wanted.map_or_else(|| what.to_owned(), |wanted| format!("{what} ({})", short(wanted)));
        if !self.findings.is_new(&kind, &place, what) {
            return None;
        }
        self.unsaid += u64::from(!output::tell_now(&format!("found: {kind}")));
        let owned = wanted.map(fields).unwrap_or_default();
        let more: Vec<(&str, &str)> = owned.iter().map(|(name, text)| (*name, text.as_str())).collect();
        self.notices.tell(About::Found, &kind, what, &more);
        let draft = self.entry(FINDING, Decision::Noted).because(what);
        Some(wanted.into_iter().fold(draft, about))
    }

    /// Records and tells that a decoy was on its way out; everything stands still from then on.
    fn stolen(&mut self, name: &str, wanted: &Wanted) -> Draft {
        let place = short(wanted);
        let what = format!("the decoy in the variable {name} was on its way to {place}");
        self.stood_still(&what);
        self.findings.is_new(&what, &place, &what);
        self.notices.tell(About::Found, &what, &what, &[("decoy", name), ("host", &wanted.host)]);
        self.tally.findings += 1;
        let sink = if wanted.port == 53 && wanted.method.is_none() { "name" } else { "proxy" };
        let draft = about(self.entry(FINDING, Decision::Noted).because(what), wanted);
        draft.with("decoy", name.to_owned()).with("sink", sink)
    }

    /// Tells a person that a run stands still, and why.
    fn stood_still(&mut self, what: &str) {
        let run = &self.run;
        self.unsaid += u64::from(!output::tell_now(&format!(
            "found: {what}; the run stands still and reaches nothing any more: `palisade stop {run}` ends it, `palisade thaw {run}` lets it go on"
        )));
    }

    /// Shows it to a person who watches.
    fn show(&mut self, text: &str) {
        if self.watch {
            self.unsaid += u64::from(!output::tell_now(text));
        }
    }

    /// Bytes that went out and came back, as far as the proxy told.
    pub(super) fn bytes(&self) -> (u64, u64) {
        (self.tally.used.sent, self.tally.used.received)
    }

    /// The end: what was seen more than once is recorded with its count.
    pub(super) fn ended(self, counts: Counts) -> Result<Summary, Failure> {
        let entry = |action: &str, decision| Draft::new(who(), action, decision).on(self.run.as_str());
        let (refused, findings) = (self.refused.into_list(), self.findings.into_list());
        let again = |list: &[(String, String, u64)], action: &str, decision| -> Vec<Draft> {
            let again = list.iter().filter(|(_, _, times)| *times > 1);
            let draft = |(what, why, times): &(String, String, u64)| {
                entry(action, decision)
                    .because(why.clone())
                    .with("what", what.clone())
                    .with("times", times.to_string())
            };
            again.map(draft).collect()
        };
        let mut drafts = again(&refused, CONNECT, Decision::Refused);
        drafts.extend(again(&findings, FINDING, Decision::Noted));
        let mut tally = self.tally;
        tally.end(counts);
        drafts.push(tally.entry(entry(COUNTS, Decision::Noted)));
        self.record.append_all(&drafts)?;
        self.notices.end(&tally, counts);
        let findings = findings.into_iter().map(|(what, _, _)| what).collect();
        Ok(Summary {
            tally,
            models: self.models,
            was_watched: self.watch && self.unsaid == 0,
            findings,
            refused,
            ..Summary::default()
        })
    }
}

/// The entry of a decoy in what a run left behind.
pub(super) fn carried(run: &RunId, carried: &Carried, what: &str) -> Draft {
    let draft = Draft::new(who(), FINDING, Decision::Noted).on(run.as_str()).because(what.to_owned());
    draft.with("decoy", carried.name.clone()).with("sink", carried.sink.word())
}

fn about(draft: Draft, wanted: &Wanted) -> Draft {
    let draft = draft.with("host", wanted.host.clone()).with("port", wanted.port.to_string());
    let draft = wanted.method.iter().fold(draft, |draft, method| draft.with("method", method.clone()));
    wanted.path.iter().fold(draft, |draft, path| draft.with("path", output::kept_path(&wanted.host, path)))
}

/// What was wanted, in words that a person can take in.
fn short(wanted: &Wanted) -> String {
    let Wanted { host, port, method, path } = wanted;
    match (method, path) {
        (Some(method), Some(path)) => {
            // Masked before it is cut: half a secret is known by nobody.
            let path = output::kept_path(host, path);
            let shown: String = path.chars().take(SHOWN).collect();
            let more = if shown.len() < path.len() { "…" } else { "" };
            format!("{method} {host}:{port}{shown}{more}")
        }
        _ => format!("{host}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn egr_19_noise_hides_no_other_place_and_fills_nothing() {
        let mut kinds = Kinds::default();
        let recorded =
            (0..5_000).filter(|at| kinds.is_new(&format!("GET a.test:80/{at}"), "a.test:80", "no")).count();
        assert_eq!(recorded, MOST_KINDS + 1);
        assert!(kinds.is_new("b.test:25", "b.test:25", "no"), "another place is told all the same");
        assert!(!kinds.is_new("b.test:25", "b.test:25", "no"));
        let list = kinds.into_list();
        assert_eq!(list.iter().map(|(_, _, times)| times).sum::<u64>(), 5_002);
        assert!(list.len() <= MOST_KINDS + 2);
    }
}
