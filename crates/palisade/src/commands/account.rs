//! Signing in and out, and the own account.

use api::{
    BootstrapRequest, ChangePasswordRequest, Code, ConfirmTotpRequest, Hidden, LoginRequest,
    RemoveTotpRequest,
};

use crate::cli::{Account, NewPerson};
use crate::credentials::Credentials;
use crate::failure::Failure;
use crate::output::Shown;
use crate::session::{Session, asked, new_password, secret};

/// Makes the first owner and signs in as them.
pub(super) fn init(session: &Session, code: String, who: NewPerson) -> Result<Shown, Failure> {
    let email = asked(who.email, "E-mail", "use --email")?;
    let name = asked(who.name, "Name", "use --name")?;
    let password = new_password(who.password_stdin)?;
    let client = session.anonymous()?;
    let body = BootstrapRequest { secret: Hidden(code), email: email.clone(), name, password };
    let tokens = client.bootstrap(&body)?;
    session.file().write(&Credentials::of(client.base(), tokens))?;
    Ok(Shown::done(format!("{email} owns this installation and is signed in")))
}

/// Signs in.
pub(super) fn login(session: &Session, email: Option<String>, from_stdin: bool) -> Result<Shown, Failure> {
    let totp = session.totp.clone();
    let email = asked(email, "E-mail", "use --email")?;
    let password = secret("a password", from_stdin, "Password: ")?;
    let client = session.anonymous()?;
    let mut body = LoginRequest { email: email.clone(), password, totp: totp.map(Hidden) };
    let tokens = match client.login(&body) {
        Err(error) if error.code() == Some(Code::TotpRequired) && body.totp.is_none() => {
            body.totp = Some(Hidden(asked(None, "One-time password", "use --totp")?));
            client.login(&body)?
        }
        other => other?,
    };
    session.file().write(&Credentials::of(client.base(), tokens))?;
    Ok(Shown::done(format!("signed in as {email} at {}", client.base())))
}

/// Signs this device in with a code that another one shows.
pub(super) fn pair(session: &Session, code: &str) -> Result<Shown, Failure> {
    let client = session.anonymous()?;
    let made = client.pair(code)?;
    let text = format!("signed in at {} with the key `{}` ({})", client.base(), made.key.label, made.key.id);
    session.file().write(&Credentials::of_device(client.base(), made))?;
    Ok(Shown::done(text))
}

/// Signs out.
pub(super) fn logout(session: &Session, everywhere: bool) -> Result<Shown, Failure> {
    match session.client() {
        Ok(client) if everywhere => client.logout_everywhere()?,
        Ok(client) => match client.logout() {
            // A login that has ended already is signed out.
            Err(error) if error.status() == Some(401) => {}
            other => other?,
        },
        Err(Failure::SignedOut) => {}
        Err(other) => return Err(other),
    }
    session.file().remove()?;
    Ok(Shown::done(if everywhere { "signed out everywhere" } else { "signed out" }))
}

/// The own account.
pub(super) fn run(session: &Session, command: Account) -> Result<Shown, Failure> {
    let client = session.client()?;
    match command {
        Account::Password { password_stdin } => {
            let totp = session.totp.clone();
            let current = secret("the present password", password_stdin, "Present password: ")?;
            let new = new_password(password_stdin)?;
            let body = ChangePasswordRequest { current, new, totp: totp.map(Hidden) };
            client.change_password(&body)?;
            session.file().remove()?;
            Ok(Shown::done("the password is changed; sign in again"))
        }
        Account::TotpOn { handle: Some(handle), code: Some(code), password_stdin } => {
            let password = secret("a password", password_stdin, "Password: ")?;
            client.confirm_totp(&ConfirmTotpRequest {
                handle: Hidden(handle),
                code: Hidden(code),
                password,
            })?;
            Ok(Shown::done("one-time passwords are on"))
        }
        Account::TotpOn { .. } => {
            let offer = client.offer_totp()?;
            let text = format!(
                "Put this link into an authenticator app:\n  {}\nthen run:\n  palisade account totp-on --handle {} --code CODE\n",
                offer.link.0, offer.handle.0
            );
            Ok(Shown::new(&offer, text).revealing())
        }
        Account::TotpOff { code, password_stdin } => {
            let password = secret("a password", password_stdin, "Password: ")?;
            client.remove_totp(&RemoveTotpRequest { password, totp: Hidden(code) })?;
            Ok(Shown::done("one-time passwords are off"))
        }
    }
}
