"""The paper's summary table: what it compares, with which parameters, and the values it has.

Jin, Hua, Ruan and Zhou, ICDE 2022, "A summary of effectiveness evaluation results": 1,000 taxis of
T-Drive, epsilon 1. Its generated trajectories have no times and are on no roads, so that these two
rows have gaps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

OBJECTS = 1000
EPSILON = "1"
COLUMNS = {
    "LA_s": "la_s.a.10",
    "LA_t": "la_t.a",
    "LA_st": "la_st.a.10",
    "LA_sq": "la_sq.a.10",
    "MI": "mi",
    "INF": "inf",
    "DE": "de",
    "TE": "te.trip",
    "FFP": "ffp",
    "Precision": "recovery.precision",
    "Recall": "recovery.recall",
    "F-score": "recovery.f",
    "RMF": "recovery.rmf",
    "Accuracy": "recovery.accuracy",
}
"""Titles of the paper, and what we call the same."""


@dataclass(frozen=True)
class PaperRow:
    """One method of the paper's table."""

    title: str
    method: str
    values: tuple[float | None, ...]
    """In the order of the columns."""
    given: Mapping[str, str] = field(default_factory=dict)
    """Its parameters, besides epsilon."""
    share: int = 1
    """PureG and PureL are one of the two mechanisms of GL: they get half of its epsilon."""


def _row(
    title: str, method: str, values: str, given: Mapping[str, str] | None = None, share: int = 1
) -> PaperRow:
    read = tuple(None if text == "-" else float(text) for text in values.split())
    return PaperRow(title, method, read, given or {}, share)


_K = {"k": "5"}
_SPREAD = {"spread": "paper"}
ROWS = (
    _row("SC", "sc",
         ".188 .206 .888 .206 .163 .656 .047 .385 .990 .610 .611 .611 .779 .162"),
    _row("RSC-0.1", "rsc",
         ".146 .253 .889 .129 .162 .663 .050 .380 .988 .610 .605 .608 .782 .162",
         {"radius": "100"}),
    _row("RSC-0.5", "rsc",
         ".098 .225 .869 .098 .158 .682 .064 .373 .983 .606 .578 .591 .798 .162",
         {"radius": "500"}),
    _row("RSC-1.0", "rsc",
         ".081 .122 .846 .075 .156 .704 .082 .370 .977 .598 .540 .568 .823 .162",
         {"radius": "1000"}),
    _row("RSC-3.0", "rsc",
         ".049 .068 .750 .043 .150 .784 .138 .333 .943 .561 .384 .456 .916 .160",
         {"radius": "3000"}),
    _row("RSC-5.0", "rsc",
         ".033 .024 .584 .032 .148 .853 .243 .308 .929 .535 .251 .342 .967 .152",
         {"radius": "5000"}),
    _row("W4M", "w4m",
         ".847 .164 .506 .860 .244 .285 .057 .330 .994 .276 .157 .179 .693 .035", _K),
    _row("GLOVE", "glove",
         ".370 .005 .116 .350 .385 .912 .587 .657 .416 .498 .307 .380 .516 .250", _K),
    _row("KLT", "klt",
         ".269 .002 .099 .324 .312 .929 .617 .686 .330 .435 .276 .338 .592 .218",
         {**_K, "l": "3", "t": "0.1"}),
    _row("DPT", "dpt",
         ".006 - - .009 .097 .986 .297 .375 .373 - - - - -"),
    _row("AdaTrace", "adatrace",
         ".000 - - .000 .057 .603 .291 .064 .908 - - - - -"),
    _row("PureG", "pure-g",
         ".922 .211 .928 .975 .184 .495 .004 .225 .980 .378 .481 .423 1.310 .395", share=2),
    _row("PureL", "pure-l",
         ".119 .028 .362 .026 .098 .635 .015 .365 .953 .307 .331 .318 1.342 .189", _SPREAD, 2),
    _row("GL", "gl",
         ".016 .022 .337 .015 .095 .642 .014 .331 .956 .309 .339 .324 1.420 .008", _SPREAD),
)  # fmt: skip
FIGURE = ("PureG", "PureL", "GL")
"""What the figure of epsilon compares."""
