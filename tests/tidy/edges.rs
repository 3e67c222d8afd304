//! ARCHITECTURE.md says which crate may know which; `cargo metadata` says which does.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

type Edges = BTreeMap<String, BTreeSet<String>>;

fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// What the code does.
fn real() -> Edges {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    let data: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = data["packages"].as_array().unwrap();
    let crates =
        |package: &serde_json::Value| package["manifest_path"].as_str().unwrap().contains("/crates/");
    let names: BTreeSet<&str> =
        packages.iter().filter(|one| crates(one)).map(|one| one["name"].as_str().unwrap()).collect();
    let mut edges = Edges::new();
    for package in packages.iter().filter(|one| crates(one)) {
        let known = package["dependencies"].as_array().unwrap().iter();
        let known = known.filter(|one| one["kind"].is_null()).map(|one| one["name"].as_str().unwrap());
        let known = known.filter(|name| names.contains(name)).map(str::to_owned).collect();
        edges.insert(package["name"].as_str().unwrap().to_owned(), known);
    }
    edges
}

/// What ARCHITECTURE.md says: rows `| name | may know |` of the table under "Allowed edges".
fn declared() -> Edges {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let table = text.split("## Allowed edges").nth(1).unwrap().split("\n## ").next().unwrap();
    let mut edges = Edges::new();
    for line in table.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let known = cells[2]
            .split(',')
            .map(|name| name.trim().trim_matches('`'))
            .filter(|name| !name.is_empty() && *name != "nothing");
        edges.insert(cells[1].trim_matches('`').to_owned(), known.map(str::to_owned).collect());
    }
    edges
}

#[test]
fn the_code_has_exactly_the_edges_that_the_architecture_names() {
    assert_eq!(real(), declared());
}

#[test]
fn the_verifier_and_the_client_link_no_daemon_code() {
    let edges = real();
    for name in ["ledger", "palisade"] {
        let mut reached: BTreeSet<&str> = BTreeSet::new();
        let mut open = vec![name];
        while let Some(one) = open.pop() {
            for next in edges.get(one).into_iter().flatten() {
                if reached.insert(next) {
                    open.push(next);
                }
            }
        }
        for daemon in ["access", "store", "runtime", "server", "vault"] {
            assert!(!reached.contains(daemon), "{name} reaches {daemon}");
        }
    }
}
