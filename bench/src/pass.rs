//! What it costs to verify a Pass with three caveats, from its text: against a JWT and against a biscuit.
//!
//! All three start from text and end with claims that hold now. The JWT carries the same things as claims. The
//! biscuit carries them as three checks in one signed block, which is the cheapest biscuit that says so; its
//! authorizer is prepared beforehand and cloned.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use access::pass::{Mint, PassSpec, PassToken};
use anyhow::Context;
use biscuit_auth::builder::Algorithm as BiscuitAlgorithm;
use biscuit_auth::{AuthorizerBuilder, AuthorizerLimits, Biscuit, KeyPair};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation, decode, encode};
use model::{Grant, Millis, PassId, Rights, UserId};
use serde::{Deserialize, Serialize};
use vault::Secret;

use crate::measure;
use crate::report::{Bound, Row};

/// More Passes than the mint remembers the meaning of, so that each is read anew.
const STRANGE: usize = 2048;

/// The figures of item 2.
pub(crate) fn rows() -> anyhow::Result<Vec<Row>> {
    let now = Millis::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?;
    let mint = Mint::new(&Secret::new([7; 32]));
    let text = minted(&mint, now)?;
    let verify = |text: &str| PassToken::parse(text).and_then(|token| mint.verify(&token, now)).is_ok();
    let jwt = Jwt::new(now)?;
    let biscuit = Bis::new()?;
    anyhow::ensure!(verify(&text) && jwt.check() && biscuit.check(), "something does not verify");

    let against_jwt = measure::side_by_side(60, || verify(&text), || jwt.check());
    let against_biscuit = measure::side_by_side(60, || verify(&text), || biscuit.check());
    let token = PassToken::parse(&text)?;
    let parsed = measure::side_by_side(20, || mint.verify(&token, now).is_ok(), || jwt.check());
    let many: Vec<String> = (0..STRANGE).map(|_| minted(&mint, now)).collect::<Result<_, _>>()?;
    let mut turn = many.iter().cycle();
    let cold = measure::side_by_side(20, || turn.next().is_some_and(|text| verify(text)), || jwt.check());
    let row = |name: &str, pair: measure::Pair, bound| Row {
        name: name.into(),
        unit: "ns",
        ours: pair.ours,
        reference: Some(pair.reference),
        bound,
    };
    Ok(vec![
        row("verify a Pass, 3 caveats, from text / JWT HS256", against_jwt, Bound::RatioAtMost(0.6)),
        row("  the same, already parsed (Mint::verify alone) / JWT", parsed, Bound::Information),
        row("  the same, a Pass not seen lately / JWT", cold, Bound::Information),
        row(
            "verify a Pass, 3 caveats, from text / biscuit, 3 checks",
            against_biscuit,
            Bound::RatioBelow(0.05),
        ),
    ])
}

fn minted(mint: &Mint, now: Millis) -> anyhow::Result<String> {
    let tool = |name: &str| name.parse().map_err(|why: &'static str| anyhow::anyhow!(why));
    let tools = Rights::new([tool("api.worktree.read")?, tool("api.worktree.update")?], []);
    let grant = Grant { tools, depth: 2, ..Grant::nothing() };
    let spec = PassSpec { id: PassId::random(), user: UserId::random(), grant, expires: None, parent: None };
    Ok(mint.mint(spec, now)?.to_text().expose().clone())
}

/// What the Pass says, as claims.
#[derive(Serialize, Deserialize)]
struct Claims {
    iss: String,
    aud: String,
    sub: UserId,
    jti: PassId,
    exp: i64,
    tools: Vec<String>,
    depth: u8,
}

struct Jwt {
    text: String,
    key: DecodingKey,
    validation: Validation,
}

impl Jwt {
    fn new(now: Millis) -> anyhow::Result<Self> {
        let claims = Claims {
            iss: "here".into(),
            aud: "palisade-api".into(),
            sub: UserId::random(),
            jti: PassId::random(),
            exp: now / 1000 + 3600,
            tools: vec!["api.worktree.read".into(), "api.worktree.update".into()],
            depth: 2,
        };
        let mut validation = Validation::new(Algorithm::HS256);
        validation.set_issuer(&["here"]);
        validation.set_audience(&["palisade-api"]);
        let text = encode(&Header::new(Algorithm::HS256), &claims, &EncodingKey::from_secret(&[7; 32]))?;
        Ok(Self { text, key: DecodingKey::from_secret(&[7; 32]), validation })
    }

    fn check(&self) -> bool {
        decode::<Claims>(&self.text, &self.key, &self.validation).is_ok()
    }
}

struct Bis {
    text: String,
    root: KeyPair,
    authorizer: AuthorizerBuilder,
}

impl Bis {
    fn new() -> anyhow::Result<Self> {
        let root = KeyPair::new_with_algorithm(BiscuitAlgorithm::Ed25519);
        let user = UserId::random();
        let block = format!(
            "check if user(\"{user}\"); check if time($t), $t < 2200-01-01T00:00:00Z; check if tool($t), \
             [\"api.worktree.read\", \"api.worktree.update\"].contains($t);"
        );
        let token = Biscuit::builder().code(block)?.build(&root)?;
        // The default limit of one millisecond would make a busy machine look like a refusal.
        let limits = AuthorizerLimits { max_time: Duration::from_secs(1), ..AuthorizerLimits::default() };
        let authorizer = AuthorizerBuilder::new()
            .code(format!("user(\"{user}\"); tool(\"api.worktree.read\"); allow if true;"))?
            .time()
            .set_limits(limits);
        Ok(Self { text: token.to_base64()?, root, authorizer })
    }

    fn check(&self) -> bool {
        self.verify().is_ok()
    }

    fn verify(&self) -> anyhow::Result<()> {
        let token = Biscuit::from_base64(&self.text, self.root.public())?;
        let mut authorizer = self.authorizer.clone().build(&token)?;
        authorizer.authorize().map(drop).context("the biscuit is refused")
    }
}
