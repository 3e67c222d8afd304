//! Turns a receipt into a table for people.
//!
//! Invariants: a degraded sandbox says so in the first lines, in capitals; every fact stands with how it is known;
//! nothing that a terminal would act on is printed as it is; all is taken apart without `..`, so a new field does not
//! compile until it is shown. Not here: whether the receipt is genuine.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::Receipt;
use super::compare::word;
use super::facts::{
    Binary, Capabilities, Facts, Landlock, Limit, Measured, Mounts, Namespaces, Seccomp, Streams,
};

/// The receipt as a table: field, how it is known, value.
#[must_use]
pub fn show(receipt: &Receipt) -> String {
    let Receipt {
        version,
        run,
        at,
        host,
        build,
        command,
        cwd,
        worktree,
        profile,
        degraded,
        published,
        rules,
        facts,
    } = receipt;
    let mut table = Table::default();
    for it in degraded {
        table.said("DEGRADED", format!("{}: {}", it.layer.word(), it.reason));
    }
    table.said("run", run.to_string());
    table.said("at", format!("{at} ms since the epoch"));
    table.said("version", version.to_string());
    table.said("build", build.clone());
    table.said("kernel", host.kernel.clone());
    table.said("boot", host.boot_id.clone());
    table.said("command", command.join(" "));
    table.said("cwd", cwd.clone());
    table.said("worktree", worktree.clone().unwrap_or_else(|| "none".to_owned()));
    table.said("profile", format!("{} sha256 {}", profile.name, profile.sha256));
    for port in published {
        table.said("published", port.clone());
    }
    if let Some(rules) = rules {
        table.said("rules", format!("sha256 {rules}"));
    }
    table.facts(facts);
    table.text()
}

#[derive(Default)]
struct Table(Vec<[String; 3]>);

impl Table {
    /// What the launcher says.
    fn said(&mut self, name: &str, value: String) {
        self.0.push([name.to_owned(), "-".to_owned(), value]);
    }

    fn add<T>(&mut self, name: &str, fact: &Measured<T>, text: impl Fn(&T) -> String) {
        self.0.push([name.to_owned(), fact.how.word().to_owned(), text(&fact.value)]);
    }

    fn plain<T: serde::Serialize>(&mut self, name: &str, fact: &Measured<T>) {
        self.add(name, fact, word);
    }

    fn facts(&mut self, facts: &Facts) {
        let Facts {
            host_uid,
            host_gid,
            inside_uid,
            namespaces,
            mounts,
            landlock,
            seccomp,
            no_new_privs,
            capabilities,
            limits,
            binary,
            streams,
            network,
        } = facts;
        self.plain("host_uid", host_uid);
        self.plain("host_gid", host_gid);
        self.plain("inside_uid", inside_uid);
        self.namespaces(namespaces);
        self.add("mounts", mounts, |Mounts { sha256, count }| format!("{count}, sha256 {sha256}"));
        let Landlock { abi, handled, scopes } = landlock;
        self.plain("landlock.abi", abi);
        self.add("landlock.handled", handled, names);
        self.add("landlock.scopes", scopes, names);
        let Seccomp { filter, mode, filters } = seccomp;
        self.add("seccomp.filter", filter, |filter| format!("sha256 {filter}"));
        self.plain("seccomp.mode", mode);
        self.plain("seccomp.filters", filters);
        self.plain("no_new_privs", no_new_privs);
        self.capabilities(capabilities);
        for (name, limit) in limits {
            self.add(&format!("limits.{name}"), limit, |Limit { value, by }| {
                format!("{value} ({})", by.word())
            });
        }
        self.add("binary", binary, |Binary { path, sha256 }| format!("{path} sha256 {sha256}"));
        let Streams { stdin, stdout, stderr } = streams;
        self.plain("streams.stdin", stdin);
        self.plain("streams.stdout", stdout);
        self.plain("streams.stderr", stderr);
        self.plain("network", network);
    }

    fn namespaces(&mut self, found: &Namespaces) {
        let Namespaces { user, mount, pid, network, ipc, uts, cgroup } = found;
        self.plain("namespaces.user", user);
        self.plain("namespaces.mount", mount);
        self.plain("namespaces.pid", pid);
        self.plain("namespaces.network", network);
        self.plain("namespaces.ipc", ipc);
        self.plain("namespaces.uts", uts);
        self.plain("namespaces.cgroup", cgroup);
    }

    fn capabilities(&mut self, found: &Capabilities) {
        let Capabilities { inheritable, permitted, effective, bounding, ambient } = found;
        self.plain("capabilities.inheritable", inheritable);
        self.plain("capabilities.permitted", permitted);
        self.plain("capabilities.effective", effective);
        self.plain("capabilities.bounding", bounding);
        self.plain("capabilities.ambient", ambient);
    }

    fn text(&self) -> String {
        let width = self.0.iter().map(|[name, ..]| printable(name).chars().count()).max().unwrap_or(0);
        self.0.iter().fold(String::new(), |mut out, [name, how, value]| {
            // Writing to a `String` cannot fail.
            let _ = writeln!(out, "{:width$}  {how:8}  {}", printable(name), printable(value));
            out
        })
    }
}

fn names(set: &BTreeSet<String>) -> String {
    if set.is_empty() {
        return "none".to_owned();
    }
    set.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// A text without anything that a terminal would act on or hide.
fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for symbol in text.chars() {
        match symbol {
            '"' | '\'' | '\\' => out.push(symbol),
            symbol => out.extend(symbol.escape_debug()),
        }
    }
    out
}
