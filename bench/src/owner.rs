//! An installation without a server, and its owner: permits come from a gate and from nowhere else.

use std::path::Path;
use std::sync::Arc;

use access::{Lifetimes, Principal};
use anyhow::Context;
use model::SystemClock;
use redact::Redactor;
use runtime::{Boot, Mode, Runtime, Source};
use vault::{KeyRing, Secret};

/// Boots one in this directory and makes its owner.
pub(crate) async fn booted(data: &Path, ring: &Arc<KeyRing>) -> anyhow::Result<(Arc<Runtime>, Principal)> {
    let runtime = Runtime::boot(Boot {
        data: data.to_owned(),
        source: Source::Embedded,
        ring: Arc::clone(ring),
        mode: Mode::Solo,
        worktree_rbac: true,
        totp_actions: Vec::new(),
        lifetimes: Lifetimes::default(),
        clock: Arc::new(SystemClock),
        redactor: Redactor::new(),
        ledger: ledger::Options::default(),
        on_loss: runtime::OnLoss::Refuse,
        launcher: std::path::PathBuf::from("palisade"),
        patterns: None,
        agents: agents::Catalog::default(),
        agent_path: String::new(),
        known_hosts: Vec::new(),
        bounds: runtime::SessionBounds::default(),
    })
    .await?;
    let secret = runtime.auth().offer_bootstrap().await?.context("no set-up secret")?;
    let password = Secret::new("correct horse battery".to_owned());
    let (email, name) = ("ana@example.org".parse()?, "Ana".parse()?);
    let tokens = runtime.auth().bootstrap(secret.expose(), email, name, password, "bench").await?;
    let who = runtime.auth().authenticate(tokens.access.expose()).await?;
    Ok((runtime, who))
}
