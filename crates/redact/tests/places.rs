//! SEC-14: home paths lose the user's name, people's data goes on request, places are told without what stands there.

mod common;

use common::{KEPT, SECRETS};
use proptest::prelude::*;
use redact::{Place, Redactor, Search};

#[test]
fn sec_14_home_paths_lose_the_name() {
    let redactor = Redactor::new().with_home(b"/data/people/ana/");
    for (text, expected) in [
        ("/home/ana/src/x.rs", "~/src/x.rs"),
        ("at /home/ana: no", "at ~/: no"),
        ("cd /home/ana", "cd ~/"),
        ("/home/ana.", "~/."),
        ("/Users/Ana Maria/x", "~/x"),
        ("see /Users/Ana Maria López/Foo Bar/x.", "see ~/Foo Bar/x."),
        ("/Users/José da Silva/x", "~/x"),
        ("cd /Users/Ana\\ Maria/x", "cd ~/x"),
        ("\"/Users/ana maria/x\"", "\"~/x\""),
        ("'/home/ana maria'", "'~/'"),
        ("{\"cwd\":\"/Users/Ana Maria\"}", "{\"cwd\":\"~/\"}"),
        ("C:\\Users\\ana maria\\x", "~/x"),
        ("\"C:\\\\Users\\\\Ana Maria\\\\x\"", "\"~/x\""),
        ("\\\\server\\Users\\Ana Maria\\x", "~/x"),
        ("cp /Users/ana src/x", "cp ~/ src/x"),
        ("cp /Users/Ana src/x", "cp ~/ src/x"),
        ("/Users/ana and /Users/bob/x", "~/ and ~/x"),
        ("/Users/Ana has no file here", "~/ has no file here"),
        ("'/Users/ana' and 'b/c'", "'~/' and 'b/c'"),
        ("file:///Users/ana/x", "file://~/x"),
        ("PATH=/usr/bin:/home/ana/bin:/root/bin", "PATH=/usr/bin:~/bin:~/bin"),
        ("/root/.ssh/id_rsa", "~/.ssh/id_rsa"),
        ("ls /root", "ls ~/"),
        ("C:\\Users\\ana\\x", "~/x"),
        ("\"C:\\\\Users\\\\ana\\\\x\"", "\"~/x\""),
        ("d:\\users\\ana", "~/"),
        ("\\\\server\\Users\\ana\\x", "~/x"),
        ("~ana/x", "~/x"),
        ("~/x", "~/x"),
        ("/data/people/ana/x", "~/x"),
        ("/data/people/anabel/x", "/data/people/anabel/x"),
        ("/var/home/ana/x", "~/x"),
        ("/mnt/c/Users/ana/x", "~/x"),
        ("/home/jürgen/x", "~/x"),
        ("{\"cwd\":\"/home/ana/x\"}", "{\"cwd\":\"~/x\"}"),
        ("src/home/index.js", "src/home/index.js"),
        ("/rootfs/x /roots", "/rootfs/x /roots"),
        ("chroot/root/x", "chroot/root/x"),
        ("HEAD~3 ~5ms a~b/c", "HEAD~3 ~5ms a~b/c"),
        ("https://x.org/home/", "https://x.org/home/"),
        ("/home/", "/home/"),
    ] {
        assert_eq!(redactor.scrub(text), expected, "{text}");
    }
    assert_eq!(Redactor::new().scrub("/home/ana/x"), "/home/ana/x");
}

#[test]
fn sec_12_personal_data_is_masked_on_request() {
    let redactor = Redactor::new().with_personal_data();
    for (text, expected) in [
        ("mail ana.b+c@example.org, please", "mail ***, please"),
        ("card 4111 1111 1111 1111 exp", "card *** exp"),
        ("card 4111111111111111.", "card ***."),
        ("5500-0000-0000-0004", "***"),
        ("card 4111 1111 1111 1112 exp", "card 4111 1111 1111 1112 exp"),
        ("call +49 30 1234567 now", "call *** now"),
        ("(212) 555-0123", "***"),
        ("212-555-0123", "***"),
        ("ssn 123-45-6789", "ssn ***"),
        ("ssn 000-45-6789", "ssn 000-45-6789"),
        ("from 192.0.2.17:8080", "from ***:8080"),
        ("at 127.0.0.1:8080", "at 127.0.0.1:8080"),
        ("v1.2.3.400", "v1.2.3.400"),
        ("from [2001:db8::8a2e:370:7334]:80", "from [***]:80"),
        ("at 12:30:45", "at 12:30:45"),
        ("git@github.com:a/b", "git@github.com:a/b"),
        ("2026-11-16 02:20:00 1794735768740123", "2026-11-16 02:20:00 1794735768740123"),
    ] {
        assert_eq!(redactor.scrub(text), expected, "{text}");
    }
    assert_eq!(Redactor::new().scrub("ana@example.org 192.0.2.1"), "ana@example.org 192.0.2.1");
}

#[test]
fn places_say_where_and_not_what() {
    let redactor = Redactor::new();
    let text = "first\nfrüher ghp_16C7e42F292c6912E7710c838347Ae178B4a x\n-----BEGIN PRIVATE KEY-----\nMIIEabc\n-----END PRIVATE KEY-----\npassword=hunter2\n";
    let places = redactor.find(text.as_bytes());
    let expected = [
        Place { offset: 14, length: 40, line: 2, column: 8 },
        Place { offset: 57, length: 62, line: 3, column: 1 },
        Place { offset: 128, length: 7, line: 6, column: 10 },
    ];
    assert_eq!(places, expected);
    for place in &places {
        let (from, to) = (place.offset, place.offset + place.length);
        let found = &text[usize::try_from(from).unwrap()..usize::try_from(to).unwrap()];
        assert!(found.starts_with("ghp_") || found.starts_with("-----") || found == "hunter2", "{found}");
    }
    for cut in 1..40 {
        let (mut search, mut again) = (Search::new(redactor.clone()), Vec::new());
        for part in text.as_bytes().chunks(cut) {
            search.feed(part, |place| again.push(place));
        }
        search.finish(|place| again.push(place));
        assert_eq!(again, expected, "{cut}");
    }
    assert!(KEPT.iter().all(|text| redactor.find(text.as_bytes()).is_empty()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn sec_14_offsets_are_right_in_any_text(lead in "[ä-üα-ω一-十 \\n]{0,30}", tail in "[ä-üα-ω一-十 \\n]{0,30}", secret in 0..40_usize) {
        let secret = SECRETS[secret % SECRETS.len()].1;
        let text = format!("{lead} {secret} {tail}");
        let places = Redactor::new().find(text.as_bytes());
        prop_assert_eq!(places.len(), 1, "{}", text);
        let place = places[0];
        let at = usize::try_from(place.offset).unwrap();
        prop_assert_eq!(&text[at..at + usize::try_from(place.length).unwrap()], secret);
        let before = &text[..at];
        prop_assert_eq!(place.line, u64::try_from(before.matches('\n').count() + 1).unwrap());
        let column = before.rsplit('\n').next().unwrap().chars().count() + 1;
        prop_assert_eq!(place.column, u64::try_from(column).unwrap());
    }
}
