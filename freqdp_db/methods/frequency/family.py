"""The methods of the paper."""

from __future__ import annotations

from freqdp_db.methods.contract import AnyStep, Method
from freqdp_db.methods.frequency.global_ import GlobalStep
from freqdp_db.methods.frequency.guarantee import frequency_guarantee
from freqdp_db.methods.frequency.local import LocalStep


def _method(name: str, summary: str, *steps: AnyStep, global_held: bool = False) -> Method:
    return Method(
        name,
        summary,
        steps,
        kind="edited",
        guarantee=frequency_guarantee(global_held=global_held),
        unit="occurrence",
    )


FREQUENCY = (
    _method(
        "lg", "local PF randomization, then global TF randomization", LocalStep(), GlobalStep()
    ),
    _method(
        "gl",
        "global TF randomization, then local PF randomization",
        GlobalStep(),
        LocalStep(),
        global_held=True,
    ),
    _method("pure-g", "global TF randomization only", GlobalStep()),
    _method("pure-l", "local PF randomization only", LocalStep()),
)
