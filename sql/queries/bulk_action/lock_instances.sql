-- purpose: lock the instances of a page, in a statement after their work, so that it sees first commits that ended
--          meanwhile
-- caller:  store::bulk_action, in the transaction of a page
-- index:   instance_pkey
-- locks:   instance by id
SELECT 1 FROM instance i WHERE i.tenant_id = $1 AND i.id = ANY ($2::text[]) ORDER BY i.id FOR UPDATE
