//! A receipt as people see it.

use super::kit::receipt;
use crate::receipt::*;

#[test]
fn a_degraded_sandbox_says_so_first_and_every_fact_says_how_it_is_known() {
    let text = show(&receipt());
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("DEGRADED") && lines[0].ends_with("cgroup: no delegation"), "{text}");
    let line = |name: &str| lines.iter().find(|line| line.split_whitespace().next() == Some(name)).unwrap();
    let words = |name: &str| line(name).split_whitespace().skip(1).collect::<Vec<_>>().join(" ");
    assert_eq!(words("host_uid"), "measured 100000");
    assert_eq!(words("landlock.handled"), "applied execute, write_file");
    assert_eq!(words("network"), "probed none");
    assert_eq!(words("capabilities.effective"), "measured 0000000000000000");
    assert_eq!(words("limits.memory_bytes"), "measured 8589934592 (watched)");
    assert_eq!(words("run"), "- run_0b5c");
    assert_eq!(words("namespaces.cgroup"), "measured 17");
    assert!(!show(&Receipt { degraded: Vec::new(), ..receipt() }).contains("DEGRADED"));
    let published = vec!["3000 at 127.0.0.1:3000".into()];
    assert!(show(&Receipt { published, ..receipt() }).contains("3000 at 127.0.0.1:3000"));
    assert!(!text.contains("published"));
}

#[test]
fn nothing_that_a_terminal_acts_on_is_printed() {
    let command = vec!["\u{1b}[2J".into(), "a\nDEGRADED".into(), "\u{202e}x".into(), "\u{9b}x".into()];
    let text = show(&Receipt { command, ..receipt() });
    let plain = |symbol: char| symbol == '\n' || (!symbol.is_control() && symbol != '\u{202e}');
    assert!(text.chars().all(plain), "{text:?}");
    assert!(!text.contains("\nDEGRADED"));
}
