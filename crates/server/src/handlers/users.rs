//! Users.

use access::UpdateUser;
use api::{CreateUserRequest, ResetPasswordRequest, UpdateUserRequest, User, UserPage};
use axum::extract::State;
use axum::http::StatusCode;
use model::{DisplayName, Email, Role, UserId};
use runtime::PasswordSource;
use utoipa::IntoParams;
use vault::Secret;

use super::{Answer, Made, cursor, limit};
use crate::app::App;
use crate::extract::{Caller, Id, Json, Query, field, kept, refused};
use crate::problem::Problem;

pub(crate) fn user(row: runtime::User) -> User {
    User {
        id: row.id.to_string(),
        email: row.email.to_string(),
        name: row.name.to_string(),
        role: row.role.to_string(),
        enabled: row.enabled,
        totp: row.totp,
        created_at: row.created_at,
    }
}

/// Which users.
#[derive(Debug, serde::Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct UserQuery {
    /// The `next` of the page before.
    #[param(pattern = r#"^usr_[0-9a-f]{32}$"#)]
    after: Option<String>,
    /// How many, 50 unless told.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<i64>,
    /// Only ids that begin so.
    #[param(max_length = 36, pattern = "^[a-z0-9_]*$")]
    prefix: Option<String>,
}

/// Lists users.
#[utoipa::path(get, path = "/api/v1/users", tag = "users", params(UserQuery), responses((status = 200, body = UserPage)))]
pub(crate) async fn list(
    State(app): State<App>,
    Caller(who): Caller,
    Query(query): Query<UserQuery>,
) -> Answer<UserPage> {
    let most = limit(query.limit, 100)?;
    let prefix = query.prefix.unwrap_or_default();
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    if prefix.len() > 36 || !prefix.bytes().all(fits) {
        return Err(Problem::unprocessable("`prefix`: the beginning of an id"));
    }
    let page = app.runtime.users(&who, &prefix, cursor(query.after)?, most).await?;
    Ok(axum::Json(UserPage {
        items: page.items.into_iter().map(user).collect(),
        next: page.next.map(|id| id.to_string()),
    }))
}

/// Creates a user.
#[utoipa::path(post, path = "/api/v1/users", tag = "users", request_body = CreateUserRequest, responses((status = 201, body = User)))]
pub(crate) async fn create(
    State(app): State<App>,
    Caller(who): Caller,
    Json(body): Json<CreateUserRequest>,
) -> Made<User> {
    const ACTION: &str = "user.create";
    let email: Email = kept(&app, &who, ACTION, "email", &body.email).await?;
    let name: DisplayName = kept(&app, &who, ACTION, "name", &body.name).await?;
    let role: Role = field(&app, &who, ACTION, "role", &body.role).await?;
    let source = match (body.password, body.bcrypt) {
        (Some(password), None) => PasswordSource::Plain(Secret::new(password.into_text())),
        (None, Some(hash)) => PasswordSource::Bcrypt(hash.into_text()),
        _ => return Err(refused(&app, &who, ACTION, "send either `password` or `bcrypt`".into()).await),
    };
    let made = app.runtime.create_user(&who, email, name, role, source).await?;
    Ok((StatusCode::CREATED, axum::Json(user(made))))
}

/// One user.
#[utoipa::path(get, path = "/api/v1/users/{user}", tag = "users", params(("user" = String, Path, pattern = "^usr_[0-9a-f]{32}$")), responses((status = 200, body = User)))]
pub(crate) async fn read(State(app): State<App>, Caller(who): Caller, Id(id): Id<UserId>) -> Answer<User> {
    Ok(axum::Json(user(app.runtime.user(&who, id).await?)))
}

/// Changes a user's name or role, or enables them.
#[utoipa::path(patch, path = "/api/v1/users/{user}", tag = "users", params(("user" = String, Path, pattern = "^usr_[0-9a-f]{32}$")),
    request_body = UpdateUserRequest, responses((status = 200, body = User)))]
pub(crate) async fn update(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<UserId>,
    Json(body): Json<UpdateUserRequest>,
) -> Answer<User> {
    const ACTION: &str = "user.update";
    let name: Option<DisplayName> = match &body.name {
        Some(text) => Some(kept(&app, &who, ACTION, "name", text).await?),
        None => None,
    };
    let role: Option<Role> = match &body.role {
        Some(text) => Some(field(&app, &who, ACTION, "role", text).await?),
        None => None,
    };
    if body.enabled == Some(false) {
        return Err(refused(
            &app,
            &who,
            ACTION,
            "to disable a user, use `POST /api/v1/users/{user}/disable`".into(),
        )
        .await);
    }
    let act = UpdateUser { user: id, name, role, enable: body.enabled == Some(true) };
    Ok(axum::Json(user(app.runtime.update_user(&who, act).await?)))
}

/// Deletes a user.
#[utoipa::path(delete, path = "/api/v1/users/{user}", tag = "users", params(("user" = String, Path, pattern = "^usr_[0-9a-f]{32}$")), responses((status = 204)))]
pub(crate) async fn delete(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<UserId>,
) -> Result<StatusCode, Problem> {
    app.runtime.delete_user(&who, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Disables a user; everything they have open ends.
#[utoipa::path(post, path = "/api/v1/users/{user}/disable", tag = "users", params(("user" = String, Path, pattern = "^usr_[0-9a-f]{32}$")), responses((status = 204)))]
pub(crate) async fn disable(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<UserId>,
) -> Result<StatusCode, Problem> {
    app.runtime.disable_user(&who, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Sets another user's password; their logins end.
#[utoipa::path(post, path = "/api/v1/users/{user}/password", tag = "users", params(("user" = String, Path, pattern = "^usr_[0-9a-f]{32}$")),
    request_body = ResetPasswordRequest, responses((status = 204)))]
pub(crate) async fn reset_password(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<UserId>,
    Json(body): Json<ResetPasswordRequest>,
) -> Result<StatusCode, Problem> {
    app.runtime.reset_password(&who, id, Secret::new(body.password.into_text())).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Signs a user out everywhere.
#[utoipa::path(post, path = "/api/v1/users/{user}/sign-out", tag = "users", params(("user" = String, Path, pattern = "^usr_[0-9a-f]{32}$")), responses((status = 204)))]
pub(crate) async fn sign_out(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<UserId>,
) -> Result<StatusCode, Problem> {
    app.runtime.sign_out_everywhere(&who, id).await?;
    Ok(StatusCode::NO_CONTENT)
}
