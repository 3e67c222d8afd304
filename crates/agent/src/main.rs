//! `palisade-agent`: reads its configuration, then speaks ACP on standard input and output. `palisade-agent beside -- COMMAND …` stands
//! between another agent and its client instead.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use agent::Config;
use redact::Redactor;

/// Longest configuration.
const CONFIG: u64 = 1 << 20;

fn main() -> ExitCode {
    guard_panics(None);
    let mut arguments = std::env::args_os().skip(1);
    let config = match arguments.next().as_ref().map(|word| word.to_str().unwrap_or_default()) {
        // Started by the agent itself, to mind one program.
        Some("--minder") => return agent::minder(arguments),
        // Another agent is started, and served.
        Some("beside") => {
            return match agent::beside(arguments, std::io::stdin(), std::io::stdout()) {
                Ok(code) => ExitCode::from(code),
                Err(why) => said(std::io::stderr(), &Redactor::new().scrub(&why), 2),
            };
        }
        Some("--version") => return said(std::io::stdout(), env!("CARGO_PKG_VERSION"), 0),
        Some("--config") => match arguments.next() {
            Some(path) => files::read(Path::new(&path), CONFIG, files::Rule::Any)
                .map_err(|error| format!("the configuration cannot be read: {error}"))
                .and_then(|text| {
                    String::from_utf8(text).map_err(|_| "the configuration is no text".to_owned())
                }),
            None => Err("`--config` needs a file".to_owned()),
        },
        None => std::env::var("PALISADE_AGENT_CONFIG").map_err(|_| {
            "give a configuration with `--config FILE` or in `PALISADE_AGENT_CONFIG`".to_owned()
        }),
        Some(_) => Err("usage: palisade-agent [--config FILE | beside -- COMMAND …]".to_owned()),
    };
    let config = config.and_then(|text| {
        Config::read(&text, &|name| std::env::var(name).ok()).map_err(|error| error.to_string())
    });
    let config = match config {
        Ok(config) => config,
        Err(why) => return said(std::io::stderr(), &Redactor::new().scrub(&why), 2),
    };
    guard_panics(Some(config.redactor().clone()));
    // Programs that the agent starts have its user, and could look at its variables otherwise.
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    agent::serve(config, std::io::stdin(), std::io::stdout());
    ExitCode::SUCCESS
}

/// From now on a panic is told through the redactor too: the one that knows the values of the configuration, once there is one.
fn guard_panics(known: Option<Redactor>) {
    std::panic::set_hook(Box::new(move |info| {
        let place = info.location().map(|at| format!("{}:{}", at.file(), at.line())).unwrap_or_default();
        let words = format!("palisade-agent: failed at {place}: {}", info.payload_as_str().unwrap_or(""));
        let tamed = redact::tame(words.as_bytes());
        let clean = known.clone().unwrap_or_default().scrub_bytes(&tamed).into_owned();
        let _ = said(std::io::stderr(), &String::from_utf8_lossy(&clean), 2);
    }));
}

fn said(mut to: impl Write, words: &str, code: u8) -> ExitCode {
    // Nobody may be listening any more.
    let _ = writeln!(to, "{words}");
    ExitCode::from(code)
}

#[cfg(test)]
mod tests {
    /// A process has one hook, so this is a second one: `main` itself puts it there, and then something panics.
    #[test]
    fn sec_16_a_panic_is_told_without_its_secret() {
        const NAME: &str = "A_PANIC_SAYS";
        if let Ok(secret) = std::env::var(NAME) {
            let _ = super::main();
            panic!("unexpected {secret}\u{1b}[2J");
        }
        let secret = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
        let mut again = std::process::Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", "tests::sec_16_a_panic_is_told_without_its_secret"]).env(NAME, &secret);
        let output = again.stdin(std::process::Stdio::null()).output().unwrap();
        let said = String::from_utf8([output.stderr, output.stdout].concat()).unwrap();
        assert!(!output.status.success() && !said.contains(&secret), "{said}");
        assert!(
            said.contains("main.rs:") && said.contains("unexpected ***") && !said.contains('\u{1b}'),
            "{said}"
        );
    }
}
