//! A typed, blocking client for every route. `--json` output, tests and scripts all go through it.

use std::io::Read;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use ureq::http::{Method, Request};

use crate::*;

/// An answer as it came: for streams, and for looking at headers.
pub type Answer = ureq::http::Response<ureq::Body>;

/// Why a call gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The daemon said no.
    #[error("{} ({})", .0.detail, .0.request_id)]
    Problem(Box<Problem>),
    /// Nobody answered.
    #[error("`{base}` does not answer ({why}); is the daemon running? start it with `palisade up`")]
    Unreachable {
        /// Where.
        base: String,
        /// What happened.
        why: String,
    },
    /// Something else answered.
    #[error("the answer is not one of Palisade's: {0}")]
    Unexpected(String),
}

impl ClientError {
    /// The problem's code, if the daemon answered.
    #[must_use]
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Problem(problem) => Some(problem.code),
            Self::Unreachable { .. } | Self::Unexpected(_) => None,
        }
    }

    /// The HTTP status, if the daemon answered.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Problem(problem) => Some(problem.status),
            Self::Unreachable { .. } | Self::Unexpected(_) => None,
        }
    }
}

type Called<T> = Result<T, ClientError>;

/// A connection to one daemon, perhaps with a credential.
#[derive(Clone, Debug)]
pub struct Client {
    base: String,
    token: Option<Hidden>,
    agent: ureq::Agent,
}

/// Nothing to send.
const NOTHING: Option<&()> = None;

impl Client {
    /// A client without a credential. `ca` names certificates (PEM) to trust besides the usual ones.
    pub fn new(base: &str, ca: Option<&[u8]>) -> Result<Self, ClientError> {
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let mut tls = ureq::tls::TlsConfig::builder().unversioned_rustls_crypto_provider(provider.into());
        if base.starts_with("https://") {
            let mut roots = usual_certificates();
            for item in ureq::tls::parse_pem(ca.unwrap_or_default()) {
                match item {
                    Ok(ureq::tls::PemItem::Certificate(one)) => roots.push(one),
                    Ok(_) => {}
                    Err(error) => return Err(ClientError::Unexpected(error.to_string())),
                }
            }
            tls = tls.root_certs(ureq::tls::RootCerts::Specific(std::sync::Arc::new(roots)));
        }
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .timeout_connect(Some(Duration::from_secs(10)))
            .timeout_recv_response(Some(Duration::from_secs(60)))
            .allow_non_standard_methods(true)
            .tls_config(tls.build())
            .build();
        Ok(Self { base: base.trim_end_matches('/').to_owned(), token: None, agent: config.new_agent() })
    }

    /// The same client with a credential.
    #[must_use]
    pub fn with_token(&self, token: &str) -> Self {
        Self { token: Some(Hidden(token.to_owned())), ..self.clone() }
    }

    /// Where it calls.
    #[must_use]
    pub fn base(&self) -> &str {
        &self.base
    }

    /// The credential it calls with.
    #[must_use]
    pub fn token(&self) -> Option<&str> {
        self.token.as_ref().map(|token| token.0.as_str())
    }

    /// Sends anything; for tests, and for what has no method of its own.
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Called<Answer> {
        let unreachable = |why: String| ClientError::Unreachable { base: self.base.clone(), why };
        let method = Method::from_bytes(method.as_bytes()).map_err(|error| unreachable(error.to_string()))?;
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {}", token.0));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body).map_err(|error| unreachable(error.to_string()))?;
        self.agent.run(request).map_err(|error| unreachable(error.to_string()))
    }

    fn call<T: DeserializeOwned>(
        &self,
        method: &str,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Called<T> {
        let mut answer = self.checked(method, path, body)?;
        let text =
            answer.body_mut().read_to_vec().map_err(|error| ClientError::Unexpected(error.to_string()))?;
        // 204 has no body; `()` reads from `null`.
        let text = if text.is_empty() { b"null".as_slice() } else { text.as_slice() };
        serde_json::from_slice(text).map_err(|error| ClientError::Unexpected(error.to_string()))
    }

    fn checked(&self, method: &str, path: &str, body: Option<&impl Serialize>) -> Called<Answer> {
        let (headers, bytes) = match body {
            None => (Vec::new(), Vec::new()),
            Some(body) => {
                let bytes =
                    serde_json::to_vec(body).map_err(|error| ClientError::Unexpected(error.to_string()))?;
                (vec![("content-type", "application/json")], bytes)
            }
        };
        let mut answer = self.send(method, path, &headers, bytes)?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let text = answer.body_mut().read_to_vec().unwrap_or_default();
        match serde_json::from_slice::<Problem>(&text) {
            Ok(problem) => Err(ClientError::Problem(Box::new(problem))),
            Err(_) => Err(ClientError::Unexpected(format!("status {}", answer.status()))),
        }
    }

    fn stream(&self, method: &str, path: &str) -> Called<impl Read + use<>> {
        Ok(self.checked(method, path, NOTHING)?.into_body().into_reader())
    }
}

/// What this machine trusts: the bundle that its distribution keeps.
fn usual_certificates() -> Vec<ureq::tls::Certificate<'static>> {
    let named = std::env::var_os("SSL_CERT_FILE").map(std::path::PathBuf::from);
    let usual =
        ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];
    let mut places = named.into_iter().chain(usual.iter().map(Into::into));
    let Some(bundle) = places.find_map(|path| std::fs::read(path).ok()) else { return Vec::new() };
    let certificates = ureq::tls::parse_pem(&bundle).filter_map(|item| match item {
        Ok(ureq::tls::PemItem::Certificate(one)) => Some(one),
        Ok(_) | Err(_) => None,
    });
    certificates.collect()
}

/// One segment of a path or one value of a query, escaped.
fn part(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                safe.push(char::from(byte))
            }
            other => safe.push_str(&format!("%{other:02X}")),
        }
    }
    safe
}

/// `?a=1&b=2` of what is there.
fn query(pairs: &[(&str, Option<String>)]) -> String {
    let given = pairs
        .iter()
        .filter_map(|(name, value)| value.as_ref().map(|value| format!("{name}={}", part(value))));
    let joined = given.collect::<Vec<_>>().join("&");
    if joined.is_empty() { joined } else { format!("?{joined}") }
}

/// Health and credentials.
impl Client {
    /// Whether the daemon can do its work.
    pub fn ready(&self) -> Called<Health> {
        let mut answer = self.send("GET", "/readyz", &[], Vec::new())?;
        answer.body_mut().read_json().map_err(|error| ClientError::Unexpected(error.to_string()))
    }

    /// Makes the first owner.
    pub fn bootstrap(&self, body: &BootstrapRequest) -> Called<TokenResponse> {
        self.call("POST", "/api/v1/auth/bootstrap", Some(body))
    }

    /// Signs in.
    pub fn login(&self, body: &LoginRequest) -> Called<TokenResponse> {
        self.call("POST", "/api/v1/auth/login", Some(body))
    }

    /// Trades a refresh token.
    pub fn refresh(&self, refresh_token: &str) -> Called<TokenResponse> {
        let body = RefreshRequest { refresh_token: Hidden(refresh_token.to_owned()) };
        self.call("POST", "/api/v1/auth/refresh", Some(&body))
    }

    /// Signs this login out.
    pub fn logout(&self) -> Called<()> {
        self.call("POST", "/api/v1/auth/logout", NOTHING)
    }

    /// Signs the caller out everywhere.
    pub fn logout_everywhere(&self) -> Called<()> {
        self.call("POST", "/api/v1/auth/logout-everywhere", NOTHING)
    }

    /// Changes the own password.
    pub fn change_password(&self, body: &ChangePasswordRequest) -> Called<()> {
        self.call("POST", "/api/v1/auth/password", Some(body))
    }

    /// Asks for a seed for one-time passwords.
    pub fn offer_totp(&self) -> Called<TotpOffer> {
        self.call("POST", "/api/v1/auth/totp", NOTHING)
    }

    /// Turns one-time passwords on.
    pub fn confirm_totp(&self, body: &ConfirmTotpRequest) -> Called<()> {
        self.call("POST", "/api/v1/auth/totp/confirm", Some(body))
    }

    /// Turns one-time passwords off.
    pub fn remove_totp(&self, body: &RemoveTotpRequest) -> Called<()> {
        self.call("POST", "/api/v1/auth/totp/remove", Some(body))
    }

    /// Who is calling.
    pub fn whoami(&self) -> Called<WhoAmI> {
        self.call("GET", "/api/v1/whoami", NOTHING)
    }

    /// How the daemon is.
    pub fn status(&self) -> Called<Status> {
        self.call("GET", "/api/v1/status", NOTHING)
    }

    /// Metrics, as Prometheus reads them.
    pub fn metrics(&self) -> Called<String> {
        let mut text = String::new();
        let read = self.stream("GET", "/metrics")?.read_to_string(&mut text);
        read.map_err(|error| ClientError::Unexpected(error.to_string())).map(|_| text)
    }
}

/// People, keys and Passes.
impl Client {
    /// Lists users.
    pub fn users(&self, prefix: Option<&str>, after: Option<&str>, limit: Option<u32>) -> Called<UserPage> {
        let query = query(&[
            ("prefix", prefix.map(str::to_owned)),
            ("after", after.map(str::to_owned)),
            ("limit", limit.map(|n| n.to_string())),
        ]);
        self.call("GET", &format!("/api/v1/users{query}"), NOTHING)
    }

    /// Creates a user.
    pub fn create_user(&self, body: &CreateUserRequest) -> Called<User> {
        self.call("POST", "/api/v1/users", Some(body))
    }

    /// One user.
    pub fn user(&self, id: &str) -> Called<User> {
        self.call("GET", &format!("/api/v1/users/{}", part(id)), NOTHING)
    }

    /// Changes a user.
    pub fn update_user(&self, id: &str, body: &UpdateUserRequest) -> Called<User> {
        self.call("PATCH", &format!("/api/v1/users/{}", part(id)), Some(body))
    }

    /// Deletes a user.
    pub fn delete_user(&self, id: &str) -> Called<()> {
        self.call("DELETE", &format!("/api/v1/users/{}", part(id)), NOTHING)
    }

    /// Disables a user.
    pub fn disable_user(&self, id: &str) -> Called<()> {
        self.call("POST", &format!("/api/v1/users/{}/disable", part(id)), NOTHING)
    }

    /// Sets another user's password.
    pub fn reset_password(&self, id: &str, password: &str) -> Called<()> {
        let body = ResetPasswordRequest { password: Hidden(password.to_owned()) };
        self.call("POST", &format!("/api/v1/users/{}/password", part(id)), Some(&body))
    }

    /// Signs a user out everywhere.
    pub fn sign_out_user(&self, id: &str) -> Called<()> {
        self.call("POST", &format!("/api/v1/users/{}/sign-out", part(id)), NOTHING)
    }

    /// Lists a user's keys.
    pub fn keys(&self, user: &str, after: Option<&str>) -> Called<ApiKeyPage> {
        let query = query(&[("after", after.map(str::to_owned))]);
        self.call("GET", &format!("/api/v1/users/{}/keys{query}", part(user)), NOTHING)
    }

    /// Makes a key.
    pub fn create_key(&self, body: &CreateKeyRequest) -> Called<NewApiKey> {
        self.call("POST", "/api/v1/keys", Some(body))
    }

    /// Revokes a key.
    pub fn revoke_key(&self, id: &str) -> Called<()> {
        self.call("DELETE", &format!("/api/v1/keys/{}", part(id)), NOTHING)
    }

    /// Lists a user's Passes.
    pub fn passes(&self, user: &str, after: Option<&str>) -> Called<PassPage> {
        let query = query(&[("after", after.map(str::to_owned))]);
        self.call("GET", &format!("/api/v1/users/{}/passes{query}", part(user)), NOTHING)
    }

    /// Mints a Pass.
    pub fn mint_pass(&self, body: &MintPassRequest) -> Called<NewPass> {
        self.call("POST", "/api/v1/passes", Some(body))
    }

    /// Revokes a Pass and everything made from it.
    pub fn revoke_pass(&self, id: &str) -> Called<Revoked> {
        self.call("DELETE", &format!("/api/v1/passes/{}", part(id)), NOTHING)
    }
}

/// Which worktrees to list.
#[derive(Clone, Debug, Default)]
pub struct WorktreeFilter {
    /// Of this repository only.
    pub repo: Option<String>,
    /// Whose name contains this.
    pub name: Option<String>,
    /// Also those that are archived.
    pub archived: bool,
    /// The `next` of the page before.
    pub after: Option<String>,
    /// How many.
    pub limit: Option<u32>,
}

/// Repositories and worktrees.
impl Client {
    /// Lists repositories.
    pub fn repos(&self, after: Option<&str>) -> Called<RepoPage> {
        let query = query(&[("after", after.map(str::to_owned))]);
        self.call("GET", &format!("/api/v1/repos{query}"), NOTHING)
    }

    /// Registers a repository.
    pub fn create_repo(&self, body: &CreateRepoRequest) -> Called<Repo> {
        self.call("POST", "/api/v1/repos", Some(body))
    }

    /// One repository.
    pub fn repo(&self, id: &str) -> Called<Repo> {
        self.call("GET", &format!("/api/v1/repos/{}", part(id)), NOTHING)
    }

    /// Removes a repository.
    pub fn delete_repo(&self, id: &str) -> Called<()> {
        self.call("DELETE", &format!("/api/v1/repos/{}", part(id)), NOTHING)
    }

    /// Lists worktrees.
    pub fn worktrees(&self, filter: &WorktreeFilter) -> Called<WorktreePage> {
        let query = query(&[
            ("repo", filter.repo.clone()),
            ("name", filter.name.clone()),
            ("archived", filter.archived.then(|| "true".to_owned())),
            ("after", filter.after.clone()),
            ("limit", filter.limit.map(|n| n.to_string())),
        ]);
        self.call("GET", &format!("/api/v1/worktrees{query}"), NOTHING)
    }

    /// Creates a worktree.
    pub fn create_worktree(&self, body: &CreateWorktreeRequest) -> Called<Worktree> {
        self.call("POST", "/api/v1/worktrees", Some(body))
    }

    /// One worktree.
    pub fn worktree(&self, id: &str) -> Called<Worktree> {
        self.call("GET", &format!("/api/v1/worktrees/{}", part(id)), NOTHING)
    }

    /// Changes what it says of itself.
    pub fn update_worktree(&self, id: &str, about: &str) -> Called<Worktree> {
        let body = UpdateWorktreeRequest { about: about.to_owned() };
        self.call("PATCH", &format!("/api/v1/worktrees/{}", part(id)), Some(&body))
    }

    /// Deletes a worktree.
    pub fn delete_worktree(&self, id: &str) -> Called<()> {
        self.call("DELETE", &format!("/api/v1/worktrees/{}", part(id)), NOTHING)
    }

    /// Changes what non-owners may do.
    pub fn set_tier(&self, id: &str, tier: &str) -> Called<Worktree> {
        let body = SetTierRequest { tier: tier.to_owned() };
        self.call("PUT", &format!("/api/v1/worktrees/{}/tier", part(id)), Some(&body))
    }

    /// Adds an owner.
    pub fn add_owner(&self, id: &str, user: &str) -> Called<Worktree> {
        self.call("PUT", &format!("/api/v1/worktrees/{}/owners/{}", part(id), part(user)), NOTHING)
    }

    /// Removes an owner.
    pub fn remove_owner(&self, id: &str, user: &str) -> Called<Worktree> {
        self.call("DELETE", &format!("/api/v1/worktrees/{}/owners/{}", part(id), part(user)), NOTHING)
    }

    /// Archives a worktree.
    pub fn archive_worktree(&self, id: &str) -> Called<Worktree> {
        self.call("POST", &format!("/api/v1/worktrees/{}/archive", part(id)), NOTHING)
    }
}

/// Which entries to search for.
#[derive(Clone, Debug, Default)]
pub struct LedgerFilter {
    /// The user who acted.
    pub user: Option<String>,
    /// The action.
    pub action: Option<String>,
    /// The resource.
    pub resource: Option<String>,
    /// The decision.
    pub decision: Option<String>,
    /// From this time on.
    pub since: Option<i64>,
    /// Before this time.
    pub until: Option<i64>,
    /// The `next` of the page before.
    pub after: Option<String>,
    /// How many.
    pub limit: Option<u32>,
}

/// Policies, ledger, events, backup.
impl Client {
    /// Every policy in force.
    pub fn policies(&self) -> Called<PolicyList> {
        self.call("GET", "/api/v1/policies", NOTHING)
    }

    /// Adds a `forbid` policy.
    pub fn add_policy(&self, id: &str, text: &str) -> Called<()> {
        let body = AddPolicyRequest { id: id.to_owned(), text: text.to_owned() };
        self.call("POST", "/api/v1/policies", Some(&body))
    }

    /// Removes an added policy.
    pub fn remove_policy(&self, id: &str) -> Called<()> {
        self.call("DELETE", &format!("/api/v1/policies/{}", part(id)), NOTHING)
    }

    /// Asks what the gate would say.
    pub fn try_policy(&self, body: &TryPolicyRequest) -> Called<PolicyAnswer> {
        self.call("POST", "/api/v1/policies/try", Some(body))
    }

    /// Searches the ledger.
    pub fn ledger(&self, filter: &LedgerFilter) -> Called<LedgerPage> {
        let query = query(&[
            ("user", filter.user.clone()),
            ("action", filter.action.clone()),
            ("resource", filter.resource.clone()),
            ("decision", filter.decision.clone()),
            ("since", filter.since.map(|n| n.to_string())),
            ("until", filter.until.map(|n| n.to_string())),
            ("after", filter.after.clone()),
            ("limit", filter.limit.map(|n| n.to_string())),
        ]);
        self.call("GET", &format!("/api/v1/ledger{query}"), NOTHING)
    }

    /// Checks the ledger.
    pub fn verify_ledger(&self) -> Called<LedgerReport> {
        self.call("POST", "/api/v1/ledger/verify", NOTHING)
    }

    /// What a verifier elsewhere trusts.
    pub fn ledger_trust(&self) -> Called<LedgerTrust> {
        self.call("GET", "/api/v1/ledger/trust", NOTHING)
    }

    /// Every line of the ledger's files.
    pub fn export_ledger(&self) -> Called<impl Read + use<>> {
        self.stream("GET", "/api/v1/ledger/export")
    }

    /// A ticket for a socket.
    pub fn ticket(&self) -> Called<Ticket> {
        self.call("POST", "/api/v1/events/ticket", NOTHING)
    }

    /// Live events as a stream of server-sent events.
    pub fn events(&self, after: Option<i64>) -> Called<impl Read + use<>> {
        let query = query(&[("after", after.map(|n| n.to_string()))]);
        self.stream("GET", &format!("/api/v1/events{query}"))
    }

    /// A sealed copy of everything.
    pub fn backup(&self) -> Called<impl Read + use<>> {
        self.stream("POST", "/api/v1/backup")
    }
}
