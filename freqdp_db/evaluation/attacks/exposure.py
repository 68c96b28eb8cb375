"""Exposure: which share of a person's samples attackers learn from a release; and membership inference.

Membership inference asks whether an object is in the data at all. It is measured on releases that were made
from one half of the objects; the other half is what a member has to be told apart from.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import numpy as np

from freqdp_db.evaluation.attacks.claims import Shares, area_under_curve, found_at
from freqdp_db.evaluation.attacks.devices import MARKS, device_exposures
from freqdp_db.evaluation.attacks.habits import habit_exposures, home_exposure
from freqdp_db.evaluation.attacks.known_samples import (
    KNOWN_SAMPLES,
    NEAR_KNOWN,
    KnownSamples,
    Sighted,
    SightingIndex,
    absent_from,
    draw_known,
    held_samples,
    near_exposures,
    sighting_exposures,
)
from freqdp_db.evaluation.attacks.learning import Features, trees
from freqdp_db.evaluation.attacks.points import TRACKED, tracked_exposures
from freqdp_db.evaluation.attacks.relinking import find_joints, relinked_exposures
from freqdp_db.evaluation.attacks.signatures import (
    KINDS,
    PROTOCOLS,
    dimensions_of,
    likeness_exposures,
    pick_by_cosine,
    tf_idf,
)
from freqdp_db.evaluation.pair import Case
from freqdp_db.methods.frequency.counts import count_frequencies
from freqdp_db.model.arrays import Flags, Ids, Ints, owners, within
from freqdp_db.model.trajectories import Trajectories
from freqdp_db.progress import Progress

_FALSE_ALARMS = 0.01
_MOST_KNOWN = 1_000


def membership(
    members: Case, others: Case, index: SightingIndex, rng: np.random.Generator
) -> dict[str, float]:
    """`membership.auc` and `membership.tpr1`; each attack beside them.

    Score of an object: likeness to its most alike released trajectory by places, by pairs of
    places, and by exact samples (how many of its samples the best trajectory holds). Chance is 0.5
    and 0.01. The best attack of the three counts.
    """
    found: dict[str, float] = {}
    for name, scores in (
        ("places", [_by_cosine(case, "s", rng) for case in (members, others)]),
        ("pairs", [_by_cosine(case, "sq", rng) for case in (members, others)]),
        ("samples", [_by_samples(case, index, rng) for case in (members, others)]),
    ):
        there = [s[c.original.lengths > 0] for s, c in zip(scores, (members, others), strict=True)]
        found[f"membership.auc.{name}"] = area_under_curve(there[0], there[1])
        found[f"membership.tpr1.{name}"] = found_at(there[0], there[1], _FALSE_ALARMS)
    return {
        kind: max(value for name, value in found.items() if name.startswith(kind))
        for kind in ("membership.auc", "membership.tpr1")
    } | found


def _by_cosine(case: Case, kind: str, rng: np.random.Generator) -> Shares:
    original, released, dimensions = dimensions_of(case.pair, kind)
    true, shown = tf_idf(original, dimensions), tf_idf(released, dimensions)
    return pick_by_cosine(true, shown, dimensions, rng)[1]


def _by_samples(case: Case, index: SightingIndex, rng: np.random.Generator) -> Shares:
    """Of an object's samples, those that its best trajectory has: exactly, then nearby."""
    side = case.original
    # all of them, thinned evenly where there are too many
    every = np.maximum(-(-side.lengths // _MOST_KNOWN), 1)
    position = np.flatnonzero(within(side.offsets) % every[side.owner] == 0)
    offsets = np.searchsorted(position, side.offsets).astype(np.int64)
    sighted = index.find(case, KnownSamples(offsets, position), rng)
    share: Shares = sighted.score / np.maximum(np.diff(offsets), 1)
    return share


# --- Insertions: how well inserted samples can be told from true ones, by what the release shows ---

_MOST_ROWS = 200_000
_COUNTED = slice(10, 12)
"""Of the visible features: how often the place occurs in the release and in the trajectory."""


def inserted_samples(case: Case) -> Flags:
    """Released samples that their object does not have in the original; none of nobody's."""
    owner = case.release.owners
    shown = replace(case.original, at=case.release.coarse(case.original.at))
    return absent_from(shown, case.pair.released, np.maximum(owner, 0)) & (owner >= 0)


def visible_features(case: Case, rows: Ints) -> Features:
    """What the release shows of these samples, in rows.

    Gaps before and after, the share of the way and of the time that it lies at, speeds in and out,
    the detour and the distance from the straight line, how often its place occurs in the release
    and in its own trajectory, and the second of the minute.
    """
    release = case.release
    side, x, y, at = release.trajectories, release.x, release.y, release.trajectories.at
    trajectory = release.trajectory[rows]
    before = np.where(rows == side.offsets[:-1][trajectory], rows, rows - 1)
    after = np.where(release.trajectories.ends[rows], rows, rows + 1)
    gap_in, gap_out = (at[rows] - at[before]) / 1e6, (at[after] - at[rows]) / 1e6
    way_in = np.hypot(x[rows] - x[before], y[rows] - y[before])
    way_out = np.hypot(x[after] - x[rows], y[after] - y[rows])
    dx, dy = x[after] - x[before], y[after] - y[before]
    chord = np.hypot(dx, dy)
    cross = dx * (y[rows] - y[before]) - dy * (x[rows] - x[before])
    often = np.bincount(side.location, minlength=len(release.places))[side.location[rows]]
    columns = [
        gap_in, gap_out, gap_in / np.maximum(gap_in + gap_out, 1.0),
        way_in / np.maximum(way_in + way_out, 1.0), way_in / np.maximum(gap_in, 1.0),
        way_out / np.maximum(gap_out, 1.0), way_in + way_out - chord,
        np.abs(cross) / np.maximum(chord, 1.0), way_in, way_out, often, _visits(case, rows),
        at[rows] // 1_000_000 % 60,
    ]  # fmt: skip
    return np.column_stack(columns).astype(np.float32)


def _visits(case: Case, rows: Ints) -> Ids:
    """How often the trajectory of each of these samples is at its place."""
    release, places = case.release, np.int64(len(case.release.places))
    counted = count_frequencies(release.trajectories, int(places))
    codes = owners(counted.offsets) * places + counted.location
    wanted = release.trajectory[rows] * places + release.trajectories.location[rows]
    return counted.pf[np.searchsorted(codes, wanted)]


def edits_exposure(case: Case, rng: np.random.Generator) -> dict[str, float]:
    """Area under the curve on objects that the trees have not seen; nothing without insertions.

    Trained on half of the objects, tested on the other half, up to 200,000 samples each.
    `edits.auc.visits` is the same with nothing but how often each place occurs: a method that is to
    change how often places are visited cannot hide that.
    """
    owner: Ids = case.release.owners
    if (owner < 0).all():  # nobody's: nothing was inserted into anything
        return {}
    inserted = inserted_samples(case)
    half = rng.random(int(owner.max(initial=-1)) + 1) < 0.5
    parts = []
    for mine in (half[owner], ~half[owner]):
        rows = np.flatnonzero(mine & (owner >= 0))
        if len(rows) > _MOST_ROWS:
            rows = np.sort(rng.choice(rows, _MOST_ROWS, replace=False))
        parts.append(rows)
    learn, test = parts
    if any(len(np.unique(inserted[rows])) < 2 for rows in parts):
        return {}
    seen, shown = visible_features(case, learn), visible_features(case, test)
    found = {"edits.share": float(inserted[owner >= 0].mean())}
    for name, columns in (("edits.auc", slice(None)), ("edits.auc.visits", _COUNTED)):
        score = trees(seen[:, columns], inserted[learn])(shown[:, columns])
        answer = inserted[test]
        found[name] = area_under_curve(score[answer], score[~answer])
    return found


# --- Exposure: every attacker, and the largest value of all ---

HEADLINE = "exposure"
_RELINKED = (1, 10)
_HOME_KNOWN = 4
_NO_CONTROL = (".precision", ".p95", ".low", ".high")
_BESIDE = (*_NO_CONTROL, ".half", ".control")
_MARKED = 10
"""So many known samples show what a device is known by."""


def _sighted(
    case: Case, rng: np.random.Generator, index: SightingIndex | None = None
) -> dict[str, float]:
    """The trajectory that holds most of a few known samples, and the home that it tells."""
    found, seen = sighting_exposures(case, index or SightingIndex(case.release), rng)
    return found | home_exposure(case, seen[_HOME_KNOWN])


def _see(case: Case, rng: np.random.Generator) -> dict[int, tuple[KnownSamples, Sighted]]:
    """Known samples that the release holds, and what they are taken for."""
    index, held = SightingIndex(case.release), held_samples(case)
    seen = {}
    for count in NEAR_KNOWN:
        known = draw_known(case, count, rng, held)
        seen[count] = known, index.find(case, known, rng)
    return seen


def _near(case: Case, rng: np.random.Generator) -> dict[str, float]:
    return near_exposures(case, _see(case, rng), rng)


def _joined(case: Case, rng: np.random.Generator) -> dict[str, float]:
    """Who knows a few samples and joins what was taken apart."""
    joints = find_joints(case.release)
    if joints is None:
        return {}
    seen = _see(case, rng)
    found = relinked_exposures(case, joints, {p: seen[p] for p in _RELINKED}, rng)
    return found | device_exposures(case, joints.runs, _MARKED, *seen[_MARKED])


Attack = Callable[[Case, np.random.Generator], dict[str, float]]
# Of each piece of work, the longest first: attacks from cheap to dear, the stream of random numbers of
# each, and how many attackers it is.
_ATTACKS: dict[str, list[tuple[Attack, int, int]]] = {
    "traces": [
        (_sighted, 2, len(KNOWN_SAMPLES)),
        (_near, 3, len(NEAR_KNOWN)),
        (_joined, 3, len(_RELINKED) + len(MARKS)),
    ],
    "likeness": [(likeness_exposures, 1, len(PROTOCOLS) * (2 * len(KINDS) + 1))],
    "habits": [(habit_exposures, 10, 1)],
    "edits": [(edits_exposure, 11, 1)],
    "points": [(tracked_exposures, 13, len(TRACKED))],
}
EXPOSURES = tuple(_ATTACKS)


def measure_exposure(
    case: Case,
    seed: int,
    progress: Progress | None = None,
    only: Collection[str] | None = None,
    enough: Callable[[Mapping[str, float]], bool] = lambda found: False,
) -> dict[str, float]:
    """Every exposure of the objects of a case, and the headline.

    Args:
        case: the objects, their places, and the release.
        seed: picks known samples and breaks ties; each attack has its own stream.
        progress: told of every attacker.
        only: some of EXPOSURES, and no headline.
        enough: whether what was found so far makes further attacks needless.
    """
    names = EXPOSURES if only is None else only
    asked = [each for name in names for each in _ATTACKS[name]]
    found: dict[str, float] = {}
    named = "exposure" if only is None else " ".join(only)
    number = sum(attackers for _, _, attackers in asked)
    with (progress or Progress()).stage(named, number, "attackers") as stage:
        for attack, stream, attackers in asked:
            found |= attack(case, np.random.default_rng([seed, stream]))
            stage.advance(attackers)
            if enough(found):
                break
    if only is None:
        found[HEADLINE] = worst_exposure(found)
    return found


def measure_membership(case: Case, seed: int, controls: Trajectories) -> dict[str, float]:
    """What tells members from objects over the same places that are no part of the release.

    Each exposure of theirs is `.control`.
    """
    found: dict[str, float] = {}
    others = replace(case, original=controls)
    index = SightingIndex(case.release)
    theirs = likeness_exposures(others, np.random.default_rng([seed, 1]))
    theirs |= _sighted(others, np.random.default_rng([seed, 2]), index)
    rng = np.random.default_rng([seed, 3])
    known = {count: draw_known(others, count, rng) for count in NEAR_KNOWN}
    seen = {count: (k, index.find(others, k, rng)) for count, k in known.items()}
    theirs |= near_exposures(others, seen, rng)
    for name, value in theirs.items():
        if not name.endswith(_NO_CONTROL) and name.startswith(("exposure", "home")):
            found[f"{name}.control"] = value
    return found | membership(case, others, index, np.random.default_rng([seed, 12]))


def is_exposure(name: str) -> bool:
    """Whether a metric is the value of an attack, and not what stands beside it."""
    return name.startswith("exposure.") and not name.endswith(_BESIDE)


def worst_exposure(found: Mapping[str, float]) -> float:
    """The headline: what the best of all attackers learns."""
    return max((value for name, value in found.items() if is_exposure(name)), default=0.0)
