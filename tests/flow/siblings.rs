//! Two worktrees of one repository, of which each belongs to somebody else and nobody may know of the other's: what is in the
//! repository of one is not in the repository of the other, by no name and by no id.

use std::path::PathBuf;

use api::CreateSessionRequest;
use tests::{Host, Person, git};

use crate::calls::new_session;
use crate::sessions::{ended, quiet, said, steps};
use crate::trees::ours;

/// What nobody but its owner may see.
const MARK: &str = "private-mark-of-bo-5519";

/// Looks for what its argument names by every way that git and the files of git have, and says of each what became of it.
const LOOK: &str = r#"
import json, os, subprocess, sys, zlib
asked = json.loads(sys.argv[1])
mark, names = asked["mark"].encode(), [one.encode() for one in asked["names"]]
def git(*words, **more):
    return subprocess.run(["git", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more).stdout
def tried(name, found): print(name, "GOT" if found else "nothing")
def seen(text): return mark in text or b"theirs" in text
def told(text): return mark in text or any(name in text for name in names)
common = git("rev-parse", "--path-format=absolute", "--git-common-dir").decode().strip()
tried("log", told(git("log", "--all", "--format=%H %s %D", "-p")))
tried("reflog", told(git("reflog", "show", "--all")))
tried("refs", told(git("for-each-ref")))
tried("branches", told(git("branch", "-a", "-v")))
tried("worktrees", told(git("worktree", "list", "--porcelain")))
tried("every object", told(git("cat-file", "--batch-all-objects", "--batch", "--unordered")))
tried("fsck", told(git("fsck", "--full", "--unreachable", "--lost-found")))
for name in asked["ids"]:
    tried("show " + name, seen(git("show", name)))
    tried("object " + name, seen(git("cat-file", "-p", name)))
    tried("archive " + name, seen(git("archive", "--format=tar", name)))
for store in asked["stores"]:
    env = dict(os.environ, GIT_ALTERNATE_OBJECT_DIRECTORIES=store)
    tried("alternate " + store, any(seen(git("cat-file", "-p", name, env=env)) for name in asked["ids"]))
for folder in asked["folders"]: tried("list " + folder, os.path.isdir(folder))
for index in asked["indexes"]:
    tried("index " + index, seen(git("ls-files", "--stage", env=dict(os.environ, GIT_INDEX_FILE=index))))
def plain(path):
    with open(path, "rb") as file: bytes = file.read()
    try: return bytes + zlib.decompress(bytes)
    except zlib.error: return bytes
tried("files", any(told(plain(os.path.join(folder, name))) for folder, _, files in os.walk(common) for name in files))
tried("names", any(told(name.encode()) for _, folders, files in os.walk(common) for name in folders + files))
"#;

fn shell(worktree: &str) -> CreateSessionRequest {
    CreateSessionRequest { agent: "command".into(), command: vec!["sh".into()], ..new_session(worktree) }
}

/// Two people's worktrees of one repository.
struct Two {
    host: Host,
    repo: String,
    ana: Person,
    bo: Person,
    hers: String,
    his: String,
}

impl Two {
    fn new() -> Self {
        let host = quiet();
        let (ana, bo) = (host.user("ana", "member"), host.user("bo", "member"));
        let repo = host.local_repo("demo");
        host.owner().client.fetch_repo(&repo).unwrap();
        let (hers, his) = (ana.worktree(&repo, "hers", "none").id, bo.worktree(&repo, "his", "none").id);
        Self { host, repo, ana, bo, hers, his }
    }

    fn bare(&self) -> PathBuf {
        ours(&self.host, &self.repo).join(".git")
    }

    /// Ids of what he committed: a commit, its tree, a file.
    fn ids(&self) -> Vec<String> {
        let branch = format!("palisade/{}", self.his);
        let of = |what: &str| git(&self.bare(), &["rev-parse", &format!("{branch}{what}")]);
        vec![of(""), of("^{tree}"), of(":theirs")]
    }

    /// What is looked for, and where.
    fn asked(&self) -> String {
        let ids = self.ids();
        let bare = self.bare();
        let text = |path: PathBuf| path.display().to_string();
        let stores = vec![text(bare.join("objects")), text(bare.join("palisade/own").join(&self.his))];
        let folders = vec![
            text(bare.join("palisade/own").join(&self.his)),
            text(bare.join("worktrees").join(&self.his)),
            text(bare.join("refs/palisade")),
        ];
        let indexes = vec![text(bare.join("worktrees").join(&self.his).join("index"))];
        let names = [vec![self.his.clone()], ids.clone()].concat();
        let mut ids = ids;
        ids.push(format!("palisade/{}", self.his));
        let places = serde_json::json!({ "stores": stores, "folders": folders, "indexes": indexes });
        let mut asked = serde_json::json!({ "mark": MARK, "names": names, "ids": ids });
        asked.as_object_mut().unwrap().extend(places.as_object().unwrap().clone());
        asked.to_string()
    }
}

/// What a script says as the work of a session; it ends well.
fn does(person: &Person, session: &str, script: &str) -> String {
    let before = said(&steps(person, session)).len();
    let task = person.client.prompt_session(session, script).unwrap();
    let done = ended(person, session, &task.id);
    let told = said(&steps(person, session));
    assert_eq!(done.state, "done", "{done:?} {told}");
    told[before..].to_owned()
}

fn looks(asked: &str) -> String {
    format!("python3 - '{asked}' <<'END'{LOOK}END\n")
}

fn got(told: &str) -> Vec<&str> {
    told.lines().filter(|line| line.ends_with("GOT")).collect()
}

/// He commits something that nobody else may see.
fn he_commits(two: &Two) -> String {
    let session = two.bo.client.create_session(&shell(&two.his)).unwrap().id;
    does(
        &two.bo,
        &session,
        &format!("echo {MARK} > theirs && git add theirs && git commit -qm 'about {MARK}' && echo committed"),
    );
    let log = git(&two.bare(), &["log", "-1", "--format=%s", &format!("palisade/{}", two.his)]);
    assert!(log.contains(MARK), "{log}");
    session
}

/// ADV-G04: inside a session there is no reference, no object, no index and no name of another's worktree of the same repository,
/// also for whoever knows the ids; with his own session everything is found by the same ways.
#[test]
fn adv_g04_nothing_of_another_worktree_of_the_same_repository_is_in_a_session() {
    let two = Two::new();
    let theirs = he_commits(&two);
    let asked = two.asked();
    let mine = two.ana.client.create_session(&shell(&two.hers)).unwrap().id;
    let told = does(&two.ana, &mine, &looks(&asked));
    assert_eq!(got(&told), Vec::<&str>::new(), "{told}");
    assert!(told.lines().filter(|line| line.ends_with("nothing")).count() >= 24, "{told}");

    // The same ways find it where it may be seen.
    let found = does(&two.bo, &theirs, &looks(&asked));
    let listed = format!("list {}", two.bare().join("worktrees").join(&two.his).display());
    let listed = listed.split_once("/data/").unwrap().1;
    assert!(found.lines().any(|line| line.contains(listed) && line.ends_with("GOT")), "{listed}: {found}");
    for way in ["log", "refs", "branches", "worktrees", "every object", "files", "names"] {
        assert!(found.lines().any(|line| line == format!("{way} GOT")), "{way}: {found}");
    }
    for id in two.ids() {
        assert!(found.lines().any(|line| line == format!("object {id} GOT")), "{id}: {found}");
    }

    // After she committed, too: what is below her repository then is another moment of it.
    let after = format!(
        "echo mine > mine && git add mine && git commit -qm mine && git stash list && git gc -q && {}",
        looks(&asked)
    );
    let told = does(&two.ana, &mine, &after);
    assert_eq!(got(&told), Vec::<&str>::new(), "{told}");
    let told = does(&two.ana, &mine, &format!("git log --oneline -1; {}", looks(&asked)));
    assert!(told.contains(" mine\n") && got(&told).is_empty(), "{told}");
}
