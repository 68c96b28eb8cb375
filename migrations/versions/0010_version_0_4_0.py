"""What 0.4.0 keeps that 0.3.0 did not: populations, relations, typed draws, windows and series, counts."""

from __future__ import annotations

from freqdp_db.db.schema import run_revision

revision = "0010"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Of step_column, `bits` is each value as a whole number, from its bytes, the lowest first. `||` and OFFSET:
    # the bytes are read once.
    run_revision(
        """
-- Populations with budgets, declared time units, locks that only our roles can take, bounds on what jobs may hold.

ALTER TABLE ${private}.dataset
    ADD COLUMN time_unit text CHECK (time_unit IN ('s', 'ms', 'us', 'ns'));
COMMENT ON COLUMN ${private}.dataset.time_unit IS 'What epoch numbers count, as the owner declared. NULL: their times are timestamps, or the unit is guessed from all rows.';

ALTER TABLE ${private}.build
    ADD COLUMN time_unit text CHECK (time_unit IN ('timestamp', 's', 'ms', 'us', 'ns', 'guessed'));
COMMENT ON COLUMN ${private}.build.time_unit IS 'How times were read: timestamp, the declared unit of epoch numbers, or guessed from all rows. NULL: made by an earlier version, which did not keep rows apart as a guarantee for persons needs it.';

CREATE TABLE ${private}.population (
    population_id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text UNIQUE,
    created_at timestamptz NOT NULL DEFAULT now(),
    merged_into int REFERENCES ${private}.population,
    first_account int
);
COMMENT ON TABLE ${private}.population IS 'Whose data is counted together: one budget for each unit, whichever tables and columns it is read from.';
COMMENT ON COLUMN ${private}.population.name IS 'As the owner of the data calls it (dataset add --persons). NULL: it was not named.';
COMMENT ON COLUMN ${private}.population.merged_into IS 'The population that counts what this one had spent, since both were given one name.';

CREATE TABLE ${private}.population_source (
    population_id int NOT NULL REFERENCES ${private}.population,
    database_key text NOT NULL,
    relation_oid bigint NOT NULL,
    source_schema text NOT NULL,
    source_relation text NOT NULL,
    object_column text NOT NULL,
    met_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (population_id, database_key, relation_oid, source_schema, source_relation, object_column)
);
COMMENT ON TABLE ${private}.population_source IS 'Every relation that a population was ever read from or through, by OID and by name: a table that is renamed, moved, detached or made anew stays with its budget.';
COMMENT ON COLUMN ${private}.population_source.database_key IS 'The database that the OID is of: a restored one has others.';
COMMENT ON COLUMN ${private}.population_source.relation_oid IS 'OID of the relation; 0: it was gone when this was recorded, only its name is known.';
COMMENT ON COLUMN ${private}.population_source.object_column IS 'The column of objects, if the relation has a column of that name; else empty.';

CREATE TABLE ${private}.build_source (
    build_id int NOT NULL REFERENCES ${private}.build,
    database_key text NOT NULL,
    relation_oid bigint NOT NULL,
    source_schema text NOT NULL,
    source_relation text NOT NULL,
    PRIMARY KEY (build_id, database_key, relation_oid)
);
COMMENT ON TABLE ${private}.build_source IS 'The relations that a build was read from and through: its releases are booked on the budget of these.';

ALTER TABLE ${private}.account ADD COLUMN population_id int REFERENCES ${private}.population;
INSERT INTO ${private}.population (first_account)
SELECT min(a.account_id) FROM ${private}.account AS a
GROUP BY a.source_schema, a.source_relation, a.object_column
ORDER BY 1;
UPDATE ${private}.account AS a SET population_id = p.population_id
FROM ${private}.population AS p JOIN ${private}.account AS f ON f.account_id = p.first_account
WHERE f.source_schema = a.source_schema AND f.source_relation = a.source_relation AND f.object_column = a.object_column;
ALTER TABLE ${private}.population DROP COLUMN first_account;
ALTER TABLE ${private}.account
    ALTER COLUMN population_id SET NOT NULL,
    DROP CONSTRAINT account_source_unit_key,
    ADD CONSTRAINT account_population_unit_key UNIQUE (population_id, unit);
COMMENT ON TABLE ${private}.account IS 'One privacy budget for each population and unit; dropping a dataset keeps it.';
COMMENT ON COLUMN ${private}.account.source_relation IS 'The relation that it was opened for. population_source has all that it is booked for.';

INSERT INTO ${private}.population_source
    (population_id, database_key, relation_oid, source_schema, source_relation, object_column)
SELECT a.population_id, '', 0, a.source_schema, a.source_relation, a.object_column FROM ${private}.account AS a
UNION
SELECT a.population_id, '', 0, d.source_schema, d.source_relation, d.object_column
FROM ${private}.dataset AS d JOIN ${private}.account AS a ON a.account_id = d.account_id;

INSERT INTO ${private}.population_source
    (population_id, database_key, relation_oid, source_schema, source_relation, object_column)
WITH RECURSIVE behind (population_id, object_column, oid) AS (
    SELECT s.population_id, s.object_column, c.oid
    FROM ${private}.population_source AS s
    JOIN pg_catalog.pg_namespace AS n ON n.nspname = s.source_schema
    JOIN pg_catalog.pg_class AS c ON c.relnamespace = n.oid AND c.relname = s.source_relation
        AND c.relkind IN ('r', 'p', 'f', 'v', 'm')
    UNION
    SELECT b.population_id, b.object_column, next.oid
    FROM behind AS b
    CROSS JOIN LATERAL (
        SELECT d.refobjid
        FROM pg_catalog.pg_class AS v
        JOIN pg_catalog.pg_rewrite AS w ON w.ev_class = v.oid
        JOIN pg_catalog.pg_depend AS d ON d.classid = 'pg_catalog.pg_rewrite'::regclass AND d.objid = w.oid
            AND d.refclassid = 'pg_catalog.pg_class'::regclass AND d.refobjid <> v.oid
        WHERE v.oid = b.oid AND v.relkind IN ('v', 'm')
        UNION ALL
        SELECT i.inhparent FROM pg_catalog.pg_inherits AS i WHERE i.inhrelid = b.oid
        UNION ALL
        SELECT i.inhrelid FROM pg_catalog.pg_inherits AS i WHERE i.inhparent = b.oid
    ) AS next (oid)
)
SELECT b.population_id, concat(system.system_identifier, '.', own.oid), c.oid::bigint, n.nspname::text, c.relname::text,
    CASE WHEN EXISTS (
        SELECT FROM pg_catalog.pg_attribute AS t
        WHERE t.attrelid = c.oid AND t.attname = b.object_column AND NOT t.attisdropped
    ) THEN b.object_column ELSE '' END
FROM behind AS b
JOIN pg_catalog.pg_class AS c ON c.oid = b.oid
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
CROSS JOIN pg_catalog.pg_control_system() AS system
JOIN pg_catalog.pg_database AS own ON own.datname = current_database()
WHERE c.relkind IN ('r', 'p', 'f', 'v', 'm')
    AND n.nspname NOT IN ('pg_catalog', 'information_schema')
    AND NOT EXISTS (
        SELECT FROM pg_catalog.pg_depend AS e
        WHERE e.classid = 'pg_catalog.pg_class'::regclass AND e.objid = c.oid AND e.deptype = 'e'
    )
ON CONFLICT DO NOTHING;

ALTER TABLE ${private}.spend
    DROP CONSTRAINT spend_kind_check,
    ADD CONSTRAINT spend_kind_check CHECK (kind IN ('grant', 'spend', 'merge'));
COMMENT ON COLUMN ${private}.spend.kind IS 'grant: it may spend so much more. spend: a release. merge: what a budget had spent that was merged into this one.';
COMMENT ON TABLE ${private}.spend IS 'The ledger: append-only, hash-chained per account, written only through functions of ${private}. It limits draws; it does not bound what the tables reveal.';

ALTER TABLE ${private}.release ALTER COLUMN requested_by SET DEFAULT session_user;

-- a change of a column's type, to the same type, forgets the statistics of its partitions
ALTER TABLE ${private}.location ALTER COLUMN geom TYPE ${postgis}.geometry;
ALTER TABLE ${private}.segment ALTER COLUMN geom TYPE ${postgis}.geometry;
ALTER TABLE ${private}.location ALTER COLUMN geom SET STATISTICS 0;
ALTER TABLE ${private}.segment ALTER COLUMN geom SET STATISTICS 0;

CREATE TABLE ${private}.lock (
    kind text NOT NULL,
    number int NOT NULL,
    PRIMARY KEY (kind, number)
);
COMMENT ON TABLE ${private}.lock IS 'Who works on what: a session locks the row (FOR UPDATE) of a dataset, build, release or request while it works on it.';

ALTER TABLE ${private}.release DROP CONSTRAINT release_state_check;
ALTER TABLE ${private}.release ADD CONSTRAINT release_state_check
    CHECK (state IN ('running', 'published', 'withdrawing', 'withdrawn', 'abandoned'));
COMMENT ON COLUMN ${private}.release.state IS 'running, published, withdrawing (analysts cannot read it any more, its tables are dropped as soon as nothing is in the way), withdrawn or abandoned.';

-- records that no program can read are ended or forgotten before such records are ruled out
UPDATE ${private}.job_queue
SET state = 'refused', request = '{}', attempts = 0, asked_at = now(), due_at = now(), lease_until = NULL,
    started_at = NULL, ended_at = now(), error = 'its record could not be read'
WHERE NOT (jsonb_typeof(request) = 'object' AND octet_length(request::text) <= 1000000)
    OR jsonb_path_exists(request, '$.**{4}')
    OR attempts NOT BETWEEN 0 AND 1000000
    OR EXISTS (SELECT FROM unnest(ARRAY[asked_at, due_at, lease_until, started_at, ended_at]) AS t WHERE t NOT BETWEEN '1970-01-01Z' AND '9000-01-01Z');
ALTER TABLE ${private}.job_queue
    ADD CONSTRAINT job_queue_request_check CHECK (
        jsonb_typeof(request) = 'object' AND octet_length(request::text) <= 1000000 AND NOT jsonb_path_exists(request, '$.**{4}')
    ),
    ADD CONSTRAINT job_queue_attempts_check CHECK (attempts BETWEEN 0 AND 1000000),
    ADD CONSTRAINT job_queue_times_check CHECK (
        asked_at BETWEEN '1970-01-01Z' AND '9000-01-01Z' AND due_at BETWEEN '1970-01-01Z' AND '9000-01-01Z'
        AND lease_until BETWEEN '1970-01-01Z' AND '9000-01-01Z' AND started_at BETWEEN '1970-01-01Z' AND '9000-01-01Z'
        AND ended_at BETWEEN '1970-01-01Z' AND '9000-01-01Z'
    );

UPDATE ${private}.schedule
SET request = '{}', cron = left(cron, 200), timezone = left(timezone, 200), next_at = now(), last_at = NULL,
    created_at = now(), ended_at = now(), ended_reason = 'its record could not be read'
WHERE NOT (jsonb_typeof(request) = 'object' AND octet_length(request::text) <= 1000000)
    OR jsonb_path_exists(request, '$.**{4}')
    OR length(cron) > 200 OR length(timezone) > 200
    OR EXISTS (SELECT FROM unnest(ARRAY[next_at, last_at, created_at, ended_at]) AS t WHERE t NOT BETWEEN '1970-01-01Z' AND '9000-01-01Z');
ALTER TABLE ${private}.schedule
    ADD CONSTRAINT schedule_request_check CHECK (
        jsonb_typeof(request) = 'object' AND octet_length(request::text) <= 1000000 AND NOT jsonb_path_exists(request, '$.**{4}')
    ),
    ADD CONSTRAINT schedule_when_check CHECK (length(cron) <= 200 AND length(timezone) <= 200),
    ADD CONSTRAINT schedule_times_check CHECK (
        next_at BETWEEN '1970-01-01Z' AND '9000-01-01Z' AND last_at BETWEEN '1970-01-01Z' AND '9000-01-01Z'
        AND created_at BETWEEN '1970-01-01Z' AND '9000-01-01Z' AND ended_at BETWEEN '1970-01-01Z' AND '9000-01-01Z'
    );

DELETE FROM ${private}.worker
WHERE EXISTS (SELECT FROM unnest(ARRAY[started_at, seen_at, stopped_at]) AS t WHERE t NOT BETWEEN '1970-01-01Z' AND '9000-01-01Z');
ALTER TABLE ${private}.worker ADD CONSTRAINT worker_times_check CHECK (
    started_at BETWEEN '1970-01-01Z' AND '9000-01-01Z' AND seen_at BETWEEN '1970-01-01Z' AND '9000-01-01Z'
    AND stopped_at BETWEEN '1970-01-01Z' AND '9000-01-01Z'
);

DELETE FROM ${private}.job_progress
WHERE EXISTS (SELECT FROM unnest(ARRAY[phase_at, updated_at]) AS t WHERE t NOT BETWEEN '1970-01-01Z' AND '9000-01-01Z');
ALTER TABLE ${private}.job_progress ADD CONSTRAINT job_progress_times_check CHECK (
    phase_at BETWEEN '1970-01-01Z' AND '9000-01-01Z' AND updated_at BETWEEN '1970-01-01Z' AND '9000-01-01Z'
);

-- A release is a list of relations, and remembers what of them was verified.

ALTER TABLE ${private}.release ADD COLUMN relations text[];
COMMENT ON COLUMN ${private}.release.relations IS 'Its tables and views, once they are published: what follows the release''s name in theirs.';
ALTER TABLE ${private}.release ADD COLUMN digests jsonb;
COMMENT ON COLUMN ${private}.release.digests IS 'What was verified last: the number of rows and a digest of each table, and a digest of the replayed state that it was compared with.';
UPDATE ${private}.release AS r SET relations = ARRAY(
    SELECT part FROM unnest(ARRAY['', '_line', '_trip']) AS part
    WHERE part <> '_trip' OR to_regclass(format('%I.%I', ${release:name}, r.name || '_trip')) IS NOT NULL
)
WHERE r.state IN ('published', 'withdrawing');

ALTER TABLE ${release}.catalog ADD COLUMN relations text[];
COMMENT ON COLUMN ${release}.catalog.relations IS 'The tables and views of the release, in this schema.';
UPDATE ${release}.catalog AS c SET relations = (
    SELECT array_agg(r.name || part.suffix ORDER BY part.place)
    FROM ${private}.release AS r, unnest(r.relations) WITH ORDINALITY AS part (suffix, place)
    WHERE r.name = c.name AND r.state = 'published'
);
UPDATE ${release}.catalog SET relations = ARRAY[name, name || '_line'] WHERE relations IS NULL;
ALTER TABLE ${release}.catalog ALTER COLUMN relations SET NOT NULL;

-- Draws and logs as arrays that SQL can read, instead of bytes.

ALTER TABLE ${private}.step_column ADD COLUMN whole bigint[], ADD COLUMN number float8[];
ALTER TABLE ${private}.step_column ALTER COLUMN whole SET STORAGE EXTERNAL, ALTER COLUMN number SET STORAGE EXTERNAL;
UPDATE ${private}.step_column AS c SET whole = (
    SELECT ARRAY(
        SELECT CASE WHEN b.bits >= 0 AND substr(c.dtype, 2, 1) = 'i' AND d.width < 8
            THEN b.bits - ((b.bits & (1::bigint << (8 * d.width - 1))) << 1) ELSE b.bits END
        FROM (
        SELECT i AS place, (
            SELECT bit_or(get_byte(d.bytes, i * d.width + k)::bigint << (8 * k)) FROM generate_series(0, d.width - 1) AS k
        ) AS bits
        FROM generate_series(0, octet_length(d.bytes) / d.width - 1) AS i
        ) AS b
    )
    FROM (SELECT c.data || ''::bytea AS bytes, right(c.dtype, 1)::int AS width OFFSET 0) AS d
)
WHERE substr(c.dtype, 2, 1) <> 'f';
UPDATE ${private}.step_column AS c SET number = (
    SELECT ARRAY(
        SELECT (CASE WHEN b.bits < 0 THEN -1 ELSE 1 END)::float8 * CASE (b.bits >> 52) & 2047
            WHEN 2047 THEN CASE WHEN b.bits & 4503599627370495 = 0 THEN 'Infinity' ELSE 'NaN' END::float8
            WHEN 0 THEN (b.bits & 4503599627370495)::float8 * 4.9406564584124654e-324::float8
            ELSE (4503599627370496 | (b.bits & 4503599627370495))::float8 * power(2::float8, (((b.bits >> 52) & 2047) - 1075)::float8)
        END
        FROM (
        SELECT i AS place, (
            SELECT bit_or(get_byte(d.bytes, i * d.width + k)::bigint << (8 * k)) FROM generate_series(0, d.width - 1) AS k
        ) AS bits
        FROM generate_series(0, octet_length(d.bytes) / d.width - 1) AS i
        ) AS b
    )
    FROM (SELECT c.data || ''::bytea AS bytes, right(c.dtype, 1)::int AS width OFFSET 0) AS d
)
WHERE substr(c.dtype, 2, 1) = 'f';
ALTER TABLE ${private}.step_column DROP COLUMN data, ADD CHECK (num_nonnulls(whole, number) = 1);
COMMENT ON COLUMN ${private}.step_column.dtype IS 'Type of the elements, as NumPy writes it: what whole and number are read back as.';

-- Units of a person and a time, windows of a dataset, and series of releases.

ALTER TABLE ${private}.population
    ADD COLUMN unit text NOT NULL DEFAULT 'person' CHECK (unit IN ('person', 'person-day', 'person-week', 'person-month')),
    ADD COLUMN timezone text NOT NULL DEFAULT 'UTC';
COMMENT ON COLUMN ${private}.population.unit IS 'What guarantees for its persons are for: all data of a person, or what lies in one day, week (from Monday) or month.';
COMMENT ON COLUMN ${private}.population.timezone IS 'The zone whose days, weeks and months these are.';

ALTER TABLE ${private}.build
    ADD COLUMN time_window text,
    ADD COLUMN window_begin timestamptz,
    ADD COLUMN window_end timestamptz,
    ADD CHECK (num_nonnulls(time_window, window_begin, window_end) IN (0, 3) AND window_begin < window_end);
COMMENT ON COLUMN ${private}.build.time_window IS 'The day (2024-05-06), week (2024-W19) or month (2024-05) whose rows were read, in the time zone of the dataset. NULL: all rows.';
COMMENT ON COLUMN ${private}.build.window_begin IS 'Where that begins.';
COMMENT ON COLUMN ${private}.build.window_end IS 'Where it ends: not in it.';

ALTER TABLE ${private}.spend ADD COLUMN during tstzrange;
COMMENT ON COLUMN ${private}.spend.during IS 'The time whose data it was spent on, in whole units. NULL: all of it. What is spent on times that do not overlap does not add up.';

ALTER TABLE ${private}.release ADD COLUMN series text;
COMMENT ON COLUMN ${private}.release.series IS 'The series whose window it is. NULL: it stands by itself.';

ALTER TABLE ${private}.schedule ADD COLUMN next_window text;
COMMENT ON COLUMN ${private}.schedule.next_window IS 'The window that is asked for next, once it has ended. NULL: releases of all rows.';

ALTER TABLE ${release}.catalog ADD COLUMN time_window text, ADD COLUMN series text;
COMMENT ON COLUMN ${release}.catalog.time_window IS 'The day, week or month that the release covers. NULL: all data.';
COMMENT ON COLUMN ${release}.catalog.series IS 'The series that it is a window of: see the table series. NULL: none.';

CREATE TABLE ${release}.series (
    name text PRIMARY KEY,
    dataset text NOT NULL,
    every text NOT NULL CHECK (every IN ('day', 'week', 'month')),
    timezone text NOT NULL,
    method text NOT NULL,
    kind text NOT NULL,
    relations text[] NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE ${release}.series IS 'Tables that grow by a release for each day, week or month. The catalogue has a row for each window.';
COMMENT ON COLUMN ${release}.series.name IS 'Of the series, and of its first table.';
COMMENT ON COLUMN ${release}.series.dataset IS 'What it is made from.';
COMMENT ON COLUMN ${release}.series.every IS 'What one window is: day, week (from Monday) or month.';
COMMENT ON COLUMN ${release}.series.timezone IS 'The zone whose days these are.';
COMMENT ON COLUMN ${release}.series.method IS 'How all its windows are made.';
COMMENT ON COLUMN ${release}.series.kind IS 'What a released trajectory is.';
COMMENT ON COLUMN ${release}.series.relations IS 'Its tables, in this schema, partitioned by window_start.';
COMMENT ON COLUMN ${release}.series.created_at IS 'When its first window was published.';

-- A kind of release that is counts, not trajectories.

ALTER TABLE ${private}.release DROP CONSTRAINT release_kind_check;
ALTER TABLE ${private}.release ADD CONSTRAINT release_kind_check
    CHECK (kind IN ('edited', 'unlinked', 'generalised', 'synthetic', 'counts'));
"""
    )


def downgrade() -> None:
    raise RuntimeError("freqdp does not downgrade: restore a backup")
