//! No text is taken for a Pass that we did not sign, and none makes the parser stumble.
#![no_main]

use access::pass::{Mint, PassToken};
use libfuzzer_sys::fuzz_target;
use vault::Secret;

fuzz_target!(|text: &str| {
    if let Ok(token) = PassToken::parse(text) {
        let mint = Mint::new(&Secret::new([7; 32]));
        assert!(mint.verify(&token, 0).is_err(), "a forged Pass was taken");
    }
});
