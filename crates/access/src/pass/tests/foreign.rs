//! A foreign macaroon library (pymacaroons) reads, attenuates and verifies our Passes.
//!
//! One test runs it, in a virtual environment beside the build's output; the first run needs a package
//! index (or set `PALISADE_OFFLINE=1` to leave it out). One test replays what it once answered.

use std::path::{Path, PathBuf};
use std::process::Command;

use hmac::{Hmac, KeyInit, Mac};
use model::{Grant, PassId, UserId};
use vault::Secret;

use crate::pass::{Mint, PREFIX, PassError, PassSpec, PassToken};

const KEY: [u8; 32] = [7; 32];
const NOW: i64 = 1_760_000_000_000;

fn token(id: PassId) -> PassToken {
    let user: UserId = "usr_ffeeddccbbaa99887766554433221100".parse().unwrap();
    let spec = PassSpec { id, user, grant: grant(), expires: None, parent: None };
    Mint::new(&Secret::new(KEY)).mint(spec, NOW).unwrap()
}

fn grant() -> Grant {
    serde_json::from_str(r#"{"tools":{"allow":["git.*"]},"depth":1}"#).unwrap()
}

/// What a macaroon library must be given: HMAC of the id under the Passes key.
fn root_key(id: PassId) -> String {
    let mut keyed = Hmac::<sha2::Sha256>::new_from_slice(&KEY).unwrap();
    keyed.update(id.to_string().as_bytes());
    hex::encode(keyed.finalize().into_bytes())
}

fn verify(text: &str) -> Result<Grant, PassError> {
    let verified = Mint::new(&Secret::new(KEY)).verify(&PassToken::parse(text)?, NOW)?;
    Ok(verified.grant().clone())
}

const SCRIPT: &str = r#"
import sys
from pymacaroons import Macaroon, Verifier
text, key, caveat = sys.argv[1], bytes.fromhex(sys.argv[2]), sys.argv[3]
macaroon = Macaroon.deserialize(text)
verifier = Verifier()
verifier.satisfy_general(lambda caveat: True)
assert verifier.verify(macaroon, key), "our signature"
macaroon.add_first_party_caveat(caveat)
assert verifier.verify(macaroon, key), "its signature"
print(macaroon.identifier_bytes.decode(), macaroon.serialize())
"#;

#[test]
fn acc_10_a_foreign_library_can_attenuate() {
    if std::env::var_os("PALISADE_OFFLINE").is_some() {
        return;
    }
    let python = python();
    let id = PassId::random();
    let ours = token(id).to_text();
    let theirs = |caveat: &str| {
        let text = ours.expose().strip_prefix(PREFIX).unwrap();
        let said = run(Command::new(&python).args(["-c", SCRIPT, text, &root_key(id), caveat]));
        let (identifier, text) = said.trim().rsplit_once(' ').unwrap();
        assert_eq!(identifier, format!("v1 {id}"));
        format!("{PREFIX}{text}")
    };
    let narrowed = verify(&theirs("tool git.read")).unwrap();
    assert_eq!(serde_json::to_value(&narrowed.tools).unwrap(), serde_json::json!({"allow": ["git.read"]}));
    assert_eq!(verify(&theirs("before 1759999999999")).unwrap_err(), PassError::Expired);
    assert_eq!(verify(&theirs("tool *")).unwrap_err(), PassError::WouldWiden);
    assert_eq!(verify(&theirs("account = 3735928559")).unwrap_err(), PassError::UnknownCaveat);
}

#[test]
fn acc_10_what_a_foreign_library_once_made_is_still_honoured() {
    // A Pass of ours, and what pymacaroons 0.13 made of it by adding `tool git.read`.
    assert_eq!(verify(OURS).unwrap(), grant());
    let narrowed = verify(THEIRS).unwrap();
    assert_eq!(serde_json::to_value(&narrowed.tools).unwrap(), serde_json::json!({"allow": ["git.read"]}));
}

const OURS: &str = "pps_AgIndjEgcGFzXzAwMTEyMjMzNDQ1NTY2Nzc4ODk5YWFiYmNjZGRlZWZmAAIpdXNlciB1c3JfZmZlZWRkY2NiYmFhOTk4ODc3NjY1NTQ0MzMyMjExMDAAAhRiZWZvcmUgMTc2MDAwMzYwMDAwMAACvgFncmFudCB7InBhdGhzIjp7ImFsbG93IjpbXX0sImhvc3RzIjp7ImFsbG93IjpbXX0sInRvb2xzIjp7ImFsbG93IjpbImdpdC4qIl19LCJzZWNyZXRzIjp7ImFsbG93IjpbXX0sImJ1ZGdldCI6eyJ0b2tlbnMiOjAsIm1pY3JvX3VzZCI6MCwidG9vbF9jYWxscyI6MCwiZWdyZXNzX2J5dGVzIjowLCJ3YWxsX21zIjowfSwiZGVwdGgiOjF9AAAGIHP-ZdBFcZ_F3SRxKBHnLL3VNtLtyBYj6o9FmWup68jN";
const THEIRS: &str = "pps_AgEAAid2MSBwYXNfMDAxMTIyMzM0NDU1NjY3Nzg4OTlhYWJiY2NkZGVlZmYAAil1c2VyIHVzcl9mZmVlZGRjY2JiYWE5OTg4Nzc2NjU1NDQzMzIyMTEwMAACFGJlZm9yZSAxNzYwMDAzNjAwMDAwAAK-AWdyYW50IHsicGF0aHMiOnsiYWxsb3ciOltdfSwiaG9zdHMiOnsiYWxsb3ciOltdfSwidG9vbHMiOnsiYWxsb3ciOlsiZ2l0LioiXX0sInNlY3JldHMiOnsiYWxsb3ciOltdfSwiYnVkZ2V0Ijp7InRva2VucyI6MCwibWljcm9fdXNkIjowLCJ0b29sX2NhbGxzIjowLCJlZ3Jlc3NfYnl0ZXMiOjAsIndhbGxfbXMiOjB9LCJkZXB0aCI6MX0AAg10b29sIGdpdC5yZWFkAAAGIOESBA-2IX-PeqONPSYS2a0uT8sZM4SeL_3dcBKdsnZz";

/// A Python that has pymacaroons, made once.
fn python() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let home = test.ancestors().nth(2).unwrap().join("tmp/pymacaroons");
    let python = home.join("bin/python");
    if !has_library(&python) {
        std::fs::create_dir_all(home.parent().unwrap()).unwrap();
        run(Command::new("python3").args(["-m", "venv"]).arg(&home));
        run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "pymacaroons==0.13.0"]));
    }
    python
}

fn has_library(python: &Path) -> bool {
    let found = Command::new(python).args(["-c", "import pymacaroons"]).output();
    found.is_ok_and(|output| output.status.success())
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
