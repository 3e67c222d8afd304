//! Worktrees.

use std::path::Path;

use api::{Client, CreateWorktreeRequest, MergeRequest, PushRequest, UpdateWorktreeRequest, WorktreeFilter};

use super::bring::bring;
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
        cli::Worktree::Sharing { worktree, shares } => {
            if shares == cli::Switch::On {
                output::tell(
                    "what one person leaves in a conversation and in the tree steers what runs with the rights and the secrets of another",
                );
            }
            Ok(show(&client.set_sharing(&find(&worktree)?, shares == cli::Switch::On)?))
        }
        cli::Worktree::AddOwner { worktree, user } => {
            Ok(show(&client.add_owner(&find(&worktree)?, &resolve::user(&client, &user)?)?))
        }
        cli::Worktree::RemoveOwner { worktree, user } => {
            Ok(show(&client.remove_owner(&find(&worktree)?, &resolve::user(&client, &user)?)?))
        }
        cli::Worktree::Link { worktree, issue, pull_request } => {
            let body = UpdateWorktreeRequest { about: None, issue, pull_request };
            Ok(show(&client.change_worktree(&find(&worktree)?, &body)?))
        }
        cli::Worktree::Merge { worktree, into, here } => merge(&client, &find(&worktree)?, into, here),
        cli::Worktree::Push { worktree, to } => {
            let id = find(&worktree)?;
            output::tell(&format!("pushing {worktree}"));
            let done = client.push_worktree(&id, &PushRequest { to })?;
            Ok(Shown::new(&done, format!("{} at the origin is {}\n", done.to, done.commit)))
        }
        cli::Worktree::Archive { worktree, files } => {
            Ok(show(&client.archive_worktree_and(&find(&worktree)?, Some(&word(files)))?))
        }
        cli::Worktree::Restore { worktree } => Ok(show(&client.restore_worktree(&find(&worktree)?)?)),
        cli::Worktree::Delete { worktree, files } => {
            let id = find(&worktree)?;
            client.delete_worktree_and(&id, Some(&word(files)))?;
            let rest = match files {
                cli::TreeFiles::Removed => String::new(),
                cli::TreeFiles::Kept | cli::TreeFiles::Cleaned => {
                    format!("; its files stay in `worktrees/{id}` of the daemon's data directory")
                }
            };
            Ok(Shown::done(format!("{worktree} is deleted{rest}")))
        }
    }
}

/// Joins, and brings the result to where the repository comes from if that is a directory here.
fn merge(client: &Client, id: &str, into: Option<String>, here: bool) -> Result<Shown, Failure> {
    let repo = client.repo(&client.worktree(id)?.repo)?;
    let directory = Path::new(&repo.origin);
    let brings = !here && directory.is_absolute() && directory.is_dir();
    if brings {
        // What the person committed meanwhile is what it is joined with.
        client.fetch_repo(&repo.id)?;
    }
    let merged = client.merge_worktree(id, &MergeRequest { into, bundle: brings })?;
    let short = merged.commit.get(..10).unwrap_or(&merged.commit);
    let mut text = match merged.how.as_str() {
        "nothing" => format!("{} has everything already ({short})\n", merged.into),
        "forwards" => format!("{} went forwards to {short}\n", merged.into),
        _ => format!("{} is {short}, which joins both\n", merged.into),
    };
    let mut result = serde_json::json!(api::WorktreeMerge { bundle: None, ..merged.clone() });
    if brings {
        let brought = bring(directory, &merged)?;
        let place = directory.display();
        text.push_str(&match (brought.state, &brought.left) {
            ("there", _) => format!("{place} has it already\n"),
            ("moved", _) => format!("{} in {place} is there too\n", merged.into),
            ("checked-out", _) => format!("{} in {place} is there too, and so are its files\n", merged.into),
            (_, Some((reference, why))) => {
                format!("{place} stays as it is: {why}\nthe commits are there; `git merge {reference}` joins them\n")
            }
            (_, None) => String::new(),
        });
        if let Some(object) = result.as_object_mut() {
            object.insert("brought".into(), serde_json::json!(brought));
        }
    }
    Ok(Shown::new(&result, text))
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
    if one.shares {
        text.push_str("sharing  people may prompt each other's sessions, if the daemon lets them\n");
    }
    if let Some(branch) = &one.branch {
        text.push_str(&format!("branch   {branch}\n"));
    }
    for (name, link) in [("issue    ", &one.issue), ("pull     ", &one.pull_request)] {
        if let Some(link) = link {
            text.push_str(&format!("{name}{link}\n"));
        }
    }
    if let Some(at) = one.archived_at {
        let (by, files) = (one.archived_by.as_deref().unwrap_or("?"), one.files.as_deref().unwrap_or("kept"));
        text.push_str(&format!("archived {} by {by}, files {files}\n", moment(at)));
    }
    if !one.about.is_empty() {
        text.push_str(&format!("\n{}\n", one.about.escape_debug()));
    }
    Shown::new(one, text)
}
