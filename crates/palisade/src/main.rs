//! The client and launcher: parse, call or launch, print.
//!
//! Invariants: nothing is asked without a terminal; what is printed passes the redactor, except a secret that
//! is shown once on request; with `--json` there is exactly one JSON document on standard output; that of `acp` is the protocol's.
//! Exit codes: 0 done, 1 refused or failed, 2 not understood (or a ledger that cannot be checked).

mod cli;
mod commands;
mod credentials;
mod failure;
mod output;
mod patterns;
mod session;
mod when;

use std::process::ExitCode;

use clap::Parser;

use crate::session::Session;

fn main() -> ExitCode {
    output::guard_panics();
    if std::env::args_os().nth(1).is_some_and(|word| word == sandbox::probe::ARGUMENT) {
        return commands::doctor::answer();
    }
    if let Err(failure) = patterns::load() {
        output::refused("", &failure, std::env::args_os().any(|word| word == "--json"));
        return ExitCode::from(125);
    }
    // The launcher's way is short: `run` is understood without building every other command.
    if let Some(cli::RunOnly { config, url, ca, insecure_http, totp, json, args }) =
        cli::RunOnly::parse_quickly()
    {
        return commands::run::run(&Session::new(config, url, ca, insecure_http, totp), json, args);
    }
    let typed: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    match cli::Cli::try_parse() {
        Ok(cli::Cli { config, url, ca, insecure_http, totp, json, command: cli::Command::Run(args) }) => {
            commands::run::run(&Session::new(config, url, ca, insecure_http, totp), json, *args)
        }
        Ok(cli::Cli { config, url, ca, insecure_http, totp, json, command: cli::Command::Shell(args) }) => {
            commands::live::shell(&Session::new(config, url, ca, insecure_http, totp), json, args)
        }
        Ok(cli::Cli { config, url, ca, insecure_http, totp, command: cli::Command::Acp(args), .. }) => {
            commands::acp::run(Session::new(config, url, ca, insecure_http, totp), args)
        }
        Ok(cli::Cli { json, command: cli::Command::Redact(args), .. }) => commands::redact::run(json, &args),
        Ok(cli) => {
            let place = cli.place();
            let outcome = commands::carry_out(cli);
            output::finish(&place, outcome)
        }
        Err(error) => output::misunderstood(&error, typed.iter().any(|word| word == "--json")),
    }
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
