-- purpose: lock the stimulus keys of triggers, shared with new bookmarks and not with publishers of a stimulus
-- caller:  store::definition, an earlier statement of the publishing transaction
-- index:   none
-- locks:   advisory (schema key, stimulus key) shared, one sorted pass, under lock_timeout
SELECT count(l.got)
FROM (SELECT pg_advisory_xact_lock_shared($1::integer, k.key)::text AS got
      FROM (SELECT DISTINCT key FROM unnest($2::integer[]) u(key) ORDER BY key OFFSET 0) k) l
