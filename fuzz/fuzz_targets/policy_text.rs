//! No text that someone wants to add as a policy makes the reader stumble, and none is taken that permits.
#![no_main]

use access::{AddedPolicy, Policies};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let added = AddedPolicy { id: "fuzzed".to_owned(), text: text.to_owned() };
    if let Ok(policies) = Policies::load(std::slice::from_ref(&added), true) {
        let forbids =
            policies.list().into_iter().find(|(id, ..)| id == "fuzzed").map(|(_, forbids, _)| forbids);
        assert_eq!(forbids, Some(true));
    }
});
