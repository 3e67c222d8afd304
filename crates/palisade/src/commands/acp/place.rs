//! From the directory that an editor has open to the worktree that an agent works in.

use std::path::Path;

use api::{Client, Repo, Worktree, WorktreeFilter};

use crate::commands::resolve;
use crate::failure::Failure;

/// How many candidates are named.
const MOST: usize = 10;

/// The worktree that was chosen, or the only one whose repository has its origin at or above this directory.
pub(super) fn worktree(client: &Client, named: Option<&str>, cwd: &Path) -> Result<String, Failure> {
    if !cwd.is_absolute() {
        return Err(Failure::Usage("`cwd` is an absolute path".into()));
    }
    if let Some(named) = named {
        return resolve::worktree(client, named);
    }
    let shown = cwd.display();
    let real = cwd.canonicalize().map_err(Failure::file(cwd))?;
    let repos = nearest(resolve::repos(client)?, &real);
    let Some(repo) = repos.first() else {
        return Err(Failure::Usage(format!(
            "`{shown}` is in no repository that the daemon knows; register it by `palisade repo add`, or name a worktree by --worktree"
        )));
    };
    let mut found: Vec<Worktree> = Vec::new();
    for repo in &repos {
        let filter = WorktreeFilter { repo: Some(repo.id.clone()), ..WorktreeFilter::default() };
        found
            .extend(resolve::worktrees(client, &filter)?.into_iter().filter(|one| one.archived_at.is_none()));
    }
    match found.as_slice() {
        [one] => Ok(one.id.clone()),
        [] => Err(Failure::Usage(format!(
            "`{}` has no worktree that you may know of; make one by `palisade worktree create {} NAME`",
            repo.name, repo.name
        ))),
        several => {
            let names: Vec<&str> = several.iter().take(MOST).map(|one| one.name.as_str()).collect();
            Err(Failure::Usage(format!(
                "`{shown}` has {} worktrees; choose one by --worktree: {}",
                several.len(),
                names.join(", ")
            )))
        }
    }
}

/// Those whose origin is a directory of this machine that this one is in, the innermost only.
fn nearest(repos: Vec<Repo>, cwd: &Path) -> Vec<Repo> {
    let depth = |repo: &Repo| {
        let origin = Path::new(&repo.origin);
        let real = if origin.is_absolute() { origin.canonicalize().ok()? } else { return None };
        cwd.starts_with(&real).then(|| real.components().count())
    };
    let within: Vec<(usize, Repo)> =
        repos.into_iter().filter_map(|repo| depth(&repo).map(|depth| (depth, repo))).collect();
    let most = within.iter().map(|(depth, _)| *depth).max();
    within.into_iter().filter(|(depth, _)| Some(*depth) == most).map(|(_, repo)| repo).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_origin_counts_and_a_name_that_only_begins_alike_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(&path).unwrap();
            path.canonicalize().unwrap()
        };
        let repo = |origin: &str| Repo {
            id: origin.into(),
            name: "n".into(),
            origin: origin.into(),
            created_by: String::new(),
            created_at: 0,
            default_branch: None,
            fetched_at: None,
            asks_for: None,
            login: None,
        };
        let (outer, inner, like) = (at("a"), at("a/b"), at("a/bc"));
        let all = || {
            [outer.to_str().unwrap(), inner.to_str().unwrap(), "https://forge.example/a", "/does/not/exist"]
                .map(repo)
                .to_vec()
        };
        let found = |cwd: &Path| nearest(all(), cwd).into_iter().map(|repo| repo.id).collect::<Vec<_>>();
        assert_eq!(found(&inner), [inner.to_str().unwrap()]);
        assert_eq!(found(&at("a/b/c")), [inner.to_str().unwrap()]);
        assert_eq!(found(&like), [outer.to_str().unwrap()]);
        assert_eq!(found(folder.path()), [""; 0]);
    }
}
