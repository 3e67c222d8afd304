//! Logins whose tokens are renewed outside, while requests that need them wait.
//!
//! Flow: a request that carries the word of a token -> is the token still good? -> if not, one question to the launcher,
//! however many ask -> all who asked go on with the next token, or are told why there is none. Invariants: what renews a
//! token is never here; one token is asked about once; every wait has an end.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use egress::control::Report;
use egress::login::Login;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::house::House;

/// How long another token is waited for: the launcher gives up earlier, and says so.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long an answer that there is none counts.
const NO: Duration = Duration::from_secs(20);

/// Why there is no token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoToken {
    pub(crate) why: String,
    /// Whether asking again is of no use.
    pub(crate) is_final: bool,
}

/// What is known of one login.
#[derive(Debug)]
struct State {
    login: Login,
    /// Whether a server did not take this token.
    was_refused: bool,
    /// When the launcher was asked for the next one, if it has not answered.
    asked: Option<Instant>,
    /// The answer that there is none.
    none: Option<(Instant, NoToken)>,
}

impl State {
    /// Whether the launcher is to be asked now; then somebody does. One that was asked for in vain is asked for again.
    fn asks(&mut self) -> bool {
        let waits = self.asked.is_some_and(|at| at.elapsed() < PATIENCE);
        if !waits {
            self.asked = Some(Instant::now());
        }
        !waits
    }

    fn is_due(&self, now: u64) -> bool {
        self.was_refused || self.login.renew_at.is_some_and(|at| now >= at)
    }

    /// Whether it may be used although another one is wanted.
    fn is_good(&self, now: u64) -> bool {
        !self.was_refused && self.login.ends_at.is_none_or(|at| now < at)
    }
}

/// All logins of one sandbox.
#[derive(Debug, Default)]
pub(crate) struct Logins {
    all: Mutex<Vec<State>>,
    changed: Notify,
}

impl Logins {
    fn all(&self) -> MutexGuard<'_, Vec<State>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These are the logins from now on.
    pub(crate) fn hold(&self, logins: Vec<Login>) {
        let mut all = self.all();
        for login in logins {
            match all.iter_mut().find(|state| state.login.name == login.name) {
                Some(state) if state.login.turn == login.turn => state.login = login,
                Some(state) => *state = fresh(login),
                None => all.push(fresh(login)),
            }
        }
        drop(all);
        self.changed.notify_waiters();
    }

    /// There is no other token.
    pub(crate) fn not_renewed(&self, name: &str, turn: u64, why: String, is_final: bool) {
        let mut all = self.all();
        if let Some(state) = all.iter_mut().find(|one| one.login.name == name && one.login.turn == turn) {
            (state.asked, state.none) = (None, Some((Instant::now(), NoToken { why, is_final })));
        }
        drop(all);
        self.changed.notify_waiters();
    }

    /// The login that would be renewed there by a program inside.
    pub(crate) fn renewed_at(&self, host: &str, path: &str) -> Option<Login> {
        let is_it = |state: &&State| state.login.host == host && state.login.path == path;
        self.all().iter().find(is_it).map(|state| state.login.clone())
    }

    /// The names of all.
    pub(crate) fn names(&self) -> Vec<String> {
        self.all().iter().map(|state| state.login.name.clone()).collect()
    }

    /// A server did not take a token: the next one is asked for, and nobody waits here.
    pub(crate) async fn was_refused(&self, house: &House, name: &str, turn: u64) {
        let asks = {
            let mut all = self.all();
            let state = all.iter_mut().find(|one| one.login.name == name && one.login.turn == turn);
            state.is_some_and(|state| {
                state.was_refused = true;
                state.asks()
            })
        };
        if asks {
            house.say(Report::Stale { name: name.to_owned(), turn }).await;
        }
    }

    /// Waits until a token is good; which one.
    pub(crate) async fn good(&self, house: &House, name: &str) -> Result<u64, NoToken> {
        let late =
            |_| NoToken { why: format!("`{name}` was not renewed in time; try again"), is_final: false };
        timeout(PATIENCE, self.waited(house, name)).await.map_err(late)?
    }

    async fn waited(&self, house: &House, name: &str) -> Result<u64, NoToken> {
        loop {
            let mut told = std::pin::pin!(self.changed.notified());
            // From now on, so that nothing is missed between looking and waiting.
            told.as_mut().enable();
            match self.look(name)? {
                Looked::Good(turn) => return Ok(turn),
                Looked::Asks(turn) => house.say(Report::Stale { name: name.to_owned(), turn }).await,
                Looked::Waits => {}
            }
            told.await;
        }
    }

    fn look(&self, name: &str) -> Result<Looked, NoToken> {
        let now = now();
        let mut all = self.all();
        let Some(state) = all.iter_mut().find(|state| state.login.name == name) else {
            return Err(NoToken { why: format!("there is no login `{name}`"), is_final: true });
        };
        let turn = state.login.turn;
        if !state.is_due(now) {
            return Ok(Looked::Good(turn));
        }
        if let Some((_, none)) = state.none.as_ref().filter(|(at, _)| at.elapsed() < NO) {
            return if state.is_good(now) { Ok(Looked::Good(turn)) } else { Err(none.clone()) };
        }
        state.none = None;
        Ok(if state.asks() { Looked::Asks(turn) } else { Looked::Waits })
    }
}

enum Looked {
    Good(u64),
    /// Whoever looked is to ask.
    Asks(u64),
    /// Somebody else has asked.
    Waits,
}

fn fresh(login: Login) -> State {
    State { login, was_refused: false, asked: None, none: None }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn login(turn: u64, renew_at: Option<u64>) -> Login {
        Login {
            name: "login".into(),
            turn,
            renew_at,
            ends_at: renew_at,
            host: "auth.test".into(),
            path: "/token".into(),
            word: "word".into(),
            answer: "{}".into(),
        }
    }

    async fn fifty(house: &Arc<House>) -> tokio::task::JoinSet<Result<u64, NoToken>> {
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..50 {
            let house = Arc::clone(house);
            tasks.spawn(async move { house.logins.good(&house, "login").await });
        }
        tokio::task::yield_now().await;
        tasks
    }

    #[tokio::test]
    async fn egr_14_fifty_that_need_a_token_ask_for_it_once_and_all_go_on() {
        let (house, mut said) = House::new();
        let house = Arc::new(house);
        house.logins.hold(vec![login(1, Some(1))]);
        let tasks = fifty(&house).await;
        assert_eq!(said.said.recv().await, Some(Report::Stale { name: "login".into(), turn: 1 }));
        house.logins.hold(vec![login(2, None)]);
        assert!(tasks.join_all().await.into_iter().all(|turn| turn == Ok(2)));
        // Fifty that were refused with the token before are not of interest any more.
        for _ in 0..50 {
            house.logins.was_refused(&house, "login", 1).await;
        }
        assert_eq!(house.logins.good(&house, "login").await, Ok(2));
        // Fifty that were refused with this one ask once.
        for _ in 0..50 {
            house.logins.was_refused(&house, "login", 2).await;
        }
        let tasks = fifty(&house).await;
        assert_eq!(said.said.recv().await, Some(Report::Stale { name: "login".into(), turn: 2 }));
        house.logins.not_renewed("login", 2, "no".into(), true);
        let no = NoToken { why: "no".into(), is_final: true };
        assert!(tasks.join_all().await.into_iter().all(|turn| turn == Err(no.clone())));
        assert!(said.said.try_recv().is_err());
    }

    #[tokio::test]
    async fn a_token_that_is_still_good_is_used_when_there_is_no_other() {
        let (house, _said) = House::new();
        let early = Login { renew_at: Some(1), ends_at: Some(u64::MAX), ..login(1, None) };
        house.logins.hold(vec![early]);
        house.logins.not_renewed("login", 1, "later".into(), false);
        assert_eq!(house.logins.good(&house, "login").await, Ok(1));
    }
}
