//! Repositories.

use std::sync::Arc;

use access::{CreateRepo, DeleteRepo, ListRepos, Principal, ReadRepo};
use model::{RepoId, RepoName};
use store::Repo;

use crate::{ActError, Page, Runtime};

impl Runtime {
    /// One repository.
    pub async fn repo(&self, who: &Principal, repo: RepoId) -> Result<Repo, ActError> {
        let permit = self.look(who, ReadRepo { repo }).await?;
        Ok(self.store.read_repo(permit).await?)
    }

    /// All repositories.
    pub async fn repos(
        &self,
        who: &Principal,
        after: Option<RepoId>,
        limit: i64,
    ) -> Result<Page<Repo, RepoId>, ActError> {
        let as_of = self.gate.epoch().now();
        let after = after.filter(|id| self.gate.may_read_repo(who, *id, as_of));
        Page::filled(
            limit,
            after,
            |row: &Repo| row.id,
            |after, take| async move {
                let permit = self.look(who, ListRepos {}).await?;
                Ok(self.store.list_repos(permit, after, take).await?)
            },
            |row, as_of| self.gate.may_read_repo(who, row.id, as_of),
            self.gate.epoch(),
        )
        .await
    }

    /// Registers a repository.
    pub async fn create_repo(
        self: &Arc<Self>,
        who: &Principal,
        name: RepoName,
        origin: String,
    ) -> Result<Repo, ActError> {
        let act = CreateRepo { repo: RepoId::random(), name, origin };
        self.perform(who, act, async |store: Arc<store::Store>, permit| store.create_repo(permit).await).await
    }

    /// Removes a repository.
    pub async fn delete_repo(self: &Arc<Self>, who: &Principal, repo: RepoId) -> Result<(), ActError> {
        let act = DeleteRepo { repo };
        self.perform(who, act, async |store: Arc<store::Store>, permit| store.delete_repo(permit).await).await
    }
}
