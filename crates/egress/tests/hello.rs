//! ADV-N09: what a TLS client says of itself is read whole, or the connection is refused.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use egress::hello::{BadHello, Hello, MAX_HELLO, MAX_RECORDS, Reading, read};
use egress::host::BadHost;
use proptest::prelude::*;

fn piece(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat()
}

fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &piece(content)].concat()
}

fn named(name: &[u8]) -> Vec<u8> {
    extension(0, &piece(&[&[0][..], &piece(name)].concat()))
}

fn body(extensions: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = vec![3, 3];
    bytes.extend([7; 32]);
    bytes.extend([0, 0, 2, 0x13, 0x01, 1, 0]);
    if !extensions.is_empty() {
        bytes.extend(piece(&extensions.concat()));
    }
    bytes
}

fn message(body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32).to_be_bytes();
    [&[1, length[1], length[2], length[3]], body].concat()
}

/// A message without extensions.
fn plain() -> Vec<u8> {
    message(&body(&[]))
}

fn record(part: &[u8]) -> Vec<u8> {
    [&[22, 3, 1][..], &piece(part)].concat()
}

fn hello(extensions: &[Vec<u8>]) -> Vec<u8> {
    record(&message(&body(extensions)))
}

fn usual() -> Vec<Vec<u8>> {
    vec![
        extension(0x0a0a, b""),
        named(b"Api.Example.com"),
        extension(16, &piece(b"\x02h2\x08http/1.1")),
        extension(43, &[4, 3, 4, 3, 3]),
        extension(51, &[0; 40]),
    ]
}

fn taken(bytes: &[u8]) -> Hello {
    match read(bytes).unwrap() {
        Reading::Hello(hello) => hello,
        other => panic!("{other:?}"),
    }
}

#[test]
fn adv_n09_name_protocols_and_versions_are_told() {
    let bytes = hello(&usual());
    let found = taken(&[&bytes[..], b"more"].concat());
    assert_eq!(found.server_name.unwrap().as_str(), "api.example.com");
    assert_eq!(found.alpn, [b"h2".to_vec(), b"http/1.1".to_vec()]);
    assert_eq!((found.ech, found.versions, found.len), (false, vec![0x0304, 0x0303], bytes.len()));

    let plain = taken(&hello(&[]));
    assert_eq!((plain.server_name, plain.versions), (None, vec![0x0303]));
}

#[test]
fn adv_n09_an_encrypted_hello_is_seen() {
    for kind in [0xfe0d, 0xffce] {
        let mut with = usual();
        with.push(extension(kind, &[0; 20]));
        assert!(taken(&hello(&with)).ech);
    }
    let mut inner = usual();
    inner.push(extension(0xfd00, &[0; 3]));
    assert_eq!(read(&hello(&inner)), Err(BadHello::Malformed));
}

#[test]
fn every_beginning_needs_more_and_every_split_gives_the_same() {
    let whole = hello(&usual());
    for cut in 0..whole.len() {
        assert_eq!(read(&whole[..cut]), Ok(Reading::NeedMore), "{cut}");
    }
    let message = message(&body(&usual()));
    for at in 1..message.len() {
        let (a, b) = message.split_at(at);
        let split = [record(a), record(b)].concat();
        assert_eq!(taken(&split), Hello { len: split.len(), ..taken(&whole) }, "{at}");
        for cut in [at + 4, at + 5, at + 7, at + 10, split.len() - 1] {
            assert_eq!(read(&split[..cut]), Ok(Reading::NeedMore), "{at} {cut}");
        }
    }
}

#[test]
fn other_protocols_are_told_at_once() {
    for other in [
        &b"G"[..],
        b"GET / HTTP/1.1\r\n",
        b"SSH-2.0",
        b"\x16\x02",
        b"\x15\x02",
        b"\x80\x2e\x02",
        b"\x80\x2e\x01\x04",
    ] {
        assert_eq!(read(other), Ok(Reading::NotTls), "{other:?}");
    }
    assert_eq!(read(b""), Ok(Reading::NeedMore));
}

#[test]
fn adv_n09_a_greeting_that_can_name_nobody_is_none_that_passes() {
    for old in [&b"\x80\x2e\x01\x03\x01"[..], b"\x80\x2e\x01\x00\x02", b"\xff\xff\x01\x03\x03\x00"] {
        assert_eq!(read(old), Err(BadHello::Old), "{old:?}");
        (1..4).for_each(|count| assert_eq!(read(&old[..count]), Ok(Reading::NeedMore), "{old:?}"));
    }
    // Another record of TLS before it.
    for before in [&b"\x14\x03\x03\x00\x01\x01"[..], b"\x15\x03\x01", b"\x17\x03"] {
        assert_eq!(read(before), Err(BadHello::OtherMessage), "{before:?}");
        assert_eq!(read(&before[..1]), Ok(Reading::NeedMore), "{before:?}");
    }
}

#[test]
fn adv_n09_odd_records_are_refused_as_soon_as_they_are_seen() {
    assert_eq!(read(b"\x16\x03\x05"), Err(BadHello::Records));
    assert_eq!(read(b"\x16\x03\x01\x00\x00"), Err(BadHello::Records), "an empty one");
    assert_eq!(read(b"\x16\x03\x01\x40\x01"), Err(BadHello::Records), "a long one");
    assert_eq!(read(b"\x16\x03\x01\x00\x10\x02"), Err(BadHello::OtherMessage));
    assert_eq!(read(b"\x16\x03\x01\x00\x10\x01\x00\x40\x01"), Err(BadHello::TooLong));
    let message = message(&body(&usual()));
    let alert = [record(&message[..9]), vec![21, 3, 1, 0, 2, 1, 0]].concat();
    assert_eq!(read(&alert), Err(BadHello::Records), "another type between");
    let single: Vec<u8> = message.chunks(1).flat_map(record).collect();
    assert!(message.len() > MAX_RECORDS);
    assert_eq!(read(&single), Err(BadHello::Records), "too many");
    let behind = record(&[&message[..], b"\x14"].concat());
    assert_eq!(read(&behind), Err(BadHello::Malformed), "something behind the end in the same record");
    let hidden = record(&[plain(), piece(&named(b"hidden.example"))].concat());
    assert_eq!(read(&hidden), Err(BadHello::Malformed), "also what would fit as extensions");
}

#[test]
fn adv_n09_two_names_two_extensions_and_odd_names_are_refused() {
    let refused = |extensions: &[Vec<u8>]| read(&hello(extensions)).unwrap_err();
    assert_eq!(refused(&[named(b"a.example"), named(b"b.example")]), BadHello::Duplicate);
    assert_eq!(refused(&[extension(99, b""), named(b"a.example"), extension(99, b"")]), BadHello::Duplicate);
    let two = [&[0][..], &piece(b"a.example"), &[0], &piece(b"b.example")].concat();
    assert_eq!(refused(&[extension(0, &piece(&two))]), BadHello::Names);
    let other = [&[1][..], &piece(b"a.example")].concat();
    assert_eq!(refused(&[extension(0, &piece(&other))]), BadHello::Names);
    assert_eq!(refused(&[extension(0, &piece(b""))]), BadHello::Names);
    assert_eq!(refused(&[extension(0, b"")]), BadHello::Malformed);
    for (name, why) in [
        (&b""[..], BadHost::Empty),
        (b"a.example.", BadHost::EmptyLabel),
        (b"a\0.example", BadHost::OddByte),
        (b"a.example:443", BadHost::OddByte),
        (b"\xc3\xa4.example", BadHost::OddByte),
        (b"127.0.0.1", BadHost::OddAddress),
        (b"::1", BadHost::OddByte),
    ] {
        assert_eq!(refused(&[named(name)]), BadHello::Name(why), "{name:?}");
    }
}

#[test]
fn lengths_that_do_not_fit_are_refused() {
    let good = body(&usual());
    for cut in 0..good.len() {
        // Without any extension a hello may end before them.
        let is_whole = cut == body(&[]).len();
        assert_eq!(read(&record(&message(&good[..cut]))).is_ok(), is_whole, "{cut}");
    }
    for extensions in [
        vec![extension(16, b"\x00\x03\x02h2x")],
        vec![extension(16, &piece(b""))],
        vec![extension(16, &piece(b"\x00"))],
        vec![extension(16, &piece(b"\x03h2"))],
        vec![extension(43, b"\x00")],
        vec![extension(43, b"\x03\x03\x04\x03")],
    ] {
        assert_eq!(read(&hello(&extensions)), Err(BadHello::Malformed));
    }
    // A session id of 33 bytes, no suites, half a suite, no compression, only compression, an unknown version.
    for (range, with) in [
        (34..35, [&[33][..], &[0; 33]].concat()),
        (35..39, vec![0, 0]),
        (35..39, vec![0, 3, 1, 2, 3]),
        (39..41, vec![0]),
        (39..41, vec![1, 1]),
        (0..2, vec![3, 4]),
        (0..2, vec![2, 0]),
    ] {
        let mut odd = good.clone();
        odd.splice(range.clone(), with);
        assert_eq!(read(&record(&message(&odd))), Err(BadHello::Malformed), "{range:?}");
    }
    let long = [named(b"a.example"), extension(21, &vec![0; MAX_HELLO - 200])];
    assert!(matches!(read(&hello(&long)), Ok(Reading::Hello(_))), "padding up to the bound");
}

proptest! {
    #[test]
    fn what_is_said_of_a_beginning_holds_for_the_whole(
        cuts in prop::collection::vec(1_usize..200, 0..20), flip in any::<prop::sample::Index>(), to: u8, change: bool,
    ) {
        let mut bytes = Vec::new();
        let message = message(&body(&usual()));
        let mut rest = &message[..];
        for cut in cuts {
            let (a, b) = rest.split_at(cut.min(rest.len()));
            if !a.is_empty() { bytes.extend(record(a)); }
            rest = b;
        }
        if !rest.is_empty() { bytes.extend(record(rest)); }
        if change { let at = flip.index(bytes.len()); bytes[at] = to; }
        let whole = read(&bytes);
        if !change { prop_assert!(matches!(whole, Ok(Reading::Hello(_)))); }
        for cut in 0..bytes.len() {
            let early = read(&bytes[..cut]);
            prop_assert!(early == Ok(Reading::NeedMore) || early == whole, "{cut}: {early:?} then {whole:?}");
        }
    }

    #[test]
    fn no_bytes_make_the_reader_stumble(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = read(&[b"\x16\x03\x01", &bytes[..]].concat());
        let _ = read(&record(&message(&bytes)));
    }
}
