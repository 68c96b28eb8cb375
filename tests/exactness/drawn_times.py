"""When inserted samples are: the rule a second time, in plain numbers. Nothing is imported from freqdp."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import pairwise
from math import floor, sqrt
from struct import pack

_WORD = 2**64
_GAMMA = 0x9E3779B97F4A7C15
_DRIVING = 15


def key_of(columns: list[list[int]]) -> int:
    """Of all that a step has drawn."""
    told = hashlib.blake2b(digest_size=8)
    for column in columns:
        told.update(pack(f"<{len(column)}q", *column))
    return int.from_bytes(told.digest(), "little")


def _mixed(z: int) -> int:
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % _WORD
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % _WORD
    return z ^ (z >> 31)


def _numbers(key: int, stream: int) -> Iterator[float]:
    state = _mixed(key ^ _mixed((stream * _GAMMA + 1) % _WORD))
    while True:
        state = (state + _GAMMA) % _WORD
        yield (_mixed(state) >> 11) * 2.0**-53


def times_between(
    a: int, b: int, way: list[tuple[float, float]], own: list[int], step: int, key: int, stream: int
) -> list[int]:
    """Of the samples on the way from its first to its last point, which are at a and at b.

    own: the gaps of the trajectory, ascending.
    """
    drawn = _numbers(key, stream)
    legs = [sqrt((x - u) ** 2 + (y - v) ** 2) for (u, v), (x, y) in pairwise(way)]
    fit = [gap for gap in own if gap <= (b - a) // 2] or own[:1]
    gaps = [max(float(fit[int(next(drawn) * len(fit))]), leg * 1e6 / _DRIVING) for leg in legs]
    total = 0.0
    for gap in gaps:
        total += gap
    if total >= b - a:
        gaps = [gap * ((b - a) / total) for gap in gaps]
    else:
        gaps[int(next(drawn) * len(gaps))] += b - a - total
    count = len(gaps) - 1
    inside = range(a // step * step + step, b, step)
    times: list[int] = []
    since = 0.0
    for j in range(count):
        since += gaps[j]
        exact = a + floor(since + 0.5)
        nearest = (exact + step // 2) // step * step
        if len(inside) >= count:
            low = max(inside[j], times[-1] + step) if times else inside[0]
            times.append(min(max(nearest, low), inside[len(inside) - count + j]))
        elif inside:
            times.append(min(max(nearest, inside[0]), inside[-1]))
        else:
            times.append(min(max(exact, a + 1), max(b - 1, a)))
    return times
