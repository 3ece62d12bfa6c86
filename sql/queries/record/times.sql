-- purpose: read between which times all records of an instance are, so that a read of them locks only the partitions of
--          these days
-- caller:  store::record::times
-- index:   instance_pkey
-- locks:   none
SELECT i.created_at, i.updated_at FROM instance i WHERE i.tenant_id = $1 AND i.id = $2
