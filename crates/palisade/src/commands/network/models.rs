//! The ends of requests -> what each host answered that was asked as a model is, for whoever started the run.
//!
//! Only what was looked into is known: where TLS passes unopened, no request is seen, and nothing is said of it.

use agents::asks_a_model;
use egress::control::Wanted;
use serde_json::{Value, json};

/// Hosts that are kept, the last ones.
const MOST_HOSTS: usize = 16;

/// What one host answered.
struct Asked {
    host: String,
    /// Answers that were no error.
    good: u64,
    /// Errors, and requests that got no answer.
    bad: u64,
    /// The last answer's number, if there was one.
    status: Option<u16>,
    /// Why there was none.
    why: Option<String>,
}

/// What hosts answered; the one that was heard last is the last.
#[derive(Default)]
pub(super) struct Models(Vec<Asked>);

impl Models {
    /// A request is over, or went nowhere.
    pub(super) fn answered(&mut self, wanted: &Wanted, status: Option<u16>, trouble: Option<&str>) {
        let asked = wanted.method.as_deref().zip(wanted.path.as_deref());
        if !asked.is_some_and(|(method, path)| asks_a_model(method, path)) {
            return;
        }
        let known = self.0.iter().position(|one| one.host == wanted.host);
        let mut one = match known {
            Some(at) => self.0.remove(at),
            None => Asked { host: wanted.host.clone(), good: 0, bad: 0, status: None, why: None },
        };
        match status.is_some_and(|status| status < 400) {
            true => one.good += 1,
            false => one.bad += 1,
        }
        // Whoever has its answer may end the connection as it likes.
        one.why = trouble.filter(|_| status.is_none()).map(str::to_owned);
        one.status = status;
        if self.0.len() >= MOST_HOSTS {
            self.0.remove(0);
        }
        self.0.push(one);
    }

    /// For `--json` and reports.
    pub(super) fn value(&self) -> Value {
        let all = self.0.iter().map(|Asked { host, good, bad, status, why }| {
            json!({ "host": host, "good": good, "bad": bad, "status": status, "why": why })
        });
        all.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(host: &str, path: &str) -> Wanted {
        let (method, path) = (Some("POST".to_owned()), Some(path.to_owned()));
        Wanted { host: host.into(), port: 443, method, path }
    }

    #[test]
    fn of_each_host_the_last_answer_is_told_and_how_many_were_good() {
        let mut models = Models::default();
        let one = wanted("one.test", "/v1/messages");
        models.answered(&one, Some(200), Some("the other side gave it up"));
        models.answered(&wanted("two.test", "/v1/responses"), Some(200), None);
        models.answered(&wanted("one.test", "/api/event_logging/v2/batch"), Some(404), None);
        models.answered(&one, Some(500), None);
        models.answered(&one, None, Some("it cannot be reached"));
        let told = models.value();
        assert_eq!(told[0], json!({ "host": "two.test", "good": 1, "bad": 0, "status": 200, "why": null }));
        let last =
            json!({ "host": "one.test", "good": 1, "bad": 2, "status": null, "why": "it cannot be reached" });
        assert_eq!(told[1], last, "the one that was heard last");
        for n in 0..100 {
            models.answered(&wanted(&format!("{n}.test"), "/v1/messages"), Some(200), None);
        }
        assert_eq!(models.0.len(), MOST_HOSTS);
    }
}
