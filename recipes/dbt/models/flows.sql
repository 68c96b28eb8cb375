SELECT
    ST_SnapToGrid(ST_Transform(start_geom, 4326), 0.01) AS origin,
    ST_SnapToGrid(ST_Transform(end_geom, 4326), 0.01) AS destination,
    count(*) AS trips,
    avg(length_m) / 1000 AS km,
    avg(end_at - start_at) AS lasting
FROM {{ source('released', 'vans_current_trip') }}
-- trips that stay in one cell lead nowhere
WHERE NOT ST_Equals(
    ST_SnapToGrid(ST_Transform(start_geom, 4326), 0.01),
    ST_SnapToGrid(ST_Transform(end_geom, 4326), 0.01)
)
GROUP BY 1, 2
