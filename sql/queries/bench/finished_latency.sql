-- purpose: count the instances that finished normally since a time, with percentiles 50, 95, 99 and 100 of how long
--          after it, in microseconds
-- caller:  bench::queries, from `mainspring bench workflows`
-- index:   none: it reads all instances once, when all is over
-- locks:   none
SELECT count(*) AS count,
       coalesce((percentile_disc(ARRAY[0.5, 0.95, 0.99, 1]) WITHIN GROUP
           (ORDER BY extract(epoch FROM i.finished_at - $1)::float8 * 1e6)), '{}') AS percentiles
FROM instance i
WHERE i.status = 1 /* finished */ AND i.sub_status = 3 /* finished */ AND i.finished_at >= $1
