//! What a verdict costs with few rules and with many.

use std::hint::black_box;

use rules::path::canonical;
use rules::{Host, Methods, Request, Rule, Rules};

use crate::measure;
use crate::report::{Bound, Row};

const FEW: usize = 100;
const MANY: usize = 10_000;
/// Hosts that are asked for in turns: more than a processor remembers the way to.
const ASKED: usize = 64;

pub(super) fn rows() -> anyhow::Result<Vec<Row>> {
    let (few, many) = (Set::of(FEW)?, Set::of(MANY)?);
    let (mut at_few, mut at_many) = (0, 0);
    let pair = measure::side_by_side(60, || many.decided(&mut at_many), || few.decided(&mut at_few));
    Ok(vec![
        Row {
            name: format!("one request judged by {MANY} rules"),
            unit: "us",
            ours: pair.ours / 1000.0,
            reference: None,
            bound: Bound::Below(2.0),
        },
        Row {
            name: format!("  the same / by {FEW} rules: flat"),
            unit: "us",
            ours: pair.ours / 1000.0,
            reference: Some(pair.reference / 1000.0),
            bound: Bound::RatioBelow(2.0),
        },
    ])
}

/// Rules, and requests that they are asked about.
struct Set {
    rules: Rules,
    hosts: Vec<(Host, String)>,
}

impl Set {
    /// A third exact, a third with one star, a third with two; half of them limited to methods and paths.
    fn of(count: usize) -> anyhow::Result<Self> {
        let rule = |index: usize| {
            let star = ["", "*.", "**."][index % 3];
            let mut rule = Rule::new(format!("{star}h{index}.zone{}.example", index % 97));
            if index.is_multiple_of(2) {
                rule.methods = Some(Methods::These(vec!["GET".to_owned(), "POST".to_owned()]));
                rule.paths = Some(vec![format!("/v1/{index}/**"), "/health".to_owned()]);
            }
            rule
        };
        let rules =
            Rules::compile((0..count).map(rule).collect()).map_err(|faults| anyhow::anyhow!("{faults}"))?;
        let hosts = (0..ASKED).map(|number| {
            let index = number * count / ASKED;
            let host = format!("{}h{index}.zone{}.example", ["", "a.", "a.b."][index % 3], index % 97);
            Ok((host.parse().map_err(|_| anyhow::anyhow!("{host}"))?, format!("/v1/{index}/a/b")))
        });
        Ok(Self { hosts: hosts.collect::<anyhow::Result<_>>()?, rules })
    }

    fn decided(&self, at: &mut usize) -> bool {
        let Some((host, path)) = self.hosts.get(*at % self.hosts.len()) else { return false };
        *at += 1;
        let Ok(path) = canonical(black_box(path)) else { return false };
        let request = Request { method: "GET", path, query: Some("a=b"), websocket: false, git: None };
        assert!(self.rules.request(black_box(host), 443, &request).is_allowed(), "{host}");
        true
    }
}
