//! Turns facts into findings: pure, in the order in which a person would put things right.

use super::clues::{Clues, Remedy, Wall};
use super::facts::{Agent, Directory, Facts};
use super::trial::Trial;
use super::{Finding, Severity, Status};

/// Below this the ledger and the receipts cannot be written.
const LEAST_FREE: u64 = 64 << 20;
/// Below this a build will soon fail.
const LITTLE_FREE: u64 = 2 << 30;
/// As many sandboxes as a daemon has at work at once, and some for editors and the like.
const MANY_WATCHES: u64 = 512;
/// Below this a person notices.
const FEW_WATCHES: u64 = 32;

/// What there is to say about this host.
#[must_use]
pub fn judge(facts: &Facts) -> Vec<Finding> {
    let clues = &facts.clues;
    let mut all = vec![kernel(clues)];
    all.push(tried(
        clues,
        "user_namespaces",
        Wall::UserNamespaces,
        facts.user_namespaces,
        Severity::Required,
    ));
    for (name, trial) in &facts.namespaces {
        all.push(tried(clues, namespace(name), Wall::Namespace(name), *trial, Severity::Required));
    }
    all.push(tried(clues, "mounts", Wall::Mounts, facts.mounts, Severity::Required));
    all.push(tried(clues, "proc", Wall::Processes, facts.processes, Severity::Required));
    all.push(tried(clues, "terminals", Wall::Terminal, facts.terminals, Severity::Required));
    all.push(landlock(facts));
    all.push(tried(clues, "seccomp", Wall::Seccomp, facts.filter, Severity::Required));
    all.push(tried(clues, "no_new_privs", Wall::Privileges, facts.no_new_privs, Severity::Required));
    all.push(tried(clues, "overlay", Wall::Overlay, facts.overlay, Severity::Required));
    if let Some(trial) = facts.owners {
        all.push(tried(clues, "idmapped_mounts", Wall::Owners, trial, Severity::Required));
    }
    all.extend(control_groups(facts));
    all.extend(facts.watches.map(watches));
    all.push(disk(facts));
    all.extend(facts.directories.iter().map(directory));
    all.extend(ledger(facts));
    all.extend(agents(&facts.agents));
    all.push(git(facts.git.as_deref()));
    all
}

fn namespace(name: &str) -> &'static str {
    match name {
        "mount" => "mount_namespace",
        "pid" => "pid_namespace",
        "network" => "network_namespace",
        "ipc" => "ipc_namespace",
        "uts" => "uts_namespace",
        _ => "cgroup_namespace",
    }
}

fn good(id: &'static str, layer: &'static str, severity: Severity, found: impl Into<String>) -> Finding {
    Finding { id, layer, severity, status: Status::Ok, found: found.into(), cause: None, fix: None }
}

fn bad(
    id: &'static str,
    layer: &'static str,
    severity: Severity,
    found: &str,
    cause: String,
    fix: String,
) -> Finding {
    let (cause, fix) = (Some(cause), Some(fix));
    Finding { id, layer, severity, status: Status::Fails, found: found.into(), cause, fix }
}

fn tried(clues: &Clues, id: &'static str, wall: Wall, trial: Trial, severity: Severity) -> Finding {
    match trial {
        Trial::Works => good(id, wall.layer(), severity, "works"),
        Trial::Fails(error) => {
            let Remedy { layer, cause, fix } = clues.blame(wall, error);
            bad(id, layer, severity, "refused", cause, fix)
        }
        Trial::Untried => Finding {
            status: Status::Unknown,
            cause: Some("needs what failed above".into()),
            ..good(id, wall.layer(), severity, "not tried")
        },
    }
}

fn kernel(clues: &Clues) -> Finding {
    let within = clues.container.map_or_else(String::new, |kind| format!(", in a container ({kind})"));
    let filtered = if clues.filtered { ", under an outer seccomp filter" } else { "" };
    let who = if clues.root { "root" } else { "an ordinary user" };
    good("kernel", "kernel", Severity::Info, format!("Linux {}{within}{filtered}, as {who}", clues.kernel))
}

fn landlock(facts: &Facts) -> Finding {
    match facts.landlock {
        Ok(version) => {
            let note = match version {
                1 | 2 => ", too old to keep files from being emptied by truncate",
                3..=5 => ", without scopes for signals and abstract sockets",
                _ => "",
            };
            good("landlock", "landlock", Severity::Required, format!("version {version}{note}"))
        }
        Err(error) => {
            let Remedy { layer, cause, fix } = facts.clues.blame(Wall::Landlock, error);
            bad("landlock", layer, Severity::Required, "missing", cause, fix)
        }
    }
}

/// Recommended, since limits are watched where they cannot be enforced; a profile can require them.
fn control_groups(facts: &Facts) -> Vec<Finding> {
    let layer = Wall::ControlGroups.layer();
    let controllers = [("memory", "cgroup_memory"), ("pids", "cgroup_pids"), ("cpu", "cgroup_cpu")];
    let fix = "start it as `systemd-run --user --scope -p Delegate=yes palisade run …`; for every login: `sudo mkdir -p \
         /etc/systemd/system/user@.service.d && printf '[Service]\\nDelegate=cpu memory pids io\\n' | sudo tee \
         /etc/systemd/system/user@.service.d/delegate.conf && sudo systemctl daemon-reload`";
    let mut all: Vec<Finding> = controllers
        .into_iter()
        .map(|(name, id)| {
            if facts.limits.held.contains(name) {
                return good(id, layer, Severity::Recommended, "a limit holds");
            }
            let cause = format!(
                "the controller `{name}` is not delegated to this user; the limit is watched instead"
            );
            bad(id, layer, Severity::Recommended, "not enforced", cause, fix.into())
        })
        .collect();
    all.push(if facts.limits.freezes {
        good("cgroup_freeze", layer, Severity::Recommended, "all processes stop at once")
    } else {
        let cause = "no control group of version 2 can be made; processes are stopped one by one".into();
        bad("cgroup_freeze", layer, Severity::Recommended, "not possible", cause, fix.into())
    });
    all
}

/// Each sandbox has one, besides the user's own programs. Root's are not bounded by it.
fn watches(most: u64) -> Finding {
    let (id, layer) = ("watches", "watches of files");
    let found = format!("{most} at once");
    if most >= MANY_WATCHES {
        return good(id, layer, Severity::Info, found);
    }
    let severity = if most < FEW_WATCHES { Severity::Recommended } else { Severity::Info };
    let cause = format!(
        "`fs.inotify.max_user_instances` is {most}: each sandbox takes one, so this user has at most {most} at once, less what editors \
         and other programs take"
    );
    let fix = "sudo sysctl -w fs.inotify.max_user_instances=1024; for good: `echo fs.inotify.max_user_instances=1024 | sudo tee \
               /etc/sysctl.d/60-palisade.conf`";
    bad(id, layer, severity, &found, cause, fix.into())
}

fn disk(facts: &Facts) -> Finding {
    let (id, layer) = ("disk", "disk");
    let path = facts.directories.first().map(|state| state.path.display().to_string()).unwrap_or_default();
    let fix =
        format!("make room on the file system of `{path}`, or set XDG_STATE_HOME to a directory with more");
    let Some(free) = facts.free else {
        let cause = format!("the file system of `{path}` cannot be asked");
        return bad(id, layer, Severity::Recommended, "unknown", cause, fix);
    };
    let found = format!("{} MiB free", free >> 20);
    match free {
        ..LEAST_FREE => {
            bad(id, layer, Severity::Required, &found, "no run can be recorded on a full disk".into(), fix)
        }
        LEAST_FREE..LITTLE_FREE => {
            bad(id, layer, Severity::Recommended, &found, "builds and layers will soon fill it".into(), fix)
        }
        LITTLE_FREE.. => good(id, layer, Severity::Required, found),
    }
}

fn directory(directory: &Directory) -> Finding {
    let (id, layer) = match directory.name {
        "state" => ("state_directory", "files"),
        _ => ("config_directory", "files"),
    };
    let path = directory.path.display();
    let Some(mode) = directory.mode else {
        return good(id, layer, Severity::Required, format!("`{path}` is made at the first use"));
    };
    let found = format!("`{path}`, mode {mode:03o}");
    if !directory.is_own {
        let fix = format!("sudo chown -R \"$(id -u):$(id -g)\" '{path}'");
        return bad(
            id,
            layer,
            Severity::Required,
            &found,
            "somebody else owns it, and could change it".into(),
            fix,
        );
    }
    if mode & 0o022 != 0 {
        let cause = "others may write to it, and so change what your sandboxes are given".into();
        return bad(id, layer, Severity::Required, &found, cause, format!("chmod 700 '{path}'"));
    }
    if directory.name == "state" && mode & 0o077 != 0 {
        let cause = "others may read what your agents keep".into();
        return bad(id, layer, Severity::Recommended, &found, cause, format!("chmod 700 '{path}'"));
    }
    good(id, layer, Severity::Required, found)
}

fn ledger(facts: &Facts) -> Vec<Finding> {
    let layer = "ledger";
    let lost = "the entries and receipts of this user can no longer be checked or gone on with";
    let presence = match (facts.ledger, facts.key) {
        (false, None) => good("ledger", layer, Severity::Info, "made at the first run"),
        (true, None) => {
            let fix = "put `ledger.key` back into the state directory from a backup; to begin anew, move `ledger` away";
            bad(
                "ledger",
                layer,
                Severity::Required,
                "the ledger is there and its key is not",
                lost.into(),
                fix.into(),
            )
        }
        (false, Some(_)) => good("ledger", layer, Severity::Info, "the key is there, no run is recorded yet"),
        (true, Some(_)) => good("ledger", layer, Severity::Info, "there, with its key"),
    };
    let key = facts.key.filter(|mode| mode & 0o077 != 0).map(|mode| {
        let cause = "others may read the key, and so forge entries and receipts".into();
        let fix = "chmod 600 \"${XDG_STATE_HOME:-$HOME/.local/state}/palisade/ledger.key\"".into();
        bad("ledger_key", layer, Severity::Required, &format!("mode {mode:03o}"), cause, fix)
    });
    std::iter::once(presence).chain(key).collect()
}

fn agents(agents: &[Agent]) -> Vec<Finding> {
    let layer = "agents";
    let one = |agent: &Agent| {
        let id = match agent.name {
            "claude" => "agent_claude",
            "codex" => "agent_codex",
            "gemini" => "agent_gemini",
            _ => "agent_opencode",
        };
        match &agent.path {
            None => {
                let cause = format!("`{}` is not on the PATH", agent.name);
                let fix = format!("install it, or leave it: {}", install(agent.name));
                bad(id, layer, Severity::Info, "not found", cause, fix)
            }
            Some(path) if agent.is_inside => good(id, layer, Severity::Info, format!("`{}`", path.display())),
            Some(path) => {
                let cause = "the profile `dev` does not show this place".into();
                let folder = path.parent().unwrap_or(path).display();
                let fix = format!("palisade run --ro '{folder}' -- {}", agent.name);
                bad(id, layer, Severity::Recommended, &format!("`{}`", path.display()), cause, fix)
            }
        }
    };
    agents.iter().map(one).collect()
}

fn install(agent: &str) -> &'static str {
    match agent {
        "claude" => "npm install -g @anthropic-ai/claude-code",
        "codex" => "npm install -g @openai/codex",
        "gemini" => "npm install -g @google/gemini-cli",
        _ => "npm install -g opencode-ai",
    }
}

fn git(version: Option<&str>) -> Finding {
    match version {
        Some(version) => good("git", "git", Severity::Recommended, version),
        None => {
            let cause = "`git` is not on the PATH, so commits cannot be brought back".into();
            bad("git", "git", Severity::Recommended, "not found", cause, "sudo apt-get install git".into())
        }
    }
}
