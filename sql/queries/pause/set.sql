-- purpose: pause the cluster, let it drain, or resume it. A pause of a paused cluster changes nothing, nor does a
--          pause while it drains or a resume while it runs
-- caller:  store::pause
-- index:   cluster_pause_pkey
-- locks:   cluster_pause
UPDATE cluster_pause p
SET mode = $1, generation = p.generation + 1, reason = $2, requested_by = $3,
    paused_at = CASE $1::smallint WHEN 0 /* running */ THEN NULL ELSE coalesce(p.paused_at, now()) END,
    drain_started_at = CASE $1::smallint WHEN 2 /* draining */ THEN now() END
WHERE p.only_row AND ($1 > p.mode OR $1 = 0 /* running */ AND p.mode > 0 /* running */)
RETURNING p.generation
