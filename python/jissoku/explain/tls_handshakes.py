"""Connections are negotiated anew, with public-key cryptography."""

from jissoku.explain.cpu_share import Signature, Wording, cpu_cause
from jissoku.model.finding import Finding, SuggestedDirective
from jissoku.model.observed import Observations

SIGNATURE = Signature(
    functions=r"SSL_do_handshake|SSL_accept|ossl_statem_\w+|state_machine|tls_process_client_hello"
    r"|rustls::server::(hs|tls12|tls13)::\S+|rustls::\S*handshake\S*"
    r"|crypto/tls\.\S*[hH]andshake\S*|RSA_private_\w+|rsa_ossl_\w+|ecdsa_\w+|ossl_ecdsa_\w+",
)

WORDING = Wording(
    name="tls-handshakes",
    cause="CPU time goes into TLS handshakes: connections are new, and sessions are not resumed.",
    falsified_by="connections that are kept or sessions that are resumed, and the same CPU time",
    remedy="keep connections open, resume sessions (a shared cache or tickets), and use an ECDSA"
    " certificate, whose signature is cheaper than RSA's",
    directives=(
        SuggestedDirective(program="nginx", directive="ssl_session_cache", value="shared:SSL:10m"),
        SuggestedDirective(program="nginx", directive="ssl_session_timeout", value="1h"),
    ),
)


def diagnose(observed: Observations) -> Finding | None:
    """Looks for handshakes on the stacks."""
    return cpu_cause(observed, SIGNATURE, WORDING)
