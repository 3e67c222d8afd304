//! Files that we did not sign are never called intact, and none makes the verifier stumble: a ledger's, a bundle's.
#![no_main]

use std::path::Path;

use ledger::verify::{Anchors, Trust, TrustedKey, Verdict, verify, verify_bundle};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|files: (Vec<u8>, Vec<u8>, String, [Vec<u8>; 3])| {
    let (segment, checkpoints, anchors, [manifest, proofs, input]) = files;
    let folder = tempfile::Builder::new().prefix("palisade-fuzz-").tempdir_in("/dev/shm").expect("a folder");
    let write = |path: &Path, bytes: &[u8]| std::fs::write(path, bytes).expect("a file");
    let (book, bundle) = (folder.path().join("ledger"), folder.path().join("bundle"));
    std::fs::create_dir_all(book.join("segments")).expect("a folder");
    std::fs::create_dir_all(bundle.join("inputs")).expect("a folder");
    write(&book.join("segments/00000001.seg"), &segment);
    write(&book.join("checkpoints.jsonl"), &checkpoints);
    let key = TrustedKey::active("k", [0x58; 32]);
    let trust = Trust::from_keys([key])
        .unwrap_or_else(|_| Trust::from_json(b"{\"keys\":[]}").expect("an empty trust root"));
    let anchors = Anchors::from_lines(&anchors).ok();
    let report = verify(&book, &trust, None, anchors.as_ref());
    assert!(segment.is_empty() || report.verdict != Verdict::Intact);

    write(&bundle.join("entries.jsonl"), &segment);
    write(&bundle.join("checkpoints.jsonl"), &checkpoints);
    write(&bundle.join("manifest.json"), &manifest);
    write(&bundle.join("proofs.jsonl"), &proofs);
    write(&bundle.join("inputs").join("0".repeat(64)), &input);
    assert_ne!(verify_bundle(&bundle, &trust, anchors.as_ref()).verdict, Verdict::Intact);
    // Without trust the signature is not looked at and the rest is.
    assert_eq!(verify_bundle(&bundle, &Trust::default(), anchors.as_ref()).verdict, Verdict::Unverifiable);
});
