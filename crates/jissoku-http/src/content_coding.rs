//! Content negotiation by Accept-Encoding: RFC 9110 section 12.5.3.
//!
//! Identity is used when no coding is acceptable, even if the client forbids it: section 15.5.7
//! permits that, and a file without variants gets the same response for all clients.

use crate::head::trim;

/// A content coding (RFC 9110 section 8.4.1, RFC 7932, RFC 8878).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentCoding {
    /// `br`.
    Brotli,
    /// `zstd`.
    Zstd,
    /// `gzip`.
    Gzip,
}

impl ContentCoding {
    /// All codings, in order of preference at equal weight: smaller results first.
    pub const ALL: [Self; 3] = [Self::Brotli, Self::Zstd, Self::Gzip];

    /// Its name in Accept-Encoding and Content-Encoding.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Brotli => "br",
            Self::Zstd => "zstd",
            Self::Gzip => "gzip",
        }
    }

    fn is_named(self, name: &[u8]) -> bool {
        let old = self == Self::Gzip && name.eq_ignore_ascii_case(b"x-gzip");
        old || name.eq_ignore_ascii_case(self.name().as_bytes())
    }
}

/// A parsed Accept-Encoding. Weights are in thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AcceptEncoding {
    codings: [Option<u16>; ContentCoding::ALL.len()],
    identity: Option<u16>,
    others: Option<u16>,
}

impl AcceptEncoding {
    /// Adds the value of one Accept-Encoding field. Invalid members are ignored.
    pub fn add(&mut self, value: &[u8]) {
        for member in value.split(|&byte| byte == b',') {
            let mut parameters = member.split(|&byte| byte == b';').map(trim);
            let name = parameters.next().unwrap_or_default();
            let weight = match (parameters.next(), parameters.next()) {
                (None, _) => Some(1000),
                (Some(weight), None) => read_weight(weight),
                _ => None,
            };
            let Some(weight) = weight else { continue };
            if name == b"*" {
                self.others = Some(weight);
            } else if name.eq_ignore_ascii_case(b"identity") {
                self.identity = Some(weight);
            } else if let Some(at) =
                ContentCoding::ALL.iter().position(|coding| coding.is_named(name))
            {
                self.codings[at] = Some(weight);
            }
        }
    }

    /// The preferred coding for which `is_there` is true; `None` is identity.
    pub fn negotiate(&self, is_there: impl Fn(ContentCoding) -> bool) -> Option<ContentCoding> {
        let there = ContentCoding::ALL
            .into_iter()
            .zip(self.codings)
            .filter(|&(coding, _)| is_there(coding));
        let weighed = there.map(|(coding, weight)| (coding, weight.or(self.others).unwrap_or(0)));
        // Identity has weight 0 if it is not listed, so any acceptable coding is preferred.
        let least = self.identity.unwrap_or(0);
        let welcome = weighed.filter(|&(_, weight)| weight > 0 && weight >= least);
        let better = |negotiate: (ContentCoding, u16), next: (ContentCoding, u16)| {
            if next.1 > negotiate.1 { next } else { negotiate }
        };
        welcome.reduce(better).map(|(coding, _)| coding)
    }
}

/// `"q=" qvalue` (RFC 9110 section 12.4.2), in thousandths.
fn read_weight(parameter: &[u8]) -> Option<u16> {
    let [b'q' | b'Q', b'=', value @ ..] = parameter else { return None };
    let (whole, fraction) = match value {
        [whole @ (b'0' | b'1')] => (whole, &[][..]),
        [whole @ (b'0' | b'1'), b'.', fraction @ ..] if fraction.len() <= 3 => (whole, fraction),
        _ => return None,
    };
    let mut weight = u16::from(whole - b'0') * 1000;
    for (digit, scale) in fraction.iter().zip([100, 10, 1]) {
        weight += digit.is_ascii_digit().then(|| u16::from(digit - b'0') * scale)?;
    }
    (weight <= 1000).then_some(weight)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BR: Option<ContentCoding> = Some(ContentCoding::Brotli);
    const ZSTD: Option<ContentCoding> = Some(ContentCoding::Zstd);
    const GZIP: Option<ContentCoding> = Some(ContentCoding::Gzip);

    fn check(value: &str, expected: Option<ContentCoding>) {
        let mut accepted = AcceptEncoding::default();
        accepted.add(value.as_bytes());
        assert_eq!(accepted.negotiate(|_| true), expected, "{value:?}");
    }

    #[test]
    fn the_best_coding_wins() {
        check("", None);
        check("gzip", GZIP);
        check("x-gzip", GZIP);
        check("GZip", GZIP);
        check("gzip, deflate, br, zstd", BR);
        check("gzip, deflate, zstd", ZSTD);
        check("gzip;q=1.0, br;q=0.999", GZIP);
        check("gzip;q=0.5, br;q=0.25", GZIP);
        check("gzip ; Q=0.5,br;q=0.501", BR);
        check("*", BR);
        check("*;q=0.1, gzip;q=0.5", GZIP);
        check("*, br;q=0", ZSTD);
        check("gzip;q=0", None);
        check("gzip;q=0.000", None);
        check("identity", None);
        check("identity;q=0.5, gzip;q=0.3", None);
        check("identity;q=0.5, gzip;q=0.5", GZIP);
        check("identity;q=0, gzip;q=0.001", GZIP);
        check("*;q=0", None);
        check("deflate", None);
    }

    #[test]
    fn members_outside_the_grammar_count_for_nothing() {
        for value in [
            "gzip;q=2",
            "gzip;q=1.001",
            "gzip;q=0.1234",
            "gzip;q=.5",
            "gzip;q",
            "gzip;q=",
            "gzip;x=1",
            "gzip;q=1;q=1",
            ";",
            "gz ip",
            "gzip;q=0.x",
            "\"gzip\"",
        ] {
            check(value, None);
        }
        check("gzip;q=x, zstd", ZSTD);
        check(",, br ,,", BR);
    }

    #[test]
    fn only_what_is_there_is_chosen() {
        let mut accepted = AcceptEncoding::default();
        accepted.add(b"br");
        accepted.add(b"gzip;q=0.5");
        assert_eq!(accepted.negotiate(|coding| coding != ContentCoding::Brotli), GZIP);
        assert_eq!(accepted.negotiate(|_| false), None);
    }

    proptest! {
        #[test]
        fn a_forbidden_coding_is_not_chosen(value in "((br|gzip|zstd|identity|\\*)(;q=(0|0\\.5|1|0\\.0|x))?,? ?){0,6}") {
            let mut accepted = AcceptEncoding::default();
            accepted.add(value.as_bytes());
            if let Some(negotiate) = accepted.negotiate(|_| true) {
                let named = value.contains(negotiate.name()) || value.contains('*');
                prop_assert!(named, "{value:?} gave {negotiate:?}");
            }
        }
    }
}
