"""Roads of the database at work: the network of a table, and `freqdp match`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from freqdp_db.dataset.memory import load_build
from freqdp_db.db.connection import Database
from freqdp_db.db.copy import POSTGRES_EPOCH_US
from freqdp_db.db.datasets import DatasetRow
from freqdp_db.db.names import format_relation
from freqdp_db.db.plain_tables import Column, Mode, PlainTable, check_target, load_table
from freqdp_db.db.source import read_name
from freqdp_db.db.source_maps import column_mapping, read_roads
from freqdp_db.errors import BadInput
from freqdp_db.model.documents import Document
from freqdp_db.progress import Progress
from freqdp_db.roads.matching import match
from freqdp_db.roads.network import Network, find_candidates, make_network

_CHUNK = 1 << 18


@dataclass(frozen=True)
class RoadTable:
    """An edge table of anybody's, and which of its columns is which."""

    relation: tuple[str, str]
    mapping: Mapping[str, str]

    @classmethod
    def find(cls, database: Database, roads: str, pairs: Sequence[str] | None) -> RoadTable:
        """What --roads and --map say."""
        mapping = column_mapping(pairs or [])
        with database.begin() as connection:
            return cls(read_name(connection, roads, "[[roads]]"), mapping)

    def network(self, database: Database, srid: int, progress: Progress) -> Network:
        """Read it, in metres of the SRID."""
        with progress.stage("read roads") as stage, database.begin(snapshot=True) as connection:
            rows = read_roads(connection, self.relation, srid, self.mapping)
            stage.advance(len(rows))
        return make_network(rows)


def some_roads(
    database: Database, roads: str | None, pairs: Sequence[str] | None
) -> RoadTable | None:
    """The same where roads may be left out."""
    if roads is None and column_mapping(pairs or []):
        raise BadInput(
            "[[map]] is given without [[roads]]", remedy="name the edge table: [[roads]]"
        )
    return None if roads is None else RoadTable.find(database, roads, pairs)


@dataclass(frozen=True)
class MatchedDataset(Document):
    """What `freqdp match` did: samples on roads, in a table of yours."""

    table: str
    rows: int
    samples: int
    trajectories: int
    breaks: int
    driven_km: float
    beta_m: float
    seconds: dict[str, float]


def match_dataset(
    database: Database,
    dataset: DatasetRow,
    build_id: int,
    roads: RoadTable,
    into: tuple[str, str],
    mode: Mode,
    progress: Progress,
) -> MatchedDataset:
    """Match the current build and write the road of each sample that has one."""
    table = PlainTable(
        into,
        (
            Column(
                "trajectory_id", "int4", "As in the build; whose it is says its trajectory table."
            ),
            Column("seq", "int4", "Position in the trajectory, from 1."),
            Column("at", "timestamptz", "Time of the sample."),
            Column(
                "road_id", "int8", f"The road it was on, of {format_relation(*roads.relation)}."
            ),
        ),
        f"Samples of dataset {dataset.name} matched to roads by freqdp. Original data: not to publish.",
    )
    with database.begin() as connection:
        check_target(connection, table, mode)
    build = load_build(database, build_id, progress)
    network = roads.network(database, build.srid, progress)
    side, locations = build.trajectories, build.locations
    near = find_candidates(network, locations)
    found = match(network, near, side, locations, progress)
    owner = side.owner
    there = np.flatnonzero(found.road >= 0)

    with progress.stage("write matches", len(there)) as stage, database.begin() as connection:
        chunks = (there[i : i + _CHUNK] for i in range(0, len(there), _CHUNK))
        rows = load_table(
            connection,
            table,
            mode,
            (
                {
                    "trajectory_id": owner[part],
                    "seq": (part - side.offsets[owner[part]] + 1).astype(np.int32),
                    "at": side.at[part] + POSTGRES_EPOCH_US,
                    "road_id": network.road_id[found.road[part]],
                }
                for part in chunks
            ),
            stage.advance,
        )
    return MatchedDataset(
        table.label,
        rows,
        side.samples,
        len(side),
        found.breaks,
        float(network.graph.length[found.driven].sum()) / 1_000,
        found.beta_m,
        progress.seconds,
    )
