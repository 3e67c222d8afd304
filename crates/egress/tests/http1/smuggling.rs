//! ADV-N11: what two programs could read in two ways is refused whole.

use egress::http1::{BadBody, BadField, BadHead, Body, Framing};

use crate::{connection, request};

/// A POST with these lines after Host.
fn post(lines: &str) -> Result<Framing, BadHead> {
    request(&format!("POST / HTTP/1.1\r\nHost: a.example\r\n{lines}\r\n")).map(|found| found.framing())
}

#[test]
fn adv_n11_lengths_are_one_plain_number() {
    assert_eq!(post("Content-Length: 0\r\n"), Ok(Framing::Length(0)));
    assert_eq!(post("Content-Length:\t42 \r\n"), Ok(Framing::Length(42)));
    for odd in [
        "-1",
        "+5",
        "5,5",
        "5, 6",
        "0x5",
        "5 5",
        "",
        "5;",
        "1e3",
        "005",
        "\u{0665}",
        "99999999999999999999",
        "18446744073709551616",
        "9223372036854775808",
        "5.0",
        "'5'",
        "\"5\"",
        "5_0",
    ] {
        assert_eq!(post(&format!("Content-Length: {odd}\r\n")), Err(BadHead::Length), "{odd}");
    }
    for twice in ["Content-Length: 5\r\nContent-Length: 6\r\n", "Content-Length: 5\r\ncontent-length: 5\r\n"]
    {
        assert_eq!(post(twice), Err(BadHead::Length), "{twice}");
    }
}

#[test]
fn adv_n11_a_coding_is_exactly_chunked() {
    assert_eq!(post("Transfer-Encoding: chunked\r\n"), Ok(Framing::Chunked));
    assert_eq!(post("transfer-encoding: Chunked\r\n"), Ok(Framing::Chunked));
    for odd in [
        "identity",
        "gzip",
        "gzip, chunked",
        "chunked, gzip",
        "chunked, chunked",
        "chunked,",
        ",chunked",
        "xchunked",
        "chunked;q=1",
        "\"chunked\"",
        "'chunked'",
        "chunked\u{a0}",
        "chun\tked",
        "",
        "cow",
        "chunked, identity",
    ] {
        assert_eq!(post(&format!("Transfer-Encoding: {odd}\r\n")), Err(BadHead::Coding), "{odd:?}");
    }
    for twice in [
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-encoding: cow\r\n",
        "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",
    ] {
        assert_eq!(post(twice), Err(BadHead::Coding), "{twice}");
    }
    let old = "POST / HTTP/1.0\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(request(old), Err(BadHead::Coding));
}

#[test]
fn adv_n11_a_length_and_a_coding_are_refused_in_any_order() {
    for both in [
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n",
    ] {
        assert_eq!(post(both), Err(BadHead::TwoLengths), "{both}");
    }
}

#[test]
fn adv_n11_a_trace_has_no_content() {
    let trace = |lines: &str| {
        request(&format!("TRACE / HTTP/1.1\r\nHost: a\r\n{lines}\r\n")).map(|found| found.framing())
    };
    assert_eq!(trace(""), Ok(Framing::Empty));
    assert_eq!(trace("Content-Length: 1\r\n"), Err(BadHead::Content));
    assert_eq!(trace("Transfer-Encoding: chunked\r\n"), Err(BadHead::Content));
}

#[test]
fn adv_n11_a_disguised_coding_is_no_header_at_all() {
    for (line, why) in [
        ("Transfer-Encoding : chunked\r\n", BadField::Name),
        ("Transfer-Encoding\t: chunked\r\n", BadField::Name),
        (" Transfer-Encoding: chunked\r\n", BadField::Folded),
        ("\tTransfer-Encoding: chunked\r\n", BadField::Folded),
        ("X: y\r\n Transfer-Encoding: chunked\r\n", BadField::Folded),
        ("Transfer-Encoding:\r\n chunked\r\n", BadField::Folded),
        ("Transfer-Encoding: \0chunked\r\n", BadField::Value),
        ("Transfer-Encoding: \x0bchunked\r\n", BadField::Value),
        ("Transfer-Encoding: \x0cchunked\r\n", BadField::Value),
        ("Transfer-Encoding: chunked\x7f\r\n", BadField::Value),
        ("X: y\rTransfer-Encoding: chunked\r\n", BadField::Value),
        ("X: y\r\rTransfer-Encoding: chunked\r\n", BadField::Value),
        ("Transfer-Encoding: chunked\r\r\n", BadField::Value),
        ("Transfer-Encoding\0: chunked\r\n", BadField::Name),
        ("Transfer\u{a0}Encoding: chunked\r\n", BadField::Name),
        ("Transfer-Encoding\r: chunked\r\n", BadField::Name),
        ("\"Transfer-Encoding\": chunked\r\n", BadField::Name),
        ("Transfer_Encoding: chunked\r\n", BadField::Name),
        ("CONTENT_LENGTH: 4\r\n", BadField::Name),
        ("Transfer-Encoding chunked\r\n", BadField::NoColon),
        (": chunked\r\n", BadField::Name),
        ("Content-Length=: 4\r\n", BadField::Name),
        ("Content Length: 4\r\n", BadField::Name),
        ("(x): 4\r\n", BadField::Name),
    ] {
        assert_eq!(post(line), Err(BadHead::Field(why)), "{line:?}");
    }
}

#[test]
fn adv_n11_lines_end_with_both() {
    for text in [
        "GET / HTTP/1.1\nHost: a\n\n",
        "GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\n",
        "GET / HTTP/1.1\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX: y\n\r\n",
    ] {
        assert_eq!(request(text), Err(BadHead::LineEnd), "{text:?}");
        assert!(connection([text.as_bytes()]).refused);
    }
    assert_eq!(request("\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"), Err(BadHead::FirstLine));
    assert!(request("GET / HTTP/1.1\r\nHost: a\r\r\n\r\n").is_err());
}

#[test]
fn adv_n11_first_lines_have_three_parts() {
    for line in [
        "GET  / HTTP/1.1",
        "GET / HTTP/1.1 ",
        " GET / HTTP/1.1",
        "GET /",
        "GET",
        "GET / /HTTP/1.1",
        "GET / HTTP/1.2",
        "GET / HTTP/2.0",
        "PRI * HTTP/2.0",
        "GET / http/1.1",
        "GET / HTTP/1.10",
        "GET / HTTP/01.1",
        "GET / HTTP/1.1\t",
        "GET\t/ HTTP/1.1",
        "GET / HTTP/1.1 HTTP/1.1",
        "GET /a b HTTP/1.1",
        "GET /\tHTTP/1.1",
        "get / HTTP/1.1",
        "G\0T / HTTP/1.1",
        "GET: / HTTP/1.1",
        "-GET / HTTP/1.1",
        "GET /\0 HTTP/1.1",
        "GET / HTTP/1.1\0",
        "GET /\r HTTP/1.1",
    ] {
        assert!(request(&format!("{line}\r\nHost: a\r\n\r\n")).is_err(), "{line:?}");
    }
}

#[test]
fn adv_n11_there_is_one_host() {
    let hosts = |version: &str, lines: &str| request(&format!("GET / HTTP/{version}\r\n{lines}\r\n"));
    assert_eq!(hosts("1.1", ""), Err(BadHead::Hosts));
    assert_eq!(hosts("1.0", ""), Err(BadHead::Hosts));
    assert_eq!(hosts("1.1", "Host: a\r\nHost: a\r\n"), Err(BadHead::Hosts));
    assert_eq!(hosts("1.1", "Host: a\r\nhOST: b\r\n"), Err(BadHead::Hosts));
    for odd in [
        "", "a b", "a,b", "a/b", "u@a", "a:", "a:0", "a:b", "a:80:80", "a#", "http://a", "a?b", "a\tb",
        "a:80 ",
    ]
    .into_iter()
    .filter(|host| !host.ends_with(' '))
    {
        assert!(matches!(hosts("1.1", &format!("Host: {odd}\r\n")), Err(BadHead::Host(_))), "{odd:?}");
    }
}

#[test]
fn adv_n11_connection_takes_nothing_away_that_was_judged() {
    for name in [
        "Host",
        "Content-Length",
        "Transfer-Encoding",
        "authorization",
        "Cookie",
        "content-type",
        "X-Api-Key",
    ] {
        let found = post(&format!("Content-Length: 1\r\nConnection: close, {name}\r\n"));
        assert_eq!(found, Err(BadHead::Connection), "{name}");
    }
    assert_eq!(post("Connection: a b\r\n"), Err(BadHead::Connection));
    assert_eq!(post("Expect: 200-ok\r\n"), Err(BadHead::Expect));
    assert_eq!(post("Expect: 100-continue\r\nExpect: 100-continue\r\n"), Err(BadHead::Expect));
}

#[test]
fn adv_n11_what_is_said_once_is_not_said_twice() {
    for name in ["Authorization", "Content-Type", "Content-Encoding", "Cookie", "Origin", "Range"] {
        assert!(post(&format!("{name}: a\r\n")).is_ok());
        let twice = format!("{name}: a\r\n{}: a\r\n", name.to_lowercase());
        assert_eq!(post(&twice), Err(BadHead::Twice), "{name}");
    }
    assert!(post("Accept: a\r\nAccept: b\r\n").is_ok());
}

/// The first refusal of content in chunks, as a whole and byte by byte.
fn chunks(text: &[u8]) -> Result<Vec<u8>, BadBody> {
    let run = |size: usize| {
        let mut body = Body::new(Framing::Chunked);
        let mut content = Vec::new();
        for mut piece in text.chunks(size) {
            while !piece.is_empty() && !body.is_done() {
                let step = body.read(piece)?;
                content.extend_from_slice(step.data);
                piece = &piece[step.used..];
            }
        }
        body.end().map(|()| content)
    };
    let whole = run(text.len().max(1));
    assert_eq!(whole, run(1));
    whole
}

#[test]
fn adv_n11_chunks_have_a_plain_size() {
    assert_eq!(chunks(b"3\r\nabc\r\n00A\r\n0123456789\r\n0\r\n\r\n").unwrap(), b"abc0123456789");
    for odd in [
        "3 \r\nabc\r\n",
        " 3\r\nabc\r\n",
        "0x3\r\nabc\r\n",
        "+3\r\nabc\r\n",
        "-3\r\nabc\r\n",
        "\r\nabc\r\n",
        "g\r\n",
        "3\nabc\r\n",
        "3\r\r\nabc\r\n",
        "\n3\r\nabc\r\n",
        "3_\r\nabc\r\n",
        "3\t\r\nabc\r\n",
        "3\0\r\nabc\r\n",
        "8000000000000000\r\n",
        "10000000000000000\r\n",
        "FFFFFFFFFFFFFFFFFFFF\r\n",
        "00000000000000003\r\nabc\r\n",
    ] {
        assert_eq!(chunks(format!("{odd}0\r\n\r\n").as_bytes()), Err(BadBody::ChunkSize), "{odd:?}");
    }
}

#[test]
fn adv_n11_extensions_are_refused() {
    for odd in [
        "3;a=b\r\nabc\r\n",
        "3;\r\nabc\r\n",
        "3;\nabc\r\n",
        "3;a\n0\r\n\r\n",
        "0;x\r\n",
        "3;a=\"\r\n0\r\n\r\n\"\r\n",
    ] {
        assert_eq!(chunks(format!("{odd}0\r\n\r\n").as_bytes()), Err(BadBody::Extension), "{odd:?}");
    }
    let huge = format!("3;{}", "a".repeat(1 << 20));
    assert_eq!(chunks(huge.as_bytes()), Err(BadBody::Extension));
}

#[test]
fn adv_n11_chunks_end_where_they_say() {
    for odd in ["3\r\nabcd\r\n", "3\r\nabc\n", "3\r\nabc\rX", "3\r\nabc0\r\n\r\n", "3\r\nabc\r\r\n"] {
        assert_eq!(chunks(format!("{odd}0\r\n\r\n").as_bytes()), Err(BadBody::ChunkEnd), "{odd:?}");
    }
    for cut in ["", "3", "3\r\n", "3\r\nab", "3\r\nabc\r\n", "0\r\n", "0\r\nX: y\r\n"] {
        assert_eq!(chunks(cut.as_bytes()), Err(BadBody::Truncated), "{cut:?}");
    }
}

#[test]
fn adv_n11_trailers_are_judged_like_headers() {
    for good in ["X-Checksum: 1\r\n", "Content-MD5: x\r\nGrpc-Status: 0\r\n", ""] {
        assert!(chunks(format!("0\r\n{good}\r\n").as_bytes()).is_ok());
    }
    for name in
        ["Content-Length", "Transfer-Encoding", "Host", "authorization", "Cookie", "Set-Cookie", "Connection"]
            .into_iter()
            .chain([
                "Trailer",
                "TE",
                "Content-Type",
                "Content-Encoding",
                "Proxy-Foo",
                "Expect",
                "X-Forwarded-For",
                "If-Match",
            ])
    {
        assert_eq!(chunks(format!("0\r\n{name}: x\r\n\r\n").as_bytes()), Err(BadBody::Forbidden), "{name}");
    }
    for (odd, why) in
        [(" X: y\r\n", BadField::Folded), ("X : y\r\n", BadField::Name), ("X\r\n", BadField::NoColon)]
    {
        assert_eq!(chunks(format!("0\r\n{odd}\r\n").as_bytes()), Err(BadBody::Trailer(why)), "{odd:?}");
    }
    assert_eq!(chunks(b"0\r\nX: y\n\r\n"), Err(BadBody::ChunkEnd));
    assert_eq!(chunks(b"0\r\n\n"), Err(BadBody::ChunkEnd));
    assert_eq!(chunks(b"0\r\nGET / HTTP/1.1\r\n"), Err(BadBody::Trailer(BadField::NoColon)));
    let long = format!("0\r\nX: {}", "y".repeat(9000));
    assert_eq!(chunks(long.as_bytes()), Err(BadBody::TrailersTooLong));
    let many = format!("0\r\n{}\r\n", "X: y\r\n".repeat(150));
    assert_eq!(chunks(many.as_bytes()), Err(BadBody::TrailersTooLong));
}

#[test]
fn adv_n11_hidden_requests_are_never_taken() {
    let hidden = "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n";
    for text in [
        format!(
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}"
        ),
        format!(
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n5c\r\n{hidden}0\r\n\r\n"
        ),
        format!(
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\nContent-Length: 4\r\n\r\n{hidden}"
        ),
        format!("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 44\r\n\r\n{hidden}"),
        format!("GET / HTTP/1.1\nHost: a\nContent-Length: 44\n\n{hidden}"),
    ] {
        let heard = connection([text.as_bytes()]);
        assert!(heard.refused && heard.taken.is_empty(), "{text:?}");
        let heard = connection(text.as_bytes().chunks(1));
        assert!(heard.refused && heard.taken.is_empty(), "{text:?}");
    }
    // Content that looks like a request is content.
    let honest =
        format!("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{hidden}{hidden}", hidden.len());
    let heard = connection([honest.as_bytes()]);
    assert_eq!(heard.taken.len(), 2);
    assert_eq!(heard.taken[0].1, hidden.as_bytes());
}
