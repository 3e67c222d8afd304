//! The editor: what it is told, and what it is asked.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use api::ClientError;
use serde_json::{Value, json};

use super::words::Waiting;
use crate::failure::Failure;
use crate::output;

/// Questions that are open at once; for more the editor is not asked, and they wait for somebody else.
const ASKED: usize = 64;

/// Why a request is not answered as it wished.
#[derive(Debug)]
pub(super) struct Fault {
    code: i64,
    message: String,
}

impl Fault {
    pub(super) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
    pub(super) fn request(why: impl Into<String>) -> Self {
        Self::new(-32_600, why)
    }
    pub(super) fn params(why: impl Into<String>) -> Self {
        Self::new(-32_602, why)
    }
    pub(super) fn internal(why: impl Into<String>) -> Self {
        Self::new(-32_603, why)
    }
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Self {
        let code = match &failure {
            Failure::SignedOut => -32_000,
            Failure::Client(error) => match error.status() {
                Some(401) => -32_000,
                Some(404) => -32_002,
                Some(409 | 422) => -32_602,
                _ => -32_603,
            },
            Failure::Usage(_) | Failure::NotFound(_) | Failure::File { .. } => -32_602,
            _ => -32_603,
        };
        Self::new(code, failure.to_string())
    }
}

impl From<ClientError> for Fault {
    fn from(error: ClientError) -> Self {
        Failure::from(error).into()
    }
}

/// A question that the editor has not answered.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) session: String,
    pub(super) waiting: Waiting,
}

/// The other side.
#[derive(Debug, Default)]
pub(super) struct Peer {
    asked: Mutex<(u64, BTreeMap<u64, Asked>)>,
    is_gone: AtomicBool,
}

impl Peer {
    fn asked(&self) -> MutexGuard<'_, (u64, BTreeMap<u64, Asked>)> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nobody reads any more.
    pub(super) fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::SeqCst)
    }

    fn say(&self, message: &Value) {
        if !self.is_gone() && !output::protocol(message) {
            self.is_gone.store(true, Ordering::SeqCst);
        }
    }

    pub(super) fn answer(&self, id: &Value, result: Result<Value, Fault>) {
        self.say(&match result {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err(Fault { code, message }) => {
                json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
            }
        });
    }

    pub(super) fn update(&self, session: &str, update: Value) {
        let params = json!({ "sessionId": session, "update": update });
        self.say(&json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }));
    }

    /// Asks; the answer comes to [`Peer::heard`].
    pub(super) fn ask(&self, session: &str, waiting: Waiting, question: &Value) {
        let id = {
            let mut asked = self.asked();
            if asked.1.len() >= ASKED {
                drop(asked);
                return output::tell(&format!(
                    "too much is asked at once; see `palisade approval list {session}`"
                ));
            }
            asked.0 += 1;
            let id = asked.0;
            asked.1.insert(id, Asked { session: session.to_owned(), waiting });
            id
        };
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": question }));
    }

    /// What an answer is for, once.
    pub(super) fn heard(&self, id: u64) -> Option<Asked> {
        self.asked().1.remove(&id)
    }

    /// Somebody else decided: an answer changes nothing any more.
    pub(super) fn forget(&self, approval: &str) {
        self.asked().1.retain(|_, one| one.waiting.approval != approval);
    }

    /// A turn is over, and so is what it asked.
    pub(super) fn forget_all_of(&self, session: &str) {
        self.asked().1.retain(|_, one| one.session != session);
    }
}
