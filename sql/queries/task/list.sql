-- purpose: list the tasks that wait, in the order in which they began, after the one with the number $2
-- caller:  store::task
-- index:   bookmark_tasks
-- locks:   none
SELECT b.number, b.instance_id, b.activity_id, b.activity_execution_id, b.payload, b.correlation_id, b.created_at
FROM bookmark b
-- The tenant in a CASE, as in find.sql.
WHERE b.name = 'Elsa.RunTask' AND CASE WHEN b.tenant_id = $1 THEN true ELSE false END AND b.number > $2
ORDER BY b.number
LIMIT $3
