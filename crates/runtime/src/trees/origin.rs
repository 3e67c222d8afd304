//! Where a repository comes from: text -> something that can be fetched from.

use std::path::{Path, PathBuf};

use store::StoreError;

use crate::Mode;

/// The longest origin.
const MOST: usize = 1_000;

/// Where a repository comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A host that speaks HTTPS.
    Https {
        /// The whole of it.
        address: String,
        /// Host and port, as a rule writes them.
        host: String,
    },
    /// A host that speaks SSH.
    Ssh(String),
    /// A directory of this machine.
    Local(PathBuf),
}

/// Why text is no origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadOrigin {
    /// It is none.
    #[error("expected `https://host/path` or `ssh://host/path` without user, password or query")]
    Unknown,
    /// A directory, where several people share the daemon.
    #[error(
        "a directory of this machine can be an origin in solo mode only: the daemon would read it for others"
    )]
    Local,
}

impl Origin {
    /// Reads one. A directory is one only where the daemon serves the one person whose machine it is.
    ///
    /// # Errors
    /// [`BadOrigin`].
    pub fn parse(text: &str, mode: Mode) -> Result<Self, BadOrigin> {
        if text.len() > MOST {
            return Err(BadOrigin::Unknown);
        }
        if text.starts_with('/') {
            let plain = Path::new(text)
                .components()
                .all(|part| matches!(part, std::path::Component::RootDir | std::path::Component::Normal(_)));
            return match (plain && !text.chars().any(char::is_control), mode) {
                (false, _) => Err(BadOrigin::Unknown),
                (true, Mode::Team) => Err(BadOrigin::Local),
                (true, Mode::Solo) => Ok(Self::Local(text.into())),
            };
        }
        let (rest, secure) = match (text.strip_prefix("https://"), text.strip_prefix("ssh://")) {
            (Some(rest), _) => (rest, true),
            (None, Some(rest)) => (rest, false),
            (None, None) => return Err(BadOrigin::Unknown),
        };
        let (host, path) = rest.split_once('/').ok_or(BadOrigin::Unknown)?;
        // `git@` is a name, not a secret; anything else before `@` could be one.
        let host = host.strip_prefix("git@").unwrap_or(host);
        let name = host.split(':').next().unwrap_or_default().trim_end_matches('.');
        let is_own = ["palisade.local", "localhost"].iter().any(|own| {
            let name = name.to_ascii_lowercase();
            name == *own || name.ends_with(&format!(".{own}"))
        });
        let host_fits = !host.is_empty()
            && !is_own
            && !host.starts_with('-')
            && host.bytes().all(|b| b.is_ascii_alphanumeric() || b".-:".contains(&b));
        let path_fits =
            !path.is_empty() && path.bytes().all(|b| b.is_ascii_graphic() && !b"@?#\\\"'`".contains(&b));
        match (host_fits && path_fits, secure) {
            (false, _) => Err(BadOrigin::Unknown),
            (true, true) => {
                Ok(Self::Https { address: format!("https://{host}/{path}"), host: host.to_owned() })
            }
            (true, false) => Ok(Self::Ssh(text.to_owned())),
        }
    }

    /// What git is told.
    pub(super) fn address(&self) -> String {
        match self {
            Self::Https { address, .. } | Self::Ssh(address) => address.clone(),
            Self::Local(path) => path.display().to_string(),
        }
    }

    /// What the sandbox that fetches is given for it.
    pub(super) fn reach(&self) -> Result<[String; 2], StoreError> {
        match self {
            Self::Https { host, .. } => Ok(["--allow".into(), host.clone()]),
            Self::Local(path) => Ok(["--ro".into(), path.display().to_string()]),
            Self::Ssh(_) => Err(StoreError::Unusable(
                "fetching over ssh is not possible yet; register the `https://` address".into(),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wt_01_only_what_can_be_fetched_without_harm_is_an_origin() {
        let good = Origin::parse("https://git@forge.example:8443/a/b.git", Mode::Team).unwrap();
        let Origin::Https { address, host } = good else { panic!("{good:?}") };
        assert_eq!(
            (address.as_str(), host.as_str()),
            ("https://forge.example:8443/a/b.git", "forge.example:8443")
        );
        assert_eq!(Origin::parse("/srv/x", Mode::Solo), Ok(Origin::Local("/srv/x".into())));
        assert_eq!(Origin::parse("/srv/x", Mode::Team), Err(BadOrigin::Local));
        for bad in [
            "",
            "x",
            "file:///etc",
            "ext::sh -c id",
            "http://forge.example/a",
            "https://u:p@forge.example/a",
            "https://forge.example",
            "https://forge.example/",
            "https://-x/a",
            "https://forge.example/a?t=1",
            "/a/../b",
            "/a/./../b",
            "/a\nb",
            "git://x/y",
            "ssh://x",
            "--upload-pack=x",
            "https:///a",
            "https://token@forge.example/a",
            "https://forge.example/a b",
            "https://host.palisade.local:8443/a",
            "https://HOST.Palisade.Local./a",
            "https://-oProxyCommand=x/a",
        ] {
            assert_eq!(Origin::parse(bad, Mode::Solo), Err(BadOrigin::Unknown), "{bad}");
        }
    }
}
