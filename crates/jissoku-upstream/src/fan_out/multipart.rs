//! Answers as `multipart/mixed` of `application/http` (RFC 2046 section 5.1, RFC 9112 section 10.2):
//! bodies unescaped, delimited by Content-Length and by a boundary that no server can guess.

use super::collection::Collection;
use super::part::PartResult;
use super::plan::Plan;

/// The body of the answer. `boundary` is 128 random bits, in hexadecimal also the parameter
/// `boundary` of Content-Type.
pub fn compose_multipart(plan: &Plan, collection: &Collection, boundary: u128) -> Vec<u8> {
    let mut answer = Vec::new();
    for (index, part) in plan.parts.iter().enumerate() {
        let message = message(collection.result(index).map(|(result, _)| result));
        let head = format!(
            "--{boundary:032x}\r\ncontent-type: application/http\r\ncontent-id: <{}>\r\n\
             content-length: {}\r\n\r\n",
            percent_encoded(&part.id),
            message.len()
        );
        answer.extend_from_slice(head.as_bytes());
        answer.extend_from_slice(&message);
        answer.extend_from_slice(b"\r\n");
    }
    answer.extend_from_slice(format!("--{boundary:032x}--\r\n").as_bytes());
    answer
}

/// A response of its own; for a failed part one that says why (RFC 9209).
fn message(result: Option<&PartResult>) -> Vec<u8> {
    match result {
        Some(PartResult::Response(response)) => {
            let mut head = format!("HTTP/1.1 {} \r\n", response.status);
            let is_ours = |name: &str| matches!(name, "content-length" | "transfer-encoding");
            for (name, value) in &response.fields {
                let is_clean = !value.chars().any(char::is_control) && !name.contains([':', ' ']);
                if is_clean && !is_ours(name) && !name.chars().any(char::is_control) {
                    head.push_str(&[name, ": ", value, "\r\n"].concat());
                }
            }
            let size = response.body.len().to_string();
            head.push_str(&["content-length: ", &size, "\r\n\r\n"].concat());
            let mut message = head.into_bytes();
            message.extend_from_slice(&response.body);
            message
        }
        Some(PartResult::Error(error)) => format!(
            "HTTP/1.1 {} \r\nproxy-status: jissoku; error={}\r\ncontent-length: 0\r\n\r\n",
            error.status(),
            error.name()
        )
        .into_bytes(),
        None => b"HTTP/1.1 504 \r\ncontent-length: 0\r\n\r\n".to_vec(),
    }
}

fn percent_encoded(id: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    id.bytes()
        .map(
            |byte| {
                if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
            },
        )
        .collect()
}
