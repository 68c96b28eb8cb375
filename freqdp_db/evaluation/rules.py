"""Rule books: what others ask of published movement data, checked on a release or a table.

`mds`: the Mobility Data Specification redacts counts below k = 10 (Metrics and Reports, "Data Redaction").
`usdot`: what the Privacy Protection Application of the United States Department of Transportation (ITS JPO)
takes out with its default settings: trip ends with 500 m around them, and stops (15 m, 2 minutes).

A release that passes is not thereby safe: rules are about what is shown, attackers about what is learnt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from freqdp_db.db.connection import Database
from freqdp_db.db.published_counts import small_counts
from freqdp_db.errors import BadInput
from freqdp_db.evaluation.pair import Case
from freqdp_db.methods.trips import MINUTE_US, TripRule, find_stays, find_trips
from freqdp_db.model.arrays import Flags, Ids, Ints, offsets_from, within
from freqdp_db.model.days import HOUR_US, local_times

LEAST_IN_GROUP = 10
ENDS_M = 500.0
_ENDS_US = 5 * MINUTE_US
_STOP = TripRule(stay_us=2 * MINUTE_US, radius_m=15.0)


@dataclass(frozen=True)
class RuleResult:
    """A rule, whether it is kept, and what was found."""

    book: str
    rule: str
    passed: bool | None
    """None: it cannot be checked here; `found` says why."""
    found: str

    def line(self) -> str:
        word = {True: "pass", False: "FAIL", None: "n/a"}[self.passed]
        return f"{word:<4}  {self.book}: {self.rule} {self.found}"


Check = Callable[[Case], tuple[bool | None, str]]


def parse_rules(names: Sequence[str] | None) -> list[str]:
    for name in names or ():
        if name not in BOOKS:
            raise BadInput(
                f"[[rules]] {name!r} is none of {', '.join(BOOKS)}", remedy="such as [[rules]] mds"
            )
    return list(dict.fromkeys(names or ()))


def check_rules(case: Case, names: Sequence[str]) -> list[RuleResult]:
    return [
        RuleResult(name, rule, *check(case))
        for name in names
        for rule, check in BOOKS[name].items()
    ]


def check_rules_of_counts(
    database: Database, release: str, names: Sequence[str]
) -> list[RuleResult]:
    """The same for counts: what is about trajectories does not apply to them."""
    found = []
    for name in names:
        if name == "mds":
            small, rows = small_counts(database, release, LEAST_IN_GROUP)
            rule = f"Each count that is shown is at least {LEAST_IN_GROUP}."
            words = f"{small:,} of {rows:,} rows show a count from 1 to {LEAST_IN_GROUP - 1}."
            found.append(RuleResult(name, rule, small == 0, words))
        else:
            found += [
                RuleResult(name, rule, None, "Counts have no trajectories.") for rule in BOOKS[name]
            ]
    return found


def _places_and_hours(case: Case) -> tuple[bool, str]:
    release = case.release
    hour = local_times(release.trajectories.at, case.timezone) // HOUR_US
    group = _numbered(release.trajectories.location.astype(np.int64), hour)
    small, groups = _small_groups(group, release.trajectory, release.members)
    return small == 0, (
        f"{small:,} of {groups:,} combinations of place and hour are of fewer than {LEAST_IN_GROUP}."
    )


def _flows(case: Case) -> tuple[bool, str]:
    release = case.release
    trips = find_trips(release.trajectories, release.places, TripRule(), with_stops=True)
    place = release.trajectories.location.astype(np.int64)
    group = _numbered(place[trips.first], place[trips.last])
    small, groups = _small_groups(group, np.arange(len(trips)), None)
    if release.members is not None:
        small, groups = _small_groups(group, trips.trajectory, release.members)
    return small == 0, (
        f"{small:,} of {groups:,} pairs of first and last place are of fewer than {LEAST_IN_GROUP} trips."
    )


def _numbered(one: Ints, other: Ints) -> Ints:
    pairs = np.stack([one, other], axis=1)
    return np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1)


def _small_groups(group: Ints, member: NDArray[np.integer], weight: Ints | None) -> tuple[int, int]:
    """How many groups have too few distinct members, and how many groups there are.

    weight: how many objects each member stands for.
    """
    each = np.unique(np.stack([group, member.astype(np.int64)], axis=1), axis=0)
    weights = None if weight is None else weight[each[:, 1]]
    size = np.bincount(each[:, 0], weights)
    return int((size < LEAST_IN_GROUP).sum()), len(size)


def _trip_ends(case: Case) -> tuple[bool | None, str]:
    """Of the trips in the original: those of which the release shows an end of the same object."""
    release = case.release
    if release.members is not None:
        return None, "Its trajectories are several objects'."
    trips = find_trips(case.original, case.places, TripRule(), with_stops=True)
    trip = np.flatnonzero(trips.last > trips.first)
    shown = np.zeros(len(trip), np.bool_)
    for end in (trips.first[trip], trips.last[trip]):
        shown |= _shows(case, end, trips.trajectory[trip])
    return not shown.any(), (
        f"{int(shown.sum()):,} of {len(trip):,} trips have a shown sample within {ENDS_M:.0f} m and "
        f"{_ENDS_US // MINUTE_US} minutes of an end."
    )


def _shows(case: Case, sample: Ints, owner: Ids) -> Flags:
    """Whether the release has a sample of the same object near each of these original ones."""
    release = case.release
    at = release.true_at
    order = np.lexsort((at, release.owners))
    low = int(min(at.min(initial=0), case.original.at.min(initial=0))) - _ENDS_US
    span = int(max(at.max(initial=0), case.original.at.max(initial=0))) + _ENDS_US - low + 1
    key = release.owners[order].astype(np.int64) * span + at[order] - low
    asked = owner.astype(np.int64) * span + case.original.at[sample] - low
    first = np.searchsorted(key, asked - _ENDS_US)
    last = np.searchsorted(key, asked + _ENDS_US, side="right")
    offsets = offsets_from(last - first)
    near = order[within(offsets) + np.repeat(first, np.diff(offsets))]
    end = np.repeat(sample, np.diff(offsets))
    away = np.hypot(release.x[near] - case.x[end], release.y[near] - case.y[end])
    found = np.zeros(len(sample), np.bool_)
    found[np.repeat(np.arange(len(sample)), np.diff(offsets))[away <= ENDS_M]] = True
    return found


def _stops(case: Case) -> tuple[bool, str]:
    release = case.release
    stays = find_stays(release.trajectories, release.places, _STOP)
    with_stop = np.zeros(len(release.trajectories), np.bool_)
    with_stop[release.trajectory[stays]] = True
    return not with_stop.any(), (
        f"{int(with_stop.sum()):,} of {len(with_stop):,} trajectories have one."
    )


def _one_trip(case: Case) -> tuple[bool, str]:
    release = case.release
    trips = find_trips(release.trajectories, release.places, TripRule(), with_stops=True)
    several = np.bincount(trips.trajectory, minlength=len(release.trajectories)) > 1
    return not several.any(), (
        f"{int(several.sum()):,} of {len(several):,} trajectories have several trips."
    )


BOOKS: dict[str, dict[str, Check]] = {
    "mds": {
        f"Each place and hour is shared by at least {LEAST_IN_GROUP} trajectories.": _places_and_hours,
        f"Each pair of first and last place is shared by at least {LEAST_IN_GROUP} trips.": _flows,
    },
    "usdot": {
        f"Nothing within {ENDS_M:.0f} m of where a trip begins or ends is shown.": _trip_ends,
        "No stop of 2 minutes or more within 15 m is shown.": _stops,
        "No id joins two trips.": _one_trip,
    },
}
"""What each book asks, and how it is checked."""
