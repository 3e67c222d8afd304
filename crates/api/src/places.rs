//! Where things are on this machine: configuration, data, credentials.
//!
//! With `--config FILE` everything lives beside that file unless the file says otherwise, so two
//! installations on one machine share nothing. Without it: `$XDG_CONFIG_HOME/palisade` and
//! `$XDG_DATA_HOME/palisade`, or `/etc/palisade` and `/var/lib/palisade` for root.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The places of one installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// The configuration file; it need not exist.
    pub config: PathBuf,
    /// Where data goes unless the configuration says otherwise.
    pub data: PathBuf,
}

impl Places {
    /// The places for this process.
    #[must_use]
    pub fn find(config: Option<&Path>) -> Self {
        Self::from(config, |name| std::env::var_os(name).filter(|value| !value.is_empty()), is_root())
    }

    fn from(config: Option<&Path>, variable: impl Fn(&str) -> Option<OsString>, root: bool) -> Self {
        if let Some(file) = config {
            let beside =
                file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            return Self { config: file.to_owned(), data: beside.join("data") };
        }
        let home = variable("HOME").map(PathBuf::from).filter(|_| !root);
        let under = |name: &str, below: &str, system: &str| match (variable(name), &home) {
            (Some(base), _) => PathBuf::from(base).join("palisade"),
            (None, Some(home)) => home.join(below).join("palisade"),
            (None, None) => PathBuf::from(system),
        };
        Self {
            config: under("XDG_CONFIG_HOME", ".config", "/etc/palisade").join("config.toml"),
            data: under("XDG_DATA_HOME", ".local/share", "/var/lib/palisade"),
        }
    }

    /// The directory of the configuration.
    #[must_use]
    pub fn config_dir(&self) -> &Path {
        self.config.parent().unwrap_or(Path::new("."))
    }

    /// Where the client keeps its tokens.
    #[must_use]
    pub fn credentials(&self) -> PathBuf {
        self.config_dir().join("credentials.toml")
    }

    /// Where solo mode keeps the master key.
    #[must_use]
    pub fn master_key(&self) -> PathBuf {
        self.config_dir().join("master.key")
    }
}

fn is_root() -> bool {
    std::os::unix::fs::MetadataExt::uid(&match std::fs::metadata("/proc/self") {
        Ok(meta) => meta,
        Err(_) => return false,
    }) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &'static [(&'static str, &'static str)]) -> impl Fn(&str) -> Option<OsString> {
        move |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into())
    }

    #[test]
    fn aut_15_a_named_file_brings_its_own_places() {
        let places = Places::from(Some(Path::new("/x/one.toml")), with(&[("XDG_DATA_HOME", "/d")]), false);
        assert_eq!(places.data, Path::new("/x/data"));
        assert_eq!(places.credentials(), Path::new("/x/credentials.toml"));
    }

    #[test]
    fn places_follow_the_base_directories() {
        let user = Places::from(None, with(&[("HOME", "/home/ana")]), false);
        assert_eq!(user.config, Path::new("/home/ana/.config/palisade/config.toml"));
        assert_eq!(user.data, Path::new("/home/ana/.local/share/palisade"));
        let xdg = Places::from(
            None,
            with(&[("HOME", "/root"), ("XDG_CONFIG_HOME", "/c"), ("XDG_DATA_HOME", "/d")]),
            true,
        );
        assert_eq!(
            (xdg.config.as_path(), xdg.data.as_path()),
            (Path::new("/c/palisade/config.toml"), Path::new("/d/palisade"))
        );
        let root = Places::from(None, with(&[("HOME", "/root")]), true);
        assert_eq!(root.data, Path::new("/var/lib/palisade"));
    }
}
