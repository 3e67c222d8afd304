//! Lends a secret to a run: the value goes to a line of the same user, and never into an answer.
//!
//! Flow: the gate -> the line of the run, if the user of this daemon listens there -> a lease -> the value, on that line ->
//! the lease lasts until either side ends the line. Invariants: only in solo mode, where whoever could listen could also
//! read the master key and learns nothing that was kept from them; a line ends with its lease, and a lease with its line.

use std::io;
use std::path::Path;
use std::time::Duration;

use access::{Principal, Resource};
use api::{LINE, LendSecretRequest, LentSecret};
use axum::extract::State;
use model::{HostPattern, Millis, WorktreeId};
use runtime::{Lent, Mode, Wish};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use vault::Secret;

use super::Answer;
use crate::app::App;
use crate::extract::{Caller, Json, field, kept, refused};
use crate::problem::Problem;

const ACTION: &str = "secret.lease";
const MOST_HOSTS: usize = 32;
/// A day, in seconds.
const LONGEST: u32 = 86_400;
/// How long the run may take to take it.
const PATIENCE: Duration = Duration::from_secs(5);
/// How soon a line ends after its lease did.
const EVERY: Duration = Duration::from_millis(250);

/// Sends a secret to a run of the user that this daemon runs as, on the line that the run listens on. Only in solo mode.
#[utoipa::path(post, path = "/api/v1/secrets/lend", tag = "secrets", request_body = LendSecretRequest, responses((status = 200, body = LentSecret)))]
pub(crate) async fn lend(
    State(app): State<App>,
    Caller(who): Caller,
    Json(body): Json<LendSecretRequest>,
) -> Answer<LentSecret> {
    let timeout = body.seconds.unwrap_or(LONGEST);
    let fault = if !is_hex(body.run.strip_prefix("run_").unwrap_or_default()) {
        Some("`run` is not one")
    } else if !is_hex(&body.line) {
        Some("`line` has 32 digits of base 16")
    } else if body.hosts.is_empty() || body.hosts.len() > MOST_HOSTS {
        Some("`hosts` are 1 to 32")
    } else if timeout == 0 || timeout > LONGEST {
        Some("`seconds` are 1 to 86400")
    } else {
        None
    };
    if let Some(fault) = fault {
        return Err(refused(&app, &who, ACTION, fault.into()).await);
    }
    let wish = wish(&app, &who, &body).await?;
    // Nothing is connected to for those who may not have it.
    let action = access::action_named(ACTION).ok_or_else(Problem::internal)?;
    let resource = wish.worktree.map_or(Resource::User(who.user()), Resource::Worktree);
    app.runtime.gate().check(&who, action, resource, access::Asks::default()).await?;
    if app.settings.mode != Mode::Solo {
        let why = "a daemon in team mode lends nothing to runs of its clients; set the variable instead";
        return Err(refused(&app, &who, ACTION, why.into()).await);
    }
    let seat = app.lines.take(who.user()).map_err(|full| full.problem("secrets lent to runs"))?;
    let line = match tokio::time::timeout(PATIENCE, connected(&body.line)).await {
        Ok(Ok(line)) => line,
        Ok(Err(_)) | Err(_) => {
            let why = "nobody of the user that this daemon runs as listens on `line`, so nothing was lent";
            return Err(refused(&app, &who, ACTION, why.into()).await);
        }
    };
    let loan = Loan { app, who, consumer: body.run, line };
    let (answer, heard) = tokio::sync::oneshot::channel();
    // A client that goes away leaves no lease behind: whoever gave it also ends it.
    tokio::spawn(async move {
        let _seat = seat;
        loan.carry(wish, Millis::from(timeout) * 1_000, answer).await;
    });
    heard.await.unwrap_or_else(|_| Err(Problem::internal())).map(axum::Json)
}

fn is_hex(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

async fn wish(app: &App, who: &Principal, body: &LendSecretRequest) -> Result<Wish, Problem> {
    let name = kept(app, who, ACTION, "name", &body.name).await?;
    let worktree: Option<WorktreeId> = match &body.worktree {
        Some(text) => Some(field(app, who, ACTION, "worktree", text).await?),
        None => None,
    };
    let mut hosts: Vec<HostPattern> = Vec::new();
    for host in &body.hosts {
        if host.contains('*') {
            return Err(refused(app, who, ACTION, "`hosts` are single ones, without `*`".into()).await);
        }
        hosts.push(kept(app, who, ACTION, "hosts", host).await?);
    }
    Ok(Wish { name, worktree, hosts })
}

/// The line of a run, if the user of this daemon listens there.
async fn connected(line: &str) -> io::Result<UnixStream> {
    let name = format!("\0{LINE}{line}");
    let stream = UnixStream::connect(Path::new(&name)).await?;
    if stream.peer_cred()?.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(stream)
}

/// One secret for one run.
struct Loan {
    app: App,
    who: Principal,
    consumer: String,
    line: UnixStream,
}

type Heard = tokio::sync::oneshot::Sender<Result<LentSecret, Problem>>;

impl Loan {
    /// Lends it, gives it, says so, and ends it with the line.
    async fn carry(mut self, wish: Wish, timeout: Millis, answer: Heard) {
        let runtime = &self.app.runtime;
        let lent = match runtime.lease_secret(&self.who, wish, &self.consumer, timeout).await {
            Ok(lent) => lent,
            Err(error) => return drop(answer.send(Err(error.into()))),
        };
        let told = match tokio::time::timeout(PATIENCE, self.give(&lent)).await {
            Ok(Ok(())) => Ok(LentSecret { source: lent.source.word().to_owned(), until: lent.until }),
            Ok(Err(_)) | Err(_) => Err(Problem::unprocessable("the run did not take it, so it is not lent")),
        };
        let given = told.is_ok();
        if answer.send(told).is_ok() && given {
            self.hold(&lent).await;
        }
        self.app.runtime.end_lease(lent.lease, &self.consumer);
    }

    async fn give(&mut self, lent: &Lent) -> io::Result<()> {
        let framed = |value: &[u8]| {
            let length = u32::try_from(value.len()).unwrap_or(u32::MAX).to_be_bytes();
            Secret::new([length.as_slice(), value].concat())
        };
        let runtime = &self.app.runtime;
        let value = runtime.with_lease(lent.lease, &self.consumer, framed).map_err(io::Error::other)?;
        self.line.write_all(value.expose()).await
    }

    /// Until the run ends the line, or the lease is over: by its time, with its secret, or with the right to it.
    async fn hold(&mut self, lent: &Lent) {
        let mut every = tokio::time::interval(EVERY);
        let mut byte = [0];
        loop {
            tokio::select! {
                // Nothing is ever said on it: whatever this is, it is the end.
                _ = self.line.read(&mut byte) => return,
                _ = every.tick() => {
                    if self.app.runtime.with_lease(lent.lease, &self.consumer, |_| ()).is_err() {
                        return;
                    }
                }
            }
        }
    }
}
