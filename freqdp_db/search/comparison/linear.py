"""The linear scan: every segment, for every query. What all other strategies are measured by."""

from __future__ import annotations

from numba import njit

from freqdp_db.columns.arrays import Ints
from freqdp_db.search.best import Nearest, Queries, empty_lists, mark, search, sort_list, unmarked
from freqdp_db.search.comparison.rows import SegmentRows, scan_rows


def search_linear(rows: SegmentRows, queries: Queries, rank: Ints) -> Nearest:
    """Answer all queries by looking at every row."""
    return search(_linear_range, (tuple(rows),), queries, rank)


@njit(nogil=True, cache=True)
def _linear_range(first, last, asked, rows):  # type: ignore[no-untyped-def]
    x, y, offsets, skip_offsets, skip, rank = asked
    out_t, out_p, out_d = empty_lists(offsets[last] - offsets[first])
    ax, ay, bx, by, owner, position = rows
    skipped, listed, slot = unmarked(len(rank)), unmarked(len(rank)), unmarked(len(rank))
    answered = 0
    for q in range(first, last):
        if offsets[q] == offsets[q + 1]:
            continue
        mark(skipped, skip, skip_offsets[q], skip_offsets[q + 1], q)
        begin_q, end_q = offsets[q] - offsets[first], offsets[q + 1] - offsets[first]
        best_t, best_p = out_t[begin_q:end_q], out_p[begin_q:end_q]
        best_d = out_d[begin_q:end_q]
        held = scan_rows(
            ax, ay, bx, by, owner, position, x[q], y[q],
            best_t, best_p, best_d, skipped, listed, slot, rank, q, 0,
        )  # fmt: skip
        sort_list(best_t, best_p, best_d, slot, rank, held)
        answered += 1
    return out_t, out_p, out_d, answered * len(ax), 0
