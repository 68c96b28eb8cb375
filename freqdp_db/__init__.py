"""freqdp: frequency-based anonymization of trajectories that sit in PostgreSQL/PostGIS.

The verbs of the command line as functions. Each takes a connection first: a `Database` of `connect`,
a URL or libpq string, or None for what the command line would use. Each returns frozen documents, and
raises a `FreqdpError` where the command would refuse.
"""

import os
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from freqdp_db.errors import FreqdpError as FreqdpError
    from freqdp_db.interface.applying import apply as apply
    from freqdp_db.interface.approving import approve as approve
    from freqdp_db.interface.budgets import budget as budget
    from freqdp_db.interface.budgets import raise_budget as raise_budget
    from freqdp_db.interface.budgets import verify_ledger as verify_ledger
    from freqdp_db.interface.city_loading import load_city as load_city
    from freqdp_db.interface.connecting import connect as connect
    from freqdp_db.interface.datasets import add_dataset as add_dataset
    from freqdp_db.interface.datasets import build_dataset as build_dataset
    from freqdp_db.interface.datasets import dataset as dataset
    from freqdp_db.interface.datasets import datasets as datasets
    from freqdp_db.interface.datasets import drop_dataset as drop_dataset
    from freqdp_db.interface.datasets import find_object as find_object
    from freqdp_db.interface.datasets import match as match
    from freqdp_db.interface.datasets import set_dataset as set_dataset
    from freqdp_db.interface.evaluation import audit as audit
    from freqdp_db.interface.evaluation import evaluate as evaluate
    from freqdp_db.interface.evaluation import experiment as experiment
    from freqdp_db.interface.evaluation import report as report
    from freqdp_db.interface.installation import doctor as doctor
    from freqdp_db.interface.installation import init as init
    from freqdp_db.interface.installation import init_script as init_script
    from freqdp_db.interface.installation import methods as methods
    from freqdp_db.interface.installation import uninstall_script as uninstall_script
    from freqdp_db.interface.jobs import cancel_job as cancel_job
    from freqdp_db.interface.jobs import drop_schedule as drop_schedule
    from freqdp_db.interface.jobs import jobs as jobs
    from freqdp_db.interface.jobs import living_worker as living_worker
    from freqdp_db.interface.jobs import schedule as schedule
    from freqdp_db.interface.jobs import schedules as schedules
    from freqdp_db.interface.jobs import work as work
    from freqdp_db.interface.jobs import workers as workers
    from freqdp_db.interface.loading import load_csv as load_csv
    from freqdp_db.interface.loading import load_geolife as load_geolife
    from freqdp_db.interface.loading import load_tdrive as load_tdrive
    from freqdp_db.interface.naming import dataset_names as dataset_names
    from freqdp_db.interface.naming import release_names as release_names
    from freqdp_db.interface.recommending import recommend as recommend
    from freqdp_db.interface.releases import anonymize as anonymize
    from freqdp_db.interface.releases import export as export
    from freqdp_db.interface.releases import plan as plan
    from freqdp_db.interface.releases import publish as publish
    from freqdp_db.interface.releases import release as release
    from freqdp_db.interface.releases import releases as releases
    from freqdp_db.interface.releases import resume as resume
    from freqdp_db.interface.releases import verify as verify
    from freqdp_db.interface.releases import withdraw as withdraw
    from freqdp_db.interface.road_loading import load_roads as load_roads
    from freqdp_db.progress import Progress as Progress
    from freqdp_db.storage.connection.engine import Database as Database

__version__ = "0.4.0"

_HOMES = {
    "errors": "FreqdpError",
    "progress": "Progress",
    "storage.connection.engine": "Database",
    "interface.applying": "apply",
    "interface.approving": "approve",
    "interface.budgets": "budget raise_budget verify_ledger",
    "interface.city_loading": "load_city",
    "interface.connecting": "connect",
    "interface.datasets": "add_dataset build_dataset dataset datasets drop_dataset find_object match "
    "set_dataset",
    "interface.evaluation": "audit evaluate experiment report",
    "interface.installation": "doctor init init_script methods uninstall_script",
    "interface.jobs": "cancel_job drop_schedule jobs living_worker schedule schedules work workers",
    "interface.loading": "load_csv load_geolife load_tdrive",
    "interface.naming": "dataset_names release_names",
    "interface.recommending": "recommend",
    "interface.releases": "anonymize export plan publish release releases resume verify withdraw",
    "interface.road_loading": "load_roads",
}
"""Which module has which names: they are imported when they are asked for."""
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}
__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """Some verbs are called as packages are (`release`, `jobs`, `methods`): the verb wins.

    Python would put `freqdp_db.release`, once something imports from it, in the verb's place.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if not (isinstance(value, ModuleType) and name in _HOME):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


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
