"""The tables of version 0.3.0."""

from __future__ import annotations

from freqdp_db.db.schema import run_revision

revision = "0005"
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
    unit text NOT NULL CHECK (unit IN ('occurrence', 'person')),
    CONSTRAINT account_source_unit_key UNIQUE (source_schema, source_relation, object_column, unit)
);
COMMENT ON TABLE ${private}.account IS 'One privacy budget per source relation and object column; dropping a dataset keeps it.';
COMMENT ON COLUMN ${private}.account.unit IS 'What its ledger counts for: epsilon for one occurrence (or incidence), or rho (zero-concentrated differential privacy) for a person with all data. These never add up.';

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
    region text,
    period text,
    max_exposure float8 CHECK (max_exposure > 0 AND max_exposure <= 1),
    CHECK (num_nulls(geom_column, lon_column, lat_column) IN (1, 2))
);
CREATE UNIQUE INDEX dataset_name_key ON ${private}.dataset (name) WHERE dropped_at IS NULL;
COMMENT ON TABLE ${private}.dataset IS 'A registered relation of the user, its column mapping and its discretisation.';
COMMENT ON COLUMN ${private}.dataset.srid IS 'Projected SRID in metres; NULL lets the build choose the UTM zone of the data.';
COMMENT ON COLUMN ${private}.dataset.current_build IS 'The build that the views show and the next release uses.';
COMMENT ON COLUMN ${private}.dataset.region IS 'Public: where the data may lie, as west,south,east,north in degrees, or as WKT of a polygon. Not read from the data.';
COMMENT ON COLUMN ${private}.dataset.period IS 'Public: when the data may lie, as two moments with a slash between them. Not read from the data.';
COMMENT ON COLUMN ${private}.dataset.max_exposure IS 'The largest exposure, as measured by freqdp evaluate, with which a release of it is granted to analysts. NULL: any. A measured limit, not a guarantee.';

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
    timings jsonb,
    kind text NOT NULL CHECK (kind IN ('edited', 'unlinked', 'generalised', 'synthetic')),
    parameters jsonb NOT NULL,
    grantable boolean NOT NULL,
    held boolean NOT NULL DEFAULT false,
    approved_at timestamptz,
    approved_by text
);
CREATE UNIQUE INDEX release_name_key ON ${private}.release (name) WHERE state IN ('running', 'published');
CREATE INDEX release_request_idx ON ${private}.release (request_hash);
COMMENT ON TABLE ${private}.release IS 'Every release that was ever asked for, with its parameters. The record outlives the table.';
COMMENT ON COLUMN ${private}.release.kind IS 'What a released trajectory is: edited (one object''s), unlinked (pieces of several), generalised (shared by several), synthetic (nobody''s).';
COMMENT ON COLUMN ${private}.release.parameters IS 'All parameters of the method, as request_parameters gives them.';
COMMENT ON COLUMN ${private}.release.grantable IS 'False if the noise was seeded or the method guarantees nothing: such a release is never granted to analysts.';
COMMENT ON COLUMN ${private}.release.held IS 'Published for curators only, until freqdp release approve grants it to analysts.';
COMMENT ON COLUMN ${private}.release.approved_at IS 'When a release that was held was granted to analysts.';
COMMENT ON COLUMN ${private}.release.approved_by IS 'The login that approved it.';
COMMENT ON COLUMN ${private}.release.user_level IS 'What a whole user costs, counted from the data. For the curator only.';

CREATE TABLE ${private}.release_step (
    release_id int NOT NULL REFERENCES ${private}.release,
    step smallint NOT NULL,
    mechanism text NOT NULL,
    drawn int NOT NULL,
    software text NOT NULL,
    digest text,
    counts jsonb,
    PRIMARY KEY (release_id, step)
);
COMMENT ON TABLE ${private}.release_step IS 'One step of a release: committed with its draw. The counts follow when it was carried out.';
COMMENT ON COLUMN ${private}.release_step.drawn IS 'How many values were drawn: targets of frequencies, for instance.';
COMMENT ON COLUMN ${private}.release_step.counts IS 'What the step did, in numbers.';
COMMENT ON COLUMN ${private}.release_step.digest IS 'Hash of the hashes of the trajectories after this step: a resumed run must arrive at the same.';

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
    amount numeric NOT NULL,
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
COMMENT ON COLUMN ${private}.spend.amount IS 'In the currency of the account: epsilon for occurrences, rho for persons.';

CREATE TABLE ${private}.metric (
    release_id int NOT NULL REFERENCES ${private}.release,
    name text NOT NULL,
    value float8 NOT NULL,
    publishable boolean NOT NULL DEFAULT false,
    seed bigint,
    measured_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (release_id, name)
);
COMMENT ON TABLE ${private}.metric IS 'What freqdp evaluate measured of a release. Most of it is counted in the original data: for the curator only.';
COMMENT ON COLUMN ${private}.metric.publishable IS 'Counted in the released table alone: whoever has it can count the same.';
COMMENT ON COLUMN ${private}.metric.seed IS 'What picked the samples, queries and resamples.';

CREATE TABLE ${release}.catalog (
    name text PRIMARY KEY,
    dataset text NOT NULL,
    method text NOT NULL,
    parameters jsonb NOT NULL,
    published_at timestamptz NOT NULL,
    version int NOT NULL,
    guarantee jsonb NOT NULL,
    granted boolean NOT NULL,
    rows bigint NOT NULL,
    ledger_head text NOT NULL,
    kind text NOT NULL
);
COMMENT ON TABLE ${release}.catalog IS 'The releases in this schema: what each is, how it was made, and what it guarantees.';
COMMENT ON COLUMN ${release}.catalog.guarantee IS 'Unit, neighbouring relation, claimed and accounted epsilon, assumptions and what is not protected.';
COMMENT ON COLUMN ${release}.catalog.kind IS 'What a released trajectory is: edited (one object''s, samples out and others in), unlinked (pieced together from several objects, do not follow one for long), generalised (areas and intervals that the samples of several objects lie in), synthetic (made up, nobody''s).';
COMMENT ON COLUMN ${release}.catalog.granted IS 'Whether analysts may read it. False: it is held until a curator approves it, the noise was seeded, or the method guarantees nothing. True says nothing about how much a table exposes: see guarantee.';
COMMENT ON COLUMN ${release}.catalog.ledger_head IS 'Hash of the ledger entry that paid for this release.';

CREATE TABLE ${private}.schedule (
    schedule_id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    dataset_id int NOT NULL REFERENCES ${private}.dataset,
    request jsonb NOT NULL,
    cron text NOT NULL,
    timezone text NOT NULL,
    next_at timestamptz NOT NULL,
    last_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    created_by text NOT NULL DEFAULT session_user,
    ended_at timestamptz,
    ended_reason text,
    CHECK ((ended_at IS NULL) = (ended_reason IS NULL))
);
CREATE UNIQUE INDEX schedule_dataset_key ON ${private}.schedule (dataset_id) WHERE ended_at IS NULL;
COMMENT ON TABLE ${private}.schedule IS 'When workers ask for a new release of a dataset by themselves.';
COMMENT ON COLUMN ${private}.schedule.request IS 'What is asked for, as request_document gives it.';
COMMENT ON COLUMN ${private}.schedule.cron IS 'Five fields: minute, hour, day of month, month, day of week.';
COMMENT ON COLUMN ${private}.schedule.next_at IS 'When it is due next. Times that pass while no worker runs are made up for once.';
COMMENT ON COLUMN ${private}.schedule.ended_reason IS 'Why it asks no more: the refusal of the budget, or who ended it.';

CREATE TABLE ${private}.job_queue (
    job_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    dataset_id int NOT NULL REFERENCES ${private}.dataset,
    schedule_id int REFERENCES ${private}.schedule,
    request jsonb NOT NULL,
    state text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'running', 'done', 'refused', 'failed', 'cancelled')),
    asked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    asked_by text NOT NULL DEFAULT session_user,
    due_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    attempts int NOT NULL DEFAULT 0,
    worker_id int,
    lease_until timestamptz,
    cancel_asked_by text,
    started_at timestamptz,
    ended_at timestamptz,
    build_id int REFERENCES ${private}.build,
    release_id int REFERENCES ${private}.release,
    error text,
    note text,
    CHECK ((state = 'running') = (lease_until IS NOT NULL))
);
CREATE INDEX job_queue_open_idx ON ${private}.job_queue (due_at) WHERE state IN ('waiting', 'running');
CREATE INDEX job_queue_dataset_idx ON ${private}.job_queue (dataset_id);
COMMENT ON TABLE ${private}.job_queue IS 'Releases that were asked for through request_release. Read it through the view job.';
COMMENT ON COLUMN ${private}.job_queue.request IS 'What is asked for, as request_document gives it.';
COMMENT ON COLUMN ${private}.job_queue.due_at IS 'Not to be started before: a failed attempt puts it off.';
COMMENT ON COLUMN ${private}.job_queue.lease_until IS 'The worker renews it while it lives; after it any worker takes the job over.';
COMMENT ON COLUMN ${private}.job_queue.build_id IS 'The build that was made for this job.';
COMMENT ON COLUMN ${private}.job_queue.release_id IS 'Recorded in the transaction that books the spend: whoever takes the job over goes on with it.';
COMMENT ON COLUMN ${private}.job_queue.note IS 'What somebody should know although the job is done.';

CREATE TABLE ${private}.job_progress (
    job_id bigint PRIMARY KEY REFERENCES ${private}.job_queue,
    phase text NOT NULL,
    done bigint NOT NULL,
    total bigint,
    unit text NOT NULL,
    phase_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL
);
COMMENT ON TABLE ${private}.job_progress IS 'How far running jobs are; written on a connection of its own. Read it through the view progress.';

CREATE TABLE ${private}.worker (
    worker_id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    host text NOT NULL,
    pid int NOT NULL,
    software text NOT NULL,
    listening boolean NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    stopped_at timestamptz
);
COMMENT ON TABLE ${private}.worker IS 'Processes that serve jobs.';
COMMENT ON COLUMN ${private}.worker.listening IS 'False: behind a pooler, where notifications do not arrive; it looks every 5 s.';
COMMENT ON COLUMN ${private}.worker.seen_at IS 'Last sign of life.';

CREATE TABLE ${private}.method (
    name text PRIMARY KEY,
    position int NOT NULL,
    declaration jsonb NOT NULL
);
COMMENT ON TABLE ${private}.method IS 'The methods of the installed software, with their parameters: what requests in SQL are checked by. Written by freqdp init.';
COMMENT ON COLUMN ${private}.method.declaration IS 'Kind, unit, what is spent, which kinds it may follow, and each parameter with its kind, range, default and help.';

CREATE TABLE ${private}.step_column (
    release_id int NOT NULL,
    step smallint NOT NULL,
    part text NOT NULL CHECK (part IN ('draw', 'log')),
    name text NOT NULL,
    chunk int NOT NULL,
    dtype text NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (release_id, step, part, name, chunk)
);
ALTER TABLE ${private}.step_column ALTER COLUMN data SET STORAGE EXTERNAL;
COMMENT ON TABLE ${private}.step_column IS 'Draws and logs of steps, column by column, but for those of frequencies, which have tables of their own (tf_target, pf_target, edit_run).';
COMMENT ON COLUMN ${private}.step_column.dtype IS 'Type of the elements, as NumPy writes it.';
"""
    )


def downgrade() -> None:
    raise RuntimeError("freqdp does not downgrade: restore a backup")
