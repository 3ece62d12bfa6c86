-- The row of a start that goes on changes its kind and nothing else that an index knows, so that it stays on its page. Who
-- asks for starts adds that they name a definition: all of them do, and of the others only those that went on from one.
DROP INDEX work_start;
CREATE UNIQUE INDEX work_start ON work (instance_id, tenant_id) WHERE definition_id IS NOT NULL;
