"""Find a PostgreSQL with PostGIS on this machine. Standard library only: `provision` runs first."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from freqdp_db.errors import ServerNotFound

MIN_MAJOR = 14
PROGRAMS = ("postgres", "initdb", "pg_ctl")
PACKAGE = "postgresql-postgis"
"""Of Debian and Ubuntu: PostGIS with the PostgreSQL that the distribution ships."""
_PLACES = ("usr/lib/postgresql/*/bin", "usr/pgsql-*/bin")


@dataclass(frozen=True)
class Binaries:
    """The programs of one PostgreSQL that has PostGIS."""

    bindir: Path
    version: str
    prefix: Path | None = None
    """The directory that the packages were unpacked in without root; None if installed."""

    @property
    def major(self) -> int:
        return int(self.version.split(".")[0])

    def program(self, name: str) -> str:
        return str(self.bindir / name)

    def relocation(self) -> dict[str, str]:
        """What programs in a prefix cannot find by themselves; PostgreSQL's own files they can."""
        if self.prefix is None:
            return {}
        proj = str(self.prefix / "usr/share/proj")
        return {
            "LD_LIBRARY_PATH": os.pathsep.join(map(str, _library_dirs(self.prefix))),
            "PROJ_LIB": proj,
            "PROJ_DATA": proj,  # the name since PROJ 9.1
            "GDAL_DATA": str(self.prefix / "usr/share/gdal"),
        }

    def environment(self) -> dict[str, str]:
        """A clean environment: a PROJ_LIB of conda's or a PGDATA would mislead the server."""
        kept = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME")}
        return {"PATH": os.defpath, **kept, "LC_ALL": "C", **self.relocation()}


def home(environ: Mapping[str, str] = os.environ) -> Path:
    """The directory that is ours by default: in XDG_DATA_HOME, for root as for anybody.

    Without it not root's home: the server does not run as root.
    """
    base = environ.get("XDG_DATA_HOME")
    if base:
        return Path(base) / "freqdp"
    return Path("/var/lib" if os.geteuid() == 0 else Path.home() / ".local/share") / "freqdp"


def software_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Where packages are unpacked when they cannot be installed."""
    return home(environ) / "software"


def find_binaries(major: int | None = None, environ: Mapping[str, str] = os.environ) -> Binaries:
    """The first usable candidate (of that major version, if one is named).

    Raises ServerNotFound with everything that was looked at and the package to install.
    """
    looked: list[str] = []
    without_postgis: int | None = None
    for bindir in _candidates(environ):
        found = _examine(bindir)
        if isinstance(found, Binaries):
            if major in (None, found.major):
                return found
            looked.append(f"{bindir} is PostgreSQL {found.major}")
        else:
            looked.append(found.reason)
            without_postgis = without_postgis or found.major
    wanted = f"PostgreSQL {major}" if major else f"PostgreSQL {MIN_MAJOR} or newer"
    raise ServerNotFound(
        f"no {wanted} with PostGIS was found; looked at: {'; '.join(looked) or 'no candidates'}",
        remedy=remedy(major or without_postgis),
    )


def remedy(major: int | None = None) -> str:
    """What to do on a machine without a usable server. major: of one that lacks only PostGIS."""
    package = PACKAGE if major is None else f"postgresql-{major}-postgis-3"
    return (
        f"apt-get install {package}, or without root: python -m freqdp_db.server.provision; or set "
        "FREQDP_PG_BINDIR, or give [[dsn]]"
    )


@dataclass(frozen=True)
class _Refused:
    reason: str
    major: int | None = None
    """Set when only PostGIS is missing."""


def _candidates(environ: Mapping[str, str]) -> list[Path]:
    override = environ.get("FREQDP_PG_BINDIR")
    if override:
        return [Path(override)]
    return list(dict.fromkeys(bindir.resolve() for bindir in _places(environ)))


def _places(environ: Mapping[str, str]) -> Iterator[Path]:
    path = environ.get("PATH")
    pg_config = shutil.which("pg_config", path=path)
    if pg_config:
        named = _output([pg_config, "--bindir"])
        if named:
            yield Path(named)
    found = [bindir for place in _PLACES for bindir in Path("/").glob(place)]
    found += software_dir(environ).glob("usr/lib/postgresql/*/bin")
    yield from sorted(found, key=_major_in_path, reverse=True)
    on_path = shutil.which("postgres", path=path)
    if on_path:
        yield Path(on_path).resolve().parent


def _major_in_path(bindir: Path) -> int:
    digits = re.findall(r"\d+", bindir.parent.name)
    return int(digits[0]) if digits else 0


def _examine(bindir: Path) -> Binaries | _Refused:
    missing = [p for p in PROGRAMS if not os.access(bindir / p, os.X_OK)]
    if missing:
        return _Refused(f"{bindir} has no {', '.join(missing)}")
    prefix = _prefix_of(bindir)
    draft = Binaries(bindir, "0", prefix)
    said = _output([draft.program("postgres"), "--version"], draft.relocation())
    version = re.search(r"\(PostgreSQL\) (\d+(?:\.\d+)?)", said or "")
    if not version:
        return _Refused(f"{bindir}/postgres does not run")
    binaries = Binaries(bindir, version[1], prefix)
    if binaries.major < MIN_MAJOR:
        return _Refused(f"{bindir} is PostgreSQL {binaries.version}, older than {MIN_MAJOR}")
    if not any((share / "extension/postgis.control").exists() for share in _share_dirs(binaries)):
        return _Refused(
            f"{bindir} is PostgreSQL {binaries.version} without PostGIS (no postgis.control)",
            binaries.major,
        )
    return binaries


def _prefix_of(bindir: Path) -> Path | None:
    """The unpacked tree a bindir sits in: Debian's layout under anything that is not the root."""
    at = re.fullmatch(r"(.+)/usr/lib/postgresql/\d+/bin", str(bindir.resolve()))
    return Path(at[1]) if at else None


def _share_dirs(binaries: Binaries) -> Iterator[Path]:
    said = _output([binaries.program("pg_config"), "--sharedir"], binaries.relocation())
    if said:
        yield Path(said)
    else:
        # Some distributions put pg_config in a development package of its own.
        yield binaries.bindir.parent / "share/postgresql"
        yield binaries.bindir.parent / "share"
        yield Path(f"/usr/share/postgresql/{binaries.major}")


def _library_dirs(prefix: Path) -> list[Path]:
    """Every directory with a shared library: BLAS and LAPACK have one each, joined at install."""
    libraries = [
        library
        for top in (prefix / "lib", prefix / "usr/lib")
        for pattern in ("lib*.so*", "*-linux-gnu*/**/lib*.so*")
        for library in top.glob(pattern)
    ]
    found = {library.parent for library in libraries}
    return sorted(found, key=lambda p: (len(p.parts), p))


def _output(command: list[str], extra: Mapping[str, str] | None = None) -> str | None:
    """What a program says on one line, or None if it cannot be run."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=30,
            cwd="/",
            env={**os.environ, **(extra or {})},
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
