"""`freqdp_db.connect()` and the object that it gives: every verb of freqdp, declared once.

The command line (`freqdp_db/cli`), the keys of `freqdp.toml` and the reference pages are made from these
methods: from their signatures, the texts in `Annotated[...]` and their docstrings. So this module must
load quickly: what a verb needs is imported when it is called.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace as replaced
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

from freqdp_db.commands import (
    Argument,
    Columns,
    Dataset,
    Engine,
    Force,
    Memory,
    Method,
    MethodParameters,
    Option,
    Published,
    Roads,
    Workers,
    command,
)
from freqdp_db.errors import BadInput, FreqdpError, NotFound, Remark
from freqdp_db.paper.verbs import PaperVerbs
from freqdp_db.progress import Progress
from freqdp_db.settings import load_settings

if TYPE_CHECKING:
    from freqdp_db import load, results
    from freqdp_db.configuration import Applied
    from freqdp_db.dataset.road_tables import MatchedDataset
    from freqdp_db.db.builds import BuildSize
    from freqdp_db.db.datasets import DatasetRow
    from freqdp_db.db.jobs import JobView, WorkerRow
    from freqdp_db.db.schema import UpgradeResult
    from freqdp_db.evaluation.audit import Audit
    from freqdp_db.evaluation.recommendation.choosing import Recommendation
    from freqdp_db.evaluation.report.report import Reported
    from freqdp_db.jobs.schedule import Schedule, Scheduled
    from freqdp_db.release.budgets import SourceBudget
    from freqdp_db.release.catalogue import Anonymized, ObjectRecord, Release
    from freqdp_db.release.catalogue import Published as CatalogueEntry
    from freqdp_db.release.export.exporting import Exported
    from freqdp_db.release.planning import Plan
    from freqdp_db.release.publishing import PublishResult

Value: TypeAlias = str | int | float | Decimal | None
"""A parameter of a method: as text, or as what is written so. None: as if it were not given."""

NewTable = Annotated[str, Option("Table to make: schema.table.")]
Replace = Annotated[bool, Option("Drop a table of that name first.")]
Append = Annotated[bool, Option("Add to a table made by this command.")]
Seed = Annotated[int, Option("Picks the samples, queries and resamples of the metrics.")]
Region = Annotated[
    str | None,
    Option(
        "Public: where the data may lie: WEST,SOUTH,EAST,NORTH, a GeoJSON or WKT file, or a table of "
        "polygons."
    ),
]
Period = Annotated[
    str | None, Option("Public: when the data may lie: FROM/TO, two dates. TO is not included.")
]
MaxExposure = Annotated[
    str | float | None,
    Option(
        "Highest measured exposure with which a release is granted to analysts: 5%, or none. Releases "
        "are held until they are measured and approved."
    ),
]
Rules = Annotated[
    Sequence[str] | None,
    Option(
        "Also check a rule book: mds or usdot; may be repeated. Exit 3 if a rule is broken.",
        show_default=False,
    ),
]
Persons = Annotated[
    str | None,
    Option(
        "Name of the population, such as fleet-drivers: it has one budget across tables and columns."
    ),
]
TimeUnit = Annotated[
    str | None,
    Option(
        "What epoch numbers count: s, ms, us or ns. Default: guessed from all rows, which methods "
        "with a guarantee for a person refuse."
    ),
]
Unit = Annotated[
    str | None,
    Option(
        "What a guarantee for a person covers, declared once: person (all data), person-day, "
        "person-week or person-month, in [[timezone]]. Default: person.",
        show_default=False,
    ),
]
KeepColumns = Annotated[
    str | None,
    Option(
        "Columns that released samples carry along, with commas between them, at most 3, or none. You "
        "declare them public and coarse: at most 20 values each. From the next build on; by methods that "
        "can: lg, cut, points and others."
    ),
]
OneWindow = Annotated[
    str | None,
    Option(
        "Only this day, week or month, once it has ended, in the dataset's time zone: 2024-05-06, "
        "2024-W19, 2024-05, yesterday, last-week, last-month. Default: all data."
    ),
]
Series = Annotated[
    str | None,
    Option(
        "The series that the release belongs to. With [[window]]: the table that the window is added to; "
        "its release is SERIES_WINDOW. Else its release is SERIES_<n>, and SERIES_current shows the newest."
    ),
]


def connect(
    dsn: str | None = None,
    *,
    schema: str | None = None,
    release_schema: str | None = None,
    progress: Callable[[], Progress] = Progress,
) -> "Freqdp":
    """The object with all verbs, for one database. It connects when a verb first needs it to.

    dsn: a URL or a libpq string; None: DATABASE_URL, then the PG* variables, then the embedded server.
    schema, release_schema: the names of the two schemas, if not FREQDP_SCHEMA and
    FREQDP_RELEASE_SCHEMA or the defaults. progress: makes what each verb reports its stages to.
    """
    settings = load_settings(dsn=dsn, schema=schema, release_schema=release_schema)
    return Freqdp(settings, progress=progress)


class Freqdp(PaperVerbs):
    """A database, and what freqdp does with it.

    Use it in a `with` block, or `close()` it in the end. Verbs return frozen documents, and raise a
    `FreqdpError` where the command would refuse.
    """

    # Installation

    @command("init")
    def init(
        self,
        *,
        roles: Annotated[
            bool, Option("Require the group roles, and grant their rights again.")
        ] = False,
    ) -> "UpgradeResult":
        """Create or upgrade freqdp's schemas in the database. Running it twice changes nothing."""
        from freqdp_db.db.schema import upgrade

        return upgrade(self._connected(), require_roles=roles)

    @command("init", switch="sql", help="Print the script for a DBA instead of running it.")
    def init_script(
        self,
        *,
        roles: Annotated[
            bool, Option("Print the script that makes the roles, and nothing else.")
        ] = False,
    ) -> "results.Script":
        """The script that `init` would run.

        It starts from the database's own revision if that can be reached, else from nothing.
        """
        from freqdp_db.db import schema as upgrade
        from freqdp_db.db.tables import Names
        from freqdp_db.results import Script

        names, revision, extension = Names.of(self.settings), None, None
        recorded: list[str] = []
        if roles:
            return Script(upgrade.roles_script(names), None)
        try:
            database = self._connected()
            with database.begin() as session:
                names = upgrade.names_of(session)
                revision = upgrade.current_revision(session, names.schema)
                extension = upgrade.extension_version(session, names.schema)
                if revision is not None:
                    recorded = [i for _, i, _ in upgrade.recorded_objects(session, names.schema)]
        except FreqdpError as error:
            why = error.as_options()["message"]
            self._progress().note(
                f"-- {why}: the script assumes an empty database, PostGIS in public"
            )
        if extension is not None:
            raise BadInput(
                f"the functions of this database belong to the extension {upgrade.EXTENSION} {extension}, "
                "which a script cannot replace",
                remedy="write the files of this version with `freqdp init --extension`",
            )
        return Script(upgrade.script(names, revision, recorded), revision)

    @command("init", switch="extension")
    def init_extension(
        self,
        extension: Annotated[
            Path | str,
            Option(
                "Write the functions as an extension of PostgreSQL into this folder instead: files for "
                "CREATE EXTENSION, and for pg_tle."
            ),
        ],
        *,
        force: Force = False,
    ) -> "results.ExtensionFiles":
        """Write the files of the extension that holds freqdp's functions.

        They are for the names of this installation, PostGIS in the schema where this database has it, and
        an update if this database has another version of the extension.
        """
        from freqdp_db import __version__
        from freqdp_db.db import schema as upgrade
        from freqdp_db.db.extension import extension_files, extension_statements
        from freqdp_db.db.tables import Names
        from freqdp_db.evaluation.figures import files_in
        from freqdp_db.results import ExtensionFiles

        names, installed = Names.of(self.settings), None
        try:
            database = self._connected()
            with database.begin() as session:
                names = upgrade.names_of(session)
                installed = upgrade.extension_version(session, names.schema)
        except FreqdpError as error:
            self._progress().note(
                f"{error.as_options()['message']}: the files assume PostGIS in public"
            )
        texts = extension_files(names, __version__, installed)
        folder = Path(extension)
        files = files_in(folder, texts, overwrite=force, option="[[extension]]")
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in zip(files, texts.values(), strict=True):
            file.write_text(text, encoding="utf-8")
        statements = extension_statements(names, __version__, installed)
        return ExtensionFiles(files, __version__, statements)

    @command("apply")
    def apply(
        self,
        file: Annotated[
            Path | str, Option("The file with datasets, limits and schedules.")
        ] = "freqdp.toml",
        *,
        plan: Annotated[bool, Option("Only show the pending changes.")] = False,
    ) -> "Applied":
        """Make the database match freqdp.toml: datasets, limits, budgets, schedules.

        Datasets that the file does not name are left alone. Budgets are only raised. If a registered
        dataset reads another table or other columns than the file says, nothing is changed at all.
        """
        from freqdp_db.configuration import apply

        return apply(self, self._installed(), Path(file), plan=plan)

    @command("uninstall", switch="sql", help="Print the script. It is for you to run.")
    def uninstall_script(self) -> "results.Script":
        """Print the script that removes freqdp from a database: schemas, releases, ledger, roles.

        It runs nothing and connects to no database.
        """
        from freqdp_db.db.schema import removal_script
        from freqdp_db.db.tables import Names
        from freqdp_db.results import Script

        return Script(removal_script(Names.of(self.settings)), None)

    @command("doctor")
    def doctor(self) -> "results.Diagnosis":
        """Check the installation: what is missing, and the command that fixes it."""
        from freqdp_db.doctor import diagnose
        from freqdp_db.results import Diagnosis

        findings = diagnose(self.settings, self._connected)
        return Diagnosis(all(f.ok for f in findings), findings)

    def methods(self) -> "list[results.MethodShown]":
        """What `anonymize` and its like can be asked for, with the parameters of each."""
        from freqdp_db.methods.registry import declarations
        from freqdp_db.results import MethodShown

        return [MethodShown(name=name, **declared) for name, declared in declarations().items()]

    # Tables for people who have none yet

    @command("load demo")
    def load_city(
        self,
        into: NewTable = "demo.city",
        roads_into: Annotated[str, Option("Table of the city's roads.")] = "demo.roads",
        poi_into: Annotated[str, Option("Table of its points of interest, for klt.")] = "demo.poi",
        *,
        objects: Annotated[int, Option("Number of people and taxis; one in ten is a taxi.")] = 200,
        days: Annotated[int, Option("Days to record, from a Monday on.")] = 7,
        seed: Annotated[int, Option("The same seed gives the same city.")] = 1,
        replace: Replace = False,
    ) -> "load.LoadedCity":
        """Generate a city: roads, points of interest, and the positions of people and taxis."""
        return self._loader(replace).city(into, roads_into, poi_into, objects, days, seed)

    @command("load csv")
    def load_csv(
        self,
        files: Annotated[Sequence[str], Argument("Files, globs or folders; .gz is fine.")],
        into: NewTable,
        *,
        time: Annotated[str, Option("Column of the time.")],
        lon: Annotated[str, Option("Column of the longitude (or x).")],
        lat: Annotated[str, Option("Column of the latitude (or y).")],
        object: Annotated[str | None, Option("Column of the object's id.")] = None,
        object_from_file: Annotated[
            bool, Option("The name of each file, without extension, is the object.")
        ] = False,
        delimiter: Annotated[str, Option("One character, or tab.")] = ",",
        header: Annotated[
            bool,
            Option("Without a header, columns are numbers from 1.", name="--header/--no-header"),
        ] = True,
        time_format: Annotated[
            str, Option("iso, epoch, epoch-ms, or a format such as '%d/%m/%Y %H:%M'.")
        ] = "iso",
        timezone: Annotated[str, Option("Time zone of times without one.")] = "UTC",
        srid: Annotated[int, Option("Reference system of the coordinates.")] = 4326,
        skip_bad: Annotated[bool, Option("Skip unreadable rows and count them.")] = False,
        replace: Replace = False,
        append: Append = False,
    ) -> "load.LoadedFiles":
        """Load CSV files: say which column is what."""
        from freqdp_db.loading.csvfile import CsvFormat

        if (object is None) != object_from_file:
            raise BadInput(
                "the object is needed: one of [[object]] and [[object_from_file]]",
                remedy="name its column with [[object]], or say that each file's name is it",
            )
        layout = CsvFormat(object, time, lon, lat, delimiter, header, time_format, timezone)
        loader = self._loader(replace, append)
        return loader.csv(files, layout, into, srid, skip_bad=skip_bad)

    @command("load tdrive")
    def load_tdrive(
        self,
        folder: Annotated[str, Argument("Folder with 1.txt, 2.txt, ...")],
        into: NewTable,
        *,
        limit: Annotated[int | None, Option("Only this many taxis, the first ones.")] = None,
        min_samples: Annotated[int, Option("Skip taxis with fewer rows.")] = 0,
        replace: Replace = False,
        append: Append = False,
    ) -> "load.LoadedFiles":
        """Load the T-Drive taxi data as its publisher ships it. Nothing is cleaned here."""
        return self._loader(replace, append).tdrive(folder, into, limit, min_samples)

    @command("load geolife")
    def load_geolife(
        self,
        folder: Annotated[
            str, Argument("Folder that contains Data/000/Trajectory; or Data itself.")
        ],
        into: NewTable,
        *,
        replace: Replace = False,
        append: Append = False,
    ) -> "load.LoadedFiles":
        """Load the GeoLife data as its publisher ships it. Nothing is cleaned here."""
        return self._loader(replace, append).geolife(folder, into)

    @command("load roads")
    def load_roads(
        self,
        into: NewTable,
        files: Annotated[
            Sequence[str] | None, Argument("NODES.csv EDGES.csv, unless [[source]] is given.")
        ] = None,
        *,
        source: Annotated[str | None, Option("Existing edge table: schema.table.")] = None,
        map: Annotated[
            Sequence[str] | None, Option("With [[source]]: ours=theirs, such as geom=the_geom.")
        ] = None,
        vertices_into: Annotated[str | None, Option("Also make a table of junctions.")] = None,
        every: Annotated[
            float | None, Option("Also add points to it at this distance along roads, in metres.")
        ] = None,
        replace: Replace = False,
    ) -> "load.LoadedRoads":
        """Load a road network from two CSV files or an existing edge table."""
        loader = self._loader(replace)
        return loader.roads(into, files or (), source, map or (), vertices_into, every)

    def _loader(self, replace: bool, append: bool = False) -> "load.Loader":
        from freqdp_db.load import Loader, mode_of

        return Loader(self._connected(), self._progress(), mode_of(replace, append))

    # Datasets

    @command("dataset add")
    def add_dataset(
        self,
        name: Annotated[str, Argument("Name of the dataset.")],
        source: Annotated[str, Option("Table or view: schema.relation.")],
        *,
        object: Annotated[str, Option("Column that names the moving object.")],
        time: Annotated[
            str | None,
            Option(
                "Column with the time: timestamp, date or epoch numbers. For lines: an array, a time for "
                "each point; without it, M in Unix seconds. For trip records: START,END."
            ),
        ] = None,
        geom: Annotated[
            str | None,
            Option("Column with a point, or with the line of a trip. For trip records: START,END."),
        ] = None,
        lon: Annotated[str | None, Option("Column with the longitude.")] = None,
        lat: Annotated[str | None, Option("Column with the latitude.")] = None,
        x: Annotated[str | None, Option("Column with the projected x, in [[srid]].")] = None,
        y: Annotated[str | None, Option("Column with the projected y, in [[srid]].")] = None,
        snap: Annotated[str, Option("grid:METRES, anchors:SCHEMA.TABLE or exact.")] = "grid:100",
        srid: Annotated[
            int | None,
            Option(
                "Projected SRID in metres. Default: the data's UTM zone. With [[x]] and [[y]]: their SRID."
            ),
        ] = None,
        timezone: Annotated[
            str, Option("Time zone of times without one, and of days and hours.")
        ] = "UTC",
        where: Annotated[str | None, Option("Condition on the rows, in SQL.")] = None,
        budget: Annotated[
            Decimal | int | str | None,
            Option("Epsilon per occurrence that it may spend. Default: 10."),
        ] = None,
        region: Region = None,
        period: Period = None,
        max_exposure: MaxExposure = None,
        persons: Persons = None,
        time_unit: TimeUnit = None,
        unit: Unit = None,
        keep_columns: KeepColumns = None,
    ) -> "results.AddedDataset":
        """Register a table or view of yours. Reads nothing yet, and never writes to it.

        A row is a sample, or a trip: a line with its times, or both ends (columns named START,END).
        Several tables of the same persons: register a view that joins them with UNION ALL.
        Column names are matched exactly first, then case-folded as in SQL. Whatever is read from the
        same tables shares one budget: views, partitions, other columns of objects. Region and period
        are for methods with a guarantee for one object with all its data: with them, a budget for that
        is opened.
        """
        from freqdp_db.dataset.registration import Registration, register
        from freqdp_db.db.datasets import choosing_warnings, untraced_sources
        from freqdp_db.db.ledger import find_budget
        from freqdp_db.release.budgets import open_for_persons
        from freqdp_db.results import AddedDataset

        wanted = Registration(
            name, source, object, time, geom, lon, lat, x, y, snap, srid, timezone, where,
            None if budget is None else str(budget), region, period,
            None if max_exposure is None else str(max_exposure), persons, time_unit, unit,
            keep_columns,
        )  # fmt: skip
        database = self._installed()
        row, claimed = register(database, wanted)
        open_for_persons(database, row)
        return AddedDataset(
            **vars(row),
            budget=find_budget(database, row.account_id),
            budget_is_new=claimed.is_new,
            untraced=untraced_sources(database, row),
            budget_notes=claimed.notes,
            warnings=choosing_warnings(database, row),
        )

    @command("dataset set")
    def set_dataset(
        self,
        name: Dataset,
        *,
        region: Region = None,
        period: Period = None,
        max_exposure: MaxExposure = None,
        persons: Persons = None,
        time_unit: TimeUnit = None,
        unit: Annotated[
            str | None,
            Option(
                "What guarantees for a person are for: person, person-day, person-week or "
                "person-month. Only while nothing was spent for persons."
            ),
        ] = None,
        keep_columns: KeepColumns = None,
    ) -> "results.Dataset":
        """Declare a dataset's region and period, its limit on exposure, its population, its units, or what
        its samples carry along.

        If a population of that name exists, the two budgets are merged: what both have spent counts
        against what the named one was granted. A time unit and columns to carry along take effect with the
        next build.
        """
        from freqdp_db.dataset.facts import change_facts
        from freqdp_db.dataset.registration import (
            declare_keep_columns,
            declare_time_unit,
            parse_unit,
        )
        from freqdp_db.dataset.text_values import check_name, parse_limit
        from freqdp_db.db.datasets import change_dataset, find_dataset
        from freqdp_db.db.ledger import declare_unit, name_population
        from freqdp_db.release.budgets import open_for_persons

        given = (region, period, max_exposure, persons, time_unit, unit, keep_columns)
        if all(g is None for g in given):
            raise BadInput(
                "[[region]], [[period]], [[max_exposure]], [[persons]], [[time_unit]], [[unit]] and "
                "[[keep_columns]] are all missing",
                remedy="give one of them",
            )
        if unit is not None:
            parse_unit(unit)
        if persons is not None:
            check_name("[[persons]]", persons)
        limit = None if max_exposure is None else parse_limit(str(max_exposure))
        database, row = self._dataset(name)
        if time_unit is not None:
            declare_time_unit(database, row, time_unit)
        if keep_columns is not None:
            declare_keep_columns(database, row, keep_columns)
        if region is not None or period is not None:
            change_facts(database, row, region, period, persons)
            open_for_persons(database, find_dataset(database, name))
        if max_exposure is not None:
            change_dataset(database, row.dataset_id, max_exposure=limit)
        if persons is not None:
            name_population(database, row.dataset_id, persons)
            row = find_dataset(database, name)
        if unit is not None:
            declare_unit(database, row.account_id, unit, row.mapping.timezone)
        return self.dataset(name)

    @command("dataset build")
    def build_dataset(
        self,
        name: Dataset,
        *,
        window: OneWindow = None,
        engine: Engine = None,
        workers: Workers = None,
    ) -> "results.BuiltDataset":
        """Copy the source from one snapshot: cleaned, projected, snapped, with segments and grid.

        With a window, only its rows are read, for releases of that window.
        """
        from freqdp_db.dataset.building import build_and_look
        from freqdp_db.dataset.facts import declared_coverage
        from freqdp_db.db.builds import sparse_objects
        from freqdp_db.db.datasets import choosing_warnings
        from freqdp_db.results import BuiltDataset

        database, wanted = self._dataset(name)
        found = self._window(wanted, window)
        with self._started(engine, workers) as (progress, running):
            row, findings = build_and_look(database, wanted, progress, running, found)
        choices = [Remark(f"{choice.text}.") for choice in choosing_warnings(database, wanted)]
        return BuiltDataset(
            **vars(row),
            seconds=progress.seconds,
            objects_with_fewer_than_20_places=sparse_objects(database, row.build_id, 10),
            dataset=name,
            coverage=declared_coverage(database, wanted, row),
            findings=replaced(findings, warnings=[*findings.warnings, *choices]),
        )

    @command("dataset list")
    def datasets(self) -> "list[DatasetRow]":
        """List the datasets."""
        from freqdp_db.db.datasets import list_datasets

        return list_datasets(self._installed())

    @command("dataset show")
    def dataset(self, name: Dataset) -> "results.Dataset":
        """Show a dataset: its mapping, its current build and its budget."""
        from freqdp_db import results
        from freqdp_db.db.builds import find_build
        from freqdp_db.db.ledger import budgets, find_budget

        database, row = self._dataset(name)
        own = find_budget(database, row.account_id)
        return results.Dataset(
            **vars(row),
            budget=own,
            other_units=[b for b in budgets(database, row.account_id) if b != own],
            build=find_build(database, row.current_build) if row.current_build else None,
        )

    @command("dataset builds")
    def builds(self) -> "list[BuildSize]":
        """List the builds that are kept, largest first, and what each is kept for."""
        from freqdp_db.db.builds import builds_by_size

        return builds_by_size(self._installed())

    @command("dataset drop")
    def drop_dataset(self, name: Dataset) -> "results.DroppedDataset":
        """Forget a dataset. Its source, its budget and its published releases stay."""
        from freqdp_db.dataset import registration as dropping
        from freqdp_db.db.releases import list_releases
        from freqdp_db.results import DroppedDataset

        database, row = self._dataset(name)
        removed = dropping.drop_dataset(database, row)
        staying = [r for r in list_releases(database) if r.dataset_id == row.dataset_id]
        published = sum(release.state == "published" for release in staying)
        return DroppedDataset(name, removed, published)

    def dataset_names(self) -> list[str]:
        """Names of all datasets; none for analysts, who use no command that takes one."""
        return [row.name for row in self.datasets()] if self._reads_private() else []

    # Releases

    @command("plan")
    def plan(
        self,
        dataset: Dataset,
        method: Method = None,
        *,
        window: OneWindow = None,
        objects: Annotated[
            int | None,
            Option("With counts: about how many objects there are, for the margins to expect."),
        ] = None,
        engine: Engine = None,
        workers: Workers = None,
        **parameters: Annotated[Value, MethodParameters(without=("seed",))],
    ) -> "Plan":
        """Show what `anonymize` would spend and change, and the time it takes. Spends nothing."""
        from freqdp_db.release.planning import make_plan
        from freqdp_db.release.request import Request

        request = Request.parse(method, **parameters)
        database, row = self._dataset(dataset)
        found = self._window(row, window)
        with self._started(engine, workers) as (progress, running):
            return make_plan(database, row, request, progress, running, found, objects)

    @command("anonymize")
    def anonymize(
        self,
        dataset: Dataset,
        method: Method = None,
        *,
        name: Annotated[str | None, Option("Name of the release. Default: <dataset>_<n>.")] = None,
        new_draw: Annotated[
            bool, Option("Draw new noise even if this request was answered before.")
        ] = False,
        hold: Annotated[
            bool, Option("Keep it from analysts until `freqdp release approve` grants it.")
        ] = False,
        window: OneWindow = None,
        series: Series = None,
        memory: Memory = "4GB",
        engine: Engine = None,
        workers: Workers = None,
        **parameters: Annotated[Value, MethodParameters()],
    ) -> "Anonymized":
        """Anonymize a dataset and publish the result as a new table.

        The same request again returns the same release; one that was interrupted is continued. With a
        window, its newest build is used; the first time, its rows are read.
        """
        from freqdp_db.release import pipeline
        from freqdp_db.release.catalogue import Anonymized
        from freqdp_db.release.inputs import parse_memory
        from freqdp_db.release.request import JobRequest, Request, check_series

        request, limit = Request.parse(method, **parameters), parse_memory(memory)
        asked = JobRequest(request, name, new_draw, hold=hold, series=series)
        if series is not None:
            check_series(series, name)
        database, row = self._dataset(dataset)
        found = self._window(row, window)
        with self._started(engine, workers) as (progress, running):
            build = None
            if found is not None:
                from freqdp_db.dataset.building import build_of_window

                build = build_of_window(database, row, found, progress, running).build_id
            outcome = pipeline.anonymize(
                database, row, asked, progress, memory=limit, engine=running, build_id=build
            )
        return Anonymized.by(database, outcome, progress, name)

    @command("release list")
    def releases(self) -> "list[Release] | list[CatalogueEntry]":
        """List all releases ever requested; for analysts, those that are published."""
        from freqdp_db.db.releases import list_releases
        from freqdp_db.release.catalogue import Release, published

        database = self._installed()
        if not self._reads_private():
            return published(database)
        return [Release.of(database, row) for row in list_releases(database)]

    @command("release show")
    def release(
        self,
        name: Annotated[
            str,
            Argument(
                "Name of the release, or of a series.", states=("published", "running", "withdrawn")
            ),
        ],
    ) -> "Release | CatalogueEntry":
        """Show a release or a series: parameters, edits, guarantee, and what a whole user costs."""
        from freqdp_db.release.catalogue import Release, find_published

        database = self._installed()
        if not self._reads_private() or self._is_series(name):
            return find_published(database, name)
        return Release.of(*self._release(name))

    @command("release verify")
    def verify(
        self, name: Published, *, engine: Engine = None, workers: Workers = None
    ) -> "results.Verification":
        """Replay the edit log and compare with the published table, row by row. Exit 3 if it differs."""
        from freqdp_db.release import verification
        from freqdp_db.release.request import Request
        from freqdp_db.results import Verification

        database, row = self._release(name)
        verification.require_published(row, "verified")
        with self._started(engine, workers) as (progress, running):
            world = verification.load_world(database, row, progress, running)
            found = verification.verify(database, row, world, progress)
        words = found.words(Request.of(row))
        return Verification(name, True, **vars(found), seconds=progress.seconds, words=words)

    @command("release resume")
    def resume(
        self,
        name: Annotated[str, Argument("Name of the release.", states=("running",))],
        *,
        memory: Memory = "4GB",
        engine: Engine = None,
        workers: Workers = None,
    ) -> "Anonymized":
        """Continue an interrupted release from its stored draws. Spends nothing."""
        from freqdp_db.release import pipeline
        from freqdp_db.release.catalogue import Anonymized
        from freqdp_db.release.inputs import parse_memory

        limit = parse_memory(memory)
        database, row = self._release(name)
        if row.state != "running":
            raise BadInput(
                f"release {name!r} is {row.state}: there is nothing to resume",
                remedy="`freqdp release list` shows which are running",
            )
        with self._started(engine, workers) as (progress, running):
            outcome = pipeline.run(database, row, progress, limit, engine=running)
        return Anonymized.by(database, outcome, progress)

    @command("release approve")
    def approve(
        self, name: Annotated[str, Argument("Name of the release.", states=("held",))]
    ) -> "results.Approved":
        """Grant a release that is held to analysts.

        If its dataset has a limit (max exposure), the release is measured first, unless that was done,
        and stays held if it exposes more.
        """
        from freqdp_db.db.datasets import get_dataset
        from freqdp_db.evaluation.evaluate import approve_within_limit
        from freqdp_db.release.catalogue import not_covered_beside
        from freqdp_db.results import Approved

        database, row = self._release(name)
        release, measured = approve_within_limit(database, row, self._progress())
        return Approved(
            name,
            release.approved_at,
            release.approved_by,
            get_dataset(database, release.dataset_id).max_exposure,
            None if measured is None else measured.learnt,
            None if measured is None else measured.half,
            not_covered_beside(database, release),
        )

    @command("release withdraw")
    def withdraw(
        self,
        name: Annotated[
            str,
            Argument("Name of the release.", states=("published", "running", "withdrawing")),
        ],
    ) -> "results.Withdrawn":
        """Revoke, empty and drop a release, or give up an unfinished one. The spend stays spent.

        Analysts lose access at once. A transaction or a view of theirs can delay the dropping of its
        tables: run the command again, or leave it to the next release or a worker.
        """
        from freqdp_db.release import approving as withdrawing
        from freqdp_db.results import Withdrawn

        database, row = self._release(name)
        return Withdrawn(name, row.state, withdrawing.withdraw(database, row))

    @command("release publish")
    def publish(
        self,
        name: Annotated[str | None, Argument("Name of the release.", states=("published",))] = None,
        *,
        to: Annotated[
            str,
            Option("The other database: URL or libpq string.", environment="FREQDP_PUBLISH_TO"),
        ],
        all: Annotated[
            bool,
            Option("All releases that analysts may read; removes there what was withdrawn here."),
        ] = False,
    ) -> "PublishResult":
        """Copy releases for analysts into another database with PostGIS. Running it again is a no-op.

        Logins there see nothing of the private tables, not even how many rows they have.
        """
        from freqdp_db.release import publishing

        if (name is None) != all:
            raise BadInput("give the name of a release, or [[all]]", remedy="one of both")
        database = self._installed()
        with closing(publishing.open_target(database, to)) as target:
            return publishing.publish_to(database, target, name, self._progress())

    @command("release export")
    def export(
        self,
        name: Annotated[
            str, Argument("Name of the release, or of a series.", states=("published",))
        ],
        format: Annotated[str, Option("csv, geoparquet, gpkg or mfjson.")],
        out: Annotated[
            Path | str | None, Option("File to write. Default: NAME.csv, .parquet, .gpkg, .mfjson")
        ] = None,
        *,
        srid: Annotated[
            int | None, Option("Of the file: 4326 is lon/lat. Default: that of the release.")
        ] = None,
        force: Force = False,
    ) -> "Exported":
        """Write a release to a file, with its guarantee and terms of use beside it.

        A series is written with all its windows: a file for each table, or a layer of a GeoPackage.
        """
        from freqdp_db.release.export.exporting import export_release

        path = None if out is None else Path(out)
        database = self._installed()
        return export_release(
            database, name, format, path, self._progress(), srid=srid, overwrite=force
        )

    @command("release report")
    def report(
        self,
        name: Published,
        *,
        public: Annotated[
            bool, Option("From the released table alone; analysts may run this.")
        ] = False,
        evidence: Annotated[
            bool,
            Option(
                "For a data protection officer: what is published, proved and measured, by the three "
                "questions of WP216, with text for an assessment."
            ),
        ] = False,
        roads: Roads = None,
        map: Columns = None,
        out: Annotated[
            Path | str | None,
            Option(
                "File to write. Default: NAME.report.html, NAME.public.html or NAME.evidence.html"
            ),
        ] = None,
        force: Annotated[bool, Option("Overwrite an existing file.")] = False,
    ) -> "Reported":
        """Write one HTML file: what the release is, guarantees and loses, with pictures."""
        from freqdp_db.dataset.road_tables import some_roads
        from freqdp_db.dataset.text_values import file_called
        from freqdp_db.evaluation.report.report import write_public_report, write_report
        from freqdp_db.release.catalogue import require_readable

        if public and evidence:
            raise BadInput(
                "[[public]] and [[evidence]] are two reports", remedy="ask for one after the other"
            )
        suffix = ".public.html" if public else ".evidence.html" if evidence else ".report.html"
        path = file_called(name, suffix) if out is None else Path(out)
        database, private = self._installed(), self._reads_private()
        table, progress = some_roads(database, roads, map), self._progress()
        if self._is_series(name):
            raise BadInput(
                f"{name!r} is a series, and a report is on one window of it",
                remedy="name the window; the curator's report tells of the series, too",
            )
        if public:
            if not private:
                require_readable(database, name)
            return write_public_report(database, name, progress, out=path, overwrite=force)
        if not private:
            raise BadInput(
                "the report for curators shows originals, which this login may not read",
                remedy="ask for the one that is for everybody, with [[public]]",
            )
        database, row = self._release(name)
        if evidence:
            from freqdp_db.evaluation.report.report import write_evidence

            return write_evidence(database, row, out=path, overwrite=force)
        return write_report(database, row, progress, out=path, overwrite=force, roads=table)

    @command("release find")
    def find_object(
        self, object: Annotated[str, Option("Key of the object, as in the source.")]
    ) -> "list[ObjectRecord]":
        """Find the builds and releases that hold an object, for erasure requests."""
        from freqdp_db.release import catalogue as finding

        return finding.find_object(self._installed(), object)

    def release_names(self, *states: str) -> list[str]:
        """Names of releases in one of these states, `held` among them; of the catalogue for analysts."""
        from freqdp_db.db.published import read_catalog
        from freqdp_db.db.releases import list_releases

        database = self._installed()
        if not self._reads_private():
            return [row.name for row in read_catalog(database)] if "published" in states else []
        return [
            row.name
            for row in list_releases(database)
            if row.state in states or ("held" in states and row.held and row.state == "published")
        ]

    # Measuring: for the curator's eyes

    @command("recommend")
    def recommend(
        self,
        dataset: Dataset,
        *,
        risk: Annotated[
            str | float | Decimal,
            Option("How much of a person's data an attacker may learn: 5%, 0.05."),
        ] = "5%",
        purpose: Annotated[
            str, Option("What analysts ask: density, flows, trips or histories.")
        ] = "density",
        objects: Annotated[
            int | None,
            Option(
                "Number of objects to try on, some of them held out. Default: as many as time allows."
            ),
        ] = None,
        minutes: Annotated[
            str | float | Decimal, Option("Time limit; says what was left out.")
        ] = "10",
        roads: Annotated[
            str | None,
            Option("Public table of roads for synthetic trips: schema.table. Slower."),
        ] = None,
        out: Annotated[
            Path | str | None, Option("Folder for the page. Default: recommend_DATASET.")
        ] = None,
        seed: Annotated[int, Option("Picks the objects, the noise and the attackers' draws.")] = 1,
        force: Annotated[bool, Option("Overwrite an existing page.")] = False,
    ) -> "Recommendation":
        """Try the methods on your data and print the command of the most useful one within the risk.

        Writes a page with a chart. Publishes and spends nothing. For curators.
        """
        from freqdp_db.evaluation.recommendation.recommend import RecommendOptions, recommend_on

        wishes = RecommendOptions.parse(
            risk=risk, purpose=purpose, objects=objects, minutes=minutes, seed=seed, roads=roads,
            out=out, force=force,
        )  # fmt: skip
        return recommend_on(self._installed(), dataset, wishes, self._compiled)

    @command("evaluate")
    def evaluate(
        self,
        release: Annotated[
            str, Argument("Name of the release, or of a series.", states=("published",))
        ],
        *,
        roads: Roads = None,
        map: Columns = None,
        seed: Seed = 1,
        rules: Rules = None,
        engine: Engine = None,
        workers: Workers = None,
    ) -> "results.Evaluated":
        """Measure a release against its originals: attacks, utility, recovery. For curators.

        For a series: what attackers learn from its newest windows together, up to 30 of them. With
        --table, a table of trajectories made elsewhere is measured in the same way against the current
        build of a dataset. Nothing is stored or spent, and the table is only read.
        """
        from freqdp_db.dataset.road_tables import some_roads
        from freqdp_db.evaluation import evaluate as evaluating
        from freqdp_db.evaluation import rules as checking
        from freqdp_db.evaluation.evaluate import PUBLISHABLE
        from freqdp_db.evaluation.pair import load_case
        from freqdp_db.evaluation.report.words import verdicts_of
        from freqdp_db.results import Evaluated

        evaluating.check_seed(seed)
        books = checking.parse_rules(rules)
        table = some_roads(self._installed(), roads, map)
        if self._is_series(release):
            if table is not None or engine is not None or books:
                raise BadInput(
                    f"{release!r} is a series: [[roads]], [[engine]] and [[rules]] are for a window of it",
                    remedy="leave them out, or name a window: `freqdp release list` shows them",
                )
            return self._evaluate_series(release, seed)
        database, row = self._release(release)
        with self._started(engine, workers, kernels=False) as (progress, running):
            values = evaluating.evaluate(database, row, progress, seed, table, running)
        checked: list[checking.RuleResult] = []
        if books and row.kind == "counts":
            checked = checking.check_rules_of_counts(database, release, books)
        elif books:
            checked = checking.check_rules(load_case(database, row, progress), books)
        public = sorted(PUBLISHABLE & values.keys())
        verdicts = verdicts_of(row, values)
        return Evaluated(release, values, public, verdicts, seed, progress.seconds, checked, [])

    def _is_series(self, name: str) -> bool:
        """Whether a series is called so."""
        from freqdp_db.db.published import is_series

        return is_series(self._installed(), name)

    def _evaluate_series(self, name: str, seed: int) -> "results.Evaluated":
        from freqdp_db.evaluation import series as joining
        from freqdp_db.evaluation.report.words import series_rows
        from freqdp_db.results import Evaluated

        database, progress = self._installed(), self._progress()
        windows = joining.find_windows(database, name)
        numbers = joining.numbers_of(len(windows))
        found = joining.measure_series(database, windows[-1], windows, progress, seed, numbers)
        metrics = joining.as_metrics(found)
        return Evaluated(name, metrics, [], [], seed, progress.seconds, [], series_rows(found))

    @command("evaluate", switch="table")
    def evaluate_table(
        self,
        table: Annotated[
            str,
            Option(
                "A table or view of trajectories that was made elsewhere: schema.table. Only read."
            ),
        ],
        against: Annotated[str, Option("The dataset that it was made from.")],
        *,
        trajectory: Annotated[str, Option("Column of the trajectory's id.")],
        time: Annotated[str | None, Option("Column of the time.")] = None,
        geom: Annotated[
            str | None, Option("Column of the point, or of the line of a trip.")
        ] = None,
        lon: Annotated[str | None, Option("Column of the longitude.")] = None,
        lat: Annotated[str | None, Option("Column of the latitude.")] = None,
        x: Annotated[str | None, Option("Column of the projected x, in [[srid]].")] = None,
        y: Annotated[str | None, Option("Column of the projected y, in [[srid]].")] = None,
        srid: Annotated[int | None, Option("System of [[x]] and [[y]].")] = None,
        time_unit: Annotated[
            str | None, Option("What epoch numbers count: s, ms, us or ns. Default: guessed.")
        ] = None,
        key: Annotated[
            str | None,
            Option(
                "Table that says whose each trajectory is: two columns, trajectory and object. Default: "
                "found by matching places and times."
            ),
        ] = None,
        roads: Roads = None,
        map: Columns = None,
        seed: Seed = 1,
        rules: Rules = None,
        out: Annotated[Path | str | None, Option("Also write an HTML page.")] = None,
        force: Annotated[bool, Option("Overwrite an existing file.")] = False,
    ) -> "results.EvaluatedTable":
        """Measure a table of trajectories that was made elsewhere, as if it were a release of a dataset.

        The dataset's current build is what it is measured against. Nothing is stored or spent, and the
        table is only read.
        """
        from freqdp_db.dataset.registration import Registration, parse_time_unit
        from freqdp_db.dataset.road_tables import some_roads
        from freqdp_db.evaluation import evaluate as evaluating
        from freqdp_db.evaluation import rules as checking
        from freqdp_db.evaluation import tables
        from freqdp_db.evaluation.evaluate import PUBLISHABLE
        from freqdp_db.evaluation.report.report import target, write_table_report
        from freqdp_db.evaluation.report.words import verdicts_of_table
        from freqdp_db.results import EvaluatedTable

        evaluating.check_seed(seed)
        books = checking.parse_rules(rules)
        unit = None if time_unit is None else parse_time_unit(time_unit)
        asked = Registration(
            "table", table, trajectory, time, geom, lon, lat, x, y, srid=srid, time_unit=unit
        )
        page = None if out is None else target(Path(out), force)
        database, row = self._dataset(against)
        progress, network = self._progress(), None
        edges = some_roads(database, roads, map)
        judged = tables.read_table(database, row, asked, key, seed, progress)
        if edges is not None:
            network = edges.network(database, judged.srid, progress)
        values = dict(tables.measure_table(judged, seed, network, progress))
        verdicts = verdicts_of_table(judged.name, judged.kind, values)
        checked = checking.check_rules(judged.case, books)
        if page is not None:
            page = write_table_report(
                database, row, judged, values, verdicts, checked, page, edges, progress
            )
        return EvaluatedTable(
            judged.name,
            values,
            sorted(PUBLISHABLE & values.keys()),
            verdicts,
            seed,
            progress.seconds,
            checked,
            [],
            against,
            judged.kind,
            judged.rows,
            judged.left_out,
            judged.trajectories,
            judged.attributed,
            judged.objects,
            "matched" if key is None else "given",
            judged.time_step_us,
            page,
            words=judged.lines(),
        )

    @command("audit")
    def audit(
        self,
        dataset: Dataset,
        method: Method = None,
        *,
        runs: Annotated[int, Option("Runs in each of two neighbouring worlds.")] = 40_000,
        **parameters: Annotated[Value, MethodParameters(without=("seed", "time_step"))],
    ) -> "Audit":
        """Find a lower bound on epsilon by experiment. Publishes and spends nothing. For curators.

        Exit 3 if a mechanism loses more than it claims.
        """
        from freqdp_db.evaluation import audit as auditing
        from freqdp_db.release.request import Request

        request = Request.parse(method, **parameters)
        database, row = self._dataset(dataset)
        found = auditing.audit(database, row, request, self._progress(), runs)
        found.require_within_claims()
        return found

    @command("match")
    def match(
        self,
        dataset: Dataset,
        roads: Annotated[str, Option("Edge table: schema.table.")],
        into: NewTable,
        *,
        map: Columns = None,
        replace: Replace = False,
    ) -> "MatchedDataset":
        """Match a dataset's samples to roads (Newson and Krumm) and write them to a new table."""
        from freqdp_db.dataset.road_tables import RoadTable, match_dataset
        from freqdp_db.db.names import parse_relation
        from freqdp_db.load import mode_of

        database, row = self._dataset(dataset)
        target, edges = parse_relation(into, "[[into]]"), RoadTable.find(database, roads, map)
        return match_dataset(
            database, row, row.require_build(), edges, target, mode_of(replace), self._progress()
        )

    # Budgets

    @command("budget")
    def budget(self, dataset: Dataset) -> "SourceBudget":
        """Show what a dataset's source may spend, has spent and has left, and on which releases."""
        from freqdp_db.release.budgets import source_budget

        database, row = self._dataset(dataset)
        return source_budget(database, row.account_id)

    @command("budget", switch="amount")
    def raise_budget(
        self,
        dataset: Dataset,
        amount: Annotated[
            Decimal | int | str,
            Option("Epsilon to add to the budget for one [[unit]]."),
        ],
        reason: Annotated[str, Option("Why; goes into the ledger.")],
        *,
        unit: Annotated[
            str,
            Option("What [[amount]] is for: occurrence, or person (one object with all its data)."),
        ] = "occurrence",
    ) -> "SourceBudget":
        """Raise the budget of a dataset's source. Who did it and why goes into the ledger.

        Epsilon of a person is that of one object with all its data at delta 0.000001, and is kept as
        rho, which adds up over releases.
        """
        from freqdp_db.release.budgets import raise_budget

        database, row = self._dataset(dataset)
        raise_budget(database, row, str(amount), reason, unit)
        return self.budget(dataset)

    @command("ledger verify")
    def verify_ledger(
        self,
        *,
        head: Annotated[
            str | None,
            Option("A ledger head that you stored, from the catalogue: must still be there."),
        ] = None,
    ) -> "results.LedgerVerified":
        """Check the hash chains. Exit 3 if an entry was changed or is missing.

        The heads in the catalogue are looked up, too. If ledger and catalogue were both rewritten, the
        change shows against a ledger head that you stored elsewhere.
        """
        from freqdp_db.release.budgets import verify_ledger
        from freqdp_db.results import LedgerVerified

        heads = verify_ledger(self._installed(), head)
        return LedgerVerified(True, heads, None if head is None else True)

    # Jobs

    @command("worker")
    def work(
        self,
        *,
        once: Annotated[
            bool,
            Option(
                "Do what is due, then exit: 4 if a job was refused, 5 if one failed, 6 if one was put off. "
                "For timers and CronJobs."
            ),
        ] = False,
        lease: Annotated[
            float | str,
            Option("Seconds without a heartbeat after which another worker takes a job over."),
        ] = "60",
        grace: Annotated[
            float | str,
            Option("Seconds to finish the job in hand after SIGTERM; then it is given back."),
        ] = "20",
        metrics: Annotated[int | None, Option("Serve metrics for Prometheus on this port.")] = None,
        metrics_address: Annotated[
            str,
            Option(
                "Address that [[metrics]] listens on. 0.0.0.0, for containers, lets others connect."
            ),
        ] = "127.0.0.1",
        engine: Engine = None,
        workers: Workers = None,
        log: bool = True,
    ) -> "results.Worked":
        """Run the jobs that were requested in SQL, and the schedules. Logs JSON lines to stderr."""
        from freqdp_db.engines.partitions import choose_engine, use_engine
        from freqdp_db.evaluation.evaluate import approve_within_limit
        from freqdp_db.jobs.log import json_lines
        from freqdp_db.jobs.metrics import exposed
        from freqdp_db.jobs.worker import Worker, parse_seconds
        from freqdp_db.results import Worked

        lease_s, grace_s = parse_seconds("[[lease]]", lease), parse_seconds("[[grace]]", grace)
        chosen, database = choose_engine(engine, workers), self._installed()
        with ExitStack() as around:
            worker = Worker(
                database,
                approve_within_limit,
                lease_s=lease_s,
                grace_s=grace_s,
                engine=lambda own, progress: use_engine(chosen, own.conninfo, progress),
            )
            if log:
                around.enter_context(json_lines())
            around.enter_context(exposed(database, worker.served, metrics, metrics_address))
            return Worked(**vars(worker.serve(once=once)), once=once)

    @command(
        "worker", switch="health", help="Check that a worker runs on this machine; exit 1 if not."
    )
    def living_worker(self) -> "WorkerRow":
        """The worker of this machine that was last seen; refused if none is alive."""
        from freqdp_db.jobs.metrics import require_worker_here

        return require_worker_here(self._installed())

    @command("jobs")
    def jobs(
        self,
        *,
        job: Annotated[int | None, Option("This one only.")] = None,
        limit: Annotated[int, Option("How many to show: open ones, then the newest.")] = 20,
    ) -> "list[JobView]":
        """List the releases that were requested in SQL or by a schedule, with state and outcome."""
        from freqdp_db.db.jobs import list_jobs

        if limit < 1:
            raise BadInput(f"[[limit]] {limit} is not above 0", remedy="for example [[limit]] 20")
        found = list_jobs(self._installed(), limit, job)
        if job is not None and not found:
            raise NotFound(f"there is no job {job}", remedy="`freqdp jobs` shows what there is")
        return found

    @command("jobs", switch="job")
    def cancel_job(
        self, job: Annotated[int, Option("Cancel this one.", name="--cancel")]
    ) -> "results.CancelledJob":
        """Cancel a job, or ask its worker to."""
        from freqdp_db.db.jobs import cancel_job
        from freqdp_db.results import CancelledJob

        return CancelledJob(job, cancel_job(self._installed(), job))

    @command("jobs", switch="workers", help="Show the running workers instead.")
    def workers(self) -> "list[WorkerRow]":
        """The workers that are alive, on any machine."""
        from freqdp_db.jobs.metrics import living_workers

        return living_workers(self._installed())

    @command("schedule add")
    def schedule(
        self,
        dataset: Dataset,
        at: Annotated[
            str,
            Option("Five cron fields, or @hourly, @daily, @weekly, @monthly.", show_default=False),
        ],
        method: Method = None,
        *,
        name: Annotated[
            str | None,
            Option(
                "Name of the schedule, where a dataset has several: its releases are called after it, and "
                "NAME_current shows the newest. Default: that of the dataset.",
                name="--name",
            ),
        ] = None,
        timezone: Annotated[str, Option("The zone that [[at]] is read in.")] = "UTC",
        keep: Annotated[
            int | None,
            Option(
                "Keep this many of the schedule's releases and withdraw older ones. Default: keep all."
            ),
        ] = None,
        hold: Annotated[
            bool, Option("Keep each release from analysts until it is approved.")
        ] = False,
        new_draw: Annotated[
            bool,
            Option(
                "Publish and pay even if the data has not changed: a missing version would say that."
            ),
        ] = False,
        window: Annotated[
            str | None,
            Option(
                "day, week or month: release each once, after it has ended, in a table that grows. "
                "Default: all data each time."
            ),
        ] = None,
        series: Annotated[
            str | None,
            Option(
                "With [[window]]: that table. Default: the schedule's name if it has one of its own, else "
                "DATASET_daily, _weekly or _monthly."
            ),
        ] = None,
        since: Annotated[
            str | None,
            Option(
                "With [[window]]: the first window, such as 2024-05-06. Default: the current one."
            ),
        ] = None,
        **parameters: Annotated[Value, MethodParameters(without=("seed",))],
    ) -> "Scheduled":
        """Rebuild a dataset and publish a new release at the given times. A worker does it."""
        from freqdp_db.jobs import schedule as scheduling
        from freqdp_db.release.request import Request

        name = name or dataset
        asked = scheduling.read_scheduled(
            dataset, name, Request.parse(method, **parameters), keep=keep, hold=hold,
            new_draw=new_draw, window=window, series=series, since=since,
        )  # fmt: skip
        database, row = self._dataset(dataset)
        return scheduling.add_schedule(database, row, name, asked, at, timezone, since)

    @command("schedule list")
    def schedules(self) -> "list[Schedule]":
        """List the schedules: when they run, what they request, and why ended ones ended."""
        from freqdp_db.db.datasets import get_dataset
        from freqdp_db.db.schedules import list_schedules
        from freqdp_db.jobs.schedule import Schedule

        database = self._installed()
        return [
            Schedule(**vars(row), protected=get_dataset(database, row.dataset_id).protected)
            for row in list_schedules(database)
        ]

    @command("schedule drop")
    def drop_schedule(
        self,
        name: Annotated[
            str,
            Argument(
                "Name of the schedule, which is the dataset's unless it was given one; or its number as "
                "`schedule list` has it.",
                dataset=True,
            ),
        ],
    ) -> "results.EndedSchedule":
        """End a schedule. Its releases stay."""
        from freqdp_db.db.schedules import drop_schedule
        from freqdp_db.results import EndedSchedule

        ended = drop_schedule(self._installed(), name)
        return EndedSchedule(ended.schedule_id, ended.name, ended.dataset, True)
