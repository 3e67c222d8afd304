//! Real clients that know of no proxy, over TLS that is opened and over TLS that is passed on.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crate::world::{EVERYONE, PUBLIC, Request, World, answer};

const OPENED: &str = "[[rule]]\nhost = \"site.test\"\nmethods = \"read-only\"\npaths = [\"/open/**\"]\n";

const GO: &str = r#"package main

import ("fmt"; "io"; "net/http"; "os")

func main() {
	answer, err := http.Get(os.Args[1])
	if err != nil { fmt.Println(err); os.Exit(1) }
	body, _ := io.ReadAll(answer.Body)
	fmt.Println(answer.StatusCode, len(body))
}
"#;

const JAVA: &str = r#"import java.net.URI;
import java.net.http.*;

class Get {
    public static void main(String[] words) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(words[0])).build();
        HttpResponse<String> answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        System.out.println(answer.statusCode());
        // The older way in, too, and a store that is opened with the usual password.
        var old = (java.net.HttpURLConnection) new java.net.URL(words[0] + "-old").openConnection();
        System.out.println(old.getResponseCode());
        var store = java.security.KeyStore.getInstance(new java.io.File(System.getProperty("java.home"), "lib/security/cacerts"),
            "changeit".toCharArray());
        System.out.println(store.size());
    }
}
"#;

/// Whether these programs are where a sandbox has them; says which are not.
fn has(programs: &[&str]) -> bool {
    let is_missing = |name: &&&str| {
        !["/usr/local/bin", "/usr/bin"].iter().any(|folder| Path::new(folder).join(name).exists())
    };
    let missing: Vec<&&str> = programs.iter().filter(is_missing).collect();
    if !missing.is_empty() {
        tests::cannot_run(&format!(
            "{missing:?} are missing; `scripts/setup test` installs them for everybody"
        ));
    }
    missing.is_empty()
}

#[track_caller]
fn done(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The machine's store of Java, made by Java's own tool.
fn java_store(world: &World) {
    let certificates = world.folder.path().join("certs");
    std::fs::create_dir(certificates.join("java")).unwrap();
    let mut keytool = Command::new("keytool");
    keytool.args([
        "-importcert",
        "-noprompt",
        "-alias",
        "root",
        "-storetype",
        "JKS",
        "-storepass",
        "changeit",
    ]);
    keytool.arg("-keystore").arg(certificates.join("java/cacerts"));
    done(keytool.arg("-file").arg(certificates.join("ca-certificates.crt")));
}

/// Every Java of this machine, once.
fn javas() -> Vec<PathBuf> {
    let homes = std::fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten();
    let programs = homes.filter_map(|home| home.path().join("bin/java").canonicalize().ok());
    let mut found: Vec<PathBuf> = programs.collect();
    found.sort();
    found.dedup();
    found
}

#[test]
fn egr_08_real_clients_reach_what_is_opened_and_what_is_passed_on() {
    if !has(&["go", "javac", "java", "keytool", "node", "python3", "curl"]) {
        return;
    }
    let built = tempfile::tempdir().unwrap();
    std::fs::write(built.path().join("get.go"), GO).unwrap();
    std::fs::write(built.path().join("Get.java"), JAVA).unwrap();
    let go = |name: &str| built.path().join(name);
    done(Command::new("go").args(["build", "-o", "get", "get.go"]).current_dir(built.path()).envs([
        ("GOCACHE", go("cache")),
        ("GOPATH", go("go")),
        ("GOFLAGS", PathBuf::from("-mod=mod")),
        ("GO111MODULE", PathBuf::from("off")),
    ]));
    done(Command::new("javac").args(["--release", "17", "Get.java"]).current_dir(built.path()));
    let javas = javas();
    for who in EVERYONE {
        let world = World::new(who);
        java_store(&world);
        let server = world.https(PUBLIC, &["site.test"]);
        for name in ["get", "Get.class"] {
            let to = world.project().join(name);
            std::fs::copy(built.path().join(name), to).unwrap();
        }
        let url = "https://site.test/open";
        let node = |name: &str| format!("fetch('{url}/{name}').then(a => console.log(a.status))");
        let requests = format!("import requests; print(requests.get('{url}/requests').status_code)");
        let urllib = format!("import urllib.request as u; print(u.urlopen('{url}/urllib').status)");
        let java: String = (0..)
            .zip(&javas)
            .map(|(at, java)| format!("{} -Xshare:auto -cp . Get {url}/java{at}; ", java.display()))
            .collect();
        let script = format!(
            "unset http_proxy https_proxy; env | grep -i proxy && exit 1
             curl -fsS -o /dev/null -w '%{{http_code}}\\n' {url}/curl
             curl -fsS --http2 -o /dev/null -w '%{{http_code}}\\n' {url}/curl2
             python3 -c \"{urllib}\"
             python3 -c \"{requests}\"
             node -e \"{}\"
             ./get {url}/go
             {java}",
            node("node")
        );
        let mut expected: Vec<String> = ["curl", "curl2", "urllib", "requests", "node", "go"]
            .map(|name| format!("/open/{name}"))
            .to_vec();
        for at in 0..javas.len() {
            expected.extend([format!("/open/java{at}"), format!("/open/java{at}-old")]);
        }
        world.file("rules.toml", OPENED);
        for (kind, options, stored) in
            [("opened", ["--rules", "rules.toml"], "2"), ("passed", ["--allow", "site.test"], "1")]
        {
            let before = server.seen().len();
            // Node believes nobody but its own list unless it is told to, here as on the host.
            let told = [("NODE_EXTRA_CA_CERTS", "/etc/ssl/certs/ca-certificates.crt")];
            let said = world.run_having(&told, &options, &script).ok();
            let paths: Vec<String> =
                server.seen()[before..].iter().map(|request| request.path().to_owned()).collect();
            assert_eq!(paths, expected, "{kind} {who:?}: {} {}", said.out, said.err);
            // What it was made of is told by nobody but the store's own reader.
            let stores = said.out.lines().filter(|line| *line == stored).count();
            assert_eq!(stores, javas.len(), "{kind} {who:?}: {}", said.out);
            assert_eq!(said.err, "", "{kind} {who:?}: nothing is said of what was picked up");
            let entries = world.entries("network.connect");
            let inspected =
                |entry: &&ledger::Entry| entry.detail.get("inspected").is_some_and(|word| word == "no");
            assert_eq!(entries.iter().filter(inspected).count() > 0, kind == "passed", "{entries:?}");
        }
    }
}

#[test]
fn egr_08_a_java_program_whose_request_is_refused_is_told_so() {
    if !has(&["javac", "java", "keytool"]) {
        return;
    }
    let built = tempfile::tempdir().unwrap();
    std::fs::write(built.path().join("Get.java"), JAVA).unwrap();
    done(Command::new("javac").args(["--release", "17", "Get.java"]).current_dir(built.path()));
    for who in EVERYONE {
        let world = World::new(who);
        java_store(&world);
        let server = world.https(PUBLIC, &["site.test"]);
        std::fs::copy(built.path().join("Get.class"), world.project().join("Get.class")).unwrap();
        world.file("rules.toml", OPENED);
        let said = world.run(&["--rules", "rules.toml"], "java -cp . Get https://site.test/closed").ok();
        assert!(said.out.starts_with("403\n403\n"), "{who:?} {} {}", said.out, said.err);
        assert_eq!(server.asked(), Vec::<String>::new());
    }
}

/// A package, packed by `tar` under a directory of this name.
fn packed(folder: &Path, top: &str, files: &[(&str, &str)]) -> Vec<u8> {
    for (name, text) in files {
        let path = folder.join(top).join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    done(Command::new("tar").args(["-czf", "packed.tgz", top]).current_dir(folder));
    std::fs::read(folder.join("packed.tgz")).unwrap()
}

fn sum(kind: &str, bytes: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bytes");
    std::fs::write(&path, bytes).unwrap();
    done(Command::new(kind).arg(path)).split(' ').next().unwrap().to_owned()
}

/// What a tiny registry of npm has.
pub fn npm_registry() -> impl Fn(&Request) -> Vec<u8> + Send + Sync {
    let folder = tempfile::tempdir().unwrap();
    let manifest = r#"{"name":"tiny","version":"1.0.0","main":"index.js"}"#;
    let package = packed(
        folder.path(),
        "package",
        &[("package.json", manifest), ("index.js", "module.exports = 41 + 1;")],
    );
    let shown = format!(
        r#"{{"name":"tiny","dist-tags":{{"latest":"1.0.0"}},"versions":{{"1.0.0":{{"name":"tiny","version":"1.0.0",
           "dist":{{"tarball":"https://registry.npmjs.org/tiny/-/tiny-1.0.0.tgz","shasum":"{}"}}}}}}}}"#,
        sum("sha1sum", &package)
    );
    move |request| match request.path() {
        "/tiny" => answer("200 OK", "Content-Type: application/json\r\n", shown.as_bytes()),
        "/tiny/-/tiny-1.0.0.tgz" => answer("200 OK", "", &package),
        _ => answer("404 Not Found", "", b"{}"),
    }
}

#[test]
fn egr_05_npm_installs_with_its_preset_and_publishes_nothing() {
    if !has(&["npm", "node"]) {
        return;
    }
    for who in EVERYONE {
        let world = World::new(who);
        let server = world.answering(443, &["registry.npmjs.org"], Arc::new(npm_registry()));
        let script = "
            npm install tiny 2>&1
            node -e 'console.log(require(\"tiny\"))'
            mkdir own; cd own; echo '{\"name\":\"mine\",\"version\":\"1.0.0\"}' > package.json
            echo '//registry.npmjs.org/:_authToken=npm_0123456789' > $HOME/.npmrc
            npm publish >log 2>&1 && echo published; grep -o 'publish or change the package `mine`' log | head -1";
        let said = world.run(&["--preset", "npm-install"], script);
        assert!(said.out.contains("added 1 package"), "{who:?} {} {}", said.out, said.err);
        assert!(said.out.contains("\n42\n") && !said.out.contains("published"), "{}", said.out);
        let asked = server.asked();
        assert!(asked.iter().all(|line| line.starts_with("GET ")), "{asked:?}");
        said.tells("publish or change the package `mine`");
    }
}

#[test]
fn egr_05_pip_installs_with_its_preset_and_uploads_nothing() {
    if !has(&["python3"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let pack = "import zipfile; z = zipfile.ZipFile('w.whl', 'w'); d = 'tinypy-1.0.dist-info/'
z.writestr('tinypy.py', 'answer = 42'); z.writestr(d + 'METADATA', 'Metadata-Version: 2.1\\nName: tinypy\\nVersion: 1.0\\n')
z.writestr(d + 'WHEEL', 'Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
z.writestr(d + 'RECORD', 'tinypy.py,,\\n'); z.close()";
    done(Command::new("python3").args(["-c", pack]).current_dir(folder.path()));
    let wheel = std::fs::read(folder.path().join("w.whl")).unwrap();
    let page = format!(
        "<!DOCTYPE html><a href=\"https://files.pythonhosted.org/packages/ab/tinypy-1.0-py3-none-any.whl#sha256={}\">tinypy</a>",
        sum("sha256sum", &wheel)
    );
    for who in EVERYONE {
        let world = World::new(who);
        let (page, wheel) = (page.clone(), wheel.clone());
        let answers = move |request: &Request| match request.path() {
            "/simple/tinypy/" => answer("200 OK", "Content-Type: text/html\r\n", page.as_bytes()),
            path if path.ends_with(".whl") => answer("200 OK", "", &wheel),
            _ => answer("404 Not Found", "", b""),
        };
        let server = world.answering(443, &["pypi.org", "files.pythonhosted.org"], Arc::new(answers));
        let script = "
            python3 -m venv v >/dev/null
            v/bin/pip install --no-cache-dir tinypy 2>&1
            v/bin/python -c 'import tinypy; print(tinypy.answer)'
            curl -sS -o /dev/null -w '%{http_code}\\n' -F file=@rules.toml https://pypi.org/legacy/";
        world.file("rules.toml", "x");
        let said = world.run(&["--preset", "pypi-install"], script).ok();
        assert!(said.out.contains("Successfully installed tinypy-1.0"), "{who:?} {} {}", said.out, said.err);
        assert!(said.out.contains("\n42\n") && said.out.ends_with("403\n"), "{}", said.out);
        let asked = server.asked();
        assert!(asked.iter().all(|line| line.starts_with("GET ")), "{asked:?}");
    }
}

/// The toolchain that builds this test.
fn toolchain() -> PathBuf {
    PathBuf::from(done(Command::new("rustc").args(["--print", "sysroot"])).trim())
}

#[test]
fn egr_05_cargo_fetches_with_its_preset() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = "[package]\nname = \"tiny\"\nversion = \"1.0.0\"\nedition = \"2021\"\n";
    let files = [("Cargo.toml", manifest), ("src/lib.rs", "pub fn answer() -> u8 { 42 }")];
    let package = packed(folder.path(), "tiny-1.0.0", &files);
    let line = format!(
        "{{\"name\":\"tiny\",\"vers\":\"1.0.0\",\"deps\":[],\"cksum\":\"{}\",\"features\":{{}},\"yanked\":false}}\n",
        sum("sha256sum", &package)
    );
    for who in EVERYONE {
        let world = World::new(who);
        let (line, package) = (line.clone(), package.clone());
        let answers = move |request: &Request| match request.path() {
            "/config.json" => {
                answer("200 OK", "", br#"{"dl":"https://static.crates.io/crates","api":"https://crates.io"}"#)
            }
            "/ti/ny/tiny" => answer("200 OK", "", line.as_bytes()),
            "/crates/tiny/1.0.0/download" => answer("200 OK", "", &package),
            _ => answer("404 Not Found", "", b""),
        };
        let hosts = ["index.crates.io", "static.crates.io", "crates.io"];
        let server = world.answering(443, &hosts, Arc::new(answers));
        world.lends(&toolchain(), ".rustup/toolchains");
        let manifest = "[package]\nname = \"own\"\nversion = \"1.0.0\"\nedition = \"2021\"\nlicense = \"MIT\"\ndescription = \"x\"\n[dependencies]\ntiny = \"1\"\n";
        world.file("Cargo.toml", manifest);
        let script = "
            export PATH=$HOME/.rustup/toolchains/bin:$PATH CARGO_HOME=$PWD/cargo
            mkdir src; echo 'fn main() { println!(\"{}\", tiny::answer()) }' > src/main.rs
            cargo fetch 2>&1
            find cargo -name lib.rs -path '*tiny-1.0.0*'
            (cargo publish --allow-dirty --no-verify --token cio0123456789 2>&1 && echo published) | tail -3";
        let said = world.run(&["--preset", "crates"], script).ok();
        assert!(
            said.out.contains("Downloaded tiny") && said.out.contains("src/lib.rs"),
            "{who:?} {} {}",
            said.out,
            said.err
        );
        assert!(!said.out.contains("published"), "{}", said.out);
        let asked = server.asked();
        assert!(asked.iter().all(|line| line.starts_with("GET ")), "{asked:?}");
    }
}

/// git over TLS, opened: the same verdicts as without.
#[test]
fn egr_21_git_clones_and_pushes_over_tls_that_is_opened() {
    let rules = "[[rule]]\nhost = \"site.test\"\ngit = { read = true, push = [{ repo = \"team/app\", refs = [\"refs/heads/agent/*\"] }] }\n";
    for who in EVERYONE {
        let world = World::new(who);
        let _forge = world.secure_forge(&["team/app", "team/other"], "site.test");
        world.file("rules.toml", rules);
        let script = "
            export GIT_TERMINAL_PROMPT=0
            git clone -q https://site.test/team/app.git app 2>&1; cd app
            git config user.name a; git config user.email a@b; echo x > new.txt; git add new.txt; git commit -qm second
            push() { git push -q \"$@\" >../log 2>&1 && echo yes || echo no; }
            push origin HEAD:refs/heads/agent/work
            push origin HEAD:refs/heads/main
            push https://site.test/team/other.git HEAD:refs/heads/agent/work";
        let said = world.run(&["--rules", "rules.toml"], script).ok();
        assert_eq!(
            said.out.lines().collect::<Vec<_>>(),
            ["yes", "no", "no"],
            "{who:?} {} {}",
            said.out,
            said.err
        );
        let (app, other) = (world.forge_refs("team/app"), world.forge_refs("team/other"));
        assert!(app.contains("refs/heads/agent/work") && !other.contains("agent"), "{app} {other}");
        // Passed on, git sees the forge's own certificate, and nobody sees the push.
        let said = world.run(
            &["--allow", "site.test"],
            "git -c http.sslVerify=true clone -q https://site.test/team/other.git other 2>&1 && ls -d other/.git",
        );
        assert_eq!(said.ok().out.trim(), "other/.git", "{who:?}");
    }
}
