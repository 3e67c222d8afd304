//! Backups.

use axum::body::Bytes;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use std::io::{Read, Seek};
use std::sync::Arc;

use crate::app::App;
use crate::extract::Caller;
use crate::outflow;
use crate::problem::Problem;

const PIECE: usize = 64 * 1024;

/// A sealed copy of everything, for `palisaded restore`.
#[utoipa::path(post, path = "/api/v1/backup", tag = "backup",
    responses((status = 200, content_type = "application/octet-stream", body = Vec<u8>)))]
pub(crate) async fn create(State(app): State<App>, Caller(who): Caller) -> Result<Response, Problem> {
    let unwritable = |error: std::io::Error| {
        tracing::error!(%error, "no file for a backup");
        Problem::unavailable("there is no room for a backup in the data directory")
    };
    let seat = app.heavy.take(who.user()).map_err(|full| full.problem("exports and backups under way"))?;
    // Sealed before it touches the disk, and without a name: it is gone when the last handle closes.
    let data = app.settings.data.clone();
    let runtime = Arc::clone(&app.runtime);
    let work = async move { runtime.backup(&who, move || crate::data::scratch(&data)).await };
    let (seat, file) = seat.during(work).await?;
    let mut file = file?;
    file.rewind().map_err(unwritable)?;
    let body = outflow::produced(seat, move |send| {
        loop {
            let mut piece = vec![0; PIECE];
            let told = match file.read(&mut piece) {
                Ok(0) => break,
                Ok(count) => {
                    piece.truncate(count);
                    send(Ok(Bytes::from(piece)))
                }
                Err(error) => {
                    send(Err(error));
                    break;
                }
            };
            if !told {
                break;
            }
        }
    })?;
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], body).into_response())
}
