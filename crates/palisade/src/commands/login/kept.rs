//! The file of a login in the person's own home: read, and written back as the agent itself does.
//!
//! Invariants: it is changed only while the agent's own lock on it is held, where it has one, and replaced whole or not at all; what somebody
//! else has written meanwhile is taken and never overwritten.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sandbox::Caller;
use serde_json::Value;
use zeroize::Zeroizing;

use super::shape::{Shape, Tokens, now};
use super::{Known, MOST_BYTES};

/// How long somebody else may renew the same login.
const LOCKED: Duration = Duration::from_secs(30);
/// How long it is waited before the lock is tried again.
const AGAIN: Duration = Duration::from_millis(100);
/// How often a file that is not understood is read again.
const TRIES: u32 = 3;
/// A lock that nobody has touched for so long was left behind: what Claude Code goes by, too.
const LEFT: Duration = Duration::from_secs(60);
/// By then the service has answered: less than the lock of whoever took it counts.
const ANSWER: Duration = Duration::from_secs(30);

/// Why there is no other token.
pub(super) struct Not {
    pub(super) why: String,
    /// Whether somebody has to log in first.
    pub(super) is_final: bool,
    /// What renews nothing any more.
    pub(super) dead: Option<Zeroizing<String>>,
}

impl Not {
    fn later(why: String) -> Self {
        Self { why, is_final: false, dead: None }
    }
}

/// Another token.
pub(super) struct Next {
    pub(super) tokens: Tokens,
    /// Whether it was in the file already: the person's own program has renewed it.
    pub(super) was_there: bool,
    /// Why it could not be kept, if that is so.
    pub(super) unkept: Option<String>,
}

/// Where a login is kept, and where it is renewed.
#[derive(Clone)]
pub(super) struct Kept {
    shape: Shape,
    folder: PathBuf,
    file: PathBuf,
    host: String,
    path: String,
    client: String,
    again: String,
}

impl Kept {
    pub(super) fn of(known: &Known, caller: &Caller) -> Self {
        let folder = std::env::var_os(&known.variable).filter(|value| !value.is_empty()).map(PathBuf::from);
        let folder = folder.unwrap_or_else(|| caller.home.join(&known.folder));
        Self {
            shape: known.shape,
            file: folder.join(&known.file),
            folder,
            host: known.host.clone(),
            path: known.path.clone(),
            client: known.client.clone(),
            again: known.again.clone(),
        }
    }

    /// Whether it is in this directory.
    pub(super) fn is_beneath(&self, directory: &Path) -> bool {
        [&self.folder, &self.file]
            .iter()
            .any(|path| path.canonicalize().is_ok_and(|path| path.starts_with(directory)))
    }

    /// What is in the file; none if there is none.
    pub(super) fn document(&self) -> io::Result<Option<Value>> {
        let mut tries = TRIES;
        loop {
            let Some(text) = self.text()? else { return Ok(None) };
            match serde_json::from_slice(&text) {
                Ok(document) => return Ok(Some(document)),
                // Codex writes its file in place, and may be doing so.
                Err(_) if tries > 0 => std::thread::sleep(AGAIN),
                Err(_) => {
                    let shown = self.file.display();
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        format!("`{shown}` is not understood"),
                    ));
                }
            }
            tries -= 1;
        }
    }

    fn text(&self) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
        // The person's own file: where they have it behind a link, that is followed.
        let file = match File::open(&self.file) {
            Ok(file) => file,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        if !file.metadata()?.is_file() {
            return Err(io::Error::other(format!("`{}` is not a file", self.file.display())));
        }
        let mut text = Zeroizing::new(Vec::new());
        file.take(MOST_BYTES).read_to_end(&mut text)?;
        Ok(Some(text))
    }

    /// Another token than the one that is `had`: the one that is in the file by now, or a new one. `dead` renews nothing any more.
    pub(super) fn renewed(&self, had: &Tokens, dead: Option<&str>) -> Result<Next, Not> {
        let later = Not::later;
        let _lock = Lock::taken(self.shape, &self.folder).map_err(|error| later(error.to_string()))?;
        let found = self.found(had)?;
        let (document, tokens) = match found {
            Found::Other(tokens) => return Ok(Next { tokens, was_there: true, unkept: None }),
            Found::Same(document, tokens) => (document, tokens),
        };
        if tokens.refresh.is_empty() || dead == Some(tokens.refresh.as_str()) {
            return Err(self.over("it can no longer be renewed"));
        }
        let came = self.asked(&document, &tokens.refresh)?;
        // Programs that know no lock may have been here.
        let (mut document, unkept) = match self.found(had) {
            Ok(Found::Same(document, _)) => (document, None),
            Ok(Found::Other(tokens)) => return Ok(Next { tokens, was_there: true, unkept: None }),
            Err(Not { why, .. }) => (document, Some(why)),
        };
        if !self.shape.merge(&mut document, &came) {
            return Err(later(format!("`{}` answered without a token", self.host)));
        }
        let written = self.shape.written(&document);
        let unkept = unkept.or_else(|| self.write(written.as_bytes()).err().map(|error| error.to_string()));
        let tokens = self.shape.tokens(&document).ok_or_else(|| later("there is no token in it".into()))?;
        Ok(Next { tokens, was_there: false, unkept })
    }

    fn found(&self, had: &Tokens) -> Result<Found, Not> {
        let failed = |error: io::Error| Not::later(error.to_string());
        let document = self.document().map_err(failed)?;
        let read = document.and_then(|document| {
            let tokens = self.shape.tokens(&document)?;
            Some((document, tokens))
        });
        let Some((document, tokens)) = read else { return Err(self.over("it is not there any more")) };
        if tokens.account != had.account {
            return Err(self.over("it is somebody else's by now"));
        }
        let is_good = tokens.ends_at.is_none_or(|at| at > now());
        let is_other = tokens.access != had.access && is_good;
        Ok(if is_other { Found::Other(tokens) } else { Found::Same(document, tokens) })
    }

    fn over(&self, what: &str) -> Not {
        Not {
            why: format!("{what}; log in again outside, with `{}`", self.again),
            is_final: true,
            dead: None,
        }
    }

    /// Asks the service for another token.
    fn asked(&self, document: &Value, refresh: &str) -> Result<Value, Not> {
        let later = Not::later;
        let silent = || later(format!("`{}` does not answer", self.host));
        let client = api::Client::new(&format!("https://{}", self.host), None).map_err(|_| silent())?;
        let asks = self.shape.asks(document, refresh, &self.client);
        let fields = [("content-type", "application/json"), ("accept", "application/json")];
        let answer = client.send_for(ANSWER, "POST", &self.path, &fields, asks.as_bytes());
        let mut answer = answer.map_err(|_| silent())?;
        let text = Zeroizing::new(answer.body_mut().read_to_vec().map_err(|_| silent())?);
        let came: Option<Value> = serde_json::from_slice(&text).ok();
        match (answer.status().as_u16(), came) {
            (200, Some(came)) => Ok(came),
            // Codex's service says it with 401, others with 400.
            (400 | 401, came) => {
                let said = came.as_ref().and_then(code).unwrap_or("no reason");
                let over = self.over(&format!("`{}` does not renew it ({said})", self.host));
                Err(Not { dead: Some(Zeroizing::new(refresh.to_owned())), ..over })
            }
            (status, _) => Err(later(format!("`{}` answered with {status}", self.host))),
        }
    }

    /// Replaces the file, with mode 0600.
    fn write(&self, text: &[u8]) -> io::Result<()> {
        // Where it is behind a link, the file is replaced and not the link.
        let file = self.file.canonicalize()?;
        let folder = file.parent().ok_or(io::ErrorKind::NotFound)?;
        let draft = folder.join(format!(".palisade-login-{}", std::process::id()));
        let mut new = File::options();
        let new = new.write(true).create_new(true).mode(0o600);
        let made = new.open(&draft).or_else(|error| match error.kind() {
            // Left by one that was killed.
            io::ErrorKind::AlreadyExists => std::fs::remove_file(&draft).and_then(|()| new.open(&draft)),
            _ => Err(error),
        })?;
        let owner = std::fs::metadata(&file)?;
        let written = (&made).write_all(text).and_then(|()| {
            use std::os::unix::fs::MetadataExt;
            if rustix::process::geteuid().is_root() {
                std::os::unix::fs::fchown(&made, Some(owner.uid()), Some(owner.gid()))?;
            }
            made.sync_all()?;
            std::fs::rename(&draft, &file)
        });
        if written.is_err() {
            let _ = std::fs::remove_file(&draft);
        }
        written
    }
}

enum Found {
    /// Another token than the one there was, and it is good.
    Other(Tokens),
    /// The same, or one that is over.
    Same(Value, Tokens),
}

/// What a service says is wrong, if it is one plain word.
fn code(came: &Value) -> Option<&str> {
    let error = came.get("error")?;
    let word =
        error.as_str().or_else(|| error.get("code")?.as_str()).or_else(|| error.get("type")?.as_str())?;
    let is_plain = word.len() <= 64 && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    is_plain.then_some(word)
}

/// That nobody else renews a login, as the agent itself sees to it.
enum Lock {
    /// Claude Code makes these directories.
    Folders(Vec<PathBuf>),
    /// Codex takes none while it renews a login, and only looks again before: this one is for other runs.
    File(File),
}

impl Lock {
    fn taken(shape: Shape, folder: &Path) -> io::Result<Self> {
        let until = Instant::now() + LOCKED;
        loop {
            if let Some(lock) = Self::tried(shape, folder)? {
                return Ok(lock);
            }
            if Instant::now() >= until {
                return Err(io::Error::other("another program renews it and does not come to an end"));
            }
            std::thread::sleep(AGAIN);
        }
    }

    fn tried(shape: Shape, folder: &Path) -> io::Result<Option<Self>> {
        match shape {
            Shape::ClaudeCode => {
                // Its earlier versions go by the second one.
                let mut beside = folder.canonicalize()?.into_os_string();
                beside.push(".lock");
                let mut taken = Self::Folders(Vec::new());
                for path in [folder.join(".oauth_refresh.lock"), PathBuf::from(beside)] {
                    if !made(&path)? {
                        return Ok(None);
                    }
                    if let Self::Folders(all) = &mut taken {
                        all.push(path);
                    }
                }
                Ok(Some(taken))
            }
            Shape::Codex => {
                let mut lock = File::options();
                let lock = lock.write(true).create(true).truncate(false).mode(0o600);
                let lock = lock.open(folder.join("auth.lock"))?;
                match lock.try_lock() {
                    Ok(()) => Ok(Some(Self::File(lock))),
                    Err(std::fs::TryLockError::WouldBlock) => Ok(None),
                    Err(std::fs::TryLockError::Error(error)) => Err(error),
                }
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        match self {
            Self::Folders(all) => all.iter().for_each(|path| drop(std::fs::remove_dir(path))),
            Self::File(file) => drop(file.unlock()),
        }
    }
}

/// Makes a directory that stands for a lock; false if somebody else has it.
fn made(path: &Path) -> io::Result<bool> {
    match std::fs::DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let age = std::fs::metadata(path).and_then(|found| found.modified()).ok();
            if age.and_then(|at| at.elapsed().ok()).is_some_and(|age| age > LEFT) {
                let _ = std::fs::remove_dir(path);
            }
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn kept(shape: Shape, folder: &Path) -> Kept {
        let text = String::new;
        let (host, path, client, again) = (text(), text(), text(), text());
        Kept { shape, folder: folder.into(), file: folder.join("login.json"), host, path, client, again }
    }

    #[test]
    fn egr_14_a_lock_of_somebody_else_is_respected_and_one_that_was_left_is_not() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("agent");
        std::fs::create_dir(&folder).unwrap();
        for shape in [Shape::ClaudeCode, Shape::Codex] {
            let lock = Lock::tried(shape, &folder).unwrap().unwrap();
            assert!(Lock::tried(shape, &folder).unwrap().is_none(), "{shape:?}");
            drop(lock);
            assert!(Lock::tried(shape, &folder).unwrap().is_some(), "{shape:?}");
        }
        // An earlier version of Claude Code is at work, and then was killed.
        let beside = home.path().join("agent.lock");
        std::fs::create_dir(&beside).unwrap();
        assert!(Lock::tried(Shape::ClaudeCode, &folder).unwrap().is_none());
        assert!(!folder.join(".oauth_refresh.lock").exists(), "what was taken in vain is given back");
        let long_ago = std::time::SystemTime::now() - LEFT - Duration::from_secs(1);
        File::open(&beside).unwrap().set_modified(long_ago).unwrap();
        assert!(Lock::tried(Shape::ClaudeCode, &folder).unwrap().is_none());
        assert!(Lock::tried(Shape::ClaudeCode, &folder).unwrap().is_some());
    }

    #[test]
    fn egr_14_the_file_is_replaced_whole_where_it_is() {
        let home = tempfile::tempdir().unwrap();
        let kept = kept(Shape::Codex, home.path());
        assert!(kept.document().unwrap().is_none());
        let real = home.path().join("elsewhere.json");
        std::fs::write(&real, "{\"a\": 1").unwrap();
        std::os::unix::fs::symlink(&real, &kept.file).unwrap();
        assert_eq!(kept.document().unwrap_err().kind(), io::ErrorKind::InvalidData);
        kept.write(b"{\"a\": 2}").unwrap();
        assert!(kept.file.symlink_metadata().unwrap().is_symlink());
        assert_eq!(std::fs::metadata(&real).unwrap().mode() & 0o7777, 0o600);
        assert_eq!(kept.document().unwrap().unwrap()["a"], 2);
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 2);
    }

    #[test]
    fn egr_14_what_a_service_says_is_told_only_if_it_is_one_word() {
        let told = |text: &str| code(&serde_json::from_str(text).unwrap()).map(str::to_owned);
        assert_eq!(told(r#"{"error":"invalid_grant"}"#).as_deref(), Some("invalid_grant"));
        assert_eq!(
            told(r#"{"error":{"code":"refresh_token_reused"}}"#).as_deref(),
            Some("refresh_token_reused")
        );
        assert_eq!(told(r#"{"error":"your token sk-ant-123 is over"}"#), None);
        assert_eq!(told("{}"), None);
    }
}
