//! Files for another agent: text, beneath one directory, within the bounds of the built-in agent's own tools.

use std::path::{Path, PathBuf};

use model::{Access, Grant};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::limits::Limits;
use crate::tools::{ToolError, Tree, failed, refused};

pub(super) struct Files {
    tree: Tree,
    limits: Limits,
    grant: Grant,
}

impl Files {
    pub(super) fn open(here: &Path, limits: &Limits) -> Result<Self, String> {
        // What this agent may touch is said by the sandbox alone.
        Ok(Self { tree: Tree::open(here)?, limits: limits.clone(), grant: Grant::everything() })
    }

    /// The text of a file, or some lines of it.
    pub(super) fn read(&self, params: Value) -> Result<Value, ToolError> {
        #[derive(Deserialize)]
        struct Given {
            path: String,
            line: Option<usize>,
            limit: Option<usize>,
        }
        let given: Given = read(params)?;
        let text = self.tree.text(&self.judged(&given.path, Access::Read)?, self.limits.read_bytes)?;
        let lines = text.split_inclusive('\n').skip(given.line.unwrap_or(1).saturating_sub(1));
        let content: String = lines.take(given.limit.unwrap_or(usize::MAX)).collect();
        Ok(json!({ "content": content }))
    }

    /// Puts a text there, whole, as a new file or in place of one.
    pub(super) fn write(&self, params: Value) -> Result<Value, ToolError> {
        #[derive(Deserialize)]
        struct Given {
            path: String,
            content: String,
        }
        let given: Given = read(params)?;
        if given.content.len() as u64 > self.limits.write_bytes {
            return Err(refused("size", format!("at most {} bytes are written", self.limits.write_bytes)));
        }
        let path = self.judged(&given.path, Access::Write)?;
        let is_fresh = self.tree.text_if_any(&path, self.limits.read_bytes)?.is_none();
        self.tree.put(&path, &given.content, is_fresh)?;
        Ok(json!({}))
    }

    fn judged(&self, path: &str, access: Access) -> Result<PathBuf, ToolError> {
        self.tree.judged(&beneath(self.tree.shown(), path)?, access, &self.grant)
    }
}

/// What a request gives.
pub(super) fn read<T: DeserializeOwned>(params: Value) -> Result<T, ToolError> {
    serde_json::from_value(params).map_err(|error| refused("params", error.to_string()))
}

/// The path beneath the directory that a whole path names.
pub(super) fn beneath(here: &Path, path: &str) -> Result<String, ToolError> {
    let path = Path::new(path);
    if !path.is_absolute() {
        return Err(refused("path_relative", "a path is whole, from `/` on"));
    }
    let outside = || refused("path_outside", format!("only what is beneath `{}` is served", here.display()));
    let rest = path.strip_prefix(here).map_err(|_| outside())?;
    rest.to_str().map(str::to_owned).ok_or_else(|| failed("the path is no text"))
}
