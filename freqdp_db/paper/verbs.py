"""The verbs that reproduce the paper: experiments and benchmarks. They publish and spend nothing."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from freqdp_db.commands import (
    Argument,
    Columns,
    Dataset,
    Engine,
    Force,
    Option,
    Roads,
    Signature,
    Workers,
    command,
)
from freqdp_db.connected import Connected
from freqdp_db.errors import BadInput

if TYPE_CHECKING:
    from freqdp_db.paper.bench import PipelineBench, SearchBench
    from freqdp_db.paper.bench_counts import CountsBench
    from freqdp_db.results import Experiment

Measured = Annotated[str | None, Argument("A registered dataset. Default: a made-up city.")]
Sizes = Annotated[str, Option("Numbers of trajectories, separated by commas.")]
Epsilon = Annotated[str, Option("Total, as for anonymize.")]
BenchSeed = Annotated[int, Option("Which objects and which noise.")]

_PAPERS_SIGNATURE = 10


class PaperVerbs(Connected):
    """Methods side by side, and how fast the search and the whole job are."""

    @command("experiment")
    def experiment(
        self,
        dataset: Dataset,
        *,
        method: Annotated[
            Sequence[str] | None,
            Option(
                "May be repeated; with a spread, a radius or an accounting: lg:paper, rsc:500, "
                "strict:pure. Default: those of the paper."
            ),
        ] = None,
        epsilon: Annotated[Sequence[str] | None, Option("May be repeated. Default 1.")] = None,
        objects: Annotated[
            Sequence[int] | None, Option("How many objects; may be repeated. Default: all.")
        ] = None,
        seeds: Annotated[int, Option("Runs of each, with seeds 1, 2, ...")] = 5,
        signature: Signature = _PAPERS_SIGNATURE,
        time_step: Annotated[
            Sequence[str] | None,
            Option("Released times: none, 60s, 5min; may be repeated. Default none."),
        ] = None,
        roads: Roads = None,
        map: Columns = None,
        trips: Annotated[
            bool,
            Option(
                "Measure synthetic methods as they are compared: on trips in the region, with a "
                "resample of the objects beside them."
            ),
        ] = False,
        each_trip: Annotated[
            bool, Option("With [[trips]]: take every trip for an object.")
        ] = False,
        paper: Annotated[
            bool,
            Option(
                "The paper's whole table beside its published values, and its two figures; needs "
                "[[roads]]."
            ),
        ] = False,
        poi: Annotated[
            str | None, Option("With [[paper]]: points of interest for klt: schema.table.")
        ] = None,
        category: Annotated[str | None, Option("With [[poi]]: its column of categories.")] = None,
        out: Annotated[
            Path | str | None, Option("Folder to write. Default: experiment_DATASET.")
        ] = None,
        force: Force = False,
        engine: Engine = None,
        workers: Workers = None,
    ) -> "Experiment":
        """Measure methods side by side: a table and two figures. Publishes and spends nothing."""
        from freqdp_db.dataset.road_tables import some_roads
        from freqdp_db.paper.experiment import ExperimentOptions, experiment_on
        from freqdp_db.paper.summary_table import PaperOptions, paper_on

        folder = None if out is None else Path(out)
        if paper:
            asked = None if signature == _PAPERS_SIGNATURE else signature
            given = {"[[method]]": method, "[[time_step]]": time_step, "[[signature]]": asked}
            for option, value in given.items():
                if value is not None:
                    raise BadInput(
                        f"{option} is not for [[paper]]", remedy="the paper's own are taken"
                    )
        elif poi is not None or category is not None:
            raise BadInput(
                "[[poi]] and [[category]] are for [[paper]]",
                remedy="say [[paper]], or leave them out",
            )
        database = self._installed()
        found = some_roads(database, roads, map)
        with self._started(engine, workers, kernels=False) as (progress, running):
            if paper:
                papers = PaperOptions(objects, epsilon, seeds, poi, category, found, folder, force)
                return paper_on(database, dataset, papers, progress, running)
            options = ExperimentOptions(
                method, epsilon, objects, seeds, signature, time_step, found, folder, force,
                trips, each_trip,
            )  # fmt: skip
            return experiment_on(database, dataset, options, progress, running)

    @command("bench search")
    def bench_search(
        self,
        dataset: Measured = None,
        *,
        sizes: Sizes = "1000,10000",
        queries: Annotated[
            int, Option("How many queries to ask; slow strategies get a part of them.")
        ] = 2000,
        strategies: Annotated[
            str | None, Option("Names, separated by commas. Default: all.")
        ] = None,
        epsilon: Epsilon = "1",
        signature: Signature = 10,
        seed: BenchSeed = 1,
    ) -> "SearchBench":
        """Time per query of every search strategy and of PostGIS's GiST, and whether they agree."""
        from freqdp_db.paper.bench import bench_searches
        from freqdp_db.release.request import Request

        request = Request.parse("gl", epsilon=epsilon, signature=signature)
        return bench_searches(
            self._installed(), dataset, sizes, queries, strategies, request, seed,
            self._compiled(),
        )  # fmt: skip

    @command("bench pipeline")
    def bench_pipeline(
        self,
        dataset: Measured = None,
        *,
        sizes: Sizes = "1000,2000,5000,10000",
        method: Annotated[str, Option("lg, gl, pure-g or pure-l.")] = "gl",
        epsilon: Epsilon = "1",
        signature: Signature = 10,
        seed: BenchSeed = 1,
    ) -> "PipelineBench":
        """Build, anonymize and verify by stage, beside the copy floor, in schemas that are dropped again."""  # noqa: E501
        from freqdp_db.paper.bench import bench_pipelines
        from freqdp_db.release.request import Request

        request = Request.parse(method, epsilon=epsilon, signature=signature, seed=seed)
        return bench_pipelines(self._installed(), dataset, sizes, request, seed, self._compiled)

    @command("bench counts")
    def bench_counts(
        self,
        dataset: Dataset,
        *,
        zones: Annotated[str, Option("Zones: a table, grid:1km or h3:8.")] = "grid:1km",
        bins: Annotated[str, Option("Time bins.")] = "hour-of-day",
        epsilon: Annotated[str, Option("One or more, separated by commas.")] = "1,2",
        seeds: Annotated[int, Option("How often noise is drawn.")] = 5,
        seed: BenchSeed = 1,
    ) -> "CountsBench":
        """Errors and margins of counts, beside a noisy histogram by OpenDP and a strict release."""
        from freqdp_db.paper.bench_counts import bench_counts
        from freqdp_db.release.request import Request

        request = Request.parse("counts", zones=zones, bins=bins, seed=seed)
        database, registered = self._dataset(dataset)
        self._compiled()
        return bench_counts(database, registered, request, epsilon, seeds)
