"""The wheel: it carries `sql/` and `migrations/`, and works where there is no checkout."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

import freqdp_db

ROOT = Path(__file__).parent.parent.parent


def _run(*words: str | Path, cwd: Path, **environment: str) -> str:
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "DATABASE_URL")}
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env={**kept, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    # with the backend at hand there is nothing to download
    isolation = ["--no-isolation"] if importlib.util.find_spec("hatchling") else []
    _run(sys.executable, "-m", "build", "--wheel", *isolation, "--outdir", out, ROOT, cwd=out)
    (found,) = out.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the wheel in it; it borrows this one's dependencies."""
    home = tmp_path_factory.mktemp("environment")
    _run(sys.executable, "-m", "venv", "--without-pip", home / "venv", cwd=home)
    programs = home / "venv" / "bin"
    _run(
        *(sys.executable, "-m", "pip", "--python", programs / "python", "install"),
        *("--quiet", "--no-deps", "--no-index", "--disable-pip-version-check", wheel),
        cwd=home,
    )
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(_run(programs / "python", "-c", where, cwd=home).strip())
    # a path file of another environment's is not read, so the editable install stays out
    borrowed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (packages / "borrowed.pth").write_text("".join(f"{path}\n" for path in sorted(borrowed)))
    return programs


def test_carries_every_sql_file_and_migration(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    for folder, pattern in (("sql", "*.sql"), ("migrations", "*.py"), ("migrations", "*.mako")):
        files = [f for f in (ROOT / folder).rglob(pattern) if "__pycache__" not in f.parts]
        assert files
        for file in files:
            name = f"freqdp_db/_{folder}/{file.relative_to(ROOT / folder)}"
            assert held.get(name) == file.read_bytes(), name
    assert not [name for name in held if name.startswith("tests/") or "__pycache__" in name]


def test_runs_without_the_checkout(installed: Path, tmp_path: Path) -> None:
    found = _run(
        installed / "python", "-c", "import freqdp_db; print(freqdp_db.__file__)", cwd=tmp_path
    )
    assert Path(found.strip()).is_relative_to(installed.parent)
    said = _run(installed / "freqdp", "--version", cwd=tmp_path)
    assert said == f"freqdp {freqdp_db.__version__}\n"


_CLIENT = """
import freqdp_db

def newest(url: str | None) -> str:
    with freqdp_db.connect(url) as freqdp:
        made = freqdp.anonymize("city", "lg", epsilon=1, time_step="60s", name="a")
        budget = freqdp.budget("city")
        reveal_type(budget.remaining)
        reveal_type(freqdp.release(made.name).rows)
        reveal_type([d.name for d in freqdp.datasets()])
        freqdp.verify(3)
        freqdp.verify("city_1", unknown=1)
        return made.table
"""


def test_types_are_honoured(installed: Path, tmp_path: Path) -> None:
    """A strict type checker reads them from the installed package: it has a py.typed."""
    (tmp_path / "client.py").write_text(_CLIENT)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--python-executable",
         str(installed / "python"), "client.py"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
        env={k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "MYPYPATH")},
    )  # fmt: skip
    said = done.stdout
    assert 'is "decimal.Decimal"' in said, said + done.stderr
    assert 'is "int | None"' in said or 'is "Union[builtins.int, None]"' in said, said
    assert 'is "builtins.list[builtins.str]"' in said or 'is "list[str]"' in said, said
    assert said.count("error:") == 2, said
    assert '"verify" of "Freqdp" has incompatible type "int"' in said
    assert 'Unexpected keyword argument "unknown"' in said


def test_init_from_the_wheel(installed: Path, empty_database_url: str, tmp_path: Path) -> None:
    def init() -> dict[str, object]:
        said = _run(
            installed / "freqdp", "init", "--json", cwd=tmp_path, DATABASE_URL=empty_database_url
        )
        document: dict[str, object] = json.loads(said)
        return document

    first = init()
    assert first["created"] is True
    assert first["objects_changed"]
    second = init()
    assert second["changed"] is False
    # the checkout's own command finds nothing to do either: both apply the same files
    same = _run(
        *(sys.executable, "-m", "freqdp_db", "init", "--json"),
        cwd=ROOT,
        DATABASE_URL=empty_database_url,
    )
    assert json.loads(same)["changed"] is False
