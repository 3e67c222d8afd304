//! What is measured: requests as they are answered, and the state of the parts when someone looks.
//!
//! Invariant: labels are few and are words of ours. An operation is named by its id in the API description,
//! never by a path; no label holds an id, an address or anything a caller could choose.

use std::collections::HashMap;
use std::sync::{LazyLock, PoisonError, RwLock};
use std::time::Instant;

use axum::http::{Method, StatusCode};
use metrics::{Counter, Histogram};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusRecorder};
use runtime::{MetricsReader, Tallies};

use crate::app::App;
use crate::handlers::health;

/// Method, route and status.
type Labels = (&'static str, &'static str, u16);

/// Handles, so that a request does not look its counter up by text.
static REQUESTS: LazyLock<RwLock<HashMap<Labels, Counter>>> = LazyLock::new(RwLock::default);
static SECONDS: LazyLock<Histogram> = LazyLock::new(|| metrics::histogram!("palisade_request_seconds"));
static OPERATIONS: LazyLock<HashMap<String, String>> = LazyLock::new(crate::openapi::operation_ids);

/// Upper ends of the histogram's parts, in seconds.
const PARTS: [f64; 13] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// What gathers the numbers.
pub(crate) fn recorder() -> Result<PrometheusRecorder, BuildError> {
    let seconds = Matcher::Full("palisade_request_seconds".into());
    Ok(PrometheusBuilder::new().set_buckets_for_metric(seconds, &PARTS)?.build_recorder())
}

/// Says what there is. What only ever counts is there from the start, at zero: an alert can tell "none" from
/// "not measured".
pub(crate) fn announce() {
    use metrics::{describe_counter as counter, describe_gauge as gauge, describe_histogram as histogram};
    counter!("palisade_requests_total", "requests answered, by operation, method and status");
    histogram!("palisade_request_seconds", "time until the answer began");
    counter!("palisade_errors_total", "answers that say the fault is here (5xx)");
    counter!("palisade_refusals_total", "refusals on the ledger, by action");
    counter!(
        "palisade_strangers_refused_total",
        "refusals of callers nobody could name, or who came too often"
    );
    counter!("palisade_redactions_total", "secrets masked in text on its way out");
    counter!("palisade_store_write_failures_total", "acts that the store did not write");
    gauge!("palisade_connections", "open connections");
    gauge!("palisade_sockets", "live connections in use, of those that are allowed");
    gauge!("palisade_followers", "callers that follow events, by kind");
    gauge!("palisade_ready", "whether the daemon can do its work");
    gauge!("palisade_check", "each thing that readiness depends on");
    gauge!("palisade_ledger_head", "number of the last ledger entry");
    gauge!("palisade_ledger_failing", "whether entries cannot be written");
    gauge!("palisade_ledger_reserved", "entries that wait in the reserve for room on the disk");
    gauge!("palisade_ledger_unsigned_seconds", "how long the oldest entry without a signed checkpoint waits");
    gauge!("palisade_ledger_intact", "whether the last check of the whole ledger found no change");
    gauge!("palisade_disk_tight", "whether only acts that narrow are written, for want of room");
    gauge!("palisade_key_epoch", "which keys are in use");
    gauge!("palisade_sessions", "sessions, by how they stand");
    gauge!("palisade_tasks", "tasks that are not over, by how they stand");
    gauge!("palisade_approvals_open", "effects that wait for a person");
    gauge!("palisade_approvals_oldest_seconds", "how long the oldest of these waits");
    runtime::announce();
    for name in ["palisade_errors_total", "palisade_redactions_total", "palisade_store_write_failures_total"]
    {
        metrics::counter!(name).increment(0);
    }
    for kind in [Follower::STREAM, Follower::SOCKET] {
        metrics::gauge!("palisade_followers", "kind" => kind).set(0.0);
    }
}

/// Counts one answered request.
pub(crate) fn request(method: &Method, path: &'static str, status: StatusCode, started: Instant) {
    let key: Labels = (method_label(method), path, status.as_u16());
    let known = REQUESTS.read().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
    let counter = known.unwrap_or_else(|| {
        let labels = [
            ("method", key.0.to_owned()),
            ("operation", operation(key.0, path).to_owned()),
            ("status", key.2.to_string()),
        ];
        let made = metrics::counter!("palisade_requests_total", &labels);
        REQUESTS.write().unwrap_or_else(PoisonError::into_inner).insert(key, made.clone());
        made
    });
    counter.increment(1);
    SECONDS.record(started.elapsed().as_secs_f64());
    if status.is_server_error() {
        metrics::counter!("palisade_errors_total").increment(1);
    }
}

/// The operation's id in the API description; what has none is `unknown`.
fn operation(method: &str, path: &str) -> &'static str {
    // HEAD is GET without a body.
    let method = if method == "HEAD" { "GET" } else { method };
    OPERATIONS.get(&format!("{method} {path}")).map_or("unknown", String::as_str)
}

/// A caller can invent methods; labels must stay few.
fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

/// One caller that follows events, counted as long as this lives.
#[derive(Debug)]
pub(crate) struct Follower(&'static str);

impl Follower {
    pub(crate) const STREAM: &'static str = "stream";
    pub(crate) const SOCKET: &'static str = "socket";

    pub(crate) fn new(kind: &'static str) -> Self {
        metrics::gauge!("palisade_followers", "kind" => kind).increment(1.0);
        Self(kind)
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        metrics::gauge!("palisade_followers", "kind" => self.0).decrement(1.0);
    }
}

/// Everything, as Prometheus reads it; what is a state is looked at now.
pub(crate) async fn text(app: &App, reader: MetricsReader) -> String {
    let checks = health::checks(app).await;
    let set = |name: &'static str, value: f64| metrics::gauge!(name).set(value);
    for check in &checks {
        metrics::gauge!("palisade_check", "check" => check.name.clone()).set(flag(check.ok));
    }
    set("palisade_ready", flag(checks.iter().all(|check| check.ok)));
    let vitals = app.runtime.vitals(reader).await;
    set("palisade_ledger_head", number(vitals.ledger_head));
    set("palisade_ledger_failing", flag(vitals.ledger_failing));
    set("palisade_ledger_reserved", number(u64::try_from(vitals.ledger_reserved).unwrap_or(u64::MAX)));
    let unsigned = u64::try_from(vitals.ledger_unsigned).unwrap_or(0);
    set("palisade_ledger_unsigned_seconds", number(unsigned) / 1_000.0);
    // Absent until a check has ended: "not known" is not "changed".
    if let Some(verdict) = vitals.ledger_verdict {
        set("palisade_ledger_intact", flag(verdict == ledger::verify::Verdict::Intact));
    }
    set("palisade_disk_tight", flag(vitals.disk_tight));
    set("palisade_key_epoch", f64::from(vitals.key_epoch));
    set("palisade_sockets", number(u64::try_from(app.sockets.taken()).unwrap_or(u64::MAX)));
    // What the store does not say now stands as it was; that it does not is palisade_check.
    if let Some(tallies) = vitals.tallies {
        sessions(&tallies);
        let asked = u64::try_from(vitals.asked_for).unwrap_or(0);
        set("palisade_approvals_oldest_seconds", number(asked) / 1_000.0);
    }
    metrics::counter!("palisade_redactions_total").absolute(crate::logs::redactor().masked());
    app.metrics.run_upkeep();
    app.metrics.render()
}

/// How many there are of what sessions are made of.
fn sessions(tallies: &Tallies) {
    let count = |count: i64| number(u64::try_from(count).unwrap_or(0));
    let Tallies { open, held, closed, queued, running, frozen, approvals, waits_since: _ } = *tallies;
    let idle = open.saturating_sub(running).saturating_sub(frozen);
    let stand =
        [("idle", idle), ("at_work", running), ("frozen", frozen), ("held", held), ("closed", closed)];
    for (state, many) in stand {
        metrics::gauge!("palisade_sessions", "state" => state).set(count(many));
    }
    for (state, many) in [("queued", queued), ("running", running), ("held", frozen)] {
        metrics::gauge!("palisade_tasks", "state" => state).set(count(many));
    }
    metrics::gauge!("palisade_approvals_open").set(count(approvals));
}

fn flag(yes: bool) -> f64 {
    f64::from(u8::from(yes))
}

/// A count as Prometheus writes it; beyond 2^53 the last digits are lost.
#[expect(clippy::cast_precision_loss, reason = "Prometheus knows no other numbers")]
fn number(count: u64) -> f64 {
    count as f64
}
