//! SBX-09: measured ≠ planned refuses the launch, and names the field.

use std::collections::BTreeSet;

use super::kit::{expected, facts, mount, names};
use crate::receipt::*;

/// The same change to what was found gives exactly one difference, with this name.
#[track_caller]
fn one(field: &str, change: impl FnOnce(&mut Facts)) {
    let mut found = facts();
    change(&mut found);
    let list = compare(&expected(), &found).unwrap_err();
    let fields: Vec<&str> = list.iter().map(|it| it.field.as_str()).collect();
    assert_eq!(fields, [field]);
    assert_ne!(list[0].planned, list[0].found, "{}", list[0]);
}

macro_rules! one_test_per_field {
    ($($name:ident: $field:literal, $change:expr;)*) => {
        $(
            #[test]
            fn $name() {
                one($field, $change);
            }
        )*

        const TESTED: &[&str] = &[$($field),*];
    };
}

one_test_per_field! {
    sbx_09_another_host_uid_is_refused: "host_uid", |it| it.host_uid.value = 0;
    sbx_09_another_host_gid_is_refused: "host_gid", |it| it.host_gid.value = 0;
    sbx_09_another_inside_uid_is_refused: "inside_uid", |it| it.inside_uid.value = 0;
    sbx_09_the_launchers_user_namespace_is_refused: "namespaces.user", |it| it.namespaces.user.value = 1;
    sbx_09_the_launchers_mount_namespace_is_refused: "namespaces.mount", |it| it.namespaces.mount.value = 2;
    sbx_09_the_launchers_pid_namespace_is_refused: "namespaces.pid", |it| it.namespaces.pid.value = 3;
    sbx_09_the_launchers_network_namespace_is_refused: "namespaces.network", |it| it.namespaces.network.value = 4;
    sbx_09_the_launchers_ipc_namespace_is_refused: "namespaces.ipc", |it| it.namespaces.ipc.value = 5;
    sbx_09_a_namespace_that_was_not_read_is_refused: "namespaces.uts", |it| it.namespaces.uts.value = 0;
    sbx_09_another_shared_namespace_is_refused: "namespaces.cgroup", |it| it.namespaces.cgroup.value = 18;
    sbx_09_another_mount_table_is_refused: "mounts", |it| it.mounts.value.sha256 = Digest::of(b"other");
    sbx_09_another_landlock_abi_is_refused: "landlock.abi", |it| it.landlock.abi.value = 5;
    sbx_09_fewer_landlock_rights_are_refused: "landlock.handled", |it| it.landlock.handled.value = names(&["execute"]);
    sbx_09_fewer_landlock_scopes_are_refused: "landlock.scopes", |it| it.landlock.scopes.value.clear();
    sbx_09_another_filter_is_refused: "seccomp.filter", |it| it.seccomp.filter.value = Digest::of(b"other");
    sbx_09_another_seccomp_mode_is_refused: "seccomp.mode", |it| it.seccomp.mode.value = 0;
    sbx_09_fewer_filters_are_refused: "seccomp.filters", |it| it.seccomp.filters.value = 1;
    sbx_09_new_privileges_are_refused: "no_new_privs", |it| it.no_new_privs.value = false;
    sbx_09_inheritable_capabilities_are_refused: "capabilities.inheritable", |it| it.capabilities.inheritable.value = CapSet(1);
    sbx_09_permitted_capabilities_are_refused: "capabilities.permitted", |it| it.capabilities.permitted.value = CapSet(1 << 21);
    sbx_09_effective_capabilities_are_refused: "capabilities.effective", |it| it.capabilities.effective.value = CapSet(2);
    sbx_09_bounding_capabilities_are_refused: "capabilities.bounding", |it| it.capabilities.bounding.value = CapSet(1 << 40);
    sbx_09_ambient_capabilities_are_refused: "capabilities.ambient", |it| it.capabilities.ambient.value = CapSet(4);
    sbx_09_a_missing_limit_is_refused: "limits.pids", |it| assert!(it.limits.remove("pids").is_some());
    sbx_09_a_limit_that_is_only_watched_less_is_refused: "limits.memory_bytes", |it| {
        it.limits.get_mut("memory_bytes").unwrap().value.by = Enforcement::Absent;
    };
    sbx_09_another_binary_is_refused: "binary", |it| it.binary.value.sha256 = Digest::of(b"other");
    sbx_09_another_stdin_is_refused: "streams.stdin", |it| it.streams.stdin.value = Stream::Pty;
    sbx_09_another_stdout_is_refused: "streams.stdout", |it| it.streams.stdout.value = Stream::Socket;
    sbx_09_another_network_is_refused: "network", |it| it.network.value = Network::Captured;
    sbx_09_another_stderr_is_refused: "streams.stderr", |it| it.streams.stderr.value = Stream::File;
}

#[test]
fn sbx_09_every_measured_field_has_its_test() {
    fn collect(path: &str, value: &serde_json::Value, out: &mut BTreeSet<String>) {
        let Some(fields) = value.as_object() else { return };
        if fields.contains_key("how") {
            out.insert(path.to_owned());
            return;
        }
        for (name, field) in fields {
            collect(&[path, name].join(if path.is_empty() { "" } else { "." }), field, out);
        }
    }
    let mut found = BTreeSet::new();
    collect("", &serde_json::to_value(facts()).unwrap(), &mut found);
    assert_eq!(found, TESTED.iter().map(|name| (*name).to_owned()).collect());
}

#[test]
fn sbx_09_what_is_as_planned_is_accepted_however_it_is_known() {
    compare(&expected(), &facts()).unwrap();
    let mut probed = facts();
    probed.seccomp.filter.how = How::Probed;
    compare(&expected(), &probed).unwrap();
}

#[test]
fn sbx_09_all_differences_are_named_at_once_in_plain_words() {
    let mut found = facts();
    found.host_uid.value = 0;
    found.seccomp.filters.value = 1;
    found.limits.insert("io".into(), Measured::read(Limit { value: 1, by: Enforcement::Enforced }));
    found.limits.get_mut("pids").unwrap().value.value = 5000;
    found.namespaces.pid.value = 3;
    let list = compare(&expected(), &found).unwrap_err();
    let lines: Vec<String> = list.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "`host_uid`: planned `100000`, found `0`",
            "`namespaces.pid`: planned `other than 3`, found `3`",
            "`seccomp.filters`: planned `2`, found `1`",
            r#"`limits.pids`: planned `{"value":4096,"by":"enforced"}`, found `{"value":5000,"by":"enforced"}`"#,
            r#"`limits.io`: planned `nothing`, found `{"value":1,"by":"enforced"}`"#,
        ]
    );
}

#[test]
fn a_mount_table_has_one_hash_in_any_order_and_another_after_any_change() {
    let table = [mount("/", &["ro"]), mount("/tmp", &["nodev", "nosuid"]), mount("/tmp", &["ro"])];
    let base = Mounts::over(&table);
    assert_eq!(base.count, 3);
    let [root, under, over] = table;
    assert_eq!(Mounts::over(&[under.clone(), over.clone(), root.clone()]), base);
    let others = [
        vec![root.clone(), over.clone(), under.clone()], // what lies on top is another one
        vec![root.clone(), under.clone()],
        vec![MountEntry { root: "/x".into(), ..root.clone() }, under.clone(), over.clone()],
        vec![MountEntry { kind: "ext4".into(), ..root.clone() }, under.clone(), over.clone()],
        vec![mount("/", &["rw"]), under.clone(), over.clone()],
        vec![mount("/", &["r", "o"]), under, over],
    ];
    for other in others {
        assert_ne!(Mounts::over(&other).sha256, base.sha256, "{other:?}");
    }
}
