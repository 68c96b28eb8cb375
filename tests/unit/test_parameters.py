"""Whatever a method declares, nonsense for it is refused by its name, with a way out."""

from __future__ import annotations

import pytest

from freqdp_db.errors import BadInput
from freqdp_db.methods.kinds import Name, NotAcceptable, TimeStretch, Zoning
from freqdp_db.methods.registry import METHODS
from freqdp_db.release.request import Request

DECLARED = [(m.name, p.name, p.kind) for m in METHODS.values() for p in m.parameters]


@pytest.mark.parametrize(
    ("method", "name", "kind"), DECLARED, ids=[f"{m} {n}" for m, n, _ in DECLARED]
)
def test_nonsense_is_refused(method: str, name: str, kind: object) -> None:
    # a name may be nearly anything: whether it is somebody's is found out where it is looked up
    nonsense = (
        (" ", "\0") if isinstance(kind, Name | Zoning) else (" ", "?", "-1", "1e400", "\0", "nan")
    )
    for value in nonsense:
        with pytest.raises(BadInput) as refused:
            Request.parse(method, **{name: value})
        shown = refused.value.as_options()
        assert "--" + name.replace("_", "-") in str(shown["message"])
        assert refused.value.remedy


def test_all_families_are_there() -> None:
    """The cases above come from the registry: it must not be empty of what is new."""
    methods = {method for method, _, _ in DECLARED}
    assert {"swap", "cut", "glove", "klt", "w4m", "strict"} <= methods


@pytest.mark.parametrize(
    ("text", "begin"),
    [
        ("2008-02-02/2008-02-09", "2008-02-02T00:00:00+00:00"),
        ("2008-02-02T00:00+08:00/2008-02-09", "2008-02-01T16:00:00+00:00"),
        ("2008-02-02 06:30/2008-02-09", "2008-02-02T06:30:00+00:00"),
    ],
)
def test_a_stretch_of_time(text: str, begin: str) -> None:
    assert TimeStretch().from_text(text).begin.isoformat() == begin


@pytest.mark.parametrize(
    "text",
    ["2008-02-02+08:00/2008-02-09", "2008-02-02", "2008-02-02/", "2008-02-02/2008-02-09/2008-02-10",
     "20080202/20080209", "2008-W05/2008-W06", "2008-02-09/2008-02-02"],
)  # fmt: skip
def test_no_stretch_of_time(text: str) -> None:
    """A date with an offset and no time would be taken for a time of the day."""
    with pytest.raises(NotAcceptable):
        TimeStretch().from_text(text)
