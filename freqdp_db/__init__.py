"""freqdp: frequency-based anonymization of trajectories that sit in PostgreSQL/PostGIS."""

import os
import tempfile
from pathlib import Path

__version__ = "0.2.0"


def _place_for_kernels() -> None:
    """Compiled kernels are kept beside the package or in the home directory; else in /tmp.

    A service account may be able to write neither, and numba then refuses to work at all.
    """
    places = (Path(__file__).parent, Path.home() if os.environ.get("HOME") else Path("/"))
    if not any(os.access(place, os.W_OK) for place in places):
        private = Path(tempfile.gettempdir()) / f"freqdp-kernels-{os.getuid()}"
        private.mkdir(mode=0o700, exist_ok=True)
        if private.stat().st_uid == os.getuid():
            os.environ.setdefault("NUMBA_CACHE_DIR", str(private))


_place_for_kernels()
