//! Turns a request of git's smart HTTP protocol into what it does to which repository.
//!
//! The refs of a push stand in its body; whoever reads that fills them in. Not here: git's older protocol of plain
//! files, and LFS, which say in a body what they want.

use crate::path::UrlPath;
use crate::rule::{Git, Push};

/// What a request does to a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Act {
    /// Its path on the host, without slash in front and `.git` behind: `owner/name`.
    pub repo: String,
    /// What is done.
    pub verb: Verb,
}

/// What is done to a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Clone or fetch.
    Read,
    /// Push to these refs. None: a push is being prepared (its first request, or an empty probe).
    Push {
        /// Full names, as in the body of the request.
        refs: Vec<String>,
    },
}

/// What a request does to a repository, by its method, path and query; `None` if it is none of git's.
///
/// A push is given without refs. [`needs_refs`] says whether they have to be read from the body.
#[must_use]
pub fn act(method: &str, path: &UrlPath<'_>, query: Option<&str>) -> Option<Act> {
    let text = path.as_str();
    let (place, pushes) = if let Some(place) = text.strip_suffix("/info/refs") {
        (place, service(query?)?)
    } else if let Some(place) = text.strip_suffix("/git-upload-pack") {
        (place, false)
    } else {
        (text.strip_suffix("/git-receive-pack")?, true)
    };
    let expected = if text.ends_with("/info/refs") { "GET" } else { "POST" };
    if method != expected || path.has_encoded_slash() {
        return None;
    }
    let repo = crate::path::decoded(place.strip_prefix('/')?)?;
    let repo = repo.strip_suffix(".git").unwrap_or(&repo).to_owned();
    if repo.is_empty() {
        return None;
    }
    Some(Act { repo, verb: if pushes { Verb::Push { refs: Vec::new() } } else { Verb::Read } })
}

/// Whether this is the request of a push that has the refs in its body.
#[must_use]
pub fn needs_refs(method: &str, path: &UrlPath<'_>) -> bool {
    method == "POST" && path.as_str().ends_with("/git-receive-pack")
}

/// Whether the service that `info/refs` is asked for is the one that pushes. A query that names it twice is none.
fn service(query: &str) -> Option<bool> {
    match query {
        "service=git-upload-pack" => Some(false),
        "service=git-receive-pack" => Some(true),
        _ => None,
    }
}

/// Whether a path is one of those that git asks for, whatever its method and query. What looks like git but is not
/// exactly it, is judged by no other rule.
pub(crate) fn is_place(path: &UrlPath<'_>) -> bool {
    let meaning = path.meaning();
    let text = meaning.trim_end_matches('/');
    let ends = |end: &str| {
        let from = text.len().checked_sub(end.len());
        from.and_then(|from| text.get(from..)).is_some_and(|tail| tail.eq_ignore_ascii_case(end))
    };
    ends("/info/refs") || ends("/git-upload-pack") || ends("/git-receive-pack")
}

/// Whether a text can be the full name of a ref.
pub(crate) fn is_ref(text: &str) -> bool {
    let odd = |byte: u8| byte <= b' ' || byte == 0x7f || b"~^:?*[\\".contains(&byte);
    let fits = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
    text.starts_with("refs/")
        && text.len() <= 1024
        && !text.contains("..")
        && !text.contains("@{")
        && !text.ends_with('.')
        && !text.bytes().any(odd)
        && text.split('/').count() > 2
        && text.split('/').all(fits)
}

impl Act {
    /// The smallest permission that this needs.
    pub(crate) fn wanted(&self) -> Git {
        match &self.verb {
            Verb::Read => Git { read: true, push: Vec::new() },
            Verb::Push { refs } => {
                let refs = if refs.is_empty() { vec!["refs/heads/*".to_owned()] } else { refs.clone() };
                Git { read: true, push: vec![Push { repo: self.repo.clone(), refs }] }
            }
        }
    }
}
