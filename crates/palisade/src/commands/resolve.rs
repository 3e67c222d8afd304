//! From what a person types to the id of one thing. What is ambiguous is listed, never guessed.

use api::{Client, WorktreeFilter};

use crate::failure::Failure;

/// How many candidates are named.
const MOST: usize = 10;

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
    let mut after = None;
    loop {
        let page = client.users(None, after.as_deref(), Some(100))?;
        if let Some(found) = page.items.into_iter().find(|user| user.email == wanted) {
            return Ok(found.id);
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return Err(Failure::NotFound(format!("there is no user `{text}`"))),
        }
    }
}

/// A repository by id or name.
pub(super) fn repo(client: &Client, text: &str) -> Result<String, Failure> {
    if text.starts_with("rep_") {
        return Ok(text.to_owned());
    }
    let mut after = None;
    loop {
        let page = client.repos(after.as_deref())?;
        if let Some(found) = page.items.into_iter().find(|repo| repo.name == text) {
            return Ok(found.id);
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return Err(Failure::NotFound(format!("there is no repository `{text}`"))),
        }
    }
}

/// A worktree by id or name.
pub(super) fn worktree(client: &Client, text: &str) -> Result<String, Failure> {
    if text.starts_with("wt_") {
        return Ok(text.to_owned());
    }
    let mut filter = WorktreeFilter {
        name: Some(text.to_owned()),
        archived: true,
        limit: Some(100),
        ..WorktreeFilter::default()
    };
    let mut found = Vec::new();
    loop {
        let page = client.worktrees(&filter)?;
        found.extend(page.items.into_iter().filter(|one| one.name == text).map(|one| (one.id, one.repo)));
        match page.next {
            Some(next) => filter.after = Some(next),
            None => return one(text, found),
        }
    }
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
