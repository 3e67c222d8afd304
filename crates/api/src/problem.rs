//! Errors on the wire: RFC 9457 problem details with a code and a request id.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What kind of problem, as a word that programs can rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// 401: no credential, or not a good one.
    AuthRequired,
    /// 401: sign-in failed.
    AuthFailed,
    /// 401: the password was right; a one-time password is needed too.
    TotpRequired,
    /// 403: known, but not allowed.
    Forbidden,
    /// 403: the credential is too narrow.
    InsufficientScope,
    /// 404: not there, or not for you to know.
    NotFound,
    /// 400, 405, 406, 415, 421, 431: the request itself is not right.
    BadRequest,
    /// 422: well formed, but a value is not.
    Unprocessable,
    /// 409: it does not fit what is there.
    Conflict,
    /// 410: the cursor is older than what is kept.
    Gone,
    /// 413: too large.
    PayloadTooLarge,
    /// 429: too many.
    RateLimited,
    /// 500: our fault.
    Internal,
    /// 503: not now; nothing was done.
    Unavailable,
    /// A code of a newer server.
    #[serde(other)]
    Unknown,
}

/// An error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// Names the kind of problem; `about:blank` means the status says it all.
    #[serde(rename = "type")]
    pub kind: String,
    /// The status in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// The word for programs.
    pub code: Code,
    /// What to do about it.
    pub detail: String,
    /// Names this request in logs and the ledger.
    pub request_id: String,
    /// The policies that decided, where the caller may know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<String>,
}
