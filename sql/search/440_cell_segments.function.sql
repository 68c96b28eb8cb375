-- identity: FUNCTION ${private}.cell_segments(int, bigint[])
CREATE FUNCTION ${private}.cell_segments(build int, cells bigint[])
RETURNS TABLE (cell_id bigint, trajectory_id int, seq int, from_location int, to_location int)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT s.cell_id, s.trajectory_id, s.seq, s.from_location, s.to_location
    FROM (SELECT DISTINCT u.cell_id FROM unnest(cells) AS u (cell_id)) AS c
    JOIN ${private}.segment AS s ON s.cell_id = c.cell_id
    WHERE s.build_id = build
    ORDER BY c.cell_id;
END;

COMMENT ON FUNCTION ${private}.cell_segments(int, bigint[]) IS
'The segments filed in some cells of a build''s grid, in order of cell_id. No column is ever NULL and all have a fixed width, so that COPY (SELECT * FROM cell_segments(...)) TO STDOUT (FORMAT binary) has rows of 46 bytes.';
REVOKE ALL ON FUNCTION ${private}.cell_segments(int, bigint[]) FROM PUBLIC;
