//! Turns a resolved profile into TOML for people, and into the hash that names its shape.

use std::fmt::{Display, Write as _};
use std::path::Path;

use sha2::{Digest, Sha256};

use super::Profile;
use super::place::Entry;

impl Profile {
    /// The whole profile as a document; it can be read again, with a `base` added.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        let paths = |entries: &[Entry]| texts(entries.iter().map(|entry| lossy(&entry.path)));
        line(&mut out, "name", quoted(self.name.as_str()));
        line(&mut out, "worktree", quoted(self.worktree.word()));
        line(&mut out, "read", paths(&self.read));
        line(&mut out, "write", paths(&self.write));
        line(&mut out, "hide", texts(self.hidden.hide()));
        line(&mut out, "show", texts(self.hidden.show()));
        line(&mut out, "protect", texts(&self.protect));
        line(&mut out, "unprotect", texts(&self.unprotect));
        line(&mut out, "environment", texts(&self.environment));
        line(&mut out, "inherit", self.inherit);
        let set = self.set.iter().map(|(name, value)| format!("{name} = {}", quoted(value)));
        line(&mut out, "set", format!("{{{}}}", set.collect::<Vec<_>>().join(", ")));
        line(&mut out, "toolchains", self.toolchains);
        line(&mut out, "trace", self.trace);
        line(&mut out, "network", quoted(self.network.word()));
        line(&mut out, "presets", texts(&self.presets));
        line(&mut out, "require", texts(&self.require));
        out.push_str("\n[limits]\n");
        let limits = &self.limits;
        let bytes = |out: &mut String, key: &str, bytes: u64| line(out, key, quoted(&size(bytes)));
        bytes(&mut out, "memory", limits.memory);
        line(&mut out, "cpu", quoted(&limits.cpu.to_string()));
        line(&mut out, "pids", limits.pids);
        line(&mut out, "files", limits.files);
        bytes(&mut out, "file_size", limits.file_size);
        bytes(&mut out, "disk", limits.disk);
        line(&mut out, "inodes", limits.inodes);
        line(&mut out, "io", quoted(&limits.io.map_or("none".to_owned(), size)));
        bytes(&mut out, "tmp", limits.tmp);
        let wall = limits.wall.map_or("none".to_owned(), |wall| format!("{}s", wall.as_secs()));
        line(&mut out, "wall", quoted(&wall));
        line(&mut out, "variable", limits.variable);
        if !self.rules.is_empty() {
            out.push('\n');
            out.push_str(&rules_as_toml(&self.rules));
        }
        out
    }

    /// Names the shape: two profiles with the same hash are held by the same walls.
    ///
    /// Left out is what differs from project to project without changing a wall: the profile's name, which
    /// paths are mounted (only whether there are any), the values of variables, and the wall time.
    #[must_use]
    pub fn shape_hash(&self) -> [u8; 32] {
        let mut shape = String::from("palisade profile shape 1\n");
        line(&mut shape, "worktree", self.worktree);
        line(&mut shape, "read", !self.read.is_empty());
        line(&mut shape, "write", !self.write.is_empty());
        line(&mut shape, "hide", texts(self.hidden.hide()));
        line(&mut shape, "show", texts(self.hidden.show()));
        line(&mut shape, "protect", texts(&self.protect));
        line(&mut shape, "unprotect", texts(&self.unprotect));
        line(&mut shape, "environment", texts(&self.environment));
        line(&mut shape, "inherit", self.inherit);
        line(&mut shape, "set", texts(self.set.keys()));
        line(&mut shape, "toolchains", self.toolchains);
        line(&mut shape, "trace", self.trace);
        line(&mut shape, "network", self.network);
        line(&mut shape, "require", texts(&self.require));
        let limits = &self.limits;
        for (key, amount) in [
            ("memory", limits.memory),
            ("pids", limits.pids),
            ("files", limits.files),
            ("file_size", limits.file_size),
            ("disk", limits.disk),
            ("inodes", limits.inodes),
            ("io", limits.io.unwrap_or(u64::MAX)),
            ("tmp", limits.tmp),
        ] {
            line(&mut shape, key, amount);
        }
        line(&mut shape, "cpu", limits.cpu);
        Sha256::digest(shape.as_bytes()).into()
    }
}

/// Rules as the tables of a document.
#[must_use]
pub fn rules_as_toml(rules: &[rules::Rule]) -> String {
    #[derive(serde::Serialize)]
    struct Tables<'a> {
        rule: &'a [rules::Rule],
    }
    // They were read from such a document, or are no more than what can stand in one.
    toml::to_string(&Tables { rule: rules }).unwrap_or_default()
}

fn line(out: &mut String, key: &str, value: impl Display) {
    // Writing to a string does not fail.
    let _ = writeln!(out, "{key} = {value}");
}

fn texts<T: Display>(all: impl IntoIterator<Item = T>) -> String {
    let all: Vec<String> = all.into_iter().map(|one| quoted(&one.to_string())).collect();
    format!("[{}]", all.join(", "))
}

fn lossy(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// A TOML string. The home's name may hold anything, so what does not show itself is escaped.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if super::names::is_plain(c) => out.push(c),
            c => {
                let _ = write!(out, "\\U{:08X}", u32::from(c));
            }
        }
    }
    out.push('"');
    out
}

/// Bytes in the largest unit that holds them exactly.
pub(super) fn size(bytes: u64) -> String {
    let units = [("t", 40), ("g", 30), ("m", 20), ("k", 10)];
    let fits = units.iter().find(|(_, shift)| bytes != 0 && bytes.trailing_zeros() >= *shift);
    fits.map_or_else(|| bytes.to_string(), |(unit, shift)| format!("{}{unit}", bytes >> shift))
}
