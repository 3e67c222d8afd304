//! What can be typed about plans.

use std::path::PathBuf;

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum PlanCommand {
    /// Check a plan: everything that is wrong with it is told at once, with its place; nothing is run
    ///
    /// Exit codes: 0 nothing is wrong; 1 something is, or the file cannot be read.
    Validate {
        /// In JSON or TOML; `-` is standard input
        file: PathBuf,
    },
    /// Show a plan as a tree: what waits for what, and what each item does
    Show {
        /// In JSON or TOML; `-` is standard input
        file: PathBuf,
    },
}
