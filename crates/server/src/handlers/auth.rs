//! Signing in and out, passwords, one-time passwords.

use api::{
    BootstrapRequest, ChangePasswordRequest, ConfirmTotpRequest, Hidden, LoginRequest, RefreshRequest,
    RemoveTotpRequest, TokenResponse, TotpOffer,
};
use axum::extract::State;
use axum::http::StatusCode;
use model::{DisplayName, Email};
use runtime::Proof;
use vault::Secret;

use super::{Answer, Made};
use crate::app::App;
use crate::extract::{Caller, From, Json, refused};
use crate::problem::Problem;

fn tokens(made: &access::Tokens) -> TokenResponse {
    TokenResponse {
        user: made.user.to_string(),
        access_token: Hidden(made.access.expose().clone()),
        access_expires: made.access_expires,
        refresh_token: Hidden(made.refresh.expose().clone()),
        refresh_expires: made.refresh_expires,
    }
}

/// Makes the first owner of a new installation, with the secret that the daemon printed.
#[utoipa::path(post, path = "/api/v1/auth/bootstrap", tag = "auth", security(()), request_body = BootstrapRequest,
    responses((status = 201, body = TokenResponse)))]
pub(crate) async fn bootstrap(
    State(app): State<App>,
    From(peer): From,
    Json(body): Json<BootstrapRequest>,
) -> Made<TokenResponse> {
    if [&body.email, &body.name].into_iter().any(|text| crate::logs::holds_secret(text)) {
        return Err(Problem::unprocessable("`email` or `name` holds what looks like a secret"));
    }
    let email: Email =
        body.email.parse().map_err(|error| Problem::unprocessable(format!("`email`: {error}")))?;
    let name: DisplayName =
        body.name.parse().map_err(|error| Problem::unprocessable(format!("`name`: {error}")))?;
    let made = app
        .runtime
        .auth()
        .bootstrap(&body.secret.0, email, name, Secret::new(body.password.into_text()), &peer)
        .await?;
    Ok((StatusCode::CREATED, axum::Json(tokens(&made))))
}

/// Signs in with address and password.
#[utoipa::path(post, path = "/api/v1/auth/login", tag = "auth", security(()), request_body = LoginRequest,
    responses((status = 200, body = TokenResponse)))]
pub(crate) async fn login(
    State(app): State<App>,
    From(peer): From,
    Json(body): Json<LoginRequest>,
) -> Answer<TokenResponse> {
    let totp = body.totp.as_ref().map(|code| code.0.as_str());
    let made =
        app.runtime.auth().login(&body.email, Secret::new(body.password.into_text()), totp, &peer).await?;
    Ok(axum::Json(tokens(&made)))
}

/// Trades a refresh token for new tokens; it is used up.
#[utoipa::path(post, path = "/api/v1/auth/refresh", tag = "auth", security(()), request_body = RefreshRequest,
    responses((status = 200, body = TokenResponse)))]
pub(crate) async fn refresh(
    State(app): State<App>,
    From(peer): From,
    Json(body): Json<RefreshRequest>,
) -> Answer<TokenResponse> {
    let made = app.runtime.auth().refresh(&body.refresh_token.0, &peer).await?;
    Ok(axum::Json(tokens(&made)))
}

/// Signs out: ends the login, or revokes the key, of this call.
#[utoipa::path(post, path = "/api/v1/auth/logout", tag = "auth", responses((status = 204)))]
pub(crate) async fn logout(State(app): State<App>, Caller(who): Caller) -> Result<StatusCode, Problem> {
    app.runtime.sign_out(&who).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Signs the caller out everywhere.
#[utoipa::path(post, path = "/api/v1/auth/logout-everywhere", tag = "auth", responses((status = 204)))]
pub(crate) async fn logout_everywhere(
    State(app): State<App>,
    Caller(who): Caller,
) -> Result<StatusCode, Problem> {
    app.runtime.sign_out_everywhere(&who, who.user()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Changes the caller's password; every login ends.
#[utoipa::path(post, path = "/api/v1/auth/password", tag = "auth", request_body = ChangePasswordRequest, responses((status = 204)))]
pub(crate) async fn change_password(
    State(app): State<App>,
    Caller(who): Caller,
    From(peer): From,
    Json(body): Json<ChangePasswordRequest>,
) -> Result<StatusCode, Problem> {
    let totp = body.totp.as_ref().map(|code| code.0.as_str());
    let proof = Proof { password: Secret::new(body.current.into_text()), totp, peer: &peer };
    app.runtime.change_password(&who, proof, Secret::new(body.new.into_text())).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Offers a seed for one-time passwords; nothing changes until a code confirms it.
#[utoipa::path(post, path = "/api/v1/auth/totp", tag = "auth", responses((status = 200, body = TotpOffer)))]
pub(crate) async fn offer_totp(State(app): State<App>, Caller(who): Caller) -> Answer<TotpOffer> {
    let (link, sealed) = app.runtime.offer_totp(&who).await?;
    Ok(axum::Json(TotpOffer { link: Hidden(link.expose().clone()), handle: Hidden(hex::encode(sealed)) }))
}

/// Turns one-time passwords on.
#[utoipa::path(post, path = "/api/v1/auth/totp/confirm", tag = "auth", request_body = ConfirmTotpRequest, responses((status = 204)))]
pub(crate) async fn confirm_totp(
    State(app): State<App>,
    Caller(who): Caller,
    From(peer): From,
    Json(body): Json<ConfirmTotpRequest>,
) -> Result<StatusCode, Problem> {
    let Ok(sealed) = hex::decode(&body.handle.0) else {
        return Err(refused(&app, &who, "totp.change", "`handle` is not one that was offered".into()).await);
    };
    // Where one is on already, the code of the new seed is not one of it: turn it off first.
    let proof =
        Proof { password: Secret::new(body.password.into_text()), totp: Some(&body.code.0), peer: &peer };
    app.runtime.confirm_totp(&who, proof, sealed, &body.code.0).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Turns one-time passwords off.
#[utoipa::path(post, path = "/api/v1/auth/totp/remove", tag = "auth", request_body = RemoveTotpRequest, responses((status = 204)))]
pub(crate) async fn remove_totp(
    State(app): State<App>,
    Caller(who): Caller,
    From(peer): From,
    Json(body): Json<RemoveTotpRequest>,
) -> Result<StatusCode, Problem> {
    let proof =
        Proof { password: Secret::new(body.password.into_text()), totp: Some(&body.totp.0), peer: &peer };
    app.runtime.remove_totp(&who, proof).await?;
    Ok(StatusCode::NO_CONTENT)
}
