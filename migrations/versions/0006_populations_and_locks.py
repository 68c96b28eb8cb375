"""Populations with budgets, declared time units, locks that only our roles can take, bounds on what jobs may hold."""

from __future__ import annotations

from freqdp_db.storage.schema.revisions import run_revision

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_revision(
        """
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
"""
    )


def downgrade() -> None:
    raise RuntimeError("freqdp does not downgrade: restore a backup")
