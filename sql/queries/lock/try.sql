-- purpose: try to take each key; no WHERE, LIMIT or ORDER here: they could lock what they do not return
-- caller:  lock::provider::postgres, cluster::membership
-- index:   none
-- locks:   advisory (64-bit key), try only, held by the session
SELECT k, pg_try_advisory_lock(k) FROM unnest($1::bigint[]) k
