//! Where a text is cut into chunks does not change what is masked.
#![no_main]

use std::io::Write;

use libfuzzer_sys::fuzz_target;
use redact::{Redactor, Sink};

fuzz_target!(|input: (Vec<u8>, usize)| {
    let (bytes, cut) = input;
    let redactor = Redactor::new();
    let whole = redactor.scrub_bytes(&bytes).into_owned();
    let (left, right) = bytes.split_at(cut % (bytes.len() + 1));
    let mut sink = Sink::new(redactor, Vec::new());
    sink.write_all(left).expect("a vector takes everything");
    sink.write_all(right).expect("a vector takes everything");
    assert_eq!(sink.finish().expect("a vector takes everything"), whole);
});
