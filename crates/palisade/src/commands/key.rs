//! API keys.

use api::CreateKeyRequest;

use super::resolve;
use crate::cli::{self, word};
use crate::failure::Failure;
use crate::output::{Shown, moment, table};
use crate::session::Session;

pub(super) fn run(session: &Session, command: cli::Key) -> Result<Shown, Failure> {
    let client = session.client()?;
    match command {
        cli::Key::List { user } => {
            let user = resolve::user(&client, user.as_deref().unwrap_or("me"))?;
            let all = resolve::every(|after| client.keys(&user, after).map(|page| (page.items, page.next)))?;
            let row = |key: &api::ApiKey| {
                let used = key.used_at.map(moment).unwrap_or_else(|| "never used".into());
                let state = if key.revoked_at.is_some() { "revoked" } else { "" };
                vec![
                    key.id.clone(),
                    key.label.clone(),
                    key.scope.clone(),
                    moment(key.expires),
                    used,
                    state.to_owned(),
                ]
            };
            let rows: Vec<_> = all.iter().map(row).collect();
            Ok(Shown::new(&all, table(&["ID", "LABEL", "SCOPE", "EXPIRES", "LAST USED", ""], &rows)))
        }
        cli::Key::Create { label, scope, days } => {
            let made =
                client.create_key(&CreateKeyRequest { label, scope: word(scope), days: Some(days) })?;
            let text =
                format!("{}\nThis is the only time the key is shown:\n{}\n", made.key.id, made.secret.0);
            Ok(Shown::new(&made, text).revealing())
        }
        cli::Key::Pair { label, scope, days } => {
            let body = CreateKeyRequest { label, scope: word(scope), days: Some(days) };
            let offer = client.offer_pairing(&body)?;
            let text = format!(
                "On the other device, within ten minutes:\n  palisade login --url {} --code {}\n",
                client.base(),
                offer.code.0
            );
            Ok(Shown::new(&offer, text).revealing())
        }
        cli::Key::Revoke { key } => {
            client.revoke_key(&key)?;
            Ok(Shown::done(format!("{key} is revoked")))
        }
    }
}
