//! What is measured of sessions: what ended, what was spent, what their networks did.
//!
//! Invariant: labels are few and are words of ours; no label holds an id, a host or anything that an agent chose.

use model::{BudgetKind, BudgetScope, Spending, TaskState};
use serde_json::{Map, Value};

/// What was decided in networks, as a launcher counts it; by verdict and cause.
const DECISIONS: [(&str, &str); 7] = [
    ("inspected", "allowed"),
    ("passed", "allowed"),
    ("name", "refused"),
    ("packet", "refused"),
    ("rule", "refused"),
    ("limit", "refused"),
    ("proxy", "refused"),
];
/// What is counted there besides, and what it is called.
const COUNTED: [(&str, &str); 3] = [
    ("connections", "palisade_egress_connections_total"),
    ("requests", "palisade_egress_requests_total"),
    ("findings", "palisade_egress_findings_total"),
];
/// Which way bytes went.
const WAYS: [&str; 2] = ["sent", "received"];
const OPEN: &str = "open";
/// What is spent; how many are at work at once is none of it.
const KINDS: [BudgetKind; 6] = [
    BudgetKind::Tokens,
    BudgetKind::Cost,
    BudgetKind::Calls,
    BudgetKind::Wall,
    BudgetKind::Egress,
    BudgetKind::Cpu,
];
const SCOPES: [BudgetScope; 4] =
    [BudgetScope::User, BudgetScope::Worktree, BudgetScope::Session, BudgetScope::Pass];

/// Says what there is. What only ever counts is there from the start, at zero.
pub fn announce() {
    use metrics::{describe_counter as counter, describe_gauge as gauge};
    counter!("palisade_egress_decisions_total", "what was decided in the networks of sessions");
    counter!("palisade_egress_bytes_total", "bytes that the networks of sessions carried, by way");
    counter!("palisade_egress_connections_total", "connections that were taken in the networks of sessions");
    counter!("palisade_egress_requests_total", "requests that went out of sessions");
    counter!("palisade_egress_findings_total", "what must not happen in the networks of sessions, and did");
    gauge!("palisade_egress_connections_open", "connections of sessions that are open");
    counter!("palisade_tasks_ended_total", "tasks that ended, by how");
    counter!("palisade_spent_total", "what tasks spent, by kind, in the units of budgets");
    counter!("palisade_budgets_reached_total", "budgets that were found spent, by kind and scope");
    for (what, verdict) in DECISIONS {
        metrics::counter!("palisade_egress_decisions_total", "verdict" => verdict, "what" => what)
            .increment(0);
    }
    for kind in WAYS {
        metrics::counter!("palisade_egress_bytes_total", "kind" => kind).increment(0);
    }
    for (_, name) in COUNTED {
        metrics::counter!(name).increment(0);
    }
    metrics::gauge!("palisade_egress_connections_open").set(0.0);
    for state in [TaskState::Done, TaskState::Failed, TaskState::Stopped] {
        metrics::counter!("palisade_tasks_ended_total", "state" => state.word()).increment(0);
    }
    for kind in KINDS {
        metrics::counter!("palisade_spent_total", "kind" => kind.word()).increment(0);
        for scope in SCOPES {
            let labels = [("kind", kind.word()), ("scope", scope.word())];
            metrics::counter!("palisade_budgets_reached_total", &labels).increment(0);
        }
    }
}

/// A task ended, and that is kept.
pub(super) fn ended(state: TaskState) {
    metrics::counter!("palisade_tasks_ended_total", "state" => state.word()).increment(1);
}

/// This was spent, and that is kept.
pub(super) fn spent(more: &Spending) {
    for kind in KINDS {
        let more = u64::try_from(more.of(kind)).unwrap_or(0);
        metrics::counter!("palisade_spent_total", "kind" => kind.word()).increment(more);
    }
}

/// A budget is spent.
pub(super) fn reached(kind: BudgetKind, scope: BudgetScope) {
    let labels = [("kind", kind.word()), ("scope", scope.word())];
    metrics::counter!("palisade_budgets_reached_total", &labels).increment(1);
}

/// The sums of one network: what came since the last.
pub(super) fn network(before: &Map<String, Value>, now: &Map<String, Value>) {
    let number = |sums: &Map<String, Value>, name: &str| sums.get(name).and_then(Value::as_u64).unwrap_or(0);
    let more = |name: &str| number(now, name).saturating_sub(number(before, name));
    for (what, verdict) in DECISIONS {
        metrics::counter!("palisade_egress_decisions_total", "verdict" => verdict, "what" => what)
            .increment(more(what));
    }
    for kind in WAYS {
        metrics::counter!("palisade_egress_bytes_total", "kind" => kind).increment(more(kind));
    }
    for (what, name) in COUNTED {
        metrics::counter!(name).increment(more(what));
    }
    // More than anything can have open is no number to add up.
    let open = |sums| f64::from(u32::try_from(number(sums, OPEN)).unwrap_or(u32::MAX));
    metrics::gauge!("palisade_egress_connections_open").increment(open(now) - open(before));
}
