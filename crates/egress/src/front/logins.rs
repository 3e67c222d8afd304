//! Logins whose tokens are renewed while a sandbox runs.
//!
//! Invariant: what was lent is masked in answers as long as the sandbox runs, also when another token took its place.

use std::io;

use super::Front;
use crate::control::{Line, Loan, Order, Value};
use crate::login::Login;

/// Tokens that are masked after they were replaced.
const MOST_PAST: usize = 4;

impl Front {
    /// Before the proxy is started: a login whose token is among what is lent.
    pub fn log_in(&mut self, login: Login) {
        self.logins.push(login);
    }

    /// A login has another token. True if the login is known.
    pub fn renewed(&mut self, name: &str, token: Value, renew_at: Option<u64>, ends_at: Option<u64>) -> bool {
        let login = self.logins.iter_mut().find(|login| login.name == name);
        let loan = self.loans.iter_mut().find(|loan| loan.name == name && !loan.word.is_empty());
        let (Some(login), Some(loan)) = (login, loan) else { return false };
        (login.turn, login.renew_at, login.ends_at) = (login.turn + 1, renew_at, ends_at);
        let past = std::mem::replace(&mut loan.value, token);
        // Nothing stands for it any more, and it goes nowhere; it may still be good, and come back.
        let past = Loan { name: loan.name.clone(), value: past, ..Loan::default() };
        let is_past = |loan: &Loan| loan.name == name && loan.word.is_empty();
        if self.loans.iter().filter(|loan| is_past(loan)).count() >= MOST_PAST
            && let Some(first) = self.loans.iter().position(is_past)
        {
            self.loans.remove(first);
        }
        self.loans.push(past);
        self.lend_again();
        true
    }

    /// A token could not be renewed; those who wait are told.
    pub fn not_renewed(&mut self, name: &str, why: &str, is_final: bool) {
        let Some(login) = self.logins.iter().find(|login| login.name == name) else { return };
        let order = Order::<Loan>::NotRenewed {
            name: login.name.clone(),
            turn: login.turn,
            why: why.to_owned(),
            is_final,
        };
        if let Some(proxy) = &self.proxy
            && proxy.line.say(&order, &[], true).is_err()
        {
            self.drop_proxy();
            self.gave_up = true;
        }
    }

    /// Tells the proxy everything that is lent; it holds with the rules, which are the same as before.
    pub(super) fn lend_again(&mut self) {
        self.generation += 1;
        let Some(proxy) = &self.proxy else { return };
        let said = self
            .say_loans(&proxy.line)
            .and_then(|()| super::say_rules(&proxy.line, &self.rules, self.generation));
        if said.is_err() {
            // The next one is told everything.
            self.drop_proxy();
            self.gave_up = true;
        }
    }

    /// Says what is lent.
    pub(super) fn say_loans(&self, line: &Line) -> io::Result<()> {
        for loan in &self.loans {
            line.say(&Order::<&Loan>::Lend(loan), &[], true)?;
        }
        for login in &self.logins {
            line.say(&Order::<&Loan>::Login(login.clone()), &[], true)?;
        }
        Ok(())
    }
}
