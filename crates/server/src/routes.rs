//! The one declared table of routes: what each needs. A route that is not here does not pass the tests,
//! and at run time is not answered.

/// What a route needs of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing: health, and the ways to get a credential.
    Nobody,
    /// A credential, and the gate's permission for this action.
    Action(&'static str),
    /// A socket ticket or a credential, and this action.
    Ticket(&'static str),
}

/// One route.
#[derive(Debug)]
pub(crate) struct Route {
    /// The method.
    pub(crate) method: &'static str,
    /// The path, as the router writes it.
    pub(crate) path: &'static str,
    /// What it needs.
    pub(crate) needs: Needs,
}

macro_rules! routes {
    ($($method:ident $path:literal $needs:ident $(($action:literal))?;)+) => {
        /// Every route there is.
        pub(crate) const ROUTES: &[Route] =
            &[$(Route { method: stringify!($method), path: $path, needs: Needs::$needs $(($action))? }),+];
    };
}

routes! {
    GET "/healthz" Nobody;
    GET "/livez" Nobody;
    GET "/readyz" Nobody;
    GET "/setup" Nobody;
    POST "/setup" Nobody;
    POST "/api/v1/auth/bootstrap" Nobody;
    POST "/api/v1/auth/login" Nobody;
    POST "/api/v1/auth/refresh" Nobody;
    POST "/api/v1/auth/pair" Nobody;

    POST "/api/v1/auth/logout" Action("signin.end");
    POST "/api/v1/auth/logout-everywhere" Action("signin.end_all");
    POST "/api/v1/auth/password" Action("password.change");
    POST "/api/v1/auth/totp" Action("user.read");
    POST "/api/v1/auth/totp/confirm" Action("totp.change");
    POST "/api/v1/auth/totp/remove" Action("totp.change");
    GET "/api/v1/whoami" Action("user.read");
    GET "/api/v1/status" Action("status.read");
    GET "/api/v1/openapi.json" Action("status.read");
    GET "/metrics" Action("metrics.read");

    POST "/api/v1/events/ticket" Action("event.follow");
    GET "/api/v1/events" Action("event.follow");
    GET "/api/v1/events/socket" Ticket("event.follow");

    GET "/api/v1/users" Action("user.list");
    POST "/api/v1/users" Action("user.create");
    GET "/api/v1/users/{user}" Action("user.read");
    PATCH "/api/v1/users/{user}" Action("user.update");
    DELETE "/api/v1/users/{user}" Action("user.delete");
    POST "/api/v1/users/{user}/disable" Action("user.disable");
    POST "/api/v1/users/{user}/password" Action("user.reset");
    POST "/api/v1/users/{user}/sign-out" Action("signin.end_all");
    GET "/api/v1/users/{user}/keys" Action("key.list");
    GET "/api/v1/users/{user}/passes" Action("pass.list");

    POST "/api/v1/keys" Action("key.create");
    POST "/api/v1/pairings" Action("pairing.offer");
    DELETE "/api/v1/keys/{key}" Action("key.revoke");
    POST "/api/v1/passes" Action("pass.mint");
    DELETE "/api/v1/passes/{pass}" Action("pass.revoke");

    GET "/api/v1/repos" Action("repo.list");
    POST "/api/v1/repos" Action("repo.create");
    GET "/api/v1/repos/{repo}" Action("repo.read");
    DELETE "/api/v1/repos/{repo}" Action("repo.delete");
    POST "/api/v1/repos/{repo}/fetch" Action("repo.fetch");

    GET "/api/v1/worktrees" Action("worktree.list");
    POST "/api/v1/worktrees" Action("worktree.create");
    GET "/api/v1/worktrees/{worktree}" Action("worktree.read");
    PATCH "/api/v1/worktrees/{worktree}" Action("worktree.update");
    DELETE "/api/v1/worktrees/{worktree}" Action("worktree.delete");
    PUT "/api/v1/worktrees/{worktree}/tier" Action("worktree.set_tier");
    PUT "/api/v1/worktrees/{worktree}/sharing" Action("worktree.set_sharing");
    PUT "/api/v1/worktrees/{worktree}/owners/{user}" Action("worktree.set_owners");
    DELETE "/api/v1/worktrees/{worktree}/owners/{user}" Action("worktree.set_owners");
    POST "/api/v1/worktrees/{worktree}/archive" Action("worktree.archive");
    POST "/api/v1/worktrees/{worktree}/restore" Action("worktree.restore");
    POST "/api/v1/worktrees/{worktree}/merge" Action("worktree.merge");
    POST "/api/v1/worktrees/{worktree}/push" Action("worktree.push");
    GET "/api/v1/worktrees/{worktree}/log" Action("worktree.read");
    GET "/api/v1/worktrees/{worktree}/diff" Action("worktree.read");
    GET "/api/v1/worktrees/{worktree}/files" Action("worktree.read");

    GET "/api/v1/agents" Action("status.read");
    POST "/api/v1/agents/check" Action("agent.check");
    GET "/api/v1/sessions" Action("session.list");
    POST "/api/v1/sessions" Action("session.create");
    POST "/api/v1/sessions/import" Action("session.import");
    GET "/api/v1/sessions/{session}" Action("session.read");
    GET "/api/v1/sessions/{session}/tasks" Action("session.read");
    POST "/api/v1/sessions/{session}/tasks" Action("session.prompt");
    DELETE "/api/v1/sessions/{session}/tasks/{task}" Action("session.stop");
    GET "/api/v1/sessions/{session}/steps" Action("session.read");
    GET "/api/v1/sessions/{session}/stream" Action("session.read");
    POST "/api/v1/sessions/{session}/stop" Action("session.stop");
    POST "/api/v1/sessions/{session}/resume" Action("session.resume");
    POST "/api/v1/sessions/{session}/close" Action("session.close");
    POST "/api/v1/sessions/{session}/fork" Action("session.fork");
    POST "/api/v1/sessions/{session}/spawn" Action("session.spawn");
    GET "/api/v1/sessions/{session}/lineage" Action("session.read");
    PUT "/api/v1/sessions/{session}/queue" Action("session.reorder");
    POST "/api/v1/sessions/{session}/undo" Action("session.undo");
    GET "/api/v1/approvals" Action("session.list");
    GET "/api/v1/sessions/{session}/approvals" Action("session.read");
    POST "/api/v1/sessions/{session}/approvals/{approval}/allow" Action("approval.allow");
    POST "/api/v1/sessions/{session}/approvals/{approval}/deny" Action("approval.deny");
    GET "/api/v1/sessions/{session}/usage" Action("session.read");
    GET "/api/v1/usage" Action("usage.read");
    GET "/api/v1/budgets" Action("budget.read");
    PUT "/api/v1/budgets" Action("budget.set");
    GET "/api/v1/sessions/{session}/consents" Action("session.read");
    DELETE "/api/v1/sessions/{session}/consents/{consent}" Action("consent.revoke");

    GET "/api/v1/artifacts/{kind}" Action("artifact.list");
    GET "/api/v1/artifacts/{kind}/{artifact}" Action("artifact.read");
    GET "/api/v1/artifacts/{kind}/{artifact}/history" Action("artifact.read");
    POST "/api/v1/artifacts/{kind}/{artifact}/assign" Action("artifact.assign");
    POST "/api/v1/artifacts/{kind}/{artifact}/revoke" Action("artifact.revoke");
    POST "/api/v1/capabilities" Action("artifact.register");
    GET "/api/v1/capabilities/{artifact}/file" Action("artifact.fetch");
    POST "/api/v1/subagents" Action("artifact.register");
    POST "/api/v1/envs" Action("artifact.register");

    GET "/api/v1/policies" Action("policy.read");
    POST "/api/v1/policies" Action("policy.add");
    DELETE "/api/v1/policies/{policy}" Action("policy.remove");
    POST "/api/v1/policies/try" Action("policy.try");

    GET "/api/v1/secrets" Action("secret.list");
    POST "/api/v1/secrets" Action("secret.add");
    DELETE "/api/v1/secrets/{owner}/{name}" Action("secret.remove");
    POST "/api/v1/secrets/lend" Action("secret.lease");
    POST "/api/v1/secrets/rotation" Action("secret.rotate");

    GET "/api/v1/ledger" Action("ledger.read");
    GET "/api/v1/ledger/export" Action("ledger.read_all");
    GET "/api/v1/ledger/trust" Action("ledger.verify");
    POST "/api/v1/ledger/verify" Action("ledger.verify");
    POST "/api/v1/backup" Action("backup.create");
}

/// The route whose body is files.
pub(crate) const UPLOAD: &str = "/api/v1/capabilities";
/// What such a body may have besides the files: the request, which names them.
const BESIDE: usize = 2 * 1_024 * 1_024;

/// How large the body of a request may be.
pub(crate) fn body_bytes(route: Option<&Route>, usual: usize) -> usize {
    match route {
        Some(route) if route.path == UPLOAD => usual.max(runtime::MOST_CAPABILITY + BESIDE),
        Some(_) | None => usual,
    }
}

/// The route of a request that was matched.
pub(crate) fn route(method: &str, path: &str) -> Option<&'static Route> {
    // HEAD is GET without a body.
    let method = if method == "HEAD" { "GET" } else { method };
    ROUTES.iter().find(|route| route.method == method && route.path == path)
}
