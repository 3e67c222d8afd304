//! Small limits of answers, for tools that read the web: they stop what comes while it comes, with the reason.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::packed::gzip;
use crate::servers::Two;
use crate::world::{EVERYONE, Request, World, answer};

const RULES: &str = "[[rule]]\nhost = \"site.test\"\nmethods = \"read-only\"\nanswer = {}\n\n\
    [[rule]]\nhost = \"other.test\"\nanswer = { bytes = \"64k\", seconds = 1 }\n\n\
    [[rule]]\nhost = \"both.test\"\npaths = [\"/**\"]\n";

/// A web that has too much of everything.
fn web(request: &Request) -> Vec<u8> {
    const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n";
    let chunks = |head: &[u8], chunk: &[u8], count: usize| {
        let chunk = [format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat();
        [CHUNKED, head, b"\r\n", &chunk.repeat(count), b"0\r\n\r\n"].concat()
    };
    match request.path() {
        "/all" => answer("200 OK", "", &vec![b'a'; 1 << 20]),
        "/said" => answer("200 OK", "", &vec![b'a'; (1 << 20) + 1]),
        "/chunked" => chunks(b"", &[b'c'; 64 << 10], 64),
        "/packed" => answer("200 OK", "Content-Encoding: gzip\r\n", &gzip(&[b'p'; 100_000])),
        "/bomb" => answer("200 OK", "Content-Encoding: gzip\r\n", &gzip(&vec![0; 64 << 20])),
        "/bombs" => chunks(b"Content-Encoding: gzip\r\n", &gzip(&vec![0; 64 << 20]), 1),
        "/slow" => {
            std::thread::sleep(Duration::from_secs(20));
            answer("200 OK", "", b"late")
        }
        _ => answer("200 OK", "Content-Encoding: br\r\n", b"what is that?"),
    }
}

#[test]
fn egr_15_answers_stop_at_the_limit_of_their_rule_with_the_reason() {
    for who in EVERYONE {
        let world = World::with_rules(who, RULES);
        let server = world.answering(443, &["site.test", "other.test", "both.test"], Arc::new(web));
        let script = "
            ask() { rm -f got; curl -s $3 -o got -w '%{http_code} ' https://$1/$2 && echo whole $(wc -c < got) || echo broken $(wc -c < got); }
            for version in --http1.1 --http2; do
                ask site.test all $version; ask site.test packed $version
                ask site.test said $version; grep -c 'longer than the 1048576 bytes' got
                ask site.test chunked $version; ask site.test bomb $version; ask site.test bombs $version
                ask site.test br $version
            done
            ask other.test packed; ask both.test chunked; ask both.test said
            curl -s -o /dev/null -w '%{http_code}\\n' -X POST https://site.test/all
            curl -s http://palisade.local/ > told";
        let said = world.run(&["--rules", "rules.toml"], script).ok();
        let lines: Vec<&str> = said.out.lines().collect();
        for lines in [&lines[..8], &lines[8..16]] {
            assert_eq!(lines[..2], ["200 whole 1048576", "200 whole 100000"], "{who:?} {}", said.out);
            assert!(lines[2].starts_with("403 whole") && lines[3] == "1", "{who:?} {}", said.out);
            for line in &lines[4..7] {
                let got: u64 = line.strip_prefix("200 broken ").unwrap().parse().unwrap();
                assert!(got <= 1 << 20, "{who:?} {}", said.out);
            }
            assert!(lines[7].starts_with("502 "), "{who:?} {}", said.out);
        }
        // Another rule has other limits, or none.
        assert!(lines[16].contains(" broken"), "{who:?} {}", said.out);
        assert_eq!(lines[17..], ["200 whole 4194304", "200 whole 1048577", "403"], "{who:?}");
        assert!(server.seen().iter().filter(|one| one.head.contains("site.test")).all(|one| {
            one.field("accept-encoding").is_none_or(|accepts| accepts == "identity")
                || one.head.contains("both.test")
        }));
        let closed = world.entries("network.closed");
        let stopped =
            closed.iter().filter(|entry| entry.cause.contains("longer than the 1048576 bytes")).count();
        assert_eq!(stopped, 8, "{who:?} {closed:?}");
        let told = std::fs::read_to_string(world.project().join("told")).unwrap();
        assert!(told.contains("longer than the 65536 bytes"), "{told}");
    }
}

#[test]
fn egr_15_answers_stop_at_their_time_and_at_the_limits_of_a_run() {
    for who in EVERYONE {
        let world = World::with_rules(who, RULES);
        let _server = world.answering(443, &["site.test", "other.test", "both.test"], Arc::new(web));
        let begun = Instant::now();
        let script = "curl -s -w ' %{http_code}\\n' https://other.test/slow";
        let said = world.run(&["--rules", "rules.toml"], script).ok();
        assert!(
            said.out.contains("longer than the 1 seconds") && said.out.ends_with(" 403\n"),
            "{}",
            said.out
        );
        assert!(begun.elapsed() < Duration::from_secs(10), "{who:?} {:?}", begun.elapsed());
        let script = "curl -s -w ' %{http_code}\\n' https://both.test/slow; curl -s -w ' %{http_code}\\n' https://both.test/said";
        let options = ["--rules", "rules.toml", "--net-limit", "answer-seconds=1,answer-bytes=1M"];
        let said = world.run(&options, script).ok();
        assert_eq!(said.out.matches(" 403\n").count(), 2, "{who:?} {}", said.out);
        assert!(said.out.contains("1 seconds") && said.out.contains("1048576 bytes"), "{who:?} {}", said.out);
        world.run(&["--net-limit", "answer-seconds=61"], "true").tells("60 seconds at most");

        // A server of HTTP/2, which says no length.
        let world = World::with_rules(who, RULES);
        let _server = Two::start(&world, &["site.test"], 0);
        let script = "curl -s --http2 -o got -w '%{http_version} %{http_code}\\n' https://site.test/big/x || echo broken $(wc -c < got)";
        let said = world.run(&["--rules", "rules.toml"], script).ok();
        let (first, last) = said.out.trim().split_once('\n').unwrap();
        let got: u64 = last.strip_prefix("broken ").unwrap().parse().unwrap();
        assert!(first == "2 200" && got <= 1 << 20, "{who:?} {}", said.out);
    }
}
