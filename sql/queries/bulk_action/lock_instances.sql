-- purpose: lock the instances of a page, in a statement after their work, so that it sees first commits that ended
--          meanwhile, and the times between which their records are
-- caller:  store::bulk_action, in the transaction of a page
-- index:   instance_pkey
-- locks:   instance by id
WITH held AS MATERIALIZED (
    SELECT i.created_at, i.updated_at FROM instance i WHERE i.tenant_id = $1 AND i.id = ANY ($2::text[]) ORDER BY i.id FOR UPDATE
)
SELECT min(h.created_at) AS since, max(h.updated_at) AS until FROM held h
