"""`klt`, to compare with: as `glove`, with areas that say little about what people do there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from freqdp_db.errors import BadInput, VerificationFailed
from freqdp_db.methods.contract import (
    CompletedStep,
    Facts,
    Method,
    Need,
    StepContext,
    StoredStep,
    WorkingSet,
)
from freqdp_db.methods.k_anonymity.glove import (
    ASSUMED_PUBLIC,
    SHARED,
    GloveDraw,
    GloveLog,
    GloveOptions,
    GloveStep,
    Origin,
    glove_guarantee,
)
from freqdp_db.methods.kinds import Name, Number, Whole
from freqdp_db.methods.parameters import parameter
from freqdp_db.model.arrays import Ints
from freqdp_db.privacy.guarantee import Guarantee, ProtectedUnit

if TYPE_CHECKING:
    from freqdp_db.methods.k_anonymity.greedy import Shaping


@dataclass(frozen=True)
class KltOptions(GloveOptions):
    poi: str | None = parameter(
        Name("public.poi"), "Table or view of points of interest: schema.name."
    )
    category: str = parameter(
        Name("category"), "Its column that says what each of them is.", "category"
    )
    l: int = parameter(  # noqa: E741
        Whole(1, 1000, "3"), "Every area holds points of so many categories at least.", 3
    )
    t: Decimal = parameter(
        Number(Decimal(100), "0.1"),
        "How far the categories of an area may be from those of all points (KL divergence).",
        Decimal("0.1"),
    )


@dataclass(frozen=True)
class KltLog(GloveLog):
    points: Ints
    """A fingerprint of the points of interest."""


class KltStep(GloveStep):
    name = "klt"
    words = "objects that become one trajectory of areas, each with a mix of places"
    options = KltOptions
    logs = KltLog
    checked: ClassVar[dict[str, str]] = {
        **GloveStep.checked,
        "diverse_areas": "areas hold points of interest of all kinds",
    }

    def shaping(self, world: StepContext, origin: Origin, options: KltOptions) -> Shaping:
        from freqdp_db.paper.diversity import count_points

        return count_points(world.inputs["poi"], origin, options.l, float(options.t))

    def log(self, world: StepContext, made: GloveLog) -> KltLog:
        from freqdp_db.paper.diversity import fingerprint

        return KltLog(**vars(made), points=fingerprint(world.inputs["poi"]))

    def replay(self, done: StoredStep[KltOptions, GloveDraw, KltLog]) -> WorkingSet:
        from freqdp_db.paper.diversity import fingerprint, grow_as_shown

        if not np.array_equal(fingerprint(done.world.inputs["poi"]), done.logged.points):
            raise VerificationFailed("the points of interest are not what they were")
        found = super().replay(done)
        assert found.areas is not None
        return replace(found, areas=grow_as_shown(found.areas, *_asked(done.world, done.options)))

    def check(self, done: CompletedStep[KltOptions, GloveDraw, KltLog]) -> dict[str, int]:
        from freqdp_db.paper.diversity import fall_short

        found = super().check(done)
        assert done.after.areas is not None
        if fall_short(done.after.areas, *_asked(done.world, done.options)).any():
            raise VerificationFailed("an area holds points of too few categories, or of other ones")
        return {**found, "diverse_areas": done.after.samples}

    def require_possible(self, options: KltOptions, objects: int, samples: int) -> None:
        super().require_possible(options, objects, samples)
        if options.poi is None:
            raise BadInput(
                "klt needs points of interest",
                remedy="name a table of them: [[poi]] schema.table [[category]] column",
            )

    def require_inputs(self, options: KltOptions, inputs: Mapping[str, Any], facts: Facts) -> None:
        from freqdp_db.paper.diversity import require_countable

        require_countable(inputs["poi"])
        categories = len(inputs["poi"].names)
        if options.l > categories:
            raise BadInput(
                f"[[l]] {options.l} is more than the {categories:,} categories of {options.poi}",
                remedy=f"choose [[l]] of at most {categories:,}, or other points with [[poi]]",
            )


def _asked(world: StepContext, options: KltOptions) -> tuple[Any, ...]:
    """What areas have to hold, and how they are shown."""
    return world.inputs["poi"], options.l, float(options.t), world.coordinates


def klt_guarantee(values: Mapping[str, Any], protected: ProtectedUnit) -> Guarantee:
    found = glove_guarantee(values, protected)
    return replace(
        found,
        plain=[
            *found.plain,
            f"Every area holds points of interest of at least {values['l']} categories, whose "
            f"shares are within a divergence of {values['t']} of those of all points.",
        ],
        assumed_public=[*ASSUMED_PUBLIC, "the points of interest and their categories"],
        origin="Tu et al.: Protecting trajectory from semantic attack considering k-anonymity, "
        "l-diversity, and t-closeness (IEEE TNSM 2019).",
    )


KLT = Method(
    "klt",
    "as glove, with areas that hold a mix of points of interest",
    (KltStep(),),
    kind="generalised",
    guarantee=klt_guarantee,
    explains=SHARED,
    needs=(Need("poi", "points", {"category": "category"}),),
)
