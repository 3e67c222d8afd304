//! SBX-09, ADV-P13: a receipt that was changed, rewritten or forged is not accepted.

use ed25519_dalek::{Signer as _, SigningKey};
use serde_json::Value;

use super::kit::{key, receipt, sealed};
use crate::receipt::*;

fn refused(text: &str) -> bool {
    Sealed::open(text, &key().verifying_key()).is_err()
}

#[test]
fn a_sealed_receipt_comes_back_as_it_was() {
    let text = sealed().to_text();
    assert_eq!(Sealed::open(&text, &key().verifying_key()).unwrap(), receipt());
    assert_eq!(sealed().to_text(), text, "the same receipt gives the same bytes");
    let again = Sealed::from_text(&text).unwrap();
    assert_eq!(
        (again.bytes(), again.signature(), again.key()),
        (sealed().bytes(), sealed().signature(), sealed().key())
    );
    assert_eq!(again.sha256(), Digest::of(text.as_bytes()));
}

#[test]
fn adv_p13_every_changed_byte_is_found() {
    let text = sealed().to_text();
    let mut bytes = text.into_bytes();
    for place in 0..bytes.len() {
        for mask in [1, 2, 0x20] {
            bytes[place] ^= mask;
            if let Ok(changed) = std::str::from_utf8(&bytes) {
                assert!(refused(changed), "byte {place}: {changed}");
            }
            bytes[place] ^= mask;
        }
    }
}

/// Every leaf of a value, by its path.
fn leaves(value: &Value, path: &str, out: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| leaves(value, &format!("{path}/{name}"), out));
        }
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(place, value)| leaves(value, &format!("{path}/{place}"), out));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => out.push(path.to_owned()),
    }
}

fn other(value: &Value) -> Value {
    match value {
        Value::Bool(it) => Value::Bool(!it),
        Value::Number(it) => (it.as_i64().unwrap() + 1).into(),
        Value::String(it) if it == "measured" => "applied".into(),
        Value::String(it) if it == "enforced" => "absent".into(),
        Value::String(it) => match (it.strip_suffix('0'), it.len()) {
            (Some(stem), 16 | 64) => format!("{stem}1").into(),
            (None, 16 | 64) => format!("{}0", &it[..it.len() - 1]).into(),
            _ => format!("{it}x").into(),
        },
        other => panic!("a receipt has no {other}"),
    }
}

/// The text with one leaf changed, in the order and form of the original.
fn with_leaf(text: &str, path: &str) -> String {
    let mut value: Value = serde_json::from_str(text).unwrap();
    let leaf = value.pointer_mut(path).unwrap();
    *leaf = other(leaf);
    // Through the typed form where it fits, so that the order is right and only the signature can tell.
    match serde_json::from_value::<Receipt>(value["receipt"].clone()) {
        Ok(receipt) => {
            let receipt = serde_json::to_string(&receipt).unwrap();
            format!("{{\"receipt\":{receipt},\"key\":{},\"sig\":{}}}\n", value["key"], value["sig"])
        }
        Err(_) => value.to_string() + "\n",
    }
}

#[test]
fn sbx_09_every_changed_field_is_found() {
    let text = sealed().to_text();
    let mut paths = Vec::new();
    leaves(&serde_json::from_str(&text).unwrap(), "", &mut paths);
    assert!(paths.len() > 80, "{}", paths.len());
    let mut forged = 0;
    for path in paths {
        let changed = with_leaf(&text, &path);
        assert_ne!(changed, text, "{path}");
        match Sealed::open(&changed, &key().verifying_key()) {
            Ok(_) => panic!("{path} was changed and accepted"),
            Err(ReceiptError::Forged) => forged += 1,
            Err(_) => {}
        }
    }
    assert!(forged > 60, "most changes are good receipts that nobody signed: {forged}");
}

#[test]
fn sbx_09_a_removed_or_added_part_is_found() {
    let text = sealed().to_text();
    for (from, to) in [
        (r#""degraded":[{"layer":"cgroup","reason":"no delegation"}]"#, r#""degraded":[]"#),
        (r#","worktree":"/home/ana/work""#, ""),
        (r#""worktree":"/home/ana/work""#, r#""worktree":null"#),
        (r#""version":1,"#, r#""version":1,"extra":true,"#),
        (r#""version":1,"#, r#""version":1,"version":1,"#),
        (r#""limits":{"#, r#""limits":{"pids":{"value":{"value":1,"by":"absent"},"how":"measured"},"#),
        (r#"["git","status"]"#, r#"["git"]"#),
        (r#"["execute","write_file"]"#, r#"["write_file","execute"]"#),
        (r#"["execute","write_file"]"#, r#"["execute","execute","write_file"]"#),
        (r#""value":true"#, r#""value": true"#),
        (
            r#""build":"0.1.0+abc","command":["git","status"]"#,
            r#""command":["git","status"],"build":"0.1.0+abc""#,
        ),
        ("\"git\"", "\"\\u0067it\""),
        ("}\n", "}"),
        ("}\n", "}\n\n"),
        ("}\n", "}\n{}"),
    ] {
        assert!(text.contains(from), "{from}");
        let changed = text.replacen(from, to, 1);
        assert!(refused(&changed), "{from} -> {to}");
    }
    assert!(refused(""));
    assert!(refused(&" ".repeat(300_000)));
}

#[test]
fn adv_p13_a_forged_receipt_fails_verification() {
    let thief = SigningKey::from_bytes(&[6; 32]);
    let theirs = receipt().seal(&thief).unwrap();
    let refused = theirs.verify(&key().verifying_key()).unwrap_err();
    assert!(matches!(refused, ReceiptError::OtherKey { .. }), "{refused}");

    let ours = sealed();
    let renamed = theirs.to_text().replace(theirs.key(), ours.key());
    let refused = Sealed::open(&renamed, &key().verifying_key()).unwrap_err();
    assert!(matches!(refused, ReceiptError::Forged), "{refused}");

    // The same key signed the same bytes for another purpose.
    let bare = hex::encode(key().sign(ours.bytes()).to_bytes());
    let moved = ours.to_text().replace(&hex::encode(ours.signature()), &bare);
    assert!(matches!(Sealed::open(&moved, &key().verifying_key()), Err(ReceiptError::Forged)));
}

#[test]
fn what_is_published_is_signed_and_nothing_is_written_in_one_way_only() {
    let published = Receipt { published: vec!["3000 at 127.0.0.1:3000".into()], ..receipt() };
    let text = published.seal(&key()).unwrap().to_text();
    assert!(Sealed::open(&text, &key().verifying_key()).is_ok());
    let moved = text.replace("127.0.0.1:3000", "127.0.0.1:3001");
    assert!(Sealed::open(&moved, &key().verifying_key()).is_err());
    // A receipt from before there was the field is still one; an empty list is another way to write the same.
    let none = sealed().to_text();
    assert!(!none.contains("published"));
    assert!(Sealed::from_text(&none.replace(r#""facts":"#, r#""published":[],"facts":"#)).is_err());
}

#[test]
fn egr_19_which_rules_held_is_signed_and_told() {
    let (one, other) = (Digest::of(b"one set"), Digest::of(b"another"));
    let with = Receipt { rules: Some(one), ..receipt() };
    let text = with.clone().seal(&key()).unwrap().to_text();
    assert!(Sealed::open(&text, &key().verifying_key()).is_ok());
    assert!(
        Sealed::open(&text.replace(&one.to_string(), &other.to_string()), &key().verifying_key()).is_err()
    );
    assert!(show(&with).contains(&one.to_string()));
    assert!(!sealed().to_text().contains("rules"));
}

#[test]
fn another_version_says_so() {
    let text = sealed().to_text().replace(r#""version":1,"#, r#""version":2,"new":{},"#);
    assert!(matches!(Sealed::from_text(&text), Err(ReceiptError::Version(2))));
    let early = Receipt { version: 0, ..receipt() };
    assert!(matches!(early.seal(&key()), Err(ReceiptError::Version(0))));
    let long = Receipt { command: vec!["x".repeat(300_000)], ..receipt() };
    assert!(matches!(long.seal(&key()), Err(ReceiptError::TooLong)));
}

#[test]
fn a_run_id_has_one_form() {
    for good in ["run_a", "run_0b5c-4f", &format!("run_{}", "a".repeat(60))] {
        assert_eq!(good.parse::<RunId>().unwrap().as_str(), good);
    }
    for bad in ["", "run_", "ses_a", "run_A", "run_a/b", "run_ä", &format!("run_{}", "a".repeat(61))] {
        assert!(bad.parse::<RunId>().is_err(), "{bad}");
    }
}
