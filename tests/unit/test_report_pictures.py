"""Pictures of the report: nothing cut off, no stripes, no silent cuts, and examples that are true."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from sides import MINUTE, side_of
from svg_texts import require_readable, texts

from freqdp_db.evaluation.figures import ROAD, Curve, line_chart
from freqdp_db.evaluation.pair import Case, CellBox, Pair, ReleaseSeen
from freqdp_db.evaluation.report.examples import (
    EditedSamples,
    busy_window,
    edited_samples,
    explained,
    follow_somebody,
    followed_map,
    rows_within,
    trajectory_maps,
)
from freqdp_db.evaluation.report.maps import Map, Raster, RoadLines, box_of, heat_maps
from freqdp_db.evaluation.report.report import heats_of
from freqdp_db.model.arrays import Groups
from freqdp_db.model.trajectories import Areas, Locations, Trajectories

SECOND = 1_000_000


@pytest.mark.parametrize("top", [0.004, 3, 8, 97, 1_234, 54_321, 987_654, 12_345_678, 3e9])
@pytest.mark.parametrize("log", [False, True])
def test_ticks_and_legends_of_any_data_stay_readable(top: float, log: bool) -> None:
    x = list(np.geomspace(1, max(top, 2), 30))
    falling = [top * 30 / (30 + 29 * k) for k in range(30)]
    svg = line_chart("t", [Curve("before", x, falling), Curve("after", x, falling[::-1], True)],
                     "rank of the place", "objects", log=log)  # fmt: skip
    require_readable(svg)
    # two values of each axis at least can be read off
    numbers = [text.words for text in texts(svg) if re.match(r"[\d.,]+( [kM])?$", text.words)]
    assert len(numbers) >= 4 and len(set(numbers)) >= 3
    assert {"before", "after"} <= {text.words for text in texts(svg)}


def test_a_figure_is_the_same_every_time_and_takes_its_colours_from_the_page() -> None:
    once, again = (line_chart("<t>", [Curve("a&b", [1, 2], [3, 4])], "x", "y") for _ in range(2))
    assert once == again
    assert "var(--ink)" in once and "#1b2733" not in once
    assert 'aria-label="&lt;t&gt;"' in once and "a&amp;b" in once
    assert "<style" not in once and "<metadata" not in once
    assert line_chart("t", [Curve("a", [1], [0])], "x", "y", log=True) == ""


@pytest.mark.parametrize(
    ("pitch", "side"),
    [(10.0, 3_650.0), (100.0, 3_650.0), (100.0, 13_337.0), (100.0, 61_001.0), (250.0, 61_001.0),
     (333.0, 13_337.0), (333.0, 61_001.0)],
)  # fmt: skip
def test_a_heat_map_of_an_even_grid_is_even(pitch: float, side: float) -> None:
    """Every place of a snap grid once: each cell holds as many of them, or there are stripes."""
    lines = (np.arange(np.floor(side / pitch)) + 0.5) * pitch
    x, y = (v.ravel() for v in np.meshgrid(lines + pitch * 7, lines))
    raster = Raster.over(CellBox(x.min(), y.min(), x.max(), y.max()), pitch)
    counts = raster.counts(x, y)
    assert counts.sum() == len(x)
    assert max(counts.shape) <= 142
    # but for the cells at the border, which may hold a part
    assert len(np.unique(counts[1:-1, 1:-1])) == 1


def test_the_public_map_reads_nothing_but_the_release() -> None:
    """Neither an original far away nor where originals were changes it."""
    spots = Locations(np.array([0.0, 1_000.0]), np.array([0.0, 500.0]))
    where = np.repeat(np.array([0, 1], np.int32), 500)
    released = Trajectories(np.array([0, 1_000]), where, np.arange(1_000), np.zeros(1, np.int64))
    shown = heats_of(Pair(released, released, spots))
    assert "1,000 samples, busiest cell 500" in shown.pictures[0].alt


def test_a_map_says_what_lies_beyond_its_edge_and_rounds_its_cells() -> None:
    x = np.append(np.arange(1_000) % 40 * 96.03, [90_000.0, -90_000.0])
    shown = heat_maps([("before", x, x)], CellBox(0, 0, 4_000, 4_000), 96.03)
    assert (shown.pictures[0].of, shown.pictures[0].outside) == (1_002, 2)
    assert shown.cell == "96 m"
    assert heat_maps([("a", x, x)], CellBox(0, 0, 100, 100), None).cell == "0.71 m"


def test_a_long_thin_coast_is_not_drawn_as_a_line() -> None:
    raster = Raster.over(CellBox(0.0, 0.0, 60_000.0, 900.0), 100.0)
    assert 0.35 < raster.rows / raster.columns < 0.5
    assert raster.south < 0 < raster.south + raster.rows * raster.cell


def wanderer(samples: int, seconds: float, seed: int = 0) -> tuple[Trajectories, Locations]:
    """One object that moves with every sample, from 6 in the morning of a day on."""
    at = 6 * 60 * MINUTE + (np.arange(samples) * seconds * SECOND).astype(np.int64)
    places = Locations(
        10.0 * np.arange(samples, dtype=np.float64),
        np.random.default_rng(seed).uniform(0, 900, samples),
    )
    where = np.arange(samples, dtype=np.int32)
    return Trajectories(np.array([0, samples]), where, at, at[:1]), places


def test_a_busy_day_is_shown_whole_or_said_to_be_cut_and_cut_alike_on_both_sides() -> None:
    few, places = wanderer(500, 60)
    window = busy_window(Pair(few, few, places), 0)
    assert window.words == "its busiest day"
    many, places = wanderer(8_000, 6)
    half = many.where(np.arange(8_000) % 2 == 0)
    pair = Pair(many, half, places)
    window = busy_window(pair, 0)
    assert "of its busiest day (which has 8,000 samples)" in window.words
    before, after = (rows_within(side, 0, window, "UTC") for side in (many, half))
    assert 100 < len(before) <= 600
    # both sides begin and end together: no trail seems to vanish
    assert abs(int(many.at[before[0]] - half.at[after[0]])) <= 6 * SECOND
    assert abs(int(many.at[before[-1]] - half.at[after[-1]])) <= 6 * SECOND
    nothing = EditedSamples(np.zeros(8_000, np.bool_), np.zeros(4_000, np.bool_))
    ((title, _),) = trajectory_maps(pair, nothing, RoadLines.none())[:1]
    assert "of its busiest day" in title and f"{len(before):,} samples before" in title


def test_roads_are_drawn_where_they_are() -> None:
    roads = RoadLines(np.array([0.0, 10.0, 5e6, 6e6]), np.array([0.0, 10.0, 5e6, 6e6]),
                  np.array([0, 2, 4]))  # fmt: skip
    drawn = Map.around(np.array([0.0, 900.0]), np.array([0.0, 900.0]))
    assert drawn.roads(roads)
    # one line to the only road that is near, and nothing of the other
    (line,) = drawn.axes.get_lines()
    assert line.get_color() == ROAD and np.nanmax(line.get_xdata()) == 10.0


def crossing() -> Case:
    """Two that go through one place at one time, at right angles, and exchange their tails there."""
    way = 300.0 * np.arange(-8, 9)
    places = Locations(np.append(way, np.full(17, 30.0)), np.append(np.zeros(17), way))
    east = [(k, float(k)) for k in range(17)]
    north = [(17 + k, k + 0.3) for k in range(17)]
    released = side_of([east[:9] + north[9:], north[:9] + east[9:]])
    owner = np.repeat(np.array([0, 1, 1, 0], np.int32), [9, 8, 9, 8])
    groups = Groups(np.array([0, 2]), np.array([8, 25]), np.zeros(1, np.int32))
    release = ReleaseSeen(released, places, owner, groups=groups)
    return Case(side_of([east, north]), places, release)


def test_a_person_is_shown_under_every_id() -> None:
    """Also where tails were exchanged; and nobody who has one id alone."""
    case = crossing()
    shown = explained(case, "unlinked", CellBox(-1e4, -1e4, 1e4, 1e4), RoadLines.none(), 1)
    assert shown is not None and "released under 2 ids" in shown.words
    svg = shown.picture[1]
    assert [text.words for text in texts(svg)][:2] == ["1", "2"]
    require_readable(svg)
    same = ReleaseSeen(case.original, case.places, case.original.owner, groups=case.release.groups)
    kept = Case(case.original, case.places, same)
    assert explained(kept, "unlinked", CellBox(0, 0, 1, 1), RoadLines.none(), 1) is None


def test_the_example_of_an_attack_tells_right_from_wrong() -> None:
    case = crossing()
    own = Case(case.original, case.places, ReleaseSeen(case.original, case.places))
    found = follow_somebody(own, 1)
    assert found is not None and found.share == 1.0
    # with nobody to learn from, who knows of the exchange stops there
    found = follow_somebody(case, 1)
    assert found is not None and found.share == 1.0 and len(found.claim) < 10
    # but who does not know of it goes on with the wrong one
    blind = Case(case.original, case.places, ReleaseSeen(case.release.trajectories, case.places))
    one = follow_somebody(blind, 1)
    assert one is not None
    for position, right in zip(one.claim, one.right, strict=True):
        away = np.hypot(blind.x - blind.release.x[position], blind.y - blind.release.y[position])
        apart = np.abs(blind.original.at - blind.release.trajectories.at[position])
        mine = blind.original.owner == one.person
        assert right == bool((mine & (away <= 200) & (apart <= 5 * MINUTE)).any())
    assert 0 < one.share < 1
    drawn = followed_map(blind, 1, RoadLines.none())
    assert drawn is not None
    words, svg = drawn
    assert f"{int(one.right.sum())} tell where the person was" in words
    # what is wrong is dashed, and each place of it is crossed out
    assert "stroke-dasharray" in svg
    crosses = re.findall(r"<use [^>]*stroke: var\(--accent\); stroke-width: 1.8", svg)
    assert len(crosses) == int((~one.right).sum())
    require_readable(svg)


def test_nobody_is_followed_where_nobody_is_found() -> None:
    case = crossing()
    far = Locations(case.places.x + 1e6, case.places.y)
    lost = Case(case.original, case.places, ReleaseSeen(case.original, far))
    assert follow_somebody(lost, 1) is None
    no_rows, no_times = np.zeros(0, np.int32), np.zeros(0, np.int64)
    empty = Trajectories(np.zeros(3, np.int64), no_rows, no_times, np.zeros(2, np.int64))
    assert (
        followed_map(Case(case.original, case.places, ReleaseSeen(empty, far)), 1, RoadLines.none())
        is None
    )


def test_areas_of_a_group_are_drawn() -> None:
    case = crossing()
    boxes = Areas(
        np.full(2, -2_500.0), np.full(2, -2_500.0), np.full(2, 2_500.0), np.array([2_500.0, 100.0]),
        np.array([8 * MINUTE, 17 * MINUTE]),
    )  # fmt: skip
    released = Trajectories(np.array([0, 2]), np.array([0, 1], np.int32),
                            np.array([0, 8 * MINUTE]), np.zeros(1, np.int64))  # fmt: skip
    middle = Locations(np.zeros(2), np.array([0.0, -1_200.0]))
    nobody = np.full(2, -1, np.int32)
    seen = ReleaseSeen(released, middle, nobody, boxes, members=np.array([2]))
    grouped = Case(case.original, case.places, seen)
    shown = explained(grouped, "generalised", CellBox(0, 0, 1, 1), RoadLines.none(), 1)
    assert shown is not None
    assert "stands for 2 objects" in shown.words
    assert "from 2000-01-01 00:00 to 2000-01-01 00:17" in shown.words
    assert shown.picture[1].count("fill-opacity: 0.06") == 2
    require_readable(shown.picture[1])


def test_made_up_trips_and_pieces_are_drawn() -> None:
    case = crossing()
    nobody = np.full(case.original.samples, -1, np.int32)
    made_up = Case(case.original, case.places, ReleaseSeen(case.original, case.places, nobody))
    shown = explained(
        made_up, "synthetic", CellBox(-2_500, -2_500, 2_500, 2_500), RoadLines.none(), 1
    )
    assert shown is not None and "synthetic trip" in shown.words
    pieces = side_of([[(k, float(k)) for k in range(a, a + 4)] for a in range(0, 16, 4)])
    cut = ReleaseSeen(pieces, case.places, np.zeros(16, np.int32), pieces=True)
    shown = explained(Case(case.original, case.places, cut), "unlinked", CellBox(0, 0, 1, 1),
                      RoadLines.none(), 1)  # fmt: skip
    assert shown is not None and "released under 4 ids" in shown.words
    assert explained(case, "edited", CellBox(0, 0, 1, 1), RoadLines.none(), 1) is None


@pytest.mark.parametrize("step_us", [None, 4 * MINUTE])
def test_edits_are_what_one_side_does_not_have(step_us: int | None) -> None:
    """Against sets, with several samples at one time, the same one twice, and empty objects."""
    draw = np.random.default_rng(7)

    def side() -> Trajectories:
        objects = [
            sorted((int(draw.integers(40)), int(draw.integers(3))) for _ in range(n))
            for n in (0, *draw.integers(0, 30, 50), 9)
        ]
        return side_of([[(place, float(at)) for at, place in rows] for rows in objects])

    before, after = side(), side()
    shown = after if step_us is None else replace(after, at=after.at // step_us * step_us)
    pair = Pair(before, shown, Locations(np.zeros(3), np.zeros(3)), time_step_us=step_us)
    edited = edited_samples(pair)
    facts = [
        list(zip(s.owner.tolist(), pair.coarse(s.at).tolist(), s.location.tolist(), strict=True))
        for s in (pair.original, pair.released)
    ]
    assert edited.deleted.tolist() == [fact not in set(facts[1]) for fact in facts[0]]
    assert edited.inserted.tolist() == [fact not in set(facts[0]) for fact in facts[1]]
    assert 0 < edited.deleted.sum() < before.samples


def test_a_map_shows_where_most_are() -> None:
    """One in six travels a thousand times as far as the town is wide: the map is the town's."""
    draw = np.random.default_rng(4)
    x, y = draw.normal(0, 5_000, 6_000), draw.normal(0, 5_000, 6_000)
    town = box_of(x, y)
    assert town == CellBox.around(x, y, 0.5), "nobody is far away"
    x[:500] += draw.uniform(-5e6, 5e6, 500)
    y[500:1_000] -= 2e6
    seen = box_of(x, y)
    assert 15_000 < seen.east - seen.west < 60_000 and 15_000 < seen.north - seen.south < 60_000
    assert seen.west < -5_000 < 5_000 < seen.east
    assert box_of(np.zeros(0), np.zeros(0)) == CellBox(0, 0, 0, 0)
