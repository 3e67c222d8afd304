//! What must not leave with what an agent leaves behind: somebody else knows what it is, this crate knows where to look.
//!
//! Not here: what is looked for, and what becomes of what is found. See `egress` for decoys.

/// Knows something that must not leave.
pub trait Seeks {
    /// Begins to look through something that comes in pieces.
    fn begin(&self) -> Box<dyn Looks + '_>;

    /// Looks through something whole; the name of what is in it.
    fn within(&self, bytes: &[u8]) -> Option<String> {
        self.begin().look(bytes)
    }
}

/// Looks through one thing.
pub trait Looks {
    /// The name of what is there now, wherever the pieces are cut.
    fn look(&mut self, piece: &[u8]) -> Option<String>;
}

/// Where it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sink {
    /// In the name of a branch.
    Branch,
    /// In a commit: its message, or who made it.
    Commit,
    /// In the name of a file or directory, of a commit or of the worktree.
    FileName,
    /// In a file of a commit.
    Content,
}

impl Sink {
    /// In a word, for the record.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Branch => "branch name",
            Self::Commit => "commit message",
            Self::FileName => "file name",
            Self::Content => "committed file",
        }
    }
}

/// Something that must not leave, where it was about to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carried {
    /// What it is called.
    pub name: String,
    /// Where it stands.
    pub sink: Sink,
}

impl std::fmt::Display for Carried {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the decoy in the variable {} stands in a {}", self.name, self.sink.word())
    }
}
