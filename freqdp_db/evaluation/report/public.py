"""The report for the public: from the catalogue and the released table, and nothing else.

It reads no build and nothing of the private schema, so that whoever may read a release can write it.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pyproj

from freqdp_db.dataset.projection import ReferenceSystem, seen_degrees, transform, utm_srid
from freqdp_db.db.connection import Database
from freqdp_db.db.copy import POSTGRES_EPOCH_US
from freqdp_db.db.published import ReleaseReader
from freqdp_db.errors import BadData, BadInput
from freqdp_db.evaluation.metrics import measure_published
from freqdp_db.evaluation.pair import Pair
from freqdp_db.evaluation.report.contents import Heats, box_of, heat_maps
from freqdp_db.evaluation.report.counts import count_pictures
from freqdp_db.evaluation.report.report import Reported, facts, target, written
from freqdp_db.evaluation.report.words import by_group
from freqdp_db.model.arrays import Metres
from freqdp_db.model.trajectories import Locations, Trajectories
from freqdp_db.progress import Progress
from freqdp_db.release.catalogue import Published, find_published

_WGS84 = 4326
_SEED = 1
_LEAST_PITCH_M = 1.0


def write_public_report(
    database: Database, name: str, progress: Progress, *, out: Path | None, overwrite: bool
) -> Reported:
    """Write the report; all of it or nothing."""
    release = find_published(database, name)
    path = target(out or Path(f"{name}.public.html"), overwrite)
    if not release.granted:
        raise BadInput(
            f"release {name!r} is not granted: there is nothing to tell the public",
            remedy=f"approve it first if it is held (freqdp release approve {shlex.quote(name)}), or "
            "leave [[public]] out",
        )
    measured: dict[str, float] = {}
    pictures: dict[str, Any]
    if release.kind == "counts":
        trajectories, pictures = 0, {"counts": count_pictures(database, name, progress)}
    else:
        pair = _read(database, release, progress)
        with progress.stage("count"):
            measured = measure_published(pair, release.kind, _SEED)
        with progress.stage("draw maps"):
            trajectories, pictures = len(pair.released), {"heats": heats_of(pair)}
    context = facts(database, release, measured, trajectories) | {
        "public": True,
        "dataset": release.dataset,
        "price": _price(release.guarantee),
        "parameters": {k: _word(v) for k, v in release.parameters.items()},
        "groups": by_group(list(measured)),
        "comparison": [{"name": release.name, "method": release.method, "values": measured}],
        "ledger_hash": release.ledger_head,
        **pictures,
    }
    return written(path, context)


def _read(database: Database, release: Published, progress: Progress) -> Pair:
    """The released trajectories in metres, on both sides: there is nothing to compare them with."""
    with (
        progress.stage("read release", release.rows) as stage,
        database.begin(snapshot=True) as connection,
    ):
        reader = ReleaseReader(connection, database, release.name)
        parts = []
        for part in reader.samples():
            parts.append((part.trajectory_id, part.at_us - POSTGRES_EPOCH_US, part.x, part.y))
            stage.advance(len(part.x))
        ids, at, x, y = (
            (np.concatenate(column) for column in zip(*parts, strict=True))
            if parts
            else (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0), np.zeros(0))
        )
        x, y = _in_metres(reader, x, y)
    begins = np.flatnonzero(np.r_[True, ids[1:] != ids[:-1]]) if len(ids) else np.zeros(0, np.int64)
    offsets = np.r_[begins, len(ids)].astype(np.int64)
    places, location = np.unique(x + 1j * y, return_inverse=True)
    released = Trajectories(offsets, location.reshape(-1).astype(np.int32), at, at[begins])
    return Pair(released, released, Locations(places.real.copy(), places.imag.copy()))


def _in_metres(reader: ReleaseReader, x: Metres, y: Metres) -> tuple[Metres, Metres]:
    """In the release's own system if it is in metres, else in a UTM zone, else around the middle."""
    own = ReferenceSystem.parse(reader.srid, reader.definition())
    if own.metric or not len(x):
        return x, y
    degrees = ReferenceSystem(_WGS84, pyproj.CRS.from_epsg(_WGS84))
    lon, lat = transform(own, degrees, x, y)
    try:
        zone = utm_srid(seen_degrees(lon, lat))
        plane = ReferenceSystem(zone, pyproj.CRS.from_epsg(zone))
    except BadData:  # too wide for one
        middle = f"+lon_0={np.median(lon)} +lat_0={np.median(lat)}"
        plane = ReferenceSystem(0, pyproj.CRS.from_proj4(f"+proj=laea {middle} +units=m"))
    return transform(own, plane, x, y)


def heats_of(pair: Pair) -> Heats:
    """Where the released samples are."""
    x, y = (side[pair.released.location] for side in (pair.locations.x, pair.locations.y))
    return heat_maps([("the release", x, y)], box_of(x, y), pitch_of(pair.locations))


def pitch_of(places: Locations) -> float | None:
    """The side of the grid that places lie on, if they lie on one."""
    pitches = []
    for values in (places.x, places.y):
        gaps = np.diff(np.unique(np.round(values, 2)))
        if not len(gaps) or gaps.min() < _LEAST_PITCH_M:
            return None
        pitch = float(gaps.min())
        if np.abs(gaps / pitch - np.round(gaps / pitch)).max() > 0.01:
            return None
        pitches.append(pitch)
    return pitches[0] if abs(pitches[0] - pitches[1]) < 0.01 * pitches[0] else None


def _price(guarantee: dict[str, Any]) -> str:
    """What was claimed for what, in words."""
    claimed = [
        f"epsilon {part['claimed_epsilon']} for {part['unit']}"
        for part in guarantee["artefacts"].values()
        if part["claimed_epsilon"]
    ]
    return "; ".join(claimed) or "nothing"


def _word(value: Any) -> Any:
    return ("yes" if value else "no") if isinstance(value, bool) else value
