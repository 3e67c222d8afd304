//! Text about denials that a person can read and paste: amounts, errors, paths.
//!
//! Invariant: names come from inside and may be hostile; nothing here leaves a character that moves a cursor or
//! hides, and a word for a shell is quoted.

/// An amount as `--limit` takes it.
pub(super) fn amount(number: u64) -> String {
    let units = [(1 << 30, "g"), (1 << 20, "m"), (1 << 10, "k")];
    let fits = units.into_iter().find(|(unit, _)| number >= *unit && number.is_multiple_of(*unit));
    // Counts of processes and files are small and read better as they are.
    match fits.filter(|_| number >= 1 << 16) {
        Some((unit, name)) => format!("{}{name}", number / unit),
        None => number.to_string(),
    }
}

/// Text with nothing in it that moves a cursor or hides.
pub(super) fn clean(text: &str) -> String {
    let hidden = |c: char| c.is_control() || redact::is_unseen(c);
    text.chars().map(|c| if hidden(c) { '\u{fffd}' } else { c }).collect()
}

/// One word for a shell.
pub(super) fn quoted(text: &str) -> String {
    let text = clean(text);
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+~=,:@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// The name of an error.
pub(super) fn error_name(error: i32) -> &'static str {
    match error {
        0 => "",
        libc::EPERM => "EPERM",
        libc::ENOENT => "ENOENT",
        libc::EACCES => "EACCES",
        libc::EBUSY => "EBUSY",
        libc::EEXIST => "EEXIST",
        libc::EXDEV => "EXDEV",
        libc::ENOTDIR => "ENOTDIR",
        libc::EISDIR => "EISDIR",
        libc::EINVAL => "EINVAL",
        libc::EMFILE => "EMFILE",
        libc::EFBIG => "EFBIG",
        libc::ENOSPC => "ENOSPC",
        libc::EROFS => "EROFS",
        libc::EAGAIN => "EAGAIN",
        libc::ENOSYS => "ENOSYS",
        libc::ENOTEMPTY => "ENOTEMPTY",
        libc::EAFNOSUPPORT => "EAFNOSUPPORT",
        libc::EPROTONOSUPPORT => "EPROTONOSUPPORT",
        libc::EADDRNOTAVAIL => "EADDRNOTAVAIL",
        libc::ENETDOWN => "ENETDOWN",
        libc::ENETUNREACH => "ENETUNREACH",
        libc::EHOSTUNREACH => "EHOSTUNREACH",
        libc::ECONNREFUSED => "ECONNREFUSED",
        _ => "another error",
    }
}
