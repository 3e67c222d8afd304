//! A text in parts, as a stream brings it.

use std::io::Write;

use redact::{Redactor, Sink};

/// What comes out of a sink that was given these parts.
pub(crate) fn streamed<'a>(redactor: &Redactor, parts: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut sink = Sink::new(redactor.clone(), Vec::new());
    for part in parts {
        sink.write_all(part).unwrap();
        sink.flush().unwrap();
    }
    sink.finish().unwrap()
}

/// Texts that are the same in every run: a text in a million still differs when it is masked twice, and the fuzz
/// targets are what looks for those.
pub(crate) fn the_same_each_time(cases: u32) -> proptest::test_runner::Config {
    let rng_seed = proptest::test_runner::RngSeed::Fixed(0x7061_6c69_7361_6465);
    proptest::test_runner::Config { cases, rng_seed, failure_persistence: None, ..Default::default() }
}
