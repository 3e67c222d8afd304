//! The keys of a profile: this table is the source of which there are, who may use them, and the docs.

/// One key.
#[derive(Debug)]
pub struct Key {
    /// As written; `limits.x` is `x` in the section `[limits]`.
    pub name: &'static str,
    /// What it holds.
    pub form: &'static str,
    /// What it is for.
    pub about: &'static str,
    /// What it does in a project's file.
    pub project: InProject,
}

/// What a key does in a project's own file, `.palisade/profile.toml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InProject {
    /// Narrows. It cannot be asked for.
    Narrows,
    /// Adds, so it stands under `[ask]` and waits for the person's consent.
    Asks,
    /// Narrows as it stands, and adds under `[ask]`.
    Both,
    /// Is the person's choice alone.
    Refused,
}

macro_rules! keys {
    ($($name:literal ($form:literal, $project:ident): $about:literal;)+) => {
        /// Every key there is.
        pub const KEYS: &[Key] =
            &[$(Key { name: $name, form: $form, about: $about, project: InProject::$project }),+];
    };
}

keys! {
    "name" ("a name", Refused): "the profile's name; the same as its file's";
    "base" ("a name", Refused): "the profile to start from: `strict`, `dev`, `read-only` or one of your own";
    "worktree" ("`write`, `overlay` or `read`", Narrows): "the worktree: written to directly, through a layer of its own that the host does not see, or not at all";
    "read" ("paths", Both): "also readable: `/opt/sdk`, `~/data`, `./vendor`; everything below is meant, and the most exact path counts";
    "write" ("paths", Both): "also writable; a person's `write` replaces a `read` of the same path from below";
    "hide" ("file names, `*` allowed", Narrows): "files that do not exist inside, at any depth, also when they appear later: `.env`, `*.pem`";
    "show" ("file names, `*` allowed", Asks): "exceptions to what is hidden so far: `.env.example`; a later `hide` of the same wins";
    "protect" ("paths below the worktree", Narrows): "control files that cannot be made, changed or moved, besides those of every profile; a directory ends with `/`";
    "unprotect" ("paths below the worktree", Asks): "control files that the agent may change after all: `.vscode/`";
    "environment" ("variable names, `*` at the end allowed", Both): "passed in when set outside: `TERM`, `LC_*`; nothing else is. A `*` brings no variable that holds a credential, and none that steers programs can be named";
    "inherit" ("true or false", Both): "pass in all other variables too, but for those that hold a credential or steer programs";
    "set" ("a table of texts", Asks): "variables with a value of their own, at most 64: `{ CI = \"1\" }`";
    "toolchains" ("true or false", Both): "toolchains under your home (cargo, nvm, pyenv …) can be used, read-only and without their credentials";
    "trace" ("true or false", Both): "a process may trace its own children, as debuggers and `strace` do";
    "network" ("`none` or `rules`", Narrows): "what can be reached besides the sandbox's own loopback: nothing, or what rules allow";
    "allow" ("hosts, `site.org:8443`", Asks): "may be reached, as with `--allow`: on port 443 unless another is named";
    "deny" ("hosts, `site.org:8443`", Narrows): "may not be reached on that port, whatever allows it";
    "presets" ("names", Asks): "sets of rules, as with `--preset`: `npm-install`, `github-read`";
    "rule" ("tables, `[[rule]]`", Both): "whole rules, see network.md; in a project's file those that deny narrow, and others stand under `[ask]`";
    "require" ("layers", Narrows): "layers without which nothing is started, besides those of every profile: `cgroup`";
    "limits.memory" ("bytes, `2g`, `75%`", Both): "memory of all processes together; a share is of the machine's memory";
    "limits.cpu" ("`1`, `0.5`, `all`", Both): "processor time of all processes together";
    "limits.pids" ("a number", Both): "processes and threads";
    "limits.files" ("a number", Both): "open files of one process";
    "limits.file_size" ("bytes, `10m`", Both): "size of one file";
    "limits.disk" ("bytes, `20g`", Both): "what a run may add on disk in all: in the worktree or its layer, the home inside and what else it may write to";
    "limits.inodes" ("a number", Both): "files and directories that a run may add there";
    "limits.io" ("bytes, `50m`, `none`", Both): "bytes read from, and as many written to, the worktree's disk in a second; where no control group can hold it, nothing is started";
    "limits.tmp" ("bytes, `64m`, `25% up to 8g`", Both): "size of `/tmp`; it counts as memory";
    "limits.wall" ("`30m`, `none`", Both): "how long a run may take";
    "limits.variable" ("a number up to 10240", Both): "characters in the value of a variable that is set";
}

/// The table as Markdown, for the docs.
#[must_use]
pub fn reference() -> String {
    let mut out = String::from("| key | holds | for | in a project's file |\n|---|---|---|---|\n");
    for key in KEYS {
        let project = match key.project {
            InProject::Narrows => "narrows",
            InProject::Asks => "under `[ask]`",
            InProject::Both => "narrows; adds under `[ask]`",
            InProject::Refused => "refused",
        };
        out.push_str(&format!("| `{}` | {} | {} | {project} |\n", key.name, key.form, key.about));
    }
    out
}
