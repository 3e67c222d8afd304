//! What can go wrong for the person at the terminal.

use api::ClientError;

/// Why a command did not do what it should.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The daemon refused or did not answer.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The command line makes no sense.
    #[error("{0}")]
    Usage(String),
    /// What was named is not there, or could be several things.
    #[error("{0}")]
    NotFound(String),
    /// Something must be typed, and there is no terminal.
    #[error("{0} is needed and there is no terminal; {1}")]
    NoTerminal(&'static str, &'static str),
    /// Nobody is signed in.
    #[error("not signed in; run `palisade login`, or set PALISADE_API_KEY")]
    SignedOut,
    /// A file could not be used.
    #[error("`{path}`: {source}")]
    File {
        /// Which.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// A program could not be started.
    #[error("{0}")]
    Program(String),
    /// A sandbox could not be made, or its command not be started; with the exit code that says which.
    #[error("{0}")]
    Sandbox(String, u8),
    /// A secret could not be had from the daemon's vault: in words for this secret, and what it came from.
    #[error("{0}")]
    Vault(String, Box<Failure>),
    /// One of several was not registered: in words, with what was done before it, and what it came from.
    #[error("{0}")]
    Deploy(String, Box<Failure>),
    /// Something that every sandbox needs is missing on this machine.
    #[error("{0}")]
    Unfit(String, serde_json::Value, String),
    /// The layer of a run could not be read, applied or dropped.
    #[error("{0}")]
    Layer(String),
    /// Both the run and somebody else changed these paths.
    #[error("{0}")]
    Conflict(String, Vec<String>),
    /// A plan has faults: in one line, for programs, and each of them.
    #[error("{0}")]
    Plan(String, serde_json::Value, String),
    /// A task that was waited for came to no good end.
    #[error("the task is {0}; `palisade session show` tells more")]
    Task(String),
    /// The ledger is not what was written.
    #[error("the ledger was tampered with")]
    Tampered(serde_json::Value, String),
    /// The ledger cannot be checked.
    #[error("the ledger cannot be verified")]
    Unverifiable(serde_json::Value, String),
}

impl Failure {
    /// A failure about a file.
    pub(crate) fn file(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.display().to_string();
        move |source| Self::File { path, source }
    }

    /// The word for programs.
    pub(crate) fn code(&self) -> String {
        match self {
            Self::Client(ClientError::Problem(problem)) => serde_json::to_value(problem.code)
                .ok()
                .and_then(|value| value.as_str().map(str::to_owned))
                .unwrap_or_default(),
            Self::Client(ClientError::Unreachable { .. }) => "unreachable".into(),
            Self::Client(ClientError::Unexpected(_)) => "unexpected".into(),
            Self::Usage(_) | Self::NoTerminal(..) => "usage".into(),
            Self::NotFound(_) => "not_found".into(),
            Self::SignedOut => "auth_required".into(),
            Self::File { .. } => "file".into(),
            Self::Program(_) => "program".into(),
            Self::Sandbox(..) => "sandbox".into(),
            Self::Vault(_, from) | Self::Deploy(_, from) => from.code(),
            Self::Layer(_) => "layer".into(),
            Self::Task(_) => "task".into(),
            Self::Plan(..) => "plan".into(),
            Self::Conflict(..) => "conflict".into(),
            Self::Unfit(..) => "unfit".into(),
            Self::Tampered(..) => "tampered".into(),
            Self::Unverifiable(..) => "unverifiable".into(),
        }
    }

    /// The exit code.
    pub(crate) fn exit(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::NoTerminal(..) | Self::Unverifiable(..) => 2,
            Self::Sandbox(_, code) => *code,
            Self::Vault(..)
            | Self::Deploy(..)
            | Self::Client(_)
            | Self::NotFound(_)
            | Self::SignedOut
            | Self::File { .. }
            | Self::Program(_)
            | Self::Unfit(..)
            | Self::Layer(_)
            | Self::Task(_)
            | Self::Plan(..)
            | Self::Conflict(..)
            | Self::Tampered(..) => 1,
        }
    }

    /// The exit code of `run`, whose other codes are the command's own.
    pub(crate) fn exit_of_run(&self) -> u8 {
        match self {
            Self::Sandbox(_, code) => *code,
            _ => 125,
        }
    }

    /// The request that the daemon refused, for its log.
    pub(crate) fn request(&self) -> Option<&str> {
        match self {
            Self::Client(ClientError::Problem(problem)) => Some(&problem.request_id),
            Self::Vault(_, from) | Self::Deploy(_, from) => from.request(),
            _ => None,
        }
    }
}
