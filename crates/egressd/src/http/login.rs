//! Requests of a login: they wait for a token that is good, and those that would renew it are answered here.
//!
//! Invariant: what is sent to the place where a login is renewed reaches nobody, whatever it is.

use egress::control::{Verdict, Wanted};
use egress::http1::Request;
use egress::login::Login;
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, timeout};

use super::carry::Counted;
use super::client::Client;
use super::content::{Content, within};
use super::{HEAD, Refusal, Trouble, Way, length, refused, tell, two};
use crate::lent::Lent;

/// The most that a request to renew something may be long.
const MOST: u64 = 16 * 1024;
/// What an answer says of itself.
const FIELDS: [(&str, &str); 2] = [("content-type", "application/json"), ("cache-control", "no-store")];

/// The login that a request uses, and which of its tokens.
pub(super) type Used = Option<(String, u64)>;

/// Waits until the token that a request uses is good.
pub(super) async fn ready(way: &Way, lent: &Lent, request: &Request) -> Result<Used, Refusal> {
    let names = way.house.logins.names();
    let Some(name) = names.into_iter().find(|name| lent.is_used(name, request)) else { return Ok(None) };
    match way.house.logins.good(&way.house, &name).await {
        Ok(turn) => Ok(Some((name, turn))),
        Err(none) => Err(Refusal { why: none.why, status: 403, closes: true }),
    }
}

/// What a server said to a token.
pub(super) async fn seen(way: &Way, used: Used, status: Option<u16>) {
    if let (Some((name, turn)), Some(401)) = (used, status) {
        way.house.logins.was_refused(&way.house, &name, turn).await;
    }
}

/// The login that a request would renew, if it goes to where that is done.
pub(super) fn renews(way: &Way, request: &Request) -> Option<Login> {
    let path = request.target.resource()?.path();
    let path = rules::path::canonical(path).ok()?;
    way.house.logins.renewed_at(&way.host.to_string(), &path.to_string())
}

/// Answers a request to renew a login: with the same words again, once there is a token that is good.
pub(super) async fn renewed(
    way: &Way,
    client: &mut Client<'_>,
    content: &mut Content,
    mut request: Request,
    (wanted, allowed): (Wanted, Verdict),
    login: Login,
) -> Result<bool, Trouble> {
    let begun = Instant::now();
    client.goes_on(&mut request).await?;
    let is_it = {
        let (mut from, _) = client.split();
        while !content.over && length(&content.held) <= MOST {
            let cut = |_| Trouble::Odd("the content is cut".into());
            timeout(HEAD, content.hold(&mut from)).await.map_err(cut)??;
        }
        content.over && asks_to_renew(&content.held, &login.word)
    };
    if !is_it {
        let why = format!(
            "`{}` is lent to this sandbox and renewed outside: nothing else is asked for at its service from inside",
            login.name
        );
        return refused(way, client, &request, &wanted, Refusal { why, status: 403, closes: true }).await;
    }
    way.house.judged(&wanted, allowed, None).await;
    let good = way.house.logins.good(&way.house, &login.name).await;
    let (status, body) = match &good {
        Ok(_) => (200, login.answer),
        // In the words of OAuth, so that whoever asks knows whether to ask again.
        Err(none) => {
            let (status, error) =
                if none.is_final { (400, "invalid_grant") } else { (503, "temporarily_unavailable") };
            (status, serde_json::json!({"error": error, "error_description": none.why}).to_string())
        }
    };
    let counted = Counted { sent: 0, received: 0, answered: true, ..Counted::default() };
    tell(way, wanted, &counted, None, begun).await;
    let stays = request.is_persistent() && !way.once;
    match client {
        Client::One(read) => {
            within(read.stream.write_all(&whole(status, &body, stays))).await?;
            within(read.stream.flush()).await?;
        }
        Client::Two { send, .. } => two::whole(send, status, &FIELDS, body, false)?,
    }
    Ok(stays)
}

/// Whether this asks for a new token, with the word that stands for what renews it.
fn asks_to_renew(content: &[u8], word: &str) -> bool {
    let fields: Vec<(String, String)> = match serde_json::from_slice(content) {
        Ok(serde_json::Value::Object(fields)) => {
            let text = |(name, value): (String, serde_json::Value)| Some((name, value.as_str()?.to_owned()));
            fields.into_iter().filter_map(text).collect()
        }
        // A word needs no escapes, nor does the kind of grant.
        _ => String::from_utf8_lossy(content)
            .split('&')
            .filter_map(|field| field.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
    };
    let is = |name: &str, value: &str| {
        let mut all = fields.iter().filter(|(one, _)| one == name);
        all.next().is_some_and(|(_, one)| one == value) && all.next().is_none()
    };
    is("grant_type", "refresh_token") && is("refresh_token", word)
}

fn whole(status: u16, body: &str, stays: bool) -> Vec<u8> {
    let title = match status {
        200 => "OK",
        400 => "Bad Request",
        _ => "Service Unavailable",
    };
    let connection = if stays { "" } else { "Connection: close\r\n" };
    let length = body.len();
    format!(
        "HTTP/1.1 {status} {title}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
         Cache-Control: no-store\r\n{connection}\r\n{body}"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn egr_14_only_a_wish_to_renew_is_one() {
        let asks = |content: &str| asks_to_renew(content.as_bytes(), "rt_word");
        assert!(asks(r#"{"client_id":"x","grant_type":"refresh_token","refresh_token":"rt_word"}"#));
        assert!(asks("grant_type=refresh_token&refresh_token=rt_word&client_id=x"));
        for other in [
            "",
            "[]",
            r#"{"grant_type":"authorization_code","code":"x","refresh_token":"rt_word"}"#,
            r#"{"grant_type":"refresh_token","refresh_token":"rt_other"}"#,
            "grant_type=refresh_token&refresh_token=rt_word&refresh_token=rt_other",
            "grant_type=refresh_token&refresh_token=rt_word&grant_type=other",
        ] {
            assert!(!asks(other), "{other}");
        }
    }
}
