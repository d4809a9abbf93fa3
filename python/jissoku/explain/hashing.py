"""Checksums or digests are computed for each request."""

from jissoku.explain import compression_per_request, tls_handshakes
from jissoku.explain.cpu_share import Signature, Wording, cpu_cause
from jissoku.model.finding import Finding
from jissoku.model.observed import Observations

SIGNATURE = Signature(
    functions=r"(MD5|SHA1|SHA256|SHA512|md5|sha1|sha256|sha512)_\w+|EVP_Digest\w*|_?crc32\w*"
    r"|(sha2|sha1|md5|blake2|blake3|ring::digest)::\S+|crypto/(md5|sha1|sha256|sha512)\.\S+"
    r"|hash/crc32\.\S+|_blake2\w*|Hacl_\w+|(sha|md5)\w*_block\w*",
)

WORDING = Wording(
    name="hashing",
    cause="Checksums or digests are computed for each request.",
    falsified_by="a digest kept from the first request, and the same CPU time per request",
    remedy="keep digests (such as an ETag) with what they are of, or make them from size and time",
)


def diagnose(observed: Observations) -> Finding | None:
    """Looks for digests on the stacks; those of compression and TLS are theirs."""
    users = (compression_per_request.SIGNATURE, tls_handshakes.SIGNATURE)
    return cpu_cause(observed, SIGNATURE, WORDING, excluding=users)
