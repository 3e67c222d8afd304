//! Files that we did not sign are never called intact, and none makes the verifier stumble.
#![no_main]

use ledger::verify::{Anchors, Trust, TrustedKey, Verdict, verify};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|files: (Vec<u8>, Vec<u8>, String)| {
    let (segment, checkpoints, anchors) = files;
    let folder = tempfile::Builder::new().prefix("palisade-fuzz-").tempdir_in("/dev/shm").expect("a folder");
    std::fs::create_dir(folder.path().join("segments")).expect("a folder");
    std::fs::write(folder.path().join("segments/00000001.seg"), &segment).expect("a file");
    std::fs::write(folder.path().join("checkpoints.jsonl"), checkpoints).expect("a file");
    let key = TrustedKey::active("k", [0x58; 32]);
    let trust = Trust::from_keys([key]).unwrap_or_else(|_| Trust::from_json(b"{\"keys\":[]}").expect("an empty trust root"));
    let anchors = Anchors::from_lines(&anchors).ok();
    let report = verify(folder.path(), &trust, None, anchors.as_ref());
    assert!(segment.is_empty() || report.verdict != Verdict::Intact);
});
