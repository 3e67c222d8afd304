//! Passes.

use api::MintPassRequest;

use super::resolve;
use crate::cli;
use crate::failure::Failure;
use crate::output::{Shown, moment, table};
use crate::session::Session;

pub(super) fn run(session: &Session, command: cli::Pass) -> Result<Shown, Failure> {
    let client = session.client()?;
    match command {
        cli::Pass::List { user } => {
            let user = resolve::user(&client, user.as_deref().unwrap_or("me"))?;
            let all =
                resolve::every(|after| client.passes(&user, after).map(|page| (page.items, page.next)))?;
            let row = |pass: &api::Pass| {
                let state = if pass.revoked_at.is_some() { "revoked" } else { "" };
                vec![pass.id.clone(), pass.label.clone(), moment(pass.expires), state.to_owned()]
            };
            let rows: Vec<_> = all.iter().map(row).collect();
            Ok(Shown::new(&all, table(&["ID", "LABEL", "EXPIRES", ""], &rows)))
        }
        cli::Pass::Mint { label, grant, minutes } => {
            let text = std::fs::read_to_string(&grant).map_err(Failure::file(&grant))?;
            let parsed = serde_json::from_str(&text);
            let grant = parsed
                .map_err(|error| Failure::Usage(format!("`{}` is not a Grant: {error}", grant.display())))?;
            let made = client.mint_pass(&MintPassRequest { label, grant, minutes: Some(minutes) })?;
            let text =
                format!("{}\nThis is the only time the Pass is shown:\n{}\n", made.pass.id, made.token.0);
            Ok(Shown::new(&made, text).revealing())
        }
        cli::Pass::Revoke { pass } => {
            let revoked = client.revoke_pass(&pass)?;
            Ok(Shown::new(&revoked, format!("{} Passes are revoked\n", revoked.count)))
        }
    }
}
