"""Whatever a method declares, nonsense for it is refused by its name, with a way out."""

from __future__ import annotations

import pytest

from freqdp_db.errors import BadInput
from freqdp_db.methods.kinds import Name
from freqdp_db.methods.registry import METHODS
from freqdp_db.release.request import Request

DECLARED = [(m.name, p.name, p.kind) for m in METHODS.values() for p in m.parameters]


@pytest.mark.parametrize(
    ("method", "name", "kind"), DECLARED, ids=[f"{m} {n}" for m, n, _ in DECLARED]
)
def test_nonsense_is_refused(method: str, name: str, kind: object) -> None:
    # a name may be nearly anything: whether it is somebody's is found out where it is looked up
    nonsense = (" ", "\0") if isinstance(kind, Name) else (" ", "?", "-1", "1e400", "\0", "nan")
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
