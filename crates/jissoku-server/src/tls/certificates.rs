//! Which certificate a client gets: by the name of the server that it asks for (SNI, RFC 6066
//! section 3).

use std::collections::HashMap;
use std::sync::Arc;

use jissoku_http::date;
use rustls::pki_types::CertificateDer;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use webpki::EndEntityCert;

pub(crate) type CertificateIndex = usize;

/// The certificates of a server. The first is for clients that ask for no name, or for an unknown one.
#[derive(Debug, Default)]
pub(crate) struct Certificates {
    keys: Vec<Arc<CertifiedKey>>,
    /// The first certificate of each name, in lower case; `*.name` without its star.
    by_name: HashMap<Box<str>, CertificateIndex>,
}

impl Certificates {
    /// Adds a certificate. Returns whether it has the name of a host.
    pub(super) fn add(&mut self, key: CertifiedKey) -> bool {
        let index = self.keys.len();
        let mut has_name = false;
        for name in key.cert.first().map(names).unwrap_or_default() {
            has_name = true;
            self.by_name.entry(name.into()).or_insert(index);
        }
        self.keys.push(Arc::new(key));
        has_name
    }

    pub(super) const fn count(&self) -> usize {
        self.keys.len()
    }

    /// The certificate of a host: that with its name, else that with `*` for its first label, else the
    /// first one.
    pub(crate) fn index_of(&self, host: &str) -> CertificateIndex {
        let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        let by_wildcard = || self.by_name.get(&name[name.find('.')?..]);
        self.by_name.get(&*name).or_else(by_wildcard).copied().unwrap_or(0)
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let index = hello.server_name().map_or(0, |name| self.index_of(name));
        self.keys.get(index).map(Arc::clone)
    }
}

/// The names of hosts that a certificate is for, `*.name` as `.name`.
fn names(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok(parsed) = EndEntityCert::try_from(certificate) else { return Vec::new() };
    let lower = |name: &str| name.strip_prefix('*').unwrap_or(name).to_ascii_lowercase();
    parsed.valid_dns_names().map(lower).collect()
}

/// When a certificate expires, in seconds since 1970 (RFC 5280 section 4.1.2.5).
pub(super) fn expiry_s(certificate: &[u8]) -> Option<u64> {
    const SEQUENCE: u8 = 0x30;
    const VERSION: u8 = 0xa0;
    const UTC_TIME: u8 = 0x17;
    let whole = element(certificate)?;
    let signed = element(whole.content)?;
    let mut rest = signed.content;
    if element(rest)?.tag == VERSION {
        rest = element(rest)?.rest;
    }
    // The serial number, the algorithm of the signature, the issuer.
    for _ in 0..3 {
        rest = element(rest)?.rest;
    }
    let validity = element(rest).filter(|validity| validity.tag == SEQUENCE)?;
    let end = element(element(validity.content)?.rest)?;
    let digits = str::from_utf8(end.content).ok()?.strip_suffix('Z')?;
    let whole_year = match end.tag {
        // RFC 5280 section 4.1.2.5.1.
        UTC_TIME if digits.get(..2)? < "50" => format!("20{digits}"),
        UTC_TIME => format!("19{digits}"),
        _ => digits.to_owned(),
    };
    let month: usize = whole_year.get(4..6)?.parse().ok()?;
    let names = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let (year, day) = (whole_year.get(..4)?, whole_year.get(6..8)?);
    let month = names.get(month.checked_sub(1)? * 3..month * 3)?;
    let (hour, minute, second) =
        (whole_year.get(8..10)?, whole_year.get(10..12)?, whole_year.get(12..14)?);
    let text = format!("Day, {day} {month} {year} {hour}:{minute}:{second} GMT");
    date::parse(text.as_bytes(), 0)
}

/// An element of DER (ITU-T X.690).
struct Element<'a> {
    tag: u8,
    content: &'a [u8],
    rest: &'a [u8],
}

/// The first element of `bytes`. Lengths have four bytes at most.
fn element(bytes: &[u8]) -> Option<Element<'_>> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (size, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let count = usize::from(first - 0x80);
        let (digits, rest) = rest.split_at_checked(count).filter(|_| count <= 4)?;
        (digits.iter().fold(0, |size, &byte| size << 8 | usize::from(byte)), rest)
    };
    let (content, rest) = rest.split_at_checked(size)?;
    Some(Element { tag, content, rest })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(names: &[&str]) -> CertifiedKey {
        let names: Vec<_> = names.iter().map(ToString::to_string).collect();
        let made = rcgen::generate_simple_self_signed(names).expect("a key");
        let key = made.signing_key.serialize_der().try_into().expect("a key in PKCS 8");
        let key = rustls::crypto::ring::sign::any_supported_type(&key).expect("a known type");
        CertifiedKey::new(vec![made.cert.der().clone()], key)
    }

    #[test]
    fn a_name_has_its_own_certificate_before_that_of_a_wildcard() {
        let mut certificates = Certificates::default();
        assert!(!certificates.add(certificate(&["127.0.0.1"])));
        assert!(certificates.add(certificate(&["*.Example.com"])));
        assert!(certificates.add(certificate(&["www.example.com", "example.com"])));
        assert!(certificates.add(certificate(&["example.com", "*.a.example.com"])));
        for (host, index) in [
            ("www.example.com", 2),
            ("WWW.EXAMPLE.COM.", 2),
            ("other.example.com", 1),
            ("example.com", 2),
            ("a.example.com", 1),
            ("b.a.example.com", 3),
            ("x.b.a.example.com", 0),
            ("example.org", 0),
            (".example.com", 1),
            ("com", 0),
            ("", 0),
            (".", 0),
        ] {
            assert_eq!(certificates.index_of(host), index, "{host}");
        }
    }

    #[test]
    fn the_expiry_of_a_certificate_is_read() {
        let mut params = rcgen::CertificateParams::new(["a".to_owned()]).expect("a name");
        let key = rcgen::KeyPair::generate().expect("a key");
        for (year, expected) in [(2049, 2_493_072_000), (2050, 2_524_608_000)] {
            params.not_after = rcgen::date_time_ymd(year, 1, 1);
            let made = params.self_signed(&key).expect("a certificate");
            assert_eq!(expiry_s(made.der()), Some(expected), "{year}");
            for size in 0..200 {
                // A part of it is no panic.
                let _none = expiry_s(&made.der()[..size]);
            }
        }
    }
}
