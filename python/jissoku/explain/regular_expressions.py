"""Regular expressions are matched for each request."""

from jissoku.explain.cpu_share import Signature, Wording, cpu_cause
from jissoku.model.finding import Finding
from jissoku.model.observed import Observations

SIGNATURE = Signature(
    functions=r"pcre2?_\w*(exec|match)\w*|regexec|re_search_internal|onig_\w+|re2::\S+"
    r"|regexp\.\S+|(regex|regex_automata|fancy_regex)::\S+|sre_ucs[124]_\w+|_sre_\w+"
    r"|(v8::internal::)?(RegExp|NativeRegExpMacroAssembler|IrregexpInterpreter)\w*\S*",
    libraries=r"lib(pcre2?-8|pcre|re2|onig)\.so[\d.]*",
)

WORDING = Wording(
    name="regular-expressions",
    cause="Regular expressions are matched for each request.",
    falsified_by="a plain comparison in place of the pattern, and the same CPU time per request",
    remedy="compare prefixes or whole strings where that is enough, put the most frequent route"
    " first, and avoid nested repetition; in nginx pcre_jit and exact locations help",
)


def diagnose(observed: Observations) -> Finding | None:
    """Looks for matchers on the stacks."""
    return cpu_cause(observed, SIGNATURE, WORDING)
