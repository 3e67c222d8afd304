//! Names that people choose, each with one normal form.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Text that cannot be this kind of name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}")]
pub struct BadName {
    expected: &'static str,
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $expected:literal, $normal:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(String);

        impl $name {
            /// The text in its normal form.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = BadName;
            fn from_str(text: &str) -> Result<Self, BadName> {
                let normal: fn(&str) -> Option<String> = $normal;
                normal(text).map(Self).ok_or(BadName { expected: $expected })
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

name!(
    /// A person's address, lower case; unique in the installation.
    Email, "an e-mail address of at most 254 ASCII characters", email);
name!(
/// How a person is shown.
DisplayName, "1 to 80 characters without control characters", |text| {
    let trimmed = text.trim();
    (plain(text, 80) && !trimmed.is_empty()).then(|| trimmed.to_owned())
});
name!(
    /// The name of a worktree; branches, ports and refs are made from it.
    WorktreeName, "1 to 80 characters from a-z, 0-9 and `-`, not starting or ending with `-`", slug);
name!(
    /// The name of a repository.
    RepoName, "1 to 80 characters from a-z, 0-9 and `-`, not starting or ending with `-`", slug);

name!(
    /// The name of a kind of agent, as the catalog has it.
    AgentName, "1 to 80 characters from a-z, 0-9 and `-`, not starting or ending with `-`", slug);

name!(
    /// The name of a capability, a subagent or an env.
    ArtifactName, "1 to 80 characters from a-z, 0-9 and `-`, not starting or ending with `-`", slug);

name!(
    /// The name of a secret, as a program finds it in its environment.
    SecretName, "1 to 128 characters from A-Z, a-z, 0-9 and `_`, not starting with a digit", |text| {
    let fits = (1..=128).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && !text.starts_with(|c: char| c.is_ascii_digit());
    fits.then(|| text.to_owned())
});

fn plain(text: &str, most: usize) -> bool {
    !text.is_empty() && text.chars().count() <= most && !text.chars().any(char::is_control)
}

fn slug(text: &str) -> Option<String> {
    let fits = (1..=80).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-');
    fits.then(|| text.to_owned())
}

fn email(text: &str) -> Option<String> {
    let (local, domain) = text.rsplit_once('@')?;
    let local_fits = (1..=64).contains(&local.len())
        && local.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~.".contains(&b));
    let label_fits = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let fits = text.len() <= 254 && local_fits && domain.split('.').all(label_fits);
    fits.then(|| text.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_lower_case_and_ascii() {
        assert_eq!("Ana@Example.ORG".parse::<Email>().unwrap().as_str(), "ana@example.org");
        for bad in ["", "a", "@b", "a@", "a b@c", "a@b c", "ä@b", "a@-b", "a@b..c", "a\n@b", "a@b\0"] {
            assert!(bad.parse::<Email>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_worktree_name_is_a_slug() {
        for good in ["a", "fix-login", "0"] {
            assert!(good.parse::<WorktreeName>().is_ok(), "{good}");
        }
        let long = "a".repeat(81);
        for bad in ["", "-a", "a-", "A", "a.b", "a/b", "..", "a b", long.as_str()] {
            assert!(bad.parse::<WorktreeName>().is_err(), "{bad}");
        }
    }
}
