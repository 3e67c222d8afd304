//! Why a file was not read or written.

use std::io;

use rustix::io::Errno;

/// Why not. Without the path: whoever named it knows it, and it may be somebody's text.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Nothing is there.
    #[error("there is no such file")]
    Missing,
    /// Something else is there, or on the way: a link, pipe, device, socket, or a directory for a file.
    #[error("is not a plain file, or lies behind a link")]
    NotPlain,
    /// The path is none beneath a directory.
    #[error("is not a path beneath its directory")]
    Outside,
    /// There is more than was asked for.
    #[error("is longer than {0} bytes")]
    Long(u64),
    /// There are more than were asked for.
    #[error("holds more than {0} files")]
    Many(usize),
    /// It is somebody else's, others may look at it, or it has a second name.
    #[error("is not the caller's alone; expected one name, mode 600 and the own user")]
    Shared,
    /// It is there already.
    #[error("is there already")]
    Taken,
    /// The system's word.
    #[error(transparent)]
    Io(io::Error),
}

impl From<Errno> for FileError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NOENT | Errno::NOTDIR => Self::Missing,
            Errno::LOOP | Errno::ISDIR | Errno::NXIO => Self::NotPlain,
            Errno::XDEV => Self::Outside,
            Errno::EXIST => Self::Taken,
            other => Self::Io(other.into()),
        }
    }
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(number) => Errno::from_raw_os_error(number).into(),
            None => Self::Io(error),
        }
    }
}

impl From<FileError> for io::Error {
    fn from(error: FileError) -> Self {
        let kind = match &error {
            FileError::Missing => io::ErrorKind::NotFound,
            FileError::NotPlain | FileError::Outside | FileError::Long(_) | FileError::Many(_) => {
                io::ErrorKind::InvalidInput
            }
            FileError::Shared => io::ErrorKind::PermissionDenied,
            FileError::Taken => io::ErrorKind::AlreadyExists,
            FileError::Io(_) => io::ErrorKind::Other,
        };
        match error {
            FileError::Io(error) => error,
            other => Self::new(kind, other),
        }
    }
}
