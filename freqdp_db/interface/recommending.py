"""Which method to use, on these data."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from freqdp_db.evaluation.evaluate import DEFAULT_SEED
from freqdp_db.evaluation.recommendation.choosing import Recommendation as Recommendation
from freqdp_db.evaluation.recommendation.options import RecommendOptions
from freqdp_db.evaluation.recommendation.recommend import recommend_on
from freqdp_db.interface.connecting import Connection, reached, working
from freqdp_db.progress import Progress


def recommend(
    connection: Connection,
    dataset: str,
    *,
    risk: str | float | Decimal = "5%",
    purpose: str = "density",
    objects: int | None = None,
    minutes: str | float | Decimal = 10,
    roads: str | None = None,
    out: Path | str | None = None,
    seed: int = DEFAULT_SEED,
    force: bool = False,
    progress: Progress | None = None,
) -> Recommendation:
    """Try methods on the data, and say which keeps the risk and serves best. For the curator.

    Publishes and spends nothing. Half of the objects make trial releases, the others are held out.

    risk: what an attacker may learn of a person, such as `5%`.
    purpose: density, flows, trips or histories: what analysts want to know.
    objects: how many to try it on; None: as many as fit into the minutes.
    roads: a public table of roads, for methods whose made-up trips keep to some.
    out: the folder for the page; None: recommend_DATASET. force: overwrite it.
    """
    options = RecommendOptions.parse(
        risk=risk,
        purpose=purpose,
        objects=objects,
        minutes=minutes,
        seed=seed,
        roads=roads,
        out=out,
        force=force,
    )
    with reached(connection) as database:
        return recommend_on(database, dataset, options, lambda: working(progress, kernels=True))
