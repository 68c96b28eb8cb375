CREATE FUNCTION ${private}.cell_segments(build int, cells bigint[])
RETURNS TABLE (cell_id bigint, trajectory_id int, seq int, from_location int, to_location int)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT s.cell_id, s.trajectory_id, s.seq, s.from_location, s.to_location
    FROM ${private}.segment AS s
    WHERE s.build_id = build AND (cells IS NULL OR s.cell_id = ANY (cells));
END;

COMMENT ON FUNCTION ${private}.cell_segments(int, bigint[]) IS
'The segments filed in some cells of a build''s grid, or in all of them (NULL), in no particular order. No column is ever NULL and all have a fixed width, so that the rows of COPY (SELECT ... FROM cell_segments(...)) TO STDOUT (FORMAT binary) are as long as each other.';
