//! What a sandbox costs what runs in it: the same work inside and on the host, taking turns.
//!
//! Each time is that of the work alone, taken by the shell that does it, so that the launch does not count.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use crate::measure::median;
use crate::report::{Bound, Row};

const FILES: usize = 100_000;
const FOLDERS: usize = 500;
const TURNS: usize = 9;

/// The figures.
pub(crate) fn rows(palisade: &Path) -> anyhow::Result<Vec<Row>> {
    // Outside of this repository: inside it, the repository itself would be what the sandbox is given.
    let temporary = tempfile::tempdir()?;
    let place = temporary.path().canonicalize()?;
    let mut rows = Vec::new();
    let project = place.join("files");
    fill(&project)?;
    let status = "git status --porcelain >/dev/null";
    rows.push(compared("git status, 100,000 files: inside / host", palisade, &project, status)?);
    let project = place.join("crate");
    std::fs::create_dir_all(project.join("src"))?;
    std::fs::write(
        project.join("Cargo.toml"),
        "[package]\nname = \"small\"\nedition = \"2024\"\n[workspace]\n",
    )?;
    std::fs::write(project.join("src/main.rs"), program())?;
    let build = "rm -rf target && cargo build --offline --quiet";
    rows.push(compared("cargo build, a small crate: inside / host", palisade, &project, build)?);
    Ok(rows)
}

/// A program that keeps the compiler at work for a second or so.
fn program() -> String {
    let mut text = String::new();
    for number in 0..400 {
        text.push_str(&format!(
            "fn work_{number}(n: u64) -> Vec<String> {{ (0..n).map(|i| format!(\"{{}}-{{}}\", i, {number})).collect() }}\n"
        ));
    }
    text.push_str("fn main() { let all = [");
    (0..400).for_each(|number| text.push_str(&format!("work_{number}(3).len(), ")));
    text.push_str("]; println!(\"{}\", all.iter().sum::<usize>()); }\n");
    text
}

fn fill(project: &Path) -> anyhow::Result<()> {
    for folder in 0..FOLDERS {
        let folder = project.join(format!("d{folder}"));
        std::fs::create_dir_all(&folder)?;
        for file in 0..FILES / FOLDERS {
            std::fs::write(folder.join(format!("f{file}")), "x")?;
        }
    }
    let git = "git init -q && git add -A && git -c user.name=a -c user.email=a@b.c commit -qm all && git status >/dev/null";
    let status = Command::new("sh").args(["-c", git]).current_dir(project).status()?;
    ensure!(status.success(), "the repository could not be made");
    Ok(())
}

fn compared(name: &str, palisade: &Path, project: &Path, work: &str) -> anyhow::Result<Row> {
    // Nanoseconds before and after, from a shell that is there already.
    let script =
        format!("{work}; begun=$(date +%s%N); {work} && ended=$(date +%s%N) && echo $((ended - begun))");
    let state = project.with_extension("state");
    let (mut inside, mut host) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        let mut run = Command::new(palisade);
        run.env("XDG_STATE_HOME", &state).env("XDG_CONFIG_HOME", &state);
        inside.push(timed(run.args(["run", "--", "sh", "-c", &script]).current_dir(project))?);
        host.push(timed(Command::new("sh").args(["-c", &script]).current_dir(project))?);
    }
    Ok(Row {
        name: name.into(),
        unit: "ms",
        ours: median(&mut inside),
        reference: Some(median(&mut host)),
        bound: Bound::RatioAtMost(1.03),
    })
}

fn timed(command: &mut Command) -> anyhow::Result<f64> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::piped()).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let time = said.trim().parse::<f64>();
    let time = time.with_context(|| format!("{said}{}", String::from_utf8_lossy(&output.stderr)))?;
    Ok(time / 1e6)
}
