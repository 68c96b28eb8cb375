"""What attackers learn from a series: from all its windows together, and by how many they have.

A series is the union of its windows. An object has other ids in each of them, and the source says which
trajectories are the same object's: that is the truth by which claims are judged, and no attacker has it.
To them, every window's trajectories are pieces that end with the window and go on in the next one under
other ids, which is what `relinking` joins; and days of other windows are what `habits` learns from.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from freqdp_db.db.builds import find_build, load_object_keys
from freqdp_db.db.connection import Database
from freqdp_db.db.copy import POSTGRES_EPOCH_US
from freqdp_db.db.datasets import get_dataset
from freqdp_db.db.releases import ReleaseRow, list_windows, store_metrics
from freqdp_db.errors import BadInput, NotFound
from freqdp_db.evaluation.attacks.exposure import HEADLINE, is_exposure, measure_exposure
from freqdp_db.evaluation.counts import MOST_TARGETS, membership_over_windows, window_scores
from freqdp_db.evaluation.pair import Case, ReleaseSeen, Windows, load_case
from freqdp_db.model.arrays import Groups, Ids, Ints, offsets_from
from freqdp_db.model.trajectories import Areas, Codes, KeptColumns, Locations, Trajectories
from freqdp_db.progress import Progress

MOST_WINDOWS = 30
"""Attackers have the newest so many windows of a series."""
NUMBERS = (1, 2, 5, 10, MOST_WINDOWS)
"""How many of them they have."""
FAMILY = "series."
HALF = "half"
"""Share of persons of whom an attacker learns more than half: the largest of all attackers."""


@dataclass(frozen=True)
class Window:
    """One window of a series, and the objects that its trajectories belong to."""

    case: Case
    objects: list[str]
    """The key of each object of the case."""
    begin_us: int
    kept: KeptColumns | None = None
    """What the samples' codes stand for, if they carry columns along."""


def join_windows(windows: Sequence[Window]) -> Case:
    """All windows as one release of all their objects; they are in order of time."""
    if len(windows) == 1:
        return windows[0].case
    windows = _with_same_codes(windows)
    cases = [window.case for window in windows]
    numbers = number_objects([window.objects for window in windows])
    objects = max((int(n.max()) + 1 for n in numbers if len(n)), default=0)
    places, number_of = join_places([case.places for case in cases])
    original = _by_object([case.original for case in cases], number_of, numbers, objects)
    shown, shown_number = places, number_of
    if any(case.release.places is not case.places for case in cases):
        shown, shown_number = join_places([case.release.places for case in cases])
    release = _join_releases(windows, shown, shown_number, numbers)
    return Case(original, places, release, cases[0].timezone)


def _with_same_codes(windows: Sequence[Window]) -> list[Window]:
    """The same with one code for the same values in all windows: each build numbers them by itself."""
    number: dict[Any, int] = {}
    found = []
    for window in windows:
        if window.kept is None:
            found.append(window)
            continue
        codes = [number.setdefault(values, len(number)) for values in window.kept.values]
        anew = np.array(codes, np.int16)
        case, release = window.case, window.case.release
        original, side = (
            t if t.kept is None else replace(t, kept=anew[t.kept])
            for t in (case.original, release.trajectories)
        )
        recoded = replace(case, original=original, release=replace(release, trajectories=side))
        found.append(replace(window, case=recoded))
    return found


def _kept_of(sides: Sequence[Trajectories]) -> Codes | None:
    """The codes of all sides; None: some have none."""
    codes = [side.kept for side in sides if side.kept is not None]
    return np.concatenate(codes) if len(codes) == len(sides) else None


def number_objects(keys: Sequence[list[str]]) -> list[Ints]:
    """Numbers for the objects of each window: the same object has the same one in all."""
    known: dict[str, int] = {}
    return [
        np.array([known.setdefault(key, len(known)) for key in window], np.int64) for window in keys
    ]


def join_places(parts: Sequence[Locations]) -> tuple[Locations, list[Ids]]:
    """All places, those at the same point once; and the number of each part's."""
    x, y = (np.concatenate([getattr(part, name) for part in parts]) for name in ("x", "y"))
    _, first, number = np.unique(x + 1j * y, return_index=True, return_inverse=True)
    columns = [
        None
        if any(getattr(part, name) is None for part in parts)
        else np.concatenate([getattr(part, name) for part in parts])[first]
        for name in ("source_x", "source_y")
    ]
    ends = offsets_from(np.array([len(part) for part in parts]))
    numbers: Ids = number.reshape(-1).astype(np.int32)
    return Locations(x[first], y[first], *columns), [numbers[a:b] for a, b in pairwise(ends)]


def _by_object(
    sides: Sequence[Trajectories], places: Sequence[Ids], objects: Sequence[Ints], count: int
) -> Trajectories:
    """What each object did in all windows, one after the other."""
    owner = np.concatenate([o[s.owner] for s, o in zip(sides, objects, strict=True)])
    location = np.concatenate([n[s.location] for s, n in zip(sides, places, strict=True)])
    at = np.concatenate([side.at for side in sides])
    order = np.argsort(owner, kind="stable")
    offsets = offsets_from(np.bincount(owner, minlength=count))
    start = np.zeros(count, np.int64)
    for side, of in zip(reversed(sides), reversed(objects), strict=True):
        start[of] = side.start
    kept = _kept_of(sides)
    codes = None if kept is None else kept[order]
    return Trajectories(offsets, location[order], at[order], start, codes)


def _join_releases(
    windows: Sequence[Window], places: Locations, numbers: Sequence[Ids], objects: Sequence[Ints]
) -> ReleaseSeen:
    """Trajectories of all windows, one window after the other."""
    parts = [window.case.release for window in windows]
    sides = [part.trajectories for part in parts]
    ends = offsets_from(np.array([side.samples for side in sides]))
    trajectories = Trajectories(
        offsets_from(np.concatenate([side.lengths for side in sides])),
        np.concatenate([n[side.location] for side, n in zip(sides, numbers, strict=True)]),
        np.concatenate([side.at for side in sides]),
        np.concatenate([side.start for side in sides]),
        _kept_of(sides),
    )
    owner = np.concatenate(
        # -1: nobody's
        [np.append(o, -1)[part.owners] for part, o in zip(parts, objects, strict=True)]
    ).astype(np.int32)
    newest = parts[-1]
    areas = [vars(part.areas).values() for part in parts if part.areas is not None]
    members = [part.members for part in parts if part.members is not None]
    undated = None
    if newest.undated is not None:
        undated = replace(newest.undated, at=np.concatenate([part.true_at for part in parts]))
    return replace(
        newest,
        trajectories=trajectories,
        places=places,
        owner=owner,
        areas=Areas(*map(np.concatenate, zip(*areas, strict=True))) if areas else None,
        groups=_join_groups([part.groups for part in parts], ends),
        pieces=True,
        members=np.concatenate(members) if members else None,
        part_of=None,
        undated=undated,
        windows=Windows(
            np.array([window.begin_us for window in windows], np.int64),
            np.array([0 if p.undated is None else p.undated.begin_us for p in parts], np.int64),
        ),
    )


def _join_groups(parts: Sequence[Groups | None], ends: Ints) -> Groups | None:
    """Groups of all windows; ends: where the samples of each window begin."""
    there = [(part, end) for part, end in zip(parts, ends, strict=False) if part is not None]
    if not there:
        return None
    return Groups(
        offsets_from(np.concatenate([np.diff(part.offsets) for part, _ in there])),
        np.concatenate([part.stop + end for part, end in there]),
        np.concatenate([part.doubled for part, _ in there]),
    )


# Of a series in the database.


def numbers_of(windows: int) -> list[int]:
    """How many of the newest windows are attacked together, of so many."""
    most = min(windows, MOST_WINDOWS)
    return [*(n for n in NUMBERS if n < most), most]


def find_windows(database: Database, series: str) -> list[ReleaseRow]:
    """The windows of a series that analysts may read, oldest first; raises NotFound."""
    windows = [window for window in list_windows(database, series) if window.granted]
    if not windows:
        raise NotFound(
            f"series {series!r} has no window that analysts may read",
            remedy="approve one that is held: `freqdp release list` shows which are",
        )
    return windows


def windows_around(database: Database, release: ReleaseRow) -> list[ReleaseRow]:
    """A window with those of its series that analysts may read; of many, those nearest in time."""
    assert release.series is not None and release.window is not None
    windows = [
        window
        for window in list_windows(database, release.series)
        if window.granted or window.release_id == release.release_id
    ]
    (place,) = (n for n, w in enumerate(windows) if w.release_id == release.release_id)
    end = min(place + 1 + MOST_WINDOWS // 2, len(windows))
    return windows[max(end - MOST_WINDOWS, 0) : end]


def measure_series(
    database: Database,
    release: ReleaseRow,
    windows: Sequence[ReleaseRow],
    progress: Progress,
    seed: int,
    numbers: Sequence[int],
) -> dict[int, dict[str, float]]:
    """What attackers learn from so many of the newest windows together, by how many; and store it.

    windows: oldest first. release: the one among them that it is kept with.
    """
    asked = windows[-max(numbers) :]
    measure = _measure_counts if windows[-1].kind == "counts" else _measure_exposures
    found = {
        n: values | {HALF: half_exposed(values)}
        for n, values in measure(database, asked, progress, seed, numbers).items()
    }
    store_metrics(database, release.release_id, as_metrics(found), frozenset(), seed, family=FAMILY)
    return found


def half_exposed(values: Mapping[str, float]) -> float:
    """The largest share of persons of whom one attacker learns more than half."""
    half = (value for name, value in values.items()
            if name.endswith(".half") and is_exposure(name.removesuffix(".half")))  # fmt: skip
    return max(half, default=0.0)


def as_metrics(found: Mapping[int, Mapping[str, float]]) -> dict[str, float]:
    """By the names that they are stored under: `series.5.exposure`, `series.5.exposure.habits`, ..."""
    return {
        f"{FAMILY}{n}.{name}": value
        for n, values in found.items()
        for name, value in values.items()
        if name in (HEADLINE, HALF) or is_exposure(name) or name.startswith("membership")
    }


def from_metrics(stored: Mapping[str, float]) -> dict[int, dict[str, float]]:
    """The other way round, in order; nothing if the series was not measured."""
    found: dict[int, dict[str, float]] = {}
    for name, value in stored.items():
        if name.startswith(FAMILY):
            n, _, of = name.removeprefix(FAMILY).partition(".")
            found.setdefault(int(n), {})[of] = value
    return dict(sorted(found.items()))


def _measure_exposures(
    database: Database,
    windows: Sequence[ReleaseRow],
    progress: Progress,
    seed: int,
    numbers: Sequence[int],
) -> dict[int, dict[str, float]]:
    read = []
    with progress.stage("windows", len(windows), "windows") as stage:
        for release in windows:
            build = find_build(database, release.build_id)
            assert build.window_begin is not None, (
                "record_release lets no other build into a series"
            )
            begin = round(build.window_begin.timestamp() * 1e6) - POSTGRES_EPOCH_US
            keys = load_object_keys(database, release.build_id)
            case = load_case(database, release, Progress())
            read.append(Window(case, keys, begin, KeptColumns.of(build.kept)))
            stage.advance(1)
    # in different projections, distances between their places mean nothing
    srids = {find_build(database, release.build_id).srid: release.name for release in windows}
    if len(srids) > 1:
        one, other = list(srids.items())[:2]
        dataset = get_dataset(database, windows[0].dataset_id)
        raise BadInput(
            f"{one[1]!r} and {other[1]!r} are in different projections (SRID {one[0]} and {other[0]}): "
            "they cannot be measured together",
            remedy=f"declare where the data may lie, before the next windows are built: freqdp dataset set "
            f"{shlex.quote(dataset.name)} --region WEST,SOUTH,EAST,NORTH",
        )
    return {n: measure_exposure(join_windows(read[-n:]), seed, progress) for n in numbers}


def _measure_counts(
    database: Database,
    windows: Sequence[ReleaseRow],
    progress: Progress,
    seed: int,
    numbers: Sequence[int],
) -> dict[int, dict[str, float]]:
    """The membership attack: what the windows say of somebody adds up."""
    keys = [load_object_keys(database, release.build_id) for release in windows]
    objects = number_objects(keys)
    count = max((int(n.max()) + 1 for n in objects if len(n)), default=0)
    chosen = np.arange(count)
    if count > MOST_TARGETS:
        chosen = np.random.default_rng([seed, 7]).choice(count, MOST_TARGETS, replace=False)
    target = np.full(count, -1, np.int64)
    target[chosen] = np.arange(len(chosen))
    total = np.zeros((len(chosen), 4))
    there = np.zeros(len(chosen), np.bool_)
    found: dict[int, dict[str, float]] = {}
    with progress.stage("windows", len(windows), "windows") as stage:
        # the newest first: what so many say is what they add up to
        for n, release in enumerate(reversed(windows), start=1):
            mine = target[objects[-n]]
            persons = np.flatnonzero(mine >= 0)
            said = window_scores(database, release, Progress(), persons)
            if said is None:
                return {}
            total[mine[persons]] += said
            there[mine[persons]] = True
            if n in numbers:
                found[n] = membership_over_windows(total[there])
            stage.advance(1)
    return found
