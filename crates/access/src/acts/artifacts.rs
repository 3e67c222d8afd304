//! Acts on what people register for workers.

use model::{ArtifactKind, ArtifactName, ContentHash, Millis, Reference, SecretId, SecretName};

use crate::act::{self, Act, Action, Resource};

/// Content of a file, sealed in parts.
#[derive(Debug)]
pub struct NewBlob {
    /// What it is, for good.
    pub hash: ContentHash,
    /// Its parts in order, each sealed for its place.
    pub parts: Vec<Vec<u8>>,
}

/// A secret that goes into the vault with the env that refers to it.
#[derive(Debug)]
pub struct NewEnvSecret {
    /// Its id.
    pub secret: SecretId,
    /// The name by which the env refers to it.
    pub name: SecretName,
    /// When it ends.
    pub expires: Option<Millis>,
    /// Whether that counts also where it is later than the end that the same value was given before.
    pub renew: bool,
    /// Its value, sealed for its row.
    pub sealed: Vec<u8>,
}

acts! {
    /// List artifacts of a kind.
    ListArtifacts = ARTIFACT_LIST on |_| Resource::Installation; {
        /// Which kind.
        kind: ArtifactKind,
    }
    /// Read one version.
    ReadArtifact = ARTIFACT_READ on |_| Resource::Installation; {
        /// Which kind.
        kind: ArtifactKind,
        /// Which version.
        reference: Reference,
    }
    /// Fetch one file of a capability as it is.
    FetchArtifact = ARTIFACT_FETCH on |_| Resource::Installation; {
        /// Which version.
        reference: Reference,
        /// Which file.
        path: String,
    }
    /// Read what a name stood for.
    ReadArtifactHistory = ARTIFACT_READ on |_| Resource::Installation; {
        /// Which kind.
        kind: ArtifactKind,
        /// Which name.
        name: ArtifactName,
    }
    /// Register a version, and let a name stand for it.
    RegisterArtifact = ARTIFACT_REGISTER on |_| Resource::Installation,
        detail |a| {
            let mut told = vec![
                ("kind", a.kind.to_string()),
                ("name", a.name.to_string()),
                ("hash", a.hash.to_string()),
                ("bytes", a.bytes.to_string()),
            ];
            told.extend((a.accepted > 0).then(|| ("credentials_accepted", a.accepted.to_string())));
            let names = a.secrets.iter().map(|one| if one.renew { format!("{} renewed", one.name) } else { one.name.to_string() });
            told.extend((!a.secrets.is_empty()).then(|| ("secrets", names.collect::<Vec<_>>().join(", "))));
            told
        }; {
        /// Which kind.
        kind: ArtifactKind,
        /// The name that stands for it from now on.
        name: ArtifactName,
        /// What it is, for good.
        hash: ContentHash,
        /// Bytes of its files.
        bytes: i64,
        /// Its document, sealed for its row.
        document: Vec<u8>,
        /// What it is sealed under.
        epoch: u32,
        /// Content of its files.
        blobs: Vec<NewBlob>,
        /// Secrets that it brings along, for the vault.
        secrets: Vec<NewEnvSecret>,
        /// Places that look like credentials, which whoever registers it said are none.
        accepted: usize,
    }
    /// Let a name stand for a version that was registered before.
    AssignArtifact = ARTIFACT_ASSIGN on |_| Resource::Installation,
        detail |a| vec![("kind", a.kind.to_string()), ("name", a.name.to_string()), ("to", a.reference.to_string())]; {
        /// Which kind.
        kind: ArtifactKind,
        /// Which name.
        name: ArtifactName,
        /// Which version.
        reference: Reference,
    }
    /// Take a version out of use, for good.
    RevokeArtifact = ARTIFACT_REVOKE on |_| Resource::Installation,
        detail |a| vec![("kind", a.kind.to_string()), ("artifact", a.reference.to_string())]; {
        /// Which kind.
        kind: ArtifactKind,
        /// Which version.
        reference: Reference,
    }
}
