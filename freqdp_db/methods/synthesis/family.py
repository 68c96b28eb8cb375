"""Methods that publish trips which are nobody's, with a guarantee for one object."""

from __future__ import annotations

from functools import partial

from freqdp_db.methods.contract import Method, Need
from freqdp_db.methods.synthesis.guarantee import booked_rho, object_guarantee
from freqdp_db.methods.synthesis.steps import AdaTraceStep, DptStep, StrictStep, SyntheticStep


def _method(summary: str, step: SyntheticStep, needs: tuple[Need, ...] = ()) -> Method:
    return Method(
        step.name,
        summary,
        (step,),
        kind="synthetic",
        guarantee=object_guarantee(step.name, step.options),
        unit="person",
        needs=needs,
        books=partial(booked_rho, step.options),
    )


SYNTHESIS = (
    _method(
        "synthetic trips with a guarantee for one object with all its data",
        StrictStep(),
        (Need("roads", "roads", optional=True),),
    ),
    _method("AdaTrace at the unit of an object, to compare with strict", AdaTraceStep()),
    _method("DPT at the unit of an object, to compare with strict", DptStep()),
)
