"""freqdp: frequency-based anonymization of trajectories that sit in PostgreSQL/PostGIS.

`connect` gives one object with all verbs:

    with freqdp_db.connect("postgresql://...") as freqdp:
        freqdp.anonymize("vans", "lg", epsilon=1)

Verbs return frozen documents, and raise a `FreqdpError` where the command would refuse.
"""

import os
import tempfile
from pathlib import Path

from freqdp_db.api import Freqdp, connect
from freqdp_db.errors import FreqdpError
from freqdp_db.progress import Progress

__version__ = "0.3.0"
__all__ = ["Freqdp", "FreqdpError", "Progress", "__version__", "connect"]


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
