"""The two methods of signature closure."""

from __future__ import annotations

from freqdp_db.methods.closure.guarantee import closure_guarantee
from freqdp_db.methods.closure.step import ClosureOptions, ClosureStep, RadiusOptions
from freqdp_db.methods.contract import Method


def _method(name: str, summary: str, options: type[ClosureOptions]) -> Method:
    return Method(
        name,
        summary,
        (ClosureStep(options),),
        kind="edited",
        guarantee=closure_guarantee,
        grantable=False,
        explains="Each trajectory is one object's, edited: samples were taken out, none were put in. "
        "Count places, times and flows; do not look for persons.",
    )


CLOSURE = (
    _method("sc", "signature closure, for comparison: drops each signature", ClosureOptions),
    _method(
        "rsc",
        "signature closure with a radius, for comparison: drops what lies near as well",
        RadiusOptions,
    ),
)
