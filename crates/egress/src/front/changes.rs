//! What changes while a sandbox runs: other rules, what a person said, and the end of it all.
//!
//! Invariant: a proxy that does not take a change is ended, and the next one is told everything.

use rules::{Limits, Rule, Rules};

use super::{Front, say_rules};
use crate::control::{Loan, Order};
use crate::decoys::Decoys;

impl Front {
    /// There is a person to ask: destinations that no rule knows are held, and told. Before the proxy is started.
    pub fn ask(&mut self) {
        self.asks = true;
    }

    /// A person said no to a destination; without one, to everything that no rule knows.
    pub fn refuse(&mut self, destination: Option<(String, u16)>) {
        let said = self
            .proxy
            .as_ref()
            .map(|proxy| proxy.line.say(&Order::<Loan>::Refuse(destination.clone()), &[], true));
        self.refused.push(destination);
        // One that does not hear it is started again, and told everything.
        if said.is_some_and(|said| said.is_err()) {
            self.drop_proxy();
            self.gave_up = true;
        }
    }

    /// Adds a rule to those that hold.
    ///
    /// # Errors
    /// When it does not go with them; those before stay.
    pub fn allow(&mut self, rule: Rule) -> Result<(), rules::Faults> {
        if self.is_cut {
            return Ok(());
        }
        self.change(self.rules.iter().cloned().chain([rule]).collect())
    }

    /// Takes a rule away.
    ///
    /// # Errors
    /// When the others do not go without it; then nothing is allowed any more.
    pub fn withdraw(&mut self, rule: &Rule) -> Result<(), rules::Faults> {
        let left = self.rules.iter().filter(|one| *one != rule).cloned().collect();
        let changed = self.change(left);
        if changed.is_err() {
            self.cut();
        }
        changed
    }

    /// Puts other rules in force: here for names at once, in the proxy as soon as it says so.
    ///
    /// # Errors
    /// When they are not valid; those before stay.
    pub fn change(&mut self, rules: Vec<Rule>) -> Result<(), rules::Faults> {
        self.compiled = Rules::compile(rules.clone())?;
        self.rules = rules;
        self.generation += 1;
        if let Some(proxy) = &self.proxy
            && say_rules(&proxy.line, &self.rules, self.generation).is_err()
        {
            // One that does not take rules must not go on with the earlier ones.
            self.drop_proxy();
            self.gave_up = true;
        }
        Ok(())
    }

    /// The rules that hold.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Which set of rules that is.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// How much the sandbox may do.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Whether nothing is let out any more, whatever rules say.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Takes back what was lent under a name: it goes nowhere any more, and what is open to its hosts is closed. True if
    /// it was lent until now.
    pub fn take_back(&mut self, name: &str) -> bool {
        let lent = |loan: &&mut Loan| loan.name == name && !loan.is_decoy && !loan.is_over;
        let Some(loan) = self.loans.iter_mut().find(lent) else { return false };
        loan.is_over = true;
        self.lend_again();
        true
    }

    /// The decoy that the command prints with this, as its standard output (1), its error (2) or on its terminal (0).
    pub fn prints(&mut self, number: usize, printed: &[u8]) -> Option<String> {
        let trace = self.printed.get_mut(number)?;
        self.decoys.follow(trace, printed).map(str::to_owned)
    }

    /// The decoys, for whoever looks through what is left of a run that has ended.
    #[must_use]
    pub fn decoys(&mut self) -> Decoys {
        std::mem::take(&mut self.decoys)
    }

    /// Lets nothing out any more, nor in: no rules are left, and what is open is closed.
    pub fn cut(&mut self) {
        self.is_cut = true;
        if std::mem::take(&mut self.asks) {
            self.refuse(None);
        }
        self.doors.close();
        if let Some(proxy) = &self.proxy
            && proxy.line.say(&Order::<Loan>::Unpublish, &[], true).is_err()
        {
            self.drop_proxy();
            self.gave_up = true;
        }
        if self.change(Vec::new()).is_err() {
            self.drop_proxy();
            self.gave_up = true;
        }
    }
}
