//! Where a text is cut into chunks does not change what is masked, and what was masked is not masked again.
#![no_main]

use std::io::Write;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use redact::{Redactor, Sink};

/// With all that can be on, and values that no pattern finds.
static REDACTOR: LazyLock<Redactor> = LazyLock::new(|| {
    let redactor = Redactor::new().with_home_paths().with_personal_data();
    assert!(redactor.set_patterns(["tkt-[0-9]{4,}"]).is_empty(), "it can be used");
    redactor
        .learn_all(&[b"a staple & a horse", b"zzzzzzzzzzzz", b"\xff\xfe\x00 not text"])
        .expect("values to learn");
    redactor
});

fuzz_target!(|input: (Vec<u8>, Vec<u16>)| {
    let (bytes, cuts) = input;
    let whole = REDACTOR.scrub_bytes(&bytes).into_owned();
    assert_eq!(REDACTOR.scrub_bytes(&whole), whole, "masked twice is something else");
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| usize::from(*cut) % (bytes.len() + 1)).collect();
    cuts.extend([0, bytes.len()]);
    cuts.sort_unstable();
    let mut sink = Sink::new(REDACTOR.clone(), Vec::new());
    for pair in cuts.windows(2) {
        sink.write_all(&bytes[pair[0]..pair[1]]).expect("a vector takes everything");
    }
    assert_eq!(sink.finish().expect("a vector takes everything"), whole);
});
