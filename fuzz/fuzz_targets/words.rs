//! Names and ids have one spelling: what parses prints as something that parses to the same.
#![no_main]

use std::fmt::Display;
use std::str::FromStr;

use libfuzzer_sys::fuzz_target;
use model::{DisplayName, Email, GrantPath, HostPattern, RepoName, UserId, WorktreeId, WorktreeName};

fn same<T: FromStr + Display + PartialEq>(text: &str) {
    if let Ok(value) = text.parse::<T>() {
        assert!(value.to_string().parse::<T>().is_ok_and(|again| again == value), "{text:?}");
    }
}

fuzz_target!(|text: &str| {
    same::<Email>(text);
    same::<DisplayName>(text);
    same::<WorktreeName>(text);
    same::<RepoName>(text);
    same::<UserId>(text);
    same::<WorktreeId>(text);
    same::<GrantPath>(text);
    same::<HostPattern>(text);
});
