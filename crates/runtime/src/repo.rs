//! Repositories.

use std::sync::Arc;
use std::time::Duration;

use access::{CreateRepo, DeleteRepo, FetchRepo, ListRepos, Principal, ReadRepo};
use model::{RepoId, RepoName, RequestId, SecretName, WorktreeId};
use store::{Repo, StoreError};
use vault::LeaseId;
use zeroize::Zeroizing;

use crate::trees::Credential;
use crate::{ActError, Page, Runtime, Wish};

/// What is lent to reach an origin lasts no longer than that may take.
const LONGEST: i64 = 2 * 60 * 60 * 1_000;
/// How often it is looked whether it is still lent.
const LOOK: Duration = Duration::from_secs(1);

/// A repository to register.
#[derive(Clone, Debug)]
pub struct NewRepo {
    /// Its name, unique.
    pub name: RepoName,
    /// Where it comes from.
    pub origin: String,
    /// The name of the secret that its origin asks for.
    pub secret: Option<SecretName>,
    /// Who that secret is for, as the origin knows them.
    pub login: Option<String>,
}

impl NewRepo {
    /// One whose origin asks for nothing.
    #[must_use]
    pub fn new(name: RepoName, origin: String) -> Self {
        Self { name, origin, secret: None, login: None }
    }
}

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
    pub async fn create_repo(self: &Arc<Self>, who: &Principal, new: NewRepo) -> Result<Repo, ActError> {
        let NewRepo { name, origin, secret, login } = new;
        let act = CreateRepo { repo: RepoId::random(), name, origin, secret, login };
        self.perform(who, act, async |store: Arc<store::Store>, permit| store.create_repo(permit).await).await
    }

    /// Fetches a repository from where it comes from.
    pub async fn fetch_repo(self: &Arc<Self>, who: &Principal, repo: RepoId) -> Result<Repo, ActError> {
        let (this, caller) = (Arc::clone(self), who.clone());
        let effect = async move |store: Arc<store::Store>, permit: access::Permit<FetchRepo>| {
            let (permit, row) = store.repo_to_fetch(permit).await?;
            let consumer = format!("fetch of {repo} {}", RequestId::random());
            let fetched = async |credential| this.trees.fetch(repo, &row.origin, credential).await;
            let fetched = this.with_credential(&caller, &row, None, &consumer, fetched).await?;
            Ok((store.fetched_repo(permit, fetched.usual).await?, fetched.run))
        };
        // What the sandbox was is on the record of its run.
        let note = |(_, run): &(Repo, String)| Some(("run", run.clone()));
        self.perform_noting(who, FetchRepo { repo }, effect, note).await.map(|(row, _)| row)
    }

    /// Does something with what the origin of a repository asks for, for as long as that is lent.
    pub(crate) async fn with_credential<T>(
        self: &Arc<Self>,
        who: &Principal,
        repo: &Repo,
        worktree: Option<WorktreeId>,
        consumer: &str,
        work: impl AsyncFnOnce(Option<Credential>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let done = match self.credential(who, repo, worktree, consumer).await {
            Ok(None) => work(None).await,
            Ok(Some((lease, credential))) => {
                let taken_back = async {
                    while self.with_lease(lease, consumer, |_| ()).is_ok() {
                        tokio::time::sleep(LOOK).await;
                    }
                };
                tokio::select! {
                    done = work(Some(credential)) => done,
                    () = taken_back => Err(StoreError::Unusable("the secret that it used was taken back".into())),
                }
            }
            Err(error) => Err(error),
        };
        self.end_leases_of(consumer);
        done
    }

    /// What the origin of a repository asks for, lent from the vault to whoever fetches or pushes.
    async fn credential(
        self: &Arc<Self>,
        who: &Principal,
        repo: &Repo,
        worktree: Option<WorktreeId>,
        consumer: &str,
    ) -> Result<Option<(LeaseId, Credential)>, StoreError> {
        let (Some(name), origin) = (&repo.secret, self.trees.origin(&repo.origin)?) else { return Ok(None) };
        let Some(host) = origin.host() else { return Ok(None) };
        let host = host.parse().map_err(|_| StoreError::Unusable("the origin names no host".into()))?;
        let wish = Wish { name: name.clone(), worktree, hosts: vec![host] };
        let lent = self.lease_secret(who, wish, consumer, LONGEST).await.map_err(|error| match error {
            ActError::Store(StoreError::Missing(_)) | ActError::Denied(_) => StoreError::Unusable(format!(
                "the origin asks for the secret `{name}`, and there is none for you; keep it with `palisade secret add {name}`"
            )),
            ActError::Store(other) => other,
            ActError::Interrupted => StoreError::Unusable("the secret could not be lent".into()),
        })?;
        let value = self.with_lease(lent.lease, consumer, |value| {
            std::str::from_utf8(value)
                .map(|text| Zeroizing::new(text.trim_end_matches(['\r', '\n']).to_owned()))
        });
        match value {
            Ok(Ok(value)) => Ok(Some((lent.lease, Credential::new(repo.login.as_deref(), value)))),
            _ => Err(StoreError::Unusable(format!(
                "the secret `{name}` is no text, so it cannot be used here"
            ))),
        }
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
