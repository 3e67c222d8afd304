//! Turns a plan and what was found into the list of differences; a launch needs an empty one.
//!
//! Invariants: the plan is taken apart without `..`, so a new field does not compile until it is compared here, and a
//! test has one case per measured field; one difference per field, named as in the receipt. How a fact is known is not compared: that is the measuring
//! part's promise, and the receipt shows it.

use std::fmt;

use serde::Serialize;

use super::expected::{
    Expected, PlannedCapabilities, PlannedLandlock, PlannedNamespace, PlannedNamespaces, PlannedSeccomp,
    PlannedStreams,
};
use super::facts::{Capabilities, Facts, Landlock, Measured, Namespaces, Seccomp, Streams};

/// One field that is not as planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The field, such as `seccomp.filter`.
    pub field: String,
    /// What the plan says.
    pub planned: String,
    /// What was found.
    pub found: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, planned, found } = self;
        write!(out, "`{field}`: planned `{planned}`, found `{found}`")
    }
}

/// Compares what was found with the plan.
///
/// # Errors
/// Every field that differs. The sandbox must be killed before its command starts.
pub fn compare(expected: &Expected, facts: &Facts) -> Result<(), Vec<Difference>> {
    let Expected {
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
    } = expected;
    let mut list = Differences::default();
    list.check("host_uid", host_uid, &facts.host_uid);
    list.check("host_gid", host_gid, &facts.host_gid);
    list.check("inside_uid", inside_uid, &facts.inside_uid);
    list.namespaces(namespaces, &facts.namespaces);
    list.check("mounts", mounts, &facts.mounts);
    list.landlock(landlock, &facts.landlock);
    list.seccomp(seccomp, &facts.seccomp);
    list.check("no_new_privs", no_new_privs, &facts.no_new_privs);
    list.capabilities(capabilities, &facts.capabilities);
    for (name, planned) in limits {
        let found = facts.limits.get(name).map(|limit| limit.value);
        list.add(&format!("limits.{name}"), Some(planned) == found.as_ref(), &Some(planned), &found);
    }
    for (name, found) in facts.limits.iter().filter(|(name, _)| !limits.contains_key(*name)) {
        list.add(&format!("limits.{name}"), false, &None::<()>, &found.value);
    }
    list.check("binary", binary, &facts.binary);
    list.streams(streams, &facts.streams);
    list.check("network", network, &facts.network);
    if list.0.is_empty() { Ok(()) } else { Err(list.0) }
}

#[derive(Default)]
struct Differences(Vec<Difference>);

impl Differences {
    fn check<T: PartialEq + Serialize>(&mut self, field: &str, planned: &T, found: &Measured<T>) {
        self.add(field, *planned == found.value, planned, &found.value);
    }

    fn add(&mut self, field: &str, same: bool, planned: &impl Serialize, found: &impl Serialize) {
        if !same {
            self.0.push(Difference { field: field.to_owned(), planned: word(planned), found: word(found) });
        }
    }

    fn namespaces(&mut self, planned: &PlannedNamespaces, found: &Namespaces) {
        let PlannedNamespaces { user, mount, pid, network, ipc, uts, cgroup } = planned;
        for (kind, planned, found) in [
            ("user", user, found.user),
            ("mount", mount, found.mount),
            ("pid", pid, found.pid),
            ("network", network, found.network),
            ("ipc", ipc, found.ipc),
            ("uts", uts, found.uts),
            ("cgroup", cgroup, found.cgroup),
        ] {
            // An inode of 0 is none: it was not read.
            let (same, planned) = match planned {
                PlannedNamespace::Own { not } => (found.value != *not, format!("other than {not}")),
                PlannedNamespace::This(inode) => (found.value == *inode, inode.to_string()),
            };
            self.add(&format!("namespaces.{kind}"), same && found.value != 0, &planned, &found.value);
        }
    }

    fn landlock(&mut self, planned: &PlannedLandlock, found: &Landlock) {
        let PlannedLandlock { abi, handled, scopes } = planned;
        self.check("landlock.abi", abi, &found.abi);
        self.check("landlock.handled", handled, &found.handled);
        self.check("landlock.scopes", scopes, &found.scopes);
    }

    fn seccomp(&mut self, planned: &PlannedSeccomp, found: &Seccomp) {
        let PlannedSeccomp { filter, mode, filters } = planned;
        self.check("seccomp.filter", filter, &found.filter);
        self.check("seccomp.mode", mode, &found.mode);
        self.check("seccomp.filters", filters, &found.filters);
    }

    fn capabilities(&mut self, planned: &PlannedCapabilities, found: &Capabilities) {
        let PlannedCapabilities { inheritable, permitted, effective, bounding, ambient } = planned;
        self.check("capabilities.inheritable", inheritable, &found.inheritable);
        self.check("capabilities.permitted", permitted, &found.permitted);
        self.check("capabilities.effective", effective, &found.effective);
        self.check("capabilities.bounding", bounding, &found.bounding);
        self.check("capabilities.ambient", ambient, &found.ambient);
    }

    fn streams(&mut self, planned: &PlannedStreams, found: &Streams) {
        let PlannedStreams { stdin, stdout, stderr } = planned;
        self.check("streams.stdin", stdin, &found.stdin);
        self.check("streams.stdout", stdout, &found.stdout);
        self.check("streams.stderr", stderr, &found.stderr);
    }
}

/// A value as the receipt writes it, without the quotes of a plain text.
pub(super) fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(text)) => text,
        Ok(serde_json::Value::Null) | Err(_) => "nothing".to_owned(),
        // As it is declared, whatever order a map would have.
        Ok(_) => serde_json::to_string(value).unwrap_or_default(),
    }
}
