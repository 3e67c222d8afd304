//! Texts without secrets, as agents and their tools print them all day. A redactor must leave them as they are.

mod agent;
mod code;
mod data;
mod forms;
mod git;
mod locks;
mod logs;
mod prose;

use crate::dice::Dice;

/// A text without a secret.
#[derive(Clone, Debug)]
pub struct Plain {
    /// What sort of text.
    pub kind: &'static str,
    /// The text.
    pub text: String,
}

pub(crate) struct Kind {
    name: &'static str,
    make: fn(&mut Dice) -> String,
    /// How many of it, as a share of [`ROUNDS`] in tenths.
    share: usize,
}

const fn kind(name: &'static str, make: fn(&mut Dice) -> String) -> Kind {
    Kind { name, make, share: 10 }
}

/// Of what is met, but seldom.
const fn seldom(name: &'static str, make: fn(&mut Dice) -> String) -> Kind {
    Kind { name, make, share: 4 }
}

const ROUNDS: usize = 110;

const KINDS: &[Kind] = &[
    kind("agent prose", prose::answer),
    kind("agent transcript", agent::transcript),
    kind("tool call", agent::tool_call),
    kind("tool result", agent::tool_result),
    kind("model API answer", agent::api_answer),
    kind("shell session", agent::shell_session),
    kind("plan", prose::plan),
    kind("words about secrets", prose::about_secrets),
    kind("Markdown", prose::markdown),
    kind("placeholders", prose::placeholders),
    kind("application log", logs::application),
    kind("access log", logs::access),
    kind("JSON log", logs::json_lines),
    kind("traces", logs::traces),
    kind("journal", logs::journal),
    kind("cluster log", logs::cluster),
    kind("CI output", logs::ci),
    kind("build output", logs::build),
    kind("test output", logs::tests),
    kind("Python trace", logs::python_trace),
    kind("Java trace", logs::java_trace),
    kind("Node trace", logs::node_trace),
    kind("Rust trace", logs::rust_trace),
    kind("Go trace", logs::go_trace),
    kind("git log", git::log),
    kind("git diff", git::diff),
    kind("git plumbing", git::plumbing),
    kind("Cargo.lock", locks::cargo),
    kind("package-lock.json", locks::npm),
    kind("yarn.lock", locks::yarn),
    kind("pnpm-lock.yaml", locks::pnpm),
    kind("go.sum", locks::go),
    kind("poetry.lock", locks::poetry),
    kind("requirements with hashes", locks::requirements),
    seldom("flake.lock", locks::flake),
    kind("digests", data::digests),
    kind("UUIDs", data::uuids),
    kind("identifiers", data::identifiers),
    kind("long file names", data::files),
    kind("images in text", data::images),
    kind("image blocks", data::image_blocks),
    seldom("public keys", data::public_keys),
    seldom("certificates", data::certificates),
    kind("numbers", data::numbers),
    kind("hex dump", data::hex_dump),
    kind("YAML manifests", data::manifests),
    kind("workflows", data::workflows),
    kind("cloud resources", data::cloud),
    kind("Rust", code::rust),
    kind("Python", code::python),
    kind("TypeScript", code::typescript),
    kind("Go", code::go),
    kind("SQL", code::sql),
    kind("HTML and CSS", code::html),
    kind("minified JavaScript", code::minified),
    seldom("source map", code::source_map),
    kind("commands", forms::commands),
    kind("declarations", forms::declarations),
    kind("pages", forms::pages),
];

/// Every kind, many times.
#[must_use]
pub fn negatives(seed: u64) -> Vec<Plain> {
    let mut all = Vec::new();
    for kind in KINDS {
        for round in 0..ROUNDS * kind.share / 10 {
            let text = (kind.make)(&mut Dice::of(seed, &["plain", kind.name], round));
            all.push(Plain { kind: kind.name, text });
        }
    }
    all
}

/// Clean text of at least so many bytes, with the kinds mixed as in a long session.
#[must_use]
pub fn transcript(seed: u64, bytes: usize) -> String {
    let (mut text, mut round) = (String::with_capacity(bytes + (1 << 16)), 0);
    while text.len() < bytes {
        let mut dice = Dice::of(seed, &["transcript"], round);
        let kind = &KINDS[dice.below(KINDS.len())];
        if dice.below(10) < kind.share {
            text.push_str(&(kind.make)(&mut dice));
            text.push('\n');
        }
        round += 1;
    }
    text
}

impl Plain {
    /// Whether the redactor changed anything. That a home path lost its user's name is no fault.
    #[must_use]
    pub fn touched(&self, output: &str) -> bool {
        self.text != output && without_homes(&self.text) != without_homes(output)
    }
}

/// Every home path as `~/`.
fn without_homes(text: &str) -> String {
    let mut out = text.replace("/root/", "~/");
    for folder in ["/home/", "/Users/"] {
        let mut parts = out.split(folder);
        let mut next = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let rest = part.split_once('/').map_or("", |(_, rest)| rest);
            next.push_str("~/");
            next.push_str(rest);
        }
        out = next;
    }
    out
}

/// So many of something, one per line.
pub(crate) fn lines(
    dice: &mut Dice,
    least: usize,
    most: usize,
    mut one: impl FnMut(&mut Dice) -> String,
) -> String {
    let many = dice.between(least, most);
    (0..many).map(|_| one(dice)).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_enough_and_they_differ() {
        let all = negatives(crate::TESTED);
        assert!(all.len() >= 5_000, "{}", all.len());
        let texts: std::collections::BTreeSet<&str> = all.iter().map(|one| one.text.as_str()).collect();
        assert!(texts.len() * 100 >= all.len() * 99, "{} of {} differ", texts.len(), all.len());
        assert!(all.iter().all(|one| !one.text.contains("***")));
        let again = negatives(crate::TESTED);
        assert!(all.iter().zip(&again).all(|(a, b)| a.text == b.text));
    }

    #[test]
    fn a_home_path_may_lose_its_name_and_nothing_else_may_change() {
        let one = Plain { kind: "x", text: "open /home/ana/src/a.rs and /Users/bo/b at 12".into() };
        assert!(!one.touched(&one.text) && !one.touched("open ~/src/a.rs and ~/b at 12"));
        assert!(one.touched("open ~/src/a.rs and ~/b at ***") && one.touched("open ~/src/*** and ~/b at 12"));
    }
}
