//! Turns a request to a package registry into whether it installs, publishes, or does something else.
//!
//! What an install needs is listed; everything else (sign-in, tokens, owners, tags, audit reports) is not installing.

use crate::path::UrlPath;
use crate::rule::RegistryKind;

/// Whether an install needs this request.
pub(crate) fn installs(kind: RegistryKind, method: &str, path: &UrlPath<'_>) -> bool {
    if !matches!(method, "GET" | "HEAD") {
        return false;
    }
    let text = path.as_str();
    match kind {
        RegistryKind::Npm => installs_npm(path),
        RegistryKind::Pypi => !path.has_encoded_slash() && installs_pypi(text),
        RegistryKind::Crates => !path.has_encoded_slash() && installs_crates(text),
    }
}

/// Packages, versions and archives; keys and attestations that signatures are checked with.
fn installs_npm(path: &UrlPath<'_>) -> bool {
    let text = path.as_str();
    match text.strip_prefix("/-/") {
        Some(service) => {
            matches!(service, "ping" | "npm/v1/keys") || service.starts_with("npm/v1/attestations/")
        }
        None => npm_package(path).is_some_and(|package| {
            let rest = npm_rest(path, &package);
            // Nothing, a version or tag, or an archive.
            match rest.strip_prefix("-/") {
                Some(archive) => archive.ends_with(".tgz"),
                None => !rest.starts_with('-') && !rest.contains('/'),
            }
        }),
    }
}

/// What stands behind the package's name.
fn npm_rest(path: &UrlPath<'_>, package: &str) -> String {
    let meaning = path.meaning();
    let rest = meaning.get(package.len() + 1..).unwrap_or_default();
    rest.strip_prefix('/').unwrap_or(rest).to_owned()
}

/// The package that a path of npm's is about: `name` or `@scope/name`.
pub(crate) fn npm_package(path: &UrlPath<'_>) -> Option<String> {
    let meaning = path.meaning();
    if let Some(tagged) = meaning.strip_prefix("/-/package/") {
        return first_package(tagged);
    }
    first_package(meaning.strip_prefix('/')?)
}

fn first_package(text: &str) -> Option<String> {
    let mut segments = text.split('/');
    let first = segments.next().filter(|it| is_package_part(it.strip_prefix('@').unwrap_or(it)))?;
    if !first.starts_with('@') {
        return Some(first.to_owned());
    }
    let name = segments.next().filter(|it| is_package_part(it))?;
    Some(format!("{first}/{name}"))
}

/// Whether a text can be one part of a package's name. Names of services begin with a hyphen.
pub(crate) fn is_package_part(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    !text.is_empty() && !text.starts_with(['.', '-']) && text.bytes().all(fits)
}

/// Simple index, JSON of a project or version, files.
fn installs_pypi(text: &str) -> bool {
    let segments: Vec<&str> = text.split('/').skip(1).collect();
    match segments.as_slice() {
        ["simple"] | ["simple", _] | ["simple", _, ""] | ["pypi", _, "json"] | ["pypi", _, _, "json"] => true,
        ["packages", rest @ ..] => rest.len() > 1,
        _ => false,
    }
}

/// Files of the sparse index, and downloads.
fn installs_crates(text: &str) -> bool {
    let segments: Vec<&str> = text.split('/').skip(1).collect();
    match segments.as_slice() {
        ["config.json"]
        | ["api", "v1", "crates", _, _, "download"]
        | ["crates", _, _]
        | ["crates", _, _, "download"] => true,
        ["1" | "2", name] => is_package_part(name),
        ["3", first, name] => first.len() == 1 && is_package_part(name),
        [one, two, name] => one.len() == 2 && two.len() == 2 && is_package_part(name),
        _ => false,
    }
}

/// The package that an npm request publishes, changes or takes back. Sign-in, tokens and teams are none.
pub(crate) fn npm_publishes(method: &str, path: &UrlPath<'_>) -> Option<String> {
    if !matches!(method, "PUT" | "DELETE") {
        return None;
    }
    npm_package(path)
}

/// Whether a path of PyPI or crates.io is one by which packages are published, changed or taken back.
pub(crate) fn publishes(kind: RegistryKind, path: &UrlPath<'_>) -> bool {
    match kind {
        RegistryKind::Npm => npm_package(path).is_some(),
        RegistryKind::Pypi => matches!(path.as_str(), "/legacy/" | "/legacy"),
        RegistryKind::Crates => path.as_str().starts_with("/api/v1/crates/"),
    }
}
