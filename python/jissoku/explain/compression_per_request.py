"""Each answer is compressed anew."""

from jissoku.explain.cpu_share import Signature, Wording, cpu_cause
from jissoku.model.finding import Finding, SuggestedDirective
from jissoku.model.observed import Observations

SIGNATURE = Signature(
    functions=r"deflate\w*|longest_match\w*|BrotliEncoder\w*|ZSTD_compress\w*"
    r"|compress/(flate|gzip)\.\S*[wW]rite\S*|compress/flate\.\(\*compressor\)\S*"
    r"|(flate2|miniz_oxide|zlib_rs|brotli|zstd)::\S*(deflate|compress|encode)\S*"
    r"|zlib_compress\w*|zlib_Compress\w*",
    libraries=r"lib(z|z-ng|brotlienc|zstd|deflate)\.so[\d.]*",
    not_functions=r"\w*[iI]nflate\w*|adler32\w*|\S*[dD]ecompress\S*",
)

WORDING = Wording(
    name="compression-per-request",
    cause="The answer is compressed anew for each request.",
    falsified_by="compression off or at level 1, and the same CPU time per request",
    remedy="compress files once, beforehand (gzip_static and .gz files), or use a low level: level"
    " 9 takes several times the time of level 1 for a few per cent of the size; leave out answers"
    " that fit into one segment",
    directives=(
        SuggestedDirective(program="nginx", directive="gzip_comp_level", value="1"),
        SuggestedDirective(program="nginx", directive="gzip_min_length", value="1000"),
        SuggestedDirective(program="nginx", directive="gzip_static", value="on"),
    ),
)


def diagnose(observed: Observations) -> Finding | None:
    """Looks for compressors on the stacks."""
    return cpu_cause(observed, SIGNATURE, WORDING)
