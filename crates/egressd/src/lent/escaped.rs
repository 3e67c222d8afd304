//! Words and secrets of which some characters are escaped, and what a model may read.

use egress::control::Value;

use super::tests::{SECRET, WORD, filled, host, lent};
use super::*;

#[test]
fn adv_c02_a_word_of_which_any_character_is_escaped_is_found() {
    let lent = lent();
    for (at, byte) in WORD.bytes().enumerate().step_by(4) {
        for escape in [format!("%{byte:02x}"), format!("%{byte:02X}"), format!("\\u00{byte:02x}")] {
            let text = format!("a%2\\n{}{escape}{}%", &WORD[..at], &WORD[at + 1..]);
            let request = format!("GET /x HTTP/1.1\r\nHost: api.test\r\nx: {text}\r\n\r\n");
            for to in ["api.test", "other.test"] {
                assert!(filled(&request, to, true).is_err(), "{text} to {to}");
            }
            let mut watch = lent.watch();
            assert!(text.as_bytes().chunks(1).try_for_each(|byte| watch.look(byte)).is_err(), "{text}");
        }
    }
    // What is written plainly beside other escapes is put in as before.
    let request = format!("GET /x?a=%2f&key={WORD} HTTP/1.1\r\nHost: api.test\r\n\r\n");
    assert!(filled(&request, "api.test", true).unwrap().0);
}

#[test]
fn adv_c03_what_a_model_reads_has_neither_the_secret_nor_the_word() {
    let (value, hosts) = (Value::new(SECRET.into()), vec![("api.test".to_owned(), 443)]);
    let loan = Loan { name: "KEY".into(), word: WORD.into(), value, hosts, ..Loan::default() };
    let (lent, host) = (Lent::new(vec![loan]), host("api.test"));
    let towards = Towards { host: &host, port: 443, path: "/", is_private: true };
    let said = format!("{{\"said\":\"my key is {WORD}.\"}}");
    let filled = lent.fill_content(said.as_bytes(), Written::Json, towards).unwrap().unwrap();
    let stars = "*".repeat(WORD.len());
    assert_eq!(String::from_utf8(filled.to_vec()).unwrap(), said.replace(WORD, &stars));
    let asks = format!("POST /x?k={WORD} HTTP/1.1\r\nHost: api.test\r\nx-api-key: {WORD}\r\n\r\n");
    let mut request = Request::parse(asks.as_bytes()).unwrap();
    assert!(lent.fill(&mut request, towards).unwrap());
    assert_eq!(request.fields.only("x-api-key"), Some(SECRET.as_bytes()));
}

#[test]
fn adv_c03_a_secret_of_which_some_signs_are_escaped_comes_back_masked() {
    let lent = lent();
    for (sign, escape) in [('/', "\\u002f"), ('+', "%2B"), ('~', "%7e"), ('S', "%53")] {
        let text = format!("a {} b", SECRET.replace(sign, escape));
        let masked = format!("a {} b", "*".repeat(text.len() - 4));
        let passed = |pieces: &mut dyn Iterator<Item = &[u8]>| {
            let mut mask = lent.mask();
            let mut out: Vec<u8> = pieces.flat_map(|piece| mask.pass(piece, false).into_owned()).collect();
            out.extend_from_slice(&mask.pass(b"", true));
            String::from_utf8(out).unwrap()
        };
        for cut in 0..=text.len() {
            let (one, two) = text.as_bytes().split_at(cut);
            assert_eq!(passed(&mut [one, two].into_iter()), masked, "cut at {cut}");
        }
        assert_eq!(passed(&mut text.as_bytes().chunks(1)), masked);
    }
}
