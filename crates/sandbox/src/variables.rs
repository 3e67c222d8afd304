//! Turns the caller's environment into the one inside.
//!
//! Invariants: the profile decides name by name, and what it does not let in is absent; a variable that names
//! certificates names a file that is there inside, or is absent: a bundle from elsewhere is copied in, if
//! certificates are all that it holds. Not here: which names there are (`profile::environment`).

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::given::Caller;
use crate::profile::{Certificates, OURS, Profile, certificates};
use crate::spec::Spec;

/// The most bytes of all bundles together; they are in memory, beside other small files.
const MOST_BYTES: u64 = 2 << 20;

/// Directories that are inside as they are outside, and may hold certificates.
const SHOWN: [&str; 6] =
    ["/usr", "/opt", "/nix/store", "/etc/ssl/certs", "/etc/ca-certificates", "/etc/pki/tls/certs"];

/// The variables that go in, and the names of those that a profile which passes everything keeps out.
pub(crate) fn given(mut spec: Spec, profile: &Profile, caller: &Caller) -> (Spec, Vec<String>) {
    let mut withheld = Vec::new();
    let mut bundles = Bundles::default();
    for (name, value) in &caller.environment {
        let text = name.to_string_lossy();
        // A shell's own note of what it ran last.
        if text == "_" {
            continue;
        }
        if OURS.iter().any(|ours| text.eq_ignore_ascii_case(ours)) || profile.set.contains_key(&*text) {
            continue;
        }
        let kept_out = |withheld: &mut Vec<String>| withheld.push(text.clone().into_owned());
        if text != "PATH" && !profile.lets_in(&text, value.as_bytes()) {
            kept_out(&mut withheld);
            continue;
        }
        let there = |path: &Path| is_shown(path, profile, caller);
        spec = match certificates(&text) {
            None => spec.variable(name, value),
            Some(_) if there(Path::new(value)) => spec.variable(name, value),
            Some(Certificates::File) => match bundles.copied(Path::new(value)) {
                Some((at, bytes)) => {
                    let spec = spec.variable(name, &at);
                    bytes.into_iter().fold(spec, |spec, bytes| spec.file(&at, bytes))
                }
                None => {
                    kept_out(&mut withheld);
                    spec
                }
            },
            Some(Certificates::Folder) => {
                kept_out(&mut withheld);
                spec
            }
        };
    }
    for (name, value) in &profile.set {
        spec = spec.variable(name, value);
    }
    if !caller.environment.contains_key(OsStr::new("PATH")) {
        spec = spec.variable("PATH", "/usr/local/bin:/usr/bin:/bin");
    }
    let spec = spec
        .variable("USER", &caller.user)
        .variable("LOGNAME", &caller.user)
        .variable("SHELL", "/bin/bash")
        .variable("PWD", &caller.directory)
        .variable("TMPDIR", "/tmp")
        .variable("PALISADE", "1");
    (spec, if profile.inherit { withheld } else { Vec::new() })
}

/// Whether a path leads to the same inside as outside.
fn is_shown(path: &Path, profile: &Profile, caller: &Caller) -> bool {
    let given = profile.read.iter().chain(&profile.write).map(|entry| entry.path.as_path());
    let mut shown = SHOWN.into_iter().map(Path::new).chain([caller.worktree.as_path()]).chain(given);
    let plain = |part| !matches!(part, std::path::Component::ParentDir);
    path.components().all(plain) && shown.any(|shown| path.starts_with(shown))
}

/// Bundles that were copied so far: from where, and to where.
#[derive(Default)]
struct Bundles {
    known: Vec<(PathBuf, PathBuf)>,
    bytes: u64,
}

impl Bundles {
    /// Where a bundle is inside, and what is in it if it is new; nothing if it is no bundle of certificates.
    fn copied(&mut self, path: &Path) -> Option<(PathBuf, Option<Vec<u8>>)> {
        if let Some((_, at)) = self.known.iter().find(|(known, _)| known == path) {
            return Some((at.clone(), None));
        }
        let bytes = certificates_in(path, MOST_BYTES.saturating_sub(self.bytes))?;
        self.bytes = self.bytes.saturating_add(u64::try_from(bytes.len()).ok()?);
        let at = PathBuf::from(OsString::from(format!("/etc/ssl/given-{}.pem", self.known.len())));
        self.known.push((path.to_owned(), at.clone()));
        Some((at, Some(bytes)))
    }
}

/// What is in a file of public certificates; nothing if it is something else, or has a key in it as well.
fn certificates_in(path: &Path, most: u64) -> Option<Vec<u8>> {
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).ok()?;
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let found = file.metadata().ok().filter(|found| path.is_absolute() && found.is_file())?;
    if found.len() > most {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes).ok()?;
    let has = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
    (has(b" CERTIFICATE-----") && !has(b"PRIVATE KEY")).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sec_10_only_certificates_are_copied_in() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let public = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
        let private = "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n";
        let good = file("good.pem", public);
        let mut bundles = Bundles::default();
        let (at, bytes) = bundles.copied(&good).unwrap();
        assert_eq!(bytes.as_deref(), Some(public.as_bytes()));
        assert_eq!(bundles.copied(&good), Some((at, None)), "one copy is enough");
        for bad in [
            file("key.pem", private),
            file("both.pem", &format!("{public}{private}")),
            file("netrc", "machine forge.example login ana password x"),
            file("long.pem", &public.repeat(64 << 10)),
            folder.path().join("missing.pem"),
            folder.path().to_owned(),
        ] {
            assert_eq!(bundles.copied(&bad), None, "{}", bad.display());
        }
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert_eq!(bundles.copied(&pipe), None, "nobody waits for a writer");
    }
}
