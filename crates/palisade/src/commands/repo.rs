//! Repositories.

use api::CreateRepoRequest;

use super::resolve;
use crate::cli;
use crate::failure::Failure;
use crate::output::{Shown, moment, table};
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
        cli::Repo::Add { name, origin } => {
            Ok(show(&client.create_repo(&CreateRepoRequest { name, origin })?))
        }
        cli::Repo::Show { repo } => Ok(show(&client.repo(&resolve::repo(&client, &repo)?)?)),
        cli::Repo::Delete { repo } => {
            client.delete_repo(&resolve::repo(&client, &repo)?)?;
            Ok(Shown::done(format!("{repo} is removed")))
        }
    }
}

fn show(repo: &api::Repo) -> Shown {
    let text = format!(
        "{}\nid       {}\norigin   {}\nsince    {}\n",
        repo.name,
        repo.id,
        repo.origin,
        moment(repo.created_at)
    );
    Shown::new(repo, text)
}
