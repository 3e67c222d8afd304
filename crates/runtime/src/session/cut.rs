//! What a Grant leaves of a sandbox: files, hosts and secrets that whoever asked may use, and no others.
//!
//! Flow: a principal -> [`Cut`] -> options of the launcher, which cuts mounts and rules by them.
//!
//! Invariants: a person's own login or key has everything, which is written out; nothing named means nothing; a Grant without a
//! file of the worktree starts no process. In a Grant `/` is the worktree of the session.

use model::{Grant, GrantPath, HostPattern, Patterns, Rights};

/// What is left.
#[derive(Debug)]
pub(super) struct Cut<'a>(&'a Grant);

/// Why nothing is started.
pub(super) const NO_FILES: &str =
    "what it was asked with gives no file of this worktree; a Grant that names `ro:/` or `rw:/src` does";

impl<'a> Cut<'a> {
    pub(super) fn of(grant: &'a Grant) -> Self {
        Self(grant)
    }

    /// Options of the launcher; an error says why nothing may be started.
    pub(super) fn options(&self) -> Result<Vec<String>, String> {
        let everything = Grant::everything();
        let mut options = Vec::new();
        if self.0.paths != everything.paths {
            let given: Vec<String> = self.0.paths.allowed().map(GrantPath::to_string).collect();
            if given.is_empty() {
                return Err(NO_FILES.into());
            }
            named(&mut options, "--only", given);
            let path = |one: &GrantPath| one.path().to_owned();
            named(&mut options, "--except", self.0.paths.denied().map(path));
        }
        if self.is_offline() {
            options.push("--offline".to_owned());
        } else if self.0.hosts != everything.hosts {
            named(&mut options, "--within", self.0.hosts.allowed().map(HostPattern::to_string));
            named(&mut options, "--never", self.0.hosts.denied().map(HostPattern::to_string));
        }
        Ok(options)
    }

    /// Whether no host may be reached.
    pub(super) fn is_offline(&self) -> bool {
        self.0.hosts == Rights::nothing()
    }

    /// Whether a secret of this name may be used; where nothing is reached nothing is lent.
    pub(super) fn lends(&self, name: &str) -> bool {
        let name: Result<Patterns, _> = name.parse();
        !self.is_offline() && name.is_ok_and(|name| self.0.secrets.allows(&name))
    }
}

fn named(options: &mut Vec<String>, name: &str, values: impl IntoIterator<Item = String>) {
    for value in values {
        options.extend([name.to_owned(), value]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(grant: &str) -> Result<String, String> {
        let grant: Grant = serde_json::from_str(grant).unwrap();
        Cut::of(&grant).options().map(|all| all.join(" "))
    }

    #[test]
    fn acc_26_a_grant_becomes_what_the_launcher_cuts_by() {
        assert_eq!(Cut::of(&Grant::everything()).options(), Ok(Vec::new()));
        for none in ["{}", r#"{"hosts":{"allow":["**"]}}"#, r#"{"paths":{"deny":["rw:/x"]}}"#] {
            assert_eq!(options(none), Err(NO_FILES.to_owned()), "{none}");
        }
        assert_eq!(options(r#"{"paths":{"allow":["rw:/"]}}"#).unwrap(), "--offline");
        assert_eq!(
            options(r#"{"paths":{"allow":["rw:/src","ro:/"],"deny":["ro:/key"]},"hosts":{"allow":["**"]}}"#)
                .unwrap(),
            "--only ro:/ --only rw:/src --except /key"
        );
        assert_eq!(
            options(
                r#"{"paths":{"allow":["rw:/"]},"hosts":{"allow":["*.x.example","api.y.example:8443"],"deny":["a.x.example"]}}"#
            )
            .unwrap(),
            "--within api.y.example:8443 --within *.x.example --never a.x.example"
        );
    }

    #[test]
    fn acc_26_a_secret_is_lent_if_it_is_named_and_something_is_reached() {
        let grant = |text: &str| serde_json::from_str::<Grant>(text).unwrap();
        let named = grant(r#"{"secrets":{"allow":["API_*"],"deny":["API_OLD"]},"hosts":{"allow":["**"]}}"#);
        let lends: Vec<bool> =
            ["API_KEY", "API_OLD", "OTHER"].iter().map(|name| Cut::of(&named).lends(name)).collect();
        assert_eq!(lends, [true, false, false]);
        assert!(!Cut::of(&grant(r#"{"secrets":{"allow":["*"]}}"#)).lends("API_KEY"));
        assert!(Cut::of(&Grant::everything()).lends("API_KEY"));
    }
}
