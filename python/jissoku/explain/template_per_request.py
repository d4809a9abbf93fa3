"""Templates are filled or even parsed for each request."""

from jissoku.explain.cpu_share import Signature, Wording, cpu_cause
from jissoku.model.finding import Finding
from jissoku.model.observed import Observations

SIGNATURE = Signature(
    functions=r"(html|text)/template\.\S+|(tera|askama|minijinja|handlebars)::\S+|render_template\w*"
    r"|root_render_func|block_\w+_render",
    files=r"(ejs|pug|handlebars|mustache|nunjucks)\S*\.js|<template>",
)

WORDING = Wording(
    name="template-per-request",
    cause="A template is filled, or even parsed, for each request.",
    falsified_by="the page kept as bytes, and the same CPU time per request",
    remedy="parse templates once, and keep pages or parts that are the same for all",
)


def diagnose(observed: Observations) -> Finding | None:
    """Looks for template engines on the stacks."""
    return cpu_cause(observed, SIGNATURE, WORDING)
