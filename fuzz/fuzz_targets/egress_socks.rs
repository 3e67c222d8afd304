//! No bytes make the reader of SOCKS stumble; what it says of a beginning holds when more has come, and so do hosts.
#![no_main]

use egress::host::{Authority, Host};
use egress::prefix::Prefix;
use egress::socks::{greeting, request};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&[u8], u16)| {
    let (bytes, cut) = input;
    let cut = usize::from(cut) % (bytes.len() + 1);
    let (whole, early) = (greeting(bytes), greeting(&bytes[..cut]));
    assert!(early == Ok(Prefix::NeedMore) || early == whole);
    let (whole, early) = (request(bytes), request(&bytes[..cut]));
    assert!(early == Ok(Prefix::NeedMore) || early == whole);
    match whole {
        Err(why) => assert!(why.reply().is_empty() || why.reply()[0] == 5),
        Ok(Prefix::NeedMore) => {}
        Ok(Prefix::Whole { value, len }) => {
            assert!(len <= bytes.len() && value.port != 0);
            assert_eq!(Host::parse(value.host.to_string().as_bytes()), Ok(value.host));
        }
    }
    if let Ok(authority) = Authority::parse(bytes) {
        assert_eq!(Authority::parse(authority.to_string().as_bytes()), Ok(authority));
    }
});
