//! Repositories.

use api::CreateRepoRequest;

use super::resolve;
use crate::cli;
use crate::failure::Failure;
use crate::output::{self, Shown, moment, table};
use crate::session::Session;

pub(super) fn run(session: &Session, command: cli::Repo) -> Result<Shown, Failure> {
    let client = session.client()?;
    match command {
        cli::Repo::List => {
            let all = resolve::repos(&client)?;
            let rows: Vec<_> = all
                .iter()
                .map(|repo| vec![repo.id.clone(), repo.name.clone(), repo.origin.clone()])
                .collect();
            Ok(Shown::new(&all, table(&["ID", "NAME", "ORIGIN"], &rows)))
        }
        cli::Repo::Add { name, origin, secret, login, no_fetch } => {
            let made = client.create_repo(&CreateRepoRequest { name, origin, asks_for: secret, login })?;
            if no_fetch {
                return Ok(show(&made));
            }
            output::tell(&format!("fetching {}", made.origin));
            match client.fetch_repo(&made.id) {
                Ok(fetched) => Ok(show(&fetched)),
                Err(error) => {
                    output::tell(&format!(
                        "{} is registered and empty; `palisade repo fetch {}` tries again",
                        made.name, made.name
                    ));
                    Err(error.into())
                }
            }
        }
        cli::Repo::Fetch { repo } => {
            let id = resolve::repo(&client, &repo)?;
            output::tell(&format!("fetching {repo}"));
            Ok(show(&client.fetch_repo(&id)?))
        }
        cli::Repo::Show { repo } => Ok(show(&client.repo(&resolve::repo(&client, &repo)?)?)),
        cli::Repo::Delete { repo } => {
            client.delete_repo(&resolve::repo(&client, &repo)?)?;
            Ok(Shown::done(format!("{repo} is removed")))
        }
    }
}

fn show(repo: &api::Repo) -> Shown {
    let mut text = format!(
        "{}\nid       {}\norigin   {}\nsince    {}\n",
        repo.name,
        repo.id,
        repo.origin,
        moment(repo.created_at)
    );
    match repo.fetched_at {
        Some(at) => text.push_str(&format!("fetched  {}\n", moment(at))),
        None => text.push_str("fetched  never\n"),
    }
    if let Some(branch) = &repo.default_branch {
        text.push_str(&format!("branch   {branch}\n"));
    }
    if let Some(secret) = &repo.asks_for {
        text.push_str(&format!("asks for {secret}\n"));
    }
    Shown::new(repo, text)
}
