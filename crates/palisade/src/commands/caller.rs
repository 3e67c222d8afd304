//! Who calls `palisade run`, where from, and the profile that holds there.
//!
//! Flow: the process's own surroundings -> [`Caller`]; documents of the person and the project, and what was typed -> [`Resolved`].
//! Invariant: a repository that is somebody else's widens nothing, and no link is followed to a project's file.

use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use sandbox::Caller;
use sandbox::profile::{Consents, Document, Flags, Host, Layers, Name, Profile, Project, Resolved, Roots};

use super::run::{Home, MOST_BYTES, bytes};
use crate::cli::RunArgs;
use crate::failure::Failure;

/// A project's own profile, below its worktree.
pub(super) const PROJECT: &str = ".palisade/profile.toml";

/// Who calls, where from.
/// Agents that keep things in their home have one each, which `keeps` names.
pub(super) fn caller(home: &Home, keeps: &str) -> Result<Caller, Failure> {
    let directory = std::env::current_dir()
        .and_then(|path| path.canonicalize())
        .map_err(|error| Failure::Sandbox(format!("the current directory cannot be used: {error}"), 125))?;
    let worktree = worktree(&directory);
    let own = own_home();
    let is_root = rustix::process::geteuid().is_root();
    let user = std::env::var("USER").ok().filter(|name| !is_root && is_name(name));
    // Without links, as paths that are given are; what does not exist yet can be given by nobody.
    let kept = [&home.config, &home.state, &home.data]
        .map(|path| path.canonicalize().unwrap_or_else(|_| path.clone()));
    let private_home = home.state.join("homes").join(project(&worktree)).join(keeps);
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&private_home)
        .map_err(Failure::file(&private_home))?;
    if is_root {
        // Inside, the owner of the worktree is the agent: the home must be theirs as well.
        let owner = std::fs::metadata(&worktree).map_err(Failure::file(&worktree))?;
        std::os::unix::fs::lchown(&private_home, Some(owner.uid()), Some(owner.gid()))
            .map_err(Failure::file(&private_home))?;
    }
    Ok(Caller {
        home: own,
        user: user.unwrap_or_else(|| "agent".into()),
        environment: std::env::vars_os().collect(),
        directory,
        worktree,
        private_home,
        kept: kept.to_vec(),
        run_folder: PathBuf::new(),
        stubs: home.state.join("stubs"),
        cut: None,
    })
}

/// The caller's home, without links.
pub(super) fn own_home() -> PathBuf {
    let own = std::env::var_os("HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    own.and_then(|path| path.canonicalize().ok()).unwrap_or_else(|| "/home/agent".into())
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 32
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// The repository around a directory, or the directory. A repository of somebody else's does not count: whoever may
/// write to a directory above could put one there and so have all of it given to the command.
fn worktree(directory: &Path) -> PathBuf {
    let owner = |path: &Path| std::fs::metadata(path).map(|found| found.uid()).ok();
    let (own, caller) = (owner(directory), Some(rustix::process::geteuid().as_raw()));
    let has_git = |path: &&Path| {
        let found = path.join(".git").symlink_metadata().map(|found| found.uid()).ok();
        let is_ours = |uid| uid == own || uid == caller;
        found.is_some() && is_ours(found) && is_ours(owner(path))
    };
    directory.ancestors().find(has_git).unwrap_or(directory).to_owned()
}

/// A name for a project that tells nothing and is the same every time.
fn project(worktree: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    sandbox::profile::ContentHash::of(worktree.as_os_str().as_bytes()).to_string().chars().take(24).collect()
}

pub(super) fn resolved(home: &Home, caller: &Caller, args: &RunArgs) -> Result<Resolved, Failure> {
    let usage = |error: &dyn std::fmt::Display| Failure::Sandbox(error.to_string(), 125);
    let flags = Flags {
        ro: args.ro.iter().map(|path| absolute(caller, path)).collect(),
        rw: args.rw.iter().map(|path| absolute(caller, path)).collect(),
        env: args.env.clone(),
        inherit: args.inherit_env,
        show: args.show.clone(),
        limit: args.limit.clone(),
        overlay: args.overlay,
        offline: args.offline,
    };
    let flags = flags.parse().map_err(|error| usage(&error))?;
    let own = |name: &Name| -> std::io::Result<Option<Document>> {
        let file = home.config.join("profiles").join(format!("{name}.toml"));
        Ok(bytes(&file)?.map(|bytes| Document { file, bytes }))
    };
    let file = caller.worktree.join(PROJECT);
    let project = match project_profile(&caller.worktree).map_err(Failure::file(&file))? {
        Some(bytes) => Some(Project::parse(&bytes, &file).map_err(|error| usage(&error))?),
        None => None,
    };
    let consents = home.config.join("consents");
    let consents = match bytes(&consents).map_err(Failure::file(&consents))? {
        Some(bytes) => Consents::parse(&bytes, &consents).map_err(|error| usage(&error))?,
        None => Consents::default(),
    };
    let layers = Layers {
        name: &args.profile,
        own: &own,
        project: project.as_ref(),
        consent: &|hash| consents.holds(hash, &file),
        flags: &flags,
        host: &host(),
        roots: &Roots { home: caller.home.clone(), worktree: caller.worktree.clone() },
    };
    Profile::resolve(&layers).map_err(|error| usage(&error))
}

/// A path as it was typed, from where the caller stands and without links, when it is there.
fn absolute(caller: &Caller, path: &str) -> String {
    if path.starts_with("~/") {
        return path.to_owned();
    }
    let path = caller.directory.join(path);
    path.canonicalize().unwrap_or(path).to_string_lossy().into_owned()
}

/// A project's own profile. Whoever wrote the repository chose what lies on the way to it, so no link is followed.
pub(super) fn project_profile(worktree: &Path) -> std::io::Result<Option<Vec<u8>>> {
    match files::Root::open(worktree)?.read(Path::new(PROJECT), MOST_BYTES, files::Rule::Any) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(files::FileError::Missing) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// What shares of limits are of.
fn host() -> Host {
    let found = rustix::system::sysinfo();
    let memory = found.totalram.saturating_mul(found.mem_unit.into());
    let cores = rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count());
    Host { memory, cores }
}
