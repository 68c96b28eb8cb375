"""Methods by name. Adding one is a module that makes it, and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from freqdp_db.engines.partitions import Engine
from freqdp_db.errors import BadInput
from freqdp_db.methods.contract import Kind, Method
from freqdp_db.methods.counts.family import COUNTS
from freqdp_db.methods.frequency.steps import FREQUENCY
from freqdp_db.methods.k_anonymity.glove import GLOVE
from freqdp_db.methods.synthesis.steps import STRICT
from freqdp_db.methods.unlinking.steps import UNLINKING
from freqdp_db.paper.methods import CLOSURE, COMPARED
from freqdp_db.privacy.guarantee import Guarantee, ProtectedUnit

_JOINED = "+"
_COARSER: tuple[Kind, ...] = ("edited", "unlinked", "generalised", "synthetic", "counts")

METHODS: dict[str, Method] = {
    method.name: method for method in (*FREQUENCY, *UNLINKING, GLOVE, STRICT, *COUNTS, *COMPARED)
}

_EDITED_BEFORE = "Samples were taken out and others put in first. "
_CLOSED_BEFORE = "Samples were taken out first. "


def require_named(method: str | None) -> str:
    """Refuse a request that names no method: none is right for all data."""
    if method is None:
        raise BadInput(
            "[[method]] is missing: which one is right depends on the data",
            remedy="`freqdp recommend DATASET` says which; [[method]] lg is the paper's",
        )
    return method


@lru_cache
def find_method(name: str) -> Method:
    """A method, or several that follow each other: `lg+swap`."""
    first, *others = name.split(_JOINED)
    method = _known(first, name)
    for other in others:
        method = _join(method, _known(other, name))
    return method


def _known(part: str, name: str) -> Method:
    if part not in METHODS:
        joined = [m for m, method in METHODS.items() if method.after]
        remedy = "use one of " + ", ".join(METHODS)
        if joined:
            remedy += f"; {', '.join(joined)} may follow others: lg+{joined[0]}"
        raise BadInput(f"[[method]] {name!r} is not known", remedy=remedy)
    return METHODS[part]


def _join(first: Method, then: Method) -> Method:
    name = f"{first.name}{_JOINED}{then.name}"
    if first.kind not in then.after:
        raise BadInput(
            f"[[method]] {name!r}: {then.name} cannot follow {first.name}",
            remedy=f"leave out one of them; what {first.name} makes is {first.kind}",
        )

    def guarantee(values: Mapping[str, Any], protected: ProtectedUnit) -> Guarantee:
        return first.guarantee(values, protected).followed_by(then.guarantee(values, protected))

    return Method(
        name,
        f"{first.summary}; then {then.summary}",
        first.steps + then.steps,
        kind=max(first.kind, then.kind, key=_COARSER.index),
        guarantee=guarantee,
        unit=first.unit or then.unit,
        grantable=first.grantable and then.grantable,
        after=then.after,
        explains=None if then.explains is None else _before(first) + then.explains,
        needs=first.needs + then.needs,
        books=first.books or then.books,
        publishes=then.publishes,
    )


def _before(first: Method) -> str:
    """What another method did before, in words, where that is not plain from the next one's."""
    if first in CLOSURE:
        return _CLOSED_BEFORE
    return _EDITED_BEFORE if first.kind == "edited" else ""


def require_partitioned(method: Method, engine: Engine) -> None:
    """Refuse a method that needs all trajectories at once, where an engine keeps them apart."""
    if engine.remote and not method.partitioned:
        able = ", ".join(name for name, known in METHODS.items() if known.partitioned)
        raise BadInput(
            f"[[engine]] dask cannot run [[method]] {method.name}: it looks at all trajectories at once, "
            "and no worker has them",
            remedy=f"use [[engine]] threads, or one of {able}",
        )


def suffixes() -> list[str]:
    """What follows the name of a release in those of its relations, of whatever method."""
    found = (relation.suffix for method in METHODS.values() for relation in method.relations)
    return list(dict.fromkeys(found))


def declarations() -> dict[str, Any]:
    """All methods with their parameters: what SQL checks requests by."""
    return {
        method.name: {
            "summary": method.summary,
            "kind": method.kind,
            "unit": method.unit,
            "grantable": method.grantable,
            "after": sorted(method.after),
            "spends": [p.name for p in method.parameters if p.share_of is not None and method.unit],
            "reads": [need.parameter for need in method.needs],
            "parameters": {p.name: p.declaration() for p in method.parameters},
            "keeps_columns": method.keeps_columns,
            "relations": [relation.declaration() for relation in method.relations],
        }
        for method in METHODS.values()
    }
