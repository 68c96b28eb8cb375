"""The picture that explains areas and intervals: those of one group, and whose samples lie in them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from freqdp_db.columns.arrays import Flags, Ints
from freqdp_db.columns.days import DAY_US, local_times
from freqdp_db.evaluation.attacks.exposure.case import Case
from freqdp_db.evaluation.pair import CellBox
from freqdp_db.evaluation.report.charts import Span, span_chart
from freqdp_db.evaluation.report.contents import Explained, clock
from freqdp_db.evaluation.report.maps import SAME_NAME, Map, RoadLines

_AREAS = 7


def areas_explained(case: Case, roads: RoadLines) -> Explained | None:
    """Areas and intervals of one group, one after the other."""
    release = case.release
    if release.areas is None or release.members is None:
        return None
    lengths = release.trajectories.lengths
    rows = _telling_areas(case)
    if not len(rows):
        return None
    t = release.trajectory[rows[0]]
    members = int(release.members[t])
    areas, begin = release.areas, release.trajectories.at
    drawn = Map.over(
        CellBox(
            areas.x_min[rows].min(), areas.y_min[rows].min(),
            areas.x_max[rows].max(), areas.y_max[rows].max(),
        )
    )  # fmt: skip
    drawn.roads(roads)
    inside = _inside(case, rows)
    drawn.rings(case.x[inside], case.y[inside], 2.2, "dot")
    spans = []
    corners: dict[tuple[int, int], tuple[float, float, list[str]]] = {}
    for n, row in enumerate(rows, start=1):
        west, south, east, north = (
            side[row] for side in (areas.x_min, areas.y_min, areas.x_max, areas.y_max)
        )
        drawn.box_of(west, south, east, north)
        u, v = drawn.at(west, north)
        corner = (round(u / SAME_NAME), round(v / SAME_NAME))
        corners.setdefault(corner, (west, north, []))[2].append(str(n))
        size = f"{(east - west) / 1000:.1f} × {(north - south) / 1000:.1f} km"
        spans.append(Span(str(n), float(begin[row]), float(areas.until[row]), size))
    for west, north, numbers in corners.values():
        drawn.name(west, north, ", ".join(numbers), dx=3, dy=13)
    ends = local_times(np.array([begin[rows].min(), areas.until[rows].max()]), case.timezone)
    words = (
        f"{len(rows)} of the {int(lengths[t]):,} areas of one released trajectory, in order of time. "
        f"It stands for {members:,} objects: whichever of them was recorded in interval 1 was in area "
        "1 then, and so on. It does not say who that was, nor how many."
    )
    return Explained(
        "Areas and intervals of one group",
        words,
        [
            (
                f"The areas. Dots: samples that lie in them, {_of_whom(case, inside, members)}",
                drawn.picture(f"Map: {words}"),
            ),
            (
                "The intervals, and how wide each area is",
                span_chart(f"Intervals: {words}", spans, (_when(ends[0]), _when(ends[1]))),
            ),
        ],
    )


def _telling_areas(case: Case) -> Ints:
    """Areas of one group, one after the other: where they differ most for their size."""
    release, areas = case.release, case.release.areas
    assert areas is not None
    size = np.hypot(areas.x_max - areas.x_min, areas.y_max - areas.y_min)
    step = np.hypot(np.diff(release.x), np.diff(release.y)) / np.maximum(size[1:] + size[:-1], 1.0)
    best, found = -1.0, np.zeros(0, np.int64)
    for begin, end in pairwise(release.trajectories.offsets.tolist()):
        count = min(_AREAS, end - begin)
        if count < 1:
            continue
        sums = np.concatenate([[0.0], np.cumsum(step[begin : end - 1])])
        moved = sums[count - 1 :] - sums[: len(sums) - count + 1]
        first = int(np.argmax(moved))
        # of shorter ones there is less to see
        if count + moved[first] > best:
            best, found = count + float(moved[first]), begin + first + np.arange(count)
    return found


def _when(local_us: int) -> str:
    day = np.datetime64("2000-01-01") + np.timedelta64(int(local_us) // DAY_US, "D")
    return f"{day} {clock(int(local_us))}"


def _inside(case: Case, rows: Ints) -> Flags:
    """Original samples in these areas at their times: the group's, where it is known who is in it."""
    areas, begin = case.release.areas, case.release.trajectories.at
    assert areas is not None
    at, owner = case.original.at, case.original.owner
    inside = np.zeros(len(at), np.bool_)
    for row in rows:
        inside |= (
            (at >= begin[row]) & (at < areas.until[row])
            & (case.x >= areas.x_min[row]) & (case.x <= areas.x_max[row])
            & (case.y >= areas.y_min[row]) & (case.y <= areas.y_max[row])
        )  # fmt: skip
    if case.release.part_of is None:
        return inside
    mine: Flags = inside & (case.release.part_of[owner] == case.release.trajectory[rows[0]])
    return mine


def _of_whom(case: Case, inside: Flags, members: int) -> str:
    """Whose the dots are: a part of the group does not mean that the group is smaller."""
    if case.release.part_of is None:
        return "of anybody, of the group or not"
    seen = len(np.unique(case.original.owner[inside]))
    if seen == members:
        return f"of all {members:,} objects of the group"
    others = members - seen
    return (
        f"of {seen:,} of the {members:,} objects of the group; the other {others:,} "
        f"{'has' if others == 1 else 'have'} none in these intervals"
    )
