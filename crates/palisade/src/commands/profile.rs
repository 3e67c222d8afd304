//! `palisade profile`: what sandboxes look like, and what a project may ask for.

use std::path::Path;

use sandbox::profile::{Consents, Name, Project, Resolved, built_in_names, check, reference};
use serde_json::json;

use super::caller::{PROJECT, caller, project_profile, resolved};
use super::remembered;
use super::run::{Home, bytes};
use crate::cli::{ProfileCommand, RunArgs};
use crate::failure::Failure;
use crate::output::Shown;

pub(super) fn run(config: Option<&Path>, command: ProfileCommand) -> Result<Shown, Failure> {
    let home = Home::find(config);
    match command {
        ProfileCommand::List => list(&home),
        ProfileCommand::Show { name } => show(&home, &name),
        ProfileCommand::Keys => Ok(Shown::new(&json!({ "keys": reference() }), reference())),
        ProfileCommand::Check { file } => judge(&file),
        ProfileCommand::Remembered => remembered::list(&home),
        ProfileCommand::Forget { host, everywhere } => remembered::forget(&home, &host, everywhere),
        ProfileCommand::Consent { withdraw } => consent(&home, withdraw),
    }
}

fn usage(error: &dyn std::fmt::Display) -> Failure {
    Failure::Usage(error.to_string())
}

/// Names of built-in profiles, then of one's own.
fn list(home: &Home) -> Result<Shown, Failure> {
    let folder = home.config.join("profiles");
    let mut own: Vec<String> = match std::fs::read_dir(&folder) {
        Ok(entries) => entries
            .flatten()
            .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".toml")?.to_owned()))
            .filter(|name| Name::parse(name).is_ok())
            .collect(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(Failure::file(&folder)(error)),
    };
    own.sort();
    let mut text = String::new();
    for name in built_in_names() {
        text.push_str(&format!("{name}\tbuilt in\n"));
    }
    for name in &own {
        text.push_str(&format!("{name}\t{}\n", folder.join(format!("{name}.toml")).display()));
    }
    let built_in: Vec<&str> = built_in_names().collect();
    Ok(Shown::new(&json!({ "built_in": built_in, "own": own }), text))
}

/// A profile as it holds here, with the project's narrowing.
fn show(home: &Home, name: &str) -> Result<Shown, Failure> {
    let args = RunArgs { profile: name.to_owned(), ..RunArgs::default() };
    let caller = caller(home, super::catalog::NOBODYS)?;
    let Resolved { profile, pending } = resolved(home, &caller, &args)?;
    let mut text = profile.to_toml();
    for ask in &pending {
        text.push_str(&format!("# asked for by the project, not given: {ask}\n"));
    }
    let pending: Vec<String> = pending.iter().map(ToString::to_string).collect();
    Ok(Shown::new(&json!({ "profile": profile.to_toml(), "pending": pending }), text))
}

fn judge(file: &Path) -> Result<Shown, Failure> {
    let found = bytes(file).map_err(Failure::file(file))?;
    let found = found.ok_or_else(|| Failure::NotFound(format!("`{}` is not there", file.display())))?;
    let name = file.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
    if file.ends_with(".palisade/profile.toml") {
        let project = Project::parse(&found, file).map_err(|error| usage(&error))?;
        return Ok(Shown::done(format!("a project's profile; it asks for {} things", project.asks.len())));
    }
    let name = Name::parse(name).map_err(|error| usage(&error))?;
    check(&found, file, &name).map_err(|error| usage(&error))?;
    Ok(Shown::done("it can be used"))
}

/// Consents to what the project here asks for, as it is now, or takes it back.
fn consent(home: &Home, withdraw: bool) -> Result<Shown, Failure> {
    let caller = caller(home, super::catalog::NOBODYS)?;
    let file = caller.worktree.join(PROJECT);
    let place = home.config.join("consents");
    let known = bytes(&place).map_err(Failure::file(&place))?;
    let mut consents = match known {
        Some(bytes) => Consents::parse(&bytes, &place).map_err(|error| usage(&error))?,
        None => Consents::default(),
    };
    if withdraw {
        let was = consents.withdraw(&file);
        keep(&place, &consents)?;
        return Ok(Shown::done(if was { "taken back" } else { "there was no consent" }));
    }
    let found = project_profile(&caller.worktree).map_err(Failure::file(&file))?;
    let found =
        found.ok_or_else(|| Failure::NotFound("this project has no `.palisade/profile.toml`".into()))?;
    let project = Project::parse(&found, &file).map_err(|error| usage(&error))?;
    consents.add(project.hash, &today(), &file).map_err(|error| usage(&error))?;
    keep(&place, &consents)?;
    let mut text = String::from("this project may now have:\n");
    for ask in &project.asks {
        text.push_str(&format!("  {ask}\n"));
    }
    text.push_str("a change of its file asks again; `palisade profile consent --withdraw` takes it back\n");
    let asks: Vec<String> = project.asks.iter().map(ToString::to_string).collect();
    Ok(Shown::new(&json!({ "file": file, "given": asks }), text))
}

fn keep(place: &Path, consents: &Consents) -> Result<(), Failure> {
    if let Some(folder) = place.parent() {
        use std::os::unix::fs::DirBuilderExt;
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(Failure::file(folder))?;
    }
    let folder = place.parent().unwrap_or(Path::new("."));
    let root = files::Root::open(folder).map_err(Failure::file(folder))?;
    let name = Path::new(place.file_name().unwrap_or_default());
    root.write(name, consents.to_text().as_bytes()).map_err(|error| Failure::file(place)(error.into()))
}

/// The day, as `2026-11-15`.
fn today() -> String {
    crate::output::moment(super::run::now()).chars().take(10).collect()
}
