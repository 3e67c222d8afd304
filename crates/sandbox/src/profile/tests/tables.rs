//! `table.rs` is what the documents in `profiles/` say. It is Rust so that a launch does not pay for reading it.

use std::fmt::Write as _;

use std::path::Path;

use serde::Deserialize;

use crate::profile::{Name, Protected, built_in, built_in_names, builtin, document};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Controls {
    control: Vec<RawControl>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawControl {
    path: String,
    kind: String,
    class: String,
    at: String,
    why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Toolchains {
    toolchain: Vec<RawToolchain>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawToolchain {
    name: String,
    #[serde(default)]
    root: String,
    variable: Option<String>,
    #[serde(default = "yes")]
    pass: bool,
    mount: Vec<String>,
    #[serde(default)]
    without: Vec<String>,
}

fn yes() -> bool {
    true
}

fn word(kind: &str, words: &[(&str, &str)], found: &str) -> String {
    let known = words.iter().find(|(word, _)| *word == found);
    known.unwrap_or_else(|| panic!("{kind}: unknown word `{found}`")).1.to_owned()
}

fn made() -> String {
    let controls: Controls = toml::from_str(include_str!("../../../profiles/control.toml")).unwrap();
    let toolchains: Toolchains = toml::from_str(include_str!("../../../profiles/toolchains.toml")).unwrap();
    let mut out = String::from(
        "//! Made from `profiles/control.toml` and `profiles/toolchains.toml`; change those, then run\n\
         //! `PALISADE_WRITE_TABLES=1 cargo test -p sandbox tables`.\n\n\
         use super::builtin::BuiltIn;\n\
         use super::control::{At, Class, Control};\n\
         use super::place::Kind;\n\
         use super::toolchain::Toolchain;\n\n\
         #[rustfmt::skip]\n\
         pub(super) const CONTROL: &[Control] = &[\n",
    );
    for control in &controls.control {
        let kind = word("kind", &[("file", "File"), ("directory", "Directory")], &control.kind);
        let class = word("class", &[("hard", "Hard"), ("watch", "Watch")], &control.class);
        let places = [("root", "Root"), ("nested", "Nested"), ("any", "Any"), ("home", "Home")];
        let at = word("at", &places, &control.at);
        let (path, why) = (&control.path, &control.why);
        writeln!(
            out,
            "    Control {{ path: {path:?}, kind: Kind::{kind}, class: Class::{class}, at: At::{at}, why: {why:?} }},"
        )
        .unwrap();
    }
    out.push_str("];\n\n#[rustfmt::skip]\npub(super) const TOOLCHAINS: &[Toolchain] = &[\n");
    for tool in &toolchains.toolchain {
        let RawToolchain { name, root, variable, pass, mount, without } = tool;
        writeln!(
            out,
            "    Toolchain {{ name: {name:?}, root: {root:?}, variable: {variable:?}, pass: {pass}, \
             mount: &{mount:?}, without: &{without:?} }},"
        )
        .unwrap();
    }
    out.push_str("];\n\n#[rustfmt::skip]\npub(super) const BUILT_IN: &[BuiltIn] = &[\n");
    for name in built_in_names() {
        out.push_str(&one_built_in(name));
    }
    out.push_str("];\n");
    out
}

/// A built-in document as a constant: each value goes to the list of its type.
fn one_built_in(name: &str) -> String {
    let text = built_in(name).unwrap();
    let table: toml::Table = text.parse().unwrap();
    let (mut words, mut lists, mut flags) = (Vec::new(), Vec::new(), Vec::new());
    let (mut set, mut limits, mut base) = (Vec::new(), Vec::new(), None);
    for (key, value) in &table {
        match (key.as_str(), value) {
            ("name", value) => assert_eq!(value.as_str(), Some(name)),
            ("base", value) => {
                let line = text.lines().position(|line| line.starts_with("base = ")).unwrap() + 1;
                base = Some((value.as_str().unwrap(), line));
            }
            ("set", toml::Value::Table(table)) => {
                set.extend(table.iter().map(|(name, value)| (name, value.as_str().unwrap())));
            }
            ("limits", toml::Value::Table(table)) => {
                let plain =
                    |value: &toml::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                limits.extend(table.iter().map(|(name, value)| (name, plain(value))));
            }
            (key, toml::Value::String(word)) => words.push((key, word)),
            (key, toml::Value::Boolean(flag)) => flags.push((key, flag)),
            (key, toml::Value::Array(list)) => {
                let texts: Vec<&str> = list.iter().map(|item| item.as_str().unwrap()).collect();
                lists.push(format!("({key:?}, &{texts:?})"));
            }
            (key, value) => panic!("{name}: {key} = {value}"),
        }
    }
    format!(
        "    BuiltIn {{\n        name: {name:?},\n        base: {base:?},\n        words: &{words:?},\n        \
         lists: &[\n            {},\n        ],\n        flags: &{flags:?},\n        set: &{set:?},\n        \
         limits: &{limits:?},\n    }},\n",
        lists.join(",\n            ")
    )
}

#[test]
fn built_in_profiles_are_what_their_documents_say() {
    for name in built_in_names() {
        let from_text = document::person(built_in(name).unwrap().as_bytes(), Path::new(name)).unwrap();
        let from_table = builtin::draft(&Name::parse(name).unwrap()).unwrap().unwrap();
        assert_eq!(from_table, from_text, "{name}");
    }
}

#[test]
fn tables_are_what_the_documents_say() {
    let made = made();
    if std::env::var_os("PALISADE_WRITE_TABLES").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/profile/table.rs");
        std::fs::write(path, &made).unwrap();
        return;
    }
    let held = include_str!("../table.rs");
    assert!(held == made, "run `PALISADE_WRITE_TABLES=1 cargo test -p sandbox tables`");
}

#[test]
fn control_paths_are_plain_and_come_once_per_place() {
    let mut seen = Vec::new();
    for control in crate::profile::controls() {
        assert!(!control.why.is_empty() && !control.why.ends_with('.'), "{}", control.path);
        assert!(control.path == ".git" || Protected::parse(control.path).is_ok(), "{}", control.path);
        let key = (control.path.to_ascii_lowercase(), control.at);
        assert!(!seen.contains(&key), "{} is there twice", control.path);
        seen.push(key);
    }
}

#[test]
fn toolchain_parts_are_plain_and_lie_within_their_root() {
    for tool in crate::profile::toolchains() {
        assert!(!tool.root.is_empty() || tool.variable.is_some(), "{} is nowhere", tool.name);
        assert!(!tool.mount.is_empty(), "{} mounts nothing", tool.name);
        for part in tool.mount.iter().chain(tool.without).filter(|part| **part != ".") {
            assert!(Protected::parse(part).is_ok() && !part.ends_with('/'), "{}: {part}", tool.name);
        }
        // Never a directory that holds a login beside the tool, as a whole.
        let with_logins =
            ["", ".cargo", ".npm", ".gem", ".m2", ".config", ".docker", ".local", ".claude", ".codex"];
        if with_logins.contains(&tool.root) && tool.variable.is_none() {
            assert!(!tool.mount.contains(&"."), "{} would take credentials along", tool.name);
        }
    }
}
