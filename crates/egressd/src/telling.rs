//! `http://palisade.local/`: what a sandbox may reach, and what was refused lately, as JSON.

use egress::http1::{HeadEnd, Request};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::answers;
use crate::connection::reset;
use crate::first;
use crate::house::House;

/// How long a client may take to ask.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);

/// The longest question.
const MOST: usize = 8 * 1024;

/// Answers one request.
pub(crate) async fn serve(house: &House, inside: TcpStream, port: u16) {
    if port != 80 {
        return reset(&inside);
    }
    let asked = async {
        let (mut bytes, mut end) = (Vec::new(), HeadEnd::new());
        loop {
            if first::more(&inside, &mut bytes).await.ok()? == 0 || bytes.len() > MOST {
                return None;
            }
            if let Some(length) = end.find(&bytes).ok()? {
                return Request::parse(bytes.get(..length)?).ok();
            }
        }
    };
    let answer = match timeout(PATIENCE, asked).await {
        Ok(Some(request)) if matches!(request.method.as_str(), "GET" | "HEAD") => {
            answers::json(200, "OK", &house.told(), false)
        }
        Ok(Some(_)) => answers::text(403, "this address only tells; ask with GET", false),
        Ok(None) | Err(_) => answers::text(400, "the request is not understood", false),
    };
    answers::say(&inside, &answer).await;
}
