"""Make sure that this machine has a PostGIS server: `python -m freqdp_db.server.provision`.

Runs before anything is installed, so it imports the standard library only. Found already: says so.
Root on Debian: installs the package, and no system cluster with it. Without root: downloads the
same packages and unpacks them in the user's data directory, where they run in place.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from freqdp_db.errors import FreqdpError, ServerNotFound
from freqdp_db.server.binaries import PACKAGE, Binaries, find_binaries, remedy, software_dir

_CREATECLUSTER = Path("/etc/postgresql-common/createcluster.d")
# Not unpacked: a second C library beside the running loader crashes every program, and LLVM
# (a third of the download) serves the JIT compiler, which our server has switched off.
_LEFT_OUT = re.compile(r"(libc6|libc-bin|libllvm\d+|libz3-4)")


def main() -> int:
    try:
        binaries = provision()
    except FreqdpError as error:
        told = error.as_options()
        sys.stderr.write(f"freqdp: {told['message']}\n  -> {told['remedy']}\n")
        return error.exit_code
    sys.stdout.write(f"PostgreSQL {binaries.version} with PostGIS: {binaries.bindir}\n")
    return 0


def provision() -> Binaries:
    """Find a server, or get one in the way that this user may."""
    try:
        return find_binaries()
    except ServerNotFound as error:
        # An explicit FREQDP_PG_BINDIR would hide whatever is installed.
        if os.environ.get("FREQDP_PG_BINDIR") or not shutil.which("apt-get"):
            raise
        _say(error.message)
    if os.geteuid() == 0:
        install_as_root()
    else:
        install_unprivileged(software_dir().absolute())
    return find_binaries()


def install_as_root() -> None:
    """Install Debian's package, without the system cluster that it would create and start."""
    # One unreachable third-party source fails the update but does not hide Debian's package.
    _apt(["update", "-q"], check=False)
    _say(f"installing {PACKAGE}")
    with _no_system_cluster():
        _apt(["install", "-y", "-q", "--no-install-recommends", PACKAGE])


def install_unprivileged(prefix: Path) -> None:
    """Download the packages that this machine lacks and unpack them in `prefix`."""
    for tool in ("apt-get", "dpkg-deb"):
        if not shutil.which(tool):
            raise ServerNotFound(f"{tool} is not on this machine", remedy=remedy())
    prefix.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".software-", dir=prefix.parent) as name:
        work = Path(name)
        options = _private_apt(work)
        _apt(["update", "-q"], options)
        _say(f"downloading {PACKAGE} and what it needs into {prefix}")
        archives = _download(options, work / "archives")
        tree = work / "tree"
        for archive in archives:
            _run(["dpkg-deb", "-x", str(archive), str(tree)])
        _link_control_files(tree)
        tree.chmod(0o755)
        if prefix.exists():
            # Moved aside whole, so that nobody ever runs half of each; goes with `work`.
            prefix.rename(work / "replaced")
        tree.rename(prefix)


def _private_apt(work: Path) -> list[str]:
    """Options that let apt work without root: lists and cache of our own, no locks."""
    for part in ("lists/partial", "cache/archives/partial", "archives"):
        (work / part).mkdir(parents=True)
    settings = {
        "Dir::State::lists": work / "lists",
        "Dir::Cache": work / "cache",
        "Debug::NoLocking": "1",
    }
    return [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]


def _download(options: list[str], into: Path) -> list[Path]:
    """Fetch the package and those of its dependencies that this machine does not have."""
    plan = _apt(["-s", "install", "--no-install-recommends", PACKAGE], options)
    chosen = re.findall(r"^Inst (\S+) (?:\[\S+\] )?\((\S+) ", plan, re.MULTILINE)
    wanted = [f"{name}={version}" for name, version in chosen if not _LEFT_OUT.fullmatch(name)]
    if not wanted:
        raise ServerNotFound(
            f"apt says that {PACKAGE} is installed, but it cannot be used", remedy=remedy()
        )
    _apt(["download", "-q", *wanted], options, cwd=into)
    return sorted(into.glob("*.deb"))


def _link_control_files(tree: Path) -> None:
    """Name the default PostGIS, which Debian's packages do when they are configured."""
    for control in tree.glob("usr/share/postgresql/*/extension/*-3.control"):
        plain = control.with_name(control.name.replace("-3.control", ".control"))
        if not plain.exists():
            plain.symlink_to(control.name)


@contextmanager
def _no_system_cluster() -> Iterator[None]:
    """Keep postgresql-common from making a cluster; what is there already is left as it is."""
    _CREATECLUSTER.mkdir(parents=True, exist_ok=True)
    setting = _CREATECLUSTER / "freqdp.conf"
    setting.write_text("create_main_cluster = false\n")
    try:
        yield
    finally:
        setting.unlink(missing_ok=True)


def _apt(words: list[str], options: Sequence[str] = (), **how: Any) -> str:
    return _run(["apt-get", *options, *words], **how)


def _run(command: list[str], *, check: bool = True, cwd: Path | None = None) -> str:
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"},
    )
    if check and done.returncode != 0:
        reason = "\n".join((done.stderr or done.stdout).strip().splitlines()[-5:])
        raise ServerNotFound(f"{command[0]} {command[-1]} failed: {reason}", remedy=remedy())
    return done.stdout


def _say(text: str) -> None:
    sys.stderr.write(f"freqdp: {text}\n")


if __name__ == "__main__":
    sys.exit(main())
