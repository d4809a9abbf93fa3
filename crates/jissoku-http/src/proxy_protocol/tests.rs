use proptest::prelude::*;

use super::*;

const INVALID: Result<Option<ProxyHeader>, Reject> = Err(Reject::ProxyHeaderInvalid);

/// The client of a header that is all of `bytes`.
fn client(bytes: &[u8]) -> Option<String> {
    let header = read(bytes).expect("a valid header").expect("a complete one");
    assert_eq!(header.size, bytes.len());
    header.client.map(|client| client.to_string())
}

/// A header of version 2.
fn binary(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let size = u16::try_from(rest.len()).expect("a short header").to_be_bytes();
    [SIGNATURE, &[command, family][..], &size, rest].concat()
}

#[test]
fn a_line_has_the_address_of_the_client() {
    let tcp4 = b"PROXY TCP4 192.0.2.1 192.0.2.2 4000 80\r\n";
    assert_eq!(client(tcp4).as_deref(), Some("192.0.2.1:4000"));
    let tcp6 = b"PROXY TCP6 2001:db8::1 2001:db8::2 4000 80\r\n";
    assert_eq!(client(tcp6).as_deref(), Some("[2001:db8::1]:4000"));
    assert_eq!(client(b"PROXY UNKNOWN\r\n"), None);
    assert_eq!(client(b"PROXY UNKNOWN ffff::1 ffff::2 65535 65535\r\n"), None);
    let invalid = [
        "GET / HTTP/1.1\r\n",
        "PROXX",
        "PROXY TCP4 192.0.2.1 192.0.2.2 4000\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 4000 80 1\r\n",
        "PROXY TCP4 2001:db8::1 2001:db8::2 4000 80\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 4000 65536\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 +400 80\r\n",
        "PROXY UDP4 192.0.2.1 192.0.2.2 4000 80\r\n",
        "PROXY UNKNOWNX\r\n",
    ];
    for line in invalid {
        assert_eq!(read(line.as_bytes()), INVALID, "{line}");
    }
    assert_eq!(read(&[b"PROXY UNKNOWN ".as_slice(), &[b'a'; 100]].concat()), INVALID);
}

#[test]
fn a_binary_header_has_the_address_of_the_client() {
    let ipv4 = [192, 0, 2, 1, 192, 0, 2, 2, 15, 160, 0, 80];
    assert_eq!(client(&binary(0x21, 0x11, &ipv4)).as_deref(), Some("192.0.2.1:4000"));
    // Extensions follow the addresses.
    let extended = [&ipv4[..], &[4, 0, 1, 0]].concat();
    assert_eq!(client(&binary(0x21, 0x11, &extended)).as_deref(), Some("192.0.2.1:4000"));
    let ipv6 = [&Ipv6Addr::LOCALHOST.octets()[..], &[0; 16], &[15, 160, 0, 80]].concat();
    assert_eq!(client(&binary(0x21, 0x21, &ipv6)).as_deref(), Some("[::1]:4000"));
    assert_eq!(client(&binary(0x20, 0x11, &ipv4)), None);
    assert_eq!(client(&binary(0x20, 0x00, &[])), None);
    assert_eq!(client(&binary(0x21, 0x31, &[b'a'; 216])), None);
    for (command, family, rest) in
        [(0x31, 0x11, &ipv4[..]), (0x22, 0x11, &ipv4), (0x21, 0x11, &ipv4[..9])]
    {
        assert_eq!(read(&binary(command, family, rest)), INVALID);
    }
    assert_eq!(read(&binary(0x21, 0x11, &[0; 5000])), INVALID);
}

proptest! {
    #[test]
    fn cuts_do_not_matter(
        start in prop_oneof![Just(b"PROXY ".to_vec()), Just(SIGNATURE.to_vec())],
        rest in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..60),
            "(TCP4|UNKNOWN) ([0-9.]{1,9} ){0,4}\r\n[ -~]{0,9}".prop_map(String::into_bytes),
            Just([&[0x21, 0x11, 0, 12][..], &[1; 20]].concat()),
        ],
    ) {
        let bytes = [start, rest].concat();
        let whole = read(&bytes);
        let mut reads = (0..=bytes.len()).map(|size| read(&bytes[..size]));
        let first = reads.find(|found| *found != Ok(None)).unwrap_or(Ok(None));
        prop_assert_eq!(first, whole);
    }
}
