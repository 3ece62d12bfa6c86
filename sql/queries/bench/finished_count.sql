-- purpose: count those of some instances that finished normally
-- caller:  bench::queries, from `mainspring bench failover`
-- index:   instance_pkey
-- locks:   none
SELECT count(*) AS count FROM instance i WHERE i.tenant_id = $1 AND i.id = ANY($2)
    AND i.status = 1 /* finished */ AND i.sub_status = 3 /* finished */
