"""glove by its words: every pair of rows, every pair of boxes, exact fractions, no bounds at all."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import inf, log

Box = tuple[int, int, int, int, int, int]
"""x from and to, y from and to, minutes from and to; what it ends with is not in it."""
Row = list[Box]


def growth(a: Box, b: Box, axis: int) -> int:
    """What a must grow by along an axis to cover b."""
    low, high = 2 * axis, 2 * axis + 1
    return max(a[low] - b[low], 0) + max(b[high] - a[high], 0)


def box_cost(a: Box, b: Box, n: int, m: int) -> Fraction:
    """n objects in a, m in b: 20 km and 8 h cost a half each, and nothing costs more."""
    space = Fraction(
        n * (growth(a, b, 0) + growth(a, b, 1)) + m * (growth(b, a, 0) + growth(b, a, 1)), n + m
    )
    time = Fraction(n * growth(a, b, 2) + m * growth(b, a, 2), n + m)
    return min(space / 200, Fraction(1)) / 2 + min(time / 480, Fraction(1)) / 2


def row_cost(a: Row, b: Row, n: int, m: int) -> Fraction:
    """a is the longer one, or as long and the older."""
    return sum((min(box_cost(x, y, n, m) for y in b) for x in a), Fraction(0)) / len(a)


def cover(boxes: list[Box]) -> Box:
    low, high = zip(*((b[0::2], b[1::2]) for b in boxes), strict=True)
    x, y, t = (min(column) for column in zip(*low, strict=True))
    u, v, w = (max(column) for column in zip(*high, strict=True))
    return x, u, y, v, t, w


def merge(a: Row, b: Row, n: int, m: int) -> Row:
    if len(a) < len(b):
        a, b, n, m = b, a, m, n
    partner = [min(range(len(b)), key=lambda j: (box_cost(x, b[j], n, m), j)) for x in a]
    used = sorted(set(partner))
    united = [cover([b[j], *(x for x, p in zip(a, partner, strict=True) if p == j)]) for j in used]
    joined: list[list[Box]] = [[box] for box in united]
    for j, box in enumerate(b):
        if j not in used:
            at = min(range(len(united)), key=lambda i: (box_cost(box, united[i], m, n + m), i))
            joined[at].append(box)
    return cut_apart([cover(boxes) for boxes in joined])


def cut_apart(boxes: Row) -> Row:
    """Minute by minute what covers all that are there; a box ends where that changes, or all end."""
    found: Row = []
    spans: list[set[int]] = []
    for minute in range(min(b[4] for b in boxes), max(b[5] for b in boxes)):
        there = {i for i, b in enumerate(boxes) if b[4] <= minute < b[5]}
        if not there:
            continue
        here = cover([boxes[i] for i in there])[:4]
        if found and found[-1][5] == minute and found[-1][:4] == here and spans[-1] & there:
            found[-1] = (*here, found[-1][4], minute + 1)
            spans[-1] = there
        else:
            found.append((*here, minute, minute + 1))
            spans.append(there)
    return found


def glove(
    rows: list[Row], objects: list[int], k: int, join: bool = True
) -> tuple[list[tuple[int, int]], dict[int, Row]]:
    """The merges in order, and what is left by number."""
    left = dict(enumerate(rows))
    members = {i: {who} for i, who in enumerate(objects)}
    made = len(rows)
    merges: list[tuple[int, int]] = []

    def cost(i: int, j: int) -> Fraction:
        a, b = (i, j) if len(left[i]) >= len(left[j]) else (j, i)
        return row_cost(left[a], left[b], len(members[a]), len(members[b]))

    def unite(i: int, j: int) -> None:
        nonlocal made
        left[made] = merge(left[i], left[j], len(members[i]), len(members[j]))
        members[made] = members[i] | members[j]
        for row in (i, j):
            del left[row]
        merges.append((i, j))
        made += 1

    while k > 1:
        few = sorted(i for i in left if len(members[i]) < k)
        pairs = list(combinations(few, 2))
        if not pairs:
            break
        unite(*min(pairs, key=lambda pair: (cost(*pair), *pair)))
    finished = [i for i in left if len(members[i]) >= k]
    if join and finished:
        for i in sorted(i for i in left if len(members[i]) < k):
            j = min(finished, key=lambda f: (cost(f, i), finished.index(f)))
            unite(j, i)
            finished[finished.index(j)] = made - 1
    return merges, left


Side = tuple[int, int, int, int]


def grow(points: list[tuple[int, int, int]], box: Side, kinds: int, most: float) -> Side:
    """Points are (x, y, category), in cells."""

    def mixed(area: Side) -> tuple[float, int]:
        inside = [c for x, y, c in points if area[0] <= x < area[1] and area[2] <= y < area[3]]
        if not inside:
            return inf, 0
        found = 0.0
        for c in sorted(set(inside)):
            share = inside.count(c) / len(inside)
            found += share * log(share / (sum(k == c for _, _, k in points) / len(points)))
        return found, len(set(inside))

    west, east, south, north = box
    while True:
        present, different = mixed((west, east, south, north))
        if different >= kinds and present <= most:
            return west, east, south, north
        sides = [
            (west - 1, east, south, north),
            (west, east + 1, south, north),
            (west, east, south - 1, north),
            (west, east, south, north + 1),
        ]
        best = min(sides, key=lambda side: mixed(side)[0])
        if mixed(best)[0] < present:
            west, east, south, north = best
        else:
            west, east, south, north = west - 1, east + 1, south - 1, north + 1
