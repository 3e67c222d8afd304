//! EGR-03: queries are answered as they were asked, and what is no plain query is refused.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use std::net::IpAddr;

use egress::dns::{Answer, BadQuery, Kind, MAX_QUERY, framed, message, read};
use egress::host::BadHost;
use egress::prefix::Prefix;
use proptest::prelude::*;

const OPT: &[u8] = &[0, 0, 41, 0x10, 0, 0, 0, 0, 0, 0, 0];

/// Header with one question, the labels, type and class.
fn query(labels: &[&[u8]], kind: u16, class: u16) -> Vec<u8> {
    let mut bytes = vec![0xab, 0xcd, 0x01, 0x00, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in labels {
        bytes.push(label.len() as u8);
        bytes.extend(*label);
    }
    bytes.push(0);
    bytes.extend(kind.to_be_bytes());
    bytes.extend(class.to_be_bytes());
    bytes
}

fn with_opt(mut query: Vec<u8>, opt: &[u8]) -> Vec<u8> {
    query[11] = 1;
    query.extend(opt);
    query
}

fn example(kind: u16) -> Vec<u8> {
    query(&[b"aPi", b"ExAmple", b"com"], kind, 1)
}

fn why(bytes: &[u8]) -> BadQuery {
    read(bytes).unwrap_err().why
}

/// The code of the answer that a refused query gets.
fn code(bytes: &[u8]) -> Option<u8> {
    let reply = read(bytes).unwrap_err().reply()?;
    assert_eq!(reply[..2], bytes[..2]);
    assert_eq!(reply[2] & 0x80, 0x80);
    match why(bytes) {
        BadQuery::Name(_) | BadQuery::Class => {
            assert_eq!(reply[12..], bytes[12..], "else the asker waits on")
        }
        _ => {}
    }
    assert_eq!(reply.len() > 12, reply[5] == 1, "a question is counted if it is there");
    Some(reply[3] & 0x0f)
}

#[test]
fn egr_03_an_address_is_given_for_the_question_as_it_was_sent() {
    let sent = example(1);
    let query = read(&sent).unwrap();
    assert_eq!((query.name.as_str(), query.kind), ("api.example.com", Kind::A));
    let reply = query.reply(Answer::Address(IpAddr::from([198, 18, 0, 7]), 60));
    assert_eq!(reply[..12], [0xab, 0xcd, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
    assert_eq!(reply[12..sent.len()], sent[12..], "letter case included");
    assert_eq!(reply[sent.len()..], [0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 198, 18, 0, 7]);

    let sent = with_opt(example(28), OPT);
    let address: IpAddr = "fd00::7".parse().unwrap();
    let reply = read(&sent).unwrap().reply(Answer::Address(address, 5));
    assert_eq!(reply[6..12], [0, 1, 0, 0, 0, 1]);
    let record = sent.len() - OPT.len();
    assert_eq!(reply[record..record + 12], [0xc0, 0x0c, 0, 28, 0, 1, 0, 0, 0, 5, 0, 16]);
    assert_eq!(
        reply[record + 28..],
        [0, 0, 41, 0x04, 0xd0, 0, 0, 0, 0, 0, 0],
        "EDNS is answered where it was asked"
    );
}

#[test]
fn egr_03_other_kinds_are_empty_and_other_words_have_their_codes() {
    let v4 = Answer::Address(IpAddr::from([198, 18, 0, 7]), 60);
    for (kind, parsed) in [(28, Kind::Aaaa), (64, Kind::Svcb), (65, Kind::Https), (16, Kind::Other(16))] {
        let sent = example(kind);
        let query = read(&sent).unwrap();
        assert_eq!(query.kind, parsed);
        for answer in [v4, Answer::Empty] {
            let reply = query.reply(answer);
            assert_eq!(reply[2..12], [0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0]);
            assert_eq!(reply[12..], sent[12..]);
        }
    }
    let query = read(&example(1)).unwrap();
    for (answer, code) in [(Answer::NoSuchName, 3), (Answer::Failure, 2), (Answer::Refused, 5)] {
        let reply = query.reply(answer);
        assert_eq!((reply[3], &reply[4..8]), (0x80 | code, &[0, 1, 0, 0][..]));
    }
}

#[test]
fn egr_03_labels_are_letters_digits_hyphens_and_underscores() {
    assert!(read(&query(&[b"_x-1", b"example"], 1, 1)).is_ok());
    for odd in [&b"a b"[..], b"a.b", b"a\0", b"\xff", b"a/", b"a\n", b"%41", b"*"] {
        let bytes = query(&[odd, b"example"], 1, 1);
        assert_eq!(why(&bytes), BadQuery::Name(BadHost::OddByte), "{odd:?}");
        assert_eq!(code(&bytes), Some(5));
    }
    assert_eq!(why(&query(&[], 2, 1)), BadQuery::Name(BadHost::Empty));
    assert_eq!(why(&query(&[b"127", b"1"], 1, 1)), BadQuery::Name(BadHost::OddAddress));
}

#[test]
fn egr_03_what_is_no_plain_query_is_refused() {
    let good = example(1);
    let changed = |at: usize, to: u8| {
        let mut bytes = good.clone();
        bytes[at] = to;
        bytes
    };
    // Answers are not answered, nor is half a header.
    assert_eq!((why(&changed(2, 0x81)), code(&changed(2, 0x81))), (BadQuery::IsAnswer, None));
    assert_eq!((why(&good[..11]), code(&good[..11])), (BadQuery::Length, None));
    // Inverse query, status, notify, update.
    for operation in [1, 2, 4, 5] {
        let bytes = changed(2, operation << 3);
        assert_eq!((why(&bytes), code(&bytes)), (BadQuery::Operation, Some(4)));
    }
    // None or two questions, answers, authorities, two other records; cut; a result.
    for (at, to) in [(5, 0), (5, 2), (4, 1), (7, 1), (9, 1), (11, 2), (2, 0x02), (2, 0x04), (3, 0x03)] {
        let bytes = changed(at, to);
        assert_eq!((why(&bytes), code(&bytes)), (BadQuery::Counts, Some(1)), "{at} {to}");
    }
    for pointer in [0xc0, 0x40, 0x80] {
        assert_eq!(why(&changed(12, pointer)), BadQuery::Compressed);
    }
    assert_eq!(why(&query(&[b"a"], 1, 3)), BadQuery::Class);
    assert_eq!(code(&query(&[b"a"], 1, 255)), Some(5));
    for cut in 12..good.len() {
        assert_eq!((why(&good[..cut]), code(&good[..cut])), (BadQuery::Length, Some(1)), "{cut}");
    }
    assert_eq!(why(&[&good[..], b"x"].concat()), BadQuery::Length);
    let long = [b"a".repeat(63), b"a".repeat(63), b"a".repeat(63), b"a".repeat(63)];
    assert_eq!(why(&query(&long.each_ref().map(|it| &it[..]), 1, 1)), BadQuery::Length);
}

#[test]
fn edns_is_one_record_of_version_0() {
    let padded = [&OPT[..9], &[0, 8, 0, 12, 0, 4, 0, 0, 0, 0]].concat();
    assert!(read(&with_opt(example(1), &padded)).is_ok());
    let malformed = [&OPT[..9], &[0, 3, 0, 12, 0]].concat();
    assert_eq!(why(&with_opt(example(1), &malformed)), BadQuery::Edns);
    let signature = [&[0, 0, 250], &OPT[3..]].concat();
    assert_eq!(why(&with_opt(example(1), &signature)), BadQuery::Counts);
    let mut newer = OPT.to_vec();
    newer[6] = 1;
    let refusal = read(&with_opt(example(1), &newer)).unwrap_err();
    let reply = refusal.reply().unwrap();
    assert_eq!(refusal.why, BadQuery::EdnsVersion);
    assert_eq!((reply[3] & 0x0f, reply[reply.len() - 6]), (0, 1), "the code is 16");
    let huge = [&OPT[..9], &[0x08, 0, 0, 12, 0x07, 0xfc], &[0; 0x7fc][..]].concat();
    let huge = with_opt(example(1), &huge);
    assert!(huge.len() > MAX_QUERY);
    assert_eq!(why(&huge), BadQuery::Length);
}

#[test]
fn a_stream_is_cut_into_messages() {
    let sent = example(1);
    let stream = [framed(&sent), framed(&sent)].concat();
    for cut in 0..sent.len() + 2 {
        assert_eq!(message(&stream[..cut]), Ok(Prefix::NeedMore));
    }
    assert_eq!(message(&stream), Ok(Prefix::Whole { value: &sent[..], len: sent.len() + 2 }));
    assert_eq!(message(&[0, 11]), Err(BadQuery::Length));
    assert_eq!(message(&[0xff, 0xff]), Err(BadQuery::Length));
}

proptest! {
    #[test]
    fn egr_03_an_answer_repeats_the_question_and_is_small(
        labels in prop::collection::vec("[A-Za-z_][A-Za-z0-9_-]{0,62}", 1..4), kind: u16, id: u16, edns: bool, recursion: bool,
    ) {
        let bytes: Vec<&[u8]> = labels.iter().map(|label| label.as_bytes()).collect();
        let mut sent = query(&bytes, kind, 1);
        sent[..2].copy_from_slice(&id.to_be_bytes());
        sent[2] = u8::from(recursion);
        let end = sent.len();
        let sent = if edns { with_opt(sent, OPT) } else { sent };
        let query = read(&sent).unwrap();
        prop_assert_eq!(query.name.as_str(), labels.join(".").to_ascii_lowercase());
        for answer in [Answer::Address([1, 2, 3, 4].into(), 1), Answer::NoSuchName, Answer::Failure] {
            let reply = query.reply(answer);
            prop_assert!(reply.len() <= 512);
            prop_assert_eq!(&reply[..2], &sent[..2]);
            prop_assert_eq!(reply[2] & 1, u8::from(recursion));
            prop_assert_eq!(&reply[12..end], &sent[12..end]);
            prop_assert_eq!(reply[11], u8::from(edns));
        }
    }

    #[test]
    fn no_bytes_make_the_reader_stumble(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        if let Err(refusal) = read(&bytes) {
            let reply = refusal.reply().map_or(0, |reply| reply.len());
            prop_assert!(reply <= bytes.len().max(23), "a refusal is no amplifier");
        }
        let _ = message(&bytes);
    }
}
