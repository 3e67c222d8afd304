//! A line has one spelling; what comes late is marked.

use super::*;

#[test]
fn a_late_mark_is_added_to_any_details() {
    for (body, expected) in [
        (r#""detail":{}"#, r#""detail":{"late":"true"}"#),
        (r#""detail":{"a":"b"}"#, r#""detail":{"a":"b","late":"true"}"#),
        (r#""detail":{"a":"{"}"#, r#""detail":{"a":"{","late":"true"}"#),
    ] {
        assert_eq!(String::from_utf8(mark_late(body.as_bytes())).unwrap(), expected);
    }
}

#[test]
fn upper_case_hex_and_odd_endings_are_not_a_line() {
    let good = format!("{{\"a\":1,\"mac\":\"{}\"}}", "ab".repeat(32));
    assert!(split(good.as_bytes()).is_some());
    for bad in
        [good.replace("ab", "AB"), format!("{good} "), good.replace("\"mac\"", "\"Mac\""), String::new()]
    {
        assert!(split(bad.as_bytes()).is_none(), "{bad}");
    }
}
