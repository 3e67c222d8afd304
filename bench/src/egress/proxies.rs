//! Other proxies in the same small internet: squid, tinyproxy and mitmproxy, as `scripts/setup bench` put them under `target/`.
//!
//! All have caches and logs off, and put the secret in where they look inside. One that is not there, or does not start, is
//! left out and named.

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::ensure;

use super::SECRET;
use super::world::{PUBLIC, Process, World, await_listener};

/// A proxy at work.
pub(super) struct Peer {
    pub(super) name: &'static str,
    pub(super) process: Process,
    /// Where it passes connections on.
    pub(super) passes: Option<SocketAddr>,
    /// Where it opens them.
    pub(super) opens: Option<SocketAddr>,
}

/// All that can be had, and why the others cannot.
pub(super) fn started(world: &World) -> (Vec<Peer>, Vec<String>) {
    let (mut peers, mut notes) = (Vec::new(), Vec::new());
    for (name, start) in
        [("squid", squid as fn(&World) -> _), ("tinyproxy", tinyproxy), ("mitmproxy", mitmproxy)]
    {
        match start(world) {
            Ok(peer) => peers.push(peer),
            Err(why) => {
                notes.push(format!("{name} is not compared: {why:#}; `scripts/setup bench` installs it"))
            }
        }
    }
    (peers, notes)
}

fn at(port: u16) -> anyhow::Result<SocketAddr> {
    Ok(SocketAddr::new(PUBLIC.parse()?, port))
}

/// A folder of its own, which it may write to.
fn folder(world: &World, name: &str) -> anyhow::Result<PathBuf> {
    let path = world.at().join("home").join(name);
    let made = world.as_user(&[], Path::new("mkdir")).arg("-p").arg(&path).status()?;
    ensure!(made.success(), "no folder");
    Ok(path)
}

fn squid(world: &World) -> anyhow::Result<Peer> {
    let (program, own) = (world.installed("debian/usr/sbin/squid")?, folder(world, "squid")?);
    let debian = world.installed("debian")?;
    let libraries = [("LD_LIBRARY_PATH", format!("{}/libraries", debian.display()))];
    let maker = debian.join("usr/lib/squid/security_file_certgen");
    let made = world
        .as_user(&libraries, &maker)
        .arg("-c")
        .arg("-s")
        .arg(own.join("made"))
        .args(["-M", "4MB"])
        .output()?;
    ensure!(made.status.success(), "its certificates: {}", String::from_utf8_lossy(&made.stderr));
    let (passes, opens) = (at(3129)?, at(3128)?);
    let (debian, folder, root) = (debian.display(), own.display(), world.at().join("root.pem"));
    let settings = format!(
        "http_port {opens} ssl-bump tls-cert={root} generate-host-certificates=on dynamic_cert_mem_cache_size=4MB
http_port {passes}
sslcrtd_program {maker} -s {folder}/made -M 4MB
sslcrtd_children 2 startup=1
acl step1 at_step SslBump1
ssl_bump peek step1
ssl_bump bump all
tls_outgoing_options cafile=/etc/ssl/certs/ca-certificates.crt
http_access allow all
request_header_access Authorization deny all
request_header_replace Authorization Bearer {SECRET}
cache deny all
cache_mem 0
memory_pools on
access_log none
cache_store_log none
cache_log {folder}/log
netdb_filename none
pid_filename none
coredump_dir {folder}
error_directory {debian}/usr/share/squid/errors/templates
icon_directory {debian}/usr/share/squid/icons
mime_table {debian}/usr/share/squid/mime.conf
unlinkd_program /bin/true
pinger_enable off
dns_nameservers 127.0.0.1
shutdown_lifetime 0 seconds
max_filedescriptors 16384
",
        root = root.display(),
        maker = maker.display(),
    );
    std::fs::write(world.at().join("squid.conf"), settings)?;
    let mut command = world.as_user(&libraries, &program);
    command.args(["-N", "-f"]).arg(world.at().join("squid.conf"));
    let process = Process(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
    await_listener(world, opens)?;
    await_listener(world, passes)?;
    Ok(Peer { name: "squid", process, passes: Some(passes), opens: Some(opens) })
}

fn tinyproxy(world: &World) -> anyhow::Result<Peer> {
    let program = world.installed("debian/usr/bin/tinyproxy")?;
    let passes = at(3130)?;
    let settings = format!(
        "Port {}\nListen {PUBLIC}\nTimeout 600\nMaxClients 8192\nLogLevel Critical\nDisableViaHeader Yes\n",
        passes.port()
    );
    std::fs::write(world.at().join("tinyproxy.conf"), settings)?;
    let mut command = world.as_user(&[], &program);
    command.args(["-d", "-c"]).arg(world.at().join("tinyproxy.conf"));
    let process = Process(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
    await_listener(world, passes)?;
    Ok(Peer { name: "tinyproxy", process, passes: Some(passes), opens: None })
}

fn mitmproxy(world: &World) -> anyhow::Result<Peer> {
    let (program, own) = (world.installed("mitm/bin/mitmdump")?, folder(world, "mitmproxy")?);
    let opens = at(3131)?;
    // As root: Python itself may be where nobody else may look.
    let mut command = world.inside("env");
    command.args(["-i", "PATH=/usr/bin:/bin"]).arg(program.with_file_name("python")).arg(&program).args([
        "-q",
        "--listen-host",
        PUBLIC,
        "--listen-port",
        &opens.port().to_string(),
    ]);
    command.arg("--set").arg(format!("confdir={}", own.display()));
    command.args([
        "--set",
        "ssl_verify_upstream_trusted_ca=/etc/ssl/certs/ca-certificates.crt",
        "--set",
        "flow_detail=0",
    ]);
    // Its clients have public-looking addresses here, which it would not serve.
    command.args(["--set", "block_global=false"]);
    command.args(["--modify-headers", &format!("/~q/Authorization/Bearer {SECRET}")]);
    let process = Process(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
    await_listener(world, opens)?;
    // It makes an authority of its own; clients trust that one too.
    let mut trusted =
        std::fs::OpenOptions::new().append(true).open(world.at().join("certs/ca-certificates.crt"))?;
    trusted.write_all(&std::fs::read(own.join("mitmproxy-ca-cert.pem"))?)?;
    Ok(Peer { name: "mitmproxy", process, passes: None, opens: Some(opens) })
}
