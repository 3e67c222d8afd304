//! What an upper directory stands for, line by line.

use super::*;

fn check(lower: impl Fn(&Path), upper: impl Fn(&Path), expected: &[&str]) {
    let scene = Scene::new(lower);
    upper(&scene.upper());
    assert_eq!(scene.told(), expected);
}

#[test]
fn every_form_of_the_kernel_is_understood() {
    check(|w| file(&w.join("a"), "a"), |u| file(&u.join("a"), "a"), &[]);
    check(|w| file(&w.join("a"), "a"), |u| file(&u.join("a"), "b"), &["changed a"]);
    check(|w| file(&w.join("a"), "a"), |u| whiteout(&u.join("a")), &["deleted a"]);
    check(|_| (), |u| whiteout(&u.join("never was")), &[]);
    check(|_| (), |u| file(&u.join("d/a"), "a"), &["added d", "added d/a"]);
    check(|w| file(&w.join("d/a"), "a"), |u| whiteout(&u.join("d")), &["deleted d", "deleted d/a"]);
    check(|w| file(&w.join("d/a/b"), "a"), |u| opaque(&u.join("d")), &["deleted d/a", "deleted d/a/b"]);
    // A directory in an opaque one does not shine through, either.
    let inner = |u: &Path| {
        opaque(&u.join("d"));
        file(&u.join("d/a/c"), "c");
    };
    check(|w| file(&w.join("d/a/b"), "a"), inner, &["deleted d/a/b", "added d/a/c"]);
    check(|w| file(&w.join("a"), "a"), |u| symlink("x", u.join("a")).unwrap(), &["type_changed a"]);
    check(
        |w| file(&w.join("d/a"), "a"),
        |u| file(&u.join("d"), "now a file"),
        &["type_changed d", "deleted d/a"],
    );
    let moved = |u: &Path| {
        whiteout(&u.join("a"));
        file(&u.join("b"), "same");
    };
    check(|w| file(&w.join("a"), "same"), moved, &["deleted a", "renamed b"]);
    let empty = |u: &Path| {
        whiteout(&u.join("a"));
        file(&u.join("b"), "");
    };
    check(|w| file(&w.join("a"), ""), empty, &["deleted a", "added b"]);
    let mode_only = |u: &Path| {
        file(&u.join("a"), "a");
        mode(&u.join("a"), 0o751);
    };
    check(|w| file(&w.join("a"), "a"), mode_only, &["mode_changed a"]);
    let by_attribute = |u: &Path| {
        file(&u.join("a"), "");
        attribute(&u.join("a"), "user.overlay.whiteout", b"y");
    };
    check(|w| file(&w.join("a"), "a"), by_attribute, &["deleted a"]);
    let own_attribute = |u: &Path| {
        file(&u.join("a"), "a");
        attribute(&u.join("a"), "user.mine", b"x");
    };
    check(|w| file(&w.join("a"), "a"), own_attribute, &["changed a"]);
    // The root's `.git` has a layer of its own.
    check(|_| (), |u| file(&u.join(".git/hooks/post-checkout"), "evil"), &[]);
    check(|_| (), |u| file(&u.join(".GIT/config"), "evil"), &[]);
}

#[test]
fn a_layer_that_points_elsewhere_is_refused() {
    for name in ["user.overlay.redirect", "user.overlay.metacopy"] {
        let scene = Scene::new(|w| file(&w.join("d/a"), "a"));
        file(&scene.upper().join("d/a"), "b");
        let at = if name.ends_with("redirect") { "d" } else { "d/a" };
        attribute(&scene.upper().join(at), name, b"/etc");
        let error = scene.take().changes().unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
        scene.apply().unwrap_err();
    }
}

#[test]
fn adv_f09_fifos_and_sockets_are_told_and_never_opened_or_applied() {
    let scene = Scene::new(|w| file(&w.join("config"), "c"));
    for (name, kind) in [("config", FileType::Fifo), ("socket", FileType::Socket)] {
        rustix::fs::mknodat(CWD, scene.upper().join(name), kind, Mode::from_raw_mode(0o644), 0).unwrap();
    }
    let began = std::time::Instant::now();
    assert_eq!(scene.told(), ["type_changed config", "added socket"]);
    let applied = scene.apply().unwrap();
    assert!(began.elapsed() < std::time::Duration::from_millis(500));
    assert!(applied.carried.is_empty());
    assert_eq!(applied.left.len(), 2);
    assert_eq!(std::fs::read_to_string(scene.worktree.join("config")).unwrap(), "c");
    assert!(!scene.worktree.join("socket").exists());
}

#[test]
fn adv_f10_set_id_bits_and_overlay_attributes_are_dropped_and_told() {
    let scene = Scene::new(|w| file(&w.join("there"), "t"));
    file(&scene.upper().join("tool"), "t");
    attribute(&scene.upper().join("tool"), "user.overlay.overlay.opaque", b"y");
    mode(&scene.upper().join("tool"), 0o6755);
    file(&scene.upper().join("there"), "t");
    mode(&scene.upper().join("there"), 0o4644);
    let changes = scene.take().changes().unwrap();
    let dropped: Vec<_> = changes.iter().map(|change| change.dropped.clone()).collect();
    assert_eq!(dropped, [vec![Dropped::SetId], vec![Dropped::SetId, Dropped::Attribute]]);
    scene.apply().unwrap();
    for (name, expected) in [("tool", 0o755), ("there", 0o644)] {
        assert_eq!(std::fs::metadata(scene.worktree.join(name)).unwrap().mode() & 0o7777, expected);
    }
    assert!(
        rustix::fs::getxattr(scene.worktree.join("tool"), "user.overlay.opaque", &mut [0u8; 8][..]).is_err()
    );
}

#[test]
fn control_files_stay_where_they_are() {
    let lower = |w: &Path| {
        file(&w.join("sub/.claude/settings.json"), "mine");
        file(&w.join("sub/other"), "o");
        file(&w.join("dir/.claude/x"), "mine");
    };
    let scene = Scene::new(lower);
    file(&scene.upper().join(".claude/settings.json"), "evil");
    whiteout(&scene.upper().join("sub"));
    file(&scene.upper().join("dir"), "a file instead");
    let applied = scene.apply().unwrap();
    let left: Vec<_> = applied.left.iter().map(|left| escaped(&left.path)).collect();
    let expected = [".claude", ".claude/settings.json", "dir", "sub/.claude", "sub/.claude/settings.json"];
    assert_eq!(left, expected);
    assert!(!scene.worktree.join("sub/other").exists());
    assert!(scene.worktree.join("sub/.claude/settings.json").exists());
    assert!(scene.worktree.join("dir/.claude/x").exists());
    assert!(!scene.worktree.join(".claude").exists());
    scene.take().apply(&Apply { with_control: true, ..everything() }).unwrap();
    assert!(!scene.worktree.join("sub").exists());
    assert!(scene.worktree.join(".claude/settings.json").exists());
}

#[test]
fn adv_f08_a_sparse_file_stays_sparse() {
    let scene = Scene::new(|_| ());
    let huge = std::fs::File::create(scene.upper().join("huge")).unwrap();
    huge.set_len(64 << 30).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&huge, b"end", (64 << 30) - 3).unwrap();
    drop(huge);
    let began = std::time::Instant::now();
    scene.apply().unwrap();
    let data = std::fs::metadata(scene.worktree.join("huge")).unwrap();
    assert_eq!(data.len(), 64 << 30);
    assert!(data.blocks() < 1_000, "{} blocks", data.blocks());
    assert!(began.elapsed() < std::time::Duration::from_secs(5));
    scene.undo().unwrap();
}

#[test]
fn hard_links_stay_one_file() {
    let scene = Scene::new(|_| ());
    file(&scene.upper().join("one"), "same");
    std::fs::hard_link(scene.upper().join("one"), scene.upper().join("two")).unwrap();
    scene.apply().unwrap();
    let ino = |name: &str| std::fs::metadata(scene.worktree.join(name)).unwrap().ino();
    assert_eq!(ino("one"), ino("two"));
}

#[test]
fn names_survive_being_written_down() {
    for bytes in
        [&b"plain"[..], b"-rf", b"a\nb", b"\x1b[2J", b"\xff\xfe", b"back\\slash", "\u{202e}x".as_bytes()]
    {
        let path = Path::new(std::ffi::OsStr::from_bytes(bytes));
        let text = escaped(path);
        assert!(text.chars().all(|c| !c.is_control()), "{text:?}");
        assert_eq!(unescaped(&text).as_deref(), Some(path));
    }
}

#[test]
fn adv_f08_anything_can_be_discarded() {
    let scene = Scene::new(|_| ());
    let upper = scene.upper();
    for number in 0..2_000 {
        std::fs::write(upper.join(format!("f{number}")), "x").unwrap();
    }
    // Far deeper than a path can name.
    let mut here = rustix::fs::open(&upper, rustix::fs::OFlags::PATH, Mode::empty()).unwrap();
    for _ in 0..400 {
        let name = "n".repeat(200);
        rustix::fs::mkdirat(&here, &name, Mode::RWXU).unwrap();
        here = rustix::fs::openat(&here, &name, rustix::fs::OFlags::PATH, Mode::empty()).unwrap();
    }
    file(&upper.join("locked/x"), "x");
    mode(&upper.join("locked/x"), 0o000);
    mode(&upper.join("locked"), 0o000);
    file(&upper.join("-rf/na\nme"), "x");
    mode(&folder(&scene.state, &scene.run).join("worktree/work"), 0o000);
    let changes = scene.take().changes().unwrap();
    assert!(changes.iter().any(|change| change.after.is_some_and(|face| face.what == What::TooLong)));
    scene.take().discard().unwrap();
    assert!(!folder(&scene.state, &scene.run).join("worktree").exists());
    assert_eq!(runs(&scene.state).unwrap()[0].record.state, State::Discarded);
}
