"""A release as CSV."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
from numpy.typing import NDArray

from freqdp_db.dataset.projection import ReferenceSystem
from freqdp_db.progress import Progress
from freqdp_db.storage.published.reading import Extent, ReleaseReader

_MICROSECONDS = {"s": 1_000_000, "ms": 1000, "us": 1}


def csv_columns(system: ReferenceSystem, areas: bool) -> list[str]:
    axes = ("lon", "lat") if system.geographic else ("x", "y")
    if not areas:
        return ["trajectory_id", "seq", "at", *axes]
    sides = [f"{axis}_{end}" for end in ("min", "max") for axis in axes]
    return ["trajectory_id", "seq", "at", *axes, *sides, "during_begin", "during_end"]


def write_csv(
    path: Path, reader: ReleaseReader, extent: Extent, system: ReferenceSystem, progress: Progress
) -> int:
    """Columns trajectory_id, seq, at, and lon, lat (or x, y in a projected system); areas as sides."""
    names = csv_columns(system, reader.has_areas)
    kinds = [pa.int64(), pa.int64(), pa.string(), pa.float64(), pa.float64()]
    if reader.has_areas:
        kinds += [pa.float64()] * 4 + [pa.string()] * 2
    schema = pa.schema(zip(names, kinds, strict=True))
    options = pa_csv.WriteOptions(include_header=False, quoting_style="none")
    rows = 0
    with path.open("wb") as file, progress.stage("export samples", extent.rows) as stage:
        file.write((",".join(names) + "\n").encode())
        with (
            pa_csv.CSVWriter(file, schema, write_options=options) as writer,
            closing(reader.samples()) as chunks,
        ):
            for samples in chunks:
                unit: Literal["s", "us"] = "s" if extent.whole_seconds else "us"
                at = iso_times(samples.at_us, unit)
                columns = [samples.trajectory_id, samples.seq, at, samples.x, samples.y]
                if (areas := samples.areas) is not None:
                    columns += [areas.x_min, areas.y_min, areas.x_max, areas.y_max]
                    columns += [iso_times(t, unit) for t in (areas.begin_us, areas.end_us)]
                writer.write(pa.record_batch([pa.array(c) for c in columns], schema=schema))
                rows += len(samples)
                stage.advance(len(samples))
    return rows


def iso_times(at_us: NDArray[np.int64], unit: Literal["s", "ms", "us"]) -> Any:
    """ISO 8601 in UTC as an Arrow array, all of one length, rounded down to the unit."""
    at = pa.array(at_us // _MICROSECONDS[unit]).view(pa.timestamp(unit))
    text = pc.utf8_replace_slice(at.cast(pa.string()), 10, 11, "T")
    return pc.binary_join_element_wise(text, "Z", "")
