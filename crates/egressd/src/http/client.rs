//! Who asks: a connection that speaks HTTP/1, or one stream of HTTP/2.

use std::future::poll_fn;

use bytes::Bytes;
use egress::http1::{Framing, Request, Response};
use h2::RecvStream;
use h2::server::SendResponse;
use tokio::io::{AsyncWriteExt, WriteHalf};

use super::content::{Out, Sink, Source, broken, within};
use super::{Read, Trouble, Wire, two};
use crate::answers;

/// As long as most answers are that come in one piece.
const USUAL_ANSWER: usize = 4096;

/// Who asks.
pub(super) enum Client<'a> {
    One(&'a mut Read<Wire>),
    Two {
        recv: RecvStream,
        send: SendResponse<Bytes>,
        /// Whether it wants fields after content.
        takes_trailers: bool,
    },
}

impl Client<'_> {
    /// Where its content comes from, and where the answer goes to.
    pub(super) fn split(&mut self) -> (Source<'_, '_>, Answers<'_>) {
        match self {
            Self::One(read) => {
                let (from, to) = tokio::io::split(&mut read.stream);
                (Source::One(from, &mut read.bytes), Answers::One(to))
            }
            Self::Two { recv, send, .. } => (Source::Two(recv), Answers::Two(send)),
        }
    }

    /// Tells a client that waits for it to send its content.
    pub(super) async fn goes_on(&mut self, request: &mut Request) -> Result<(), Trouble> {
        if request.expects_continue() {
            match self {
                Self::One(read) => {
                    read.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
                    read.stream.flush().await?;
                }
                Self::Two { send, .. } => send.send_informational(two::interim()?).map_err(broken)?,
            }
        }
        request.fields.remove("expect");
        Ok(())
    }

    /// Says why there is no answer.
    pub(super) async fn refuse(
        &mut self,
        request: &Request,
        status: u16,
        why: &str,
        stays: bool,
    ) -> Result<(), Trouble> {
        match self {
            Self::One(read) => {
                within(read.stream.write_all(&answers::to(request, status, why, stays))).await?;
                within(read.stream.flush()).await
            }
            Self::Two { send, .. } => two::refuse(send, status, why, request.method.as_str() == "HEAD"),
        }
    }
}

/// Where an answer goes to.
pub(super) enum Answers<'a> {
    One(WriteHalf<&'a mut Wire>),
    Two(&'a mut SendResponse<Bytes>),
}

impl<'a> Answers<'a> {
    /// Comes back when the client does not want an answer any more, if it says so.
    pub(super) async fn gone(&mut self) {
        match self {
            Self::One(_) => std::future::pending().await,
            Self::Two(send) => drop(poll_fn(|cx| send.poll_reset(cx)).await),
        }
    }

    /// Says that the answer is still to come.
    pub(super) async fn interim(&mut self, answer: &Response) -> Result<(), Trouble> {
        match self {
            Self::One(to) => {
                let mut head = Vec::new();
                answer.write(&mut head, true);
                within(to.write_all(&head)).await?;
                within(to.flush()).await
            }
            // Whoever speaks HTTP/2 was told already, or does not wait for it.
            Self::Two(_) => Ok(()),
        }
    }

    /// Writes the head of an answer, or leaves it to be written with content; where that goes to, if there is any. `is_all`:
    /// the server has said that there is none.
    pub(super) async fn head(
        self,
        answer: &Response,
        stays: bool,
        is_all: bool,
    ) -> Result<Option<Sink<'a>>, Trouble> {
        let framing = answer.framing();
        let is_empty = matches!(framing, Framing::Empty | Framing::Length(0) | Framing::Tunnel);
        match self {
            Self::One(to) => {
                let mut head = Vec::with_capacity(USUAL_ANSWER);
                answer.write(&mut head, stays);
                let mut sink = Sink::One(Out::new(to, framing, head, false));
                if is_empty {
                    sink.let_go().await?;
                }
                Ok((!is_empty).then_some(sink))
            }
            Self::Two(send) => {
                // What is a tunnel to HTTP/1 is a stream that stays open.
                let is_over = (is_empty || is_all) && framing != Framing::Tunnel;
                let sent = send.send_response(two::answer(answer)?, is_over).map_err(broken)?;
                Ok((!is_over).then_some(Sink::Two(sent)))
            }
        }
    }
}
