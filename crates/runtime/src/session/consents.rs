//! Consent for more than one question: exactly the same effect, or effects of one kind beneath a directory; counted, with an
//! end, for one session or all of its creator's in a worktree.
//!
//! Invariants: it is always narrower than a kind of effect; whoever gave it is judged again at each use, by the act that
//! a person would do; what an agent says about its own effect only ever keeps it from being covered.

use std::path::{Component, Path};
use std::sync::Arc;

use access::{Principal, ReadSession, RevokeConsent};
use acp::{CallChange, Content, Question};
use model::{ApprovalId, ConsentId, ON_PATHS, SessionId};
use serde_json::Value;
use store::{AtWork, Consent};

use super::told;
use crate::{ActError, Runtime};

/// Whether this consent covers what is asked, in a worktree whose tree is there.
pub(super) fn covers(consent: &Consent, call: &CallChange, tree: &Path) -> bool {
    if told::kind(call) != consent.kind {
        return false;
    }
    match (&consent.likeness, &consent.beneath) {
        (Some(likeness), _) => told::likeness(call).as_ref() == Some(likeness),
        (None, Some(directory)) => {
            ON_PATHS.contains(&consent.kind.as_str()) && all_beneath(call, tree, Path::new(directory))
        }
        (None, None) => false,
    }
}

/// Whether everything that a call names lies beneath this directory of the tree, and it names something.
fn all_beneath(call: &CallChange, tree: &Path, directory: &Path) -> bool {
    let locations = call.locations.iter().flatten().map(|place| place.path.as_str());
    let diffs = call.content.iter().flatten().filter_map(|content| match content {
        Content::Diff { path, .. } => Some(path.as_str()),
        Content::Text(_) | Content::Terminal(_) => None,
    });
    let mut named = false;
    for path in locations.chain(diffs) {
        named = true;
        if !is_beneath(Path::new(path), tree, directory) {
            return false;
        }
    }
    named && call.input.as_ref().is_none_or(|input| input_is_beneath(input, tree, directory))
}

fn is_beneath(path: &Path, tree: &Path, directory: &Path) -> bool {
    let plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    plain && path.strip_prefix(tree).is_ok_and(|inside| inside.starts_with(directory))
}

/// Whether every field of what a tool is given that looks like a path lies there as well.
fn input_is_beneath(input: &Value, tree: &Path, directory: &Path) -> bool {
    match input {
        Value::Object(fields) => fields.iter().all(|(name, value)| {
            let name = name.to_ascii_lowercase();
            let names_one =
                ["path", "file", "dir", "cwd", "target", "dest"].iter().any(|word| name.contains(word));
            match value {
                Value::String(text) if names_one => is_beneath(&tree.join(text), tree, directory),
                other => input_is_beneath(other, tree, directory),
            }
        }),
        Value::Array(all) => all.iter().all(|one| input_is_beneath(one, tree, directory)),
        _ => true,
    }
}

impl Runtime {
    /// Consents that hold in a session now.
    pub async fn consents(&self, who: &Principal, session: SessionId) -> Result<Vec<Consent>, ActError> {
        let permit = self.look(who, ReadSession { session }).await?;
        Ok(self.store.list_consents(permit).await?)
    }

    /// Takes a consent back: the next question is asked again.
    pub async fn revoke_consent(
        self: &Arc<Self>,
        who: &Principal,
        session: SessionId,
        consent: ConsentId,
    ) -> Result<(), ActError> {
        let effect = async |store: Arc<store::Store>, permit| store.revoke_consent(permit).await;
        self.perform(who, RevokeConsent { session, consent }, effect).await
    }

    /// Allows a question that somebody consented to before, as they would themselves; false if nobody did, or may any more.
    pub(super) async fn consented(
        self: &Arc<Self>,
        work: &AtWork,
        approval: ApprovalId,
        effect: &str,
        question: &Question,
        tree: &Path,
    ) -> bool {
        let Some(choice) = told::once(question) else { return false };
        let held = match self.store.consents_to(work, &told::kind(&question.call)).await {
            Ok(held) => held,
            Err(error) => {
                tracing::warn!(%error, "what was consented to cannot be read, so somebody is asked");
                return false;
            }
        };
        for consent in held.iter().filter(|consent| covers(consent, &question.call, tree)) {
            let Ok(Some(giver)) = self.auth.claimed(&consent.claim, &consent.id.to_string()).await else {
                continue;
            };
            let (effect, choice) = (effect.to_owned(), choice.clone());
            let allowed = self.decide_to_allow(
                &giver,
                access::AllowApproval {
                    session: work.session(),
                    approval,
                    effect,
                    choice,
                    wider: None,
                    consent: ConsentId::random(),
                    claim: String::new(),
                    by: Some(consent.id),
                },
            );
            match Box::pin(allowed).await {
                Ok(_) => return true,
                Err(error) => tracing::info!(%error, "a consent does not hold any more"),
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(paths: &[&str], diffs: &[&str]) -> CallChange {
        let places =
            paths.iter().map(|path| acp::Location { path: (*path).to_owned(), line: None }).collect();
        let diff = |path: &&str| Content::Diff { path: (*path).to_owned(), old: None, new: "x".into() };
        CallChange {
            id: "one".into(),
            title: None,
            name: None,
            kind: None,
            status: None,
            content: Some(diffs.iter().map(diff).collect()),
            locations: Some(places),
            input: None,
            output: None,
        }
    }

    /// ACC-15: what is not wholly beneath the directory is asked about, however it is spelt; ADV-A02.
    #[test]
    fn acc_15_only_what_is_wholly_beneath_the_directory_is_covered() {
        let (tree, src) = (Path::new("/w/tree"), Path::new("src"));
        let covered = |paths: &[&str], diffs: &[&str]| all_beneath(&call(paths, diffs), tree, src);
        assert!(covered(&["/w/tree/src/a.rs"], &[]));
        assert!(covered(&["/w/tree/src/a/b.rs"], &["/w/tree/src/c.rs"]));
        for (paths, diffs) in [
            (&[][..], &[][..]),
            (&["/w/tree/srcs/a"], &[]),
            (&["/w/tree/src/../x"], &[]),
            (&["/w/tree/x"], &[]),
            (&["src/a.rs"], &[]),
            (&["/w/tree/src/a"], &["/w/tree/b"]),
            (&["/w/tree/src/a", "/etc/passwd"], &[]),
            (&["/w/other/src/a"], &[]),
            (&["/w/tree"], &[]),
            (&[""], &[]),
        ] {
            assert!(!covered(paths, diffs), "{paths:?} {diffs:?}");
        }
        // What the tool is given is looked at, too.
        let with = |input: Value| CallChange { input: Some(input), ..call(&["/w/tree/src/a"], &[]) };
        assert!(all_beneath(
            &with(serde_json::json!({ "file_path": "/w/tree/src/a", "text": "/etc" })),
            tree,
            src
        ));
        for input in [
            serde_json::json!({ "file_path": "/etc/passwd" }),
            serde_json::json!({ "edits": [{ "path": "src/../x" }] }),
            serde_json::json!({ "destination": "x" }),
        ] {
            assert!(!all_beneath(&with(input.clone()), tree, src), "{input}");
        }
    }

    fn execute(input: Value) -> CallChange {
        CallChange { kind: Some(acp::Kind::Execute), input: Some(input), ..call(&[], &[]) }
    }

    fn consent(likeness: Option<String>, beneath: Option<&str>) -> Consent {
        Consent {
            id: ConsentId::random(),
            scope: model::ConsentScope::Session,
            approval: ApprovalId::random(),
            kind: "execute".into(),
            likeness,
            beneath: beneath.map(str::to_owned),
            left: 100,
            given_by: model::UserId::random(),
            created_at: model::Millis::default(),
            expires_at: model::Millis::default(),
            claim: String::new(),
        }
    }

    /// ADV-A02: whoever consented to a command consented to that command: whatever a shell, an environment or another spelling would make
    /// more of it is asked about.
    #[test]
    fn adv_a02_no_form_of_a_command_is_wider_than_what_was_consented_to() {
        let tree = Path::new("/w/tree");
        let allowed = execute(serde_json::json!({ "command": "git status", "cwd": "/w/tree" }));
        let same = consent(told::likeness(&allowed), None);
        assert!(covers(&same, &allowed, tree), "the same again is what was consented to");
        let forms = [
            "git status\nrm -rf src",
            "git status\r\nrm -rf src",
            "git status; rm -rf src",
            "git status && rm -rf src",
            "git status || rm -rf src",
            "git status | sh",
            "git status & rm -rf src",
            "git status `rm -rf src`",
            "git status $(rm -rf src)",
            "git status > .git/config",
            "git status < /etc/passwd",
            "git status <<END\nrm\nEND",
            "git${IFS}status",
            "git status$IFS;rm",
            "env bash -lc 'git status'",
            "bash -c 'git status'",
            "time -p git status",
            "PATH=/tmp:$PATH git status",
            "LD_PRELOAD=/tmp/x.so git status",
            "GIT_PAGER='sh -c id' git -p status",
            "PAGER=sh git status",
            "git -c core.pager=sh status",
            "git -c alias.status='!rm -rf src' status",
            "alias git=rm; git status",
            "./git status",
            "git  status",
            " git status",
            "git status ",
            "git status --porcelain",
            "git\u{a0}status",
            "g\u{456}t status",
            "git status\0",
            "git status \u{202e}",
            "eval git status",
            "xargs git status",
            "command git status",
            "\\git status",
        ];
        for form in forms {
            let other = execute(serde_json::json!({ "command": form, "cwd": "/w/tree" }));
            assert!(!covers(&same, &other, tree), "{form:?}");
        }
        for other in [
            serde_json::json!({ "command": "git status" }),
            serde_json::json!({ "command": "git status", "cwd": "/w/tree/.." }),
            serde_json::json!({ "command": "git status", "cwd": "/w/tree", "env": { "GIT_PAGER": "sh" } }),
            serde_json::json!({ "command": "git status", "cwd": "/w/tree", "stdin": "x" }),
            serde_json::json!({ "command": ["git", "status"], "cwd": "/w/tree" }),
            serde_json::json!({ "command": ["git", "status", "-s"], "cwd": "/w/tree" }),
            serde_json::json!({ "Command": "git status", "cwd": "/w/tree" }),
        ] {
            assert!(!covers(&same, &execute(other.clone()), tree), "{other}");
        }
        // Another kind of effect is another effect, and no directory holds what a program does.
        let read = CallChange { kind: Some(acp::Kind::Read), ..allowed.clone() };
        assert!(!covers(&same, &read, tree));
        let inside = CallChange { kind: Some(acp::Kind::Execute), ..call(&["/w/tree/src/a"], &[]) };
        assert!(!covers(&consent(None, Some("src")), &inside, tree));
        assert!(!covers(&consent(None, None), &allowed, tree));
    }
}
