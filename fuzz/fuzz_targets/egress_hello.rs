//! No bytes make the reader of ClientHellos stumble, and what it says of a beginning holds when more has come.
#![no_main]

use egress::hello::{Reading, read};
use libfuzzer_sys::fuzz_target;

/// The bytes as a message in records of this size, so that the inside is reached.
fn in_records(body: &[u8], size: usize) -> Vec<u8> {
    let length = (body.len() as u32).to_be_bytes();
    let message = [&[1, length[1], length[2], length[3]], body].concat();
    let record = |part: &[u8]| [&[22, 3, 1, (part.len() >> 8) as u8, part.len() as u8], part].concat();
    message.chunks(size).flat_map(record).collect()
}

fuzz_target!(|input: (&[u8], u16, u16)| {
    let (bytes, size, cut) = input;
    for bytes in [bytes.to_vec(), in_records(bytes, usize::from(size % 4096) + 1)] {
        let whole = read(&bytes);
        let cut = usize::from(cut) % (bytes.len() + 1);
        let early = read(&bytes[..cut]);
        assert!(early == Ok(Reading::NeedMore) || early == whole, "{early:?} then {whole:?}");
        if let Ok(Reading::Hello(hello)) = whole {
            assert!(hello.len <= bytes.len());
            assert_eq!(read(&bytes[..hello.len]), Ok(Reading::Hello(hello)));
        }
    }
});
