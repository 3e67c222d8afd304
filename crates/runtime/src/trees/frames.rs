//! Says secrets to the launcher on its standard input, which reads them before anything that is for the command.
//!
//! Invariants: a value is in no argument and in no environment; what was written is wiped.

use std::io;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;
use zeroize::Zeroizing;

/// How long a launcher may take to read them.
const PATIENCE: Duration = Duration::from_secs(30);

/// How the launcher is told that the value of this name comes so.
pub(crate) fn option(name: &str, place: &str) -> [String; 2] {
    ["--secret".to_owned(), format!("stdin:{name}={place}")]
}

/// Says these, in the order in which the options name them first.
///
/// # Errors
/// When the launcher does not read them in time. One that went away says why itself.
pub(crate) async fn say<'a>(
    to: &mut ChildStdin,
    values: impl IntoIterator<Item = &'a Zeroizing<String>>,
) -> io::Result<()> {
    let mut frames = Zeroizing::new(Vec::new());
    for value in values {
        let length = u32::try_from(value.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        // Not grown while there is something in it: what it was moved from would not be wiped.
        let mut next = Zeroizing::new(Vec::with_capacity(frames.len() + 4 + value.len()));
        next.extend_from_slice(&frames);
        next.extend_from_slice(&length.to_be_bytes());
        next.extend_from_slice(value.as_bytes());
        frames = next;
    }
    let said = async {
        to.write_all(&frames).await?;
        to.flush().await
    };
    match tokio::time::timeout(PATIENCE, said).await {
        Ok(Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        Ok(_) => Ok(()),
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}
