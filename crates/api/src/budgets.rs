//! What may be spent, and what was.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What was spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Spent {
    /// Tokens of models, as agents tell them.
    pub tokens: i64,
    /// Millionths of a dollar, as agents tell them.
    pub cost_micro_usd: i64,
    /// Calls of tools.
    pub calls: i64,
    /// Milliseconds at work.
    pub wall_ms: i64,
    /// Bytes to and from the network.
    pub egress_bytes: i64,
    /// Milliseconds of the processor.
    pub cpu_ms: i64,
}

/// How much may be spent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Budget {
    /// user, worktree or session.
    pub scope: String,
    /// Which of these.
    pub owner: String,
    /// tokens, cost (millionths of a dollar), calls, wall (milliseconds), egress (bytes), cpu (milliseconds) or sessions (at work at once).
    pub kind: String,
    /// In how many seconds up to now; 0 is ever.
    pub seconds: i64,
    /// How much.
    pub most: i64,
    /// How much of it was, where that is told.
    pub spent: Option<i64>,
}

/// Budgets.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct BudgetList {
    /// The budgets.
    pub items: Vec<Budget>,
}

/// What was spent in a session, and what may be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionUsage {
    /// With all that were opened for it.
    pub spent: Spent,
    /// The budgets that are about it.
    pub budgets: Vec<Budget>,
}

/// What was spent by one user, worktree, session or agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Usage {
    /// Its id, or its name.
    pub by: String,
    /// How much.
    pub spent: Spent,
}

/// What was spent, the most expensive first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct UsageList {
    /// A line each.
    pub items: Vec<Usage>,
}

/// Sets a budget, or takes it away.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetBudgetRequest {
    /// user, worktree or session.
    #[schema(pattern = r#"^(?:user|worktree|session)$"#)]
    pub scope: String,
    /// Which of these, by id.
    #[schema(pattern = r#"^(?:usr|wt|ses)_[0-9a-f]{32}$"#)]
    pub owner: String,
    /// tokens, cost, calls, wall, egress, cpu or sessions.
    #[schema(pattern = r#"^(?:tokens|cost|calls|wall|egress|cpu|sessions)$"#)]
    pub kind: String,
    /// In how many seconds up to now; 0 is ever. Of sessions at work at once always 0.
    #[schema(minimum = 0, maximum = 315360000)]
    pub seconds: i64,
    /// How much; without it the budget is taken away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1000000000000000_i64)]
    pub most: Option<i64>,
}
