//! From what a person types to the id of one thing. What is ambiguous is listed, never guessed.

use api::{Client, ClientError, WorktreeFilter};

use crate::failure::Failure;

/// How many candidates are named.
const MOST: usize = 10;

/// Every item of a list, page after page.
pub(super) fn every<T>(
    mut page: impl FnMut(Option<&str>) -> Result<(Vec<T>, Option<String>), ClientError>,
) -> Result<Vec<T>, Failure> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let (items, next) = page(after.as_deref())?;
        all.extend(items);
        match next {
            Some(next) => after = Some(next),
            None => return Ok(all),
        }
    }
}

/// Every user.
pub(super) fn users(client: &Client) -> Result<Vec<api::User>, Failure> {
    every(|after| client.users(None, after, Some(100)).map(|page| (page.items, page.next)))
}

/// Every repository.
pub(super) fn repos(client: &Client) -> Result<Vec<api::Repo>, Failure> {
    every(|after| client.repos(after).map(|page| (page.items, page.next)))
}

/// Every worktree that fits and that the caller may know of.
pub(super) fn worktrees(client: &Client, filter: &WorktreeFilter) -> Result<Vec<api::Worktree>, Failure> {
    every(|after| {
        let filter = WorktreeFilter { after: after.map(str::to_owned), limit: Some(100), ..filter.clone() };
        client.worktrees(&filter).map(|page| (page.items, page.next))
    })
}

/// A user by id, beginning of an id, address, or `me`.
pub(super) fn user(client: &Client, text: &str) -> Result<String, Failure> {
    if text == "me" {
        return Ok(client.whoami()?.user.id);
    }
    if text.starts_with("usr_") {
        if text.len() == 36 {
            return Ok(text.to_owned());
        }
        let page = client.users(Some(text), None, Some(100))?;
        return one(text, page.items.into_iter().map(|user| (user.id, user.email)).collect());
    }
    let wanted = text.to_ascii_lowercase();
    let found = users(client)?.into_iter().find(|user| user.email == wanted);
    found.map(|user| user.id).ok_or_else(|| Failure::NotFound(format!("there is no user `{text}`")))
}

/// A repository by id or name.
pub(super) fn repo(client: &Client, text: &str) -> Result<String, Failure> {
    if text.starts_with("rep_") {
        return Ok(text.to_owned());
    }
    let found = repos(client)?.into_iter().find(|repo| repo.name == text);
    found.map(|repo| repo.id).ok_or_else(|| Failure::NotFound(format!("there is no repository `{text}`")))
}

/// A worktree by id or name.
pub(super) fn worktree(client: &Client, text: &str) -> Result<String, Failure> {
    if text.starts_with("wt_") {
        return Ok(text.to_owned());
    }
    let filter = WorktreeFilter { name: Some(text.to_owned()), archived: true, ..WorktreeFilter::default() };
    let found = worktrees(client, &filter)?.into_iter().filter(|one| one.name == text);
    one(text, found.map(|one| (one.id, one.repo)).collect())
}

fn one(text: &str, mut found: Vec<(String, String)>) -> Result<String, Failure> {
    match (found.pop(), found.is_empty()) {
        (Some((id, _)), true) => Ok(id),
        (None, _) => Err(Failure::NotFound(format!("there is no `{text}`"))),
        (Some(last), false) => {
            found.push(last);
            let named = found
                .iter()
                .take(MOST)
                .map(|(id, about)| format!("  {id}  {about}"))
                .collect::<Vec<_>>()
                .join("\n");
            Err(Failure::NotFound(format!("`{text}` could be any of {}:\n{named}", found.len())))
        }
    }
}
