//! Backups, and the care of the store.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::launch;
use crate::cli::Backup;
use crate::failure::Failure;
use crate::output::Shown;
use crate::session::Session;

pub(super) fn run(session: &Session, command: Backup) -> Result<Shown, Failure> {
    match command {
        Backup::Create { file } => create(session, &file),
        Backup::Restore { file } => launch::daemon(session, &["restore".as_ref(), file.as_os_str()]),
        Backup::EncryptStore => launch::daemon(session, &["encrypt-store".as_ref()]),
        Backup::MigrateStore => launch::daemon(session, &["migrate-store".as_ref()]),
    }
}

/// Writes to a draft beside the file, so that a broken copy never has the name of a whole one.
fn create(session: &Session, file: &Path) -> Result<Shown, Failure> {
    if file.exists() {
        return Err(Failure::Usage(format!("`{}` exists; name a new file", file.display())));
    }
    let mut from = session.client()?.backup()?;
    let draft = file.with_extension("part");
    let mut out = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft)
        .map_err(Failure::file(&draft))?;
    let copied = std::io::copy(&mut from, &mut out).and_then(|bytes| out.sync_all().map(|()| bytes));
    let bytes = match copied {
        Ok(bytes) => bytes,
        Err(error) => {
            drop(std::fs::remove_file(&draft));
            return Err(Failure::file(&draft)(error));
        }
    };
    std::fs::rename(&draft, file).map_err(Failure::file(file))?;
    let shown = file.display();
    let text = format!("{bytes} bytes in {shown}, sealed; restoring needs this installation's master key\n");
    Ok(Shown::new(&serde_json::json!({ "file": shown.to_string(), "bytes": bytes }), text))
}
