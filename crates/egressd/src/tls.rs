//! TLS that a rule wants to see inside of: ended here towards the client, begun again towards the server.
//!
//! Invariants: the authority that signs for this sandbox is trusted in this sandbox only, and its key is in memory only; a
//! server is believed only with a certificate that this machine trusts, for the host that was judged.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use egress::control::{Verdict, Wanted};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rules::Host;
use rustix::fs::{MemfdFlags, SealFlags};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::connection::{Admitted, reset};
use crate::http::{Read, Way, Wire, talk, two};

/// How long a handshake may take.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(15);
/// The most hosts that a certificate is kept for.
const MOST_KEPT: usize = 1024;
/// What the versions of HTTP are called in a greeting.
const ONE: &[u8] = b"http/1.1";
const TWO: &[u8] = b"h2";
/// Where systems keep the certificates that they trust.
const TRUSTED: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Signs for the hosts that one sandbox talks to.
pub(crate) struct Authority {
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
    /// One key for all hosts: whoever had it would have this process.
    key: KeyPair,
    /// How each host greets: clients that may speak HTTP/2, and those that may not.
    kept: Mutex<HashMap<String, [Arc<ServerConfig>; 2]>>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Authority(***)")
    }
}

impl Authority {
    /// A new one, its certificate (PEM), and its memory file for whoever starts the next proxy of the same sandbox.
    pub(crate) fn made() -> io::Result<(Self, String, OwnedFd)> {
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let certificate = parameters().self_signed(&key).map_err(io::Error::other)?;
        let memory = kept(certificate.der(), key.serialized_der())?;
        Ok((Self::with(certificate.der().clone(), key)?, certificate.pem(), memory))
    }

    /// The one of an earlier proxy.
    pub(crate) fn again(memory: &OwnedFd) -> io::Result<Self> {
        let strange = || io::Error::new(io::ErrorKind::InvalidData, "the authority is not understood");
        let mut bytes = vec![0; 64 * 1024];
        let got = rustix::io::pread(memory, &mut bytes, 0)?;
        let (length, rest) = bytes.get(..got).and_then(<[u8]>::split_first_chunk::<4>).ok_or_else(strange)?;
        let length = usize::try_from(u32::from_be_bytes(*length)).map_err(|_| strange())?;
        let (certificate, key) = rest.split_at_checked(length).ok_or_else(strange)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key));
        let key = KeyPair::try_from(&key).map_err(io::Error::other)?;
        Self::with(CertificateDer::from(certificate.to_vec()), key)
    }

    fn with(certificate: CertificateDer<'static>, key: KeyPair) -> io::Result<Self> {
        let issuer = Issuer::new(parameters(), key);
        let key = KeyPair::generate().map_err(io::Error::other)?;
        Ok(Self { certificate, issuer, key, kept: Mutex::default() })
    }

    /// How a client of this host is greeted, with or without HTTP/2.
    fn greets(&self, host: &Host, with_two: bool) -> io::Result<Arc<ServerConfig>> {
        let name = host.to_string();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let pick = |[two, one]: &[Arc<ServerConfig>; 2]| Arc::clone(if with_two { two } else { one });
        if let Some(both) = kept.get(&name) {
            return Ok(pick(both));
        }
        let mut leaf = CertificateParams::new(vec![name.clone()]).map_err(io::Error::other)?;
        leaf.distinguished_name = rcgen::DistinguishedName::new();
        // A common name has a bound; the host is in the other names, which are what clients look at.
        leaf.distinguished_name.push(DnType::CommonName, name.chars().take(60).collect::<String>());
        leaf.use_authority_key_identifier_extension = true;
        leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let leaf = leaf.signed_by(&self.key, &self.issuer).map_err(io::Error::other)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.serialized_der().to_vec()));
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .and_then(|builder| {
                builder
                    .with_no_client_auth()
                    .with_single_cert(vec![leaf.der().clone(), self.certificate.clone()], key)
            })
            .map_err(io::Error::other)?;
        config.alpn_protocols = vec![ONE.to_vec()];
        let mut with = config.clone();
        with.alpn_protocols.insert(0, TWO.to_vec());
        if kept.len() >= MOST_KEPT {
            kept.clear();
        }
        let both = [Arc::new(with), Arc::new(config)];
        let picked = pick(&both);
        kept.insert(name, both);
        Ok(picked)
    }
}

fn parameters() -> CertificateParams {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = rcgen::DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, "Palisade, for one sandbox");
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    parameters
}

/// Certificate and key in a memory file that nobody can change any more.
fn kept(certificate: &[u8], key: &[u8]) -> io::Result<OwnedFd> {
    let memory = rustix::fs::memfd_create("authority", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let length = u32::try_from(certificate.len()).unwrap_or_default().to_be_bytes();
    let bytes = [&length, certificate, key].concat();
    if rustix::io::write(memory.as_fd(), &bytes)? != bytes.len() {
        return Err(io::ErrorKind::WriteZero.into());
    }
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    rustix::fs::fcntl_add_seals(&memory, seals)?;
    Ok(memory)
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    static PROVIDER: OnceLock<Arc<rustls::crypto::CryptoProvider>> = OnceLock::new();
    Arc::clone(PROVIDER.get_or_init(|| Arc::new(rustls::crypto::aws_lc_rs::default_provider())))
}

/// Bytes that nobody can guess.
pub(crate) fn chance<const N: usize>() -> io::Result<[u8; N]> {
    let mut key = [0; N];
    provider().secure_random.fill(&mut key).map_err(|_| io::Error::other("there is no chance to be had"))?;
    Ok(key)
}

/// Makes TLS to servers: to those that may speak HTTP/2, and to those that may not.
#[derive(Clone)]
pub(crate) struct Client {
    with_two: Arc<ClientConfig>,
    without: Arc<ClientConfig>,
}

impl Client {
    /// With what this machine trusts.
    fn new() -> Result<Self, String> {
        static CLIENT: OnceLock<Result<Client, String>> = OnceLock::new();
        CLIENT.get_or_init(trusting).clone()
    }

    /// For a server that never says who it is.
    #[cfg(test)]
    pub(crate) fn trusting_nobody() -> Self {
        let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
        let config = builder.unwrap().with_root_certificates(RootCertStore::empty()).with_no_client_auth();
        let config = Arc::new(config);
        Self { with_two: Arc::clone(&config), without: config }
    }

    /// Greets a server, which must be who it was judged to be. True: it will speak HTTP/2.
    pub(crate) async fn greet(
        &self,
        host: &Host,
        stream: TcpStream,
        offers_two: bool,
    ) -> Result<(Wire, bool), String> {
        let config = if offers_two { &self.with_two } else { &self.without };
        let name = match host {
            Host::Name(name) => ServerName::try_from(name.as_str().to_owned()),
            Host::Address(address) => Ok(ServerName::IpAddress((*address).into())),
        };
        let name = name.map_err(|error| error.to_string())?;
        match timeout(HANDSHAKE, TlsConnector::from(Arc::clone(config)).connect(name, stream)).await {
            Ok(Ok(stream)) => {
                let is_two = stream.get_ref().1.alpn_protocol() == Some(TWO);
                Ok((Box::new(stream), is_two))
            }
            Ok(Err(error)) => {
                Err(format!("the server `{host}` is not who it should be, or cannot be talked to: {error}"))
            }
            Err(_) => Err(format!("the server `{host}` does not finish its greeting")),
        }
    }
}

fn trusting() -> Result<Client, String> {
    let mut roots = RootCertStore::empty();
    for path in TRUSTED {
        let Ok(found) = CertificateDer::pem_file_iter(path) else { continue };
        roots.add_parsable_certificates(found.flatten());
        break;
    }
    if roots.is_empty() {
        return Err("this machine trusts no certificates; install the package `ca-certificates`".into());
    }
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![ONE.to_vec()];
    let mut with_two = config.clone();
    with_two.alpn_protocols.insert(0, TWO.to_vec());
    Ok(Client { with_two: Arc::new(with_two), without: Arc::new(config) })
}

/// Opens a connection and serves what is in it.
pub(crate) async fn serve(admitted: Admitted) {
    let wanted = admitted.wanted();
    let Admitted { house, host, port, inside, read, .. } = admitted;
    let shared = Arc::clone(&house);
    let room = shared.twos.try_acquire().ok();
    let ready = || -> Result<_, String> {
        let authority =
            house.authority().ok_or("this sandbox was started without an authority of its own")?;
        Ok((authority.greets(&host, room.is_some()).map_err(|error| error.to_string())?, Client::new()?))
    };
    let (greets, client) = match ready() {
        Ok(ready) => ready,
        Err(why) => {
            house.judged(&wanted, Verdict::Refused { why }, None).await;
            return reset(&inside);
        }
    };
    let begun =
        timeout(HANDSHAKE, TlsAcceptor::from(greets).accept(Again { first: read, at: 0, stream: inside }))
            .await;
    match begun {
        Ok(Ok(stream)) => {
            let is_two = stream.get_ref().1.alpn_protocol() == Some(TWO);
            let way = Way { house, host, port, tls: Some(client), once: false };
            if is_two {
                return two::talk(way, Box::new(stream)).await;
            }
            drop(room);
            talk(&way, Read { stream: Box::new(stream), bytes: Vec::new() }).await;
        }
        Ok(Err(error)) => untrusted(&house, &wanted, &error).await,
        Err(_) => {}
    }
}

/// A client that does not trust the sandbox's authority is told of: its user cannot see why.
async fn untrusted(house: &crate::house::House, wanted: &Wanted, error: &io::Error) {
    let why = format!(
        "the client does not accept the certificate of this sandbox, or broke off: {error}; a program that trusts only its \
         own certificates needs a rule with `access = \"pass\"`"
    );
    house.judged(wanted, Verdict::Refused { why }, None).await;
}

/// A connection of which the first bytes were read already.
struct Again {
    first: Vec<u8>,
    at: usize,
    stream: TcpStream,
}

impl AsyncRead for Again {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let rest = self.first.get(self.at..).unwrap_or_default();
        if rest.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        let count = rest.len().min(buf.remaining());
        buf.put_slice(rest.get(..count).unwrap_or_default());
        self.at += count;
        if self.at == self.first.len() {
            (self.first, self.at) = (Vec::new(), 0);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Again {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
