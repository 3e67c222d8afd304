//! Turns tokens into money. Prices are data; a model without one has no cost, which is not a cost of nothing.

use serde::{Deserialize, Serialize};

/// Tokens of one or more answers. What was read from a cache is not in `input`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Usage {
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) cache_read: u64,
    pub(crate) cache_write: u64,
}

impl Usage {
    pub(crate) fn total(&self) -> u64 {
        [self.input, self.output, self.cache_read, self.cache_write].into_iter().fold(0, u64::saturating_add)
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
    }
}

/// What a model costs, in millionths of a dollar for a million tokens.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Price {
    model: String,
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    price: Vec<Price>,
}

/// All prices that are known.
#[derive(Debug)]
pub(crate) struct Prices {
    given: Vec<Price>,
    shipped: Vec<Price>,
}

impl Prices {
    /// The shipped ones, behind those that are given.
    pub(crate) fn with(given: Vec<Price>) -> Result<Self, String> {
        let table: Table = toml::from_str(include_str!("prices.toml")).map_err(|error| error.to_string())?;
        Ok(Self { given, shipped: table.price })
    }

    /// What that use of a model costs, in millionths of a dollar, rounded up.
    pub(crate) fn cost(&self, model: &str, usage: &Usage) -> Option<u64> {
        let price = longest(&self.given, model).or_else(|| longest(&self.shipped, model))?;
        let parts = [
            (usage.input, price.input),
            (usage.output, price.output),
            (usage.cache_read, price.cache_read),
            (usage.cache_write, price.cache_write),
        ];
        let sum: u128 = parts.iter().map(|(tokens, price)| u128::from(*tokens) * u128::from(*price)).sum();
        Some(u64::try_from(sum.div_ceil(1_000_000)).unwrap_or(u64::MAX))
    }
}

fn longest<'p>(prices: &'p [Price], model: &str) -> Option<&'p Price> {
    let fitting = prices.iter().filter(|price| model.starts_with(price.model.as_str()));
    fitting.max_by_key(|price| price.model.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ses_32_a_call_costs_what_the_table_says() {
        let prices = Prices::with(Vec::new()).unwrap();
        let usage = Usage { input: 12_345, output: 678, cache_read: 100_000, cache_write: 2_000 };
        // 12,345 x 3 + 678 x 15 + 100,000 x 0.3 + 2,000 x 3.75
        assert_eq!(prices.cost("claude-sonnet-4-5-20250929", &usage), Some(84_705));
        assert_eq!(prices.cost("claude-opus-4-5", &usage), prices.cost("claude-opus-4-5-x", &usage));
        assert_ne!(prices.cost("claude-opus-4-5", &usage), prices.cost("claude-opus-4-1", &usage));
        assert_eq!(prices.cost("unheard-of", &usage), None);
    }

    #[test]
    fn what_is_given_comes_before_what_is_shipped() {
        let own =
            Price { model: "claude".into(), input: 1_000_000, output: 0, cache_read: 0, cache_write: 0 };
        let prices = Prices::with(vec![own]).unwrap();
        let usage = Usage { input: 7, output: 9, ..Usage::default() };
        assert_eq!(prices.cost("claude-sonnet-4-5", &usage), Some(7));
    }
}
