//! Content, and whole connections, in whatever pieces they come.

use egress::http1::{BadBody, Body, Fields, Framing, trailers, write_chunk, write_last_chunk};
use proptest::prelude::*;

use crate::connection;

/// The pieces of a text that is cut at these places.
fn cut<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

/// What a body made of these pieces: content, bytes used, whether it is over; or the refusal.
fn read(framing: Framing, pieces: &[&[u8]]) -> Result<(Vec<u8>, usize, bool), BadBody> {
    let mut body = Body::new(framing);
    let (mut content, mut used) = (Vec::new(), 0);
    for piece in pieces {
        let mut rest = *piece;
        while !rest.is_empty() && !body.is_done() {
            let step = body.read(rest)?;
            assert!(step.used > 0, "every step goes on");
            assert_eq!(step.done, body.is_done());
            content.extend_from_slice(step.data);
            used += step.used;
            rest = &rest[step.used..];
        }
    }
    Ok((content, used, body.is_done()))
}

#[test]
fn content_ends_where_its_length_says() {
    assert_eq!(read(Framing::Length(3), &[b"ab", b"cd"]), Ok((b"abc".to_vec(), 3, true)));
    assert_eq!(read(Framing::Length(0), &[b"ab"]), Ok((vec![], 0, true)));
    assert_eq!(read(Framing::Empty, &[b"ab"]), Ok((vec![], 0, true)));
    assert_eq!(read(Framing::UntilClose, &[b"ab"]), Ok((b"ab".to_vec(), 2, false)));
    let mut body = Body::new(Framing::Length(3));
    body.read(b"ab").unwrap();
    assert_eq!(body.end(), Err(BadBody::Truncated));
    assert_eq!(Body::new(Framing::UntilClose).end(), Ok(()));
    assert_eq!(Body::new(Framing::Chunked).end(), Err(BadBody::Truncated));
}

#[test]
fn trailers_are_told_at_the_end_and_written_again() {
    let mut body = Body::new(Framing::Chunked);
    let text = b"1\r\na\r\n0\r\nX-Sum: 1 \r\nY:\r\n\r\nnext";
    let first = body.read(text).unwrap();
    assert_eq!((first.data, first.done), (&b"a"[..], false));
    assert!(body.trailers().is_none());
    let second = body.read(&text[first.used..]).unwrap();
    assert!(second.done);
    assert_eq!(first.used + second.used, text.len() - 4);
    let mut out = Vec::new();
    write_chunk(&mut out, b"a");
    write_chunk(&mut out, b"");
    write_last_chunk(&mut out, body.trailers());
    assert_eq!(out, b"1\r\na\r\n0\r\nX-Sum: 1\r\nY: \r\n\r\n");
}

#[test]
fn egr_09_requests_of_one_connection_are_read_one_by_one() {
    let mut text = String::new();
    for at in 0..1000 {
        match at % 3 {
            0 => text.push_str(&format!("GET /{at} HTTP/1.1\r\nHost: a\r\n\r\n")),
            1 => text.push_str(&format!("POST /{at} HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")),
            _ => text.push_str(&format!(
                "PUT /{at} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"
            )),
        }
    }
    let heard = connection(text.as_bytes().chunks(7));
    assert!(!heard.refused);
    assert_eq!(heard.taken.len(), 1000);
    for (at, (head, content)) in heard.taken.iter().enumerate() {
        assert!(head.contains(&format!(" /{at} ")));
        assert_eq!(&content[..], if at % 3 == 0 { &b""[..] } else { b"abc" });
    }
}

proptest! {
    #[test]
    fn chunks_read_as_they_were_written_wherever_they_are_cut(
        parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..8),
        cuts in prop::collection::vec(any::<usize>(), 0..12), rest in prop::collection::vec(any::<u8>(), 0..9), trailer: bool,
    ) {
        let mut fields = Fields::new();
        if trailer { fields.push("X-Sum", b"1").unwrap(); }
        let mut text = Vec::new();
        for part in &parts { write_chunk(&mut text, part); }
        write_last_chunk(&mut text, Some(&fields));
        let length = text.len();
        text.extend(rest);
        let found = read(Framing::Chunked, &cut(&text, &cuts));
        prop_assert_eq!(found, Ok((parts.concat(), length, true)));
    }

    #[test]
    fn where_content_is_cut_does_not_matter(
        text in "([0-9a-f]{1,2}|\r\n|\n|[;: xX]|0\r\n\r\n|3\r\nabc\r\n){0,12}", cuts in prop::collection::vec(any::<usize>(), 0..9),
        length in 0_u64..40,
    ) {
        for framing in [Framing::Chunked, Framing::Length(length)] {
            let whole = read(framing, &[text.as_bytes()]);
            prop_assert_eq!(read(framing, &cut(text.as_bytes(), &cuts)), whole);
        }
    }

    #[test]
    fn where_a_connection_is_cut_does_not_matter(
        bytes in prop::collection::vec(prop::sample::select(vec![
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n", "abcde",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", "5\r\nabcde\r\n", "0\r\n\r\n", "\r\n", "x", "GET",
        ]), 0..9),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        let text = bytes.concat();
        let whole = connection([text.as_bytes()]);
        prop_assert_eq!(connection(cut(text.as_bytes(), &cuts)), whole);
    }
}

#[test]
fn adv_n11_fields_after_content_that_has_no_chunks_have_the_same_bounds() {
    let read = |all: &[(&str, &[u8])]| trailers(all.iter().copied()).map(|fields| fields.len());
    assert_eq!(read(&[("grpc-status", b"0"), ("grpc-message", b"")]), Ok(2));
    for name in ["content-length", "transfer-encoding", "host", "authorization", "set-cookie", "te"] {
        assert_eq!(read(&[(name, b"x")]), Err(BadBody::Forbidden), "{name}");
    }
    assert!(matches!(read(&[("x", b"a\r\nb")]), Err(BadBody::Trailer(_))));
    assert_eq!(read(&[("x", &[b'a'; 9000])]), Err(BadBody::TrailersTooLong));
    assert_eq!(read(&[("x", &b"y"[..]); 101]), Err(BadBody::TrailersTooLong));
}
