-- purpose: how many cancels are unclaimed, up to a bound; their ids are negative
-- caller:  store::bulk_action, in the transaction of a page
-- index:   work_pkey
-- locks:   none
SELECT count(*) AS unclaimed
FROM (SELECT FROM work w WHERE w.id < 0 AND coalesce(w.claimed_by, 0) = 0 LIMIT $1::bigint) n
