//! Repositories.

use std::sync::Arc;

use access::{CreateRepo, DeleteRepo, FetchRepo, ListRepos, Principal, ReadRepo};
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

    /// Fetches a repository from where it comes from.
    pub async fn fetch_repo(self: &Arc<Self>, who: &Principal, repo: RepoId) -> Result<Repo, ActError> {
        let trees = Arc::clone(&self.trees);
        let effect = async move |store: Arc<store::Store>, permit: access::Permit<FetchRepo>| {
            let (permit, row) = store.repo_to_fetch(permit).await?;
            let fetched = trees.fetch(repo, &row.origin).await?;
            Ok((store.fetched_repo(permit, fetched.usual).await?, fetched.run))
        };
        // What the sandbox was is on the record of its run.
        let note = |(_, run): &(Repo, String)| Some(("run", run.clone()));
        self.perform_noting(who, FetchRepo { repo }, effect, note).await.map(|(row, _)| row)
    }

    /// Removes a repository.
    pub async fn delete_repo(self: &Arc<Self>, who: &Principal, repo: RepoId) -> Result<(), ActError> {
        let trees = Arc::clone(&self.trees);
        let effect = async move |store: Arc<store::Store>, permit| {
            store.delete_repo(permit).await?;
            // The record is gone; what could not be removed is told to whoever looks after the machine.
            if let Err(error) = trees.drop_repo(repo).await {
                tracing::error!(%error, %repo, "the files of a removed repository are still there");
            }
            Ok(())
        };
        self.perform(who, DeleteRepo { repo }, effect).await
    }
}
