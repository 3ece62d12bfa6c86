-- purpose: find the bookmark at which a task waits, with the creation time of its instance
-- caller:  store::task
-- index:   bookmark_task, instance_pkey
-- locks:   none
-- No join, and the tenant in a CASE: a plan that is made while the tables are empty would walk over a whole index.
SELECT b.id, b.instance_id,
       (SELECT i.created_at FROM instance i WHERE i.id = b.instance_id AND i.tenant_id = b.tenant_id LIMIT 1) AS created_at
FROM bookmark b
WHERE b.name = 'Elsa.RunTask' AND b.activity_execution_id = $2 AND CASE WHEN b.tenant_id = $1 THEN true ELSE false END
