-- purpose: whether the cluster is paused, by whom and why
-- caller:  store::doctor::cluster
-- index:   cluster_pause_pkey
-- locks:   none
SELECT 'the cluster is paused' || coalesce(' by ' || p.requested_by, '') || coalesce(': ' || p.reason, '') AS what,
       p.paused_at AS since, NULL::text AS remedy
FROM cluster_pause p WHERE p.mode <> 0 /* running */
