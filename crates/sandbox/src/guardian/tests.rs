//! How a tree is watched, and what a plan's covers are.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use super::cover::{How, identity, reads};
use super::item;
use super::tree::{Seen, Tree};
use crate::plan::{Access, Mount, Source};
use crate::profile::{Hidden, built_in};

/// What the profile `dev` hides.
fn hidden() -> Hidden {
    let mut hidden = Hidden::default();
    let patterns = [".env", "*.pem"].map(|text| crate::profile::NamePattern::parse(text).unwrap());
    hidden.add(&patterns);
    assert!(built_in("dev").is_some());
    hidden
}

fn scene() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    (folder, root)
}

fn scanned(tree: &mut Tree, root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    tree.root(root).unwrap();
    tree.scan(root, &hidden(), &mut found).unwrap();
    found.sort();
    found
}

#[test]
fn a_walk_finds_hidden_names_and_leaves_out_what_is_installed_or_a_link() {
    let (_folder, root) = scene();
    for folder in ["a/b", "node_modules/x", ".git", "keys.pem"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    for file in [".env", "a/b/.ENV", "a/x.pem", "node_modules/x/.env", ".git/.env", "keys.pem/.env", "a/env"]
    {
        fs::write(root.join(file), "").unwrap();
    }
    std::os::unix::fs::symlink(&root, root.join("a/loop")).unwrap();
    std::os::unix::fs::symlink("env", root.join("a/.env")).unwrap();
    let found = scanned(&mut Tree::new().unwrap(), &root);
    assert_eq!(found, [".env", "a/b/.ENV", "a/x.pem", "keys.pem"].map(|name| root.join(name)));
}

#[test]
fn root_watches_more_often_than_one_user_may() {
    let most: usize =
        fs::read_to_string("/proc/sys/fs/inotify/max_user_instances").unwrap().trim().parse().unwrap();
    if !rustix::process::geteuid().is_root() || most > 500 {
        return;
    }
    let begin = || rustix::fs::inotify::init(rustix::fs::inotify::CreateFlags::CLOEXEC);
    let all: Vec<_> = (0..=most).map_while(|_| begin().ok()).collect();
    assert!(all.len() <= most, "there is a bound to reach");
    let (tree, user) = (Tree::new(), rustix::process::geteuid());
    drop(all);
    assert!(tree.is_ok() && user.is_root(), "{tree:?}");
}

#[test]
fn what_comes_goes_and_moves_is_seen_where_it_is_now() {
    let (_folder, root) = scene();
    fs::create_dir(root.join("a")).unwrap();
    let mut tree = Tree::new().unwrap();
    scanned(&mut tree, &root);
    fs::rename(root.join("a"), root.join("b")).unwrap();
    let entry = |name: &str, is_folder, is_gone| Seen::Entry { path: root.join(name), is_folder, is_gone };
    assert_eq!(tree.seen().unwrap(), [entry("a", true, true), entry("b", true, false)]);
    // The walk over the new name tells the watch where it is.
    scanned(&mut tree, &root);
    fs::write(root.join("b/.env"), "").unwrap();
    fs::remove_file(root.join("b/.env")).unwrap();
    assert_eq!(tree.seen().unwrap(), [entry("b/.env", false, false), entry("b/.env", false, true)]);
    assert_eq!(tree.seen().unwrap(), []);
}

#[test]
fn more_than_the_kernel_keeps_is_told() {
    let (_folder, root) = scene();
    let most: usize =
        fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap().trim().parse().unwrap();
    let mut tree = Tree::new().unwrap();
    scanned(&mut tree, &root);
    for number in 0..most / 2 + 10 {
        let path = root.join(number.to_string());
        fs::write(&path, "").unwrap();
        fs::remove_file(path).unwrap();
    }
    assert!(tree.seen().unwrap().contains(&Seen::Overflow));
}

#[test]
fn what_cannot_be_watched_is_still_looked_through() {
    let (_folder, root) = scene();
    fs::create_dir_all(root.join("a/b/c")).unwrap();
    fs::write(root.join("a/b/c/.env"), "").unwrap();
    let mut tree = Tree::new().unwrap().at_most(2);
    assert_eq!(scanned(&mut tree, &root), [root.join("a/b/c/.env")]);
    assert!(tree.is_partial());
    assert!(tree.watch(&root.join("a/b/c")).unwrap_err().to_string().contains("max_user_watches"));
}

#[test]
fn what_is_deeper_than_a_path_can_say_is_passed_by() {
    use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
    let (_folder, root) = scene();
    fs::write(root.join(".env"), "").unwrap();
    let (name, flags) = ("d".repeat(240), OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC);
    let mut above = openat(CWD, &root, flags, Mode::empty()).unwrap();
    for _ in 0..20 {
        mkdirat(&above, &name, Mode::from_raw_mode(0o755)).unwrap();
        above = openat(&above, &name, flags, Mode::empty()).unwrap();
    }
    let mut tree = Tree::new().unwrap();
    assert_eq!(scanned(&mut tree, &root), [root.join(".env")]);
    assert!(tree.is_partial());
}

#[test]
fn a_link_on_the_way_is_not_followed() {
    let (_folder, root) = scene();
    fs::create_dir_all(root.join("w")).unwrap();
    fs::create_dir_all(root.join("elsewhere")).unwrap();
    fs::write(root.join("elsewhere/.env"), "").unwrap();
    std::os::unix::fs::symlink(root.join("elsewhere"), root.join("w/sub")).unwrap();
    let mut tree = Tree::new().unwrap();
    scanned(&mut tree, &root.join("w"));
    let mut found = Vec::new();
    tree.scan(&root.join("w/sub"), &hidden(), &mut found).unwrap();
    assert_eq!(found, [] as [PathBuf; 0]);
}

#[test]
fn a_cover_on_the_hosts_own_files_is_kept_and_one_on_a_layer_is_not() {
    let host = |path: &str, access| Mount::host(path, path, access);
    let nothing = |path: &str| Mount::own(Source::Nothing, path, Access::Read);
    let mounts = [
        host("/w", Access::Write),
        Mount::host("/home/ana/.cargo", "/home/agent/.cargo", Access::Read),
        host("/w/.github", Access::Write),
        host("/w/.mcp.json", Access::Read),
        nothing("/w/.env"),
        nothing("/home/agent/.cargo/credentials.toml"),
        Mount::own(Source::Memory(1, 0o755), "/tmp", Access::Write),
        nothing("/tmp/x"),
    ];
    let all: Vec<&Mount> = mounts.iter().collect();
    let must = BTreeSet::from(["/w/.mcp.json".into(), "/w/.github".into()]);
    let items: Vec<_> = all.iter().filter_map(|mount| item(mount, &all, &must)).collect();
    let told: Vec<_> = items.iter().map(|item| (item.host.to_str().unwrap(), item.how, item.must)).collect();
    let expected = [
        ("/w/.github", How::Write, true),
        ("/w/.mcp.json", How::Read, true),
        ("/w/.env", How::Nothing, false),
        ("/home/ana/.cargo/credentials.toml", How::Nothing, false),
    ];
    assert_eq!(told, expected);
}

#[test]
fn who_has_a_file_open_to_be_read_is_known() {
    let (_folder, root) = scene();
    let path = root.join(".env");
    let writes = fs::File::create(&path).unwrap();
    let (device, number, links) = identity(&writes.as_fd().try_clone_to_owned().unwrap()).unwrap();
    assert_eq!(links, 1);
    let own = rustix::process::getpid();
    assert!(!reads(own, &[(device, number)]), "it can only be written");
    let read = fs::File::open(&path).unwrap();
    assert!(reads(own, &[(device, number)]));
    drop(read);
    assert!(!reads(own, &[(device, number)]));
}
