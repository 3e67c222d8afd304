//! What people register for workers.

use std::time::Duration;

use super::{Called, Client, ClientError, NOTHING, part, query};
use crate::*;

/// By then a capability of the largest size was sent, looked through and kept.
const UPLOAD: Duration = Duration::from_secs(300);

/// What people register for workers.
impl Client {
    /// One page of the names of a kind.
    pub fn artifacts(&self, kind: &str, after: Option<&str>) -> Called<ArtifactPage> {
        let query = query(&[("after", after.map(str::to_owned))]);
        self.call("GET", &format!("/api/v1/artifacts/{}{query}", part(kind)), NOTHING)
    }

    /// One version, by a name or its hash.
    pub fn artifact(&self, kind: &str, reference: &str) -> Called<Artifact> {
        self.call("GET", &format!("/api/v1/artifacts/{}/{}", part(kind), part(reference)), NOTHING)
    }

    /// What a name stood for.
    pub fn artifact_history(&self, kind: &str, name: &str) -> Called<ArtifactHistory> {
        self.call("GET", &format!("/api/v1/artifacts/{}/{}/history", part(kind), part(name)), NOTHING)
    }

    /// Lets a name stand for another version.
    pub fn assign_artifact(&self, kind: &str, name: &str, to: &str) -> Called<ArtifactOutcome> {
        let body = AssignArtifactRequest { to: to.to_owned() };
        self.call("POST", &format!("/api/v1/artifacts/{}/{}/assign", part(kind), part(name)), Some(&body))
    }

    /// Takes a version out of use.
    pub fn revoke_artifact(&self, kind: &str, reference: &str) -> Called<Artifact> {
        self.call("POST", &format!("/api/v1/artifacts/{}/{}/revoke", part(kind), part(reference)), NOTHING)
    }

    /// Registers a capability; the bytes of its files follow the request, in its order.
    pub fn register_capability(
        &self,
        body: &RegisterCapabilityRequest,
        files: &[Vec<u8>],
    ) -> Called<ArtifactOutcome> {
        let mut bytes =
            serde_json::to_vec(body).map_err(|error| ClientError::Unexpected(error.to_string()))?;
        bytes.push(b'\n');
        bytes.extend(files.iter().flatten());
        let headers = [("content-type", CAPABILITY_TYPE)];
        let answer = self.send_for(UPLOAD, "POST", "/api/v1/capabilities", &headers, &bytes)?;
        let text = Self::judged(answer)?.into_body().read_to_vec();
        let text = text.map_err(|error| ClientError::Unexpected(error.to_string()))?;
        serde_json::from_slice(&text).map_err(|error| ClientError::Unexpected(error.to_string()))
    }

    /// One file of a capability.
    pub fn capability_file(&self, reference: &str, path: &str) -> Called<Vec<u8>> {
        let query = query(&[("path", Some(path.to_owned()))]);
        let mut file =
            self.stream("GET", &format!("/api/v1/capabilities/{}/file{query}", part(reference)))?;
        let mut bytes = Vec::new();
        let read = std::io::Read::read_to_end(&mut file, &mut bytes);
        read.map_err(|error| ClientError::Unexpected(error.to_string()))?;
        Ok(bytes)
    }

    /// Registers a subagent.
    pub fn register_subagent(&self, body: &RegisterSubagentRequest) -> Called<ArtifactOutcome> {
        self.call("POST", "/api/v1/subagents", Some(body))
    }

    /// Registers an env.
    pub fn register_env(&self, body: &RegisterEnvRequest) -> Called<ArtifactOutcome> {
        self.call("POST", "/api/v1/envs", Some(body))
    }
}
