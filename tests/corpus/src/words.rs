//! Words, names and hosts that texts are made of; nobody's.

use crate::dice::Dice;

const NOUNS: [&str; 96] = [
    "account", "adapter", "anchor", "archive", "arrow", "basket", "batch", "beacon", "border", "branch",
    "bridge", "bucket", "buffer", "button", "cache", "canvas", "channel", "chapter", "client", "cluster",
    "column", "command", "context", "counter", "cursor", "daemon", "deploy", "device", "digest", "domain",
    "editor", "engine", "entry", "event", "export", "factory", "field", "filter", "folder", "frame",
    "gateway", "graph", "handler", "header", "import", "index", "input", "invoice", "island", "job",
    "kernel", "label", "ladder", "layer", "ledger", "lever", "list", "loader", "market", "matrix", "merge",
    "metric", "mirror", "module", "monitor", "node", "notice", "object", "order", "output", "packet",
    "parser", "patch", "path", "player", "plugin", "policy", "portal", "profile", "queue", "record",
    "region", "report", "request", "result", "route", "sample", "schema", "script", "server", "session",
    "signal", "socket", "stream", "table", "worker",
];
const VERBS: [&str; 40] = [
    "accepts", "adds", "builds", "calls", "checks", "closes", "copies", "counts", "creates", "drops",
    "fails", "finds", "follows", "gets", "gives", "holds", "keeps", "leaves", "lists", "loads", "makes",
    "moves", "needs", "opens", "parses", "prints", "pushes", "reads", "removes", "renames", "returns",
    "runs", "sends", "shows", "skips", "starts", "stops", "takes", "tests", "writes",
];
const ADJECTIVES: [&str; 40] = [
    "actual", "async", "bare", "basic", "big", "bright", "broken", "clean", "common", "current", "deep",
    "default", "early", "empty", "exact", "fast", "final", "first", "fresh", "full", "global", "good",
    "hidden", "inner", "last", "late", "local", "long", "main", "new", "next", "old", "outer", "plain",
    "quiet", "remote", "second", "short", "slow", "stale",
];
const PEOPLE: [&str; 16] = [
    "ana", "bo", "carla", "deniz", "emil", "farah", "goran", "hana", "ines", "jonas", "kofi", "lena", "mira",
    "noor", "olga", "pavel",
];
const ENDS: [&str; 8] = ["rs", "py", "ts", "go", "js", "toml", "json", "md"];

impl Dice {
    pub(crate) fn noun(&mut self) -> &'static str {
        self.pick(&NOUNS)
    }

    pub(crate) fn verb(&mut self) -> &'static str {
        self.pick(&VERBS)
    }

    pub(crate) fn adjective(&mut self) -> &'static str {
        self.pick(&ADJECTIVES)
    }

    pub(crate) fn person(&mut self) -> &'static str {
        self.pick(&PEOPLE)
    }

    /// Without a full stop.
    pub(crate) fn sentence(&mut self) -> String {
        let (a, b, c) = (self.noun(), self.noun(), self.noun());
        let (how, what, does, then) = (self.adjective(), self.adjective(), self.verb(), self.verb());
        match self.below(6) {
            0 => format!("The {how} {a} {does} the {b} before the {what} {c} {then} it"),
            1 => format!("I will look at how the {a} {does} its {b}, since the {c} is {what}"),
            2 => format!("It {does} every {how} {a} and {then} the {b}"),
            3 => format!("When the {a} {does} a {b}, the {what} {c} {then} nothing"),
            4 => format!("Let me run the {a} tests again and see whether the {how} {b} {does}"),
            _ => format!("That is because the {b} {then} a {what} {c}, not the {a}"),
        }
    }

    pub(crate) fn paragraph(&mut self) -> String {
        let many = self.between(1, 4);
        (0..many).map(|_| self.sentence() + ".").collect::<Vec<_>>().join(" ")
    }

    pub(crate) fn snake(&mut self, words: usize) -> String {
        (0..words).map(|_| self.noun()).collect::<Vec<_>>().join("_")
    }

    pub(crate) fn pascal(&mut self, words: usize) -> String {
        (0..words).map(|_| capital(self.noun())).collect()
    }

    pub(crate) fn camel(&mut self, words: usize) -> String {
        format!("{}{}", self.noun(), self.pascal(words.saturating_sub(1)))
    }

    pub(crate) fn kebab(&mut self, words: usize) -> String {
        self.snake(words).replace('_', "-")
    }

    /// A file beneath a project.
    pub(crate) fn path(&mut self) -> String {
        let (a, b, c) = (self.noun(), self.snake(2), self.pick(&ENDS));
        format!("{}/{a}/{b}.{c}", self.pick(&["src", "lib", "crates", "app", "internal", "pkg"]))
    }

    pub(crate) fn host(&mut self) -> String {
        format!("{}.{}.example.{}", self.noun(), self.noun(), self.pick(&["com", "org", "net"]))
    }
}

pub(crate) fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}
