//! Signs a request of an AWS client again: the sandbox signed it with a word that stands for the key, and only the signature
//! with the key itself is worth anything.
//!
//! Flow: a request that may go, as it will be sent -> what was signed, by its own words -> the same, signed with the key.
//! Invariants: the key never leaves this process, and of it only a signature does; what cannot be signed again in one way
//! only is refused. Not here: addresses that carry a signature, and content that is signed piece by piece.

use std::collections::BTreeMap;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::lent::RANGES;

/// How a client says that it signs this way.
const SCHEME: &str = "AWS4-HMAC-SHA256";
/// The header that tells the digest of the content.
const CONTENT: &str = "x-amz-content-sha256";

/// A header that requests with secrets do not always keep, beside [`RANGES`], so that answers come whole and readable.
const TAKEN: &str = "accept-encoding";

/// A request as it will be sent.
pub(crate) struct Signed<'a> {
    pub(crate) method: &'a str,
    /// The path as it is written, without the query.
    pub(crate) path: &'a str,
    pub(crate) query: Option<&'a str>,
    /// Headers, their names in small letters.
    pub(crate) headers: Vec<(String, &'a [u8])>,
    /// The content, if all of it is there.
    pub(crate) content: Option<&'a [u8]>,
}

/// Whether a header says that the request is signed this way.
pub(crate) fn is_signed(authorization: &[u8]) -> bool {
    authorization.get(..SCHEME.len()).is_some_and(|scheme| scheme.eq_ignore_ascii_case(SCHEME.as_bytes()))
}

/// What the header of a signed request says.
struct Claim<'a> {
    credential: &'a str,
    day: &'a str,
    region: &'a str,
    service: &'a str,
    names: Vec<&'a str>,
}

impl<'a> Claim<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let mut parts: BTreeMap<&str, &str> = BTreeMap::new();
        for part in text.get(SCHEME.len()..)?.split(',') {
            let (name, value) = part.trim().split_once('=')?;
            if parts.insert(name, value).is_some() {
                return None;
            }
        }
        let credential = *parts.get("Credential")?;
        let mut scope = credential.rsplitn(5, '/');
        let (end, service, region, day) = (scope.next()?, scope.next()?, scope.next()?, scope.next()?);
        let is_day = day.len() == 8 && day.bytes().all(|byte| byte.is_ascii_digit());
        let names: Vec<&str> = parts.get("SignedHeaders")?.split(';').collect();
        let known = ["Credential", "SignedHeaders", "Signature"];
        let is_known = parts.len() == 3 && known.iter().all(|name| parts.contains_key(name));
        (is_known && is_day && end == "aws4_request" && !scope.next()?.is_empty() && names.contains(&"host"))
            .then_some(Self { credential, day, region, service, names })
    }
}

/// The value of the header `Authorization` with a signature by this key, or why there is none.
pub(crate) fn sign_again(request: &Signed<'_>, key: &str) -> Result<Zeroizing<String>, &'static str> {
    let one = |name: &str| {
        let mut found = request.headers.iter().filter(|(own, _)| own == name).map(|(_, value)| *value);
        let first = found.next().and_then(|value| str::from_utf8(value).ok());
        if found.next().is_some() { None } else { first }
    };
    let authorization = one("authorization").ok_or("its signature cannot be read in one way only")?;
    let mut claim = Claim::read(authorization).ok_or("its signature cannot be read in one way only")?;
    // What we took away is not signed either.
    let may_be_taken = |name: &str| name == TAKEN || RANGES.contains(&name);
    claim.names.retain(|name| !may_be_taken(name) || request.headers.iter().any(|(own, _)| own == name));
    let at = one("x-amz-date").filter(|at| at.len() == 16 && at.starts_with(claim.day));
    let at = at.ok_or("it does not say when it was signed, in `X-Amz-Date`")?;
    let digest = match (one(CONTENT), request.content) {
        // What was put into the content changed it.
        (Some("UNSIGNED-PAYLOAD"), _) => "UNSIGNED-PAYLOAD".to_owned(),
        (Some(told), _) if told.starts_with("STREAMING-") => {
            return Err("its content is signed piece by piece, which cannot be done again");
        }
        (Some(told), None) => told.to_owned(),
        (told, Some(content)) => {
            let digest = hex(&Sha256::digest(content));
            if told.is_some_and(|told| told != digest) {
                return Err("its content is not what was signed");
            }
            digest
        }
        (None, None) => return Err("its content is too long to be signed again"),
    };
    let mut canonical = format!("{}\n{}\n", request.method, path(request.path, claim.service));
    canonical.push_str(&query(request.query.unwrap_or_default()).ok_or("its query is odd")?);
    canonical.push('\n');
    for name in &claim.names {
        let values: Option<Vec<String>> = request
            .headers
            .iter()
            .filter(|(own, _)| own == name)
            .map(|(_, value)| str::from_utf8(value).ok().map(plain))
            .collect();
        let values = values.filter(|values| !values.is_empty());
        let values = values.ok_or("it signs a header that it does not send, or that is no text")?;
        canonical.push_str(&format!("{name}:{}\n", values.join(",")));
    }
    canonical.push_str(&format!("\n{}\n{digest}", claim.names.join(";")));
    let scope = format!("{}/{}/{}/aws4_request", claim.day, claim.region, claim.service);
    let text = format!("{SCHEME}\n{at}\n{scope}\n{}", hex(&Sha256::digest(canonical.as_bytes())));
    let mut signs = Zeroizing::new(format!("AWS4{key}").into_bytes());
    for part in [claim.day, claim.region, claim.service, "aws4_request"] {
        signs = Zeroizing::new(mac(&signs, part));
    }
    let signature = hex(&mac(&signs, &text));
    Ok(Zeroizing::new(format!(
        "{SCHEME} Credential={}, SignedHeaders={}, Signature={signature}",
        claim.credential,
        claim.names.join(";"),
    )))
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    // A key of any length does.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return Vec::new() };
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The path as it is signed: S3 signs it as it is sent, and everybody else writes it once more.
fn path(path: &str, service: &str) -> String {
    if service == "s3" { path.to_owned() } else { path.split('/').map(escaped).collect::<Vec<_>>().join("/") }
}

/// The query as it is signed: in order, and written in one way.
fn query(query: &str) -> Option<String> {
    let mut pairs = Vec::new();
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        pairs.push((again(name)?, again(value)?));
    }
    pairs.sort();
    Some(pairs.into_iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&"))
}

/// What is written in percent signs, written anew.
fn again(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                let digits = str::from_utf8(&digits).ok().filter(|text| !text.starts_with('+'))?;
                u8::from_str_radix(digits, 16).ok()?
            }
            // Some take it for a space.
            b'+' => return None,
            other => other,
        });
    }
    Some(written(&bytes))
}

fn escaped(text: &str) -> String {
    written(text.as_bytes())
}

fn written(bytes: &[u8]) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    bytes
        .iter()
        .map(|byte| if plain(byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// A value without what spaces add to it.
fn plain(text: &str) -> String {
    text.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

    fn signed(
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        content: Option<&[u8]>,
    ) -> Result<String, &'static str> {
        let (path, query) =
            target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        let headers: Vec<(String, &[u8])> =
            headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.as_bytes())).collect();
        let request = Signed { method, path, query, headers, content };
        sign_again(&request, KEY).map(|value| value.rsplit_once("Signature=").unwrap().1.to_owned())
    }

    fn claim(service: &str, names: &str) -> String {
        format!(
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/{service}/aws4_request, SignedHeaders={names}, Signature=0"
        )
    }

    #[test]
    fn egr_14_signatures_are_those_of_the_published_examples() {
        let claim = claim("service", "host;x-amz-date");
        let headers = [
            ("Host", "example.amazonaws.com"),
            ("X-Amz-Date", "20150830T123600Z"),
            ("Authorization", claim.as_str()),
        ];
        for (target, expected) in [
            ("/", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
            (
                "/?Param2=value2&Param1=value1",
                "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
            ),
        ] {
            assert_eq!(signed("GET", target, &headers, Some(b"")).unwrap(), expected, "{target}");
        }
        assert_eq!(
            signed("POST", "/", &headers, Some(b"")).unwrap(),
            "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"
        );
    }

    #[test]
    fn egr_14_what_cannot_be_signed_in_one_way_is_refused() {
        let good = claim("s3", "host;x-amz-date");
        let with = |claim: &str, more: &[(&'static str, &'static str)], content: Option<&[u8]>| {
            let claim = claim.to_owned();
            let mut headers = vec![
                ("Host", "b.s3.amazonaws.com"),
                ("X-Amz-Date", "20150830T123600Z"),
                ("Authorization", claim.as_str()),
            ];
            headers.extend(more);
            signed("PUT", "/a", &headers, content)
        };
        assert!(with(&good, &[], Some(b"x")).is_ok());
        assert!(with(&good, &[(CONTENT, "UNSIGNED-PAYLOAD")], None).is_ok());
        for (claim, more, content) in [
            (good.clone(), vec![], None),
            (good.clone(), vec![(CONTENT, "STREAMING-AWS4-HMAC-SHA256-PAYLOAD")], None),
            (good.clone(), vec![(CONTENT, "0000")], Some(b"x".as_slice())),
            (good.clone(), vec![("X-Amz-Date", "20150830T123601Z")], Some(b"x".as_slice())),
            (good.replace("host;", ""), vec![], Some(b"x".as_slice())),
            (good.replace("x-amz-date", "x-amz-date;x-not-there"), vec![], Some(b"x".as_slice())),
            (good.replace("20150830/", "20150831/"), vec![], Some(b"x".as_slice())),
            (format!("{good}, Signature=1"), vec![], Some(b"x".as_slice())),
            (good.replace("aws4_request", "aws4"), vec![], Some(b"x".as_slice())),
        ] {
            assert!(with(&claim, &more, content).is_err(), "{claim} {more:?}");
        }
        assert_eq!(query("a=1+2"), None);
        assert_eq!(query("b=%7e&a=%20&c").as_deref(), Some("a=%20&b=~&c="));
    }
}
