"""The teacher of a distillation. What its flags have to be is checked with the loss."""

from __future__ import annotations

from collections.abc import Iterator

from spader_slime.doctor.checks.search import loopback
from spader_slime.doctor.facts import Facts, TeacherProbe
from spader_slime.doctor.findings import Finding, error, ok, warning

ADVICE = {
    "address": "write addresses such as http://host:13141",
    "connection": "start it (launch/eopd/serve-teacher.sh), or correct spader.distillation.urls",
    "timeout": "too slow, or not a teacher: raise spader.distillation.timeout_s or look there",
    "status": "look at its log; it has to be an SGLang server that answers /generate",
    "malformed": "it has to be an SGLang server whose /generate scores its input",
    "oversized": "it has to be an SGLang server; lower spader.distillation.top_k",
    "length": "it leaves tokens out: serve it with SGLang, and no proxy that changes replies",
    "not_finite": "it gives log-probs that are no numbers: look at its weights and its dtype",
    "vocabulary": "serve a teacher that has the student's tokenizer, and give it that tokenizer",
}


def check(facts: Facts) -> Iterator[Finding]:
    """Every server answers, has the student's vocabulary, and scores as asked."""
    if facts.config.value is None or not facts.config.value.distillation.active:
        return
    if facts.teachers.value is None:
        advice = "the servers were not asked: correct this and look again"
        yield warning("spader.distillation.urls", facts.teachers.missing, advice)
    probes = facts.teachers.value or ()
    yield from map(_answers, probes)
    yield from loopback(facts.flags, [probe.url for probe in probes])


def _answers(probe: TeacherProbe) -> Finding:
    if probe.kind:
        return error(probe.url, f"{probe.kind}: {probe.message}", ADVICE[probe.kind])
    return ok(probe.url, f"the student's vocabulary; scores in {1000 * probe.seconds:.0f} ms")
