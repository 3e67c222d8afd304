//! ADV-C01: looking for the host's secrets.
//!
//! Left: placeholders, which do not exist yet.

use crate::kit::{Stage, both, finish};

const MARK: &str = "PLANTED-SECRET-";

const VARIABLES: [&str; 14] = [
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "GITHUB_TOKEN",
    "GH_TOKEN",
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "NPM_TOKEN",
    "SSH_AUTH_SOCK",
    "DBUS_SESSION_BUS_ADDRESS",
    "DOCKER_HOST",
    "PALISADE_API_KEY",
    "HTTPS_PROXY",
    "GNUPGHOME",
    "KUBECONFIG",
];

const FILES: [&str; 17] = [
    "home/.ssh/id_ed25519",
    "home/.aws/credentials",
    "home/.netrc",
    "home/.config/gh/hosts.yml",
    "home/.gnupg/private-keys-v1.d/key",
    "home/.docker/config.json",
    "home/.git-credentials",
    "home/.bash_history",
    "home/.npmrc",
    "home/.cargo/credentials.toml",
    "home/.local/share/keyrings/login.keyring",
    "home/.kube/config",
    "config/palisade/credentials.toml",
    "config/palisade/master.key",
    "data/palisade/store.db",
    "work/.env",
    "outside/worktree/notes.txt",
];

fn plant(stage: &Stage) {
    // The launcher reads none of these before a run that is local.
    for (number, name) in FILES.iter().enumerate() {
        stage.file(name, format!("{MARK}file-{number}\n"));
    }
}

fn with_variables(mut command: std::process::Command) -> std::process::Command {
    for (number, name) in VARIABLES.iter().enumerate() {
        command.env(name, format!("{MARK}variable-{number}"));
    }
    command
}

both! {
    fn adv_c01_a_no_secret_of_the_host_is_found(stage) {
        plant(stage);
        // One on the command line of a host's process.
        let mut victim = stage.command("sh");
        let mut victim = victim.args(["-c", "read line", &format!("{MARK}argument-0")]).stdin(std::process::Stdio::piped()).spawn().unwrap();

        let inside = finish(with_variables(stage.palisade(&[], &["./attacker", "seek", MARK, "/"])));

        let report = inside.report();
        assert_eq!(report.of("found"), "0", "{inside:?}");
        assert!(report.of("files").parse::<usize>().unwrap() > 10, "{inside:?}");
        // The control: the same search on the host finds them all.
        let mut host = with_variables(stage.command(stage.at("attacker")));
        host.args(["seek", MARK, &stage.path("")]);
        let found = finish(host).report().of("found").parse::<usize>().unwrap();
        assert!(found >= 30, "{found}");
        drop(victim.stdin.take());
        victim.wait().unwrap();
    }

    fn adv_c01_b_services_that_hold_secrets_are_not_reached(stage) {
        let script = "ssh-add -l; gpg-connect-agent /bye; docker ps; dbus-send --session /; keyctl show; \
                      env | grep -i -E 'sock|token|key|secret|bus' && echo 'variable: ok'; \
                      find / -type s -not -path '/proc/*' 2>/dev/null | grep . && echo 'socket: ok'; echo 'end: of it'";
        let run = with_variables(stage.palisade(&[], &["sh", "-c", script]));
        let report = finish(run).report();
        assert!(report.through().is_empty(), "{report:?}");
        // The control: on the host the same user has the variables, and sockets are found.
        let service = std::os::unix::net::UnixListener::bind(stage.at("outside/agent")).unwrap();
        let mut host = with_variables(stage.command("sh"));
        let looks = script.split_once("env |").unwrap().1.replace("find /", &format!("find {}", stage.path("outside")));
        host.args(["-c", &format!("env |{looks}")]);
        assert_eq!(finish(host).report().through(), ["socket", "variable"]);
        drop(service);
    }
}
