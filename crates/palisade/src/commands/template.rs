//! Policy templates: sets of `forbid` policies that are shipped, and are put in force like any other policy.
//!
//! A set is taken whole or not at all: every statement forbids and has a name of its own. Because nothing
//! in a set permits, no two of its rules can contradict each other; where they overlap, the strictest wins.
//! Not here: what a policy means (the daemon checks each against its schema before it takes it).

use api::{Client, Policy};
use serde::Serialize;

use crate::cli::Template;
use crate::failure::Failure;
use crate::output::{Shown, table};
use crate::session::Session;

/// Name and text of every template, strictest first.
const TEMPLATES: [(&str, &str); 3] = [
    ("strict", include_str!("../../../../policies/templates/strict.cedar")),
    ("balanced", include_str!("../../../../policies/templates/balanced.cedar")),
    ("permissive", include_str!("../../../../policies/templates/permissive.cedar")),
];

/// One rule of a set.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Rule {
    id: String,
    text: String,
}

pub(super) fn run(session: &Session, command: &Template) -> Result<Shown, Failure> {
    match command {
        Template::List => list(),
        Template::Show { name } => {
            let text = template(name)?;
            let rules = rules(name, text)?;
            Ok(Shown::new(&serde_json::json!({ "name": name, "text": text, "policies": rules }), text))
        }
        Template::Apply { name } => apply(&session.client()?, name),
    }
}

fn list() -> Result<Shown, Failure> {
    let mut rows = Vec::new();
    let mut json = Vec::new();
    for (name, text) in TEMPLATES {
        let about = text.lines().next().unwrap_or_default().trim_start_matches("// ");
        let about = about.split_once(": ").map_or(about, |(_, about)| about);
        let count = rules(name, text)?.len();
        rows.push(vec![name.to_owned(), count.to_string(), about.to_owned()]);
        json.push(serde_json::json!({ "name": name, "policies": count, "about": about }));
    }
    Ok(Shown::new(&json, table(&["NAME", "POLICIES", "ABOUT"], &rows)))
}

fn template(name: &str) -> Result<&'static str, Failure> {
    let found = TEMPLATES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
    found.ok_or_else(|| {
        Failure::NotFound(format!("there is no template `{name}`; see `palisade policy template list`"))
    })
}

/// Puts a template in force: what is in force already stays, and nothing begins before all of it fits.
fn apply(client: &Client, name: &str) -> Result<Shown, Failure> {
    let wanted = rules(name, template(name)?)?;
    let missing = missing(&wanted, &client.policies()?.items)?;
    for rule in &missing {
        client.add_policy(&rule.id, &rule.text)?;
    }
    let ids = |rules: &[&Rule]| rules.iter().map(|rule| rule.id.clone()).collect::<Vec<_>>();
    let kept: Vec<&Rule> = wanted.iter().filter(|rule| !missing.contains(rule)).collect();
    let result = serde_json::json!({ "template": name, "added": ids(&missing), "kept": ids(&kept) });
    let text = match (missing.len(), kept.len()) {
        (0, 0) => format!("template {name} forbids nothing; nothing was changed\n"),
        (0, _) => format!("template {name} is in force already\n"),
        (added, _) => {
            format!(
                "template {name} is in force; {added} policies were added:\n  {}\n",
                ids(&missing).join("\n  ")
            )
        }
    };
    Ok(Shown::new(&result, text))
}

/// The rules that are not in force yet. A name that stands for something else refuses the whole set.
fn missing<'a>(wanted: &'a [Rule], in_force: &[Policy]) -> Result<Vec<&'a Rule>, Failure> {
    let mut missing = Vec::new();
    for rule in wanted {
        match in_force.iter().find(|policy| policy.id == rule.id) {
            None => missing.push(rule),
            Some(policy) if bare(&policy.text) == bare(&rule.text) => {}
            Some(_) => {
                return Err(Failure::Usage(format!(
                    "there is another policy `{}` in force; remove it first, nothing was changed",
                    rule.id
                )));
            }
        }
    }
    Ok(missing)
}

/// The rules of a set, each named `<template>-<its @id>`; or why the set is not taken.
fn rules(name: &str, text: &str) -> Result<Vec<Rule>, Failure> {
    let refused = |why: String| Failure::Usage(format!("template `{name}` is not taken: {why}"));
    let mut rules: Vec<Rule> = Vec::new();
    for statement in statements(text).map_err(|why| refused(why.into()))? {
        let parts = statement.strip_prefix("@id(\"").and_then(|rest| rest.split_once("\")"));
        let (id, body) = parts.ok_or_else(|| refused("a statement has no `@id`".into()))?;
        if !body.trim_start().starts_with("forbid") {
            return Err(refused(format!("`{id}` does not forbid")));
        }
        let id = format!("{name}-{id}");
        if rules.iter().any(|rule| rule.id == id) {
            return Err(refused(format!("`{id}` stands there twice")));
        }
        rules.push(Rule { id, text: body.trim().to_owned() });
    }
    Ok(rules)
}

/// Statements of Cedar without comments, each up to and with its `;`. Strings are left as they are.
fn statements(text: &str) -> Result<Vec<String>, &'static str> {
    let mut found = Vec::new();
    let mut one = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '/' if chars.peek() == Some(&'/') => while chars.next_if(|c| *c != '\n').is_some() {},
            '"' => {
                one.push(c);
                loop {
                    let inside = chars.next().ok_or("a string does not end")?;
                    one.push(inside);
                    match inside {
                        '\\' => one.extend(chars.next()),
                        '"' => break,
                        _ => {}
                    }
                }
            }
            ';' => {
                one.push(c);
                found.push(std::mem::take(&mut one).trim().to_owned());
            }
            _ => one.push(c),
        }
    }
    if one.trim().is_empty() { Ok(found) } else { Err("the last statement does not end") }
}

/// A statement without what does not matter: comments and space.
fn bare(text: &str) -> String {
    let whole = statements(text).unwrap_or_else(|_| vec![text.to_owned()]);
    whole.concat().split_whitespace().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(text: &str) -> Result<Vec<String>, String> {
        let rules = rules("t", text).map_err(|failure| failure.to_string())?;
        Ok(rules.into_iter().map(|rule| rule.id).collect())
    }

    #[test]
    fn acc_28_the_shipped_templates_can_be_taken() {
        let count = |name: &str| rules(name, template(name).unwrap()).unwrap().len();
        assert!(count("strict") > count("balanced"));
        assert!(count("balanced") > count("permissive"));
        assert_eq!(count("permissive"), 0);
        assert!(template("lax").is_err());
    }

    #[test]
    fn acc_28_a_set_is_taken_whole_or_not_at_all() {
        let forbid = "forbid (principal, action, resource);";
        assert_eq!(ids(&format!("@id(\"a\") {forbid} @id(\"b\") {forbid}")).unwrap(), ["t-a", "t-b"]);
        for (text, expected) in [
            (format!("@id(\"a\") {forbid} @id(\"a\") {forbid}"), "twice"),
            (
                format!("@id(\"a\") {forbid} @id(\"b\") permit (principal, action, resource);"),
                "does not forbid",
            ),
            (format!("@id(\"a\") {forbid} {forbid}"), "no `@id`"),
            (format!("@id(\"a\") {forbid} @id(\"b\") forbid (principal"), "does not end"),
            ("@id(\"a\") forbid (principal == User::\"x".to_owned(), "string does not end"),
        ] {
            let error = ids(&text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_semicolon_in_a_string_or_a_comment_ends_nothing() {
        let text = "// one; two\n@id(\"a\")\nforbid (principal == User::\"x;\\\"//y\", action, resource); // three;\n";
        let found = rules("t", text).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].text, "forbid (principal == User::\"x;\\\"//y\", action, resource);");
        assert!(ids("// nothing; at all\n").unwrap().is_empty());
    }

    #[test]
    fn acc_28_what_is_in_force_is_not_added_twice_and_never_replaced() {
        let wanted = rules("t", "@id(\"a\") forbid (principal, action, resource);").unwrap();
        let policy = |text: &str| Policy { id: "t-a".into(), effect: "forbid".into(), text: text.into() };
        assert_eq!(missing(&wanted, &[]).unwrap().len(), 1);
        assert!(
            missing(&wanted, &[policy("forbid(\n  principal,\n  action, resource\n);")]).unwrap().is_empty()
        );
        let other = "forbid (principal, action, resource) when { context.via == \"key\" };";
        assert!(missing(&wanted, &[policy(other)]).is_err());
    }
}
