//! Makes and replaces files, whole or not at all.
//!
//! Flow: a draft beside the file, under a name that nobody can guess -> its bytes on the disk -> its permissions -> its
//! final name -> that name on the disk. A draft is removed when any of it fails.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::{FileError, Root};

impl Root {
    /// Writes a file beneath: in place of a plain file that is there, which lends its permissions, or anew with 0600.
    ///
    /// # Errors
    /// [`FileError`]; then what was there is as it was. Only an error of the last step, which makes the new name
    /// durable, leaves the new file in place.
    pub fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), FileError> {
        let (folder, name) = self.placed(path)?;
        let mode = match rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile => {
                Mode::from_raw_mode(stat.st_mode & 0o777)
            }
            Ok(_) => return Err(FileError::NotPlain),
            Err(Errno::NOENT) => Mode::from_raw_mode(0o600),
            Err(errno) => return Err(errno.into()),
        };
        folder.put(name, bytes, mode, RenameFlags::empty())
    }

    /// Makes a new file beneath, with 0600; what is there already stays.
    ///
    /// # Errors
    /// [`FileError::Taken`] when something is there; see [`Root::write`].
    pub fn create(&self, path: &Path, bytes: &[u8]) -> Result<(), FileError> {
        let (folder, name) = self.placed(path)?;
        folder.put(name, bytes, Mode::from_raw_mode(0o600), RenameFlags::NOREPLACE)
    }

    /// Removes a plain file beneath, and makes that last. Anything else that has the name stays; whoever can put a link there
    /// between the look and the removal loses that link, and nothing that it leads to.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn remove(&self, path: &Path) -> Result<(), FileError> {
        let (folder, name) = self.placed(path)?;
        let stat = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(FileError::NotPlain);
        }
        rustix::fs::unlinkat(&folder, name, AtFlags::empty())?;
        Ok(rustix::fs::fsync(&folder)?)
    }

    /// The directory that a path beneath ends in, and the last name.
    fn placed<'p>(&self, path: &'p Path) -> Result<(Self, &'p OsStr), FileError> {
        let name = path.file_name().filter(|_| !path.is_absolute()).ok_or(FileError::Outside)?;
        Ok((self.folder(path.parent().unwrap_or(Path::new("")))?, name))
    }

    fn put(&self, name: &OsStr, bytes: &[u8], mode: Mode, flags: RenameFlags) -> Result<(), FileError> {
        let draft = draft_name()?;
        let made = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(self, &draft, made, Mode::from_raw_mode(0o600))?;
        let written = filled(File::from(fd), bytes, mode)
            .and_then(|()| Ok(rustix::fs::renameat_with(self, &draft, self, name, flags)?));
        if let Err(error) = written {
            // The first error counts; a draft that cannot be removed is an unused file.
            let _ = rustix::fs::unlinkat(self, &draft, AtFlags::empty());
            return Err(error);
        }
        Ok(rustix::fs::fsync(self)?)
    }
}

fn filled(mut file: File, bytes: &[u8], mode: Mode) -> Result<(), FileError> {
    file.write_all(bytes)?;
    // Not by the mode at opening, which the process's mask would cut.
    rustix::fs::fchmod(&file, mode)?;
    file.sync_all()?;
    Ok(())
}

/// A name that nobody can have put there before.
fn draft_name() -> Result<String, FileError> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| FileError::Io(std::io::Error::other(error)))?;
    Ok(random.iter().fold(String::from(".palisade-draft-"), |name, byte| name + &format!("{byte:02x}")))
}
