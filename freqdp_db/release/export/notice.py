"""What stands beside an exported file: its guarantee, as data, and a README.txt.

The README says what the file is, what it guarantees and who may use it.
"""

from __future__ import annotations

import hashlib
import textwrap
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyproj

import freqdp_db
from freqdp_db.dataset.projection import ReferenceSystem
from freqdp_db.methods.registry import find_method
from freqdp_db.release.catalogue import may_be_granted

_WIDTH = 80

_COLUMNS = {
    "trajectory_id": "an id that is valid in this release only; it identifies no object",
    "seq": "position in the trajectory, from 1, in time order",
    "sampled_at": "time of the sample, in UTC",
    "sampled_at_us": "the same to the microsecond: microseconds since 1970-01-01 UTC",
    "lon": "longitude of the location's point",
    "lat": "latitude of the location's point",
    "x": "easting of the location's point",
    "y": "northing of the location's point",
    "geometry": "the location's point, as WKB",
    "bbox": "bounding box of the geometry, for spatial filters",
    "datetimes": "times of the samples, in UTC",
    "coordinates": "the locations' points, in the same order",
    "geom": "the location's point",
    "fid": "row number, required by the format",
    "area": "area that holds samples of the group, from some or all of its objects, as WKB",
    "lon_min": "western edge of the area",
    "lat_min": "southern edge",
    "lon_max": "eastern edge",
    "lat_max": "northern edge",
    "x_min": "western edge of the area",
    "y_min": "southern edge",
    "x_max": "eastern edge",
    "y_max": "northern edge",
    "during_begin": "start of the interval in which these samples fall",
    "during_end": "end of the interval, exclusive",
}

_TERMS = (
    "Rights in these data stay with the owner of the data, who decides who may use them and for "
    "what. The program that anonymized them adds no terms of its own. If you do not know what the "
    "owner allows, ask before you use or pass on this file."
)


def why_not_granted(guarantee: dict[str, Any]) -> str:
    """Why a release is not granted to analysts."""
    if may_be_granted(guarantee):
        return (
            "This release is held: its curator has not approved it yet (freqdp release approve). Until "
            "then, do not hand it out."
        )
    if guarantee["seeded"]:
        return (
            "The noise of this release was drawn from a seed: anyone who knows the seed can remove it. "
            "It is a release for tests. Do not hand it out."
        )
    return (
        "The method of this release adds no noise and guarantees nothing. It exists for comparison "
        "only. Do not hand it out."
    )


def catalog_document(catalog: dict[str, Any]) -> dict[str, Any]:
    """The catalogue's row as plain JSON values."""
    published = catalog["published_at"].astimezone(UTC)
    return {**catalog, "published_at": published.isoformat(timespec="seconds")}


def guarantee_document(
    catalog: dict[str, Any],
    target: Path,
    data: Path,
    format_name: str,
    system: ReferenceSystem | None,
    columns: list[str],
) -> dict[str, Any]:
    """The guarantee beside the file: the catalogue's row, and which file it speaks of."""
    with data.open("rb") as written:
        digest = hashlib.file_digest(written, "sha256").hexdigest()
    return {
        **catalog_document(catalog),
        "file": {
            "name": target.name,
            "format": format_name,
            "bytes": data.stat().st_size,
            "sha256": digest,
            "columns": columns,
            "srid": None if system is None else system.srid,
            "reference_system": None if system is None else system.crs.name,
            "exported_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "software": f"freqdp {freqdp_db.__version__}",
        },
    }


_MEDIA_TYPES = {
    "csv": "text/csv",
    "geoparquet": "application/vnd.apache.parquet",
    "gpkg": "application/geopackage+sqlite3",
    "mfjson": "application/geo+json",
}


def dcat_document(
    document: dict[str, Any],
    box: tuple[float, float, float, float] | None,
    system: ReferenceSystem | None,
) -> dict[str, Any]:
    """For data catalogues (DCAT 3, JSON-LD): what the file is. `document`: the guarantee beside it.

    box: of its rows, in its reference system.
    """
    file, guarantee = document["file"], document["guarantee"]
    spatial = {}
    if box is not None and system is not None:
        west, south, east, north = pyproj.Transformer.from_crs(
            system.crs, "EPSG:4326", always_xy=True
        ).transform_bounds(*box)
        ring = [(west, south), (east, south), (east, north), (west, north), (west, south)]
        corners = ", ".join(f"{x:.6f} {y:.6f}" for x, y in ring)
        spatial = {
            "dct:spatial": {
                "@type": "dct:Location",
                "dcat:bbox": {"@type": "geo:wktLiteral", "@value": f"POLYGON(({corners}))"},
            }
        }
    return {
        "@context": {
            "dcat": "http://www.w3.org/ns/dcat#",
            "dct": "http://purl.org/dc/terms/",
            "spdx": "http://spdx.org/rdf/terms#",
            "geo": "http://www.opengis.net/ont/geosparql#",
            "xsd": "http://www.w3.org/2001/XMLSchema#",
        },
        "@type": "dcat:Dataset",
        "dct:identifier": document["name"],
        "dct:title": f"{document['dataset']}, release {document['name']}",
        "dct:description": " ".join(
            [_use(document["method"]), *guarantee.get("notes", []), guarantee["plain"]]
        ),
        "dct:issued": {"@type": "xsd:dateTime", "@value": document["published_at"]},
        "dcat:version": str(document["version"]),
        "dct:accessRights": "see the README beside the file",
        **spatial,
        "dcat:distribution": {
            "@type": "dcat:Distribution",
            "dct:title": file["name"],
            "dcat:downloadURL": {"@id": file["name"]},
            "dcat:mediaType": _MEDIA_TYPES[file["format"]],
            "dcat:byteSize": file["bytes"],
            "spdx:checksum": {
                "@type": "spdx:Checksum",
                "spdx:algorithm": {"@id": "spdx:checksumAlgorithm_sha256"},
                "spdx:checksumValue": file["sha256"],
            },
        },
    }


def readme(document: dict[str, Any], rows: int, columns: Mapping[str, str]) -> str:
    """The text for a file that `document` (the guarantee beside it) describes.

    columns: what each is, where that is not known here.
    """
    file, guarantee = document["file"], document["guarantee"]
    areas = "during_begin" in file["columns"]
    parameters = ", ".join(
        f"{name} {value}"
        for name, value in sorted(document["parameters"].items())
        if value is not None
    )
    blocks = [
        f"{file['name']}: release {document['name']}, version {document['version']}, "
        f"of dataset {document['dataset']}, published {document['published_at']}. "
        f"{rows:,} {'areas' if areas else 'samples' if 'seq' in columns else 'rows'}. "
        f"Method {document['method']}: {parameters}."
    ]
    if document["series"] == document["name"]:
        blocks.append(
            f"This is a series: it has all windows from {document['time_window']} that were published "
            "when the file was written. window_start is the first day of a row's window. Trajectory ids "
            "are valid within one window only. The guarantee holds for each window separately."
        )
    if file["srid"] is not None:
        blocks.append(f"Reference system: {file['reference_system']} (SRID {file['srid']}).")
    if file["format"] == "gpkg":
        blocks.append(
            (
                "Three layers: `areas`, `samples` with the centres of the areas, "
                if areas
                else "Layers: `samples`, `trips` with a line for each trip, "
            )
            + "and `lines` with one line for each day of a trajectory that has at least two "
            "samples; the M of a line's points is the time in seconds since 1970-01-01 UTC."
        )
    if file["format"] == "mfjson":
        blocks.append(
            "OGC Moving Features JSON: a feature for each trajectory. Of samples with equal times only the "
            "first is written. Positions between samples are undefined (interpolation Discrete)."
        )
    if areas:
        blocks.append(
            "Use the areas and intervals, not the points: a point is only the centre of an area, "
            "and a time the start of an interval."
        )
    lines = [_title("What this is"), *_paragraphs(blocks)]
    lines += _items(f"{name}: {words or _COLUMNS[name]}" for name, words in columns.items())
    use = [_use(document["method"]), *guarantee.get("errors", [])]
    lines += [_title("What it may be used for"), *_paragraphs(use)]
    if guarantee.get("notes"):
        lines += [_title("How to read it"), *_items(guarantee["notes"])]
    if not document["granted"]:
        lines += [_title("NOT FOR HANDING OUT"), *_paragraphs([why_not_granted(guarantee)])]
    lines += [_title("What is guaranteed"), *_paragraphs([guarantee["plain"]])]
    lines += _items(map(_artefact, guarantee["artefacts"].values()))
    lines += [_title("What is assumed to be public"), *_items(guarantee["assumed_public"])]
    lines += [_title("What is not protected"), *_items(guarantee["not_protected"])]
    lines += [_title("Terms of use"), *_paragraphs([_TERMS])]
    written = (
        f"Written by {file['software']}. {file['name']}.guarantee.json has all of this as data. "
        f"SHA-256 of the file: {file['sha256']}"
    )
    lines += [_title("Where it comes from"), *_paragraphs([guarantee["origin"], written])]
    return "\n".join(lines).strip() + "\n"


def _use(method: str) -> str:
    """What a released trajectory is, and what may be done with it."""
    return find_method(method).for_analysts


def _artefact(artefact: dict[str, Any]) -> str:
    if artefact.get("k") is not None:
        return f"{artefact['title']}: as stated above; no epsilon is claimed."
    if artefact["claimed_epsilon"] is None:
        return f"{artefact['title']}: nothing is claimed."
    accounted = artefact["accounted_epsilon"]
    words = (
        f"{artefact['title']}: claimed epsilon {artefact['claimed_epsilon']}, accounted epsilon "
        f"{'none' if accounted is None else accounted}, for {artefact['unit']}, "
        f"{artefact['neighbouring']}; assumes that {artefact['assumes']}."
    )
    if "whole_user" in artefact:
        words += f" For a whole user: {artefact['whole_user']}."
    return words


def _title(text: str) -> str:
    return f"{text}\n{'-' * len(text)}"


_fill = partial(textwrap.fill, width=_WIDTH, break_long_words=False, break_on_hyphens=False)


def _paragraphs(texts: Iterable[str]) -> list[str]:
    return [_fill(text) + "\n" for text in texts]


def _items(texts: Iterable[str]) -> list[str]:
    return [*(_fill(t, initial_indent="- ", subsequent_indent="  ") for t in texts), ""]
