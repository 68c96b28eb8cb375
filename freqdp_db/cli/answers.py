"""What each command prints for people. Documents that have `lines()` are printed so."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from freqdp_db.cli.console import Session

if TYPE_CHECKING:
    from freqdp_db import results
    from freqdp_db.dataset.road_tables import MatchedDataset
    from freqdp_db.db.builds import BuildSize
    from freqdp_db.db.datasets import DatasetRow
    from freqdp_db.db.jobs import JobView, WorkerRow
    from freqdp_db.evaluation.audit import Audit
    from freqdp_db.evaluation.recommendation.choosing import Recommendation
    from freqdp_db.evaluation.report.report import Reported
    from freqdp_db.jobs.schedule import Schedule, Scheduled
    from freqdp_db.paper.bench import PipelineBench, SearchBench
    from freqdp_db.paper.bench_counts import CountsBench
    from freqdp_db.release.budgets import SourceBudget
    from freqdp_db.release.catalogue import Whereabouts
    from freqdp_db.release.export.exporting import Exported

Given = dict[str, Any]
"""What the verb was called with."""
Shows = TypeVar("Shows", bound=Callable[..., None])
_SHOWS: dict[str, Callable[[Session, Any, Given], None]] = {}


def show(session: Session, verb: str, found: Any, given: Given) -> None:
    """Print what a verb gave back."""
    if verb in _SHOWS:
        _SHOWS[verb](session, found, given)
    else:
        session.print_all(found.lines())


def _shows(*verbs: str) -> Callable[[Shows], Shows]:
    def register(function: Shows) -> Shows:
        _SHOWS.update(dict.fromkeys(verbs, function))
        return function

    return register


@_shows("init")
def _init(session: Session, found: results.Installed, given: Given) -> None:
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
        session.print("Roles that you may not create: " + ", ".join(found.roles_missing))
        session.print(f"  {found.roles_remedy}")


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
        own = account.source == found.source
        which = (
            f"It shares the budget of {account.population}"
            if account.population is not None
            else "Its source has a budget already"
            if own
            else f"It shares {account.source}'s budget"
        )
        unused = " (--budget was not used)." if given["budget"] is not None else "."
        session.print(
            f"{which}: {account.currency} {account.remaining} of {account.granted} per "
            f"{account.unit} left{unused}"
        )
    for what in (*found.budget_notes, *found.untraced):
        session.print(f"Note: {what}.")
    for warning in found.warnings:
        session.print(f"Warning: {warning.text}.")
    session.print(f"Next: freqdp dataset build {shlex.quote(found.name)}")


@_shows("set_dataset")
def _set(session: Session, found: results.Dataset, given: Given) -> None:
    name, quoted = found.name, shlex.quote(found.name)
    if given["persons"] is not None:
        session.print(f"Dataset {name} is of {given['persons']}.")
        for budget in (found.budget, *found.other_units):
            session.print(f"Budget {budget.in_words}.")
    if given["time_unit"] is not None:
        session.print(
            f"Dataset {name}: epoch numbers are read as {given['time_unit']} from the next build on. "
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


@_shows("build_dataset")
def _built(session: Session, found: results.BuiltDataset, given: Given) -> None:
    session.print_all(found.lines())
    if found.objects_with_fewer_than_20_places:
        session.print(
            f"{found.objects_with_fewer_than_20_places:,} objects have fewer than 20 places: with "
            "--signature 10 the method leaves little of them."
        )
    session.print(f"Next: freqdp recommend {shlex.quote(found.dataset)}")


@_shows("datasets")
def _datasets(session: Session, found: list[DatasetRow], given: Given) -> None:
    if not found:
        session.print("No datasets yet. Next: freqdp dataset add, or freqdp load demo")
        return
    session.table(
        ["name", "source", "snap", "build"],
        [(r.name, r.source, r.snap, r.current_build) for r in found],
    )


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
            ("snap", found.snap),
            ("region", found.region),
            ("period", found.period),
            ("limit", found.limit_in_words),
            ("persons", found.budget.population),
            ("unit", found.protected.words),
            *(("budget", budget.in_words) for budget in (found.budget, *found.other_units)),
        ]
    )
    session.print_all(found.build_lines())


@_shows("builds")
def _builds(session: Session, found: list[BuildSize], given: Given) -> None:
    if not found:
        session.print("No builds yet. Next: freqdp dataset build DATASET")
        return
    session.table(
        ["build", "dataset", "window", "samples", "MB", "built", "kept for"],
        [
            (b.build_id, b.dataset, b.time_window, b.samples, round(b.bytes / 1e6),
             f"{b.built_at:%Y-%m-%d %H:%M}",
             ", ".join([*(["the next release"] if b.current else []), *b.releases]))
            for b in found
        ],
    )  # fmt: skip
    session.print(f"{sum(b.bytes for b in found) / 1e6:,.0f} MB in all.")


@_shows("drop_dataset")
def _dropped(session: Session, found: results.DroppedDataset, given: Given) -> None:
    session.print(f"Dropped dataset {found.dropped}. Its source and its budget are as they were.")
    if found.releases_published:
        session.print(
            f"{found.releases_published} of its releases stay published. To take one back: "
            "freqdp release withdraw NAME"
        )


_CURATOR = (
    "name",
    "state",
    "method",
    "kind",
    "price",
    "rows",
    "readers",
    "exposure",
    "published_at",
)
_ANALYST = ("name", "version", "method", "kind", "rows", "published_at", "granted")
_HEADERS = {"price": "spent", "readers": "read by", "exposure": "measured exposure",
            "published_at": "published", "granted": "for analysts"}  # fmt: skip


@_shows("releases")
def _releases(session: Session, found: Sequence[Any], given: Given) -> None:
    if not found:
        session.print("No releases yet. Next: freqdp recommend DATASET")
        return
    columns = _CURATOR if hasattr(found[0], "state") else _ANALYST
    session.table(
        [_HEADERS.get(column, column) for column in columns],
        [[_released(row, column) for column in columns] for row in found],
    )


def _released(row: object, column: str) -> object:
    value = getattr(row, column)
    if column == "granted":
        return "yes" if value else "no"
    if column == "exposure" and value is not None:
        return f"{value:.1%}"
    return f"{value:%Y-%m-%d %H:%M}" if column == "published_at" and value else value


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
            f"Nobody but curators can read it. Its tables are still there: {found.waits_for}. They "
            "are dropped by the same command again, the next release or a worker."
        )


@_shows("export")
def _exported(session: Session, found: Exported, given: Given) -> None:
    session.print(f"Wrote {found.rows:,} rows: " + ", ".join(str(f) for f in found.files))


@_shows("report")
def _reported(session: Session, found: Reported, given: Given) -> None:
    session.print(f"Report: {found.file}")


@_shows("find_object")
def _found(session: Session, found: list[Whereabouts], given: Given) -> None:
    if not found:
        session.print("No build holds this object.")
        return
    session.table(
        ["dataset", "build", "release", "state", "released id", "note"],
        [
            (f.dataset, f.build_id, f.release, f.state,
             None if f.released_id is None else str(f.released_id), f.note)
            for f in found
        ],
    )  # fmt: skip


@_shows("recommend")
def _recommended(session: Session, found: Recommendation, given: Given) -> None:
    session.table(
        ["  candidate", "an attacker learns", "of whom over half", "usefulness", "within"],
        found.rows(),
    )
    session.print_all(["", *found.lines()])


@_shows("evaluate_table")
def _evaluated_table(session: Session, found: results.EvaluatedTable, given: Given) -> None:
    session.print_all([*found.words, ""])
    _evaluated(session, found, given)
    if found.file is not None:
        session.print(f"Page: {found.file}")


@_shows("evaluate")
def _evaluated(session: Session, found: results.Evaluated, given: Given) -> None:
    """The answers to three questions first, then rules, then the numbers, in words."""
    if found.windows:
        _evaluated_series(session, found)
        return
    for verdict in found.verdicts:
        session.print(f"{verdict.question} {verdict.answer.capitalize()}. {verdict.meaning}")
    for rule in found.rules:
        session.print(rule.line())
    groups = found.in_words()
    for group, rows in groups.items():
        session.print("")
        session.table(
            [group.lower(), "value", "metric"],
            [(what, f"{value:.4f}", name) for what, value, name, _ in rows],
        )
    session.print("")
    more = len(found.metrics) - sum(map(len, groups.values()))
    if more:
        again = f"--table {found.release} ..." if "table" in given else found.release
        session.print(f"{more} more numbers: freqdp evaluate {again} --json")
    if found.publishable:
        session.print(f"May be published: {', '.join(found.publishable)}. The others are for you.")


def _evaluated_series(session: Session, found: results.Evaluated) -> None:
    """What attackers learn by how many windows they have."""
    session.table(
        ["windows", "an attacker learns", "of whom over half", "the strongest is one"],
        [(str(j.windows), f"{j.exposure:.1%}", f"{j.half:.1%}", j.attacker) for j in found.windows],
    )
    session.print("")
    session.print(
        f"The newest windows of {found.release} together: shares of what a person did in all of them, and "
        "of people. Measurements, not guarantees."
    )


@_shows("experiment")
def _experiment(session: Session, found: results.Experiment, given: Given) -> None:
    session.print(found.markdown)
    session.print("Wrote " + ", ".join(str(f) for f in found.files))


@_shows("audit")
def _audited(session: Session, found: Audit, given: Given) -> None:
    session.print(
        f"{found.dataset}, method {found.request.method.name}; an object is "
        f"{found.protected.words}. Epsilon is at least so much, by experiment (all of it at "
        f"{found.confidence:.1%} confidence)."
    )
    session.table(
        ["artefact", "lists", "neighbour", "claimed", "at least", "runs", "verdict"],
        found.rows(),
    )
    session.print(
        "Held equal: candidates and point lists are those of the first world, as the "
        "guarantee assumes. Where lists move, and for the table of trajectories, nothing is "
        "claimed: one world shows what the other cannot. Nothing was published or spent."
    )


@_shows("match")
def _matched(session: Session, found: MatchedDataset, given: Given) -> None:
    session.print(
        f"{found.table}: {found.rows:,} of {found.samples:,} samples are on a road, "
        f"{found.driven_km:,.0f} km of road driven by {found.trajectories:,} objects, "
        f"{found.breaks:,} breaks."
    )


@_shows("bench_search")
def _searched(session: Session, found: SearchBench, given: Given) -> None:
    headers = ["strategy", "queries", "us/query", "x default", "distances", "cells", "build s",
               "index MB"]  # fmt: skip
    for run in found.runs:
        session.print(
            f"{run.trajectories:,} trajectories, {run.segments:,} distinct segments: "
            f"{run.queries:,} queries for the nearest trajectories, one core"
        )
        session.table(headers, [_strategy(s, run.times_faster(s.name)) for s in run.strategies])
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


def _strategy(measured: Any, factor: float | None) -> list[Any]:
    return [
        measured.name,
        measured.queries,
        round(measured.us_per_query, 1),
        None if factor is None else round(factor, 1),
        round(measured.distances_per_query),
        None if measured.cells_per_query is None else round(measured.cells_per_query),
        round(measured.build_s, 2),
        round(measured.index_mb),
    ]


@_shows("bench_pipeline")
def _benched(session: Session, found: PipelineBench, given: Given) -> None:
    session.table(
        ["objects", "samples", "floor", "build", "/floor", "release", "/floor", "MB"],
        [
            [
                run.trajectories, run.samples, round(run.floor_s, 1), round(run.build_s, 1),
                round(run.ratios["build"], 2), round(run.anonymize_s, 1),
                round(run.ratios["anonymize_and_verify"], 2), round(run.peak_rss_mb),
            ]
            for run in found.runs
        ],
    )  # fmt: skip
    session.print(
        "Seconds; /floor: times the copy floor; release: from start to published, verified; "
        "MB: peak memory."
    )
    last = found.runs[-1]
    for title, stages in (
        ("copy floor", last.floor_parts),
        ("build", last.build_stages),
        ("anonymize and verify", last.anonymize_stages),
    ):
        session.print(f"\n{title}, {last.trajectories:,} trajectories")
        session.pairs([(name.removesuffix("_s"), f"{s:.2f} s") for name, s in stages.items()])
    if found.growth_exponent is not None:
        session.print(f"\nanonymize with verify grows as n^{found.growth_exponent:.2f}")


@_shows("bench_counts")
def _counted(session: Session, found: CountsBench, given: Given) -> None:
    session.print(
        f"{found.zones:,} zones in {found.districts:,} districts, {found.bins:,} bins; median relative "
        "errors of the 100 largest, in percent, against all that there is"
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
        session.table(
            ["entry", "kind", account.currency, "release", "reason", "by", "at"],
            [
                (e.entry, e.kind, f"{e.amount:f}", e.release, e.reason, e.actor,
                 f"{e.at:%Y-%m-%d %H:%M}")
                for e in account.ledger
            ],
        )  # fmt: skip
        session.print(account.meaning)


@_shows("verify_ledger")
def _ledger(session: Session, found: results.LedgerVerified, given: Given) -> None:
    session.print(f"The ledger's chains are whole; {found.heads} published head(s) are in them.")


@_shows("work")
def _worked(session: Session, found: results.Worked, given: Given) -> None:
    session.print(
        f"Jobs: {found.done} done, {found.refused} refused, {found.failed} failed, "
        f"{found.cancelled} cancelled, {found.put_off} put off."
    )


@_shows("living_worker")
def _living(session: Session, found: WorkerRow, given: Given) -> None:
    session.print(
        f"Worker {found.worker_id} lives: process {found.pid} on {found.host}, last heard "
        f"of {found.quiet_s:.0f} s ago, "
        + ("idle." if found.job_id is None else f"at job {found.job_id}.")
    )


@_shows("jobs")
def _jobs(session: Session, found: list[JobView], given: Given) -> None:
    session.table(
        ["job", "dataset", "state", "asked by", "at", "tries", "release", "what"],
        [
            (j.job_id, j.dataset, j.state, j.asked_by, f"{j.asked_at:%Y-%m-%d %H:%M}",
             j.attempts, j.release, _phase(j))
            for j in found
        ],
    )  # fmt: skip
    living = len(session.freqdp.workers())
    session.print(f"{living} workers live." if living != 1 else "1 worker lives.")


def _phase(job: JobView) -> str | None:
    if job.phase is not None:
        return f"{job.phase}: {job.done:,} of {job.total:,}" if job.total else job.phase
    return job.error or job.note


@_shows("workers")
def _workers(session: Session, found: list[WorkerRow], given: Given) -> None:
    session.table(
        ["worker", "host", "process", "job", "heard of, s ago"],
        [(w.worker_id, w.host, str(w.pid), w.job_id, round(w.quiet_s)) for w in found],
    )


@_shows("cancel_job")
def _cancelled(session: Session, found: results.CancelledJob, given: Given) -> None:
    session.print(f"Job {found.job_id}: {found.state}.")


@_shows("schedule")
def _scheduled(session: Session, found: Scheduled, given: Given) -> None:
    session.print(
        f"Schedule {found.schedule_id}: {found.dataset}, {found.cron} ({found.timezone}), next at "
        f"{found.next_at:%Y-%m-%d %H:%M} UTC. A worker has to run: freqdp worker"
    )
    if found.series is not None:
        session.print(
            f"Each {given['window']} from {found.next_window} on, when it is over, becomes a part of "
            f"{found.series}; those that were missed are caught up."
        )
    if found.renews and found.releases_left is not None:
        enough = "for ever" if found.releases_left else "once the budget is raised"
        session.print(
            f"Each costs {found.price}, and the budget is there again for the next: it runs {enough}."
        )
    elif found.releases_left is not None:
        which = "release" if given["new_draw"] else "release of changed data"
        session.print(
            f"Each {which} costs {found.price}; the budget pays for "
            f"{found.releases_left:,} more. Then the schedule ends, and says so."
        )
    session.print(found.warning)


@_shows("schedules")
def _schedules(session: Session, found: list[Schedule], given: Given) -> None:
    session.table(
        ["schedule", "dataset", "at", "zone", "method", "each costs", "keep", "next at (UTC)",
         "state"],
        [
            (s.schedule_id, s.dataset, s.cron, s.timezone, s.asked.request.method.name
             + ("" if s.asked.window is None else f" of each {s.asked.window}"),
             s.price, "all" if s.asked.keep is None else str(s.asked.keep),
             None if s.ended_at else f"{s.next_at:%Y-%m-%d %H:%M}",
             f"ended {s.ended_at:%Y-%m-%d %H:%M}: {s.ended_reason}" if s.ended_at else "active")
            for s in found
        ],
    )  # fmt: skip


@_shows("drop_schedule")
def _unscheduled(session: Session, found: results.EndedSchedule, given: Given) -> None:
    session.print(f"Schedule {found.schedule_id} of {found.dataset} has ended.")
