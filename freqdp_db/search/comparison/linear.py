"""The linear scan: every segment, for every query. What all other strategies are measured by."""

from __future__ import annotations

from numba import njit

from freqdp_db.columns.arrays import Ids, Ints, Metres
from freqdp_db.search.best import Nearest, mark, search, sort_list, unmarked
from freqdp_db.search.comparison.rows import Rows, scan_rows


def search_linear(
    rows: Rows, x: Metres, y: Metres, k: Ints, skip_offsets: Ints, skip: Ids, rank: Ints
) -> Nearest:
    """Answer all queries by looking at every row."""
    return search(_search_range, (rows,), x, y, k, skip_offsets, skip, rank)


@njit(nogil=True, cache=True)
def _search_range(first, last, asked, lists, rows):  # type: ignore[no-untyped-def]
    x, y, offsets, skip_offsets, skip, rank = asked
    out_t, out_p, out_d = lists
    ax, ay, bx, by, owner, position = rows
    skipped, listed, slot = unmarked(len(rank)), unmarked(len(rank)), unmarked(len(rank))
    answered = 0
    for q in range(first, last):
        if offsets[q] == offsets[q + 1]:
            continue
        mark(skipped, skip, skip_offsets[q], skip_offsets[q + 1], q)
        best_t = out_t[offsets[q] : offsets[q + 1]]
        best_p = out_p[offsets[q] : offsets[q + 1]]
        best_d = out_d[offsets[q] : offsets[q + 1]]
        held = scan_rows(
            ax, ay, bx, by, owner, position, x[q], y[q],
            best_t, best_p, best_d, skipped, listed, slot, rank, q, 0,
        )  # fmt: skip
        sort_list(best_t, best_p, best_d, slot, rank, held)
        answered += 1
    return answered * len(ax), 0
