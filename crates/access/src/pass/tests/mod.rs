//! ACC-10 and ACC-11, as far as the token itself goes: the kit, and what the tests are about.

mod foreign;
mod form;
mod properties;
mod rules;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::{Grant, Millis, PassId, UserId};
use vault::Secret;

use super::wire::{self, Raw};
use super::*;

const NOW: Millis = 1_760_000_000_000;

fn mint() -> Mint {
    Mint::new(&Secret::new([7; 32]))
}

fn grant(json: &str) -> Grant {
    serde_json::from_str(json).unwrap()
}

/// Some of everything, with room to narrow and to widen.
fn some() -> Grant {
    grant(
        r#"{"paths":{"allow":["rw:/work","ro:/usr"],"deny":["rw:/work/.git"]},"hosts":{"allow":["*.example.org"]},
            "tools":{"allow":["git.*","build"]},"secrets":{"allow":["ci.*"]},
            "budget":{"tokens":1000,"micro_usd":1000,"tool_calls":10,"egress_bytes":1000,"wall_ms":1000},"depth":2}"#,
    )
}

fn spec(grant: Grant) -> PassSpec<'static> {
    PassSpec { id: PassId::random(), user: UserId::random(), grant, expires: None, parent: None }
}

fn pass() -> PassToken {
    mint().mint(spec(some()), NOW).unwrap()
}

fn text(token: &PassToken) -> String {
    token.to_text().expose().clone()
}

fn check(text: &str) -> Result<VerifiedPass, PassError> {
    mint().verify(&PassToken::parse(text)?, NOW)
}

fn raw(token: &PassToken) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(text(token).strip_prefix(PREFIX).unwrap()).unwrap()
}

fn check_raw(bytes: &[u8]) -> Result<VerifiedPass, PassError> {
    check(&format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes)))
}

/// A Pass with caveats added as a foreign library would: signed, but not judged.
fn forced(token: &PassToken, caveats: &[&str]) -> Vec<u8> {
    caveats.iter().fold(raw(token), |bytes, caveat| {
        let signature = chain::step(Raw::parse(&bytes).unwrap().signature, caveat.as_bytes());
        wire::append(&bytes, caveat.as_bytes(), &signature)
    })
}

fn scaled(full: usize) -> usize {
    let scale: f64 = std::env::var("PALISADE_SCALE").ok().and_then(|text| text.parse().ok()).unwrap_or(0.05);
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a test size"
    )]
    let n = (full as f64 * scale) as usize;
    n.max(1)
}
