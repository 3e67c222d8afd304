//! Runs code that a model wrote, by an interpreter that is listed for it, behind a wall: no network, no files elsewhere.

use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::shell::{Bounds, Manner, Running, waited};
use super::wall::Wall;
use super::{Desk, Prepared, ToolError, arguments, failed, refused};
use crate::cancel::Cancel;
use crate::history::random_hex;

pub(super) fn run_code(input: Value, desk: &Arc<Desk>) -> Result<Prepared, ToolError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Given {
        interpreter: String,
        code: String,
    }
    let given: Given = arguments(input)?;
    let program = desk.interpreters.allowed(&given.interpreter)?;
    if given.code.len() as u64 > desk.limits.write_bytes {
        return Err(refused("size", format!("code has at most {} bytes", desk.limits.write_bytes)));
    }
    let desk = Arc::clone(desk);
    let title = format!("{}: {}", given.interpreter, given.code);
    // Whoever allows an interpreter always allows any code.
    let subject = given.interpreter.clone();
    let run = move |cancel: &Cancel| {
        let folder = Folder::with(&given.code)?;
        let limits = &desk.limits;
        let bounds = Bounds { time: Duration::from_millis(limits.code_ms), bytes: limits.code_bytes };
        let wall = Wall { code: folder.0.clone(), writable: desk.writing };
        let manner = Manner::behind(&wall);
        let file = [folder.0.join("code").display().to_string()];
        let running = Running::start(&program, &file, desk.tree.shown(), bounds, &manner)?;
        waited(running, bounds, cancel)
    };
    Ok(Prepared::plain(title, &subject, run))
}

/// A directory for one piece of code, gone when it is done.
struct Folder(PathBuf);

impl Folder {
    fn with(code: &str) -> Result<Self, ToolError> {
        let name = format!("palisade-code-{}", random_hex(16).map_err(failed)?);
        let folder = Self(std::env::temp_dir().join(name));
        std::fs::DirBuilder::new().mode(0o700).create(&folder.0).map_err(failed)?;
        let mut options = std::fs::OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(folder.0.join("code"));
        file.and_then(|mut file| std::io::Write::write_all(&mut file, code.as_bytes())).map_err(failed)?;
        Ok(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is an unused file in a directory for such.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
