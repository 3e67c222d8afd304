//! Budgets, and what was spent: kept in pieces of ten seconds, summed up over what each budget is about.
//!
//! Invariants: what is spent is on the disk before it is compared with what may be, so a restart forgets nothing; what a session's budget
//! is about is the session with all that come from it, forks and children alike, so none of them is a way around it.

use access::{ListBudgets, Permit, ReadSession, ReadUsage, SetBudget};
use model::{
    Allowance, Budget, BudgetKind, BudgetScope, Grant, Millis, PassId, SessionId, Spending, UserId,
    WorktreeId,
};

use crate::engine::{EngineError, Row, Value};
use crate::store::{odd, parsed};
use crate::tasks::AtWork;
use crate::{Store, StoreError};

/// What is counted together.
const PIECE: Millis = 10_000;
/// Rows of a list.
const MOST: i64 = 1_000;

/// A budget, and what was spent of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetStanding {
    /// The budget.
    pub budget: Allowance,
    /// How much, in its time up to now.
    pub spent: i64,
}

/// Who works where, as far as budgets are concerned.
#[derive(Clone, Copy, Debug)]
pub struct Spender {
    /// In which session.
    pub session: SessionId,
    /// In which worktree.
    pub worktree: WorktreeId,
    /// Who asked for it.
    pub user: UserId,
}

/// What was spent, summed up by something.
#[derive(Clone, Debug)]
pub struct Usage {
    /// By what: an id, or a name.
    pub by: String,
    /// How much.
    pub spent: Spending,
}

macro_rules! sums {
    ($rest:literal) => {
        concat!(
            "SELECT CAST(COALESCE(SUM(p.tokens), 0) AS BIGINT), CAST(COALESCE(SUM(p.cost), 0) AS BIGINT), CAST(COALESCE(SUM(p.calls), 0) AS BIGINT), ",
            "CAST(COALESCE(SUM(p.wall), 0) AS BIGINT), CAST(COALESCE(SUM(p.egress), 0) AS BIGINT), CAST(COALESCE(SUM(p.cpu), 0) AS BIGINT) FROM spent p ",
            $rest
        )
    };
}

macro_rules! usage_by {
    ($column:literal) => {
        concat!(
            "SELECT ", $column, ", CAST(COALESCE(SUM(p.tokens), 0) AS BIGINT), CAST(COALESCE(SUM(p.cost), 0) AS BIGINT), CAST(COALESCE(SUM(p.calls), 0) AS BIGINT), ",
            "CAST(COALESCE(SUM(p.wall), 0) AS BIGINT), CAST(COALESCE(SUM(p.egress), 0) AS BIGINT), CAST(COALESCE(SUM(p.cpu), 0) AS BIGINT) FROM spent p JOIN sessions s ON s.id = p.session ",
            "WHERE p.at >= $1 GROUP BY ", $column, " ORDER BY 3 DESC, 2 DESC, 5 DESC LIMIT $2"
        )
    };
}

/// A Pass and those that it was made from.
macro_rules! line_of_passes {
    () => {
        "WITH RECURSIVE up(id) AS (SELECT $1 UNION ALL SELECT p.parent FROM passes p JOIN up ON p.id = up.id \
         WHERE p.parent IS NOT NULL) "
    };
}

impl Store {
    /// Adds to what was spent by a task that is at work, and with the Pass that it was asked for with. `in_all` is what its agent told of the
    /// conversation that it goes on with.
    pub async fn spend(
        &self,
        work: &AtWork,
        more: &Spending,
        pass: Option<PassId>,
        in_all: Option<i64>,
    ) -> Result<(), StoreError> {
        let now = self.clock.now();
        let args: [Value; 8] = [
            work.task().to_string().into(),
            (now - now.rem_euclid(PIECE)).into(),
            more.tokens.into(),
            more.cost.into(),
            more.calls.into(),
            more.wall.into(),
            more.egress.into(),
            more.cpu.into(),
        ];
        let sql = "INSERT INTO spent (session, user_id, worktree, at, tokens, cost, calls, wall, egress, cpu) \
                   SELECT t.session, t.asked_by, s.worktree, $2, $3, $4, $5, $6, $7, $8 FROM tasks t \
                   JOIN sessions s ON s.id = t.session WHERE t.id = $1 \
                   ON CONFLICT (session, user_id, at) DO UPDATE SET tokens = spent.tokens + excluded.tokens, \
                   cost = spent.cost + excluded.cost, calls = spent.calls + excluded.calls, \
                   wall = spent.wall + excluded.wall, egress = spent.egress + excluded.egress, cpu = spent.cpu + excluded.cpu";
        let mut tx = self.engine.write().await?;
        tx.exec(sql, &args).await?;
        if let Some(in_all) = in_all {
            let sql = "UPDATE sessions SET agent_told = $2 WHERE id = $1 AND agent_told <> $2";
            tx.exec(sql, &[work.session().to_string().into(), in_all.into()]).await?;
        }
        if let Some(pass) = pass {
            let sql = concat!(
                line_of_passes!(),
                "INSERT INTO spent_by_passes (pass, tokens, cost, calls, wall, egress, cpu) \
                 SELECT id, $2, $3, $4, $5, $6, $7 FROM up WHERE true ON CONFLICT (pass) DO UPDATE SET \
                 tokens = spent_by_passes.tokens + excluded.tokens, cost = spent_by_passes.cost + excluded.cost, \
                 calls = spent_by_passes.calls + excluded.calls, wall = spent_by_passes.wall + excluded.wall, \
                 egress = spent_by_passes.egress + excluded.egress, cpu = spent_by_passes.cpu + excluded.cpu"
            );
            let [_, _, tokens, cost, calls, wall, egress, cpu] = args;
            tx.exec(sql, &[pass.to_string().into(), tokens, cost, calls, wall, egress, cpu]).await?;
        }
        Ok(tx.commit().await?)
    }

    /// What may be spent with a Pass, which its holder may have narrowed to this, and with those that it was made from; and what was.
    pub async fn pass_standings(
        &self,
        pass: PassId,
        narrowed: &Budget,
    ) -> Result<Vec<BudgetStanding>, StoreError> {
        let sql = concat!(
            line_of_passes!(),
            "SELECT COALESCE(b.tokens, 0), COALESCE(b.cost, 0), COALESCE(b.calls, 0), COALESCE(b.wall, 0), \
             COALESCE(b.egress, 0), COALESCE(b.cpu, 0), p.id, p.authority FROM up JOIN passes p ON p.id = up.id \
             LEFT JOIN spent_by_passes b ON b.pass = p.id"
        );
        let mut standings = Vec::new();
        for row in self.engine.rows(sql, &[pass.to_string().into()]).await? {
            let (spent, id): (Spending, PassId) = (spending(&row, 0)?, parsed(&row, 6)?);
            let grant: Grant = serde_json::from_str(row.text(7)?).map_err(|_| odd(7))?;
            let most = if id == pass { grant.budget.meet(narrowed) } else { grant.budget };
            let kinds = [
                (BudgetKind::Tokens, most.tokens),
                (BudgetKind::Cost, most.micro_usd),
                (BudgetKind::Calls, most.tool_calls),
                (BudgetKind::Egress, most.egress_bytes),
                (BudgetKind::Wall, most.wall_ms),
            ];
            // What is more than can be counted is without bound.
            for (kind, most) in
                kinds.into_iter().filter_map(|(kind, most)| Some((kind, i64::try_from(most).ok()?)))
            {
                let (scope, owner) = (BudgetScope::Pass, id.to_string());
                let budget = Allowance { scope, owner, kind, period: 0, most };
                standings.push(BudgetStanding { spent: spent.of(kind), budget });
            }
        }
        Ok(standings)
    }

    /// What may be spent there and what was: budgets that somebody set, and of the usual ones those that nobody did.
    pub async fn standings(
        &self,
        who: Spender,
        usual: &[Allowance],
    ) -> Result<Vec<BudgetStanding>, StoreError> {
        let chain = self.comes_from(who.session).await?;
        let sql = "SELECT scope, owner, kind, period, most FROM budgets WHERE (scope = 'user' AND owner = $1) \
                   OR (scope = 'worktree' AND owner = $2) OR scope = 'session' ORDER BY scope, owner, kind, period";
        let rows =
            self.engine.rows(sql, &[who.user.to_string().into(), who.worktree.to_string().into()]).await?;
        let mut budgets: Vec<Allowance> = rows.iter().map(budget).collect::<Result<_, _>>()?;
        budgets.retain(|one| one.scope != BudgetScope::Session || chain.contains(&one.owner));
        // Those who begin tasks look after this one.
        budgets.retain(|one| one.kind != BudgetKind::Sessions);
        for one in usual {
            let owner = match one.scope {
                BudgetScope::User => who.user.to_string(),
                BudgetScope::Worktree => who.worktree.to_string(),
                BudgetScope::Session => who.session.to_string(),
                BudgetScope::Pass => continue,
            };
            let is_set = |set: &Allowance| {
                (set.scope, &set.owner, set.kind, set.period) == (one.scope, &owner, one.kind, one.period)
            };
            if !budgets.iter().any(is_set) {
                budgets.push(Allowance { owner, ..one.clone() });
            }
        }
        let mut known: Vec<((BudgetScope, String, Millis), Spending)> = Vec::new();
        let mut standings = Vec::with_capacity(budgets.len());
        for budget in budgets {
            let key = (budget.scope, budget.owner.clone(), budget.period);
            let spent = match known.iter().find(|(of, _)| *of == key) {
                Some((_, spent)) => *spent,
                None => {
                    let spent = self.spent_by(&budget).await?;
                    known.push((key, spent));
                    spent
                }
            };
            standings.push(BudgetStanding { spent: spent.of(budget.kind), budget });
        }
        Ok(standings)
    }

    /// How many sessions may be at work at once, for whom or where that was set.
    pub async fn at_once(&self) -> Result<Vec<Allowance>, StoreError> {
        let sql = "SELECT scope, owner, kind, period, most FROM budgets WHERE kind = 'sessions'";
        Ok(self.engine.rows(sql, &[]).await?.iter().map(budget).collect::<Result<_, _>>()?)
    }

    /// A session and those that it comes from, forked or opened for: what is set for one of them holds for it as well.
    pub async fn comes_from(&self, session: SessionId) -> Result<Vec<String>, StoreError> {
        let sql = "WITH RECURSIVE up(id) AS (SELECT $1 UNION ALL SELECT s.parent FROM sessions s JOIN up ON s.id = up.id \
                   WHERE s.parent IS NOT NULL) SELECT id FROM up";
        let rows = self.engine.rows(sql, &[session.to_string().into()]).await?;
        Ok(rows.iter().map(|row| row.text(0).map(str::to_owned)).collect::<Result<_, _>>()?)
    }

    async fn spent_by(&self, budget: &Allowance) -> Result<Spending, StoreError> {
        let since = if budget.period == 0 { 0 } else { self.clock.now().saturating_sub(budget.period) };
        let sql = match budget.scope {
            BudgetScope::User => sums!("WHERE p.user_id = $1 AND p.at > $2"),
            BudgetScope::Worktree => sums!("WHERE p.worktree = $1 AND p.at > $2"),
            BudgetScope::Session => sums!(
                "WHERE p.session IN (WITH RECURSIVE down(id) AS (SELECT $1 UNION ALL SELECT s.id FROM sessions s \
                 JOIN down ON s.parent = down.id) SELECT id FROM down) AND p.at > $2"
            ),
            // These are summed up as they are spent.
            BudgetScope::Pass => return Ok(Spending::default()),
        };
        let row = self.engine.row(sql, &[budget.owner.as_str().into(), since.into()]).await?;
        row.as_ref().map_or(Ok(Spending::default()), |row| Ok(spending(row, 0)?))
    }

    /// What was spent in a session, with all that come from it.
    pub async fn usage_of(&self, permit: Permit<ReadSession>) -> Result<Spending, StoreError> {
        let owner = permit.into_act().session.to_string();
        let (scope, kind) = (BudgetScope::Session, BudgetKind::Calls);
        self.spent_by(&Allowance { scope, owner, kind, period: 0, most: 0 }).await
    }

    /// What was spent since a time, summed up by users, worktrees, agents or sessions; the most expensive first.
    pub async fn usage(&self, permit: Permit<ReadUsage>) -> Result<Vec<Usage>, StoreError> {
        let act = permit.into_act();
        let sql = match act.by {
            access::UsageBy::User => usage_by!("p.user_id"),
            access::UsageBy::Worktree => usage_by!("p.worktree"),
            access::UsageBy::Session => usage_by!("p.session"),
            access::UsageBy::Agent => usage_by!("s.agent"),
        };
        let rows = self.engine.rows(sql, &[act.since.into(), MOST.into()]).await?;
        let usage = |row: &Row| -> Result<Usage, EngineError> {
            Ok(Usage { by: row.text(0)?.to_owned(), spent: spending(row, 1)? })
        };
        Ok(rows.iter().map(usage).collect::<Result<_, _>>()?)
    }

    /// Budgets that somebody set.
    pub async fn list_budgets(&self, _permit: Permit<ListBudgets>) -> Result<Vec<Allowance>, StoreError> {
        let sql = "SELECT scope, owner, kind, period, most FROM budgets ORDER BY scope, owner, kind, period LIMIT $1";
        let rows = self.engine.rows(sql, &[MOST.into()]).await?;
        Ok(rows.iter().map(budget).collect::<Result<_, _>>()?)
    }

    /// Sets a budget, or takes it away.
    pub async fn set_budget(&self, permit: Permit<SetBudget>) -> Result<(), StoreError> {
        let set_by = permit.user();
        let SetBudget { scope, owner, kind, period, most } = permit.into_act();
        let mut tx = self.engine.write().await?;
        let (sql, what) = match scope {
            BudgetScope::User => ("SELECT 1 FROM users WHERE id = $1", "user"),
            BudgetScope::Worktree => ("SELECT 1 FROM worktrees WHERE id = $1", "worktree"),
            BudgetScope::Session => ("SELECT 1 FROM sessions WHERE id = $1", "session"),
            BudgetScope::Pass => return Err(StoreError::Dangling("budget")),
        };
        let known = tx.row(sql, &[owner.as_str().into()]).await?;
        if known.is_none() {
            return Err(StoreError::Dangling(what));
        }
        let key: [Value; 4] = [scope.word().into(), owner.into(), kind.word().into(), period.into()];
        let [scope, owner, kind, period] = key;
        match most {
            Some(most) => {
                let sql = "INSERT INTO budgets (scope, owner, kind, period, most, set_by, set_at) \
                           VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (scope, owner, kind, period) \
                           DO UPDATE SET most = excluded.most, set_by = excluded.set_by, set_at = excluded.set_at";
                let args = [
                    scope,
                    owner,
                    kind,
                    period,
                    most.into(),
                    set_by.to_string().into(),
                    self.clock.now().into(),
                ];
                tx.exec(sql, &args).await?;
            }
            None => {
                let sql = "DELETE FROM budgets WHERE scope = $1 AND owner = $2 AND kind = $3 AND period = $4";
                if tx.exec(sql, &[scope, owner, kind, period]).await? == 0 {
                    return Err(StoreError::Dangling("budget"));
                }
            }
        }
        Ok(tx.commit().await?)
    }
}

fn budget(row: &Row) -> Result<Allowance, EngineError> {
    Ok(Allowance {
        scope: parsed(row, 0)?,
        owner: row.text(1)?.to_owned(),
        kind: parsed(row, 2)?,
        period: row.int(3)?,
        most: row.int(4)?,
    })
}

fn spending(row: &Row, at: usize) -> Result<Spending, EngineError> {
    Ok(Spending {
        tokens: row.int(at)?,
        cost: row.int(at + 1)?,
        calls: row.int(at + 2)?,
        wall: row.int(at + 3)?,
        egress: row.int(at + 4)?,
        cpu: row.int(at + 5)?,
    })
}
