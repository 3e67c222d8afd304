//! Programs that want a proxy: CONNECT, requests with a whole address, and SOCKS 5. They get the same verdicts.

use std::sync::Arc;
use std::time::Duration;

use egress::control::{Verdict, Wanted};
use egress::http1::{HeadEnd, Request, Target};
use egress::prefix::Prefix;
use egress::socks;
use rules::Host;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

use crate::answers;
use crate::connection::{admit, reset};
use crate::first;
use crate::held;
use crate::house::House;
use crate::http::{Read, Way, talk};

/// How long a client may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(15);

/// What a client asked for.
enum Asked {
    /// A connection, with what it sent after asking.
    Connection(Host, u16, Vec<u8>),
    /// One request, with all that was read.
    Request(Host, u16, Vec<u8>),
    /// Something else.
    Odd(String),
}

/// Serves one client.
pub(crate) async fn serve(house: Arc<House>, mut inside: TcpStream) {
    let mut bytes = Vec::new();
    let Ok(Ok(1..)) = timeout(PATIENCE, first::more(&inside, &mut bytes)).await else { return };
    let is_socks = bytes.first() == Some(&5);
    let asked = if is_socks { by_socks(&mut inside, bytes).await } else { by_http(&mut inside, bytes).await };
    if let Some(Asked::Connection(host, port, _) | Asked::Request(host, port, _)) = &asked
        && let Some(astray) = house.lent().in_name(host)
    {
        let wanted = Wanted { host: host.to_string(), port: *port, ..Wanted::default() };
        house.found(&wanted, astray.why()).await;
        house.judged(&wanted, Verdict::Refused { why: astray.why() }, None).await;
        return reset(&inside);
    }
    match asked {
        None => reset(&inside),
        Some(Asked::Odd(why)) => answers::say(&inside, &answers::text(400, &why, false)).await,
        Some(Asked::Connection(host, port, rest)) => {
            let verdict = match held::refused(&house, &host, port, &inside).await {
                Some(refused) => Err(refused),
                None => house.rules().connect(&host, port),
            };
            if let Err(verdict) = verdict {
                let wanted = Wanted { host: host.to_string(), port, ..Wanted::default() };
                house.judged(&wanted, verdict.clone(), None).await;
                let Verdict::Refused { why } = verdict else { return };
                if is_socks {
                    answers::say(&inside, &socks::reply(socks::Reply::NotAllowed)).await;
                } else {
                    answers::refused(&inside, &why).await;
                }
                return;
            }
            let done: &[u8] =
                if is_socks { &socks::reply(socks::Reply::Succeeded) } else { b"HTTP/1.1 200 OK\r\n\r\n" };
            if inside.write_all(done).await.is_ok() {
                admit(house, host, port, inside, rest).await;
            }
        }
        Some(Asked::Request(host, port, bytes)) => {
            if let Some(verdict) = held::refused(&house, &host, port, &inside).await {
                let wanted = Wanted { host: host.to_string(), port, ..Wanted::default() };
                house.judged(&wanted, verdict.clone(), None).await;
                if let Verdict::Refused { why } = verdict {
                    answers::refused(&inside, &why).await;
                }
                return;
            }
            // The next one may be for another host: each has a connection of its own.
            let way = Way { house, host, port, tls: None, once: true };
            talk(&way, Read { stream: Box::new(inside), bytes }).await;
        }
    }
}

async fn by_http(inside: &mut TcpStream, mut bytes: Vec<u8>) -> Option<Asked> {
    let mut end = HeadEnd::new();
    let reads = async {
        loop {
            match end.find(&bytes) {
                Ok(Some(length)) => return Some(Ok(length)),
                Ok(None) => {}
                Err(bad) => return Some(Err(bad.to_string())),
            }
            if first::more(inside, &mut bytes).await.ok()? == 0 {
                return None;
            }
        }
    };
    let length = match timeout(PATIENCE, reads).await.ok()?? {
        Ok(length) => length,
        Err(why) => return Some(Asked::Odd(why)),
    };
    let request = match Request::parse(bytes.get(..length)?) {
        Ok(request) => request,
        Err(bad) => return Some(Asked::Odd(bad.to_string())),
    };
    let host = request.authority.host.to_string().parse::<Host>().ok()?;
    Some(match &request.target {
        Target::Connect => {
            let Some(port) = request.authority.port else {
                return Some(Asked::Odd("CONNECT without a port".into()));
            };
            Asked::Connection(host, port, bytes.split_off(length))
        }
        Target::Absolute(scheme, _) => {
            let port = request.authority.port.unwrap_or(scheme.port());
            Asked::Request(host, port, bytes)
        }
        Target::Origin(_) | Target::Server => Asked::Odd("this is a proxy: ask for a whole address".into()),
    })
}

async fn by_socks(inside: &mut TcpStream, mut bytes: Vec<u8>) -> Option<Asked> {
    // For all that it says, however many pieces it comes in.
    let until = Instant::now() + PATIENCE;
    let used = loop {
        match socks::greeting(&bytes) {
            Ok(Prefix::Whole { len, .. }) => break len,
            Ok(Prefix::NeedMore) => {}
            Err(bad) => {
                answers::say(inside, &bad.reply()).await;
                return None;
            }
        }
        if timeout_at(until, first::more(inside, &mut bytes)).await.ok()?.ok()? == 0 {
            return None;
        }
    };
    inside.write_all(&socks::WELCOME).await.ok()?;
    let mut bytes = bytes.split_off(used);
    loop {
        match socks::request(&bytes) {
            Ok(Prefix::Whole { value, len }) => {
                let host = value.host.to_string().parse::<Host>().ok()?;
                return Some(Asked::Connection(host, value.port, bytes.split_off(len)));
            }
            Ok(Prefix::NeedMore) => {}
            Err(bad) => {
                answers::say(inside, &bad.reply()).await;
                return None;
            }
        }
        if timeout_at(until, first::more(inside, &mut bytes)).await.ok()?.ok()? == 0 {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn adv_n16_whoever_asks_a_proxy_slowly_is_given_up() {
        // Nothing at all; a head without an end; SOCKS in its greeting and after it.
        let cases: [(&[u8], &[u8]); 4] = [
            (b"", b""),
            (b"CONNECT x:1 HTTP/1.1\r\nx: ", b"a"),
            (b"\x05\xff", b"\0"),
            (b"\x05\x01\0\x05\x01\0\x03\xff", b"a"),
        ];
        for (first, more) in cases {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let inside = listener.accept().await.unwrap().0;
            let (house, _said) = House::new();
            let begun = Instant::now();
            let asks = async {
                client.write_all(first).await.unwrap();
                while client.write_all(more).await.is_ok() {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            };
            tokio::select! {
                () = serve(Arc::new(house), inside) => {}
                () = asks => panic!("it is not given up: {first:?}"),
            }
            let took = begun.elapsed();
            assert!(took >= PATIENCE && took < PATIENCE * 2 + Duration::from_secs(2), "{first:?} {took:?}");
            let _ = client.read_to_end(&mut Vec::new()).await;
        }
    }
}
