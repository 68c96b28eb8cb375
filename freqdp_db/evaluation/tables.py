"""A table of trajectories that was made elsewhere, judged as if it were a release of a dataset.

Whose each trajectory is may come from a key table. Without one, a trajectory is attributed to the object
that shares most with it, if that object was near (200 m, 5 minutes) at half of its samples, or at the same
place and time at a fifth of them; otherwise to nobody. What attackers learn is counted by places and times
and does not depend on this attribution; what they train on, and the other metrics, do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from freqdp_db.dataset.cleaning import (
    drop_unusable,
    on_step,
    snap_exact,
    snap_grid,
    sort_rows,
    time_step,
)
from freqdp_db.dataset.memory import load_build
from freqdp_db.dataset.projection import ReferenceSystem, transform
from freqdp_db.dataset.reading import numbered_rows, read_columns
from freqdp_db.dataset.registration import (
    Registration,
    find_srid,
    read_mapping,
    require_position,
)
from freqdp_db.dataset.text_values import grid_metres
from freqdp_db.db.builds import BuildRow, find_build, object_numbers
from freqdp_db.db.connection import Database
from freqdp_db.db.datasets import DatasetRow
from freqdp_db.db.names import format_relation
from freqdp_db.db.source import check_mapping, definition_of, find_relation, read_name
from freqdp_db.db.source_rows import SourceReader, as_samples, read_pairs
from freqdp_db.errors import BadData, BadInput
from freqdp_db.evaluation.attacks.known_samples import KnownSamples, SightingIndex
from freqdp_db.evaluation.attacks.recovery import recovery_attack
from freqdp_db.evaluation.evaluate import measure_release
from freqdp_db.evaluation.pair import Case, ReleaseSeen, object_by_object
from freqdp_db.model.arrays import Ids, offsets_of
from freqdp_db.model.trajectories import Build, Locations, Trajectories
from freqdp_db.progress import Progress
from freqdp_db.roads.network import Network

_LEAST_NEAR, _LEAST_EXACT = 0.5, 0.2
_NOBODY = -1


@dataclass(frozen=True)
class JudgedTable:
    """A table as a release of a dataset, and how it was read."""

    name: str
    case: Case
    kind: str
    rows: int
    left_out: int
    """Rows that cannot be used: a NULL, or a time or position out of range."""
    trajectories: int
    attributed: int
    """How many of them are somebody's."""
    objects: int
    """Of how many objects they are."""
    key_given: bool
    time_step_us: int | None
    srid: int
    """Of the metres that both are compared in."""
    pitch: float | None
    """The side of the cells that places are centres of; None: they lie anywhere."""

    def lines(self) -> list[str]:
        how = (
            "by the key table"
            if self.key_given
            else "by matching: the object that was near half of its samples (200 m, 5 minutes), or exactly "
            "at a fifth of them"
        )
        found = [
            f"{self.name}: {self.rows:,} rows of {self.trajectories:,} trajectories"
            + (f"; {self.left_out:,} rows cannot be used and are left out" if self.left_out else "")
            + ".",
            f"Whose they are was found {how}: {self.attributed:,} trajectories of {self.objects:,} "
            f"objects; measured as {_KINDS[self.kind]}.",
        ]
        if self.time_step_us is not None:
            found.append(
                f"Its times are multiples of {self.time_step_us / 1e6:g} s: attackers know that."
            )
        return found


_KINDS = {
    "edited": "one trajectory for each object",
    "unlinked": "pieces that are not one for each object",
    "synthetic": "trips that are nobody's",
}


def read_table(
    database: Database,
    dataset: DatasetRow,
    asked: Registration,
    key: str | None,
    seed: int,
    progress: Progress,
) -> JudgedTable:
    """Read a table and the current build of the dataset that it is judged against. Writes nothing.

    asked: the table as if it were a source: its trajectories are the objects. key: a table of two columns,
    trajectory and object. seed: breaks ties between objects that match a trajectory equally well.
    """
    require_position(asked)
    row = find_build(database, dataset.require_build())
    name, ids, released, left_out = _read(database, row, dataset, asked, progress)
    build = load_build(database, row.build_id, progress)
    step = time_step(lambda us: on_step(released[0].at, us), released[0].samples)
    seen = ReleaseSeen(
        *released,
        time_step_us=step if step > build.clock.step_us else None,
        timezone=build.timezone,
    )
    if key is None:
        with progress.stage("find owners"):
            owner = _matched(build, seen, np.random.default_rng([seed, 14]))
    else:
        owner = _by_key(database, row, key, ids)
    case, kind = _case(build, seen, owner)
    return JudgedTable(
        name, case, kind, seen.trajectories.samples + left_out, left_out, len(ids),
        int((owner >= 0).sum()), len(np.unique(owner[owner >= 0])), key is not None,
        seen.time_step_us, build.srid, grid_metres(row.snap),
    )  # fmt: skip


def _read(
    database: Database,
    build: BuildRow,
    dataset: DatasetRow,
    asked: Registration,
    progress: Progress,
) -> tuple[str, list[str], tuple[Trajectories, Locations], int]:
    """Its name, the ids of its trajectories, these with their places, and how many rows cannot be used."""
    with database.begin(snapshot=True) as connection:
        named = read_name(connection, asked.source, "[[table]]")
        relation = find_relation(connection, *named, option="[[table]]")
        wanted = replace(asked, timezone=dataset.mapping.timezone)
        mapping = read_mapping(relation, wanted)
        relation.column("[[trajectory]]", mapping.object)
        check_mapping(
            *as_samples(connection, relation, mapping),
            projected=asked.x is not None,
        )
        srid = find_srid(connection, relation, mapping, wanted)
        raw, plane = (
            ReferenceSystem.parse(number, definition_of(connection, number, "SRID"))
            for number in (srid, build.srid)
        )
        reader = SourceReader(connection, relation, mapping, srid)
        counts = reader.count()
        with progress.stage("read table", counts.rows) as stage:
            columns = read_columns(reader, stage.advance)
            rows, ids, _ = numbered_rows(columns, reader.objects(), reader)
    rows = drop_unusable(rows, raw.limits, {})
    x, y = transform(raw, plane, rows.x, rows.y)
    rows = sort_rows(replace(rows, x=x, y=y).take(np.isfinite(x) & np.isfinite(y)))
    text = format_relation(*named)
    if not len(rows):
        raise BadData(
            f"[[table]] {text} has no row that can be used",
            remedy="check its columns: [[trajectory]], [[time]] and the position",
        )
    # at the precision of the build, at which attackers know the originals
    pitch = grid_metres(build.snap)
    snapped = snap_exact(rows.x, rows.y) if pitch is None else snap_grid(rows.x, rows.y, pitch)
    offsets = offsets_of(rows.object, len(ids))
    start = rows.at[np.minimum(offsets[:-1], len(rows) - 1)]
    trajectories = Trajectories(offsets, snapped.of_row, rows.at, start)
    return text, ids, (trajectories, snapped.locations), counts.rows - len(rows)


def _matched(build: Build, seen: ReleaseSeen, rng: np.random.Generator) -> Ids:
    """The object of each trajectory: the one that shares most with it, if that is enough."""
    table = seen.trajectories
    original = replace(
        build.trajectories, at=seen.coarse(build.trajectories.at), start=build.trajectories.start
    )
    # roles are changed: the originals are looked in for the samples of the table
    there = ReleaseSeen(original, build.locations)
    every = KnownSamples(table.offsets, np.arange(table.samples))
    asked = Case(table, seen.places, there)
    sighted = SightingIndex(there).find(asked, every, rng)
    near = (sighted.where >= 0) & (
        original.owner[sighted.where] == np.repeat(sighted.pick, table.lengths)
    )
    lengths = np.maximum(table.lengths, 1)
    somebodys = np.bincount(table.owner, near, len(table)) >= _LEAST_NEAR * lengths
    somebodys |= sighted.exact >= _LEAST_EXACT * lengths
    return np.where(somebodys, sighted.pick, _NOBODY).astype(np.int32)


def _by_key(database: Database, build: BuildRow, key: str, ids: list[str]) -> Ids:
    """The object of each trajectory, as a table says."""
    with database.begin(snapshot=True) as connection:
        relation = find_relation(
            connection, *read_name(connection, key, "[[key]]"), option="[[key]]"
        )
        if len(relation.columns) != 2:
            raise BadInput(
                f"[[key]] {key} has {len(relation.columns)} columns",
                remedy="it must have two: the trajectory, and the object as the source calls it",
            )
        pairs = read_pairs(connection, relation)
        numbers = object_numbers(connection, build)
    whose = dict(pairs)
    if len(whose) < len(pairs):
        raise BadInput(
            f"[[key]] {key} names {len(pairs) - len(whose):,} trajectories twice",
            remedy="it must have a row for each trajectory",
        )
    owner = [numbers.get(whose.get(name, ""), _NOBODY) for name in ids]
    found = np.array(owner, np.int32)
    if (found < 0).all():
        raise BadInput(
            f"[[key]] {key} names no trajectory of the table with an object of the build",
            remedy="its first column is the trajectory, its second the object as the source calls it",
        )
    return found


def _case(build: Build, seen: ReleaseSeen, owner: Ids) -> tuple[Case, str]:
    """The table as attackers have it, and what kind of release it is measured as."""
    objects = np.bincount(owner[owner >= 0], minlength=len(build.trajectories))
    if (owner >= 0).all() and objects.max(initial=0) <= 1:
        trajectory = np.full(len(objects), -1, np.int32)
        trajectory[owner] = np.arange(len(owner))
        start = build.trajectories.start
        release = replace(seen, trajectories=object_by_object(seen.trajectories, trajectory, start))
        return Case(build.trajectories, build.locations, release, build.timezone), "edited"
    release = replace(
        seen,
        owner=owner[seen.trajectory],
        pieces=bool((objects > 1).any()),
    )
    kind = "unlinked" if (owner >= 0).any() else "synthetic"
    return Case(build.trajectories, build.locations, release, build.timezone), kind


def measure_table(
    judged: JudgedTable, seed: int, network: Network | None, progress: Progress
) -> Mapping[str, float]:
    """Every metric that such a release allows. Nothing is stored."""
    found = measure_release(judged.case, judged.kind, seed, progress)
    if network is not None and judged.kind == "edited":
        found |= recovery_attack(judged.case.pair, network, progress)
    return found
