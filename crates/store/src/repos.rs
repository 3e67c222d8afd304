//! Repositories: where each comes from, and when it was last fetched.

use access::{CreateRepo, CreateWorktree, DeleteRepo, FetchRepo, ListRepos, Permit, ReadRepo};
use model::{Millis, RepoId, RepoName, SecretName, UserId};

use crate::engine::{EngineError, Row};
use crate::store::{odd, parsed, taken};
use crate::{Store, StoreError};

/// A repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repo {
    /// Which.
    pub id: RepoId,
    /// Its name.
    pub name: RepoName,
    /// Where it comes from.
    pub origin: String,
    /// Who registered it.
    pub created_by: UserId,
    /// When.
    pub created_at: Millis,
    /// The branch that is worked from unless another is named, once it was fetched.
    pub default_branch: Option<String>,
    /// When it was last fetched.
    pub fetched_at: Option<Millis>,
    /// The name of the secret that its origin asks for.
    pub secret: Option<SecretName>,
    /// Who that secret is for, as the origin knows them.
    pub login: Option<String>,
}

macro_rules! repo_columns {
    ($rest:literal) => {
        concat!(
            "SELECT id, name, origin, created_by, created_at, default_branch, fetched_at, secret, login FROM repos ",
            $rest
        )
    };
}

impl Store {
    /// One repository.
    pub async fn read_repo(&self, permit: Permit<ReadRepo>) -> Result<Repo, StoreError> {
        self.repo_row(permit.into_act().repo).await
    }

    pub(crate) async fn repo_row(&self, id: RepoId) -> Result<Repo, StoreError> {
        let row = self.engine.row(repo_columns!("WHERE id = $1"), &[id.to_string().into()]).await?;
        row.as_ref().map_or(Err(StoreError::Missing("repository")), |row| Ok(repo(row)?))
    }

    /// Where it is fetched from; the permit comes back for what follows.
    pub async fn repo_to_fetch(
        &self,
        permit: Permit<FetchRepo>,
    ) -> Result<(Permit<FetchRepo>, Repo), StoreError> {
        let row = self.repo_row(permit.act().repo).await?;
        Ok((permit, row))
    }

    /// The repository that a new worktree is to be of, if it is there; the permit comes back for what follows.
    pub async fn repo_of_new(
        &self,
        permit: Permit<CreateWorktree>,
    ) -> Result<(Permit<CreateWorktree>, Option<Repo>), StoreError> {
        match self.repo_row(permit.act().repo).await {
            Ok(row) => Ok((permit, Some(row))),
            Err(StoreError::Missing(_)) => Ok((permit, None)),
            Err(other) => Err(other),
        }
    }

    /// Writes down that it was fetched, and what is worked from there.
    pub async fn fetched_repo(
        &self,
        permit: Permit<FetchRepo>,
        default_branch: Option<String>,
    ) -> Result<Repo, StoreError> {
        let id = permit.into_act().repo;
        let mut tx = self.engine.write().await?;
        let sql = "UPDATE repos SET default_branch = $2, fetched_at = $3 WHERE id = $1";
        let args = [id.to_string().into(), default_branch.into(), self.clock.now().into()];
        if tx.exec(sql, &args).await? == 0 {
            return Err(StoreError::Missing("repository"));
        }
        tx.commit().await?;
        self.repo_row(id).await
    }

    /// Repositories after a cursor.
    pub async fn list_repos(
        &self,
        _permit: Permit<ListRepos>,
        after: Option<RepoId>,
        limit: i64,
    ) -> Result<Vec<Repo>, StoreError> {
        let sql = repo_columns!(
            "WHERE seq > COALESCE((SELECT seq FROM repos WHERE id = $1), 0) ORDER BY seq LIMIT $2"
        );
        let rows = self.engine.rows(sql, &[after.map(|id| id.to_string()).into(), limit.into()]).await?;
        Ok(rows.iter().map(repo).collect::<Result<_, _>>()?)
    }

    /// Registers a repository.
    pub async fn create_repo(&self, permit: Permit<CreateRepo>) -> Result<Repo, StoreError> {
        let created_by = permit.user();
        let act = permit.into_act();
        let created_at = self.clock.now();
        let mut tx = self.engine.write().await?;
        let seq = tx.next("repos").await?;
        let args = [
            act.repo.to_string().into(),
            seq.into(),
            act.name.as_str().into(),
            act.origin.as_str().into(),
            created_by.to_string().into(),
            created_at.into(),
            act.secret.as_ref().map(ToString::to_string).into(),
            act.login.clone().into(),
        ];
        let sql = "INSERT INTO repos (id, seq, name, origin, created_by, created_at, secret, login) \
                   VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
        tx.exec(sql, &args).await.map_err(taken("name"))?;
        tx.commit().await?;
        let (default_branch, fetched_at) = (None, None);
        let CreateRepo { repo: id, name, origin, secret, login } = act;
        Ok(Repo { id, name, origin, created_by, created_at, default_branch, fetched_at, secret, login })
    }

    /// Removes a repository that no worktree uses, nor ever used.
    pub async fn delete_repo(&self, permit: Permit<DeleteRepo>) -> Result<(), StoreError> {
        let mut tx = self.engine.write().await?;
        let deleted =
            tx.exec("DELETE FROM repos WHERE id = $1", &[permit.into_act().repo.to_string().into()]).await;
        match deleted {
            Ok(0) => Err(StoreError::Missing("repository")),
            Err(EngineError::Reference) => Err(StoreError::InUse("repository")),
            Ok(_) => Ok(tx.commit().await?),
            Err(other) => Err(other.into()),
        }
    }
}

fn repo(row: &Row) -> Result<Repo, EngineError> {
    Ok(Repo {
        id: parsed(row, 0)?,
        name: parsed(row, 1)?,
        origin: row.text(2)?.to_owned(),
        created_by: parsed(row, 3)?,
        created_at: row.int(4)?,
        default_branch: row.opt_text(5)?.map(str::to_owned),
        fetched_at: row.opt_int(6)?,
        secret: row.opt_text(7)?.map(str::parse).transpose().map_err(|_| odd(7))?,
        login: row.opt_text(8)?.map(str::to_owned),
    })
}
