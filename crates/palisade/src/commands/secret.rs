//! Secrets: values go in, from standard input or a prompt, and never come out.

mod dotenv;

use std::io::{IsTerminal, Read};
use std::path::Path;

use api::{AddSecretRequest, Client, Hidden, RotateRequest, SecretAbout};
use serde_json::json;
use zeroize::Zeroizing;

use super::resolve;
use crate::cli;
use crate::failure::Failure;
use crate::output::{Shown, moment, table, tell};
use crate::session::{Session, secret};

/// What the daemon takes, and one byte more to see that there is too much.
const MOST_VALUE: u64 = 65_536 + 1;

pub(super) fn run(session: &Session, command: cli::Secret, quiet: bool) -> Result<Shown, Failure> {
    let client = session.client()?;
    match command {
        cli::Secret::Add { name, owner, hosts, expires, replace } => {
            let value = value()?;
            let owner = Some(owner_of(&client, &owner)?);
            let body = AddSecretRequest { name, value, owner, hosts, expires, replace };
            let kept = client.add_secret(&body)?;
            if let Some(warning) = &kept.warning {
                tell(&format!("warning: {}: {warning}", kept.name));
            }
            Ok(Shown::new(&kept, format!("{} is kept, for {}\n", kept.name, kept.owner)))
        }
        cli::Secret::List { owner, worktree } => {
            let owner = owner.map(|owner| owner_of(&client, &owner)).transpose()?;
            let worktree = worktree.map(|text| resolve::worktree(&client, &text)).transpose()?;
            let all = client.secrets(owner.as_deref(), worktree.as_deref())?.items;
            Ok(Shown::new(&all, listed(&all)))
        }
        cli::Secret::Remove { name, owner } => {
            client.remove_secret(&owner_of(&client, &owner)?, &name)?;
            Ok(Shown::done(format!("{name} is removed")))
        }
        cli::Secret::Import { file, owner, only, yes, replace, rewrite } => {
            let owner = owner_of(&client, &owner)?;
            import(&client, &file, &owner, &only, &Import { yes, replace, rewrite })
        }
        cli::Secret::Rotate { new_key_file } => rotate(&client, new_key_file.as_deref(), quiet),
    }
}

/// All of standard input without its last line end, or what is typed unseen.
pub(super) fn value() -> Result<Hidden, Failure> {
    if std::io::stdin().is_terminal() {
        return secret("the value", false, "Value: ");
    }
    // Room for all of it up front, so that it is not moved and left behind.
    let mut text = Zeroizing::new(String::with_capacity(MOST_VALUE as usize));
    let read = std::io::stdin().lock().take(MOST_VALUE).read_to_string(&mut text);
    read.map_err(|_| Failure::Usage("the value: standard input is not text".into()))?;
    let value = text.strip_suffix('\n').unwrap_or(&text);
    let value = value.strip_suffix('\r').unwrap_or(value);
    match value.is_empty() {
        true => Err(Failure::Usage("the value: standard input was empty".into())),
        false => Ok(Hidden(value.to_owned())),
    }
}

fn owner_of(client: &Client, text: &str) -> Result<String, Failure> {
    match text {
        "daemon" => Ok("daemon".to_owned()),
        "me" => resolve::user(client, "me"),
        _ if text.starts_with("usr_") => resolve::user(client, text),
        _ => resolve::worktree(client, text),
    }
}

fn listed(all: &[SecretAbout]) -> String {
    let row = |one: &SecretAbout| {
        let counts = match one.effective {
            Some(true) => "counts",
            Some(false) => "hidden",
            None => "",
        };
        let ends = match (one.expires, one.expired) {
            (Some(_), true) => "expired".to_owned(),
            (Some(at), false) => moment(at),
            (None, _) => String::new(),
        };
        vec![
            one.name.clone(),
            one.source.clone(),
            counts.to_owned(),
            one.hosts.join(" "),
            one.created_at.map(moment).unwrap_or_default(),
            one.used_at.map_or_else(|| "never used".to_owned(), moment),
            ends,
        ]
    };
    let rows: Vec<_> = all.iter().map(row).collect();
    table(&["NAME", "SOURCE", "", "HOSTS", "ADDED", "LAST USED", "EXPIRES"], &rows)
}

struct Import {
    yes: bool,
    replace: bool,
    rewrite: bool,
}

fn import(
    client: &Client,
    file: &Path,
    owner: &str,
    only: &[String],
    how: &Import,
) -> Result<Shown, Failure> {
    let text = dotenv::read(file).map_err(Failure::file(file))?;
    let mut found = dotenv::parse(&text)
        .map_err(|line| Failure::Usage(format!("`{}`, line {line}: expected NAME=value", file.display())))?;
    found.retain(|entry| (only.is_empty() || only.contains(&entry.name)) && !entry.is_handle());
    if let Some(missing) = only.iter().find(|name| !found.iter().any(|entry| entry.name == **name)) {
        return Err(Failure::NotFound(format!("`{}` has no `{missing}`", file.display())));
    }
    let there = client.secrets(Some(owner), None)?.items;
    let is_there = |name: &str| there.iter().any(|one| one.name == name);
    let names: Vec<_> = found.iter().map(|entry| entry.name.clone()).collect();
    if !how.yes {
        let rows: Vec<_> = names
            .iter()
            .map(|name| {
                vec![name.clone(), if is_there(name) { "is there already" } else { "new" }.to_owned()]
            })
            .collect();
        let text = format!("{}Nothing was changed; --yes takes them in.\n", table(&["NAME", ""], &rows));
        let rows: Vec<_> =
            names.iter().map(|name| json!({ "name": name, "there": is_there(name) })).collect();
        return Ok(Shown::new(&json!({ "imported": false, "owner": owner, "names": rows }), text));
    }
    if let Some(name) = names.iter().find(|name| is_there(name)).filter(|_| !how.replace) {
        let text = format!(
            "`{name}` is there already, so nothing was taken in; use --replace, or name the others with --only"
        );
        return Err(Failure::Usage(text));
    }
    for entry in &found {
        let kept = client.add_secret(&AddSecretRequest {
            name: entry.name.clone(),
            value: entry.value.clone(),
            owner: Some(owner.to_owned()),
            hosts: Vec::new(),
            expires: None,
            replace: how.replace,
        })?;
        if let Some(warning) = &kept.warning {
            tell(&format!("warning: {}: {warning}", kept.name));
        }
    }
    let mut said = format!("{} secrets are kept, for {owner}\n", names.len());
    if how.rewrite {
        let stay = dotenv::rewrite(file, &text, &found).map_err(Failure::file(file))?;
        said.push_str(&format!("`{}` holds handles now\n", file.display()));
        if stay > 0 {
            said.push_str(&format!("It still holds {stay} values that were not taken in.\n"));
        }
    } else {
        said.push_str("The file still holds the values; --rewrite puts handles in their place.\n");
    }
    Ok(Shown::new(
        &json!({ "imported": true, "owner": owner, "names": names, "rewritten": how.rewrite }),
        said,
    ))
}

/// Step after step until it is finished. Whatever interrupts it, running it again goes on.
fn rotate(client: &Client, new_key_file: Option<&Path>, quiet: bool) -> Result<Shown, Failure> {
    let file = match new_key_file {
        Some(file) => {
            let file = std::path::absolute(file).map_err(Failure::file(file))?;
            Some(
                file.to_str().ok_or_else(|| Failure::Usage("the file's name is not text".into()))?.to_owned(),
            )
        }
        None => None,
    };
    let is_given = file.is_some();
    let mut body = RotateRequest { resume: false, new_key_file: file };
    let (mut done, mut resumed, mut same_passphrase) = (0, None, false);
    loop {
        let step = client.rotate_keys(&body)?;
        done += step.done;
        let resumed = *resumed.get_or_insert(!step.begun);
        same_passphrase |= step.same_passphrase;
        if !quiet {
            tell(&format!("epoch {}: {done} of {} values carried over", step.epoch, done + step.left));
        }
        if step.finished {
            let mut text = format!(
                "{} of {done} values; keys are at epoch {}, opened by master key {}. The earlier key opens neither the key ring nor a value any more.\n",
                if resumed { "The interrupted rotation is finished, the rest" } else { "Rotated, a total" },
                step.epoch,
                step.key
            );
            if step.damaged > 0 {
                let (count, first) = (step.damaged, step.damaged_first.join("\n  "));
                text.push_str(&format!(
                    "{count} of what is registered could not be opened and was left as it is; register the same again to mend it:\n  {first}\n"
                ));
            }
            if !step.own_root {
                text.push_str(FIRST_KEY);
            }
            if same_passphrase {
                text.push_str(SAME_PASSPHRASE);
            }
            if is_given {
                text.push_str(
                    "Give the daemon the new key before its next start, then remove the earlier one.\n",
                );
            }
            let result = json!({
                "epoch": step.epoch, "key": step.key, "values": done, "resumed": resumed, "finished": true,
                "damaged": step.damaged, "damaged_first": step.damaged_first,
                "own_root": step.own_root, "same_passphrase": same_passphrase
            });
            return Ok(Shown::new(&result, text));
        }
        // What was begun goes on without its new key.
        body.resume = true;
        body.new_key_file = None;
    }
}

/// What a rotation does not change where it goes on with the passphrase of before.
const SAME_PASSPHRASE: &str = "The passphrase is the same, only its salt is new: whoever knows it opens the keys as before. \
    Name a file with a new one by --new-key-file to change it.\n";

/// What a rotation does not change in an installation that was made before there were key rings.
const FIRST_KEY: &str = "This installation is older than its key ring: its first master key stays the root that the keys of \
    ledger, tokens and Passes are made from; keep it secret for good.\n";
