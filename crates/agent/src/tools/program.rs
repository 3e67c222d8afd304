//! Which programs may be started, and how a line of text becomes one of them and its arguments.
//!
//! Invariant: no text of a model reaches a shell. A line is split into words here, what a shell would act on is refused, and
//! a shell or a program that starts others by name cannot be listed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::sensitive::is_sensitive;
use super::{ToolError, refused};
use crate::limits::Limits;

/// Where programs are looked for.
pub(crate) const FOLDERS: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];

/// Programs whose purpose is to run what they are told.
const NEVER: [&str; 29] = [
    "sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "csh", "tcsh", "fish", "rbash", "busybox", "toybox",
    "env", "xargs", "sudo", "su", "doas", "nohup", "setsid", "timeout", "nice", "ionice", "stdbuf", "script",
    "watch", "chroot", "unshare", "nsenter",
];

/// The programs that may be started.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    /// Their places, with the directory's links resolved.
    places: BTreeSet<PathBuf>,
    names: Vec<String>,
}

/// Those that may be started without a word.
pub(crate) fn default_programs() -> Vec<String> {
    ["ls", "pwd", "cat", "echo"].map(str::to_owned).to_vec()
}

impl Programs {
    /// Names or whole paths; one that is not there is listed for nothing.
    pub(crate) fn listed(given: &[String]) -> Result<Self, String> {
        let mut places = BTreeSet::new();
        for one in given {
            let Some(place) = found(one) else { continue };
            // A link may have any name: what is behind it counts too.
            let behind = std::fs::canonicalize(&place).unwrap_or_else(|_| place.clone());
            if [&place, &behind].iter().any(|path| is_never(path)) {
                return Err(format!("`{one}` cannot be listed: it starts whatever it is told"));
            }
            places.insert(place);
        }
        for one in given {
            if is_never(Path::new(one)) {
                return Err(format!("`{one}` cannot be listed: it starts whatever it is told"));
            }
        }
        Ok(Self { places, names: given.to_vec() })
    }

    /// The place of a program, if it is listed.
    pub(super) fn allowed(&self, name: &str) -> Result<PathBuf, ToolError> {
        let place = found(name).filter(|place| self.places.contains(place));
        place.ok_or_else(|| {
            refused("program", format!("that program is not listed; these are: {}", self.names.join(", ")))
        })
    }

    /// The program and arguments of a line.
    pub(crate) fn parsed(
        &self,
        line: &str,
        cwd: &Path,
        limits: &Limits,
    ) -> Result<(PathBuf, Vec<String>), ToolError> {
        let mut words = split(line)?.into_iter();
        let name = words.next().ok_or_else(|| refused("command_empty", "there is no program"))?;
        let program = self.allowed(&name)?;
        let arguments: Vec<String> = words.collect();
        if arguments.len() as u64 > limits.shell_args {
            return Err(refused("arguments", format!("at most {} arguments", limits.shell_args)));
        }
        for argument in &arguments {
            if argument.chars().count() as u64 > limits.shell_arg_chars {
                return Err(refused(
                    "argument_length",
                    format!("at most {} characters each", limits.shell_arg_chars),
                ));
            }
            if names_a_secret(argument, cwd) {
                return Err(refused(
                    "sensitive_name",
                    "an argument names a file that is never read or written",
                ));
            }
        }
        Ok((program, arguments))
    }
}

fn is_never(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| NEVER.contains(&name))
}

/// Where a program is: its directory resolved, its own name kept, since some programs act by the name they have.
fn found(name: &str) -> Option<PathBuf> {
    let candidates: Vec<PathBuf> = if name.contains('/') {
        vec![PathBuf::from(name)]
    } else {
        FOLDERS.iter().map(|folder| Path::new(folder).join(name)).collect()
    };
    candidates.into_iter().find_map(|path| {
        let file = path.file_name()?;
        let folder = path.parent().filter(|folder| folder.is_absolute())?;
        let place = std::fs::canonicalize(folder).ok()?.join(file);
        place.is_file().then_some(place)
    })
}

/// Whether an argument, or what stands behind a `=` in it, leads to a sensitive name, also through links.
pub(crate) fn names_a_secret(argument: &str, cwd: &Path) -> bool {
    let parts = [Some(argument), argument.split_once('=').map(|(_, value)| value)];
    parts.into_iter().flatten().any(|part| {
        let behind = std::fs::canonicalize(cwd.join(part));
        is_sensitive(Path::new(part)) || behind.is_ok_and(|path| is_sensitive(&path))
    })
}

/// A line as words. Quotes keep blanks; what a shell would act on is refused outside of them, and some of it always.
fn split(line: &str) -> Result<Vec<String>, ToolError> {
    let acts =
        |what: &str| Err(refused("shell_text", format!("{what}: there is no shell that would act on it")));
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (_, '`') => return acts("a backtick"),
            (_, '\0') => return acts("a NUL"),
            (Some(open), c) if c == open => quote = None,
            (Some('"'), '\\') => match chars.next() {
                Some(c @ ('"' | '\\')) => word.get_or_insert_default().push(c),
                Some('`') => return acts("a backtick"),
                Some('\0') => return acts("a NUL"),
                Some(c) => word.get_or_insert_default().extend(['\\', c]),
                None => return acts("an open quote"),
            },
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '"' | '\'') => {
                word.get_or_insert_default();
                quote = Some(c);
            }
            (None, ';' | '&' | '<' | '>' | '$' | '|' | '\n' | '\r' | '\\' | '(' | ')') => {
                return acts(&format!("an unquoted `{}`", c.escape_default()));
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return acts("an open quote");
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(result: Result<(PathBuf, Vec<String>), ToolError>) -> String {
        match result {
            Ok((program, arguments)) => format!("{} {arguments:?}", program.display()),
            Err(ToolError::Refused { rule, .. }) => rule.to_owned(),
            Err(ToolError::Failed(why)) => why,
        }
    }

    #[test]
    fn ses_30_lines_become_words_and_what_a_shell_would_act_on_is_refused() {
        assert_eq!(
            split(r#"ls  -l 'a b' "c $d" e'f'g '' "\"\\\n""#).unwrap(),
            ["ls", "-l", "a b", "c $d", "efg", "", "\"\\\\n"]
        );
        for line in [
            "ls; rm",
            "ls & x",
            "ls < x",
            "ls > x",
            "ls $HOME",
            "ls | cat",
            "ls\nrm",
            "ls `x`",
            "ls '`x`'",
            "ls \"`x`\"",
            "ls \0",
            "ls '\0'",
            "ls 'open",
            "ls \"open",
            "ls \\",
            "echo $(x)",
            "ls \"\\`x\"",
        ] {
            assert!(matches!(split(line), Err(ToolError::Refused { rule: "shell_text", .. })), "{line:?}");
        }
        for line in ["ls ';'", "ls \"&\"", "ls '<>'", "ls '|'", "ls 'a\nb'", "ls '$x'"] {
            assert!(split(line).is_ok(), "{line:?}");
        }
    }

    #[test]
    fn ses_30_only_listed_programs_and_few_arguments() {
        let programs = Programs::listed(&default_programs()).unwrap();
        let limits = Limits::default();
        let cwd = tempfile::tempdir().unwrap();
        let parsed = |line: &str| rule(programs.parsed(line, cwd.path(), &limits));
        assert!(parsed("ls -l").ends_with(r#"/ls ["-l"]"#));
        assert!(parsed("/bin/ls").ends_with("/ls []"));
        for line in ["rm x", "sh -c ls", "./ls", "bin/ls", "/tmp/ls", "../bin/ls", "LS", "'ls -l'"] {
            assert_eq!(parsed(line), "program", "{line}");
        }
        assert_eq!(parsed("  "), "command_empty");
        assert!(parsed("echo 1 2 3 4 5 6 7 8").contains("\"8\""));
        assert_eq!(parsed("echo 1 2 3 4 5 6 7 8 9"), "arguments");
        assert!(parsed(&format!("echo {}", "x".repeat(128))).contains("xxx"));
        assert_eq!(parsed(&format!("echo {}", "x".repeat(129))), "argument_length");
    }

    #[test]
    fn ses_28_arguments_do_not_lead_to_sensitive_names_either() {
        let programs = Programs::listed(&default_programs()).unwrap();
        let cwd = tempfile::tempdir().unwrap();
        std::fs::write(cwd.path().join(".env"), "x").unwrap();
        std::os::unix::fs::symlink(".env", cwd.path().join("innocent")).unwrap();
        for line in
            ["cat .env", "cat ./.ENV", "cat a/../.env", "cat innocent", "cat --file=.env", "cat /x/id_rsa"]
        {
            assert_eq!(
                rule(programs.parsed(line, cwd.path(), &Limits::default())),
                "sensitive_name",
                "{line}"
            );
        }
    }

    #[test]
    fn ses_30_a_million_lines_reach_no_shell() {
        let programs = Programs::listed(&default_programs()).unwrap();
        let limits = Limits::default();
        let parts = [
            "sh", "bash", "/bin/sh", "-c", "ls", "echo", "cat", ";", "&&", "|", "$(", ")", "`", "'", "\"",
            "\\", " ", "\n", "\0", "$IFS", "<", ">", "x", "/bin/", "../", "{a,b}", "*", "~", "\t",
            "\u{2028}",
        ];
        let (mut state, mut passed) = (0x9e37_79b9_7f4a_7c15_u64, 0);
        for _ in 0..1_000_000 {
            let mut line = String::new();
            for _ in 0..6 {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                line.push_str(parts[usize::try_from(state % parts.len() as u64).unwrap()]);
            }
            let Ok(words) = split(&line) else { continue };
            let Some(program) = words.first().and_then(|name| programs.allowed(name).ok()) else { continue };
            passed += 1;
            let name = program.file_name().unwrap().to_str().unwrap();
            assert!(["ls", "cat", "echo"].contains(&name), "{line:?} would run {name}");
            assert!(!words.iter().any(|word| word.contains(['`', '\0'])), "{line:?}");
        }
        assert!(passed > 1_000, "{passed} lines were commands: the rest proves nothing");
        let _ = limits;
    }

    #[test]
    fn ses_30_no_source_of_the_agent_names_a_shell_to_start() {
        let mut open = vec![PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))];
        let (mut seen, mut starters) = (0, Vec::new());
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    open.push(path);
                    continue;
                }
                let text = std::fs::read_to_string(&path).unwrap();
                let text = text.split("#[cfg(test)]\nmod tests").next().unwrap();
                seen += 1;
                for sign in ["\"-c\"", "/bin/sh", "/bin/bash", "from_shell", "system("] {
                    assert!(!text.contains(sign), "{} has {sign}", path.display());
                }
                if text.contains("Command::new") {
                    starters.push(path.file_name().unwrap().to_str().unwrap().to_owned());
                }
            }
        }
        starters.sort();
        assert!(seen > 20);
        // The first starts the agent that its own command line names, and nothing of a model's.
        let known = ["beside.rs", "minder.rs", "shell.rs"];
        assert_eq!(starters, known, "programs are started here and nowhere else");
    }
}
