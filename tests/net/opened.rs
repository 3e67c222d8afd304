//! TLS that a rule looks into: who is believed, by whom, and what of it is seen.

use crate::world::{Certificate, EVERYONE, PUBLIC, World};

const NPM: &str = "registry.npmjs.org";

#[test]
fn egr_08_clients_trust_the_sandboxs_own_authority_and_requests_are_judged() {
    for who in EVERYONE {
        let world = World::new(who);
        let server = world.https(PUBLIC, &[NPM]);
        let python =
            format!("import urllib.request as u; print(u.urlopen('https://{NPM}/python').read().decode())");
        let node = format!("fetch('https://{NPM}/node').then(a => a.text()).then(console.log)");
        let script = format!(
            "curl -fsS https://{NPM}/curl
             python3 -c \"{python}\"
             if command -v node >/dev/null; then node -e \"{node}\"; else curl -fsS https://{NPM}/node; fi
             curl -sS -X PUT -d x https://{NPM}/publish"
        );
        let said = world.run(&["--preset", "npm-install"], &script).ok();
        assert!(said.out.contains("publish or change the package `publish`"), "{}", said.out);
        let asked: Vec<_> = server.asked();
        assert_eq!(asked, ["GET /curl HTTP/1.1", "GET /python HTTP/1.1", "GET /node HTTP/1.1"], "{who:?}");
    }
}

#[test]
fn egr_08_servers_that_nobody_should_believe_are_refused() {
    for who in EVERYONE {
        let world = World::new(who);
        let kinds: [(&str, &[&str], Certificate); 3] = [
            ("expired", &[NPM], Certificate { expired: true, trusted: true }),
            ("of another", &["other.test"], Certificate { expired: false, trusted: true }),
            ("of nobody", &[NPM], Certificate { expired: false, trusted: false }),
        ];
        for (kind, hosts, certificate) in kinds {
            let world = World::new(who);
            let server = world.bad_https(PUBLIC, 443, hosts, certificate);
            let said = world.run(
                &["--preset", "npm-install"],
                &format!("curl -sS -o /dev/null -w '%{{http_code}}' https://{NPM}/x"),
            );
            assert_eq!(said.out, "502", "{kind}: {}", said.err);
            assert_eq!(server.asked(), Vec::<String>::new(), "{kind}");
        }
        // The same server with a certificate that holds is believed: the test can fail.
        let _server = world.https(PUBLIC, &[NPM]);
        let said = world.run(
            &["--preset", "npm-install"],
            &format!("curl -sS -o /dev/null -w '%{{http_code}}' https://{NPM}/x"),
        );
        assert_eq!(said.out, "200", "{}", said.err);
    }
}

#[test]
fn egr_08_the_key_of_the_authority_is_on_no_disk_and_what_it_signed_ends_with_the_run() {
    for who in EVERYONE {
        let world = World::new(who);
        let _server = world.https(PUBLIC, &[NPM]);
        let state = world.home().join(".local/state/palisade");
        let script = format!("curl -fsS https://{NPM}/x >/dev/null; cat $SSL_CERT_FILE > own.pem; sleep 0.1");
        world.run(&["--preset", "npm-install"], &script).ok();
        let bundle = std::fs::read_to_string(world.project().join("own.pem")).unwrap();
        assert_eq!(
            bundle.matches("BEGIN CERTIFICATE").count(),
            2,
            "the machine's root and the sandbox's own"
        );
        let mut folders = vec![state];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).unwrap().map(Result::unwrap) {
                if entry.file_type().unwrap().is_dir() {
                    folders.push(entry.path());
                    continue;
                }
                let text = String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap()).into_owned();
                assert!(
                    !text.contains("PRIVATE KEY") && !text.contains("BEGIN CERTIFICATE"),
                    "{:?}",
                    entry.path()
                );
            }
        }
        // What a killed run left is gone with the next one, which has another.
        let left = world.home().join(".local/state/palisade/trusted/run_left.pem");
        std::fs::write(&left, "x").unwrap();
        world.run(&["--preset", "npm-install"], "cat $SSL_CERT_FILE > other.pem").ok();
        let other = std::fs::read_to_string(world.project().join("other.pem")).unwrap();
        assert_ne!(bundle, other);
        assert!(!left.exists());
    }
}

#[test]
fn egr_12_what_is_passed_on_unopened_must_greet_the_host_it_goes_to() {
    for who in EVERYONE {
        let world = World::new(who);
        let server = world.https(PUBLIC, &["site.test", "other.test"]);
        let curl = "curl -sS -o /dev/null -w '%{http_code} '";
        let script = format!(
            "{curl} https://site.test/x
             {curl} --connect-to other.test:443:site.test:443 https://other.test/fronted || true
             {curl} -k --resolve site.test:443:{PUBLIC} https://site.test/address || true"
        );
        let said = world.run(&["--allow", "site.test"], &script).ok();
        assert_eq!(said.out.trim(), "200 000 000", "{}", said.err);
        assert_eq!(server.asked(), ["GET /x HTTP/1.1"], "{who:?}");
        said.tells("the client greets `other.test`");
        let entries = world.entries("network.connect");
        let allowed: Vec<_> =
            entries.iter().filter(|entry| entry.decision == ledger::Decision::Allowed).collect();
        assert_eq!(allowed.len(), 1);
        assert_eq!(allowed[0].detail["inspected"], "no");
    }
}
