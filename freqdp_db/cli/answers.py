"""What each command prints for people.

An answer is one sentence (`_SENTENCES`), a table of documents (`_TABLES`), what a function here prints,
or else the `lines()` of the document itself.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from freqdp_db.cli.console import Session

if TYPE_CHECKING:
    from freqdp_db import results
    from freqdp_db.db.builds import BuildSize
    from freqdp_db.db.jobs import JobView
    from freqdp_db.db.schema import UpgradeResult
    from freqdp_db.evaluation.audit import Audit
    from freqdp_db.evaluation.recommendation.choosing import Recommendation
    from freqdp_db.jobs.schedule import Schedule, Scheduled
    from freqdp_db.paper.bench import PipelineBench, SearchBench
    from freqdp_db.paper.bench_counts import CountsBench
    from freqdp_db.release.budgets import SourceBudget

Given = dict[str, Any]
"""What the verb was called with."""
Shows = TypeVar("Shows", bound=Callable[..., None])
_SHOWS: dict[str, Callable[[Session, Any, Given], None]] = {}


def show(session: Session, verb: str, found: Any, given: Given) -> None:
    """Print what a verb gave back."""
    if verb in _SHOWS:
        _SHOWS[verb](session, found, given)
    elif verb in _SENTENCES:
        session.print(_SENTENCES[verb].format(found))
    elif verb in _TABLES:
        _documents(session, verb, found)
    else:
        session.print(*found.lines())


_SENTENCES = {
    "start": "PostgreSQL {0[version]} runs in {0[data_dir]}",
    "url": "{0[url]}",
    "report": "Report: {0.file}",
    "match": "{0.table}: {0.rows:,} of {0.samples:,} samples are on a road, {0.driven_km:,.0f} km of road "
    "driven by {0.trajectories:,} objects, {0.breaks:,} breaks.",
    "verify_ledger": "The ledger's hash chains are intact; {0.heads} published head(s) are in them.",
    "work": "Jobs: {0.done} done, {0.refused} refused, {0.failed} failed, {0.cancelled} cancelled, "
    "{0.put_off} put off.",
    "cancel_job": "Job {0.job_id}: {0.state}.",
    "drop_schedule": "Schedule {0.schedule_id} ({0.name}) of {0.dataset} has ended.",
}
"""With the document's fields."""


def _what(job: JobView) -> str | None:
    if job.phase is not None:
        return f"{job.phase}: {job.done:,} of {job.total:,}" if job.total else job.phase
    return job.error or job.note


def _kept_for(build: BuildSize) -> str:
    return ", ".join([*(["the next release"] if build.current else []), *build.releases])


def _asks_for(schedule: Schedule) -> str:
    window = schedule.asked.window
    return schedule.asked.request.method.name + (f" of each {window}" if window else "")


def _status(schedule: Schedule) -> str:
    if schedule.ended_at is None:
        return "active"
    return f"ended {schedule.ended_at:%Y-%m-%d %H:%M}: {schedule.ended_reason}"


_TABLES = {
    "datasets": ("name", "source", "snap", "current build"),
    "builds": ("build", "dataset", "window", "samples", "MB", "built", "kept for"),
    "releases": ("name", "state", "method", "kind", "spent", "rows", "read by", "measured exposure",
                 "published"),
    "find_object": ("dataset", "build", "release", "state", "released id", "note"),
    "jobs": ("job", "dataset", "state", "asked by", "asked", "tries", "release", "what"),
    "workers": ("worker", "host", "process", "job", "seen, s ago"),
    "schedules": ("schedule", "name", "dataset", "cron", "timezone", "asks for", "each costs", "keeps",
                  "next (UTC)", "status"),
}  # fmt: skip
"""The columns of a list of documents, in order."""
_RELEASES_FOR_ANALYSTS = ("name", "version", "method", "kind", "rows", "published", "for analysts")
_FIELDS: dict[str, str | Callable[[Any], Any]] = {
    "build": "build_id",
    "job": "job_id",
    "schedule": "schedule_id",
    "worker": "worker_id",
    "window": "time_window",
    "built": "built_at",
    "asked": "asked_at",
    "published": "published_at",
    "tries": "attempts",
    "spent": "price",
    "each costs": "price",
    "read by": "readers",
    "for analysts": "granted",
    "MB": lambda build: round(build.bytes / 1e6),
    "measured exposure": lambda r: None if r.exposure is None else f"{r.exposure:.1%}",
    "released id": lambda f: None if f.released_id is None else str(f.released_id),
    "process": lambda worker: str(worker.pid),
    "seen, s ago": lambda worker: round(worker.quiet_s),
    "keeps": lambda s: "all" if s.asked.keep is None else str(s.asked.keep),
    "next (UTC)": lambda s: None if s.ended_at else s.next_at,
    "what": _what,
    "kept for": _kept_for,
    "asks for": _asks_for,
    "status": _status,
}
"""What a column shows, where that is not the field of its name."""
_IF_NONE = {
    "datasets": "No datasets yet. Next: freqdp dataset add, or freqdp load demo",
    "builds": "No builds yet. Next: freqdp dataset build DATASET",
    "releases": "No releases yet. Next: freqdp recommend DATASET",
    "find_object": "No build holds this object.",
    "jobs": "No jobs yet. Next: freqdp schedule add, or SELECT freqdp.request_release(...) in SQL",
    "workers": "No worker is running. Next: freqdp worker",
    "schedules": "No schedules yet. Next: freqdp schedule add DATASET",
}


def _table(session: Session, headers: Sequence[str], documents: Sequence[Any]) -> None:
    fields = [_FIELDS.get(header, header.replace(" ", "_")) for header in headers]
    cells = [attrgetter(f) if isinstance(f, str) else f for f in fields]
    session.table(headers, [[cell(document) for cell in cells] for document in documents])


def _documents(session: Session, verb: str, found: Sequence[Any]) -> None:
    """A list of documents, and what is said below it."""
    if not found and verb in _IF_NONE:
        session.print(_IF_NONE[verb])
        return
    analyst = verb == "releases" and not hasattr(found[0], "state")
    _table(session, _RELEASES_FOR_ANALYSTS if analyst else _TABLES[verb], found)
    if verb == "builds":
        session.print(f"{sum(build.bytes for build in found) / 1e6:,.0f} MB in all.")
    if verb == "jobs":
        alive = len(session.freqdp.workers())
        waits = not alive and any(job.state == "waiting" for job in found)
        following = " Next: freqdp worker" if waits else ""
        session.print(f"{alive} worker{'' if alive == 1 else 's'} running.{following}")


def _shows(*verbs: str) -> Callable[[Shows], Shows]:
    def register(function: Shows) -> Shows:
        _SHOWS.update(dict.fromkeys(verbs, function))
        return function

    return register


@_shows("status")
def _server_status(session: Session, found: Any, given: Given) -> None:
    session.pairs([(name, str(v) if name == "pid" else v) for name, v in vars(found).items()])


@_shows("stop")
def _stopped(session: Session, found: dict[str, bool], given: Given) -> None:
    session.print("stopped" if found["stopped"] else "the server was not running")


@_shows("init")
def _init(session: Session, found: UpgradeResult, given: Given) -> None:
    names = found.names
    if not found.changed:
        session.print(f"Nothing to do: schema {names.schema} is at revision {found.revision}.")
    else:
        verb = "Created" if found.created else "Upgraded"
        session.print(
            f"{verb} schema {names.schema} (private) and {names.release_schema} "
            f"(publishable), revision {found.revision}."
        )
        if found.roles_created:
            session.print("Created roles: " + ", ".join(found.roles_created))
    if found.roles_missing:
        session.print(
            "Roles that you may not create: " + ", ".join(found.roles_missing),
            f"  {found.roles_remedy}",
        )


@_shows("init_extension")
def _extension(session: Session, found: results.ExtensionFiles, given: Given) -> None:
    *files, managed = found.files
    session.print(
        f"Wrote {', '.join(f.name for f in files)} to {managed.parent}. Copy them to the server, into "
        f"$(pg_config --sharedir)/extension; or run {managed.name} in a database with pg_tle.",
        "Then, in the database: " + " ".join(f"{statement};" for statement in found.statements),
    )


@_shows("init_script", "uninstall_script")
def _script(session: Session, found: results.Script, given: Given) -> None:
    sys.stdout.write(found.sql)


@_shows("doctor")
def _doctor(session: Session, found: results.Diagnosis, given: Given) -> None:
    for finding in found.findings:
        mark = "note" if finding.advice else "ok  " if finding.ok else "MISS"
        session.print(f"{mark}  {finding.what}")
        if (finding.advice or not finding.ok) and finding.remedy:
            session.print(f"        -> {finding.remedy}")


@_shows("add_dataset")
def _added(session: Session, found: results.AddedDataset, given: Given) -> None:
    session.print(f"Dataset {found.name}: {found.source}, snap {found.snap}.")
    account = found.budget
    if found.budget_is_new:
        session.print(f"Its source may spend epsilon {account.granted} per {account.unit} in all.")
    else:
        which = f"It shares {account.source}'s budget"
        if account.population is not None:
            which = f"It shares the budget of {account.population}"
        elif account.source == found.source:
            which = "Its source has a budget already"
        unused = " (--budget was not used)." if given["budget"] is not None else "."
        session.print(
            f"{which}: {account.currency} {account.remaining} of {account.granted} per "
            f"{account.unit} left{unused}"
        )
    session.print(
        *(f"Note: {what}." for what in (*found.budget_notes, *found.untraced)),
        *(f"Warning: {warning.text}." for warning in found.warnings),
        f"Next: freqdp dataset build {shlex.quote(found.name)}",
    )


@_shows("set_dataset")
def _set(session: Session, found: results.Dataset, given: Given) -> None:
    name, quoted = found.name, shlex.quote(found.name)
    if given["persons"] is not None:
        session.print(f"Dataset {name} is of {given['persons']}.", *_budgets(found))
    if given["time_unit"] is not None:
        session.print(
            f"Dataset {name}: epoch numbers are read as {given['time_unit']} from the next build on. "
            f"Next: freqdp dataset build {quoted}"
        )
    if given["keep_columns"] is not None:
        columns = ", ".join(found.mapping.keep_columns)
        session.print(
            f"Dataset {name}: samples carry {columns or 'no columns'} along from the next build on. "
            f"Next: freqdp dataset build {quoted}"
        )
    if given["unit"] is not None:
        session.print(f"Dataset {name}: guarantees are for {found.protected.words}.")
    if given["max_exposure"] is not None:
        session.print(f"Dataset {name}: {found.limit_in_words}.")
    if given["region"] is not None or given["period"] is not None:
        following = (
            f"anonymize {quoted} --method strict" if found.build else f"dataset build {quoted}"
        )
        session.print(
            f"Dataset {name}: region {found.region or '-'}, period {found.period or '-'}, both "
            f"public. Next: freqdp {following}"
        )


def _budgets(found: results.Dataset) -> list[str]:
    return [f"Budget {budget.in_words}." for budget in (found.budget, *found.other_units)]


@_shows("build_dataset")
def _built(session: Session, found: results.BuiltDataset, given: Given) -> None:
    session.print(*found.lines())
    if found.objects_with_fewer_than_20_places:
        session.print(
            f"{found.objects_with_fewer_than_20_places:,} objects have fewer than 20 places: an edited "
            "release (lg) with --signature 10 leaves little of them."
        )
    session.print(f"Next: freqdp recommend {shlex.quote(found.dataset)}")


@_shows("dataset")
def _dataset(session: Session, found: results.Dataset, given: Given) -> None:
    mapping = found.mapping
    unit = f", epoch numbers in {mapping.time_unit}" if mapping.time_unit else ""
    position = mapping.geom or f"{mapping.lon}, {mapping.lat}"
    session.pairs(
        [
            ("dataset", found.name),
            ("source", found.source),
            ("object", mapping.object),
            ("time", f"{mapping.time} (zone {mapping.timezone}{unit})"),
            ("position", f"{position} (SRID {found.source_srid})"),
            ("where", mapping.filter),
            ("keeps", ", ".join(mapping.keep_columns) or None),
            ("snap", found.snap),
            ("region", found.region),
            ("period", found.period),
            ("limit", found.limit_in_words),
            ("persons", found.budget.population),
            ("unit", found.protected.words),
            *(("budget", budget.in_words) for budget in (found.budget, *found.other_units)),
        ]
    )
    session.print(*found.build_lines())


@_shows("drop_dataset")
def _dropped(session: Session, found: results.DroppedDataset, given: Given) -> None:
    session.print(f"Dropped dataset {found.dropped}. Its source and its budget are as they were.")
    if found.releases_published:
        session.print(
            f"{found.releases_published} of its releases stay published. To withdraw one: "
            "freqdp release withdraw NAME"
        )


@_shows("verify")
def _verified(session: Session, found: results.Verification, given: Given) -> None:
    session.print(
        f"{found.release}: {', '.join(found.words)}, {found.rows:,} rows"
        + (f" of {found.trajectories:,} trajectories" if found.trajectories else "")
        + " are what the log gives."
    )


@_shows("withdraw")
def _withdrawn(session: Session, found: results.Withdrawn, given: Given) -> None:
    session.print(f"Withdrew {found.withdrawn}. Its record and its spend stay in the ledger.")
    if found.waits_for is not None:
        session.print(
            f"Only curators can read it now. Its tables are still there: {found.waits_for}. Running "
            "this command again, the next release or a worker drops them."
        )


@_shows("export")
def _exported(session: Session, found: Any, given: Given) -> None:
    names = list(map(str, found.files))
    data = [name for name in names if f"{name}.guarantee.json" in names]
    beside = [name.removeprefix(data[0]) for name in names if name.startswith(f"{data[0]}.")]
    session.print(
        f"Wrote {found.rows:,} rows: {', '.join(data)}",
        f"Hand out together with {'it' if len(data) == 1 else 'each'}: {', '.join(beside)}",
    )


@_shows("recommend")
def _recommended(session: Session, found: Recommendation, given: Given) -> None:
    session.table(
        ["  candidate", "an attacker learns", "of whom over half", "usefulness", "within"],
        found.rows(),
    )
    session.print("", *found.lines())


@_shows("evaluate_table")
def _evaluated_table(session: Session, found: results.EvaluatedTable, given: Given) -> None:
    session.print(*found.words, "")
    _evaluated(session, found, given)
    if found.file is not None:
        session.print(f"Page: {found.file}")


@_shows("evaluate")
def _evaluated(session: Session, found: results.Evaluated, given: Given) -> None:
    """The answers to three questions first, then rules, then the metrics, in words."""
    if found.windows:
        _evaluated_series(session, found)
        return
    session.print(
        *(f"{v.question} {v.answer.capitalize()}. {v.meaning}" for v in found.verdicts),
        *(rule.line() for rule in found.rules),
    )
    groups = found.in_words()
    for index, (group, rows) in enumerate(groups.items()):
        if index or found.verdicts or found.rules:
            session.print("")
        session.table(
            [group.lower(), "value", "metric"],
            [(what, f"{value:.4f}", name) for what, value, name, _ in rows],
        )
    session.print("")
    more = len(found.metrics) - sum(map(len, groups.values()))
    if more:
        again = f"--table {found.release} ..." if "table" in given else found.release
        session.print(f"{more} more metrics: freqdp evaluate {again} --json")
    if found.publishable:
        session.print(f"May be published: {', '.join(found.publishable)}. The others are for you.")


def _evaluated_series(session: Session, found: results.Evaluated) -> None:
    """What attackers learn by how many windows they have."""
    heads = ["an attacker learns", "of whom over half"]
    what = "shares of what a person did in all of them, and of people"
    if found.windows[-1].counts:
        heads = ["right minus wrong", "found minus false alarms"]
        what = "how well an attacker tells who was counted, and whom it finds beyond one false alarm in 100"
    session.table(
        ["windows", *heads, "the strongest is one"],
        [(str(j.windows), f"{j.exposure:.1%}", f"{j.half:.1%}", j.attacker) for j in found.windows],
    )
    session.print(
        "", f"The newest windows of {found.release} together: {what}. Measurements, not guarantees."
    )


@_shows("experiment")
def _experiment(session: Session, found: results.Experiment, given: Given) -> None:
    session.print(found.markdown, "Wrote " + ", ".join(map(str, found.files)))


@_shows("audit")
def _audited(session: Session, found: Audit, given: Given) -> None:
    session.print(
        f"{found.dataset}, method {found.request.method.name}; an object is "
        f"{found.protected.words}. Lower bounds on epsilon, by experiment (all of them at "
        f"{found.confidence:.1%} confidence)."
    )
    session.table(
        ["artefact", "lists", "neighbour", "claimed", "at least", "runs", "verdict"], found.rows()
    )
    session.print(
        "Held equal: candidates and point lists are those of the first world, as the guarantee assumes. "
        "Nothing is claimed where lists differ, nor for the table of trajectories: one world shows what "
        "the other cannot. Nothing was published or spent."
    )


@_shows("bench_search")
def _searched(session: Session, found: SearchBench, given: Given) -> None:
    for run in found.runs:
        session.print(
            f"{run.trajectories:,} trajectories, {run.segments:,} distinct segments: "
            f"{run.queries:,} queries for the nearest trajectories, one core"
        )
        columns = ("name", "queries", "us per query", "distances per query", "cells per query",
                   "build s", "index mb")  # fmt: skip
        _table(session, columns, run.strategies)
        for stored in run.stored:
            held = "all segments" if stored.memory_mb is None else f"{stored.memory_mb:,.0f} MB"
            session.print(
                f"The search of a job, over the grid in the database, holding {held}: "
                f"{stored.queries:,} queries in {stored.seconds:.2f} s, all cores, reading included"
            )
        session.print("")
    equal = found.answers_equal
    session.print(
        "All answers are equal, ties included." if equal else "THE ANSWERS DIFFER: report this."
    )


@_shows("bench_pipeline")
def _benched(session: Session, found: PipelineBench, given: Given) -> None:
    for run in found.runs:
        session.print(f"\n{run.trajectories:,} trajectories, {run.samples:,} samples")
        for title, seconds, ratio, stages in (
            ("copy floor", run.floor_s, 1.0, run.floor_parts),
            ("build", run.build_s, run.ratios["build"], run.build_stages),
            ("anonymize and verify", run.anonymize_s, run.ratios["anonymize_and_verify"],
             run.anonymize_stages),
        ):  # fmt: skip
            parts = ", ".join(f"{name.removesuffix('_s')} {s:.1f}" for name, s in stages.items())
            session.print(f"{title}: {seconds:.1f} s, {ratio:.2f} copy floors ({parts})")
        session.print(f"peak memory so far: {run.peak_rss_mb:,.0f} MB")
    if found.growth_exponent is not None:
        session.print(f"\nanonymize with verify grows as n^{found.growth_exponent:.2f}")


@_shows("bench_counts")
def _counted(session: Session, found: CountsBench, given: Given) -> None:
    session.print(
        f"{found.zones:,} zones in {found.districts:,} districts, {found.bins:,} bins; median relative "
        "errors of the 100 largest, in percent, against the true counts"
    )
    for epsilon, errors in found.errors.items():
        session.print(f"\nepsilon {epsilon}")
        columns = list(next(iter(errors.values())))
        rows = [[way, *(f"{100 * e:.0f}" for e in row.values())] for way, row in errors.items()]
        session.table(["", *columns], rows)
        session.pairs(
            [(f"coverage, {level}", f"{c:.1%}") for level, c in found.coverage[epsilon].items()]
            + [
                (f"left out by the bounds, {what}", f"{part:.0%}, said {said:.0%}")
                for what, part in found.lost[epsilon].items()
                for said in [found.lost_as_said[epsilon][what]]
            ]
        )


@_shows("budget", "raise_budget")
def _budget(session: Session, found: SourceBudget, given: Given) -> None:
    for account in (found, *found.other_units):
        session.print(f"Budget {account.in_words}.")
        entries = [
            (e.entry, e.kind, f"{e.amount:f}", e.release, e.reason, e.actor, e.at)
            for e in account.ledger
        ]
        session.table(["entry", "kind", account.currency, "release", "reason", "by", "at"], entries)
        session.print(account.meaning)


@_shows("living_worker")
def _alive(session: Session, found: Any, given: Given) -> None:
    session.print(
        f"Worker {found.worker_id} is alive: process {found.pid} on {found.host}, last seen "
        f"{found.quiet_s:.0f} s ago, "
        + ("idle." if found.job_id is None else f"running job {found.job_id}.")
    )


@_shows("schedule")
def _scheduled(session: Session, found: Scheduled, given: Given) -> None:
    session.print(
        f"Schedule {found.schedule_id}: {found.name}, {found.cron} ({found.timezone}), next at "
        f"{found.next_at:%Y-%m-%d %H:%M} UTC. A worker has to run: freqdp worker"
    )
    if found.next_window is not None:
        session.print(
            f"Each {given['window']} from {found.next_window} on, once it has ended, is added to "
            f"{found.series}; missed ones are caught up."
        )
    if found.renews and found.releases_left is not None:
        enough = (
            "the schedule never runs out"
            if found.releases_left
            else "which is too small: raise it (freqdp budget)"
        )
        session.print(
            f"Each costs {found.price}, from a budget of its own for each {given['window']}: {enough}."
        )
    elif found.releases_left is not None:
        which = "release" if given["new_draw"] else "release of changed data"
        session.print(
            f"Each {which} costs {found.price}; the budget pays for "
            f"{found.releases_left:,} more. Then the schedule ends, and says so."
        )
    session.print(found.warning)
