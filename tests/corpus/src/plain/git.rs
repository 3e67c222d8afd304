//! What git prints.

use super::lines;
use crate::dice::Dice;
use crate::words::capital;

pub(crate) fn log(dice: &mut Dice) -> String {
    match dice.below(3) {
        0 => lines(dice, 4, 12, |dice| format!("{} {}", dice.hex(7), dice.sentence())),
        1 => lines(dice, 1, 4, |dice| {
            let (who, sha) = (dice.person(), dice.hex(40));
            let merge = if dice.one_in(3) {
                format!("Merge: {} {}\n", dice.hex(9), dice.hex(9))
            } else {
                String::new()
            };
            format!(
                "commit {sha}\n{merge}Author: {} <{who}@example.org>\nDate:   Mon Feb 3 10:{:02}:{:02} 2031 +0100\n\n    {}\n\n    {}\n    Change-Id: I{}\n",
                capital(who),
                dice.below(60),
                dice.below(60),
                dice.sentence(),
                dice.paragraph(),
                dice.hex(40)
            )
        }),
        _ => lines(dice, 3, 8, |dice| {
            format!(
                "{} HEAD@{{{}}}: {}: {}",
                dice.hex(9),
                dice.below(99),
                dice.pick(&["commit", "rebase (pick)", "checkout"]),
                dice.sentence()
            )
        }),
    }
}

pub(crate) fn diff(dice: &mut Dice) -> String {
    let path = dice.path();
    let (a, b) = (dice.hex(7), dice.hex(7));
    let body = lines(dice, 4, 12, |dice| {
        let (sign, snake, camel) = (dice.pick(&[" ", "+", "-"]), dice.snake(2), dice.camel(3));
        match dice.below(7) {
            0 => format!("{sign}    let {snake} = {snake}.{camel}(&key)?;"),
            1 => format!("{sign}    token: Option<String>,"),
            2 => format!("{sign}    if password.is_empty() {{"),
            3 => format!("{sign}        self.{snake}.insert(token.id(), {});", dice.noun()),
            4 => format!("{sign}  \"{snake}\": \"{}\",", dice.kebab(2)),
            5 => format!("{sign}    // {}", dice.sentence()),
            _ => format!("{sign}    return {camel}({snake}, secret);"),
        }
    });
    format!(
        "diff --git a/{path} b/{path}\nindex {a}..{b} 100644\n--- a/{path}\n+++ b/{path}\n@@ -{},7 +{},9 @@ fn {}() {{\n{body}",
        dice.below(900),
        dice.below(900),
        dice.snake(2)
    )
}

pub(crate) fn plumbing(dice: &mut Dice) -> String {
    match dice.below(5) {
        0 => lines(dice, 3, 8, |dice| format!("100644 blob {}\t{}", dice.hex(40), dice.path())),
        1 => lines(dice, 3, 8, |dice| format!("{}\trefs/heads/{}", dice.hex(40), dice.kebab(2))),
        2 => lines(dice, 3, 8, |dice| {
            format!(
                "{} ({:<7} 2031-02-03 10:14:{:02} +0100 {:>3})     {}();",
                dice.hex(8),
                dice.person(),
                dice.below(60),
                dice.below(900),
                dice.snake(2)
            )
        }),
        3 => lines(dice, 3, 8, |dice| {
            format!(" {} | {} {}", dice.path(), dice.below(90), "+".repeat(dice.between(1, 20)))
        }),
        // The newer object format.
        _ => lines(dice, 2, 6, |dice| {
            format!(
                "tree {}\nparent {}\nauthor {} <{}@example.org> 1{} +0100",
                dice.hex(64),
                dice.hex(64),
                dice.person(),
                dice.person(),
                dice.digits(9)
            )
        }),
    }
}
