//! Where the built programs are, how they are fed, and how much a test does.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// A program of the workspace, as `cargo build` made it.
#[must_use]
pub fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    // target/debug/deps/flow-… -> target/debug/palisaded
    let folder = test.parent().and_then(|deps| deps.parent()).unwrap();
    let path = folder.join(name);
    assert!(
        path.exists(),
        "{} is not built; run `make test`, or `cargo build --workspace` first",
        path.display()
    );
    path
}

/// A count, scaled by `PALISADE_SCALE` (a twentieth unless told), at least `least`.
#[must_use]
pub fn scale(full: usize, least: usize) -> usize {
    let scale =
        std::env::var("PALISADE_SCALE").ok().and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.05);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "counts are small"
    )]
    let scaled = (full as f64 * scale) as usize;
    scaled.max(least)
}

/// A master key for an installation that must be given one.
#[must_use]
pub fn master_key() -> String {
    let mut bytes = [0u8; 32];
    std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom").unwrap(), &mut bytes).unwrap();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Runs a command with this on its standard input. One that ends without reading it has said why.
pub fn fed(command: &mut Command, input: &str) -> Output {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdin.take().unwrap().write_all(input.as_bytes()));
    child.wait_with_output().unwrap()
}

/// Says that a test cannot run here, and why. With `PALISADE_TEST_STRICT=1` that fails, so that it is seen.
#[track_caller]
pub fn cannot_run(why: &str) {
    assert!(std::env::var("PALISADE_TEST_STRICT").as_deref() != Ok("1"), "cannot run here: {why}");
    // Not by a macro of the test harness, which keeps what tests print that pass.
    drop(writeln!(std::io::stderr(), "skipped: {why}"));
}
