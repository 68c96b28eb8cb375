"""TAB in a shell: methods, datasets and releases, and never a server that is started for it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from servers import SharedServer, cloned
from world import anonymize, as_role

from freqdp_db.cli import main as completion

PROGRAM = "import sys; sys.argv[0] = 'freqdp'; from freqdp_db.cli.main import main; main()"


def _completed(line: str, **environment: str) -> list[str]:
    """What bash would be offered at the end of this line."""
    words = line.split(" ")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=False,
        env={
            **{k: v for k, v in os.environ.items() if not k.startswith(("PG", "DATABASE_URL"))},
            "_FREQDP_COMPLETE": "complete_bash",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(words) - 1),
            **environment,
        },
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.fixture(scope="module")
def url(shared_server: SharedServer, city_db: str) -> Iterator[str]:
    with cloned(shared_server.get(), city_db) as url:
        for options in (("--as", "held_one", "--hold"), ("--as", "open_one", "--new-draw")):
            anonymize(url, "city", "lg", "--epsilon", "0.5", *options)
        yield url


def _context(**given: str) -> Any:
    return SimpleNamespace(params={}, parent=SimpleNamespace(params=given, parent=None))


def test_methods() -> None:
    assert {"lg", "swap", "strict"} <= {name for name, _ in completion.methods("")}
    assert [name for name, _ in completion.methods("lg+s")] == ["lg+swap"]


def test_the_shell_is_offered_names(url: str) -> None:
    assert _completed("freqdp release approve ", DATABASE_URL=url) == ["held_one"]


def test_names(url: str) -> None:
    given = _context(dsn=url)
    assert completion.datasets(given, "c") == ["city"]
    assert completion.datasets(given, "x") == []
    assert completion.releases("published")(given, "") == ["held_one", "open_one"]
    assert completion.releases("held")(given, "") == ["held_one"]
    assert completion.releases("running")(given, "") == []
    analyst = _context(dsn=as_role(url, "analyst"))
    assert completion.releases("published")(analyst, "o") == ["open_one"]
    assert completion.datasets(analyst, "") == []


def test_nothing_is_started_and_nothing_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("DATABASE_URL", "PGHOST", "PGSERVICE", "PGDATABASE", "PGHOSTADDR"):
        monkeypatch.delenv(name, raising=False)
    place = tmp_path / "server"
    monkeypatch.setenv("FREQDP_DATA_DIR", str(place))
    assert completion.datasets(_context(), "") == []
    assert not place.exists()
    assert completion.datasets(_context(dsn="postgresql://nobody@127.0.0.1:1/none"), "") == []
    assert capsys.readouterr() == ("", "")
