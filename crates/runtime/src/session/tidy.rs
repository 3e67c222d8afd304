//! What goes when a session is over: the homes of its agents, and who they committed as.
//!
//! A home may hold what an agent remembers of the conversation, and caches; a session that is over does not go on, so nobody reads it any more.
//! What stays: receipts and the ledger of its runs, which are evidence; their layers, by which a task is taken back and in which lies
//! what could not be carried over.
//!
//! Invariant: nothing is removed of a session that is open, at work, or comes back with its worktree.

use std::path::PathBuf;
use std::sync::Arc;

use model::SessionId;
use tokio::task::JoinSet;

use crate::Runtime;
use crate::trees::Launcher;

/// Sessions that are tidied up at once.
const AT_ONCE: usize = 4;
/// What is removed, below where the runs of a session keep what they keep.
const GOES: [&str; 2] = ["state/palisade/homes", "config"];

impl Runtime {
    /// Finds sessions that may be over and were not tidied up, because the daemon ended before.
    pub(crate) async fn find_over(&self) {
        let trees = Arc::clone(&self.trees);
        let found = tokio::task::spawn_blocking(move || untidy(trees.launcher())).await.unwrap_or_default();
        self.desk.are_over(found);
    }

    /// Tidies up some of those that are over, beside what is at work.
    pub(super) fn tidy_over(self: &Arc<Self>, begun: &mut JoinSet<()>) {
        for session in self.desk.some_over(AT_ONCE) {
            let this = Arc::clone(self);
            begun.spawn(async move { this.tidy_one(session).await });
        }
    }

    async fn tidy_one(&self, session: SessionId) {
        match self.store.is_over(session).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                tracing::warn!(%error, %session, "whether a session is over cannot be told; its home stays until the next start");
                return;
            }
        }
        let trees = Arc::clone(&self.trees);
        let removed = tokio::task::spawn_blocking(move || {
            goes(trees.launcher(), session).iter().try_for_each(|place| files::remove::tree(place))
        });
        match removed.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, %session, "the home of a session that is over is still there; it is tried again at the next start");
            }
            Err(_) => {}
        }
    }
}

/// What goes of a session, wherever that is: the homes of all for whom an agent was at work there.
fn goes(launcher: &Launcher, session: SessionId) -> Vec<PathBuf> {
    let states = launcher.states_of(&session.to_string());
    states.iter().flat_map(|state| GOES.map(|place| state.join(place))).collect()
}

/// Sessions that have what goes when they are over.
fn untidy(launcher: &Launcher) -> Vec<SessionId> {
    let entries = std::fs::read_dir(launcher.state_of("")).into_iter().flatten().flatten();
    let sessions = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    sessions.filter(|session| goes(launcher, *session).iter().any(|place| place.exists())).collect()
}
