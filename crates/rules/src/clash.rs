//! Finds rules that contradict each other.
//!
//! Each rule is held against the sites that cover its whole pattern, which are found by suffix; so a large set costs no
//! more per rule than a small one.

use crate::build::Checked;
use crate::fault::What;
use crate::rule::{Access, Rule};
use crate::set::Set;
use crate::site::Site;

/// Everything that one rule says and another takes back.
pub(crate) fn find(set: &Set, checked: &[Checked]) -> Vec<(usize, What)> {
    let mut found = Vec::new();
    for one in checked {
        let Some(index) = usize::try_from(one.index).ok() else { continue };
        let Some(rule) = set.rules.get(index) else { continue };
        for port in &rule.ports {
            for site in set.covering(&one.host, *port) {
                found.extend(between(rule, index, site));
            }
        }
    }
    let mut told = Vec::with_capacity(found.len());
    for fault in found {
        if !told.contains(&fault) {
            told.push(fault);
        }
    }
    told
}

/// What a rule and a site that covers it have against each other. The rule that is to be changed is named first.
fn between(rule: &Rule, index: usize, site: &Site) -> Option<(usize, What)> {
    let place = |rule: Option<u32>| rule.and_then(|rule| usize::try_from(rule).ok());
    // A deny with limits that nobody could see would not be one.
    if rule.access == Some(Access::Pass)
        && let Some(deny) = place(site.deny.limited)
    {
        return Some((index, What::PassAndInspect(deny)));
    }
    if !rule.deny
        && rule.address.is_none()
        && let Some(told) = place(site.pinned.values().next().copied())
    {
        return Some((index, What::AddressMissing(told)));
    }
    // Beside a rule that tells the address, a wildcard allows nothing.
    if rule.address.is_some() && site.pinned.is_empty() {
        return None;
    }
    if rule.access == Some(Access::Pass) {
        return None;
    }
    let looks = rule.has_limits() || rule.access == Some(Access::Inspect);
    if !looks {
        return None;
    }
    if let Some(pass) = place(site.pass) {
        return Some((pass, What::PassAndInspect(index)));
    }
    match place(site.allow.whole) {
        Some(whole) if whole != index && !rule.deny && rule.has_limits() => Some((index, What::Void(whole))),
        Some(_) | None => None,
    }
}
