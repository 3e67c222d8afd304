//! Tests of profiles, by subject.

mod built_in;
mod consent;
mod control;
mod documents;
mod environment;
mod layers;
mod narrow;
mod tables;
mod toolchains;

use std::path::{Path, PathBuf};

use super::*;

const GIB: u64 = 1 << 30;

fn host() -> Host {
    Host { memory: 16 * GIB, cores: 8 }
}

fn roots() -> Roots {
    Roots { home: "/home/ana".into(), worktree: "/home/ana/work/shop".into() }
}

/// Own profiles by name, as a person's folder has them.
type Own<'a> = &'a [(&'a str, &'a str)];

fn resolve_with(
    name: &str,
    own: Own<'_>,
    project: Option<&Project>,
    consented: bool,
    flags: &Flags,
) -> Result<Resolved, String> {
    let read = |name: &Name| {
        let found = own.iter().find(|(own, _)| *own == name.as_str());
        Ok(found.map(|(name, text)| Document {
            file: format!("{name}.toml").into(),
            bytes: text.as_bytes().to_vec(),
        }))
    };
    let flags = flags.parse().map_err(|error| error.to_string())?;
    let (host, roots) = (host(), roots());
    let consent = |hash: &ContentHash| consented && project.is_some_and(|project| project.hash == *hash);
    let layers =
        Layers { name, own: &read, project, consent: &consent, flags: &flags, host: &host, roots: &roots };
    Profile::resolve(&layers).map_err(|error| error.to_string())
}

fn resolve(name: &str, own: Own<'_>) -> Result<Profile, String> {
    resolve_with(name, own, None, false, &Flags::default()).map(|resolved| resolved.profile)
}

fn project(text: &str) -> Result<Project, String> {
    Project::parse(text.as_bytes(), Path::new(".palisade/profile.toml")).map_err(|error| error.to_string())
}

fn at(profile: &Profile, path: &str) -> Option<Worktree> {
    profile.reach(&roots()).at(Path::new(path))
}

fn paths(entries: &[Entry]) -> Vec<PathBuf> {
    entries.iter().map(|entry| entry.path.clone()).collect()
}
