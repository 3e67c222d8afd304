//! How an agent says that its task ended, and what its models answered -> how it ended.
//!
//! Agents say of themselves that they came to their end also where every request was answered by an error. What the proxy saw
//! of it is in the report of the run; where it saw nothing, the agent's own word stands.

use serde_json::Value;

use super::{Outcome, Turn};

/// What the host that was heard last answered.
struct Last {
    host: String,
    told: String,
    times: u64,
}

impl Turn<'_> {
    /// The outcome as far as the models bear it out. What the agent made of some answers is its task's, with a word about the last.
    pub(super) async fn borne_out(&self, outcome: Outcome, report: &Value) -> Outcome {
        let (last, good) = match judged(report, &self.models) {
            Some(found) => found,
            None => return outcome,
        };
        let Last { host, told, times } = last;
        match outcome {
            // In words that are the same for all agents, before their own.
            Outcome::Failed(why) => Outcome::Failed(format!("the provider {told} ({host}): {why}")),
            Outcome::Done(_) if good == 0 => Outcome::Failed(format!(
                "the provider {told}, and nothing else ({host}, asked {times} times); prompt again when it is well"
            )),
            Outcome::Done(why) => {
                self.note(&format!(
                    "the provider {told} the last time it was asked ({host}): what the agent said may not be all"
                ))
                .await;
                Outcome::Done(why)
            }
            Outcome::Stopped(_) | Outcome::Spent(_) | Outcome::Lost(_) => outcome,
        }
    }
}

/// The last answer, if it was none that an agent can go on with, and how many were good.
fn judged(report: &Value, models: &[String]) -> Option<(Last, u64)> {
    let all = report.pointer("/network/models")?.as_array()?;
    let number = |one: &Value, name: &str| one.get(name).and_then(Value::as_u64);
    let host = |one: &Value| one.get("host").and_then(Value::as_str).map(str::to_owned);
    let of_ours = |one: &&Value| host(one).is_some_and(|host| models.contains(&host));
    let good = all.iter().filter(of_ours).filter_map(|one| number(one, "good")).sum();
    let one = all.iter().rev().find(of_ours)?;
    let told = match (number(one, "status"), one.get("why").and_then(Value::as_str)) {
        (Some(status @ 400..), _) => format!("answered {status}"),
        (Some(_), _) => return None,
        (None, Some(why)) => format!("did not answer: {why}"),
        (None, None) => "did not answer".to_owned(),
    };
    let times = number(one, "good").unwrap_or(0).saturating_add(number(one, "bad").unwrap_or(0));
    Some((Last { host: host(one)?, told, times }, good))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(models: Value) -> Option<(String, u64)> {
        let report = json!({ "network": { "models": models } });
        judged(&report, &["model.test".into(), "other.test".into()]).map(|(last, good)| (last.told, good))
    }

    /// SES-21: an agent that says it is done after its provider failed is not believed.
    #[test]
    fn ses_21_the_last_answer_of_a_model_says_whether_an_agent_came_to_its_end() {
        let one = |host: &str, good: u64, status: Value, why: Value| json!({ "host": host, "good": good, "bad": 1, "status": status, "why": why });
        let bad = one("model.test", 0, json!(500), Value::Null);
        assert_eq!(told(json!([bad])), Some(("answered 500".into(), 0)));
        let late = one("model.test", 2, json!(429), Value::Null);
        assert_eq!(told(json!([late])), Some(("answered 429".into(), 2)));
        let gone = one("model.test", 0, Value::Null, json!("it is not there"));
        assert_eq!(told(json!([gone])), Some(("did not answer: it is not there".into(), 0)));
        // Another one answered in its place; or it is none of this agent's; or nothing was seen.
        assert_eq!(told(json!([bad, one("other.test", 1, json!(200), Value::Null)])), None);
        assert_eq!(told(json!([one("elsewhere.test", 0, json!(500), Value::Null)])), None);
        assert_eq!((told(json!([])), judged(&json!({}), &[]).map(|_| ())), (None, None));
    }
}
