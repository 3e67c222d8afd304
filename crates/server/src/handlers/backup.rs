//! Backups.

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use std::io::{Read, Seek};

use crate::app::App;
use crate::extract::Caller;
use crate::problem::Problem;

const PIECE: usize = 256 * 1024;

/// A sealed copy of everything, for `palisaded restore`.
#[utoipa::path(post, path = "/api/v1/backup", tag = "backup",
    responses((status = 200, content_type = "application/octet-stream", body = Vec<u8>)))]
pub(crate) async fn create(State(app): State<App>, Caller(who): Caller) -> Result<Response, Problem> {
    let unwritable = |error: std::io::Error| {
        tracing::error!(%error, "no file for a backup");
        Problem::unavailable("there is no room for a backup in the data directory")
    };
    // Sealed before it touches the disk, and without a name: it is gone when the last handle closes.
    let data = app.settings.data.clone();
    let mut file = app.runtime.backup(&who, move || crate::data::scratch(&data)).await?;
    file.rewind().map_err(unwritable)?;
    let (send, receive) = tokio::sync::mpsc::channel::<Result<Bytes, std::io::Error>>(4);
    tokio::task::spawn_blocking(move || {
        loop {
            let mut piece = vec![0; PIECE];
            let told = match file.read(&mut piece) {
                Ok(0) => break,
                Ok(count) => {
                    piece.truncate(count);
                    send.blocking_send(Ok(Bytes::from(piece)))
                }
                Err(error) => send.blocking_send(Err(error)),
            };
            if told.is_err() {
                break;
            }
        }
    });
    let stream = futures_util::stream::unfold(receive, async |mut receive| {
        receive.recv().await.map(|piece| (piece, receive))
    });
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], Body::from_stream(stream)).into_response())
}
