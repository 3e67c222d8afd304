//! Certificates for Java, which reads them from a store of its own in each installation.
//!
//! Every version reads the oldest form of a store (JKS), with or without the usual password, and whatever the file is
//! called; a variable for all of them would make each start say that it was picked up. So the store itself is covered.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sha1::{Digest, Sha1};

/// Where systems have installations, one per directory.
const HOMES: [&str; 3] = ["/usr/lib/jvm", "/usr/java", "/opt"];
/// The same beneath a person's own directories, as far as they are shown inside.
const OWN_HOMES: [&str; 3] = [".", "candidates/java", "versions"];
/// What is the system's.
const SYSTEM: [&str; 4] = ["/usr", "/opt", "/etc", "/nix/store"];
/// Where one has its store: from version 9 on, and before.
const STORES: [&str; 2] = ["lib/security/cacerts", "jre/lib/security/cacerts"];
/// The most that a directory of installations has in it.
const MOST: usize = 64;
/// What everybody seals such a store with. It hides nothing: certificates are public.
const PASSWORD: &str = "changeit";

/// The stores that this system's installations read, and those beneath directories that a sandbox is shown.
pub(super) fn stores(shown: &[&Path]) -> Vec<PathBuf> {
    let system = HOMES.iter().flat_map(|folder| each(Path::new(folder)));
    let own = shown.iter().flat_map(|place| {
        let within = OWN_HOMES.iter().flat_map(|folder| each(&place.join(folder)));
        within.chain([place.to_path_buf()]).collect::<Vec<_>>()
    });
    let stores = system.chain(own).flat_map(|home| STORES.map(|store| home.join(store)));
    let mut found: Vec<PathBuf> = stores.filter_map(|path| path.canonicalize().ok()).collect();
    found.sort();
    found.dedup();
    // A link that leads elsewhere leads to nothing inside.
    let is_inside = |path: &Path| {
        SYSTEM.iter().map(Path::new).chain(shown.iter().copied()).any(|top| path.starts_with(top))
    };
    found.retain(|path| path.is_file() && is_inside(path));
    found
}

/// What is in a directory, if it is few: nobody has many installations, and a launch waits for this.
fn each(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let found: Vec<PathBuf> = entries.take(MOST + 1).map(|entry| entry.path()).collect();
    if found.len() > MOST { Vec::new() } else { found }
}

/// A store of the certificates in a bundle (PEM).
#[must_use]
pub fn store(bundle: &str) -> Vec<u8> {
    let certificates: Vec<Vec<u8>> = certificates(bundle).collect();
    let mut bytes = vec![0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2];
    bytes.extend(size(certificates.len()));
    for (number, certificate) in certificates.iter().enumerate() {
        // A certificate that is trusted, by a name of its own, since no time that matters.
        bytes.extend([0, 0, 0, 2]);
        text(&mut bytes, &format!("palisade-{number}"));
        bytes.extend([0; 8]);
        text(&mut bytes, "X.509");
        bytes.extend(size(certificate.len()));
        bytes.extend(certificate);
    }
    let password: Vec<u8> = PASSWORD.encode_utf16().flat_map(u16::to_be_bytes).collect();
    let seal = Sha1::new().chain_update(password).chain_update("Mighty Aphrodite").chain_update(&bytes);
    bytes.extend(seal.finalize());
    bytes
}

fn certificates(bundle: &str) -> impl Iterator<Item = Vec<u8>> {
    let blocks = bundle.split("-----BEGIN CERTIFICATE-----").skip(1);
    let bodies = blocks.filter_map(|block| block.split_once("-----END").map(|(body, _)| body));
    bodies.filter_map(|body| {
        let letters: String = body.split_whitespace().collect();
        BASE64_STANDARD.decode(letters).ok()
    })
}

fn size(length: usize) -> [u8; 4] {
    u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes()
}

fn text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend(u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes());
    bytes.extend(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_has_each_certificate_and_a_seal_at_its_end() {
        let bundle = "text\n-----BEGIN CERTIFICATE-----\nAAEC\nAwQF\n-----END CERTIFICATE-----\n\
                      -----BEGIN CERTIFICATE-----\nnot base 64!\n-----END CERTIFICATE-----\n\
                      -----BEGIN CERTIFICATE-----\n/w==\n-----END CERTIFICATE-----\n";
        let store = store(bundle);
        assert_eq!(store[..12], [0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2, 0, 0, 0, 2]);
        let entry = |number: u8, certificate: &[u8]| {
            let name = format!("palisade-{number}");
            let length = u8::try_from(certificate.len()).unwrap();
            let head =
                [&[0, 0, 0, 2, 0, 10], name.as_bytes(), &[0; 8], &[0, 5], b"X.509", &[0, 0, 0, length]];
            [head.concat(), certificate.to_vec()].concat()
        };
        let entries = [entry(0, &[0, 1, 2, 3, 4, 5]), entry(1, &[0xff])].concat();
        assert_eq!(store[12..store.len() - 20], entries);
    }

    #[test]
    fn stores_are_found_in_what_a_person_has_and_each_once() {
        let folder = tempfile::tempdir().unwrap();
        let homes = ["direct", "sdk/candidates/java/21", "jdks/corretto/jre"];
        for home in homes {
            let security = folder.path().join(home).join("lib/security");
            std::fs::create_dir_all(&security).unwrap();
            std::fs::write(security.join("cacerts"), "x").unwrap();
        }
        std::os::unix::fs::symlink("21", folder.path().join("sdk/candidates/java/current")).unwrap();
        std::fs::create_dir_all(folder.path().join("jdks/elsewhere/lib/security")).unwrap();
        let far = folder.path().join("far");
        std::fs::write(&far, "x").unwrap();
        std::os::unix::fs::symlink(&far, folder.path().join("jdks/elsewhere/lib/security/cacerts")).unwrap();
        let shown = ["direct", "sdk", "jdks"].map(|name| folder.path().join(name).canonicalize().unwrap());
        let found = stores(&shown.each_ref().map(PathBuf::as_path));
        let beneath = found.iter().filter(|path| path.starts_with(folder.path().canonicalize().unwrap()));
        assert_eq!(beneath.count(), homes.len(), "{found:?}");
    }
}
