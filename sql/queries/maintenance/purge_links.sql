-- purpose: delete a batch of entries of the audit that are older than $1 microseconds, and of resume links that expired longer ago
--          than $2 microseconds: until then a client is told that its link has expired
-- caller:  store::maintenance
-- index:   audit_time, resume_link_expiry
-- locks:   resume_link, audit; locked ones are skipped
WITH old_entry AS MATERIALIZED (
    SELECT a.ctid AS place FROM audit a
    WHERE a.at < now() - $1::bigint * interval '1 microsecond'
    ORDER BY a.at LIMIT 1000 FOR UPDATE SKIP LOCKED
), old_link AS MATERIALIZED (
    SELECT l.ctid AS place FROM resume_link l
    WHERE l.expires_at < now() - $2::bigint * interval '1 microsecond'
    ORDER BY l.expires_at LIMIT 1000 FOR UPDATE SKIP LOCKED
), entry_deleted AS (
    DELETE FROM audit a WHERE a.ctid = ANY (ARRAY(SELECT o.place FROM old_entry o)) RETURNING 1
), link_deleted AS (
    DELETE FROM resume_link l WHERE l.ctid = ANY (ARRAY(SELECT o.place FROM old_link o)) RETURNING 1
)
SELECT greatest((SELECT count(*) FROM entry_deleted), (SELECT count(*) FROM link_deleted)) AS most
