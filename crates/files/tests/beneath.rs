//! What is read and written beneath a directory, and what is refused.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use files::{FileError, Root, Rule};

struct Place {
    folder: tempfile::TempDir,
    root: Root,
}

impl Place {
    /// `inside`, which is the root, and `outside` beside it with a secret.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["inside/sub", "outside"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        fs::write(folder.path().join("outside/secret"), "secret").unwrap();
        fs::write(folder.path().join("inside/sub/note"), "note").unwrap();
        let root = Root::open(&folder.path().join("inside")).unwrap();
        Self { folder, root }
    }

    fn at(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, FileError> {
        self.root.read(Path::new(path), 100, Rule::Any)
    }

    fn write(&self, path: &str, text: &str) -> Result<(), FileError> {
        self.root.write(Path::new(path), text.as_bytes())
    }

    /// Everything in a directory, by name.
    fn names(&self, name: &str) -> Vec<String> {
        let entries = fs::read_dir(self.at(name)).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn wt_18_what_is_beneath_is_read_and_replaced_whole() {
    let place = Place::new();
    assert_eq!(place.read("sub/note").unwrap(), b"note");
    place.write("sub/note", "other").unwrap();
    assert_eq!(place.read("sub/note").unwrap(), b"other");
    place.write("new", "").unwrap();
    assert_eq!(place.read("new").unwrap(), b"");
    assert_eq!(place.names("inside/sub"), ["note"], "no draft is left");
    assert!(matches!(place.read("missing"), Err(FileError::Missing)));
    assert!(matches!(place.read("sub/note/x"), Err(FileError::Missing)));
    assert!(matches!(place.write("missing/x", "x"), Err(FileError::Missing)));
    place.root.remove(Path::new("new")).unwrap();
    assert_eq!(place.names("inside"), ["sub"]);
}

#[test]
fn wt_18_paths_that_lead_elsewhere_are_refused_and_touch_nothing() {
    let place = Place::new();
    symlink(place.at("outside"), place.at("inside/out")).unwrap();
    symlink("sub", place.at("inside/own")).unwrap();
    symlink(place.at("outside/secret"), place.at("inside/link")).unwrap();
    symlink("/proc/self/root", place.at("inside/magic")).unwrap();
    let outside = place.at("outside/secret");
    let absolute = outside.to_str().unwrap();
    for path in
        ["../outside/secret", "sub/../../outside/secret", absolute, "/etc/passwd", "", ".", "..", "sub/.."]
    {
        assert!(matches!(place.read(path), Err(FileError::Outside)), "{path}: {:?}", place.read(path));
        let written = place.write(path, "x");
        assert!(written.is_err(), "{path}: {written:?}");
    }
    // A link is refused wherever it leads, also when that is beneath.
    for path in ["out/secret", "own/note", "link", "magic/etc/passwd", "out/new"] {
        assert!(matches!(place.read(path), Err(FileError::NotPlain)), "{path}: {:?}", place.read(path));
        assert!(matches!(place.write(path, "x"), Err(FileError::NotPlain)), "{path}");
        assert!(place.root.remove(Path::new(path)).is_err(), "{path}");
    }
    for path in ["../outside/secret", "sub/../../outside/secret", absolute, "", ".", ".."] {
        assert!(place.root.remove(Path::new(path)).is_err(), "{path}");
    }
    // The link itself stays too: it is no plain file.
    assert!(matches!(place.root.remove(Path::new("link")), Err(FileError::NotPlain)));
    assert_eq!(fs::read_to_string(outside).unwrap(), "secret");
    assert_eq!(place.names("outside"), ["secret"]);
    assert_eq!(place.names("inside"), ["link", "magic", "out", "own", "sub"]);
}

#[test]
fn what_is_no_plain_file_is_left_alone_and_not_waited_for() {
    let place = Place::new();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, place.at("inside/pipe"), rustix::fs::FileType::Fifo, mode, 0)
        .unwrap();
    let _listening = UnixListener::bind(place.at("inside/socket")).unwrap();
    for path in ["pipe", "socket", "sub"] {
        assert!(matches!(place.read(path), Err(FileError::NotPlain)), "{path}");
        assert!(matches!(place.write(path, "x"), Err(FileError::NotPlain)), "{path}");
        assert!(matches!(place.root.remove(Path::new(path)), Err(FileError::NotPlain)), "{path}");
    }
    assert_eq!(place.names("inside"), ["pipe", "socket", "sub"]);
    assert!(matches!(files::read(Path::new("/dev/zero"), 10, Rule::Any), Err(FileError::NotPlain)));
    assert!(matches!(files::read(&place.at("inside/pipe"), 10, Rule::Any), Err(FileError::NotPlain)));
    // By its whole path a file may lie behind a link: whoever named it placed it.
    symlink(place.at("outside/secret"), place.at("link")).unwrap();
    assert_eq!(files::read(&place.at("link"), 10, Rule::Any).unwrap(), b"secret");
}

#[test]
fn what_is_read_is_bounded() {
    let place = Place::new();
    place.write("long", &"x".repeat(101)).unwrap();
    assert!(matches!(place.read("long"), Err(FileError::Long(100))));
    place.write("long", &"x".repeat(100)).unwrap();
    assert_eq!(place.read("long").unwrap().len(), 100);
}

#[test]
fn wt_18_permissions_are_kept_and_other_names_keep_the_old_content() {
    let place = Place::new();
    for mode in [0o640, 0o755, 0o400] {
        fs::set_permissions(place.at("inside/sub/note"), fs::Permissions::from_mode(mode)).unwrap();
        place.write("sub/note", "x").unwrap();
        assert_eq!(fs::metadata(place.at("inside/sub/note")).unwrap().mode() & 0o7777, mode);
    }
    fs::set_permissions(place.at("inside/sub/note"), fs::Permissions::from_mode(0o4755)).unwrap();
    place.write("sub/note", "x").unwrap();
    assert_eq!(fs::metadata(place.at("inside/sub/note")).unwrap().mode() & 0o7777, 0o755, "no set-id bit");
    place.write("fresh", "x").unwrap();
    assert_eq!(fs::metadata(place.at("inside/fresh")).unwrap().mode() & 0o7777, 0o600);
    fs::hard_link(place.at("outside/secret"), place.at("inside/second")).unwrap();
    place.write("second", "x").unwrap();
    assert_eq!(fs::read_to_string(place.at("outside/secret")).unwrap(), "secret");
    assert_eq!(place.read("second").unwrap(), b"x");
}

#[test]
fn a_new_file_never_replaces_one() {
    let place = Place::new();
    let create = |path: &str| place.root.create(Path::new(path), b"new");
    create("sub/new").unwrap();
    assert_eq!(fs::metadata(place.at("inside/sub/new")).unwrap().mode() & 0o7777, 0o600);
    symlink("nowhere", place.at("inside/sub/link")).unwrap();
    for path in ["sub/new", "sub/note", "sub/link"] {
        assert!(matches!(create(path), Err(FileError::Taken)), "{path}");
    }
    assert_eq!(place.names("inside/sub"), ["link", "new", "note"]);
    assert_eq!(place.read("sub/note").unwrap(), b"note");
}

#[test]
fn a_private_file_is_the_callers_alone() {
    let place = Place::new();
    let private = || place.root.read(Path::new("key"), 100, Rule::Private);
    place.write("key", "key").unwrap();
    assert_eq!(private().unwrap(), b"key");
    for mode in [0o640, 0o604, 0o620] {
        fs::set_permissions(place.at("inside/key"), fs::Permissions::from_mode(mode)).unwrap();
        assert!(matches!(private(), Err(FileError::Shared)), "{mode:o}");
    }
    fs::set_permissions(place.at("inside/key"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::hard_link(place.at("inside/key"), place.at("outside/key")).unwrap();
    assert!(matches!(private(), Err(FileError::Shared)), "a second name");
}

/// Takes the one call that resolves beneath a directory from this thread, as the filter of a sandbox does.
fn without_openat2() {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
    let rules = [(libc::SYS_openat2, Vec::new())].into_iter().collect();
    let missing = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    let here = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, missing, here).unwrap();
    let program: BpfProgram = filter.try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
    let flags = (rustix::fs::OFlags::PATH, rustix::fs::ResolveFlags::BENEATH);
    let tried = rustix::fs::openat2(rustix::fs::CWD, ".", flags.0, rustix::fs::Mode::empty(), flags.1);
    assert_eq!(tried.unwrap_err(), rustix::io::Errno::NOSYS, "the filter does not hold");
}

#[test]
fn inside_a_sandbox_without_that_call_the_same_is_read_and_refused() {
    // A filter holds for the thread that takes it.
    let inside = std::thread::spawn(|| {
        without_openat2();
        let place = Place::new();
        assert_eq!(place.read("sub/note").unwrap(), b"note");
        place.write("sub/note", "other").unwrap();
        place.root.create(Path::new("sub/made"), b"made").unwrap();
        assert_eq!(place.read("sub/note").unwrap(), b"other");
        place.root.remove(Path::new("sub/made")).unwrap();
        assert_eq!(place.names("inside/sub"), ["note"]);
        assert_eq!(
            place.root.folder(Path::new("sub")).unwrap().read(Path::new("note"), 9, Rule::Any).unwrap(),
            b"other"
        );
        symlink("../outside", place.at("inside/away")).unwrap();
        symlink("../../outside/secret", place.at("inside/sub/link")).unwrap();
        symlink("sub", place.at("inside/round")).unwrap();
        for path in
            ["away/secret", "sub/link", "round/note", "sub/../../outside/secret", "/etc/passwd", "", "."]
        {
            let refused = place.read(path);
            assert!(matches!(refused, Err(FileError::NotPlain | FileError::Outside)), "{path}: {refused:?}");
            let refused = place.write(path, "x");
            assert!(matches!(refused, Err(FileError::NotPlain | FileError::Outside)), "{path}: {refused:?}");
        }
        assert!(matches!(place.root.folder(Path::new("away")), Err(FileError::NotPlain)));
        for path in ["missing", "missing/x", "sub/note/x"] {
            assert!(matches!(place.read(path), Err(FileError::Missing)), "{path}");
        }
        assert_eq!(fs::read(place.at("outside/secret")).unwrap(), b"secret");
    });
    inside.join().unwrap();
}
