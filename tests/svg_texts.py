"""Whether the words of a picture can be read: none over the edge, none over another."""

from __future__ import annotations

import re
from itertools import combinations
from typing import NamedTuple
from xml.etree import ElementTree

SVG = "{http://www.w3.org/2000/svg}"
_LETTER = 0.61
"""Width of a letter of a wide font, on average, as a share of its size."""


class Text(NamedTuple):
    """Where words stand, in pixels from the upper left corner."""

    left: float
    right: float
    base: float
    words: str


def texts(svg: str) -> list[Text]:
    """Every text that is not turned."""
    found = []
    for element in ElementTree.fromstring(svg).iter(f"{SVG}text"):
        words, style = element.text or "", element.attrib["style"]
        if "rotate(-90" in element.attrib.get("transform", ""):
            continue
        size = re.search(r"([\d.]+)px", style)
        assert size is not None
        x, wide = float(element.attrib["x"]), len(words) * _LETTER * float(size[1])
        anchor = re.search(r"text-anchor: (\w+)", style)
        left = x - wide * {"start": 0, "middle": 0.5, "end": 1}[anchor[1] if anchor else "start"]
        found.append(Text(left, left + wide, float(element.attrib["y"]), words))
    return found


def require_readable(svg: str) -> None:
    """No text over the edge, none over another one."""
    _, _, width, height = (float(v) for v in ElementTree.fromstring(svg).attrib["viewBox"].split())
    there = texts(svg)
    for left, right, base, words in there:
        assert left >= -1 and right <= width + 1, words
        assert 8 <= base <= height, words
    for one, other in combinations(there, 2):
        apart = abs(one.base - other.base) >= 10
        assert apart or one.left >= other.right or other.left >= one.right, (one, other)
