//! The search beside a slow one, which looks at every place of every reading.

use super::decode::{Room, base64};
use super::{Known, forms};
use crate::find::is_run;

/// Pseudo-random numbers, the same every time.
fn numbers(mut state: u64) -> impl FnMut(usize) -> usize {
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    }
}

fn drawn(next: &mut impl FnMut(usize) -> usize, letters: &[u8], length: usize) -> Vec<u8> {
    (0..length).map(|_| letters[next(letters.len())]).collect()
}

/// What values are made of, and how long the shortest of them is.
const KINDS: [(&[u8], usize); 8] = [
    (b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", 16),
    (b"0123456789abcdef", 20),
    (b"abcxyz-_/+%", 12),
    (b"ab cd\"'\\&$<>1!", 16),
    (b"ABCxyz789", 8),
    (b"\xc3\xa9\x80\xff\x01ab~", 16),
    // Base64 without a capital.
    (b"\xff", 8),
    (b"joz", 16),
];

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/_-".contains(&byte)
}

/// Rows of such bytes: where each starts and ends.
fn rows(text: &[u8], is_member: impl Fn(u8) -> bool) -> Vec<(usize, usize)> {
    let (mut all, mut from) = (Vec::new(), 0);
    for part in text.split(|byte| !is_member(*byte)) {
        all.push((from, from + part.len()));
        from += part.len() + 1;
    }
    all
}

/// The bytes of hex digits, and the place of the first digit of each.
fn unhexed(text: &[u8], places: &[usize]) -> Vec<u8> {
    let digit = |place: &usize| char::from(text[*place]).to_digit(16).unwrap();
    places.chunks_exact(2).map(|pair| u8::try_from(digit(&pair[0]) * 16 + digit(&pair[1])).unwrap()).collect()
}

/// Where these stand, as they are and in whatever reads as hex, base64, or base64 of base64.
fn slowly(wanted: &[forms::Form], text: &[u8]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut look = |read: &[u8], is_plain: bool, placed: &dyn Fn(usize, usize) -> (usize, usize)| {
        for form in wanted.iter().filter(|form| form.is_plain || !is_plain) {
            let places = (0..read.len()).filter(|place| read[*place..].starts_with(&form.text));
            found.extend(places.map(|place| placed(place, place + form.text.len())));
        }
    };
    look(text, true, &|start, end| (start, end));
    for (start, end) in rows(text, |byte| byte.is_ascii_hexdigit() || b" :-".contains(&byte)) {
        let digits: Vec<usize> = (start..end).filter(|place| text[*place].is_ascii_hexdigit()).collect();
        for half in 0..digits.len().min(2) {
            look(&unhexed(text, &digits[half..]), false, &|start, end| {
                (digits[half + 2 * start], digits[half + 2 * end - 1] + 1)
            });
        }
    }
    let of_base64 =
        |base: usize, start: usize, end: usize| (base + start * 8 / 6, base + (end * 8).div_ceil(6));
    for (start, end) in rows(text, is_run) {
        for phase in 0..4.min(end - start) {
            let once = base64(&text[start + phase..end]);
            let base = start + phase;
            look(&once, false, &|start, end| of_base64(base, start, end));
            let inner = once.iter().take_while(|byte| is_base64(**byte)).count();
            for second in 0..4.min(inner) {
                look(&base64(&once[second..inner]), false, &|start, end| {
                    let (start, end) = of_base64(second, start, end);
                    of_base64(base, start, end.min(inner))
                });
            }
        }
    }
    found
}

fn encoded(bytes: &[u8]) -> Vec<u8> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD_NO_PAD.encode(bytes).into_bytes()
}

/// A value in one of its writings, or in a part of one.
fn written(next: &mut impl FnMut(usize) -> usize, value: &[u8]) -> Vec<u8> {
    let hex = hex::encode(value).into_bytes();
    let length = next(4);
    let lead = drawn(next, b"xY1", length);
    let around = [&lead[..], value, b"tail"].concat();
    let parted = |size: usize, by: u8| hex.chunks(size).collect::<Vec<_>>().join(&by);
    let mut text = match next(11) {
        0 | 1 => value.to_vec(),
        2 => hex,
        3 => hex.to_ascii_uppercase(),
        4 => [b"0".repeat(next(3)), hex].concat(),
        5 => encoded(&around),
        6 => encoded(value),
        7 => encoded(&encoded(value)),
        8 => parted(2, b" :-"[next(3)]),
        9 => parted(4, b' '),
        _ => parted(8, b'-'),
    };
    if next(8) == 0 {
        let place = next(text.len());
        text[place] = b"x0 "[next(3)];
    }
    text
}

#[test]
fn all_that_a_slow_search_tells_is_told() {
    let mut next = numbers(11);
    let mut whole = 0;
    for round in 0..600 {
        let (letters, shortest) = KINDS[round % KINDS.len()];
        let values: Vec<Vec<u8>> = (0..=next(12))
            .map(|_| {
                let length = shortest + next(50);
                drawn(&mut next, letters, length)
            })
            .filter(|value| super::fits(value).is_ok())
            .collect();
        let Some(some) = (!values.is_empty()).then_some(&values) else { continue };
        let known = Known::default().with(&some.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap();
        let wanted: Vec<forms::Form> = some.iter().flat_map(|value| forms::of(value)).collect();
        for _ in 0..12 {
            let mut text = Vec::new();
            for _ in 0..=next(6) {
                let length = next(90);
                let junk: &[u8] =
                    [&b"some words of text "[..], b"abcdef0123456789", b"aB3/x_Y-z", b"- :"][next(4)];
                text.extend(drawn(&mut next, junk, length));
                text.extend(&b" =\":x"[..next(3)]);
                let value = &some[next(some.len())];
                text.extend(written(&mut next, value));
            }
            text.retain(|byte| *byte != b'\n');
            let mut runs = Vec::new();
            crate::bytes::runs(&text, 0, known.shortest_run().unwrap().min(64), is_run, &mut runs);
            let mut is_told = vec![false; text.len()];
            known.find(&text, 0, &runs, &mut Room::default(), |start, end| is_told[start..end].fill(true));
            for (start, end) in slowly(&wanted, &text) {
                whole += 1;
                assert!(
                    is_told[start..end].iter().all(|told| *told),
                    "{} at {start}..{end} of {}",
                    text[start..end].escape_ascii(),
                    text.escape_ascii()
                );
            }
        }
    }
    assert!(whole > 10_000, "{whole} is few");
}
