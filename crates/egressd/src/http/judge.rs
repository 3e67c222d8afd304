//! What the rules say to one request.

use std::sync::Arc;

use egress::control::Verdict;
use egress::http1::{Request, Scheme, Target, Upgrade};
use egress::pkt_line;
use rules::{Answer, Decision, Host, Messages, git};
use tokio::sync::watch;
use tokio::time::timeout;

use super::carry::Guard;
use super::client::Client;
use super::content::Content;
use super::{HEAD, Refusal, Trouble, Way};
use crate::house::Generation;

/// The most of a push that is read before it is judged.
const MOST_OF_PUSH: usize = 256 * 1024;

/// A request that may go.
pub(super) struct Allowed {
    pub(super) verdict: Verdict,
    /// What it does to a repository.
    pub(super) act: Option<git::Act>,
    /// What comes of it has to keep to this.
    pub(super) bounds: Bounds,
}

/// What the rule that allows a request says about what comes of it.
#[derive(Debug, Default)]
pub(super) struct Bounds {
    /// Its answer.
    pub(super) answer: Option<Answer>,
    /// The messages of a WebSocket.
    pub(super) messages: Option<Messages>,
}

/// A verdict.
pub(super) type Judged = Result<Allowed, Refusal>;

/// The verdict on one request.
pub(super) async fn judge(
    way: &Way,
    generation: &Generation,
    client: &mut Client<'_>,
    content: &mut Content,
    request: &Request,
) -> Result<Judged, Trouble> {
    let no = |why: String| Ok(Err(Refusal { why, status: 403, closes: false }));
    match &request.target {
        Target::Origin(_) => {}
        Target::Absolute(scheme, _) => {
            let plain = way.tls.is_none();
            if (*scheme == Scheme::Http) != plain {
                return no("the request names another scheme than its connection has".into());
            }
        }
        Target::Connect => return no("this is no proxy; connect to the host itself".into()),
        Target::Server => {}
    }
    let usual = if way.tls.is_some() { 443 } else { 80 };
    let said = request.authority.host.to_string().parse::<Host>().ok();
    if said.as_ref() != Some(&way.host) || request.authority.port.unwrap_or(usual) != way.port {
        let host = &way.host;
        return no(format!(
            "the request is for `{}`, and the connection goes to `{host}:{}`",
            request.authority, way.port
        ));
    }
    let act = match request.target.resource() {
        None => None,
        Some(resource) => {
            let path = match rules::path::canonical(resource.path()) {
                Ok(path) => path,
                Err(odd) => return no(odd.to_string()),
            };
            match git::act(request.method.as_str(), &path, resource.query()) {
                Some(act) if git::needs_refs(request.method.as_str(), &path) => {
                    if request.fields.all("content-encoding").next().is_some() {
                        return no("a push that is compressed cannot be judged; set `http.postBuffer` lower or send it plain".into());
                    }
                    Some(git::Act { verb: git::Verb::Push { refs: pushed(client, content).await? }, ..act })
                }
                other => other,
            }
        }
    };
    Ok(match decide(way, generation, request, act.clone()) {
        Ok((verdict, bounds)) => Ok(Allowed { verdict, act, bounds }),
        Err(why) => Err(Refusal { why, status: 403, closes: false }),
    })
}

/// What the rules say to a request that was read.
fn decide(
    way: &Way,
    generation: &Generation,
    request: &Request,
    git: Option<git::Act>,
) -> Result<(Verdict, Bounds), String> {
    let (path, query) = request.target.resource().map_or(("/", None), |it| (it.path(), it.query()));
    let path = rules::path::canonical(path).map_err(|odd| odd.to_string())?;
    let asked = rules::Request {
        method: request.method.as_str(),
        path,
        query,
        websocket: request.upgrade() == Upgrade::WebSocket,
        git,
    };
    let decision = generation.rules.request(&way.host, way.port, &asked);
    let rule = match &decision {
        Decision::Allowed { rule, .. } => generation.rules.rule(*rule),
        Decision::Refused(_) => None,
    };
    let messages = rule.filter(|_| asked.websocket).and_then(|rule| rule.messages.clone());
    let bounds = Bounds { answer: rule.and_then(|rule| rule.answer), messages };
    match generation.told(decision) {
        // Read as it was, whatever was asked for: everybody on the way could.
        Ok((Verdict::Allowed { rule, .. }, _)) => Ok((Verdict::Allowed { rule, inspected: true }, bounds)),
        Ok((Verdict::Refused { why }, _)) | Err(Verdict::Refused { why }) => Err(why),
        Err(Verdict::Allowed { .. }) => Err(String::new()),
    }
}

/// Comes back when the rules no longer allow this request, which those of `judged` do, or other messages, or a secret was
/// taken back that it may carry. They may have changed before it is asked.
pub(super) async fn tightened(
    way: &Way,
    judged: &Arc<Generation>,
    turns: &mut watch::Receiver<u64>,
    request: &Request,
    act: &Option<git::Act>,
    guard: Guard<'_>,
) {
    loop {
        let (now, lent) = (way.house.rules(), way.house.lent());
        let goes_on = |(_, bounds): &(Verdict, Bounds)| bounds.messages.as_ref() == guard.messages;
        if !Arc::ptr_eq(&now, judged) && !decide(way, &now, request, act.clone()).is_ok_and(|it| goes_on(&it))
        {
            return;
        }
        if !std::ptr::eq(guard.lent, &*lent) && lent.took_back(guard.lent, guard.towards) {
            return;
        }
        if turns.changed().await.is_err() {
            return;
        }
    }
}

/// The refs that a push is for, from the beginning of its content, which stays to be sent.
async fn pushed(client: &mut Client<'_>, content: &mut Content) -> Result<Vec<String>, Trouble> {
    let odd = |bad: pkt_line::BadPush| Trouble::Odd(bad.to_string());
    let (mut push, mut used) = (pkt_line::PushReader::new(), 0);
    let (mut from, _) = client.split();
    loop {
        if push.read(content.held.get(used..).unwrap_or_default()).map_err(odd)?.done {
            let (push, _) = push.finish().map_err(odd)?;
            return Ok(push.commands.iter().map(|command| command.name.as_str().to_owned()).collect());
        }
        used = content.held.len();
        if content.over || used > MOST_OF_PUSH {
            return Err(Trouble::Odd("the push does not say what it pushes, or too much of it".into()));
        }
        match timeout(HEAD, content.hold(&mut from)).await {
            Ok(held) => held?,
            Err(_) => return Err(Trouble::Odd("the push is cut".into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use egress::control::Loan;
    use rules::Rule;

    use super::*;
    use crate::house::House;
    use crate::lent::{Lent, Towards};

    fn rule(paths: &str) -> Rule {
        serde_json::from_str(&format!(r#"{{"host": "site.test", "paths": ["{paths}"]}}"#)).unwrap()
    }

    fn get(path: &str) -> Request {
        Request::parse(format!("GET {path} HTTP/1.1\r\nHost: site.test\r\n\r\n").as_bytes()).unwrap()
    }

    #[test]
    fn egr_18_new_rules_end_the_requests_that_they_forbid_and_no_others() {
        let (house, _said) = House::new();
        let house = Arc::new(house);
        house.rule(1, vec![rule("/a/**"), rule("/b/**")]);
        let host = "site.test".parse().unwrap();
        let way = Way { house: Arc::clone(&house), host, port: 443, tls: None, once: false };
        let (mut first, mut second) = (house.turns(), house.turns());
        let judged = house.rules();
        house.rule(2, vec![rule("/b/**")]);
        // Who has heard of the change for another reason ends all the same.
        first.borrow_and_update();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let wait = Duration::from_millis(200);
            let (a, b, lent) = (get("/a/x"), get("/b/x"), house.lent());
            let towards = Towards { host: &way.host, port: 443, path: "/", is_private: true };
            let guard = Guard { lent: &lent, towards, once: false, most: None, messages: None };
            timeout(wait, tightened(&way, &judged, &mut first, &a, &None, guard))
                .await
                .expect("it is forbidden now");
            timeout(wait, tightened(&way, &judged, &mut second, &b, &None, guard))
                .await
                .expect_err("it is still allowed");
            // What was lent to this host is taken back; to another host, or with another value, nothing is to be ended.
            for (host, is_over) in [("other.test", true), ("site.test", false), ("site.test", true)] {
                let loan = |is_over| {
                    let word = "a-word-that-stands-for-it".to_owned();
                    Loan { word, hosts: vec![(host.to_owned(), 443)], is_over, ..Loan::default() }
                };
                let lent = Lent::new(vec![loan(false)]);
                house.lend(vec![loan(is_over)]);
                let is_over = is_over && host == "site.test";
                let guard = Guard { lent: &lent, ..guard };
                let ended = timeout(wait, tightened(&way, &judged, &mut second, &b, &None, guard)).await;
                assert_eq!(ended.is_ok(), is_over, "{host}");
            }
        });
    }
}
