//! How long does a head take to read? Eight shapes, by us and by `httparse`, which reads the same
//! lines but leaves the Host, the framing and the connection to its caller.
//!
//! For finding causes; what is claimed of speed comes from records of whole servers.

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use jissoku_http::Limits;
use jissoku_http::head::HeadReader;

/// A name, and a head of that shape.
struct Shape(&'static str, &'static [u8]);

impl std::fmt::Display for Shape {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} ({} B)", self.0, self.1.len())
    }
}

const SHAPES: [Shape; 8] = [
    Shape("smallest", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    Shape(
        "load generator",
        b"GET /plaintext HTTP/1.1\r\nHost: 127.0.0.1:8000\r\nUser-Agent: load/1\r\nAccept: */*\r\n\r\n",
    ),
    Shape("command line", b"GET /a/b.txt HTTP/1.1\r\nHost: example.org\r\nUser-Agent: curl/8.5.0\r\nAccept: */*\r\n\r\n"),
    Shape("browser", BROWSER),
    Shape("browser with cookies", COOKIES),
    Shape("behind a proxy", PROXY),
    Shape("upload", UPLOAD),
    Shape("many short lines", MANY),
];

const BROWSER: &[u8] = b"GET /articles/2026/11/speed HTTP/1.1\r\n\
    Host: www.example.org\r\n\
    Connection: keep-alive\r\n\
    sec-ch-ua: \"Chromium\";v=\"142\", \"Not=A?Brand\";v=\"24\"\r\n\
    sec-ch-ua-mobile: ?0\r\n\
    sec-ch-ua-platform: \"Linux\"\r\n\
    Upgrade-Insecure-Requests: 1\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8\r\n\
    Sec-Fetch-Site: same-origin\r\n\
    Sec-Fetch-Mode: navigate\r\n\
    Sec-Fetch-User: ?1\r\n\
    Sec-Fetch-Dest: document\r\n\
    Referer: https://www.example.org/articles/\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\n\
    Accept-Language: en-GB,en;q=0.9\r\n\r\n";

const COOKIES: &[u8] = b"GET /account HTTP/1.1\r\n\
    Host: shop.example.org\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
    Accept-Language: en-GB,en;q=0.5\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\n\
    Connection: keep-alive\r\n\
    Cookie: session=0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef; \
    consent=v2.eyJhbmFseXRpY3MiOmZhbHNlLCJhZHMiOmZhbHNlLCJ0aW1lIjoxNzYzNzIwMDAwfQ; \
    basket=W3siaWQiOjEwMDEsImNvdW50IjoyfSx7ImlkIjoxMDA3LCJjb3VudCI6MX0seyJpZCI6MjAwMSwiY291bnQiOjR9XQ; \
    seen=1001.1002.1003.1004.1005.1006.1007.1008.1009.1010.1011.1012.1013.1014.1015.1016.1017.1018; \
    theme=dark; currency=EUR; region=north-west; recommend=off\r\n\
    If-None-Match: \"33a64df551425fcc55e4d42a148795d9f25f89d4\"\r\n\
    Priority: u=0, i\r\n\r\n";

const PROXY: &[u8] = b"GET /v1/things?limit=50 HTTP/1.1\r\n\
    Host: api.internal\r\n\
    X-Request-Id: 6f1c9f4e-2f6b-4a55-9e0a-7d3b2f0c1a11\r\n\
    X-Real-IP: 192.0.2.17\r\n\
    X-Forwarded-For: 192.0.2.17, 198.51.100.4\r\n\
    X-Forwarded-Host: api.example.org\r\n\
    X-Forwarded-Proto: https\r\n\
    X-Forwarded-Port: 443\r\n\
    Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abcdefghijklmnopqrstuvwxyz012345\r\n\
    Accept: application/json\r\n\
    traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n\r\n";

const UPLOAD: &[u8] = b"POST /upload HTTP/1.1\r\n\
    Host: example.org\r\n\
    Content-Type: multipart/form-data; boundary=----boundary0123456789abcdef\r\n\
    Content-Length: 102400\r\n\
    Expect: 100-continue\r\n\
    Accept: */*\r\n\r\n";

const MANY: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\
    A: 1\r\nB: 2\r\nC: 3\r\nD: 4\r\nE: 5\r\nF: 6\r\nG: 7\r\nH: 8\r\nI: 9\r\nJ: 10\r\nK: 11\r\nL: 12\r\n\
    M: 13\r\nN: 14\r\nO: 15\r\nP: 16\r\nQ: 17\r\nR: 18\r\nS: 19\r\nT: 20\r\nU: 21\r\nV: 22\r\nW: 23\r\n\r\n";

fn main() {
    divan::main();
}

#[divan::bench(args = SHAPES)]
fn ours(bencher: Bencher<'_, '_>, shape: &Shape) {
    bencher.counter(BytesCount::new(shape.1.len())).bench(|| {
        let head = HeadReader::default().read(black_box(shape.1), &Limits::DEFAULT);
        assert!(matches!(head, Ok(Some(_))));
        head
    });
}

#[divan::bench(args = SHAPES)]
fn httparse(bencher: Bencher<'_, '_>, shape: &Shape) {
    bencher.counter(BytesCount::new(shape.1.len())).bench(|| {
        let mut fields = [::httparse::EMPTY_HEADER; 32];
        let mut request = ::httparse::Request::new(&mut fields);
        let outcome = request.parse(black_box(shape.1));
        assert!(matches!(outcome, Ok(::httparse::Status::Complete(_))));
        outcome
    });
}
