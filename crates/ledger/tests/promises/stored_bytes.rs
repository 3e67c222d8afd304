//! LED-11: entries hold no secret, and the hash covers what is stored.

use hmac::{Hmac, KeyInit as _, Mac as _};
use ledger::{Decision, Draft, Ledger, Options, Scrub};
use sha2::Sha256;

use crate::kit::{Book, assert_intact, keys};

#[test]
fn led_11_thirty_planted_secrets_are_in_no_file_of_the_ledger() {
    let secrets: Vec<String> = (0..30).map(|number| format!("sk-live-{number:04}-topsecret")).collect();
    let known = secrets.clone();
    let scrub: Scrub =
        Box::new(move |text| known.iter().fold(text.to_owned(), |text, it| text.replace(it, "[secret]")));
    let book = Book::new();
    let faults = book.faults.clone();
    let options = Options { faults: Some(faults.clone()), ..Options::default() };
    let (ledger, _) = Ledger::open(&book.dir(), keys(), book.clock.clone(), scrub, options).unwrap();
    for (place, secret) in secrets.iter().enumerate() {
        let plant = |at: usize| if place % 6 == at { format!("x{secret}y") } else { "plain".to_owned() };
        let draft = Draft::new(plant(0), plant(1), Decision::Noted)
            .on(plant(2))
            .because(plant(3))
            .with(plant(4), "value")
            .with("key", plant(5));
        ledger.append(draft.clone()).unwrap();
        faults.set(Some(ledger::Fault::NoSpace));
        ledger.append_narrowing(draft).unwrap();
        faults.set(None);
    }
    let mut files = 0;
    for folder in [book.dir(), book.dir().join("segments")] {
        for item in std::fs::read_dir(folder).unwrap().map(Result::unwrap).filter(|it| it.path().is_file()) {
            let bytes = String::from_utf8_lossy(&std::fs::read(item.path()).unwrap()).into_owned();
            assert!(!bytes.contains("topsecret"), "{:?}", item.path());
            files += 1;
        }
    }
    assert!(files >= 3);
    ledger.close().unwrap();
    assert_eq!(book.entries().len(), 60);
    assert!(std::fs::read_to_string(book.segment(1)).unwrap().contains("x[secret]y"));
    assert_intact(&book.check());
}

#[test]
fn led_11_rehashing_the_stored_bytes_gives_the_chain() {
    let book = Book::new().written(10, 100);
    let mut prev = "0".repeat(64);
    for stored in ledger::read(&book.dir(), 1).unwrap().map(Result::unwrap) {
        let line = str::from_utf8(&stored.line).unwrap();
        let (covered, rest) = line.rsplit_once(",\"mac\":\"").unwrap();
        let mut mac = Hmac::<Sha256>::new_from_slice(&[7; 32]).unwrap();
        mac.update(covered.as_bytes());
        let code = hex::encode(mac.finalize().into_bytes());
        assert_eq!(rest, format!("{code}\"}}"));
        assert_eq!(stored.entry.prev, prev);
        prev = code;
    }
}

#[test]
fn an_entry_in_full_looks_like_this() {
    let book = Book::new();
    let ledger = book.open();
    let draft = Draft::new("ana", "file.write", Decision::Allowed)
        .on("a \"b\"\n\u{1b}[2J")
        .because("grant")
        .with("late", "1");
    ledger.append(draft.opens().closes(7)).unwrap();
    drop(ledger);
    let text = std::fs::read_to_string(book.segment(1)).unwrap();
    let (line, _) = text.split_once(",\"mac\"").unwrap();
    let zeros = "0".repeat(64);
    assert_eq!(
        line,
        format!(
            "{{\"v\":1,\"seq\":1,\"at\":1700000000000,\"checkpoint\":0,\"prev\":\"{zeros}\",\"who\":\"ana\",\
             \"action\":\"file.write\",\"resource\":\"a \\\"b\\\"\\n\\u001b[2J\",\"decision\":\"allowed\",\
             \"cause\":\"grant\",\"opens\":true,\"closes\":7,\"detail\":{{\"late_\":\"1\"}}"
        )
    );
}

#[test]
fn an_export_is_the_stored_lines() {
    let book = Book::with_small_segments().written(20, 100);
    let mut out = Vec::new();
    assert_eq!(ledger::export(&book.dir(), 5..=14, &mut out).unwrap(), 10);
    let text = String::from_utf8(out).unwrap();
    let numbers: Vec<u64> =
        text.lines().map(|line| serde_json::from_str::<ledger::Entry>(line).unwrap().seq).collect();
    assert_eq!(numbers, (5..=14).collect::<Vec<u64>>());
}
