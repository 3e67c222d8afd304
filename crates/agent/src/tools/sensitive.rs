//! Names that promise a secret. No tool gives or takes what is in such a file.
//!
//! A pattern is one or more names in a row, anywhere in a path and without regard to case; `*` stands for any characters of
//! one name. Whatever is beneath a directory of such a name is as sensitive as the directory.

use std::path::Path;

/// The names.
pub(crate) const PATTERNS: [&str; 60] = [
    ".env",
    ".env.*",
    ".envrc",
    ".aws",
    ".azure",
    ".config/gcloud",
    ".boto",
    ".s3cfg",
    ".oci",
    ".ssh",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "id_*_sk",
    "authorized_keys",
    "ssh_host_*_key",
    ".gnupg",
    ".kube/config",
    "kubeconfig",
    ".docker/config.json",
    ".dockercfg",
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".gem/credentials",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".composer/auth.json",
    ".m2/settings.xml",
    ".m2/settings-security.xml",
    ".nuget/nuget.config",
    ".pgpass",
    ".my.cnf",
    ".mylogin.cnf",
    ".netrc",
    "_netrc",
    ".git-credentials",
    ".config/git/credentials",
    ".config/gh/hosts.yml",
    ".htpasswd",
    "*service-account*.json",
    "*service_account*.json",
    "*client-secret*.json",
    "*client_secret*.json",
    "application_default_credentials.json",
    ".vault-token",
    ".terraformrc",
    "terraform.rc",
    "*.tfstate",
    ".terraform.d/credentials.tfrc.json",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.keystore",
    "*.kdbx",
    "*.ppk",
    "*.ovpn",
];

/// Whether a path leads to, or through, such a name.
pub(crate) fn is_sensitive(path: &Path) -> bool {
    let names: Vec<String> =
        path.components().map(|part| part.as_os_str().to_string_lossy().to_lowercase()).collect();
    PATTERNS.iter().any(|pattern| {
        let wanted: Vec<&str> = pattern.split('/').collect();
        names.windows(wanted.len()).any(|row| row.iter().zip(&wanted).all(|(name, want)| fits(name, want)))
    })
}

/// Whether a name is of a pattern with any number of `*`. Each piece is taken where it first fits, so this is one pass.
fn fits(name: &str, pattern: &str) -> bool {
    let mut pieces = pattern.split('*');
    let Some(mut rest) = pieces.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else { return rest.is_empty() };
    for piece in pieces {
        let Some((_, after)) = rest.split_once(piece) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ses_28_every_pattern_is_found_in_any_case_and_anywhere() {
        for pattern in PATTERNS {
            let name = pattern.replace('*', "abc");
            for path in [name.clone(), name.to_uppercase(), format!("a/b/{name}"), format!("a/{name}/c/d")] {
                assert!(is_sensitive(Path::new(&path)), "{path}");
            }
        }
    }

    #[test]
    fn other_names_are_not_found() {
        for path in [
            "src/main.rs",
            "environment.rs",
            "env",
            ".environment",
            "docs/ssh.md",
            "keys.rs",
            "config",
            "docker/config.json",
            "x/config.json",
            "monkey",
            "a.pem.txt",
            "kube/config",
        ] {
            assert!(!is_sensitive(Path::new(path)), "{path}");
        }
    }
}
