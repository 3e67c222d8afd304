//! Repositories and worktrees.

use std::time::Duration;

use super::{Called, Client, ClientError, NOTHING, part, query};
use crate::*;

/// The daemon gives a fetch up before.
const FETCH: Duration = Duration::from_hours(2);

/// The daemon gives up before what has to do with files and branches.
const SLOW: Duration = Duration::from_mins(20);
/// An answer with a bundle in it.
const MOST_MERGED: u64 = 64 << 20;

/// Which worktrees to list.
#[derive(Clone, Debug, Default)]
pub struct WorktreeFilter {
    /// Of this repository only.
    pub repo: Option<String>,
    /// Whose name contains this.
    pub name: Option<String>,
    /// Also those that are archived.
    pub archived: bool,
    /// The `next` of the page before.
    pub after: Option<String>,
    /// How many.
    pub limit: Option<u32>,
}

/// Repositories and worktrees.
impl Client {
    /// Lists repositories.
    pub fn repos(&self, after: Option<&str>) -> Called<RepoPage> {
        let query = query(&[("after", after.map(str::to_owned))]);
        self.call("GET", &format!("/api/v1/repos{query}"), NOTHING)
    }

    /// Registers a repository.
    pub fn create_repo(&self, body: &CreateRepoRequest) -> Called<Repo> {
        self.call("POST", "/api/v1/repos", Some(body))
    }

    /// One repository.
    pub fn repo(&self, id: &str) -> Called<Repo> {
        self.call("GET", &format!("/api/v1/repos/{}", part(id)), NOTHING)
    }

    /// Fetches a repository from where it comes from; waits as long as that takes.
    pub fn fetch_repo(&self, id: &str) -> Called<Repo> {
        self.call_within(FETCH, "POST", &format!("/api/v1/repos/{}/fetch", part(id)), NOTHING)
    }

    /// Removes a repository.
    pub fn delete_repo(&self, id: &str) -> Called<()> {
        self.call("DELETE", &format!("/api/v1/repos/{}", part(id)), NOTHING)
    }

    /// Lists worktrees.
    pub fn worktrees(&self, filter: &WorktreeFilter) -> Called<WorktreePage> {
        let query = query(&[
            ("repo", filter.repo.clone()),
            ("name", filter.name.clone()),
            ("archived", filter.archived.then(|| "true".to_owned())),
            ("after", filter.after.clone()),
            ("limit", filter.limit.map(|n| n.to_string())),
        ]);
        self.call("GET", &format!("/api/v1/worktrees{query}"), NOTHING)
    }

    /// Creates a worktree.
    pub fn create_worktree(&self, body: &CreateWorktreeRequest) -> Called<Worktree> {
        self.call("POST", "/api/v1/worktrees", Some(body))
    }

    /// One worktree.
    pub fn worktree(&self, id: &str) -> Called<Worktree> {
        self.call("GET", &format!("/api/v1/worktrees/{}", part(id)), NOTHING)
    }

    /// What was committed in it, the newest first.
    pub fn worktree_log(&self, id: &str, limit: Option<u32>) -> Called<WorktreeLog> {
        let query = query(&[("limit", limit.map(|n| n.to_string()))]);
        self.call("GET", &format!("/api/v1/worktrees/{}/log{query}", part(id)), NOTHING)
    }

    /// What was committed in it, as a patch.
    pub fn worktree_diff(&self, id: &str) -> Called<WorktreeDiff> {
        self.call("GET", &format!("/api/v1/worktrees/{}/diff", part(id)), NOTHING)
    }

    /// What is at a path of its tree.
    pub fn worktree_files(&self, id: &str, path: &str) -> Called<WorktreeFiles> {
        let query = query(&[("path", Some(path.to_owned()))]);
        self.call("GET", &format!("/api/v1/worktrees/{}/files{query}", part(id)), NOTHING)
    }

    /// Changes what it says of itself.
    pub fn update_worktree(&self, id: &str, about: &str) -> Called<Worktree> {
        let about = Some(about.to_owned());
        self.change_worktree(id, &UpdateWorktreeRequest { about, ..UpdateWorktreeRequest::default() })
    }

    /// Changes what it says of itself; what is not given stays.
    pub fn change_worktree(&self, id: &str, body: &UpdateWorktreeRequest) -> Called<Worktree> {
        self.call("PATCH", &format!("/api/v1/worktrees/{}", part(id)), Some(body))
    }

    /// Deletes a worktree, with its files.
    pub fn delete_worktree(&self, id: &str) -> Called<()> {
        self.delete_worktree_and(id, None)
    }

    /// Deletes a worktree; its files are `kept`, `cleaned` or `removed`.
    pub fn delete_worktree_and(&self, id: &str, files: Option<&str>) -> Called<()> {
        let query = query(&[("files", files.map(str::to_owned))]);
        self.call_within(SLOW, "DELETE", &format!("/api/v1/worktrees/{}{query}", part(id)), NOTHING)
    }

    /// Changes what non-owners may do.
    pub fn set_tier(&self, id: &str, tier: &str) -> Called<Worktree> {
        let body = SetTierRequest { tier: tier.to_owned() };
        self.call("PUT", &format!("/api/v1/worktrees/{}/tier", part(id)), Some(&body))
    }

    /// Lets people prompt each other's sessions, or ends that.
    pub fn set_sharing(&self, id: &str, shares: bool) -> Called<Worktree> {
        let body = SetSharingRequest { shares };
        self.call("PUT", &format!("/api/v1/worktrees/{}/sharing", part(id)), Some(&body))
    }

    /// Adds an owner.
    pub fn add_owner(&self, id: &str, user: &str) -> Called<Worktree> {
        self.call("PUT", &format!("/api/v1/worktrees/{}/owners/{}", part(id), part(user)), NOTHING)
    }

    /// Removes an owner.
    pub fn remove_owner(&self, id: &str, user: &str) -> Called<Worktree> {
        self.call("DELETE", &format!("/api/v1/worktrees/{}/owners/{}", part(id), part(user)), NOTHING)
    }

    /// Archives a worktree; its files stay.
    pub fn archive_worktree(&self, id: &str) -> Called<Worktree> {
        self.archive_worktree_and(id, None)
    }

    /// Archives a worktree; its files are `kept`, `cleaned` or `removed`.
    pub fn archive_worktree_and(&self, id: &str, files: Option<&str>) -> Called<Worktree> {
        let query = query(&[("files", files.map(str::to_owned))]);
        self.call_within(SLOW, "POST", &format!("/api/v1/worktrees/{}/archive{query}", part(id)), NOTHING)
    }

    /// Brings an archived worktree back.
    pub fn restore_worktree(&self, id: &str) -> Called<Worktree> {
        self.call_within(SLOW, "POST", &format!("/api/v1/worktrees/{}/restore", part(id)), NOTHING)
    }

    /// Joins what was committed in a worktree into a branch.
    pub fn merge_worktree(&self, id: &str, body: &MergeRequest) -> Called<WorktreeMerge> {
        let path = format!("/api/v1/worktrees/{}/merge", part(id));
        let mut answer = self.checked(Some(SLOW), "POST", &path, Some(body))?;
        let odd = |error: String| ClientError::Unexpected(error);
        let text = answer.body_mut().with_config().limit(MOST_MERGED).read_to_vec();
        serde_json::from_slice(&text.map_err(|error| odd(error.to_string()))?)
            .map_err(|error| odd(error.to_string()))
    }

    /// Pushes what was committed in a worktree to where its repository comes from; waits as long as that takes.
    pub fn push_worktree(&self, id: &str, body: &PushRequest) -> Called<WorktreePush> {
        self.call_within(FETCH, "POST", &format!("/api/v1/worktrees/{}/push", part(id)), Some(body))
    }
}
