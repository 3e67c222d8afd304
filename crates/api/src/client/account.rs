//! Health, signing in and out, the own account, and how the daemon is.

use super::{Called, Client, ClientError, NOTHING, WHOLE, query};
use crate::*;

/// Health and credentials.
impl Client {
    /// Whether the daemon can do its work.
    pub fn ready(&self) -> Called<Health> {
        let mut answer = self.send_within(Some(WHOLE), "GET", "/readyz", &[], &[])?;
        answer.body_mut().read_json().map_err(|error| ClientError::Unexpected(error.to_string()))
    }

    /// Whether the process answers.
    pub fn health(&self) -> Called<Health> {
        self.call("GET", "/healthz", NOTHING)
    }

    /// Whether the process answers, by the name that orchestrators use.
    pub fn live(&self) -> Called<Health> {
        self.call("GET", "/livez", NOTHING)
    }

    /// The page on which a new installation is set up.
    pub fn setup_page(&self, secret: &str) -> Called<String> {
        let query = query(&[("secret", Some(secret.to_owned()))]);
        self.text("GET", &format!("/setup{query}"))
    }

    /// Fills that page in: makes the first owner, as a browser does.
    pub fn fill_setup(&self, body: &BootstrapRequest) -> Called<String> {
        let pairs = [
            ("secret", &body.secret.0),
            ("email", &body.email),
            ("name", &body.name),
            ("password", &body.password.0),
        ];
        let pairs = pairs.map(|(name, value)| (name, Some(value.clone())));
        let form = query(&pairs).trim_start_matches('?').as_bytes().to_vec();
        let headers = [("content-type", "application/x-www-form-urlencoded")];
        let mut answer = Self::judged(self.send_within(Some(WHOLE), "POST", "/setup", &headers, &form)?)?;
        answer.body_mut().read_to_string().map_err(|error| ClientError::Unexpected(error.to_string()))
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

    /// Trades a pairing code for a key.
    pub fn pair(&self, code: &str) -> Called<NewApiKey> {
        let body = PairRequest { code: Hidden(code.to_owned()) };
        self.call("POST", "/api/v1/auth/pair", Some(&body))
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
        self.text("GET", "/metrics")
    }

    /// The API's description, as OpenAPI.
    pub fn openapi(&self) -> Called<serde_json::Value> {
        self.call("GET", "/api/v1/openapi.json", NOTHING)
    }

    fn text(&self, method: &str, path: &str) -> Called<String> {
        let mut answer = self.checked(Some(WHOLE), method, path, NOTHING)?;
        answer.body_mut().read_to_string().map_err(|error| ClientError::Unexpected(error.to_string()))
    }
}
