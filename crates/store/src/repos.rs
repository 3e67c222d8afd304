//! Repositories, as records; git itself comes with sessions.

use access::{CreateRepo, DeleteRepo, ListRepos, Permit, ReadRepo};
use model::{Millis, RepoId, RepoName, UserId};

use crate::engine::{EngineError, Row};
use crate::store::{parsed, taken};
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
}

impl Store {
    /// One repository.
    pub async fn read_repo(&self, permit: Permit<ReadRepo>) -> Result<Repo, StoreError> {
        let sql = "SELECT id, name, origin, created_by, created_at FROM repos WHERE id = $1";
        let row = self.engine.row(sql, &[permit.into_act().repo.to_string().into()]).await?;
        row.as_ref().map_or(Err(StoreError::Missing("repository")), |row| Ok(repo(row)?))
    }

    /// Repositories after a cursor.
    pub async fn list_repos(
        &self,
        _permit: Permit<ListRepos>,
        after: Option<RepoId>,
        limit: i64,
    ) -> Result<Vec<Repo>, StoreError> {
        let sql = "SELECT id, name, origin, created_by, created_at FROM repos \
                   WHERE seq > COALESCE((SELECT seq FROM repos WHERE id = $1), 0) ORDER BY seq LIMIT $2";
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
        ];
        let sql = "INSERT INTO repos (id, seq, name, origin, created_by, created_at) VALUES ($1, $2, $3, $4, $5, $6)";
        tx.exec(sql, &args).await.map_err(taken("name"))?;
        tx.commit().await?;
        Ok(Repo { id: act.repo, name: act.name, origin: act.origin, created_by, created_at })
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
    })
}
