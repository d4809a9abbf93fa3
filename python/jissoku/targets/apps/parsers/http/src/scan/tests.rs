use proptest::prelude::*;

use super::*;

fn naive(bytes: &[u8], allowed: impl Fn(u8) -> bool) -> usize {
    bytes.iter().take_while(|&&byte| allowed(byte)).count()
}

#[test]
fn every_byte_at_every_place_is_judged_as_the_grammar_says() {
    for place in 0..20 {
        for byte in 0..=255 {
            let mut bytes = [b'a'; 20];
            bytes[place] = byte;
            let value = matches!(byte, b'\t' | b' '..=b'~' | 0x80..);
            assert_eq!(value_end(&bytes) == 20, value, "value byte {byte:#x} at {place}");
            assert_eq!(swar::value_end(&bytes) == 20, value, "value byte {byte:#x} at {place}");
            let target = matches!(byte, b'!'..=b'~');
            assert_eq!(target_end(&bytes) == 20, target, "target byte {byte:#x} at {place}");
            assert_eq!(swar::target_end(&bytes) == 20, target, "target byte {byte:#x} at {place}");
        }
    }
}

#[test]
fn tokens_and_hosts_are_those_of_the_grammar() {
    let tokens: Vec<u8> = (0..=255).filter(|&byte| is_token(byte)).collect();
    assert_eq!(tokens.len(), 26 * 2 + 10 + 15);
    assert!(!is_token(b' ') && !is_token(b':') && !is_token(0) && !is_token(0x80));
    assert!(!is_host(b'/') && !is_host(b'@') && !is_host(b':') && !is_host(b' '));
    assert_eq!(token_end(b"Host: x"), 4);
    assert_eq!(token_end(b"Host"), 4);
}

proptest! {
    #[test]
    fn wide_and_narrow_agree(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let value = naive(&bytes, |byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f));
        prop_assert_eq!((value_end(&bytes), swar::value_end(&bytes)), (value, value));
        let target = naive(&bytes, |byte| (b'!'..=b'~').contains(&byte));
        prop_assert_eq!((target_end(&bytes), swar::target_end(&bytes)), (target, target));
    }

    #[test]
    fn wide_and_narrow_agree_on_long_runs(
        bytes in prop::collection::vec(prop_oneof![40 => b'!'..=b'~', 1 => any::<u8>()], 0..300),
    ) {
        let value = naive(&bytes, |byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f));
        prop_assert_eq!((value_end(&bytes), swar::value_end(&bytes)), (value, value));
        let target = naive(&bytes, |byte| (b'!'..=b'~').contains(&byte));
        prop_assert_eq!((target_end(&bytes), swar::target_end(&bytes)), (target, target));
    }
}
