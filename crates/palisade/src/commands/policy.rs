//! Policies.

use api::{AddPolicyRequest, Client, TryPolicyRequest};

use super::{resolve, template};
use crate::cli::{self, word};
use crate::failure::Failure;
use crate::output::Shown;
use crate::session::Session;

pub(super) fn run(session: &Session, command: cli::Policy) -> Result<Shown, Failure> {
    match command {
        cli::Policy::Show { id } => {
            let mut all = session.client()?.policies()?.items;
            if let Some(id) = id {
                all.retain(|policy| policy.id == id);
                if all.is_empty() {
                    return Err(Failure::NotFound(format!("there is no policy `{id}`")));
                }
            }
            let text =
                all.iter().map(|policy| format!("// {}\n{}\n\n", policy.id, policy.text)).collect::<String>();
            Ok(Shown::new(&all, text))
        }
        cli::Policy::Explain { question } => ask(&session.client()?, question, None),
        cli::Policy::Test { file, question } => {
            let text = std::fs::read_to_string(&file).map_err(Failure::file(&file))?;
            ask(&session.client()?, question, Some(AddPolicyRequest { id: "on-trial".into(), text }))
        }
        cli::Policy::Add { id, file } => {
            let text = std::fs::read_to_string(&file).map_err(Failure::file(&file))?;
            session.client()?.add_policy(&id, &text)?;
            Ok(Shown::done(format!("policy {id} is in force")))
        }
        cli::Policy::Remove { id } => {
            session.client()?.remove_policy(&id)?;
            Ok(Shown::done(format!("policy {id} is removed")))
        }
        cli::Policy::Template(command) => template::run(session, &command),
    }
}

fn ask(client: &Client, question: cli::Question, with: Option<AddPolicyRequest>) -> Result<Shown, Failure> {
    let user = resolve::user(client, question.user.as_deref().unwrap_or("me"))?;
    let body = TryPolicyRequest {
        user,
        action: question.action,
        resource: question.resource,
        role: question.role.map(word),
        with,
    };
    let answer = client.try_policy(&body)?;
    let mut text = format!("{}: {}\n", answer.decision, answer.because);
    for policy in &answer.policies {
        text.push_str(&format!("\n// {}\n{}\n", policy.id, policy.text));
    }
    Ok(Shown::new(&answer, text))
}
