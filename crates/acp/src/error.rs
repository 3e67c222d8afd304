//! Why something was not got from an agent.

/// Why an agent did not do what was asked of it. Words of the agent in it are bounded, and its own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcpError {
    /// The stream has ended.
    #[error("the agent is gone; start it again")]
    Gone,
    /// It may still be at work.
    #[error("the agent did not answer `{method}` within {seconds} s; stop it and start it again")]
    Late {
        /// What was asked.
        method: &'static str,
        /// How long it was waited for.
        seconds: u64,
    },
    /// It said no.
    #[error("the agent refused `{method}`: {message} (code {code})")]
    Refused {
        /// What was asked.
        method: &'static str,
        /// The protocol's number for the reason.
        code: i64,
        /// The agent's words.
        message: String,
    },
    /// It has no credential that it can use.
    #[error("the agent is not signed in: {message}; give it a credential, or sign in by one of its ways")]
    SignIn {
        /// The agent's words.
        message: String,
    },
    /// It answered something else.
    #[error("what the agent answered to `{method}` cannot be used: {why}")]
    Garbled {
        /// What was asked.
        method: &'static str,
        /// What is wrong with the answer.
        why: String,
    },
    /// It speaks another protocol.
    #[error(
        "the agent speaks version `{0}` of the protocol, and only version 1 is spoken here; use another release of it"
    )]
    Version(u64),
    /// It has nothing of the kind, or not that one.
    #[error("the agent does not offer {what} `{wanted}`; choose one that it offers")]
    NotOffered {
        /// A mode, a model, …
        what: &'static str,
        /// Which one.
        wanted: String,
    },
    /// One turn at a time.
    #[error("a turn of that session is running; wait for its end or cancel it")]
    Busy,
    /// Nothing was sent.
    #[error("a message has at most {most} bytes; shorten it")]
    TooLong {
        /// Bytes of a message.
        most: usize,
    },
}
