//! Renews a login while a run goes on.
//!
//! Flow: the proxy says that a token is over -> a thread takes the next one from the file or the service -> the proxy gets it.
//! Invariants: one at a time; who asks again at once is told no and the service is left alone; a token that was given out by
//! the service is kept before the run ends.

use std::io::{PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use zeroize::Zeroizing;

use super::EARLY;
use super::kept::{Kept, Next, Not};
use super::shape::{Tokens, now};
use crate::output;

/// One that was renewed and is refused all the same is not renewed again so soon.
const SOONEST: Duration = Duration::from_secs(60);

/// What became of it.
pub(in crate::commands) enum Renewed {
    /// Another token, from when on the next is wanted, and when it is over.
    Token {
        token: egress::control::Value,
        renew_at: Option<u64>,
        ends_at: Option<u64>,
        /// Where it came from, in words.
        how: &'static str,
        /// Why the person's own program does not have it.
        unkept: Option<String>,
    },
    /// There is none.
    None { why: String, is_final: bool },
}

/// One login of one run.
pub(in crate::commands) struct Renewal {
    pub(in crate::commands) name: String,
    kept: Kept,
    has: Arc<Tokens>,
    /// Which of its tokens that is, counted as the proxy does.
    turn: u64,
    /// What renews nothing any more.
    dead: Option<Zeroizing<String>>,
    /// When a service gave a token.
    given: Option<Instant>,
    works: Option<Work>,
    /// What the person was told last.
    told: String,
}

/// One renewal on its way.
struct Work {
    thread: JoinHandle<Result<Next, Not>>,
    /// Ends when the thread does.
    over: PipeReader,
}

impl Renewal {
    pub(super) fn new(name: String, kept: Kept, has: Tokens) -> Self {
        Self {
            name,
            kept,
            has: Arc::new(has),
            turn: 1,
            dead: None,
            given: None,
            works: None,
            told: String::new(),
        }
    }

    /// What it waits for.
    pub(in crate::commands) fn waits_for(&self) -> Option<BorrowedFd<'_>> {
        self.works.as_ref().map(|work| work.over.as_fd())
    }

    /// Somebody needs another token than this one. Says at once if there is none.
    pub(in crate::commands) fn begin(&mut self, turn: u64) -> Option<Renewed> {
        // Or there is one, and they are about to hear of it.
        if self.works.is_some() || turn != self.turn {
            return None;
        }
        if self.given.is_some_and(|at| at.elapsed() < SOONEST) {
            let why = "it was renewed a moment ago and is refused all the same".to_owned();
            return Some(self.none(why, false));
        }
        let (kept, has) = (self.kept.clone(), Arc::clone(&self.has));
        let dead = self.dead.clone();
        let begun = std::io::pipe().and_then(|(over, writes)| {
            let work = move || renewed(&kept, &has, dead.as_ref(), writes);
            let thread = std::thread::Builder::new().name("renews".into()).spawn(work)?;
            Ok(Work { thread, over })
        });
        match begun {
            Ok(work) => {
                self.works = Some(work);
                None
            }
            Err(error) => Some(self.none(error.to_string(), false)),
        }
    }

    /// What became of it, if that is known; with `waits`, it is waited for.
    pub(in crate::commands) fn end(&mut self, waits: bool) -> Option<Renewed> {
        let work = self.works.take_if(|work| waits || work.thread.is_finished() || is_over(&work.over))?;
        let done = work.thread.join();
        let broken = |_| Not { why: "it could not be done".into(), is_final: false, dead: None };
        match done.map_err(broken).and_then(|done| done) {
            Ok(Next { tokens, was_there, unkept }) => {
                self.given = (!was_there).then(Instant::now).or(self.given);
                let token = egress::control::Value::new(tokens.access.to_string());
                output::learn(&tokens.access);
                output::learn(&tokens.refresh);
                let (ends_at, how) =
                    (tokens.ends_at, if was_there { "found in the file" } else { "renewed" });
                (self.has, self.turn) = (Arc::new(tokens), self.turn + 1);
                // One that is good for a short while only is used for half of it.
                let renew_at = ends_at.map(|at| at.saturating_sub(EARLY.min(at.saturating_sub(now()) / 2)));
                Some(Renewed::Token { token, renew_at, ends_at, how, unkept })
            }
            Err(Not { why, is_final, dead }) => {
                self.dead = dead.or(self.dead.take());
                Some(self.none(why, is_final))
            }
        }
    }

    /// Whether the person was not told this already.
    pub(in crate::commands) fn is_news(&mut self, why: &str) -> bool {
        std::mem::replace(&mut self.told, why.to_owned()) != why
    }

    fn none(&self, why: String, is_final: bool) -> Renewed {
        Renewed::None { why: format!("the {} was not renewed: {why}", self.name), is_final }
    }
}

fn renewed(
    kept: &Kept,
    has: &Tokens,
    dead: Option<&Zeroizing<String>>,
    mut over: PipeWriter,
) -> Result<Next, Not> {
    let done = kept.renewed(has, dead.map(|dead| dead.as_str()));
    let _ = over.write_all(b".");
    done
}

fn is_over(pipe: &PipeReader) -> bool {
    let mut poll = [rustix::event::PollFd::new(pipe, rustix::event::PollFlags::IN)];
    rustix::event::poll(&mut poll, Some(&rustix::time::Timespec::default())).unwrap_or(0) > 0
}
