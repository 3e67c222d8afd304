//! Which certificates programs inside believe, when somebody outside looks into their TLS.

mod java;

use std::path::{Path, PathBuf};

pub use self::java::store as java_store;

use crate::plan::{Access, Mount};
use crate::spec::Spec;

/// Where systems keep all certificates that they trust in one file; the first is what the variables name.
pub const BUNDLES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem"];

/// By which programs that bring certificates of their own are told of others: OpenSSL and Go, curl, git, Python, pip,
/// Node, npm, cargo, the AWS tools, Deno.
const VARIABLES: [&str; 10] = [
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "REQUESTS_CA_BUNDLE",
    "PIP_CERT",
    "NODE_EXTRA_CA_CERTS",
    "NPM_CONFIG_CAFILE",
    "CARGO_HTTP_CAINFO",
    "AWS_CA_BUNDLE",
    "DENO_CERT",
];

impl Spec {
    /// The files in which the Java programs inside keep what they trust.
    #[must_use]
    pub fn java_stores(&self) -> Vec<PathBuf> {
        java::stores(&self.shown().collect::<Vec<_>>())
    }

    /// Covers these files with a store of the host, so that Java programs inside believe what is in it, and nothing else.
    #[must_use]
    pub fn java_trusting(self, store: &Path, stores: Vec<PathBuf>) -> Self {
        let cover = |at| Mount { programs: false, ..Mount::host(store, at, Access::Read) };
        self.certificates(stores.into_iter().map(cover).collect())
    }

    /// Has programs inside believe the certificates in this file of the host, and no others.
    #[must_use]
    pub fn trusting(mut self, bundle: &Path) -> Self {
        let found: Vec<&str> = BUNDLES.into_iter().filter(|path| Path::new(path).is_file()).collect();
        let Some(first) = found.first() else { return self };
        for name in VARIABLES {
            self = self.variable(name, *first);
        }
        let cover = |at: &&str| Mount {
            programs: false,
            ..Mount::host(bundle, resolved(Path::new(at)), Access::Read)
        };
        let covers = found.iter().map(cover).collect();
        self.certificates(covers)
    }
}

/// Where a file really is: a link inside would be followed to what is covered by nobody.
fn resolved(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
