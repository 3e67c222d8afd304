//! What a session does to git, and what of it reaches the repository of the daemon: as much as there is of commits, nothing of
//! settings and references, and hostile objects not at all.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use api::CreateSessionRequest;
use tests::{Host, git};

use crate::calls::new_session;
use crate::sessions::{ended, quiet, said, steps};
use crate::trees::ours;

/// Worktrees of one repository, each of which has a session.
struct Ten {
    host: Host,
    repo: String,
    trees: Vec<String>,
    session: String,
}

impl Ten {
    /// The session is that of the first.
    fn new(count: usize) -> Self {
        let host = quiet();
        let owner = host.owner();
        let repo = host.local_repo("demo");
        owner.client.fetch_repo(&repo).unwrap();
        let trees: Vec<String> =
            (0..count).map(|at| owner.worktree(&repo, &format!("w{at}"), "session").id).collect();
        let command = vec!["sh".into()];
        let new = CreateSessionRequest { agent: "command".into(), command, ..new_session(&trees[0]) };
        let session = owner.client.create_session(&new).unwrap().id;
        let ten = Self { host, repo, trees, session };
        // The first run of a worktree has the daemon make a store for what it will commit.
        assert_eq!(ten.does("true").0, "done");
        ten
    }

    fn bare(&self) -> PathBuf {
        ours(&self.host, &self.repo).join(".git")
    }

    fn branch(&self) -> String {
        format!("palisade/{}", self.trees[0])
    }

    /// Does this in the session; how it ended, and what was told meanwhile.
    fn does(&self, script: &str) -> (String, String) {
        let owner = self.host.owner();
        let before = steps(owner, &self.session).len();
        let task = owner.client.prompt_session(&self.session, script).unwrap();
        let end = ended(owner, &self.session, &task.id);
        let told = steps(owner, &self.session).split_off(before);
        (end.state, serde_json::to_string(&told).unwrap())
    }

    fn references(&self) -> Vec<String> {
        let all = git(&self.bare(), &["for-each-ref", "--format=%(refname) %(objectname)"]);
        all.lines().map(str::to_owned).collect()
    }

    /// Files of the repository and of all worktrees but the first, by what is in them.
    fn everything(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        below(&ours(&self.host, &self.repo), &mut found);
        for tree in &self.trees[1..] {
            below(&self.host.data().join("worktrees").join(tree), &mut found);
        }
        found
    }
}

fn below(folder: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        match () {
            () if kind.is_dir() => below(&path, found),
            () if kind.is_symlink() => {
                let to = std::fs::read_link(&path).unwrap();
                found.insert(path, to.into_os_string().into_encoded_bytes());
            }
            () => drop(found.insert(path.clone(), std::fs::read(&path).unwrap())),
        }
    }
}

/// What is another than before, by name.
fn changed(before: &BTreeMap<PathBuf, Vec<u8>>, after: &BTreeMap<PathBuf, Vec<u8>>) -> Vec<PathBuf> {
    let all = before.keys().chain(after.keys());
    let mut names: Vec<PathBuf> = all.filter(|name| before.get(*name) != after.get(*name)).cloned().collect();
    names.sort();
    names.dedup();
    names
}

/// WT-05: inside a session git works, and whatever is written to remotes, settings and references there is seen by nobody else:
/// nine other worktrees and the daemon's repository are the same to the byte.
#[test]
fn wt_05_what_a_session_writes_to_git_is_in_no_other_worktree_and_not_in_the_repository() {
    let ten = Ten::new(10);
    let before = ten.everything();
    assert!(before.len() > 9 * 2, "{:?}", before.keys());
    let (state, told) = ten.does(
        "set -e; echo x > x; git add x; git stash -q; git stash apply -q; git status --porcelain; git diff --cached --stat; git log --oneline -1
        git remote add evil https://evil.example/x; git remote set-url origin https://evil.example/y || git remote add origin https://evil.example/y
        git config core.fsmonitor 'touch /tmp/evil'; git config remote.origin.fetch '+refs/heads/*:refs/heads/*'; git config --add include.path ../evil
        git update-ref refs/heads/main HEAD; git update-ref refs/remotes/origin/trunk $(git commit-tree -m x HEAD^{tree})
        git branch side; git branch -f another HEAD; git tag -f v1; git tag -a -m x v2; git notes add -m note HEAD
        git replace HEAD $(git commit-tree -m replaced HEAD^{tree}); git symbolic-ref refs/heads/sym refs/heads/side
        git pack-refs --all; git reflog expire --expire=now --all; git gc -q --prune=now
        mkdir -p .git/hooks 2>/dev/null && printf '#!/bin/sh\\n' > .git/hooks/post-checkout || true; git worktree list > /dev/null
        git rm -q --cached x; rm x; echo all of it",
    );
    assert_eq!(state, "done", "{told}");
    assert!(told.contains("all of it"), "{told}");
    let after = ten.everything();
    // What was committed beside the branch is kept under the names of its run, and makes the only new objects.
    let own = format!("palisade/own/{}", ten.trees[0]);
    let strange: Vec<PathBuf> = changed(&before, &after)
        .into_iter()
        .filter(|path| {
            let name = path.to_string_lossy();
            let is_kept = name.contains("/refs/palisade/run_");
            // The daemon's view of the one worktree, and what it looked at of it.
            let is_own = name.contains(&own) || name.contains(&format!("/worktrees/{}/", ten.trees[0]));
            !is_kept && !is_own
        })
        .collect();
    assert_eq!(strange, Vec::<PathBuf>::new());
    for tree in &ten.trees[1..] {
        let of = |all: &BTreeMap<PathBuf, Vec<u8>>| {
            all.keys().filter(|path| path.to_string_lossy().contains(tree)).count()
        };
        assert_eq!(of(&before), of(&after));
    }
    let mut names: Vec<String> =
        ten.references().iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    names.retain(|name| !name.starts_with("refs/palisade/run_"));
    let heads = ten.trees.iter().map(|tree| format!("refs/heads/palisade/{tree}"));
    let origin = names.iter().find(|name| name.starts_with("refs/remotes/origin/")).unwrap().clone();
    let mut expected: Vec<String> = heads.chain([origin]).collect();
    names.sort();
    expected.sort();
    names.retain(|name| name != "refs/remotes/origin/HEAD");
    assert_eq!(names, expected);
}

/// WT-07: a thousand commits and a file that no pipe holds arrive as they are, and only what is the session's moves.
#[test]
fn wt_07_a_thousand_commits_and_a_large_file_arrive_from_a_session() {
    let two = Ten::new(2);
    let before = two.references();
    let script = r#"set -e; head -c 33554432 /dev/urandom > large; sha256sum large
        (n=0; while [ $n -lt 1000 ]; do n=$((n+1))
            echo "commit refs/heads/many"; echo "committer A <a@b.c> $((1700000000 + n)) +0000"; echo "data <<E
number $n
E"; [ $n = 1 ] && echo "from $(git rev-parse HEAD)"; echo "M 100644 inline counted"; echo "data <<E
$n
E"; done) | git fast-import --quiet
        git reset -q --hard refs/heads/many; git branch -D -q many; git add large
        git -c user.name=a -c user.email=a@b.c commit -qm large; echo over"#;
    let (state, told) = two.does(script);
    assert_eq!(state, "done", "{told}");
    let bare = two.bare();
    let count = |range: &str| git(&bare, &["rev-list", "--count", range]);
    let base = git(&bare, &["rev-parse", &format!("{}~1001", two.branch())]);
    assert_eq!(count(&format!("{base}..{}", two.branch())), "1001", "{told}");
    assert!(before.iter().any(|line| line.ends_with(&base)), "it begins where the branch was: {before:?}");
    let subjects = git(&bare, &["log", "--format=%s", &two.branch()]);
    let expected: Vec<String> = (1..=1000).rev().map(|n| format!("number {n}")).collect();
    assert_eq!(subjects.lines().skip(1).take(1000).collect::<Vec<_>>(), expected);
    assert_eq!(git(&bare, &["cat-file", "-s", &format!("{}:large", two.branch())]), "33554432");
    // What was printed of it inside is what the tree has.
    let large = two.host.data().join("worktrees").join(&two.trees[0]).join("large");
    let sum = std::process::Command::new("sha256sum").arg(large).output().unwrap();
    let sum = String::from_utf8(sum.stdout).unwrap();
    assert!(told.contains(sum.split(' ').next().unwrap()), "{sum}: {told}");
    assert_eq!(git(&bare, &["fsck", "--strict", "--no-dangling", &two.branch()]), "");
    // Only the session's own names moved.
    let others = |all: Vec<String>| -> Vec<String> {
        all.into_iter()
            .filter(|line| !line.contains(&two.branch()) && !line.contains("refs/palisade/"))
            .collect()
    };
    assert_eq!(others(two.references()), others(before));
    let log = two.host.owner().client.worktree_log(&two.trees[0], None).unwrap();
    assert_eq!(log.items.first().map(|one| one.subject.as_str()), Some("large"));
}

/// Writes a pack with these objects, each with the id that it is to go by, and an index that believes it; then commits a tree with
/// the last of them on the branch.
const CRAFT: &str = r#"
import hashlib, os, struct, subprocess, sys, zlib
def git(*words, **more):
    return subprocess.run(["git", *words], check=True, stdout=subprocess.PIPE, **more).stdout.decode().strip()
def size(n):
    out = bytearray()
    while True:
        out.append(n & 127 | (128 if n > 127 else 0)); n >>= 7
        if not n: return bytes(out)
def head(kind, n):
    first = kind << 4 | n & 15; n >>= 4
    out = bytearray([first | (128 if n else 0)])
    if n: out += size(n)
    return bytes(out)
def whole(data): return head(3, len(data)) + zlib.compress(data)
def delta(base, data): return head(7, len(data)) + base + zlib.compress(data)
def copy(offset, n):
    # Every byte of both, so that any size fits.
    return bytes([0xff & (0x80 | 0x0f | 0x70)]) + struct.pack("<I", offset) + struct.pack("<I", n)[:3]
def blob(data): return hashlib.sha1(b"blob %d\0" % len(data) + data).digest()
def write(objects):
    pack, rows = bytearray(b"PACK" + struct.pack(">II", 2, len(objects))), []
    for name, data in objects:
        rows.append((name, zlib.crc32(data), len(pack))); pack += data
    pack += hashlib.sha1(pack).digest()
    rows.sort()
    index = bytearray(b"\377tOc" + struct.pack(">I", 2))
    for first in range(256): index += struct.pack(">I", sum(1 for row in rows if row[0][0] <= first))
    for row in rows: index += row[0]
    for row in rows: index += struct.pack(">I", row[1])
    for row in rows: index += struct.pack(">I", row[2])
    index += pack[-20:]
    index += hashlib.sha1(index).digest()
    folder = os.path.join(git("rev-parse", "--git-path", "objects"), "pack")
    os.makedirs(folder, exist_ok=True)
    place = os.path.join(folder, "pack-" + pack[-20:].hex())
    open(place + ".pack", "wb").write(pack); open(place + ".idx", "wb").write(index)
def loose(kind, data):
    # By hand: git would look at what is named there, and never end.
    data = b"%s %d\0" % (kind, len(data)) + data
    name = hashlib.sha1(data).hexdigest()
    place = os.path.join(git("rev-parse", "--git-path", "objects"), name[:2])
    os.makedirs(place, exist_ok=True)
    open(os.path.join(place, name[2:]), "wb").write(zlib.compress(data))
    return name
def commit(name):
    tree = loose(b"tree", b"100644 hostile\0" + name)
    head = f"tree {tree}\nparent {git('rev-parse', 'HEAD')}\nauthor a <a@b.c> 1700000000 +0000\ncommitter a <a@b.c> 1700000000 +0000\n\n{sys.argv[1]}\n"
    git("update-ref", "HEAD", loose(b"commit", head.encode()))
def loop():
    x, y = b"\x11" * 20, b"\x22" * 20
    same = size(10) + size(10) + copy(0, 10)
    write([(x, delta(y, same)), (y, delta(x, same))]); commit(x)
def itself():
    x = b"\x33" * 20
    write([(x, delta(x, size(10) + size(10) + copy(0, 10)))]); commit(x)
def bomb():
    base = bytes(1 << 23)
    times = 1 << 13
    x = b"\x44" * 20
    grown = size(len(base)) + size(len(base) * times) + copy(0, len(base)) * times
    write([(blob(base), whole(base)), (x, delta(blob(base), grown))]); commit(x)
def nobase():
    x = b"\x55" * 20
    write([(x, delta(b"\x66" * 20, size(10) + size(10) + copy(0, 10)))]); commit(x)
def long():
    last = b"0" * 100
    objects = [(blob(last), whole(last))]
    for n in range(1, 20001):
        data = b"%-100d" % n
        objects.append((blob(data), delta(blob(last), size(100) + size(100) + bytes([10]) + data[:10] + copy(10, 90))))
        if data[10:] != last[10:]: objects[-1] = (blob(data), delta(blob(last), size(100) + size(100) + bytes([100]) + data))
        last = data
    write(objects); commit(blob(last))
globals()[sys.argv[1]]()
print("crafted", sys.argv[1])
"#;

/// ADV-G03: endless and endlessly long chains of deltas, and small ones that grow without end, are refused with the cause, soon, and
/// leave the repository as it was; the session goes on, and what is only long arrives.
#[test]
fn adv_g03_chains_of_deltas_from_a_session_end_soon_and_leave_the_repository_as_it_was() {
    let one = Ten::new(1);
    let craft = |kind: &str| format!("set -e; python3 - {kind} <<'END'{CRAFT}END\n");
    for kind in ["loop", "itself", "nobase", "bomb"] {
        let (before, names) = (one.everything(), one.references());
        let began = Instant::now();
        let (state, told) = one.does(&craft(kind));
        assert!(began.elapsed() < Duration::from_secs(100), "{kind}: {:?}", began.elapsed());
        assert!(told.contains(&format!("crafted {kind}")), "{kind}: {state} {told}");
        assert!(told.contains("not taken over"), "{kind}: {state} {told}");
        assert_eq!(one.references(), names, "{kind}");
        let grown: Vec<PathBuf> = changed(&before, &one.everything())
            .into_iter()
            .filter(|path| {
                path.to_string_lossy().contains("/objects/") || path.to_string_lossy().contains("/own/")
            })
            .collect();
        assert_eq!(grown, Vec::<PathBuf>::new(), "{kind}: the store has what it had");
    }
    let (state, told) = one.does(&craft("long"));
    assert_eq!(state, "done", "{told}");
    let arrived = git(&one.bare(), &["cat-file", "blob", &format!("{}:hostile", one.branch())]);
    assert_eq!(arrived.trim_end(), "20000", "{told}");
    let script = "echo fine > fine; git add fine; git -c user.name=a -c user.email=a@b.c commit -qm fine";
    let (state, told) = one.does(script);
    assert_eq!(state, "done", "{told}");
    assert_eq!(git(&one.bare(), &["log", "-1", "--format=%s", &one.branch()]), "fine", "{told}");
    assert!(said(&steps(one.host.owner(), &one.session)).contains("crafted"));
}
