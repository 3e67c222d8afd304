//! What of a person's environment a run gets: a list, no credential, nothing that steers, and what tools need.

use std::collections::BTreeSet;
use std::process::Command;

use crate::room::{Room, everyone};

/// Every variable of every process inside that may be asked, one per line, by name.
const NAMES: &str = "sleep 20 & sh -c 'sleep 20' & \
    for pid in /proc/[0-9]*; do cat $pid/environ 2>/dev/null || true; done | tr '\\0' '\\n' | sed 's/=.*//' | sort -u";

/// Credentials, ways to them, and what steers programs; none of the values may be inside in any form.
const NEVER: &[(&str, &str)] = &[
    ("AWS_SECRET_ACCESS_KEY", "planted-one"),
    ("AWS_PROFILE", "planted-two"),
    ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://169.254.170.2/planted"),
    ("MYSQL_PWD", "planted-three"),
    ("PGPASSFILE", "/planted/pgpass"),
    ("NETRC", "/planted/netrc"),
    ("DOCKER_CONFIG", "/planted/docker"),
    ("KUBECONFIG", "/planted/kube"),
    ("COOKIE", "planted-four"),
    ("SESSION", "planted-five"),
    ("DATABASE_URL", "postgres://u:planted@db/x"),
    ("GITHUB_TOKEN", "planted-six"),
    ("HTTPS_PROXY", "http://ana:planted@proxy.example:3128"),
    ("APP_ADDRESS", "https://ana:planted@app.example/"),
    ("LD_PRELOAD", ""),
    ("PYTHONSTARTUP", "/planted/evil.py"),
    ("NODE_OPTIONS", "--require=/planted/evil.js"),
    ("BASH_ENV", "/planted/evil.sh"),
    ("GIT_CONFIG_GLOBAL", "/planted/gitconfig"),
    ("PALISADE_API_KEY", "planted-seven"),
];

/// What a program that tells its own environment prints.
const ALL: &str = "env -0 | tr '\\0' '\\n'";

#[test]
fn sec_09_every_process_has_the_listed_variables_and_no_other() {
    let allowed: BTreeSet<&str> = [
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "LANG",
        "LC_TIME",
        "TZ",
        "TERM",
        "TMPDIR",
        "PWD",
        "OLDPWD",
        "_",
        "SHLVL",
        "GIT_AUTHOR_NAME",
        "GIT_COMMITTER_EMAIL",
        "NO_PROXY",
        "http_proxy",
        "PALISADE",
        "GIT_CONFIG_SYSTEM",
    ]
    .into();
    for who in everyone() {
        let room = Room::empty(who);
        let mut having = NEVER.to_vec();
        having.extend([
            ("LANG", "C.UTF-8"),
            ("LC_TIME", "C"),
            ("TZ", "UTC"),
            ("TERM", "dumb"),
            ("GIT_AUTHOR_NAME", "Ana"),
            ("GIT_COMMITTER_EMAIL", "ana@example.org"),
            ("NO_PROXY", "localhost"),
            ("http_proxy", "http://proxy.example:3128"),
            ("ANYTHING", "else"),
            ("GOPATH", "/go"),
        ]);
        let said = room.run_having(&having, &[], NAMES).ok();
        let found: BTreeSet<&str> = said.out.lines().collect();
        assert!(found.is_subset(&allowed), "{:?}", found.difference(&allowed).collect::<Vec<_>>());
        for name in ["PATH", "HOME", "LANG", "LC_TIME", "GIT_AUTHOR_NAME", "http_proxy", "PALISADE"] {
            assert!(found.contains(name), "{name} is missing");
        }
        let said = room.run_having(&having, &[], ALL).ok();
        assert!(!said.out.contains("planted") && !said.out.contains("LD_PRELOAD"), "{}", said.out);
    }
}

#[test]
fn sec_10_everything_inherited_is_everything_but_credentials_and_what_steers() {
    for who in everyone() {
        let room = Room::empty(who);
        let mut having = NEVER.to_vec();
        having.extend([("ANYTHING", "else"), ("GOPATH", "/go"), ("TOKENIZERS_PARALLELISM", "false")]);
        // By its name nobody would know this one.
        let token = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
        having.push(("NOTE_TO_SELF", &token));
        having.extend([("GIT_AUTHOR_NAME", "Ana"), ("SSL_CERT_FILE", "/etc/ssl/certs/ca-certificates.crt")]);
        let said = room.run_having(&having, &["--inherit-env"], ALL).ok();
        assert!(!said.out.contains("planted") && !said.out.contains("LD_PRELOAD"), "{}", said.out);
        for line in ["ANYTHING=else", "GOPATH=/go", "TOKENIZERS_PARALLELISM=false", "GIT_AUTHOR_NAME=Ana"] {
            assert!(said.out.lines().any(|one| one == line), "{line} is not in {}", said.out);
        }
        let mut names: Vec<&str> = said.out.lines().filter_map(|line| line.split('=').next()).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "one value each: {}", said.out);
        assert!(!said.out.contains("NOTE_TO_SELF"), "{}", said.out);
        // The person learns which, and not what was in them.
        let said = said.tells("these variables stayed outside: ").tells("MYSQL_PWD").tells("LD_PRELOAD");
        said.tells_nothing_of("planted").tells_nothing_of("PALISADE_API_KEY=");
        // By its own name a person gets what they want.
        let said = room.run_having(&having, &["--env", "GITHUB_TOKEN"], "echo $GITHUB_TOKEN").ok();
        assert_eq!(said.out, "planted-six\n");
    }
}

#[test]
fn sec_10_a_commit_has_the_author_that_the_person_set() {
    for who in everyone() {
        let room = Room::with_repository(who);
        let having = [
            ("GIT_AUTHOR_NAME", "Zoe Author"),
            ("GIT_AUTHOR_EMAIL", "zoe@example.org"),
            ("GIT_COMMITTER_NAME", "Kim Committer"),
            ("GIT_COMMITTER_EMAIL", "kim@example.org"),
        ];
        for options in [&[][..], &["--inherit-env"]] {
            let name = format!("n{}", options.len());
            room.run_having(
                &having,
                options,
                &format!("echo x > {name}; git add {name}; git commit -qm {name}"),
            )
            .ok();
            let told = room.git(&["log", "-1", "--format=%an <%ae> %cn <%ce> %s"]);
            assert_eq!(told, format!("Zoe Author <zoe@example.org> Kim Committer <kim@example.org> {name}"));
        }
    }
}

#[test]
fn sec_10_a_tls_call_trusts_the_bundle_that_the_person_set() {
    let there = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !there("curl") || !there("openssl") {
        return tests::cannot_run("curl and openssl are needed");
    }
    // Waits for the server by asking it; then with the person's bundle, and without.
    let script = "openssl s_server -accept 127.0.0.1:8443 -cert server.pem -key server.key -www -quiet >server.log 2>&1 &
        tries=0; until curl -sk https://localhost:8443/ -o page; do tries=$((tries+1)); [ $tries -lt 200 ]; sleep 0.05; done
        curl -sS https://localhost:8443/ -o page && echo trusted
        env -u SSL_CERT_FILE curl -sS https://localhost:8443/ -o page 2>/dev/null || echo unknown
        if command -v node >/dev/null; then
            node -e 'require(\"https\").get(\"https://localhost:8443/\",a=>{console.log(\"node\",a.statusCode);process.exit(0)})'
        else echo node 200; fi
        cat \"$SSL_CERT_FILE\" > seen.pem; (echo x > \"$SSL_CERT_FILE\") 2>/dev/null || echo read-only";
    for who in everyone() {
        let room = Room::empty(who);
        let made = room
            .host(&room.project, "openssl")
            .args(
                "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost"
                    .split(' '),
            )
            .args("-addext subjectAltName=DNS:localhost -keyout server.key -out server.pem".split(' '))
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        // Beside the project, where a run does not reach.
        let bundle = room.home().join("corporate.crt");
        std::fs::copy(room.project.join("server.pem"), &bundle).unwrap();
        room.own(&bundle);
        let bundle = bundle.to_str().unwrap();
        let having = [("SSL_CERT_FILE", bundle), ("NODE_EXTRA_CA_CERTS", bundle)];
        for options in [&[][..], &["--inherit-env"]] {
            let said = room.run_having(&having, options, script).ok();
            assert_eq!(said.out, "trusted\nunknown\nnode 200\nread-only\n", "{}", said.err);
            let seen = std::fs::read(room.project.join("seen.pem")).unwrap();
            assert_eq!(seen, std::fs::read(bundle).unwrap());
        }
        // What is no bundle is not brought in by that name.
        let key = room.project.join("server.key");
        std::fs::rename(&key, room.home().join("private.key")).unwrap();
        let having = [("SSL_CERT_FILE", room.home().join("private.key").to_str().unwrap().to_owned())];
        let having: Vec<(&str, &str)> = having.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let said = room.run_having(&having, &[], "echo [$SSL_CERT_FILE]").ok();
        assert_eq!(said.out, "[]\n");
    }
}

#[test]
fn sec_11_nobody_steers_the_runtime_by_a_variable() {
    for who in everyone() {
        let room = Room::empty(who);
        for bad in [
            "LD_PRELOAD=/x",
            "PYTHONPATH=x",
            "NODE_OPTIONS=x",
            "GIT_CONFIG_COUNT=1",
            "PATH=/x",
            "lower=1",
            "A=x\ny",
        ] {
            let said = room.run_having(&[], &["--env", bad], "touch started");
            assert_eq!(said.code, Some(125), "{bad}");
            said.tells("`--env`");
            assert!(!room.project.join("started").exists(), "{bad}");
        }
        room.file(".palisade/profile.toml", "[ask]\nset = { LD_PRELOAD = \"/x\" }\n");
        assert_eq!(room.run("touch started").code, Some(125));
        assert!(!room.project.join("started").exists());
    }
}

#[test]
fn sec_11_values_of_two_people_never_mix() {
    let turns = tests::scale(100, 5);
    let rooms: Vec<Room> = everyone().into_iter().chain(everyone()).map(Room::empty).collect();
    std::thread::scope(|scope| {
        for (whose, room) in rooms.iter().enumerate() {
            scope.spawn(move || {
                for turn in 0..turns {
                    let (own, set) = (format!("own-{whose}-{turn}"), format!("MINE=set-{whose}-{turn}"));
                    let said = room.run_having(
                        &[("APP_OWN", &own)],
                        &["--env", "APP_OWN", "--env", &set],
                        "echo $APP_OWN $MINE; env | grep -c -e own- -e set-",
                    );
                    assert_eq!(said.ok().out, format!("{own} set-{whose}-{turn}\n2\n"));
                }
            });
        }
    });
}
