//! Clients and servers that are slow or say nothing. The clock of these tests goes on by itself when everybody waits, so the bounds
//! that are tried are those that ship, and nobody waits for them.

use egress::http1::Upgrade;
use rules::{HOST_LOOPBACK, Rule};
use tokio::io::{DuplexStream, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

use super::*;
use crate::house::Said;

const SECOND: Duration = Duration::from_secs(1);

/// A way to this port of the machine, the only one that there is.
fn way(port: u16) -> (Way, Said) {
    let (house, said) = House::new();
    let rule = Rule { ports: vec![port], ..Rule::new(HOST_LOOPBACK) };
    // Whoever gives rules blocks until they are told of, which no task may.
    std::thread::scope(|scope| scope.spawn(|| house.rule(1, vec![rule])).join()).unwrap();
    let host = HOST_LOOPBACK.parse().unwrap();
    (Way { house: Arc::new(house), host, port, tls: None, once: false }, said)
}

/// Says this at once, and then a letter each second for as long as somebody listens.
async fn dribble(mut to: impl AsyncWrite + Unpin, first: &[u8]) {
    to.write_all(first).await.unwrap();
    while to.write_all(b"a").await.is_ok() {
        sleep(SECOND).await;
    }
    std::future::pending::<()>().await;
}

/// What a client gets that says something and waits for the end, and how long that takes.
async fn told(way: &Way, says: impl AsyncFnOnce(WriteHalf<DuplexStream>)) -> (String, Duration) {
    let (client, inside) = tokio::io::duplex(64 * 1024);
    let (mut from, to) = tokio::io::split(client);
    let begun = Instant::now();
    let mut answer = Vec::new();
    let hears = async {
        tokio::select! {
            got = from.read_to_end(&mut answer) => drop(got.unwrap()),
            () = says(to) => unreachable!("it waits for ever"),
        }
        begun.elapsed()
    };
    let (took, ()) = tokio::join!(hears, talk(way, Read { stream: Box::new(inside), bytes: Vec::new() }));
    (String::from_utf8(answer).unwrap(), took)
}

#[track_caller]
fn assert_about(took: Duration, bound: Duration) {
    assert!(took >= bound && took < bound + SECOND * 2, "{took:?} instead of {bound:?}");
}

#[tokio::test(start_paused = true)]
async fn adv_n16_a_client_that_writes_its_head_slowly_is_given_up() {
    let (way, _said) = way(80);
    for first in [&b"G"[..], b"GET / HTTP/1.1\r\nHost: host.palisade.local\r\nx: "] {
        let (answer, took) = told(&way, async |to: WriteHalf<DuplexStream>| dribble(to, first).await).await;
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("the head took too long"), "{answer}");
        assert_about(took, HEAD);
    }
}

#[tokio::test(start_paused = true)]
async fn adv_n16_a_client_that_says_nothing_more_is_given_up() {
    let (way, _said) = way(80);
    let silent = async |to: WriteHalf<DuplexStream>| {
        let _open = to;
        std::future::pending::<()>().await
    };
    let (answer, took) = told(&way, silent).await;
    assert_eq!(answer, "");
    assert_about(took, RESTING);
}

/// Answers everybody who connects in this way, for as long as the test runs.
async fn server(answers: impl AsyncFn(TcpStream) + Copy + 'static) -> (u16, impl Future<Output = ()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let serves = async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            assert!(stream.read_buf(&mut head).await.unwrap() > 0);
        }
        answers(stream).await;
        unreachable!("a server that stalls does not end")
    };
    (port, serves)
}

/// What a client gets of such a server, and how long that takes.
async fn asked(answers: impl AsyncFn(TcpStream) + Copy + 'static) -> (String, Duration) {
    let (port, serves) = server(answers).await;
    let (way, _said) = way(port);
    let asks = async |mut to: WriteHalf<DuplexStream>| {
        let request = format!("GET / HTTP/1.1\r\nHost: host.palisade.local:{port}\r\n\r\n");
        to.write_all(request.as_bytes()).await.unwrap();
        std::future::pending::<()>().await
    };
    tokio::select! {
        told = told(&way, asks) => told,
        () = serves => unreachable!(),
    }
}

#[tokio::test(start_paused = true)]
async fn adv_n16_a_server_that_does_not_answer_is_given_up_and_told_of() {
    let (answer, took) = asked(async |stream: TcpStream| {
        let _open = stream;
        std::future::pending::<()>().await
    })
    .await;
    assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains("the server does not answer"), "{answer}");
    assert_about(took, ANSWER);
}

#[tokio::test(start_paused = true)]
async fn adv_n16_a_server_that_writes_its_head_slowly_is_given_up_and_told_of() {
    let (answer, took) =
        asked(async |stream: TcpStream| dribble(stream, b"HTTP/1.1 200 OK\r\nx: ").await).await;
    assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains("the head took too long"), "{answer}");
    assert_about(took, HEAD);
}

#[tokio::test(start_paused = true)]
async fn adv_n16_a_server_that_stops_in_the_middle_is_given_up() {
    let (answer, took) = asked(async |mut stream: TcpStream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfive!").await.unwrap();
        std::future::pending::<()>().await
    })
    .await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("five!"), "{answer}");
    assert_about(took, ANSWER);
}

#[tokio::test(start_paused = true)]
async fn adv_n16_a_server_that_takes_no_greeting_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (way, _said) = way(port);
    let way = Way { tls: Some(crate::tls::Client::trusting_nobody()), ..way };
    let begun = Instant::now();
    let pool = Pool::new(false);
    let rules = way.house.rules();
    let refusal = pool.get(&way, &rules, Upgrade::None).await.err().unwrap();
    assert!(refusal.why.contains("does not finish its greeting"), "{}", refusal.why);
    assert_about(begun.elapsed(), crate::tls::HANDSHAKE);
    drop(listener);
}
