//! One file per noun: turn what was typed into calls, and answers into something to show.

mod account;
pub(crate) mod acp;
mod agents;
mod artifact;
mod backup;
mod bring;
mod budget;
mod caller;
mod catalog;
mod changes;
mod deploy;
pub(crate) mod doctor;
mod ending;
mod explain;
mod key;
mod launch;
mod ledger;
mod lend;
pub(crate) mod live;
mod login;
mod network;
mod pass;
mod plan;
mod policy;
mod profile;
mod receipt;
mod record;
pub(crate) mod redact;
mod remembered;
mod repo;
mod report;
mod resolve;
mod rules;
pub(crate) mod run;
mod secret;
mod sessions;
mod setup;
mod spent;
mod template;
mod unfinished;
mod user;
mod worktree;

use crate::cli::{Cli, Command, Config};
use crate::failure::Failure;
use crate::output::{Shown, moment};
use crate::session::Session;

/// Carries a command out.
pub(crate) fn carry_out(cli: Cli) -> Result<Shown, Failure> {
    let config = cli.config.clone();
    let session = Session::new(cli.config, cli.url, cli.ca, cli.insecure_http, cli.totp);
    match cli.command {
        // It has an exit code of its own, so it never comes here.
        Command::Shell(_) => Err(Failure::Usage("`shell` stands alone".into())),
        Command::Ps => live::list(config.as_deref()),
        Command::Stop { run, now } => {
            let ask = if now { sandbox::Ask::Kill } else { sandbox::Ask::Stop };
            live::tell(config.as_deref(), run.as_deref(), ask)
        }
        Command::Offline { run } => live::tell(config.as_deref(), run.as_deref(), sandbox::Ask::Offline),
        Command::Rules(args) => rules::run(config.as_deref(), &args),
        Command::Freeze { run } => live::tell(config.as_deref(), run.as_deref(), sandbox::Ask::Freeze),
        Command::Thaw { run } => live::tell(config.as_deref(), run.as_deref(), sandbox::Ask::Thaw),
        Command::Run(_) => Err(Failure::Usage("`run` stands alone".into())),
        Command::Acp(_) => Err(Failure::Usage("`acp` stands alone".into())),
        Command::Plan(command) => plan::run(&command),
        Command::Redact(_) => Err(Failure::Usage("`redact` stands alone".into())),
        Command::Doctor(args) => doctor::run(config.as_deref(), &args),
        Command::Setup(command) => setup::run(config.as_deref(), &command),
        Command::Receipt(command) => receipt::run(config.as_deref(), command),
        Command::Profile(command) => profile::run(config.as_deref(), command),
        Command::Diff { words, stat } => changes::diff(session.config.as_deref(), &words, stat),
        Command::Apply { words, undo: true, force, .. } => {
            changes::undo(session.config.as_deref(), &words, force)
        }
        Command::Apply { words, force, control, .. } => {
            changes::apply(session.config.as_deref(), &words, force, control)
        }
        Command::Discard { words, forget } => changes::discard(session.config.as_deref(), &words, forget),
        Command::Runs => changes::runs(session.config.as_deref()),
        Command::Up { set, accept_ledger_loss } => launch::up(&session, &set, accept_ledger_loss, cli.json),
        Command::Init { secret, who } => account::init(&session, secret, who),
        Command::Login { code: Some(code), .. } => account::pair(&session, &code),
        Command::Login { email, password_stdin, .. } => account::login(&session, email, password_stdin),
        Command::Logout { everywhere } => account::logout(&session, everywhere),
        Command::Whoami => whoami(&session),
        Command::Status => status(&session),
        Command::Account(command) => account::run(&session, command),
        Command::User(command) => user::run(&session, command),
        Command::Key(command) => key::run(&session, command),
        Command::Pass(command) => pass::run(&session, command),
        Command::Repo(command) => repo::run(&session, command),
        Command::Worktree(command) => worktree::run(&session, command),
        Command::Session(command) => sessions::run(&session, command, cli.json),
        Command::Agent(command) => agents::run(&session, &command),
        Command::Approval(command) => sessions::approval(&session, command),
        Command::Budget(command) => budget::run(&session, command),
        Command::Secret(command) => secret::run(&session, command, cli.json),
        Command::Capability(command) => artifact::capability(&session, command),
        Command::Subagent(command) => artifact::subagent(&session, command),
        Command::Env(command) => artifact::env(&session, command),
        Command::Deploy(args) => deploy::run(&session, args),
        Command::Policy(command) => policy::run(&session, command),
        Command::Ledger(command) => ledger::run(&session, command, cli.json),
        Command::Config(Config::Show) => launch::config(&session),
        Command::Config(Config::Path) => launch::paths(&session),
        Command::Backup(command) => backup::run(&session, command),
        Command::Completions { shell } => Ok(launch::completions(shell)),
        Command::Man { dir } => launch::man(dir.as_deref()),
    }
}

fn whoami(session: &Session) -> Result<Shown, Failure> {
    let me = session.client()?.whoami()?;
    let text = format!(
        "{} <{}>, {} ({}), signed in by {} until {}\n",
        me.user.name,
        me.user.email,
        me.user.role,
        me.user.id,
        me.via,
        moment(me.expires)
    );
    Ok(Shown::new(&me, text))
}

fn status(session: &Session) -> Result<Shown, Failure> {
    let client = session.client()?;
    let status = client.status()?;
    let health = client.ready()?;
    let mut text = format!(
        "Palisade {} at {}, mode {}, store {}, key {} (epoch {})\nworktrees divided by owners and tiers: {}\nledger: {} entries, {}\nup since {}\n",
        status.version,
        client.base(),
        status.mode,
        status.store,
        status.key,
        status.key_epoch,
        status.worktree_rbac,
        status.ledger_head,
        status.ledger,
        moment(status.started_at)
    );
    if status.key_rotating {
        text.push_str("a rotation of the keys is not finished; run `palisade secret rotate`\n");
    }
    for setting in &status.degraded {
        text.push_str(&format!("weakened by a setting: {setting}\n"));
    }
    for check in health.checks.iter().filter(|check| !check.ok) {
        text.push_str(&format!("not working: {}: {}\n", check.name, check.detail));
    }
    Ok(Shown::new(&serde_json::json!({ "status": status, "health": health }), text))
}
