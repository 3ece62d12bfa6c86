-- purpose: set when all timers are due: the first after a lead, the others evenly over a span, in microseconds
-- caller:  bench::queries, from `mainspring bench timers`, in a schema that it has made for itself
-- index:   timer_pkey
-- locks:   all timers, in the order of the scan; no other statement locks several while none is due
WITH begins AS MATERIALIZED (
    SELECT clock_timestamp() + $1::bigint * interval '1 microsecond' AS at
), plan AS MATERIALIZED (
    SELECT t.tenant_id, t.instance_id, t.id,
           b.at + ((row_number() OVER (ORDER BY t.instance_id, t.id) - 1) * $2::bigint / count(*) OVER ())
               * interval '1 microsecond' AS due
    FROM timer t, begins b
)
UPDATE timer t SET due = p.due, available_at = p.due
FROM plan p
WHERE t.tenant_id = p.tenant_id AND t.instance_id = p.instance_id AND t.id = p.id AND t.claimed_by IS NULL
RETURNING t.instance_id, t.due
