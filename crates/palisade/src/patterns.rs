//! Patterns that an administrator adds to what is masked: those of the file that a variable names, in force before anything is said.
//!
//! The daemon names the file to every launcher that it starts, so that receipts, records and reports of sessions are masked by the
//! same patterns as what it says itself. Invariants: a file that cannot be used keeps this program from doing anything; what it
//! says of that names a line, never what stands there. No variable of ours is passed into a sandbox.

use std::path::Path;

use crate::commands::redact;
use crate::failure::Failure;
use crate::output;

/// Where the file is named.
const VARIABLE: &str = "PALISADE_PATTERNS";

/// Puts them in force, if there are any.
pub(crate) fn load() -> Result<(), Failure> {
    let Some(named) = std::env::var_os(VARIABLE).filter(|named| !named.is_empty()) else { return Ok(()) };
    let path = Path::new(&named);
    let text = redact::text(path)?;
    let listed = ::redact::listed(&text);
    match output::add_patterns(listed.iter().map(|(_, pattern)| *pattern)) {
        None => Ok(()),
        Some(bad) => {
            let line = listed.get(bad.index).map_or(bad.index, |(line, _)| *line) + 1;
            let (file, flaw) = (path.display(), bad.flaw);
            Err(Failure::Usage(format!(
                "{VARIABLE}: the pattern in line {line} of `{file}` cannot be used: {flaw}"
            )))
        }
    }
}
