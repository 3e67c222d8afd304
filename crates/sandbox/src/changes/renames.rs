//! Finds files that were only given another name: deleted here, added there, with the very same content.
//!
//! As git does, exact only; empty files are nobody's rename. It changes what is shown, not what is done.

use std::collections::HashMap;
use std::io::{self, Read};
use std::path::PathBuf;

use sha2::{Digest, Sha256};

use super::tree::Root;
use super::upper::Upper;
use super::{Change, Kind, What};

/// Larger files are not read only to find their old name.
const MOST_BYTES: u64 = 64 << 20;

/// Of many equal files, so many are looked at for the one that kept its name.
const MOST_LOOKED_AT: usize = 64;

/// Turns `Added` into `Renamed` where a deleted file had the same content; each deleted file counts once.
pub(super) fn pair(changes: &mut [Change], upper: &mut Upper, host: &Root) {
    let mut gone: HashMap<u64, Vec<PathBuf>> = HashMap::new();
    for change in changes.iter().filter(|change| change.kind == Kind::Deleted) {
        let file =
            change.before.filter(|face| face.what == What::File && (1..=MOST_BYTES).contains(&face.size));
        if let Some(face) = file {
            gone.entry(face.size).or_default().push(change.path.clone());
        }
    }
    let mut sums: HashMap<u64, HashMap<[u8; 32], Vec<PathBuf>>> = HashMap::new();
    for change in changes.iter_mut().filter(|change| change.kind == Kind::Added) {
        let Some(face) = change.after.filter(|face| face.what == What::File) else { continue };
        let Some(paths) = gone.get(&face.size) else { continue };
        // Hashed when the first file of this size is added; a file that cannot be read is nobody's old name.
        let sums = sums.entry(face.size).or_insert_with(|| {
            let mut by_sum: HashMap<_, Vec<_>> = HashMap::new();
            for path in paths.iter().rev() {
                if let Ok(sum) = host.file(path).and_then(sum) {
                    by_sum.entry(sum).or_default().push(path.clone());
                }
            }
            by_sum
        });
        let Ok(own) = upper.file(&change.path).and_then(sum) else { continue };
        let Some(old) = sums.get_mut(&own) else { continue };
        let same_name = old
            .iter()
            .rev()
            .take(MOST_LOOKED_AT)
            .position(|path| path.file_name() == change.path.file_name());
        let index = old.len().checked_sub(1 + same_name.unwrap_or(0));
        if let Some(index) = index {
            change.kind = Kind::Renamed { from: old.remove(index) };
        }
    }
}

fn sum(mut file: std::fs::File) -> io::Result<[u8; 32]> {
    let (mut sum, mut room) = (Sha256::new(), vec![0u8; 1 << 16]);
    loop {
        let read = file.read(&mut room)?;
        if read == 0 {
            return Ok(sum.finalize().into());
        }
        sum.update(room.get(..read).unwrap_or_default());
    }
}
