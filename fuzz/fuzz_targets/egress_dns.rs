//! No datagram makes the reader of queries stumble; what it takes is answered with the same question, in few bytes.
#![no_main]

use egress::dns::{Answer, message, read};
use egress::host::HostName;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = message(bytes);
    let refused = |refusal: egress::dns::Refusal| {
        refusal.reply().is_none_or(|reply| reply.len() <= bytes.len().max(23))
    };
    let query = match read(bytes) {
        Ok(query) => query,
        Err(refusal) => {
            assert!(refused(refusal), "a refusal is no amplifier");
            return;
        }
    };
    assert_eq!(HostName::parse(query.name.as_str().as_bytes()), Ok(query.name.clone()));
    // Labels hold no zero, so the first one ends the name; type and class follow.
    let end = 12 + bytes[12..].iter().position(|byte| *byte == 0).expect("the name has an end") + 5;
    for answer in [
        Answer::Address([198, 18, 0, 1].into(), 60),
        Answer::Address([0_u16; 8].into(), 60),
        Answer::NoSuchName,
    ] {
        let reply = query.reply(answer);
        assert!(reply.len() <= 512 && reply[..2] == bytes[..2] && reply[2] & 0x80 != 0);
        assert_eq!(reply[12..end], bytes[12..end]);
    }
});
