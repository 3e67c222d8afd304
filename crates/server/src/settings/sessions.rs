//! How far sessions go and what they may spend, as the configuration says.

use model::{BudgetKind, BudgetScope};

use super::{Reader, SettingsError};

impl Reader<'_> {
    pub(super) fn bounds(&self) -> Result<runtime::SessionBounds, SettingsError> {
        let notice = self.text("sessions.notice").parse();
        Ok(runtime::SessionBounds {
            depth: u32::try_from(self.number("sessions.depth", 0, 16)?).unwrap_or(0),
            fan_out: u32::try_from(self.number("sessions.fan_out", 0, 1_000)?).unwrap_or(0),
            per_person: self.size("sessions.per_person", 1, 256)?,
            per_worktree: self.size("sessions.per_worktree", 1, 256)?,
            goes_on: self.flag("sessions.goes_on")?,
            notice: notice
                .map_err(|why: runtime::UnknownWord| self.bad("sessions.notice", why.to_string()))?,
            four_eyes: self.flag("sessions.four_eyes")?,
            shares: self.flag("sessions.dangerously_allow_session_sharing")?,
            unattended_holds: match self.text("sessions.unattended") {
                "hold" => true,
                "deny" => false,
                _ => return Err(self.bad("sessions.unattended", "expected `hold` or `deny`")),
            },
            answer: std::time::Duration::from_secs(self.number("sessions.answer_seconds", 1, 86_400)?),
            grace: std::time::Duration::from_secs(self.number("sessions.stop_seconds", 1, 10)?),
            begin: std::time::Duration::from_secs(self.number("sessions.begin_seconds", 1, 3_600)?),
            silence: std::time::Duration::from_secs(self.number("sessions.silence_seconds", 1, 86_400)?),
            usual: self.usual_budgets()?,
        })
    }

    fn usual_budgets(&self) -> Result<runtime::UsualBudgets, SettingsError> {
        const MINUTE: i64 = 60_000;
        const DAY: i64 = 24 * 60 * MINUTE;
        let number = |name| Ok(i64::try_from(self.number(name, 0, 1_000_000_000)?).unwrap_or(0));
        let (session, user) = (BudgetScope::Session, BudgetScope::User);
        let all = [
            (session, BudgetKind::Calls, MINUTE, number("budgets.session_calls_per_minute")?),
            (session, BudgetKind::Tokens, MINUTE, number("budgets.session_tokens_per_minute")?),
            (user, BudgetKind::Cost, DAY, number("budgets.user_cents_per_day")? * 10_000),
        ];
        let budgets = all.into_iter().filter(|(.., most)| *most > 0).map(|(scope, kind, period, most)| {
            model::Allowance { scope, owner: String::new(), kind, period, most }
        });
        Ok(runtime::UsualBudgets {
            budgets: budgets.collect(),
            messages: number("budgets.session_messages_per_minute")?,
            patience: std::time::Duration::from_secs(
                60 * self.number("budgets.patience_minutes", 1, 10_080)?,
            ),
        })
    }
}
