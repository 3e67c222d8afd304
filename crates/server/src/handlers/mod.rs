//! One file per resource: parse, call the runtime, answer.

pub(crate) mod approvals;
pub(crate) mod artifacts;
pub(crate) mod auth;
pub(crate) mod backup;
pub(crate) mod budgets;
pub(crate) mod events;
pub(crate) mod health;
pub(crate) mod imports;
pub(crate) mod keys;
pub(crate) mod leaving;
pub(crate) mod ledger;
pub(crate) mod lending;
pub(crate) mod lineage;
pub(crate) mod passes;
pub(crate) mod policies;
pub(crate) mod repos;
pub(crate) mod secrets;
pub(crate) mod sessions;
pub(crate) mod setup;
pub(crate) mod socket;
pub(crate) mod status;
pub(crate) mod steps;
pub(crate) mod users;
pub(crate) mod worktrees;

use axum::Json;
use axum::http::StatusCode;
use utoipa::IntoParams;

use crate::problem::Problem;

/// What most handlers give.
pub(crate) type Answer<T> = Result<Json<T>, Problem>;
/// What handlers give that made something.
pub(crate) type Made<T> = Result<(StatusCode, Json<T>), Problem>;

macro_rules! paging {
    ($($name:ident $shape:literal)+) => {$(
        /// Which page of a list.
        #[derive(Debug, serde::Deserialize, IntoParams)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct $name {
            /// The `next` of the page before.
            #[param(pattern = $shape)]
            after: Option<String>,
            /// How many, 50 unless told.
            #[param(minimum = 1, maximum = 100)]
            limit: Option<i64>,
        }
    )+};
}

paging! {
    KeyPaging "^key_[0-9a-f]{32}$"
    PassPaging "^pas_[0-9a-f]{32}$"
    RepoPaging "^rep_[0-9a-f]{32}$"
}

/// How many rows, within bounds.
pub(crate) fn limit(asked: Option<i64>, most: i64) -> Result<i64, Problem> {
    match asked {
        None => Ok(50),
        Some(n) if (1..=most).contains(&n) => Ok(n),
        Some(_) => Err(Problem::unprocessable(format!("`limit` is 1 to {most}"))),
    }
}

/// A cursor that we gave.
pub(crate) fn cursor<T: std::str::FromStr>(text: Option<String>) -> Result<Option<T>, Problem> {
    text.map(|text| text.parse().map_err(|_| Problem::unprocessable("`after` is not a cursor of this list")))
        .transpose()
}
