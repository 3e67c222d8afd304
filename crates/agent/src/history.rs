//! Keeps conversations in the agent's private home, and gives them back whole or says why not.

use std::path::{Path, PathBuf};

use files::{FileError, Root, Rule};
use serde::{Deserialize, Serialize};

use crate::provider::Entry;

/// Bytes of one conversation.
const MOST: u64 = 16 << 20;

/// A conversation as it is kept.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kept {
    pub(crate) version: u32,
    pub(crate) id: SessionId,
    pub(crate) cwd: PathBuf,
    pub(crate) mode: String,
    pub(crate) entries: Vec<Entry>,
}

/// Names one session, as `ses_` and 32 digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct SessionId(String);

impl SessionId {
    pub(crate) fn random() -> Result<Self, String> {
        Ok(Self(format!("ses_{}", random_hex(16)?)))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for SessionId {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let digits = text.strip_prefix("ses_").unwrap_or_default();
        let fits = digits.len() == 32 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if fits { Ok(Self(text)) } else { Err("a session is `ses_` and 32 digits".to_owned()) }
    }
}

impl From<SessionId> for String {
    fn from(id: SessionId) -> Self {
        id.0
    }
}

/// So many random bytes, as digits.
pub(crate) fn random_hex(bytes: usize) -> Result<String, String> {
    let mut random = vec![0; bytes];
    getrandom::fill(&mut random).map_err(|error| format!("the system gives no random bytes: {error}"))?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Where conversations are.
pub(crate) struct Shelf(Result<Root, String>);

impl Shelf {
    pub(crate) fn open(home: Option<&Path>) -> Self {
        Self(opened(home))
    }

    pub(crate) fn is_there(&self) -> bool {
        self.0.is_ok()
    }

    pub(crate) fn keep(&self, kept: &Kept) -> Result<(), String> {
        let root = self.0.as_ref().map_err(Clone::clone)?;
        let text = serde_json::to_vec(kept).map_err(|error| error.to_string())?;
        if text.len() as u64 > MOST {
            return Err(format!("the conversation is longer than {MOST} bytes"));
        }
        root.write(&place(&kept.id), &text).map_err(|error| error.to_string())
    }

    pub(crate) fn load(&self, id: &SessionId) -> Result<Kept, String> {
        let root = self.0.as_ref().map_err(Clone::clone)?;
        let text = match root.read(&place(id), MOST, Rule::Private) {
            Err(FileError::Missing) => return Err("nothing is kept of that session".to_owned()),
            other => {
                other.map_err(|error| format!("what is kept of that session cannot be read: {error}"))?
            }
        };
        let kept: Kept = serde_json::from_slice(&text)
            .map_err(|error| format!("what is kept of that session is damaged: {error}"))?;
        if kept.version != 1 || kept.id != *id {
            return Err("what is kept under that name is of another session or version".to_owned());
        }
        Ok(kept)
    }
}

fn place(id: &SessionId) -> PathBuf {
    PathBuf::from(format!("{}.json", id.as_str()))
}

fn opened(home: Option<&Path>) -> Result<Root, String> {
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
    let home = home.ok_or("there is no home to keep conversations in")?.join("sessions");
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&home);
    made.map_err(|error| format!("the home for conversations cannot be made: {error}"))?;
    let about = std::fs::metadata(&home).map_err(|error| error.to_string())?;
    if about.permissions().mode() & 0o077 != 0 {
        return Err("the home for conversations is open to others; give it mode 700".to_owned());
    }
    Root::open(&home).map_err(|error| error.to_string())
}
