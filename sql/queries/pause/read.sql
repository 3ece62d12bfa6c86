-- purpose: read whether the cluster runs, is paused or drains, since when, and which client requested it
-- caller:  store::pause
-- index:   cluster_pause_pkey
-- locks:   none
SELECT p.mode, p.generation, p.paused_at, p.drain_started_at, p.reason, p.requested_by
FROM cluster_pause p
WHERE p.only_row
