//! What every handler has: the runtime, the settings, the limits; and the router itself.

use std::collections::HashSet;
use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use metrics_exporter_prometheus::PrometheusHandle;
use model::UserId;
use runtime::Runtime;
use tokio::sync::watch;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::handlers::{
    approvals, artifacts, auth, backup, budgets, events, health, imports, keys, leaving, ledger, lending,
    lineage, passes, policies, repos, secrets, sessions, setup, status, steps, users, worktrees,
};
use crate::idempotency::InFlight;
use crate::limits::Limiter;
use crate::master::{MasterFrom, Tried};
use crate::problem::Problem;
use crate::seats::Seats;
use crate::settings::Settings;
use crate::{idempotency, pipeline};

/// Exports, backups and checks of the whole ledger at once: in all, and of one user.
const HEAVY: usize = 8;
const HEAVY_PER_USER: usize = 2;
/// Secrets that are lent to runs at once: each has a line of its own.
const LINES: usize = 256;
/// Capabilities that are being sent at once: each is in memory until it is kept.
const UPLOADS: usize = 4;
const UPLOADS_PER_USER: usize = 2;

/// What every handler has.
#[derive(Clone)]
pub(crate) struct App(Arc<Inner>);

/// The parts.
pub(crate) struct Inner {
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) settings: Settings,
    pub(crate) limiter: Limiter,
    /// What the `Host` header may say, in lower case.
    pub(crate) hosts: HashSet<String>,
    pub(crate) in_flight: InFlight,
    /// Live connections.
    pub(crate) sockets: Arc<Seats<UserId>>,
    /// Long work and large answers: exports, backups, checks of the whole ledger.
    pub(crate) heavy: Arc<Seats<UserId>>,
    /// Secrets that are lent to runs.
    pub(crate) lines: Arc<Seats<UserId>>,
    /// Capabilities that are being sent.
    pub(crate) uploads: Arc<Seats<UserId>>,
    pub(crate) metrics: PrometheusHandle,
    pub(crate) stopping: watch::Receiver<bool>,
    pub(crate) openapi: String,
    /// Where the master key comes from at the next start.
    pub(crate) master: MasterFrom,
    /// Whether the passphrase there is the right one.
    pub(crate) tried: Tried,
}

impl std::ops::Deref for App {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl App {
    pub(crate) fn new(
        runtime: Arc<Runtime>,
        settings: Settings,
        metrics: PrometheusHandle,
        stopping: watch::Receiver<bool>,
        master: MasterFrom,
    ) -> Self {
        let hosts = hosts(&settings);
        let limiter = Limiter::new(settings.requests_per_minute);
        let sockets = Seats::new(settings.sockets, settings.sockets_per_user);
        let heavy = Seats::new(HEAVY, HEAVY_PER_USER);
        let lines = Seats::new(LINES, LINES);
        let uploads = Seats::new(UPLOADS, UPLOADS_PER_USER);
        let openapi = description().to_json().unwrap_or_default();
        let in_flight = InFlight::default();
        Self(Arc::new(Inner {
            runtime,
            settings,
            limiter,
            hosts,
            in_flight,
            sockets,
            heavy,
            lines,
            uploads,
            metrics,
            stopping,
            openapi,
            master,
            tried: Tried::default(),
        }))
    }
}

/// Every name under which this daemon may be asked for.
fn hosts(settings: &Settings) -> HashSet<String> {
    let port = settings.listen.port();
    let local = ["127.0.0.1", "localhost", "[::1]"];
    let local = local.iter().flat_map(|name| [(*name).to_owned(), format!("{name}:{port}")]);
    let public = settings.public_url.split_once("://").map(|(_, rest)| rest.to_ascii_lowercase());
    local
        .chain([settings.listen.to_string()])
        .chain(public)
        .chain(settings.allowed_hosts.iter().cloned())
        .collect()
}

/// Routes and their description, from one source.
fn described() -> OpenApiRouter<App> {
    let (first, second) = (session_routes(), thing_routes());
    OpenApiRouter::with_openapi(crate::openapi::base()).merge(first).merge(second)
}

fn session_routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(health::healthz))
        .routes(routes!(health::livez))
        .routes(routes!(health::readyz))
        .routes(routes!(auth::bootstrap))
        .routes(routes!(auth::login))
        .routes(routes!(auth::refresh))
        .routes(routes!(keys::pair))
        .routes(routes!(auth::logout))
        .routes(routes!(auth::logout_everywhere))
        .routes(routes!(auth::change_password))
        .routes(routes!(auth::offer_totp))
        .routes(routes!(auth::confirm_totp))
        .routes(routes!(auth::remove_totp))
        .routes(routes!(status::whoami))
        .routes(routes!(status::status))
        .routes(routes!(status::openapi))
        .routes(routes!(status::metrics))
        .routes(routes!(events::ticket))
        .routes(routes!(events::stream))
        .routes(routes!(events::socket))
        .routes(routes!(setup::page, setup::submit))
}

fn thing_routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(users::list, users::create))
        .routes(routes!(users::read, users::update, users::delete))
        .routes(routes!(users::disable))
        .routes(routes!(users::reset_password))
        .routes(routes!(users::sign_out))
        .routes(routes!(keys::list))
        .routes(routes!(keys::create))
        .routes(routes!(keys::offer_pairing))
        .routes(routes!(keys::revoke))
        .routes(routes!(passes::list))
        .routes(routes!(passes::mint))
        .routes(routes!(passes::revoke))
        .routes(routes!(repos::list, repos::create))
        .routes(routes!(repos::read, repos::delete))
        .routes(routes!(repos::fetch))
        .routes(routes!(worktrees::list, worktrees::create))
        .routes(routes!(worktrees::read, worktrees::update, worktrees::delete))
        .routes(routes!(worktrees::set_tier))
        .routes(routes!(worktrees::set_sharing))
        .routes(routes!(worktrees::add_owner, worktrees::remove_owner))
        .routes(routes!(worktrees::archive))
        .routes(routes!(leaving::restore))
        .routes(routes!(leaving::merge))
        .routes(routes!(leaving::push))
        .routes(routes!(worktrees::log))
        .routes(routes!(worktrees::diff))
        .routes(routes!(worktrees::files))
        .routes(routes!(sessions::agents))
        .routes(routes!(sessions::check))
        .routes(routes!(sessions::list, sessions::create))
        .routes(routes!(imports::import))
        .routes(routes!(sessions::read))
        .routes(routes!(sessions::tasks, sessions::prompt))
        .routes(routes!(sessions::stop_task))
        .routes(routes!(steps::list))
        .routes(routes!(steps::stream))
        .routes(routes!(sessions::stop))
        .routes(routes!(sessions::resume))
        .routes(routes!(sessions::close))
        .routes(routes!(lineage::fork))
        .routes(routes!(lineage::spawn))
        .routes(routes!(lineage::read))
        .routes(routes!(lineage::reorder))
        .routes(routes!(lineage::undo))
        .routes(routes!(budgets::session))
        .routes(routes!(budgets::usage))
        .routes(routes!(budgets::list, budgets::set))
        .routes(routes!(approvals::list))
        .routes(routes!(approvals::open))
        .routes(routes!(approvals::allow))
        .routes(routes!(approvals::deny))
        .routes(routes!(approvals::consents))
        .routes(routes!(approvals::revoke))
        .routes(routes!(artifacts::list))
        .routes(routes!(artifacts::read))
        .routes(routes!(artifacts::history))
        .routes(routes!(artifacts::assign))
        .routes(routes!(artifacts::revoke))
        .routes(routes!(artifacts::register_capability))
        .routes(routes!(artifacts::file))
        .routes(routes!(artifacts::register_subagent))
        .routes(routes!(artifacts::register_env))
        .routes(routes!(policies::list, policies::add))
        .routes(routes!(policies::remove))
        .routes(routes!(policies::try_policy))
        .routes(routes!(secrets::list, secrets::add))
        .routes(routes!(secrets::remove))
        .routes(routes!(lending::lend))
        .routes(routes!(secrets::rotate))
        .routes(routes!(ledger::search))
        .routes(routes!(ledger::export))
        .routes(routes!(ledger::trust))
        .routes(routes!(ledger::verify))
        .routes(routes!(backup::create))
}

/// The OpenAPI document, generated from the router.
pub(crate) fn description() -> OpenApi {
    let mut document = described().split_for_parts().1;
    crate::openapi::finish(&mut document);
    document
}

/// The whole service. Outermost first: pipeline (id, host, credential, limits), then repeatable writes.
pub(crate) fn router(app: App) -> Router {
    let (router, _) = described().split_for_parts();
    let unknown = async || Problem::not_found();
    let wrong_method = async || {
        Problem::new(
            axum::http::StatusCode::METHOD_NOT_ALLOWED,
            api::Code::BadRequest,
            "this path has no such method",
        )
    };
    router
        .fallback(unknown)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(app.clone(), idempotency::remember))
        .layer(from_fn_with_state(app.clone(), pipeline::guard))
        .with_state(app)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::routes::{Needs, ROUTES};

    #[test]
    fn idn_09_every_route_has_its_row_and_every_row_its_route() {
        let document = serde_json::to_value(super::description()).unwrap();
        let mut described = BTreeSet::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for method in item.as_object().unwrap().keys().filter(|key| *key != "parameters") {
                described.insert(format!("{} {path}", method.to_uppercase()));
            }
        }
        let declared: BTreeSet<String> =
            ROUTES.iter().map(|route| format!("{} {}", route.method, route.path)).collect();
        assert_eq!(described, declared);
        assert_eq!(declared.len(), ROUTES.len(), "each once");
    }

    #[test]
    fn every_declared_action_is_one_that_the_gate_knows() {
        for route in ROUTES {
            if let Needs::Action(name) | Needs::Ticket(name) = route.needs {
                assert!(access::action_named(name).is_some(), "{name}");
            }
        }
    }

    #[test]
    fn every_action_is_reached_by_a_route() {
        // A task that waits is begun by the daemon, for whoever asked.
        for action in access::ACTIONS.iter().filter(|action| action.name != "session.start") {
            let reached = ROUTES.iter().any(|route| matches!(route.needs, Needs::Action(name) | Needs::Ticket(name) if name == action.name));
            assert!(reached, "{} has no route", action.name);
        }
    }

    #[test]
    fn gtw_07_the_committed_description_is_the_api() {
        let made = super::description().to_pretty_json().unwrap() + "\n";
        let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
        if std::env::var_os("UPDATE_OPENAPI").is_some() {
            std::fs::write(kept, &made).unwrap();
        }
        let kept = std::fs::read_to_string(kept).unwrap_or_default();
        assert!(
            kept == made,
            "docs/openapi.json is not what the router says; run `make openapi` and commit it"
        );
    }
}
