//! EGR-11: messages of a WebSocket are read as they were meant, or the connection is refused.
#![expect(clippy::indexing_slicing, reason = "a test may panic")]

use egress::websocket::{BadFrame, Compression, Event, Kind, Reader, Sender};
use proptest::prelude::*;

const KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

fn reader(sender: Sender) -> Reader {
    Reader::new(sender, Compression::None, 1000, 1 << 20)
}

/// All events of some bytes in pieces of this size.
fn events(reader: &mut Reader, bytes: &[u8], size: usize) -> Result<Vec<Event>, BadFrame> {
    let mut found = Vec::new();
    for mut piece in bytes.chunks(size) {
        while !piece.is_empty() {
            let step = reader.read(piece)?;
            assert!(step.used > 0, "every step goes on");
            found.extend(step.event);
            piece = &piece[step.used..];
        }
    }
    Ok(found)
}

fn from_server(bytes: &[u8]) -> Result<Vec<Event>, BadFrame> {
    let whole = events(&mut reader(Sender::Server), bytes, bytes.len().max(1));
    // Pieces that are not kept come as they are cut.
    let by_byte = events(&mut reader(Sender::Server), bytes, 1);
    assert_eq!(whole.as_ref().map(|found| joined(found)), by_byte.as_ref().map(|found| joined(found)));
    whole
}

/// The same events, with neighbouring pieces of one message put together.
fn joined(events: &[Event]) -> Vec<Event> {
    let mut found: Vec<Event> = Vec::new();
    for event in events {
        match (found.last_mut(), event) {
            (
                Some(Event::Piece { bytes, last, .. }),
                Event::Piece { bytes: more, first: false, last: end, .. },
            ) if !*last => {
                bytes.extend(more);
                *last = *end;
            }
            _ => found.push(event.clone()),
        }
    }
    found
}

fn text(text: &str) -> Event {
    Event::Text(text.to_owned())
}

fn piece(first: bool, last: bool, bytes: &[u8]) -> Event {
    Event::Piece { kind: Kind::Binary, compressed: false, first, last, bytes: bytes.to_vec() }
}

#[test]
fn egr_11_texts_are_whole_whatever_their_frames() {
    assert_eq!(from_server(b"\x81\x05Hello"), Ok(vec![text("Hello")]));
    assert_eq!(from_server(b"\x81\x00"), Ok(vec![text("")]));
    assert_eq!(from_server(b"\x01\x03Hel\x00\x00\x80\x02lo"), Ok(vec![text("Hello")]));
    let between = from_server(b"\x01\x03Hel\x89\x01!\x80\x02lo").unwrap();
    assert_eq!(between, [Event::Ping(b"!".to_vec()), text("Hello")]);
    // A letter of two bytes, cut between frames.
    assert_eq!(from_server(b"\x01\x01\xc3\x80\x01\xa4"), Ok(vec![text("ä")]));
    let masked = b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58";
    assert_eq!(events(&mut reader(Sender::Client), masked, 1), Ok(vec![text("Hello")]));
}

#[test]
fn egr_11_bytes_come_in_pieces() {
    assert_eq!(from_server(b"\x82\x03abc"), Ok(vec![piece(true, true, b"abc")]));
    let found = from_server(b"\x02\x03abc\x00\x00\x00\x01d\x80\x00").unwrap();
    assert_eq!(found, [piece(true, false, b"abc"), piece(false, false, b"d"), piece(false, true, b"")]);
    let long = [&b"\x82\x7e\x01\x00"[..], &[7; 256]].concat();
    assert_eq!(from_server(&long), Ok(vec![piece(true, true, &[7; 256])]));
    let longer = [&b"\x82\x7f\x00\x00\x00\x00\x00\x01\x00\x00"[..], &[7; 65536]].concat();
    assert_eq!(from_server(&longer), Ok(vec![piece(true, true, &[7; 65536])]));
}

#[test]
fn egr_11_ping_and_close_pass() {
    let found = from_server(b"\x89\x00\x8a\x02ab\x88\x05\x03\xe8bye").unwrap();
    assert_eq!(
        found,
        [Event::Ping(vec![]), Event::Pong(b"ab".to_vec()), Event::Close(Some((1000, "bye".into())))]
    );
    assert_eq!(from_server(b"\x88\x00"), Ok(vec![Event::Close(None)]));
    let mut closed = reader(Sender::Server);
    closed.read(b"\x88\x00").unwrap();
    assert!(closed.is_closed());
    assert_eq!(closed.read(b"\x81"), Err(BadFrame::AfterClose));
}

#[test]
fn egr_11_what_is_no_frame_is_refused() {
    for (bytes, why) in [
        (&b"\xc1\x00"[..], BadFrame::Reserved),
        (b"\xa1", BadFrame::Reserved),
        (b"\x91", BadFrame::Reserved),
        (b"\x83", BadFrame::Opcode),
        (b"\x87", BadFrame::Opcode),
        (b"\x8b", BadFrame::Opcode),
        (b"\x8f", BadFrame::Opcode),
        (b"\x81\x85\x37\xfa\x21\x3d", BadFrame::Mask),
        (b"\x82\x7e\x00\x7d", BadFrame::Length),
        (b"\x82\x7f\x00\x00\x00\x00\x00\x00\xff\xff", BadFrame::Length),
        (b"\x82\x7f\x80\x00\x00\x00\x00\x00\x00\x00", BadFrame::Length),
        (b"\x82\x7f\xff\xff\xff\xff\xff\xff\xff\xff", BadFrame::Length),
        (b"\x82\x7f\x00\x00\x00\x00\x00\x10\x00\x01", BadFrame::Length),
        (b"\x09\x00", BadFrame::Control),
        (b"\x08\x00", BadFrame::Control),
        (b"\x89\x7e\x00\x7e", BadFrame::Control),
        (b"\x80\x00", BadFrame::Order),
        (b"\x00\x01a", BadFrame::Order),
        (b"\x01\x01a\x81\x01b", BadFrame::Order),
        (b"\x01\x01a\x82\x01b", BadFrame::Order),
        (b"\x81\x7e\x03\xe9", BadFrame::TextTooLong),
        (b"\x81\x01\xff", BadFrame::Utf8),
        (b"\x81\x02\xc0\x80", BadFrame::Utf8),
        (b"\x81\x03\xed\xa0\x80", BadFrame::Utf8),
        (b"\x81\x01\xc3", BadFrame::Utf8),
        (b"\x88\x01\x03", BadFrame::CloseCode),
        (b"\x88\x02\x03\xed", BadFrame::CloseCode),
        (b"\x88\x02\x03\xee", BadFrame::CloseCode),
        (b"\x88\x02\x00\x00", BadFrame::CloseCode),
        (b"\x88\x02\x13\x88", BadFrame::CloseCode),
        (b"\x88\x03\x03\xe8\xff", BadFrame::Utf8),
    ] {
        assert_eq!(from_server(bytes), Err(why), "{bytes:x?}");
    }
    assert_eq!(events(&mut reader(Sender::Client), b"\x81\x01a", 1), Err(BadFrame::Mask));
    // A text that grows by many frames is bounded as a whole.
    let many =
        [&b"\x01\x64"[..], &[b'a'; 100], &[&b"\x00\x64"[..], &[b'a'; 100]].concat().repeat(10)].concat();
    assert_eq!(from_server(&many), Err(BadFrame::TextTooLong));
}

#[test]
fn egr_11_compressed_messages_are_told_as_such() {
    let mut agreed = Reader::new(Sender::Server, Compression::Agreed, 1000, 1000);
    let found = events(&mut agreed, b"\x41\x01a\x80\x01b\x81\x01c", 100).unwrap();
    let part = |first, last, bytes: &[u8]| Event::Piece {
        kind: Kind::Text,
        compressed: true,
        first,
        last,
        bytes: bytes.to_vec(),
    };
    assert_eq!(found, [part(true, false, b"a"), part(false, true, b"b"), text("c")]);
    let mut out = Vec::new();
    found.iter().for_each(|event| event.write(&mut out, None));
    assert_eq!(out, b"\x41\x01a\x80\x01b\x81\x01c");
    for odd in [&b"\xc9\x00"[..], b"\x41\x00\xc0\x00", b"\xa1\x00"] {
        let mut agreed = Reader::new(Sender::Server, Compression::Agreed, 1000, 1000);
        assert_eq!(events(&mut agreed, odd, 100), Err(BadFrame::Reserved));
    }
}

#[test]
fn what_is_too_long_for_a_control_frame_is_cut() {
    let mut out = Vec::new();
    Event::Close(Some((1000, "ä".repeat(100)))).write(&mut out, None);
    let found = from_server(&out).unwrap();
    assert_eq!(found, [Event::Close(Some((1000, "ä".repeat(61))))]);
}

fn some_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        "\\PC{0,200}".prop_map(Event::Text),
        prop::collection::vec(any::<u8>(), 0..300).prop_map(|bytes| piece(true, true, &bytes)),
        prop::collection::vec(any::<u8>(), 0..=125).prop_map(Event::Ping),
        prop::collection::vec(any::<u8>(), 0..=125).prop_map(Event::Pong),
    ]
}

proptest! {
    #[test]
    fn egr_11_what_was_written_reads_the_same_wherever_it_is_cut(
        sent in prop::collection::vec(some_event(), 0..6), size in 1_usize..400, client: bool,
    ) {
        let (sender, key) = if client { (Sender::Client, Some(KEY)) } else { (Sender::Server, None) };
        let mut bytes = Vec::new();
        sent.iter().for_each(|event| event.write(&mut bytes, key));
        let found = events(&mut reader(sender), &bytes, size).unwrap();
        prop_assert_eq!(joined(&found), sent);
    }

    #[test]
    fn egr_11_the_writer_agrees_with_the_reader_on_any_bytes(
        bytes in prop::collection::vec(prop_oneof![Just(0_u8), Just(1), Just(0x80), Just(0x81), Just(0x89), any::<u8>()], 0..60),
    ) {
        // What is taken and written again is taken in the same way.
        if let Ok(found) = from_server(&bytes) {
            let mut out = Vec::new();
            found.iter().for_each(|event| event.write(&mut out, None));
            prop_assert_eq!(from_server(&out), Ok(found));
        }
    }
}
