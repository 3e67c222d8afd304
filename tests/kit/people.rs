//! People of an installation, each with a client of their own.

use api::{Client, CreateUserRequest, CreateWorktreeRequest, Hidden, LoginRequest, TokenResponse, Worktree};

use crate::{Host, PASSWORD};

/// Someone who is signed in.
#[derive(Clone, Debug)]
pub struct Person {
    /// Their id.
    pub id: String,
    /// Their address.
    pub email: String,
    /// Their client, with an access token.
    pub client: Client,
    /// The tokens of their login.
    pub tokens: TokenResponse,
}

impl Person {
    pub(crate) fn create(host: &Host, name: &str, role: &str) -> Self {
        let email = format!("{name}@example.org");
        let body = CreateUserRequest {
            email: email.clone(),
            name: name.to_owned(),
            role: role.to_owned(),
            password: Some(Hidden(PASSWORD.into())),
            bcrypt: None,
        };
        host.owner().client.create_user(&body).unwrap();
        let login = LoginRequest { email: email.clone(), password: Hidden(PASSWORD.into()), totp: None };
        let tokens = host.anonymous().login(&login).unwrap();
        Self::signed_in(host, &email, tokens)
    }

    pub(crate) fn signed_in(host: &Host, email: &str, tokens: TokenResponse) -> Self {
        let client = host.anonymous().with_token(&tokens.access_token.0);
        Self { id: tokens.user.clone(), email: email.to_owned(), client, tokens }
    }

    /// The same person at a host that was started again.
    #[must_use]
    pub fn at(self, host: &Host) -> Self {
        let client = host.anonymous().with_token(&self.tokens.access_token.0);
        Self { client, ..self }
    }

    /// Signs in once more.
    #[must_use]
    pub fn login(&self, host: &Host) -> Self {
        let login = LoginRequest { email: self.email.clone(), password: Hidden(PASSWORD.into()), totp: None };
        Self::signed_in(host, &self.email, host.anonymous().login(&login).unwrap())
    }

    /// A worktree of theirs with this tier.
    #[must_use]
    pub fn worktree(&self, repo: &str, name: &str, tier: &str) -> Worktree {
        let body = CreateWorktreeRequest {
            repo: repo.to_owned(),
            name: name.to_owned(),
            about: String::new(),
            tier: Some(tier.to_owned()),
            branch: None,
            base: None,
        };
        self.client.create_worktree(&body).unwrap()
    }
}
