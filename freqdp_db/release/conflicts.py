"""Releases of the same source beside each other: what one undoes of another, or does not cover."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Sequence

from freqdp_db.db import releases
from freqdp_db.db.builds import BuildRow
from freqdp_db.db.connection import Connection, Session
from freqdp_db.db.datasets import DatasetRow
from freqdp_db.db.releases import ReleaseOfSameRows
from freqdp_db.errors import BadInput
from freqdp_db.methods.contract import WITHOUT_SAMPLES, Method
from freqdp_db.methods.registry import find_method
from freqdp_db.methods.unlinking.steps import accepted_beside
from freqdp_db.release.request import Request

_LEAVE = "leave this one held: curators can read it"
_HOLD = "keep this one for curators with [[hold]]"
_FEW = 3
"""So many releases are named one by one."""


def refuse_conflicting_releases(
    connection: Connection,
    dataset: DatasetRow,
    request: Request,
    held: bool | None,
    *,
    build: BuildRow,
    replaces: Collection[str] = (),
) -> None:
    """Refuse to publish two releases with true samples of the same objects where one unlinks.

    True samples join them: who goes on as whom in the one is told by the other. Which of the two was
    first makes no difference to who has both. Inside the transaction that records or grants it, after
    `lock_same_rows`: one that is being made is found, too.

    held: analysts will not have it yet; it is looked at again when it is approved, which is now if it is
    None. build: what it is made from; windows that are apart share no samples. replaces: releases that are
    withdrawn as soon as this one is published.
    """
    method = request.method
    if held or not request.grantable:
        return
    beside = [
        other
        for other in releases.releases_of_same_rows(
            connection, dataset.account_id, build=build, running=True
        )
        if other.name not in replaces
    ]
    if method.kind == "unlinked":
        accepted = accepted_beside(request.values)
        others = [
            other
            for other in linkable_releases(beside)
            if not _is_accepted(other, accepted)
            and (
                find_method(other.method).links
                or releases.times_overlap(connection, build.build_id, other.build_id)
            )
        ]
        if others:
            _refuse_unlinking(others, accepted, approving=held is None)
    elif method.links:
        unlinked = [
            other
            for other in beside
            if find_method(other.method).kind == "unlinked"
            and not _accepts_linked(connection, other)
        ]
        if unlinked:
            _refuse_linking(unlinked[0], approving=held is None)


def linkable_releases(beside: Iterable[ReleaseOfSameRows]) -> list[ReleaseOfSameRows]:
    """Those that true samples join with an unlinked release: all that keep samples where they were."""
    return [
        other
        for other in beside
        if (method := find_method(other.method)).kind == "unlinked" or method.links
    ]


def not_covered_by_guarantee(
    session: Session, dataset: DatasetRow, build: BuildRow, method: Method, name: str | None = None
) -> list[str]:
    """What a guarantee for an object does not cover beside other releases, for `not_protected`.

    Said of a release with such a guarantee beside ones with true samples, and the other way round. Where
    a day, week or month of an object is protected at a time, what shows other times is not beside it.
    name: the release that the others are beside, if it is published.
    """
    if method.unit != "person" and method.kind in WITHOUT_SAMPLES:
        return []
    at_a_time = None if dataset.protected.stretch is None else build
    found = releases.releases_of_same_rows(session, dataset.account_id, build=at_a_time)
    beside = [other for other in found if other.name != name]
    if method.unit == "person":
        return [
            f"true samples of the same objects in {others}, also published: no guarantee covers "
            "them and no sum counts them"
            for others in names_of(with_true_samples(beside))
        ]
    return [
        f"true samples, in this release, of the objects of {others}, also published: its guarantee "
        "does not cover them"
        for others in names_of(o for o in beside if find_method(o.method).unit == "person")
    ]


def with_true_samples(beside: Iterable[ReleaseOfSameRows]) -> list[ReleaseOfSameRows]:
    """Those that are made of true samples, edited, unlinked or generalised."""
    return [other for other in beside if find_method(other.method).kind not in WITHOUT_SAMPLES]


def names_of(others: Iterable[ReleaseOfSameRows]) -> list[str]:
    """By their names, with their methods; of a series with more than a few windows, all at once."""
    by_series: dict[str, list[ReleaseOfSameRows]] = {}
    for other in others:
        by_series.setdefault(other.series or f"{other.name}:", []).append(other)
    return [
        words
        for series, windows in by_series.items()
        for words in (
            [f"{len(windows)} windows of {series} ({windows[0].method})"]
            if len(windows) > _FEW
            else [f"{window.name} ({window.method})" for window in windows]
        )
    ]


def _is_accepted(other: ReleaseOfSameRows, accepted: Collection[str]) -> bool:
    """Whether it was named, by itself or as one of its dataset's (`vans_current`)."""
    return other.name in accepted or f"{other.dataset}_current" in accepted


def _accepts_linked(connection: Connection, other: ReleaseOfSameRows) -> bool:
    """Whether an unlinked release was made although a linked one was out: then one more is no news."""
    named = accepted_beside(other.parameters)
    methods = (releases.method_of(connection, name) for name in named)
    return any(name.endswith("_current") for name in named) or any(
        find_method(method).links for method in methods if method is not None
    )


def _refuse_unlinking(
    others: Sequence[ReleaseOfSameRows], accepted: Sequence[str], *, approving: bool
) -> None:
    first = others[0]
    what = (
        "each trajectory is one object's: whoever has both can undo the unlinking"
        if find_method(first.method).links
        else "trajectories are unlinked: both hold true samples of the same times, and whoever has "
        "both can undo much of the unlinking"
    )
    # one by one while they are few, else all of their datasets
    names = [*accepted, *(other.name for other in others)]
    if len(others) > _FEW:
        names = [*accepted, *dict.fromkeys(f"{other.dataset}_current" for other in others)]
    accept = f"accept that with [[beside]] {shlex.quote(','.join(names))}, or {_HOLD}"
    raise BadInput(
        f"{first.name} is a {first.state} release of the same source in which {what}",
        remedy=f"withdraw it (freqdp release withdraw {shlex.quote(first.name)}), or "
        + (_LEAVE if approving else accept),
    )


def _refuse_linking(other: ReleaseOfSameRows, *, approving: bool) -> None:
    way = _LEAVE if approving else _HOLD
    raise BadInput(
        f"{other.name} is a {other.state} release of the same source in which trajectories are "
        "unlinked: in this one each is one object's, so whoever has both can undo the unlinking",
        remedy=f"withdraw it (freqdp release withdraw {shlex.quote(other.name)}), or {way}",
    )
