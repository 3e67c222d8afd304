//! What is known of agents here: the shipped ones, and those whose documents lie in `<config>/agents`.
//!
//! Invariants: a command is known by its bare name only, since a file of a project may be called anything; a document that is not
//! understood stops what needs it, and nothing else. Seeds are written beneath the sandbox's home, through no link, and replace nothing.

use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;
use std::path::Path;

use agents::{Agent, Catalog, Seed};
use sandbox::profile::Profile;
use sandbox::{Caller, Spec};

use super::run;
use crate::cli::RunArgs;
use crate::failure::Failure;

/// The home of a command that no document knows.
pub(super) const NOBODYS: &str = "default";
/// More files than this are not agents.
const MOST_FILES: usize = 256;

/// Every agent that is known here.
pub(super) fn all(config: &Path) -> Result<Catalog, Failure> {
    let wrong = |error: &dyn std::fmt::Display| Failure::Sandbox(error.to_string(), 125);
    let mut catalog = Catalog::shipped().map_err(|error| wrong(&error))?;
    for name in names(config)? {
        let file = config.join("agents").join(format!("{name}.toml"));
        let bytes = run::bytes(&file).map_err(Failure::file(&file))?.unwrap_or_default();
        let text =
            String::from_utf8(bytes).map_err(|_| wrong(&format!("`{}` is no text", file.display())))?;
        catalog.add(&name, &text).map_err(|error| wrong(&format!("`{}`: {error}", file.display())))?;
    }
    Ok(catalog)
}

/// What is known of this command, and what its home is called, by the name of its file alone. Most are in no document, and need
/// none read.
pub(super) fn known(config: &Path, command: Option<&OsString>) -> Result<(Option<Agent>, String), Failure> {
    let nobodys = || (None, NOBODYS.to_owned());
    let Some(command) = command else { return Ok(nobodys()) };
    let Some(program) = Path::new(command).file_name().and_then(OsStr::to_str) else { return Ok(nobodys()) };
    if !Catalog::may_ship(program) && names(config)?.is_empty() {
        return Ok(nobodys());
    }
    let found = all(config)?.started_by(program).cloned();
    let home = found.as_ref().map_or_else(|| NOBODYS.to_owned(), |agent| agent.name.clone());
    Ok((found.filter(|_| command == program), home))
}

/// The agent of one document, named for its file, and what its home is called.
pub(super) fn documented(file: &Path) -> Result<(Option<Agent>, String), Failure> {
    let wrong = |why: &dyn std::fmt::Display| Failure::Sandbox(format!("`{}`: {why}", file.display()), 125);
    let name = file.file_stem().and_then(OsStr::to_str).unwrap_or_default();
    let bytes = run::bytes(file).map_err(Failure::file(file))?.ok_or_else(|| wrong(&"it is not there"))?;
    let text = String::from_utf8(bytes).map_err(|_| wrong(&"it is no text"))?;
    let agent = Agent::parse(name, &text).map_err(|error| wrong(&error))?;
    let home = agent.name.clone();
    Ok((Some(agent), home))
}

/// The names of documents of the person's own, in order.
fn names(config: &Path) -> Result<Vec<String>, Failure> {
    let folder = config.join("agents");
    let entries = match std::fs::read_dir(&folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(Failure::file(&folder))?,
    };
    let mut names = Vec::new();
    for entry in entries.take(MOST_FILES) {
        let name = entry.map_err(Failure::file(&folder))?.file_name();
        let path = Path::new(&name);
        if path.extension() == Some(OsStr::new("toml")) {
            names.extend(path.file_stem().and_then(OsStr::to_str).map(str::to_owned));
        }
    }
    names.sort();
    Ok(names)
}

/// What it needs in its environment, but for what the person sets.
pub(super) fn given(agent: &Agent, args: &RunArgs, mut spec: Spec) -> Spec {
    let is_set = |name: &str| args.env.iter().any(|set| set.split('=').next() == Some(name));
    for (name, value) in agent.environment.iter().filter(|(name, _)| !is_set(name)) {
        spec = spec.variable(name, value);
    }
    spec
}

/// Leaves the place of its own control files free where they do not exist.
pub(super) fn spare(agent: &Agent, caller: &Caller, profile: &mut Profile) {
    let is_there = |name: &str| caller.worktree.join(name).symlink_metadata().is_ok();
    profile.protect.retain(|one| !agent.absent.contains(&one.path) || is_there(&one.path));
}

/// Puts the files into an agent's home that it begins with, where there are none.
pub(super) fn furnish(agent: &Agent, caller: &Caller) -> Result<(), Failure> {
    if agent.files.is_empty() {
        return Ok(());
    }
    let home = &caller.private_home;
    let root = files::Root::open(home).map_err(Failure::file(home))?;
    agent.files.iter().try_for_each(|seed| put(&root, home, seed))
}

fn put(root: &files::Root, home: &Path, seed: &Seed) -> Result<(), Failure> {
    let path = Path::new(&seed.path);
    let failed = |error: files::FileError| Failure::file(&home.join(path))(error.into());
    let mut above: Vec<&Path> =
        path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()).collect();
    above.reverse();
    for folder in above {
        let (parent, name) =
            (folder.parent().unwrap_or(Path::new("")), folder.file_name().unwrap_or_default());
        let parent = root.folder(parent).map_err(failed)?;
        match rustix::fs::mkdirat(&parent, name, rustix::fs::Mode::RWXU) {
            Ok(()) => {
                let made = parent.folder(Path::new(name)).map_err(failed)?;
                super::login::given(made.as_fd(), home).map_err(Failure::file(&home.join(folder)))?;
            }
            Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(Failure::file(&home.join(folder))(error.into())),
        }
    }
    match root.create(path, seed.text.as_bytes()) {
        // The agent's own by now.
        Err(files::FileError::Taken) => Ok(()),
        Ok(()) => {
            let file = root.file(path, files::Rule::Any).map_err(failed)?;
            let found =
                rustix::fs::fstat(&file).map_err(|error| Failure::file(&home.join(path))(error.into()))?;
            // The one that was just made, and no second name of something else.
            if found.st_nlink != 1 || found.st_uid != rustix::process::geteuid().as_raw() {
                return Ok(());
            }
            super::login::given(file.as_fd(), home).map_err(Failure::file(&home.join(path)))
        }
        Err(error) => Err(failed(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_agents_can_be_read_and_has_rules() {
        let config = tempfile::tempdir().unwrap();
        for agent in all(config.path()).unwrap().iter() {
            let rules: Vec<rules::Rule> = agent
                .presets
                .iter()
                .flat_map(|preset| rules::presets::find(preset).unwrap().rules().unwrap())
                .collect();
            let login =
                agent.login.as_ref().map(|table| super::super::login::Known::of(agent, table).unwrap());
            let logins = login.iter().flat_map(super::super::login::Known::hosts);
            for host in agent.secrets.iter().flat_map(|bound| &bound.hosts).chain(logins) {
                assert!(rules.iter().any(|rule| rule.host == *host), "{}: {host}", agent.name);
            }
        }
    }

    #[test]
    fn a_command_is_known_by_its_bare_name_and_by_a_file_of_ones_own() {
        let config = tempfile::tempdir().unwrap();
        let known = |name: &str| known(config.path(), Some(&name.into())).unwrap().0.map(|agent| agent.name);
        assert_eq!(known("claude").as_deref(), Some("claude"));
        assert_eq!(known("claude-agent-acp").as_deref(), Some("claude"));
        assert_eq!((known("./claude"), known("claudette"), known("mine")), (None, None, None));
        std::fs::create_dir(config.path().join("agents")).unwrap();
        std::fs::write(config.path().join("agents/mine.toml"), "title = \"Mine\"\ncommand = \"mine\"\n")
            .unwrap();
        assert_eq!(known("mine").as_deref(), Some("mine"));
        std::fs::write(config.path().join("agents/codex.toml"), "title = \"X\"\ncommand = \"x\"\n").unwrap();
        let refused = all(config.path()).unwrap_err().to_string();
        assert!(refused.contains("codex.toml") && refused.contains("already"), "{refused}");
    }
}
