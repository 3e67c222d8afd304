//! Worktrees: rows, lists cut to what a caller may know of, and what changes them.

use access::{
    AddOwner, CreateWorktree, ListWorktrees, Permit, ReadWorktree, RemoveOwner, SetSharing, SetTier,
    UpdateWorktree, WorktreeFacts,
};
use model::{EventKind, Link, Millis, RepoId, Role, Tier, TreeFiles, UserId, WorktreeId, WorktreeName};

use crate::credentials::owners;
use crate::engine::{EngineError, Row, Tx, Value};
use crate::store::{odd, parsed};
use crate::{Store, StoreError};

/// A worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worktree {
    /// Which.
    pub id: WorktreeId,
    /// Of which repository.
    pub repo: RepoId,
    /// Its name.
    pub name: WorktreeName,
    /// What it is for.
    pub about: String,
    /// What non-owners may do.
    pub tier: Tier,
    /// Who made it.
    pub created_by: UserId,
    /// When.
    pub created_at: Millis,
    /// When it was archived.
    pub archived_at: Option<Millis>,
    /// Who owns it.
    pub owners: Vec<UserId>,
    /// Its tree on the disk, if it has one.
    pub tree: Option<Tree>,
    /// The issue that it is about.
    pub issue: Option<String>,
    /// The pull request that came of it.
    pub pull_request: Option<String>,
    /// Who archived it.
    pub archived_by: Option<UserId>,
    /// What became of its files when it was archived.
    pub files: Option<TreeFiles>,
    /// Whether people may prompt each other's sessions in it.
    pub shares: bool,
}

/// What a tree on the disk was made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// The branch that is checked out.
    pub branch: String,
    /// The commit that it began at.
    pub base: String,
}

impl Worktree {
    /// What decisions need to know of it.
    #[must_use]
    pub fn facts(&self) -> WorktreeFacts {
        WorktreeFacts {
            id: self.id,
            owners: self.owners.clone(),
            tier: self.tier,
            archived: self.archived_at.is_some(),
            shares: self.shares,
            deleted: false,
        }
    }
}

/// Which worktrees a list is about.
#[derive(Clone, Debug, Default)]
pub struct WorktreeFilter {
    /// Of this repository only.
    pub repo: Option<RepoId>,
    /// Whose name contains this.
    pub name: String,
    /// Also those that are archived.
    pub archived: bool,
}

macro_rules! worktree_columns {
    ($rest:literal) => {
        concat!(
            "SELECT w.id, w.repo, w.name, w.about, w.tier, w.created_by, w.created_at, w.archived_at, ",
            "(SELECT string_agg(o.user_id, ' ') FROM worktree_owners o WHERE o.worktree = w.id), ",
            "w.branch, w.base, w.issue, w.pull_request, w.archived_by, w.files, w.shares FROM worktrees w ",
            $rest
        )
    };
}

impl Store {
    /// One worktree.
    pub async fn read_worktree(&self, permit: Permit<ReadWorktree>) -> Result<Worktree, StoreError> {
        self.worktree_row(permit.into_act().worktree).await
    }

    /// Worktrees after a cursor that this caller may know of, as far as owners, tiers and roles tell.
    /// The gate judges each again: policies that were added may hide more.
    pub async fn list_worktrees(
        &self,
        permit: Permit<ListWorktrees>,
        worktree_rbac: bool,
        filter: &WorktreeFilter,
        after: Option<WorktreeId>,
        limit: i64,
    ) -> Result<Vec<Worktree>, StoreError> {
        let who = permit.who();
        let sees_all = who.role() >= Role::Admin || !worktree_rbac;
        let sql = worktree_columns!(
            "WHERE w.deleted_at IS NULL AND w.seq > COALESCE((SELECT seq FROM worktrees WHERE id = $1), 0) \
             AND ($2 = 1 OR w.tier <> 'none' OR EXISTS \
                  (SELECT 1 FROM worktree_owners o WHERE o.worktree = w.id AND o.user_id = $3)) \
             AND ($4 = '' OR w.repo = $4) AND ($5 = '' OR w.name LIKE '%' || $5 || '%') \
             AND ($6 = 1 OR w.archived_at IS NULL) ORDER BY w.seq LIMIT $7"
        );
        let args = [
            after.map(|id| id.to_string()).into(),
            sees_all.into(),
            who.user().to_string().into(),
            filter.repo.map(|id| id.to_string()).unwrap_or_default().into(),
            filter.name.as_str().into(),
            filter.archived.into(),
            limit.into(),
        ];
        let rows = self.engine.rows(sql, &args).await?;
        Ok(rows.iter().map(worktree).collect::<Result<_, _>>()?)
    }

    /// Creates a worktree; the caller owns it. A name is taken only by what the caller may know of (`knows`):
    /// one that is hidden from them is not told by refusing its name.
    pub async fn create_worktree(
        &self,
        permit: Permit<CreateWorktree>,
        knows: impl Fn(&WorktreeFacts) -> bool + Send,
        tree: Option<Tree>,
    ) -> Result<Worktree, StoreError> {
        let creator = permit.user();
        let act = permit.into_act();
        let mut tx = self.engine.write().await?;
        // One at a time from here on: of many who want one name, one gets it.
        let seq = tx.next("worktrees").await?;
        let sql = worktree_columns!("WHERE w.repo = $1 AND w.name = $2 AND w.deleted_at IS NULL");
        for row in tx.rows(sql, &[act.repo.to_string().into(), act.name.as_str().into()]).await? {
            if knows(&worktree(&row)?.facts()) {
                return Err(StoreError::Taken("name"));
            }
        }
        // A branch that was another worktree's is for those who may know of that one.
        if let Some(tree) = &tree {
            let sql = worktree_columns!("WHERE w.repo = $1 AND w.branch = $2");
            for row in tx.rows(sql, &[act.repo.to_string().into(), tree.branch.as_str().into()]).await? {
                if !knows(&worktree(&row)?.facts()) {
                    let why = format!("the branch `{}` is in use by another worktree", tree.branch);
                    return Err(StoreError::Unusable(why));
                }
            }
        }
        let (branch, base) = tree.map(|tree| (tree.branch, tree.base)).unzip();
        let args: [Value; 10] = [
            act.worktree.to_string().into(),
            seq.into(),
            act.repo.to_string().into(),
            act.name.as_str().into(),
            act.about.as_str().into(),
            act.tier.word().into(),
            creator.to_string().into(),
            self.clock.now().into(),
            branch.into(),
            base.into(),
        ];
        let sql = "INSERT INTO worktrees (id, seq, repo, name, about, tier, created_by, created_at, branch, base) \
                   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
        tx.exec(sql, &args).await.map_err(|error| match error {
            EngineError::Reference => StoreError::Dangling("repository"),
            other => other.into(),
        })?;
        let sql = "INSERT INTO worktree_owners (worktree, user_id) VALUES ($1, $2)";
        tx.exec(sql, &[act.worktree.to_string().into(), creator.to_string().into()]).await?;
        self.finish(tx, EventKind::WorktreeCreated, act.worktree).await?;
        self.worktree_row(act.worktree).await
    }

    /// Changes what it says of itself.
    pub async fn update_worktree(&self, permit: Permit<UpdateWorktree>) -> Result<Worktree, StoreError> {
        let act = permit.into_act();
        // What is not given stays; a link that is given as nothing goes.
        let link = |link: Option<Option<Link>>| {
            link.map(|link| link.map(|link| link.to_string()).unwrap_or_default())
        };
        let sql = "UPDATE worktrees SET about = COALESCE($2, about), \
                   issue = NULLIF(COALESCE($3, issue), ''), pull_request = NULLIF(COALESCE($4, pull_request), '') \
                   WHERE id = $1 AND deleted_at IS NULL AND archived_at IS NULL";
        let to = [act.about.into(), link(act.links.issue).into(), link(act.links.pull_request).into()];
        self.change(act.worktree, sql, to, EventKind::WorktreeChanged).await
    }

    /// Changes what non-owners may do.
    pub async fn set_tier(&self, permit: Permit<SetTier>) -> Result<Worktree, StoreError> {
        let act = permit.into_act();
        let sql = "UPDATE worktrees SET tier = $2 WHERE id = $1 AND deleted_at IS NULL";
        self.change(act.worktree, sql, [act.tier.word().into()], EventKind::WorktreeChanged).await
    }

    /// Lets people prompt each other's sessions, or ends that.
    pub async fn set_sharing(&self, permit: Permit<SetSharing>) -> Result<Worktree, StoreError> {
        let act = permit.into_act();
        let sql = "UPDATE worktrees SET shares = $2 WHERE id = $1 AND deleted_at IS NULL";
        self.change(act.worktree, sql, [act.shares.into()], EventKind::WorktreeChanged).await
    }

    /// Adds an owner.
    pub async fn add_owner(&self, permit: Permit<AddOwner>) -> Result<Worktree, StoreError> {
        let act = permit.into_act();
        let mut tx = self.engine.write().await?;
        let known = tx
            .row("SELECT 1 FROM users WHERE id = $1 AND deleted_at IS NULL", &[act.owner.to_string().into()])
            .await?;
        if known.is_none() {
            return Err(StoreError::Dangling("user"));
        }
        let sql = "INSERT INTO worktree_owners (worktree, user_id) VALUES ($1, $2) ON CONFLICT DO NOTHING";
        tx.exec(sql, &[act.worktree.to_string().into(), act.owner.to_string().into()]).await?;
        self.finish(tx, EventKind::WorktreeChanged, act.worktree).await?;
        self.worktree_row(act.worktree).await
    }

    /// Removes an owner; the last one stays.
    pub async fn remove_owner(&self, permit: Permit<RemoveOwner>) -> Result<Worktree, StoreError> {
        let act = permit.into_act();
        let id: Value = act.worktree.to_string().into();
        let mut tx = self.engine.write().await?;
        // Locks the worktree's row, so that two removals cannot both see the other owner.
        tx.exec("UPDATE worktrees SET tier = tier WHERE id = $1", std::slice::from_ref(&id)).await?;
        let sql = "DELETE FROM worktree_owners WHERE worktree = $1 AND user_id = $2";
        if tx.exec(sql, &[id.clone(), act.owner.to_string().into()]).await? == 0 {
            return Err(StoreError::Dangling("owner"));
        }
        let left = tx.row("SELECT COUNT(*) FROM worktree_owners WHERE worktree = $1", &[id]).await?;
        if left.map_or(Ok(0), |row| row.int(0))? == 0 {
            return Err(StoreError::Last("owner"));
        }
        self.finish(tx, EventKind::WorktreeChanged, act.worktree).await?;
        self.worktree_row(act.worktree).await
    }

    /// The worktrees of a repository that have, or had, a branch of it.
    pub(crate) async fn worktrees_with_branch(&self, repo: RepoId) -> Result<Vec<Worktree>, StoreError> {
        let sql = worktree_columns!("WHERE w.repo = $1 AND w.branch IS NOT NULL");
        let rows = self.engine.rows(sql, &[repo.to_string().into()]).await?;
        Ok(rows.iter().map(worktree).collect::<Result<_, _>>()?)
    }

    async fn change(
        &self,
        id: WorktreeId,
        sql: &'static str,
        to: impl IntoIterator<Item = Value>,
        kind: EventKind,
    ) -> Result<Worktree, StoreError> {
        let args: Vec<Value> = [id.to_string().into()].into_iter().chain(to).collect();
        let mut tx = self.engine.write().await?;
        if tx.exec(sql, &args).await? == 0 {
            return Err(StoreError::Missing("worktree"));
        }
        self.finish(tx, kind, id).await?;
        self.worktree_row(id).await
    }

    pub(crate) async fn finish(&self, mut tx: Tx, kind: EventKind, id: WorktreeId) -> Result<(), StoreError> {
        let event = self.event(&mut tx, kind, Some(id), None).await?;
        Ok(self.commit(tx, event).await?)
    }

    pub(crate) async fn worktree_row(&self, id: WorktreeId) -> Result<Worktree, StoreError> {
        let sql = worktree_columns!("WHERE w.id = $1 AND w.deleted_at IS NULL");
        let row = self.engine.row(sql, &[id.to_string().into()]).await?;
        row.as_ref().map_or(Err(StoreError::Missing("worktree")), |row| Ok(worktree(row)?))
    }
}

fn worktree(row: &Row) -> Result<Worktree, EngineError> {
    Ok(Worktree {
        id: parsed(row, 0)?,
        repo: parsed(row, 1)?,
        name: parsed(row, 2)?,
        about: row.text(3)?.to_owned(),
        tier: parsed(row, 4)?,
        created_by: parsed(row, 5)?,
        created_at: row.int(6)?,
        archived_at: row.opt_int(7)?,
        owners: owners(row, 8)?,
        tree: match (row.opt_text(9)?, row.opt_text(10)?) {
            (Some(branch), Some(base)) => Some(Tree { branch: branch.to_owned(), base: base.to_owned() }),
            _ => None,
        },
        issue: row.opt_text(11)?.map(str::to_owned),
        pull_request: row.opt_text(12)?.map(str::to_owned),
        archived_by: row.opt_text(13)?.map(str::parse).transpose().map_err(|_| odd(13))?,
        files: row.opt_text(14)?.map(str::parse).transpose().map_err(|_| odd(14))?,
        shares: row.flag(15)?,
    })
}
