//! SEC-12 and SEC-13: the ways in which programs and people write secrets down.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;
#[path = "common/streamed.rs"]
mod streamed;
#[path = "common/writings.rs"]
mod writings;

use common::{KEPT, SECRETS, SHAPES};
use proptest::prelude::*;
use redact::Redactor;
use streamed::streamed;
use writings::{KEPT_TOO, WRITINGS};

/// A key that nobody has, in lines of 64.
const BODY: &[&str] = &[
    "MIIEowIBAAKCAQEAxgNSAa7XVwVh3b1zJ8pQ9rStUvWxYzAbCdEfGhIjKlMnOpQr",
    "/mr+I7jKXuTG4OYEuPMZvB3dE6gH9kWcXe5Lq2Nn8Ts0Uy7Vb4Rf1Pj6Md3Kz9Ho",
    "Qy7Vb4Rf1Pj6Md3Kz9HorQpOnMlKjIhGfEdCbAzYxWvUtSr9Qp8Jz1b3hVwVX7aA",
    "SNgxAEQACKAABIwoEIIMr5Tz2Wq8Lp4Xc6Vn1Bm3Kj7Hg9Fd0Sa5Qw2Er4Ty6Ui8",
    "Op0As1Df3Gh5Jk7Lz9Xc==",
];

/// Every way in which a key block is written, with and without its first line.
fn blocks() -> Vec<String> {
    let lines: Vec<&str> =
        [&["-----BEGIN RSA PRIVATE KEY-----"], BODY, &["-----END RSA PRIVATE KEY-----"]].concat();
    let cut = [lines.clone(), lines.iter().copied().skip(1).collect()];
    let cut = cut.into_iter().flat_map(|lines| {
        let open = lines.split_last().map_or(Vec::new(), |(_, open)| open.to_vec());
        [lines, open]
    });
    cut.flat_map(|lines| written(&lines)).collect()
}

/// The lines of a block, in every way.
fn written(lines: &[&str]) -> Vec<String> {
    let joined = |lines: &[&str], before: &str, after: &str| -> String {
        lines.iter().map(|line| format!("{before}{line}{after}")).collect()
    };
    let mut all = Vec::new();
    for (before, after) in [
        ("", "\n"),
        ("", "\r\n"),
        ("> ", "\n"),
        ("| ", "\n"),
        ("+", "\n"),
        ("+ ", "\n"),
        ("- ", "\n"),
        ("-", "\n"),
        ("    ", "\n"),
        ("\t", "\n"),
        ("# ", "\n"),
        ("// ", "\n"),
        (" * ", "\n"),
        ("      12 | ", "\n"),
        ("2031-02-03T10:14:15Z INFO key: ", "\n"),
        ("  \"", "\",\n"),
        ("\"", "\\n\" +\n"),
        ("", "\\n"),
        ("", "\\\\n"),
        ("", "\\r\\n"),
        ("", "&#10;"),
        ("", "&#xA;"),
        ("", "&#xa;"),
        ("", "&#13;&#10;"),
        ("", "&#xD;\n"),
        ("", "<br>\n"),
        ("", " "),
    ] {
        all.push(joined(lines, before, after));
    }
    let numbered: Vec<String> =
        lines.iter().enumerate().map(|(at, line)| format!("{:>6}\t{line}\n", at + 8)).collect();
    all.push(numbered.concat());
    all.push(joined(lines, "", "\n").replace("-----", "----"));
    all.push(joined(lines, "", "\n").replace("-----BEGIN", "---- BEGIN").replace("-----END", "---- END"));
    all.push(joined(lines, "", "\n").replace("BEGIN RSA PRIVATE KEY", "begin rsa private key"));
    all.push(format!("private_key: |\n{}other: 1\n", joined(lines, "  ", "\n")));
    all.push(format!("<key>{}</key>\n", joined(lines, "", "\n").trim_end()));
    all.push(format!("{{\"private_key\":\"{}\",\"a\":1}}", joined(lines, "", "\\n")));
    all.push(format!("{{\"text\":\"{{\\\"pem\\\":\\\"{}\\\"}}\"}}", joined(lines, "", "\\\\n")));
    all
}

#[test]
fn sec_12_a_key_block_is_masked_however_its_lines_are_written() {
    let redactor = Redactor::new();
    let mut missed = Vec::new();
    for text in blocks() {
        let scrubbed = redactor.scrub(&text).into_owned();
        let left = BODY.iter().filter(|line| {
            line.as_bytes().windows(8).any(|part| scrubbed.contains(std::str::from_utf8(part).unwrap()))
        });
        let left: Vec<_> = left.collect();
        if !left.is_empty() {
            missed.push(format!("{text:?}\n  gave {scrubbed:?}"));
        }
    }
    assert!(missed.is_empty(), "{}:\n{}", missed.len(), missed.join("\n"));
}

#[test]
fn sec_12_a_key_block_whose_first_line_holds_something_unseen_is_masked() {
    let redactor = Redactor::new();
    let first = "-----BEGIN RSA PRIVATE KEY-----";
    for unseen in ["\u{200b}", "\u{ad}", "\u{feff}", "\u{1b}[1m", "\u{200b} ", " \u{200b}\u{ad} "] {
        // Blanks stand between words only.
        let is_blank = |place: &usize| first.as_bytes()[*place] == b' ';
        for place in (1..first.len()).filter(|place| !unseen.contains(' ') || is_blank(place)) {
            let (a, b) = first.split_at(place);
            // The last line of a key is too short to be known by its look.
            let text = format!("{a}{unseen}{b}\n{}\n-----END RSA PRIVATE KEY-----\nafter\n", BODY.join("\n"));
            let scrubbed = redactor.scrub(&text);
            assert!(!scrubbed.contains("Op0As1Df3Gh5"), "{text:?}\n{scrubbed:?}");
            assert!(scrubbed.ends_with("after\n"), "{scrubbed:?}");
            for at in (0..text.len()).step_by(7) {
                let (a, b) = text.as_bytes().split_at(at);
                assert_eq!(streamed(&redactor, [a, b]), scrubbed.as_bytes(), "{at}: {text:?}");
            }
            assert_eq!(redactor.scrub(&scrubbed), scrubbed);
        }
    }
}

#[test]
fn sec_15_a_line_before_it_does_not_change_how_a_line_with_something_unseen_is_read() {
    let redactor = Redactor::new();
    for line in ["password\u{200b} = hunter2abcX\n", "token \u{200b}= hunter2abcX\n"] {
        let text = format!("BEGIN\n{line}");
        let whole = format!("BEGIN\n{}", redactor.scrub(line));
        assert_eq!(redactor.scrub(&text), whole);
        for at in 0..text.len() {
            let (a, b) = text.as_bytes().split_at(at);
            assert_eq!(streamed(&redactor, [a, b]), whole.as_bytes(), "{at}: {text:?}");
        }
    }
}

#[test]
fn sec_15_a_key_block_begun_by_something_unseen_goes_on_however_many_lines_come_at_once() {
    let redactor = Redactor::new();
    let (key, last) = ("MIIEowIBAAKCAQEAabcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKL", "abcdEFGH1234");
    for end in ["---Z--END RSA PRIVATE KEY-----\nsha256: && ", "", "-----END RSA PRIVATE KEY-----\n"] {
        let text = format!(
            "\"https://h/x?jwt,sdkfjhKJHSDF837423kjhSDKJFH{{\"data:image/png;base64,+password for ana</-----BEGIN \u{200b}RSA PRIVATE KEY-----\n{key}\n{last}\n{end}token2   :   -----BEGIN RSA PRIVATE KEY-----\n{key}\nabcd-H \""
        );
        let whole = redactor.scrub(&text);
        assert!(!whole.contains(&key[..8]) && !whole.contains(last), "{whole:?}");
        for at in 0..=text.len() {
            let (a, b) = text.as_bytes().split_at(at);
            assert_eq!(streamed(&redactor, [a, b]), whole.as_bytes(), "{at}: {text:?}");
        }
        assert_eq!(streamed(&redactor, text.as_bytes().chunks(1)), whole.as_bytes());
    }
}

#[test]
fn sec_13_a_certificate_stays_however_its_lines_are_written() {
    let redactor = Redactor::new();
    let body: Vec<String> =
        BODY.iter().map(|line| line.replace("MIIEowIBAAKCAQEA", "MIIDdzCCAl+gAwIB")).collect();
    let body: Vec<&str> = body.iter().map(String::as_str).collect();
    let lines = [&["-----BEGIN CERTIFICATE-----"], &body[..], &["-----END CERTIFICATE-----"]].concat();
    let mut touched = Vec::new();
    for text in written(&lines).into_iter().filter(|text| !text.contains("private_key")) {
        let scrubbed = redactor.scrub(&text).into_owned();
        if scrubbed != text {
            touched.push(format!("{text:?}\n  gave {scrubbed:?}"));
        }
    }
    assert!(touched.is_empty(), "{}:\n{}", touched.len(), touched.join("\n"));
}

/// Names and values right behind a key block or before it, and values below a name that hold names of their own.
fn glued() -> Vec<String> {
    let lines = BODY.join("\n");
    let key = format!("-----BEGIN RSA PRIVATE KEY-----\n{lines}\n-----END RSA PRIVATE KEY-----");
    let public = format!("-----BEGIN CERTIFICATE-----\n{lines}\n-----END CERTIFICATE-----");
    let value = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    let mut all = Vec::new();
    for block in [key, public] {
        all.push(format!("{block}token: |\n  abcdef123456\n  q8w7e6r5t4\nnext: 1\n"));
        all.push(format!("{block}secret:\n  {value}\n"));
        all.push(format!("{block} api_token: \n  {value}\n"));
        all.push(format!("{block}\"password:\n  {value}\n"));
        all.push(format!("{block}\"- i_token: \n  - {value}\n"));
        all.push(format!("password:\n  vapi_key=\"{block}\n"));
        all.push(format!("api_key: |\n  v{block}token:~\n"));
        all.push(format!("ghp_16C7e42F292c6912E7710c838347Ae178B4a{block}\n"));
        all.push(format!("api_token: \n  {value}{block}\n"));
        all.push(format!("api_tokens:\n  - {value}{block}\n"));
    }
    // A mark that stands where no value of the name above would.
    all.push("api_key: |\nghp_16C7e42F292c6912E7710c838347Ae178B4a\n \\n".to_owned());
    all.push(format!("i_token: \n  {value}${{DB_PASSWORD:-hunter2hunter}}: "));
    all.push(format!("password:\n  {value}api_key=api_key=: "));
    // A mark that something stands beside.
    all.push("PASSWORD: [\n  abc8Q~abcdefghijklmnopqrstuvwxyz.01234567890diff --git\n+PHPSESSID=>0123456789abcdef01234567889abcdef".to_owned());
    all
}

#[test]
fn sec_12_a_value_below_a_name_that_is_glued_to_a_key_block_is_masked() {
    let redactor = Redactor::new();
    for text in glued() {
        let scrubbed = redactor.scrub(&text);
        let left =
            ["9f86d081", "q8w7e6r5", "hunter2", "16C7e42F"].iter().find(|part| scrubbed.contains(**part));
        assert_eq!(left, None, "{text:?}\n{scrubbed:?}");
    }
}

#[test]
fn sec_15_however_it_is_written_a_cut_changes_nothing_and_masking_twice_is_masking_once() {
    let redactor = Redactor::new();
    let all = WRITINGS.iter().map(|(text, _)| (*text).to_owned());
    let kept = KEPT_TOO.iter().map(|text| (*text).to_owned());
    for text in all.chain(kept).chain(blocks()).chain(glued()) {
        let whole = redactor.scrub_bytes(text.as_bytes()).into_owned();
        for at in (0..text.len()).step_by(1 + text.len() / 100) {
            let (a, b) = text.as_bytes().split_at(at);
            assert_eq!(streamed(&redactor, [a, b]), whole, "{at}: {text:?}");
        }
        assert_eq!(streamed(&redactor, text.as_bytes().chunks(1)), whole, "{text:?}");
        let twice = redactor.scrub_bytes(&whole);
        assert_eq!(twice, whole, "{text:?}\n{}\n{}", whole.escape_ascii(), twice.escape_ascii());
    }
}

#[test]
fn sec_12_however_a_secret_is_written_it_is_masked() {
    let redactor = Redactor::new();
    let mut missed = Vec::new();
    for (text, gone) in WRITINGS {
        let scrubbed = redactor.scrub(text);
        if gone.iter().any(|secret| scrubbed.contains(secret)) {
            missed.push(format!("{text:?}\n  gave {scrubbed:?}"));
        }
    }
    assert!(missed.is_empty(), "{} of {}:\n{}", missed.len(), WRITINGS.len(), missed.join("\n"));
}

#[test]
fn sec_13_what_looks_so_and_is_no_secret_stays() {
    let redactor = Redactor::new();
    let mut touched = Vec::new();
    for text in KEPT_TOO {
        let scrubbed = redactor.scrub(text);
        if scrubbed != *text {
            touched.push(format!("{text:?}\n  gave {scrubbed:?}"));
        }
    }
    assert!(touched.is_empty(), "{} of {}:\n{}", touched.len(), KEPT_TOO.len(), touched.join("\n"));
}

#[test]
fn sec_15_what_stands_in_the_next_line_decides_nothing_about_this_one() {
    let redactor = Redactor::new();
    for text in ["tokens = abc\nNext Line 1\n", "jwts:=b\n2\n", "AUTH=[\"A321bcdefghijk\n,xyzzy\n"] {
        let whole = redactor.scrub(text).into_owned();
        let parts = text.split_inclusive('\n').map(str::as_bytes);
        assert_eq!(streamed(&redactor, parts), whole.as_bytes(), "{text:?}");
        assert!(whole.contains("***"), "{whole:?}");
    }
}

#[test]
fn sec_12_a_secret_far_behind_in_a_list_is_found() {
    let redactor = Redactor::new();
    let others = "\"alpha\", ".repeat(14);
    for name in ["tokens: ", "auth=", "passwords:", "apikeys: "] {
        let text = format!("{name}[{others}\"qwertyuiopasdfghjklzxcvbnmqwerty4f8a1b2c3d\"]");
        assert!(!redactor.scrub(&text).contains("qwertyuiop"), "{text}");
    }
}

#[test]
fn sec_12_a_value_below_its_name_is_masked_however_long_its_line_is() {
    let redactor = Redactor::new();
    let secret = "fd6754a2e5d819f865bde4b3eed5977492c3e3acdd4484bfc21b54585041725f";
    for length in [0, 900, 1_000, 2_000, 10_000] {
        let rest = "words ".repeat(length / 6);
        for text in [
            format!("<key>static_private_key</key>\n<string>{secret}</string>{rest}\n"),
            format!("- name: DB_PASSWORD\n  value: {secret} {rest}\n"),
        ] {
            assert!(!redactor.scrub(&text).contains(secret), "{length}: {text}");
        }
    }
}

proptest! {
    #![proptest_config(streamed::the_same_each_time(1_000))]

    #[test]
    fn sec_15_any_of_them_together_cut_anywhere_gives_the_same_and_masking_twice_is_masking_once(
        picks in proptest::collection::vec((0..1_000_usize, 0..30_usize, 0..30_usize, 0..7_usize), 1..10),
        cuts in proptest::collection::vec(0..500_usize, 0..8),
    ) {
        let redactor = Redactor::new();
        let pool = WRITINGS.iter().map(|(text, _)| *text).chain(KEPT_TOO.iter().copied()).chain(KEPT.iter().copied());
        let shapes = SHAPES.iter().map(|(s, ..)| *s);
        // A block that loses its first or last mark to a neighbour is another text: blocks have tests of their own.
        let pool: Vec<&str> = pool
            .chain(SECRETS.iter().map(|(_, s)| *s))
            .chain(shapes)
            .filter(|piece| !piece.contains("----"))
            .collect();
        let mut text = Vec::new();
        for (pick, skip, take, join) in picks {
            let piece = pool[pick % pool.len()].as_bytes();
            let piece = &piece[skip.min(piece.len() / 2)..];
            text.extend_from_slice(&piece[..piece.len() - take.min(piece.len() / 2)]);
            text.extend_from_slice([&b""[..], b"\n", b"\n", b"\n  ", b"\n- ", b" ", b": "][join]);
        }
        let whole = redactor.scrub_bytes(&text).into_owned();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let parts = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]);
        prop_assert_eq!(&streamed(&redactor, parts), &whole, "{}", text.escape_ascii());
        let twice = redactor.scrub_bytes(&whole).into_owned();
        prop_assert!(twice == whole, "{}\n{}\n{}", text.escape_ascii(), whole.escape_ascii(), twice.escape_ascii());
    }
}
