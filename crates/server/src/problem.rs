//! Errors as the wire shows them. Only this crate knows HTTP status codes.

use access::pass::MintError;
use access::{AuthError, BadPassword, Denied, Reason};
use api::Code;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use model::RequestId;
use runtime::{
    AccountError, ActError, BackupError, EngineError, EventError, LedgerError, PolicyFault, StoreError,
};

tokio::task_local! {
    /// The request that is being answered.
    pub(crate) static REQUEST: RequestId;
}

/// An error on its way out.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    code: Code,
    detail: String,
    policies: Vec<String>,
    retry_after: Option<u64>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: Code, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into(), policies: Vec::new(), retry_after: None }
    }

    pub(crate) fn unauthenticated() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            Code::AuthRequired,
            "sign in, or send a bearer token in the Authorization header",
        )
    }

    pub(crate) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, Code::NotFound, "not found")
    }

    pub(crate) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, Code::BadRequest, detail)
    }

    pub(crate) fn unprocessable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, Code::Unprocessable, detail)
    }

    pub(crate) fn too_large(most: usize) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, Code::PayloadTooLarge, format!("at most {most} bytes"))
    }

    pub(crate) fn too_slow() -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, Code::BadRequest, "the body did not arrive in time")
    }

    pub(crate) fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, Code::Conflict, detail)
    }

    pub(crate) fn internal() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            Code::Internal,
            "something went wrong here; the request id is in the log",
        )
    }

    pub(crate) fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, Code::Unavailable, detail)
    }

    pub(crate) fn rate_limited(retry_after: u64) -> Self {
        let problem = Self::new(
            StatusCode::TOO_MANY_REQUESTS,
            Code::RateLimited,
            format!("too many; wait {retry_after} s"),
        );
        Self { retry_after: Some(retry_after), ..problem }
    }

    /// The same, with a word about when to come again.
    pub(crate) fn retry_after(self, seconds: u64) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    /// The same in other words.
    pub(crate) fn saying(self, detail: impl Into<String>) -> Self {
        Self { detail: detail.into(), ..self }
    }

    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let request_id = REQUEST.try_with(ToString::to_string).unwrap_or_default();
        let wire = api::Problem {
            kind: "about:blank".into(),
            title: self.status.canonical_reason().unwrap_or("Error").into(),
            status: self.status.as_u16(),
            code: self.code,
            detail: crate::logs::redactor().scrub(&self.detail).into_owned(),
            request_id,
            policies: self.policies.iter().map(|id| crate::logs::redactor().scrub(id).into_owned()).collect(),
        };
        let body = serde_json::to_vec(&wire).unwrap_or_default();
        let mut response = (self.status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

impl From<Denied> for Problem {
    fn from(denied: Denied) -> Self {
        match denied.reason() {
            Reason::Hidden => Self::not_found(),
            Reason::Ended => Self::unauthenticated(),
            Reason::Totp => Self::new(StatusCode::UNAUTHORIZED, Code::TotpRequired, denied.to_string()),
            Reason::Scope => Self::new(StatusCode::FORBIDDEN, Code::InsufficientScope, denied.to_string()),
            Reason::Unavailable => Self::unavailable(denied.to_string()),
            Reason::Forbidden => {
                let problem = Self::new(StatusCode::FORBIDDEN, Code::Forbidden, denied.to_string());
                Self { policies: denied.policies().to_vec(), ..problem }
            }
        }
    }
}

impl From<ActError> for Problem {
    fn from(error: ActError) -> Self {
        match error {
            ActError::Denied(denied) => denied.into(),
            ActError::Store(error) => error.into(),
            ActError::Interrupted => Self::internal(),
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Taken(_)
            | StoreError::Last(_)
            | StoreError::InUse(_)
            | StoreError::Full(..)
            | StoreError::Unusable(_)
            | StoreError::Expired { .. }
            | StoreError::Bound { .. }
            | StoreError::Archived(_) => Self::conflict(error.to_string()),
            StoreError::Missing(_) => Self::not_found(),
            StoreError::Dangling(_) => Self::unprocessable(error.to_string()),
            // A character that not every database can hold.
            StoreError::Engine(EngineError::Unfit { why, .. }) => {
                Self::unprocessable(format!("a value cannot be kept: {why}"))
            }
            // It may have happened: not an answer after which anybody tries again without looking.
            StoreError::Engine(error @ EngineError::Unknown(_)) => {
                tracing::error!(error = %error, source = ?std::error::Error::source(&error), "an outcome is unknown");
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, Code::Internal, error.to_string())
            }
            StoreError::Engine(error) => {
                tracing::error!(error = %error, source = ?std::error::Error::source(&error), "the store failed");
                Self::unavailable(error.to_string())
            }
        }
    }
}

impl From<AuthError> for Problem {
    fn from(error: AuthError) -> Self {
        match error {
            AuthError::Invalid => Self::new(
                StatusCode::UNAUTHORIZED,
                Code::AuthFailed,
                "not signed in: check address, password or token",
            ),
            AuthError::TotpNeeded => {
                Self::new(StatusCode::UNAUTHORIZED, Code::TotpRequired, error.to_string())
            }
            AuthError::Throttled { retry_ms } => {
                Self::rate_limited(u64::try_from(retry_ms / 1_000).unwrap_or(0) + 1)
            }
            AuthError::BadPassword => Self::unprocessable(error.to_string()),
            AuthError::Busy => Self::unavailable(error.to_string()),
        }
    }
}

impl From<BadPassword> for Problem {
    fn from(error: BadPassword) -> Self {
        match error {
            BadPassword::Length | BadPassword::NotBcrypt => Self::unprocessable(error.to_string()),
            BadPassword::Machine => Self::unavailable(error.to_string()),
        }
    }
}

impl From<AccountError> for Problem {
    fn from(error: AccountError) -> Self {
        match error {
            AccountError::Act(error) => error.into(),
            AccountError::Auth(error) => error.into(),
            AccountError::Password(error) => error.into(),
        }
    }
}

impl From<MintError> for Problem {
    fn from(error: MintError) -> Self {
        match error {
            MintError::LastDepth => Self::new(StatusCode::FORBIDDEN, Code::Forbidden, error.to_string()),
            MintError::AlreadyOver
            | MintError::TooLong
            | MintError::Parent(_)
            | MintError::WouldWiden
            | MintError::TooLarge => Self::unprocessable(error.to_string()),
        }
    }
}

impl From<PolicyFault> for Problem {
    fn from(error: PolicyFault) -> Self {
        match error {
            PolicyFault::Act(error) => error.into(),
            PolicyFault::Policy(error @ access::PolicyError::Taken(_)) => Self::conflict(error.to_string()),
            PolicyFault::Policy(error) => Self::unprocessable(error.to_string()),
            PolicyFault::Question(text) => Self::unprocessable(text),
        }
    }
}

impl From<LedgerError> for Problem {
    fn from(error: LedgerError) -> Self {
        match error {
            LedgerError::Act(error) => error.into(),
            LedgerError::Behind | LedgerError::Busy | LedgerError::Unrecorded => {
                Self::unavailable(error.to_string())
            }
            LedgerError::Bundle(error) => crate::export::no_bundle(&error),
        }
    }
}

impl From<EventError> for Problem {
    fn from(error: EventError) -> Self {
        match error {
            EventError::Act(error) => error.into(),
            EventError::TooOld(_) => Self::new(StatusCode::GONE, Code::Gone, error.to_string()),
            EventError::Ahead(_) => Self::unprocessable(error.to_string()),
        }
    }
}

impl From<BackupError> for Problem {
    fn from(error: BackupError) -> Self {
        match error {
            BackupError::Act(error) => error.into(),
            BackupError::Store(_) | BackupError::Io(_) | BackupError::Unreadable(_) => {
                tracing::error!(%error, "no backup was made");
                Self::unavailable(error.to_string())
            }
        }
    }
}
