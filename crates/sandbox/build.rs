//! Builds process 1 of the sandbox (`init/main.rs`) into a small static program that the crate embeds.

use std::path::PathBuf;
use std::process::{Command, exit};

fn main() {
    println!("cargo::rerun-if-changed=init/main.rs");
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let out = PathBuf::from(variable("OUT_DIR")).join("init");
    let built = Command::new(variable("RUSTC"))
        .args(["--edition", "2024", "--crate-name", "palisade_init", "--crate-type", "bin"])
        .args([
            "-C",
            "opt-level=s",
            "-C",
            "panic=abort",
            "-C",
            "strip=symbols",
            "-C",
            "relocation-model=static",
        ])
        .args([
            "-C",
            "target-feature=+crt-static",
            "-C",
            "force-unwind-tables=no",
            "-C",
            "overflow-checks=no",
        ])
        .args(["-C", "link-arg=-nostartfiles", "-C", "link-arg=-nostdlib", "-C", "link-arg=-static"])
        .args(["-C", "link-arg=-Wl,--build-id=none,-z,noseparate-code,-z,norelro,--no-eh-frame-hdr,-N"])
        .args(["--target", &variable("TARGET"), "-o"])
        .arg(&out)
        .arg("init/main.rs")
        .status();
    if !built.is_ok_and(|status| status.success()) {
        println!("cargo::error=process 1 of the sandbox (init/main.rs) could not be built");
        exit(1);
    }
}
