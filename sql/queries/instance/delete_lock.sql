-- purpose: lock an instance that is about to be deleted, in a statement after its work, so that it sees a first
--          commit that ended meanwhile
-- caller:  store::instance::delete, in its transaction
-- index:   instance_pkey
-- locks:   instance
SELECT 1 FROM instance i WHERE i.tenant_id = $1 AND i.id = $2 FOR UPDATE
