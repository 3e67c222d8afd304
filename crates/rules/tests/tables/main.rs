//! What rules mean, as tables: what is asked, and what must be answered.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on ends here")]

mod adversarial;
mod cases;
mod egr_04;
mod egr_05;
mod egr_05_sets;
mod egr_06;
mod egr_12;
mod egr_21;
mod presets;
