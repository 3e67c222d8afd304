//! What a request does for an owner behind a shared host, so that a refusal can say it.
//!
//! Nothing is allowed or refused by this; it only finds words.

use std::fmt;

use crate::name::{Host, Name};
use crate::path::UrlPath;
use crate::rule::RegistryKind;
use crate::verdict::Request;
use crate::{git, registry};

/// What a request does for an owner behind a shared host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Push to a repository.
    Push {
        /// Which.
        repo: String,
    },
    /// Clone or fetch a repository.
    Fetch {
        /// Which.
        repo: String,
    },
    /// Publish, change or take back a package.
    Publish {
        /// Which, where the path says it.
        package: Option<String>,
    },
    /// Make or change a gist.
    Gist,
    /// Make or change an issue, a pull request or a comment.
    Issue {
        /// In which repository.
        repo: String,
    },
}

impl Deed {
    /// What this request does, as far as host, method and path tell.
    #[must_use]
    pub fn of(host: &Host, request: &Request<'_>) -> Option<Self> {
        if let Some(act) =
            request.git.clone().or_else(|| git::act(request.method, &request.path, request.query))
        {
            return Some(match act.verb {
                git::Verb::Read => Self::Fetch { repo: act.repo },
                git::Verb::Push { .. } => Self::Push { repo: act.repo },
            });
        }
        let Host::Name(name) = host else { return None };
        if matches!(request.method, "GET" | "HEAD" | "OPTIONS") {
            return None;
        }
        match name.as_str() {
            "api.github.com" => on_github(&request.path),
            "registry.npmjs.org" | "registry.yarnpkg.com" => {
                let package = registry::npm_package(&request.path);
                package.map(|package| Self::Publish { package: Some(package) })
            }
            "upload.pypi.org" | "test.pypi.org" | "crates.io" => {
                registry::publishes(registry_of(name), &request.path)
                    .then_some(Self::Publish { package: None })
            }
            _ => None,
        }
    }
}

fn registry_of(name: &Name) -> RegistryKind {
    if name.as_str() == "crates.io" { RegistryKind::Crates } else { RegistryKind::Pypi }
}

fn on_github(path: &UrlPath<'_>) -> Option<Deed> {
    let mut segments = path.as_str().split('/').skip(1);
    match segments.next()? {
        "gists" => Some(Deed::Gist),
        "repos" => {
            let (owner, name, part) = (segments.next()?, segments.next()?, segments.next()?);
            let talks = matches!(part, "issues" | "pulls" | "comments");
            talks.then(|| Deed::Issue { repo: format!("{owner}/{name}") })
        }
        _ => None,
    }
}

impl fmt::Display for Deed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Push { repo } => write!(out, "push to the repository `{repo}`"),
            Self::Fetch { repo } => write!(out, "read the repository `{repo}`"),
            Self::Publish { package: Some(package) } => {
                write!(out, "publish or change the package `{package}`")
            }
            Self::Publish { package: None } => out.write_str("publish or change a package"),
            Self::Gist => out.write_str("make or change a gist"),
            Self::Issue { repo } => write!(out, "make or change an issue or pull request of `{repo}`"),
        }
    }
}
