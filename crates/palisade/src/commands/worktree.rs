//! Worktrees.

use api::{Client, CreateWorktreeRequest, WorktreeFilter};

use super::resolve;
use crate::cli::{self, word};
use crate::failure::Failure;
use crate::output::{self, Shown, moment, table};
use crate::session::Session;

pub(super) fn run(session: &Session, command: cli::Worktree) -> Result<Shown, Failure> {
    let client = session.client()?;
    let find = |text: &str| resolve::worktree(&client, text);
    match command {
        cli::Worktree::List { repo, name, archived } => {
            let repo = repo.map(|repo| resolve::repo(&client, &repo)).transpose()?;
            list(&client, &WorktreeFilter { repo, name, archived, ..WorktreeFilter::default() })
        }
        cli::Worktree::Create { repo, name, about, tier, branch, base } => {
            let repo = resolve::repo(&client, &repo)?;
            Ok(show(&client.create_worktree(&CreateWorktreeRequest {
                repo,
                name,
                about,
                tier: Some(word(tier)),
                branch,
                base,
            })?))
        }
        cli::Worktree::Show { worktree } => Ok(show(&client.worktree(&find(&worktree)?)?)),
        cli::Worktree::Log { worktree, limit } => {
            let log = client.worktree_log(&find(&worktree)?, Some(limit))?;
            let row = |one: &api::Commit| {
                let short = one.id.get(..10).unwrap_or(&one.id).to_owned();
                vec![short, moment(one.at.saturating_mul(1_000)), one.author.clone(), one.subject.clone()]
            };
            let rows: Vec<_> = log.items.iter().map(row).collect();
            Ok(Shown::new(&log.items, table(&["COMMIT", "WHEN", "BY", ""], &rows)))
        }
        cli::Worktree::Diff { worktree } => {
            let diff = client.worktree_diff(&find(&worktree)?)?;
            if diff.truncated {
                output::tell("this is the beginning; the rest is too long to be shown");
            }
            Ok(Shown::new(&diff, diff.patch.clone()))
        }
        cli::Worktree::Files { worktree, path } => {
            let found = client.worktree_files(&find(&worktree)?, &path)?;
            let text = match (&found.entries, &found.text) {
                (Some(entries), _) => {
                    let row = |one: &api::FileEntry| {
                        vec![one.kind.clone(), one.size.to_string(), one.name.escape_debug().to_string()]
                    };
                    table(&["KIND", "SIZE", "NAME"], &entries.iter().map(row).collect::<Vec<_>>())
                }
                (None, Some(text)) => text.clone(),
                (None, None) => "this file is no text\n".to_owned(),
            };
            Ok(Shown::new(&found, text))
        }
        cli::Worktree::Update { worktree, about } => {
            Ok(show(&client.update_worktree(&find(&worktree)?, &about)?))
        }
        cli::Worktree::Tier { worktree, tier } => Ok(show(&client.set_tier(&find(&worktree)?, &word(tier))?)),
        cli::Worktree::AddOwner { worktree, user } => {
            Ok(show(&client.add_owner(&find(&worktree)?, &resolve::user(&client, &user)?)?))
        }
        cli::Worktree::RemoveOwner { worktree, user } => {
            Ok(show(&client.remove_owner(&find(&worktree)?, &resolve::user(&client, &user)?)?))
        }
        cli::Worktree::Archive { worktree } => Ok(show(&client.archive_worktree(&find(&worktree)?)?)),
        cli::Worktree::Delete { worktree } => {
            client.delete_worktree(&find(&worktree)?)?;
            Ok(Shown::done(format!("{worktree} is deleted")))
        }
    }
}

fn list(client: &Client, filter: &WorktreeFilter) -> Result<Shown, Failure> {
    let all = resolve::worktrees(client, filter)?;
    let row = |one: &api::Worktree| {
        let state = if one.archived_at.is_some() { "archived" } else { "" };
        vec![
            one.id.clone(),
            one.name.clone(),
            one.tier.clone(),
            one.owners.len().to_string(),
            state.to_owned(),
        ]
    };
    let rows: Vec<_> = all.iter().map(row).collect();
    Ok(Shown::new(&all, table(&["ID", "NAME", "TIER", "OWNERS", ""], &rows)))
}

fn show(one: &api::Worktree) -> Shown {
    let mut text = format!(
        "{}\nid       {}\nrepo     {}\ntier     {}\nowners   {}\nsince    {}\n",
        one.name,
        one.id,
        one.repo,
        one.tier,
        one.owners.join(" "),
        moment(one.created_at)
    );
    if let Some(branch) = &one.branch {
        text.push_str(&format!("branch   {branch}\n"));
    }
    if let Some(at) = one.archived_at {
        text.push_str(&format!("archived {}\n", moment(at)));
    }
    if !one.about.is_empty() {
        text.push_str(&format!("\n{}\n", one.about.escape_debug()));
    }
    Shown::new(one, text)
}
