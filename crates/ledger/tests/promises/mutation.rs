//! LED-06: the daemon's own check and the verifier agree, and no single changed byte passes.

use ledger::verify::{Verdict, verify};
use proptest::prelude::*;

use crate::kit::{Book, assert_intact, chain_key, draft, scaled, trust};

#[test]
fn led_06_the_daemons_own_check_and_the_verifier_agree_on_mutated_ledgers() {
    let book = Book::with_small_segments();
    let ledger = book.open();
    for number in 0..25 {
        ledger.append(draft(number)).unwrap();
        if number % 12 == 0 {
            ledger.checkpoint_now().unwrap();
        }
    }
    ledger.checkpoint_now().unwrap();
    assert_intact(&ledger.verify_live(&trust(), None));
    let files: Vec<_> =
        (1..).map(|n| book.segment(n)).take_while(|path| path.exists()).chain([book.checkpoints()]).collect();
    let cases = u32::try_from(scaled(1000, 50)).unwrap();
    let strategy = (0..files.len(), any::<prop::sample::Index>(), 0..6u8, 1..=255u8);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(cases));
    let outcome = runner.run(&strategy, |(file, place, how, mask)| {
        let original = std::fs::read(&files[file]).unwrap();
        std::fs::write(&files[file], mutate(&original, place, how, mask)).unwrap();
        let own = ledger.verify_live(&trust(), None);
        let outside = verify(&book.dir(), &trust(), Some(&chain_key()), None);
        std::fs::write(&files[file], &original).unwrap();
        prop_assert_eq!(own.verdict, outside.verdict, "{:?} {:?}", own.findings, outside.findings);
        prop_assert_ne!(own.verdict, Verdict::Intact);
        Ok(())
    });
    outcome.unwrap();
    assert_intact(&ledger.verify_live(&trust(), None));
}

/// One byte changed, removed or added; a line removed, doubled or swapped with the next.
fn mutate(original: &[u8], place: prop::sample::Index, how: u8, mask: u8) -> Vec<u8> {
    let mut bytes = original.to_vec();
    let at = place.index(bytes.len());
    let mut lines: Vec<&[u8]> = original.split_inclusive(|byte| *byte == b'\n').collect();
    let line = place.index(lines.len());
    match how {
        0 => bytes[at] ^= mask,
        1 => drop(bytes.remove(at)),
        2 => bytes.insert(at, mask),
        3 if line + 1 < lines.len() => {
            lines.remove(line);
            return lines.concat();
        }
        4 => {
            lines.insert(line, lines[line]);
            return lines.concat();
        }
        _ if line + 1 < lines.len() => {
            lines.swap(line, line + 1);
            return lines.concat();
        }
        _ => bytes[at] ^= mask,
    }
    bytes
}

#[test]
fn led_06_no_single_changed_byte_of_a_checkpointed_ledger_is_intact() {
    let book = Book::new().written(3, 100);
    let step = if scaled(20, 1) >= 20 { 1 } else { 3 }; // every byte in a full-size run
    for path in [book.segment(1), book.checkpoints()] {
        let original = std::fs::read(&path).unwrap();
        let last = original.len() - 1;
        for at in (0..last).step_by(step).chain([last]) {
            // The bit of the letter case, or a low one: the ones that parsers forgive.
            let mask = if original[at].is_ascii_alphabetic() { 0x20 } else { 0x01 };
            let mut bytes = original.clone();
            bytes[at] ^= mask;
            std::fs::write(&path, &bytes).unwrap();
            assert_ne!(book.check().verdict, Verdict::Intact, "{path:?} byte {at} mask {mask}");
            if at % 7 == 0 {
                assert_ne!(book.check_by_signature().verdict, Verdict::Intact, "{path:?} byte {at}");
            }
        }
        std::fs::write(&path, &original).unwrap();
    }
    assert_intact(&book.check());
}
