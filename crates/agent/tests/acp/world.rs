//! A directory to work in, a home, a model, and a configuration whose waits are short.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::client::Agent;
use crate::model::{Model, Reply};

/// The key that the agent is given: made up, and shaped like none of any provider's.
pub(crate) const KEY: &str = "test-key-7f3a9c51e2d84b60";

pub(crate) struct World {
    folder: tempfile::TempDir,
    pub(crate) model: Model,
    pub(crate) config: Value,
}

impl World {
    /// One Anthropic-like provider, writing on, level `full`.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["tree", "home"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let model = Model::start();
        let config = json!({
            "autonomy": "full",
            "writing": true,
            "providers": [provider("main", "anthropic", &model.base())],
            "limits": { "backoff_ms": 5, "rate_wait_ms": 30 },
        });
        Self { folder, model, config }
    }

    pub(crate) fn with(mut self, name: &str, value: Value) -> Self {
        self.config[name] = value;
        self
    }

    pub(crate) fn limit(mut self, name: &str, value: u64) -> Self {
        self.config["limits"][name] = json!(value);
        self
    }

    pub(crate) fn tree(&self) -> PathBuf {
        // As the kernel names it: a temporary directory may lie behind a link.
        self.folder.path().canonicalize().unwrap().join("tree")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub(crate) fn file(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let whole = self.tree().join(path);
        std::fs::create_dir_all(whole.parent().unwrap()).unwrap();
        std::fs::write(&whole, content).unwrap();
        whole
    }

    pub(crate) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.tree().join(path)).unwrap()
    }

    /// Every file and what is in it.
    pub(crate) fn snapshot(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let (mut open, mut files) = (vec![self.tree()], Vec::new());
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() && !path.is_symlink() {
                    open.push(path);
                } else {
                    let content = std::fs::read(&path).unwrap_or_default();
                    files.push((path, content));
                }
            }
        }
        files.sort();
        files
    }

    pub(crate) fn agent(&self) -> Agent {
        Agent::start(&self.config, &[("MODEL_KEY", KEY)], &self.home())
    }

    pub(crate) fn opened(&self) -> Agent {
        let mut agent = self.agent();
        agent.open(&self.tree());
        agent
    }

    /// Makes one call in a session of its own; its state and what the client was shown of it.
    pub(crate) fn call(&self, tool: &'static str, input: Value) -> (String, String) {
        self.calls(vec![(tool, input)]).remove(0)
    }

    /// Makes calls, each in a turn of its own, so that failures do not stop them.
    pub(crate) fn calls(&self, calls: Vec<(&'static str, Value)>) -> Vec<(String, String)> {
        let mut agent = self.opened();
        let mut results = Vec::new();
        for call in calls {
            self.model.plays([Reply::Call(vec![call]), Reply::Say("ok")]);
            agent.prompt("go").unwrap();
            results.extend(agent.results());
        }
        results
    }
}

pub(crate) fn provider(name: &str, kind: &str, base: &str) -> Value {
    let model = match kind {
        "anthropic" => "claude-sonnet-4-5",
        "openai" => "gpt-5",
        "gemini" => "gemini-2.5-flash",
        _ => "llama",
    };
    json!({ "name": name, "kind": kind, "base_url": base, "model": model, "keys": ["MODEL_KEY"] })
}
