//! The record of consents.

use super::*;

fn parse(text: &str) -> Result<Consents, String> {
    Consents::parse(text.as_bytes(), Path::new("consents")).map_err(|error| error.to_string())
}

#[test]
fn a_consent_holds_for_these_bytes_at_this_path() {
    let (hash, other) = (ContentHash::of(b"a"), ContentHash::of(b"b"));
    let path = Path::new("/home/ana/my work/.palisade/profile.toml");
    let mut consents = Consents::default();
    consents.add(hash, "2025-01-31", path).unwrap();
    let mut again = parse(&consents.to_text()).unwrap();
    assert_eq!(again, consents);
    assert!(again.holds(&hash, path));
    assert!(!again.holds(&other, path), "other bytes");
    assert!(!again.holds(&hash, Path::new("/tmp/clone/.palisade/profile.toml")), "another clone");
    again.add(other, "2025-02-01", path).unwrap();
    assert!(!again.holds(&hash, path) && again.holds(&other, path), "the newer one counts");
    assert!(again.withdraw(path) && again.all().is_empty() && !again.withdraw(path));
    assert_eq!(parse("").unwrap(), Consents::default());
}

#[test]
fn adv_a08_an_odd_record_is_refused_whole() {
    let mut good = Consents::default();
    good.add(ContentHash::of(b"a"), "2025-01-31", Path::new("/p")).unwrap();
    let text = good.to_text();
    let line = text.lines().nth(1).unwrap().to_owned();
    for (text, expected) in [
        (line.clone() + "\n", "not a record of consents of this version"),
        (format!("{text}{line}\n"), "consents:3: the same consent twice"),
        (text.trim_end().to_owned(), "cut off in the last line"),
        (format!("{text}\n"), "consents:3: expected a hash, a day and a path"),
        (
            text.replace(&line[..8], &line[..8].to_uppercase().replace(|c: char| c.is_ascii_digit(), "F")),
            "expected a SHA-256",
        ),
        (text.replace("2025-01-31", "2025-13-31"), "consents:2: expected a day"),
        (text.replace("2025-01-31", "2025-1-31"), "consents:2: expected a day"),
        (text.replace(" /p", " p"), "consents:2: expected an absolute path"),
        (text.replace(" /p", " /a/../p"), "consents:2: expected an absolute path"),
        (text.replace(" /p", "  /p"), "consents:2: expected an absolute path"),
    ] {
        let error = parse(&text).unwrap_err();
        assert!(error.contains(expected), "{text:?}: {error}");
    }
    assert!(Consents::default().add(ContentHash::of(b""), "today", Path::new("/p")).is_err());
    assert!(Consents::default().add(ContentHash::of(b""), "2025-01-31", Path::new("/p\nq")).is_err());
}
