"""Foundation: datasets, builds, releases and the ledger."""

from __future__ import annotations

from freqdp_db.storage.schema.revisions import run_revision

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_revision(
        """
CREATE TABLE ${private}.sql_object (
    position int PRIMARY KEY,
    path text NOT NULL UNIQUE,
    identity text NOT NULL,
    kind text NOT NULL,
    hash text NOT NULL
);
COMMENT ON TABLE ${private}.sql_object IS 'Replaceable objects (views, functions, procedures) applied from sql/, in order, with the hash of their text.';

CREATE TABLE ${private}.account (
    account_id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source_schema text NOT NULL,
    source_relation text NOT NULL,
    object_column text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (source_schema, source_relation, object_column)
);
COMMENT ON TABLE ${private}.account IS 'One privacy budget per source relation and object column; dropping a dataset keeps it.';

CREATE TABLE ${private}.dataset (
    dataset_id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    account_id int NOT NULL REFERENCES ${private}.account,
    source_schema text NOT NULL,
    source_relation text NOT NULL,
    object_column text NOT NULL,
    time_column text NOT NULL,
    geom_column text,
    lon_column text,
    lat_column text,
    source_srid int NOT NULL,
    srid int,
    snap text NOT NULL,
    timezone text NOT NULL,
    filter text,
    current_build int,
    created_at timestamptz NOT NULL DEFAULT now(),
    created_by text NOT NULL DEFAULT current_user,
    dropped_at timestamptz,
    CHECK (num_nulls(geom_column, lon_column, lat_column) IN (1, 2))
);
CREATE UNIQUE INDEX dataset_name_key ON ${private}.dataset (name) WHERE dropped_at IS NULL;
COMMENT ON TABLE ${private}.dataset IS 'A registered relation of the user, its column mapping and its discretisation.';
COMMENT ON COLUMN ${private}.dataset.srid IS 'Projected SRID in metres; NULL lets the build choose the UTM zone of the data.';
COMMENT ON COLUMN ${private}.dataset.current_build IS 'The build that the views show and the next release uses.';

CREATE TABLE ${private}.build (
    build_id int PRIMARY KEY,
    dataset_id int NOT NULL REFERENCES ${private}.dataset,
    snapshot_at timestamptz NOT NULL,
    built_at timestamptz NOT NULL DEFAULT now(),
    rows bigint NOT NULL,
    excluded jsonb NOT NULL,
    trajectories int NOT NULL,
    samples bigint NOT NULL,
    locations int NOT NULL,
    segments bigint NOT NULL,
    source_srid int NOT NULL,
    srid int NOT NULL,
    snap text NOT NULL,
    time_step_us bigint NOT NULL,
    median_gap_us bigint NOT NULL,
    grid jsonb NOT NULL,
    fingerprint text NOT NULL,
    software text NOT NULL,
    dropped_at timestamptz
);
CREATE SEQUENCE ${private}.build_number AS int;
COMMENT ON SEQUENCE ${private}.build_number IS 'Numbers builds, also those that never finish.';
ALTER TABLE ${private}.dataset ADD FOREIGN KEY (current_build) REFERENCES ${private}.build;
COMMENT ON TABLE ${private}.build IS 'One consistent copy of a dataset: samples, locations, segments and grid, as of snapshot_at.';
COMMENT ON COLUMN ${private}.build.rows IS 'Rows that the source relation gave, before cleaning.';
COMMENT ON COLUMN ${private}.build.excluded IS 'Rows left out, counted by reason.';
COMMENT ON COLUMN ${private}.build.fingerprint IS 'SHA-256 over the built arrays and the discretisation.';
COMMENT ON COLUMN ${private}.build.dropped_at IS 'When the data of this build was removed; the record stays.';

CREATE TABLE ${private}.trajectory (
    build_id int NOT NULL,
    trajectory_id int NOT NULL,
    object_key text NOT NULL,
    samples int NOT NULL,
    places int NOT NULL,
    PRIMARY KEY (build_id, trajectory_id)
) PARTITION BY LIST (build_id);
COMMENT ON TABLE ${private}.trajectory IS 'One trajectory per object: all its samples in time order.';
COMMENT ON COLUMN ${private}.trajectory.object_key IS 'The object column of the source, as text. Private.';
COMMENT ON COLUMN ${private}.trajectory.places IS 'Number of distinct locations.';

CREATE TABLE ${private}.location (
    build_id int NOT NULL,
    location_id int NOT NULL,
    x_m float8 NOT NULL,
    y_m float8 NOT NULL,
    tf int NOT NULL,
    geom ${postgis}.geometry NOT NULL,
    PRIMARY KEY (build_id, location_id)
) PARTITION BY LIST (build_id);
COMMENT ON TABLE ${private}.location IS 'Discrete places. x_m, y_m: metres in the projected SRID; geom: the same point in the SRID of the source.';
COMMENT ON COLUMN ${private}.location.tf IS 'Trajectory frequency: how many trajectories visit the place.';

CREATE TABLE ${private}.sample (
    build_id int NOT NULL,
    trajectory_id int NOT NULL,
    seq int NOT NULL,
    location_id int NOT NULL,
    at timestamptz NOT NULL,
    PRIMARY KEY (build_id, trajectory_id, seq)
) PARTITION BY LIST (build_id);
COMMENT ON TABLE ${private}.sample IS 'One occurrence in a trajectory; seq counts from 1 in time order.';

CREATE TABLE ${private}.segment (
    build_id int NOT NULL,
    trajectory_id int NOT NULL,
    seq int NOT NULL,
    cell_id bigint NOT NULL,
    from_location int NOT NULL,
    to_location int NOT NULL,
    occurrences int NOT NULL,
    geom ${postgis}.geometry NOT NULL
) PARTITION BY LIST (build_id);
CREATE INDEX segment_cell_idx ON ${private}.segment (build_id, cell_id);
COMMENT ON TABLE ${private}.segment IS 'Two consecutive samples; equal segments of one trajectory are kept once. In order of cell_id.';
COMMENT ON COLUMN ${private}.segment.seq IS 'seq of the first sample of its first occurrence.';
COMMENT ON COLUMN ${private}.segment.occurrences IS 'How often the trajectory travels it.';
COMMENT ON COLUMN ${private}.segment.geom IS 'LineString in the projected SRID.';

CREATE TABLE ${private}.grid_cell (
    build_id int NOT NULL,
    cell_id bigint NOT NULL,
    level smallint NOT NULL,
    parent_id bigint,
    x_min float8 NOT NULL,
    y_min float8 NOT NULL,
    x_max float8 NOT NULL,
    y_max float8 NOT NULL,
    tree_x_min float8 NOT NULL,
    tree_y_min float8 NOT NULL,
    tree_x_max float8 NOT NULL,
    tree_y_max float8 NOT NULL,
    segments int NOT NULL,
    tree_segments int NOT NULL,
    PRIMARY KEY (build_id, cell_id)
) PARTITION BY LIST (build_id);
COMMENT ON TABLE ${private}.grid_cell IS 'The hierarchical grid: occupied cells and their ancestors. The root is 1, the children of c are 4c to 4c+3.';
COMMENT ON COLUMN ${private}.grid_cell.x_min IS 'Tight bounds of the segments filed in this cell itself; empty (min > max) if there are none.';
COMMENT ON COLUMN ${private}.grid_cell.tree_x_min IS 'Tight bounds of all segments in this cell and below it.';

CREATE TABLE ${private}.release (
    release_id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    dataset_id int NOT NULL REFERENCES ${private}.dataset,
    build_id int NOT NULL REFERENCES ${private}.build,
    method text NOT NULL,
    epsilon_global numeric NOT NULL,
    epsilon_local numeric NOT NULL,
    signature_size int NOT NULL,
    options jsonb NOT NULL,
    private boolean NOT NULL,
    request_hash text NOT NULL,
    state text NOT NULL CHECK (state IN ('running', 'published', 'withdrawn', 'abandoned')),
    version int,
    software text NOT NULL,
    requested_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    requested_by text NOT NULL DEFAULT current_user,
    published_at timestamptz,
    withdrawn_at timestamptz,
    rows bigint,
    guarantee jsonb NOT NULL,
    user_level jsonb,
    timings jsonb
);
CREATE UNIQUE INDEX release_name_key ON ${private}.release (name) WHERE state IN ('running', 'published');
CREATE INDEX release_request_idx ON ${private}.release (request_hash);
COMMENT ON TABLE ${private}.release IS 'Every release that was ever asked for, with its parameters. The record outlives the table.';
COMMENT ON COLUMN ${private}.release.private IS 'False if the noise was seeded: such a release is never granted to analysts.';
COMMENT ON COLUMN ${private}.release.user_level IS 'What a whole user costs, counted from the data. For the curator only.';

CREATE TABLE ${private}.release_step (
    release_id int NOT NULL REFERENCES ${private}.release,
    step smallint NOT NULL,
    mechanism text NOT NULL,
    targets int NOT NULL,
    software text NOT NULL,
    deletions bigint,
    insertions bigint,
    deletion_loss_m float8,
    insertion_loss_m float8,
    digest text,
    PRIMARY KEY (release_id, step)
);
COMMENT ON TABLE ${private}.release_step IS 'One mechanism of a release: committed with its targets; the counts follow when its edits are done.';
COMMENT ON COLUMN ${private}.release_step.digest IS 'SHA-256 of the trajectories after this step: a resumed run must arrive at the same.';

CREATE TABLE ${private}.release_key (
    release_id int NOT NULL,
    trajectory_id int NOT NULL,
    released_id bigint NOT NULL,
    PRIMARY KEY (release_id, trajectory_id)
);
COMMENT ON TABLE ${private}.release_key IS 'Links released ids to trajectories: whoever reads it undoes the pseudonyms.';

CREATE TABLE ${private}.tf_target (
    release_id int NOT NULL,
    step smallint NOT NULL,
    location_id int NOT NULL,
    tf int NOT NULL,
    target int NOT NULL,
    PRIMARY KEY (release_id, step, location_id)
);
COMMENT ON TABLE ${private}.tf_target IS 'Perturbed trajectory frequencies (Alg. 1) that the edits must reach.';

CREATE TABLE ${private}.pf_target (
    release_id int NOT NULL,
    step smallint NOT NULL,
    trajectory_id int NOT NULL,
    location_id int NOT NULL,
    stage smallint NOT NULL,
    rank smallint NOT NULL,
    pf int NOT NULL,
    target int NOT NULL,
    PRIMARY KEY (release_id, step, trajectory_id, location_id)
);
COMMENT ON TABLE ${private}.pf_target IS 'Perturbed point frequencies (Alg. 2) with the point list: stage 1 is the signature, stage 2 the rest.';

CREATE TABLE ${private}.edit_run (
    release_id int NOT NULL,
    step smallint NOT NULL,
    operation text NOT NULL CHECK (operation IN ('d', 'i')),
    trajectory_id int NOT NULL,
    location_id int NOT NULL,
    seq int[] NOT NULL,
    loss_m float8[] NOT NULL,
    PRIMARY KEY (release_id, step, operation, trajectory_id, location_id)
);
ALTER TABLE ${private}.edit_run ALTER COLUMN seq SET STORAGE EXTERNAL, ALTER COLUMN loss_m SET STORAGE EXTERNAL;
COMMENT ON TABLE ${private}.edit_run IS 'The edit log: all deletions (d) or insertions (i) of one place in one trajectory by one mechanism.';
COMMENT ON COLUMN ${private}.edit_run.seq IS 'Position in the mechanism''s input: of the deleted sample, or of the sample after which one is inserted (0: the trajectory was empty).';
COMMENT ON COLUMN ${private}.edit_run.loss_m IS 'Utility loss of each edit in metres, rounded to 1 mm.';

CREATE TABLE ${private}.spend (
    spend_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account_id int NOT NULL REFERENCES ${private}.account,
    entry int NOT NULL,
    kind text NOT NULL CHECK (kind IN ('grant', 'spend')),
    epsilon numeric NOT NULL,
    release_id int REFERENCES ${private}.release,
    reason text NOT NULL,
    actor text NOT NULL,
    at timestamptz NOT NULL,
    previous_hash text NOT NULL,
    hash text NOT NULL,
    UNIQUE (account_id, entry),
    UNIQUE (release_id)
);
COMMENT ON TABLE ${private}.spend IS 'The ledger: append-only, hash-chained per account, written only through ${private}.book_spend and ${private}.grant_budget. It limits draws; it does not bound what the tables reveal.';

CREATE TABLE ${private}.metric (
    release_id int NOT NULL REFERENCES ${private}.release,
    name text NOT NULL,
    value float8 NOT NULL,
    PRIMARY KEY (release_id, name)
);
COMMENT ON TABLE ${private}.metric IS 'Counts and measures of a release, taken from the original data: for the curator only.';

CREATE TABLE ${release}.catalog (
    name text PRIMARY KEY,
    dataset text NOT NULL,
    method text NOT NULL,
    parameters jsonb NOT NULL,
    published_at timestamptz NOT NULL,
    version int NOT NULL,
    guarantee jsonb NOT NULL,
    private boolean NOT NULL,
    rows bigint NOT NULL,
    ledger_head text NOT NULL
);
COMMENT ON TABLE ${release}.catalog IS 'The releases in this schema: what each is, how it was made, and what it guarantees.';
COMMENT ON COLUMN ${release}.catalog.guarantee IS 'Unit, neighbouring relation, claimed and accounted epsilon, assumptions and what is not protected.';
COMMENT ON COLUMN ${release}.catalog.private IS 'False: the noise was seeded and can be subtracted. For tests only.';
COMMENT ON COLUMN ${release}.catalog.ledger_head IS 'Hash of the ledger entry that paid for this release.';
"""
    )


def downgrade() -> None:
    raise RuntimeError("freqdp does not downgrade: restore a backup")
