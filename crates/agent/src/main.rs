//! `palisade-agent`: reads its configuration, then speaks ACP on standard input and output. `palisade-agent beside -- COMMAND …` stands
//! between another agent and its client instead.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use agent::Config;

/// Longest configuration.
const CONFIG: u64 = 1 << 20;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let config = match arguments.next().as_ref().map(|word| word.to_str().unwrap_or_default()) {
        // Started by the agent itself, to mind one program.
        Some("--minder") => return agent::minder(arguments),
        // Another agent is started, and served.
        Some("beside") => {
            return match agent::beside(arguments, std::io::stdin(), std::io::stdout()) {
                Ok(code) => ExitCode::from(code),
                Err(why) => said(std::io::stderr(), &redact::Redactor::new().scrub(&why), 2),
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
        Err(why) => return said(std::io::stderr(), &redact::Redactor::new().scrub(&why), 2),
    };
    // Programs that the agent starts have its user, and could look at its variables otherwise.
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    agent::serve(config, std::io::stdin(), std::io::stdout());
    ExitCode::SUCCESS
}

fn said(mut to: impl Write, words: &str, code: u8) -> ExitCode {
    // Nobody may be listening any more.
    let _ = writeln!(to, "{words}");
    ExitCode::from(code)
}
