//! What may still be spent: a budget, and the budgets that it came out of.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use model::Budget;

/// What is left of a budget. Whatever a child spends, its parents spend too.
#[derive(Debug)]
pub(crate) struct Purse {
    left: Mutex<Budget>,
    until: Option<Instant>,
    parent: Option<Arc<Purse>>,
}

impl Purse {
    pub(crate) fn new(budget: Budget, parent: Option<Arc<Purse>>) -> Arc<Self> {
        // A time beyond what a clock can say is no bound.
        let until = Instant::now().checked_add(Duration::from_millis(budget.wall_ms));
        Arc::new(Self { left: Mutex::new(budget), until, parent })
    }

    /// Which part of it is used up, here or above.
    pub(crate) fn empty(&self) -> Option<&'static str> {
        let left = *self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let own = if left.tokens == 0 {
            Some("tokens")
        } else if left.micro_usd == 0 {
            Some("money")
        } else if left.tool_calls == 0 {
            Some("tool calls")
        } else if self.until.is_some_and(|until| Instant::now() >= until) {
            Some("time")
        } else {
            None
        };
        own.or_else(|| self.parent.as_ref()?.empty())
    }

    /// Takes it out, here and above.
    pub(crate) fn spend(&self, tokens: u64, micro_usd: u64, tool_calls: u64) {
        {
            let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
            // Without bound is without bound, however much was spent.
            let less = |left: u64, by: u64| if left == u64::MAX { left } else { left.saturating_sub(by) };
            left.tokens = less(left.tokens, tokens);
            left.micro_usd = less(left.micro_usd, micro_usd);
            left.tool_calls = less(left.tool_calls, tool_calls);
        }
        if let Some(parent) = &self.parent {
            parent.spend(tokens, micro_usd, tool_calls);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_spends_from_its_parents_purse() {
        let parent = Purse::new(Budget { tokens: 100, ..Budget::UNBOUNDED }, None);
        let child = Purse::new(Budget { tokens: 90, ..Budget::UNBOUNDED }, Some(Arc::clone(&parent)));
        parent.spend(60, 1, 1);
        child.spend(40, 1, 1);
        assert_eq!(child.empty(), Some("tokens"), "the parent has none left");
        assert_eq!(parent.empty(), Some("tokens"));
        assert_eq!(Purse::new(Budget::default(), None).empty(), Some("tokens"), "absent is zero");
    }
}
