//! EGR-02, ADV-N07: what a SOCKS client wants is read whole, or it is told why not.

use egress::host::BadHost;
use egress::prefix::Prefix;
use egress::socks::{BadSocks, Reply, WELCOME, greeting, reply, request};
use proptest::prelude::*;

fn named(name: &[u8], port: u16) -> Vec<u8> {
    [&[5, 1, 0, 3, name.len() as u8], name, &port.to_be_bytes()].concat()
}

fn wanted(bytes: &[u8]) -> Result<String, BadSocks> {
    request(bytes).map(|found| found.whole().map(|it| format!("{}:{}", it.host, it.port)).unwrap_or_default())
}

#[test]
fn egr_02_a_greeting_without_a_password_is_taken() {
    assert_eq!(greeting(b"\x05\x01\x00"), Ok(Prefix::Whole { value: (), len: 3 }));
    assert_eq!(greeting(b"\x05\x03\x01\x02\x00rest"), Ok(Prefix::Whole { value: (), len: 5 }));
    for cut in [&b""[..], b"\x05", b"\x05\x02", b"\x05\x02\x00"] {
        assert_eq!(greeting(cut), Ok(Prefix::NeedMore));
    }
    assert_eq!(WELCOME, [5, 0]);
    for (odd, why, told) in [
        (&b"\x05\x01\x02"[..], BadSocks::Method, &b"\x05\xff"[..]),
        (b"\x05\x00", BadSocks::Method, b"\x05\xff"),
        (b"\x04", BadSocks::Version, b""),
        (b"GET / HTTP/1.1\r\n", BadSocks::Version, b""),
    ] {
        assert_eq!(greeting(odd), Err(why));
        assert_eq!(why.reply(), told);
    }
}

#[test]
fn egr_02_names_and_addresses_are_wanted() {
    assert_eq!(wanted(&named(b"API.example.com.", 443)), Ok("api.example.com:443".into()));
    assert_eq!(wanted(b"\x05\x01\x00\x01\xc6\x12\x00\x07\x00\x50"), Ok("198.18.0.7:80".into()));
    let v6 = [&b"\x05\x01\x00\x04"[..], &[0; 15], &[1, 0, 80]].concat();
    assert_eq!(wanted(&v6), Ok("[::1]:80".into()));
    assert_eq!(wanted(&named(b"127.0.0.1", 80)), Ok("127.0.0.1:80".into()), "an address in letters is one");
    assert_eq!(wanted(&named(b"::1", 80)), Ok("[::1]:80".into()));
    let more = [named(b"a.example", 80), b"data".to_vec()].concat();
    let Prefix::Whole { len, .. } = request(&more).unwrap() else { panic!("it is whole") };
    assert_eq!(&more[len..], b"data");
    for whole in [named(b"a.example", 80), v6] {
        for cut in 0..whole.len() {
            assert_eq!(request(&whole[..cut]), Ok(Prefix::NeedMore), "{cut}");
        }
    }
}

#[test]
fn egr_02_other_wishes_are_refused_with_their_code() {
    for (odd, why, code) in [
        (&b"\x05\x02"[..], BadSocks::Command, 7),
        (b"\x05\x03\x00\x01\0\0\0\0\0\0", BadSocks::Command, 7),
        (b"\x05\x00", BadSocks::Command, 7),
        (b"\x05\x01\x01", BadSocks::Reserved, 1),
        (b"\x05\x01\x00\x02", BadSocks::AddressKind, 8),
        (b"\x05\x01\x00\x01\x01\x01\x01\x01\x00\x00", BadSocks::Port, 1),
    ] {
        assert_eq!(request(odd), Err(why), "{odd:x?}");
        assert_eq!(why.reply(), [5, code, 0, 1, 0, 0, 0, 0, 0, 0]);
    }
    assert_eq!(request(b"\x04\x01"), Err(BadSocks::Version));
    assert_eq!(reply(Reply::Succeeded)[..2], [5, 0]);
    assert_eq!(reply(Reply::NotAllowed)[..2], [5, 2]);
    assert_eq!(reply(Reply::Refused)[..2], [5, 5]);
}

#[test]
fn adv_n07_odd_names_are_refused_before_any_rule() {
    let long = "a".repeat(255);
    for (name, why) in [
        (&b""[..], BadHost::Empty),
        (b".", BadHost::Empty),
        (b"evil.example\0.allowed.example", BadHost::OddByte),
        (b"a\r\nb", BadHost::OddByte),
        (b"a b", BadHost::OddByte),
        (b"a%2eb", BadHost::OddByte),
        (b"a..b", BadHost::EmptyLabel),
        ("\u{430}llowed.example".as_bytes(), BadHost::OddByte),
        (b"0x7f.1", BadHost::OddAddress),
        (b"127.1", BadHost::OddAddress),
        (b"2130706433", BadHost::OddAddress),
        (b"fe80::1%eth0", BadHost::OddV6),
        (b"a:80", BadHost::OddV6),
        (long.as_bytes(), BadHost::TooLong),
    ] {
        let refused = request(&named(name, 443)).unwrap_err();
        assert_eq!(refused, BadSocks::Host(why), "{name:?}");
        assert_eq!(refused.reply()[1], 2);
    }
}

proptest! {
    #[test]
    fn what_is_said_of_a_beginning_holds_for_the_whole(mut bytes in prop::collection::vec(any::<u8>(), 0..40), likely: bool) {
        if likely { bytes.splice(0..0, [5, 1, 0]); }
        let whole = (greeting(&bytes), request(&bytes));
        for cut in 0..bytes.len() {
            let early = (greeting(&bytes[..cut]), request(&bytes[..cut]));
            prop_assert!(early.0 == Ok(Prefix::NeedMore) || early.0 == whole.0);
            prop_assert!(early.1 == Ok(Prefix::NeedMore) || early.1 == whole.1);
        }
    }
}
