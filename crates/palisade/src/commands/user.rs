//! People.

use api::{Client, CreateUserRequest, UpdateUserRequest};

use super::resolve;
use crate::cli::{self, NewPerson, word};
use crate::failure::Failure;
use crate::output::{Shown, moment, table};
use crate::session::{Session, asked, new_password, secret};

pub(super) fn run(session: &Session, command: cli::User) -> Result<Shown, Failure> {
    let client = session.client()?;
    match command {
        cli::User::List => list(&client),
        cli::User::Show { user } => Ok(show(&client.user(&resolve::user(&client, &user)?)?)),
        cli::User::Add { who, role, bcrypt_stdin } => add(&client, who, role, bcrypt_stdin),
        cli::User::Update { user, name, role } => {
            let body = UpdateUserRequest { name, role: role.map(word), enabled: None };
            Ok(show(&client.update_user(&resolve::user(&client, &user)?, &body)?))
        }
        cli::User::Disable { user } => {
            client.disable_user(&resolve::user(&client, &user)?)?;
            Ok(Shown::done(format!("{user} is disabled")))
        }
        cli::User::Enable { user } => {
            let body = UpdateUserRequest { enabled: Some(true), ..UpdateUserRequest::default() };
            Ok(show(&client.update_user(&resolve::user(&client, &user)?, &body)?))
        }
        cli::User::Delete { user } => {
            client.delete_user(&resolve::user(&client, &user)?)?;
            Ok(Shown::done(format!("{user} is deleted")))
        }
        cli::User::ResetPassword { user, password_stdin } => {
            let id = resolve::user(&client, &user)?;
            client.reset_password(&id, &new_password(password_stdin)?.0)?;
            Ok(Shown::done(format!("the password of {user} is set; their logins are ended")))
        }
        cli::User::SignOut { user } => {
            client.sign_out_user(&resolve::user(&client, &user)?)?;
            Ok(Shown::done(format!("{user} is signed out everywhere")))
        }
    }
}

fn list(client: &Client) -> Result<Shown, Failure> {
    let all = resolve::users(client)?;
    let row = |user: &api::User| {
        let state = if user.enabled { "" } else { "disabled" };
        vec![user.id.clone(), user.email.clone(), user.name.clone(), user.role.clone(), state.to_owned()]
    };
    let rows: Vec<_> = all.iter().map(row).collect();
    Ok(Shown::new(&all, table(&["ID", "E-MAIL", "NAME", "ROLE", ""], &rows)))
}

fn show(user: &api::User) -> Shown {
    let text = format!(
        "{} <{}>\nid       {}\nrole     {}\nenabled  {}\ntotp     {}\nsince    {}\n",
        user.name,
        user.email,
        user.id,
        user.role,
        user.enabled,
        user.totp,
        moment(user.created_at)
    );
    Shown::new(user, text)
}

fn add(client: &Client, who: NewPerson, role: cli::Role, bcrypt: bool) -> Result<Shown, Failure> {
    let email = asked(who.email, "E-mail", "use --email")?;
    let name = asked(who.name, "Name", "use --name")?;
    let (password, bcrypt) = if bcrypt {
        (None, Some(secret("a bcrypt hash", true, "")?))
    } else {
        (Some(new_password(who.password_stdin)?), None)
    };
    let body = CreateUserRequest { email, name, role: word(role), password, bcrypt };
    Ok(show(&client.create_user(&body)?))
}
