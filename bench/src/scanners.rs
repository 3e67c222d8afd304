//! Asks other scanners and redactors about a folder of texts and about one large file.
//!
//! Each is driven by a few lines in its own language (`bench/peers`), which say on their output what was found where and
//! how long the large file took, without the start of the program.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

/// What one of them said.
#[derive(Debug, Deserialize)]
pub(crate) struct Answer {
    pub(crate) version: String,
    /// For the large file.
    pub(crate) seconds: f64,
    /// Of the large file.
    pub(crate) bytes: usize,
    /// By file name: the lines of findings.
    #[serde(default)]
    pub(crate) lines: BTreeMap<String, Vec<usize>>,
    /// By file name: the text as it was left. From those that redact.
    #[serde(default)]
    pub(crate) texts: BTreeMap<String, String>,
}

/// How to start one.
pub(crate) struct Scanner {
    pub(crate) name: &'static str,
    program: PathBuf,
    driver: PathBuf,
}

/// All that we compare with.
pub(crate) fn all() -> Vec<Scanner> {
    let installed = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../target/bench/peers"));
    let drivers = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/peers"));
    let python = |name| Scanner {
        name,
        program: installed.join("python/bin/python"),
        driver: drivers.join("scan.py"),
    };
    vec![
        python("kingfisher"),
        python("detect-secrets"),
        // The driver lies beside what it imports.
        Scanner { name: "secretlint", program: "node".into(), driver: installed.join("node/scan.mjs") },
        python("agy-mcp"),
    ]
}

impl Scanner {
    /// What it finds, or why it cannot be asked.
    pub(crate) fn ask(&self, texts: &Path, large: &Path) -> Result<Answer, String> {
        if !self.driver.exists() || (self.program.is_absolute() && !self.program.exists()) {
            return Err("it is not installed; `scripts/setup bench` says why".into());
        }
        let output = Command::new(&self.program)
            .arg(&self.driver)
            .arg(self.name)
            .args([texts, large])
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("it does not start: {error}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            return Err(format!("it does not work here: {}", said.lines().last().unwrap_or_default()));
        }
        serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("its answer is not understood: {error}"))
    }
}
