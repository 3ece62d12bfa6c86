-- No index of a table that many rows go through begins with tenant_id. A plan that is made while such a table has no
-- statistics yet, as after the first migration, takes any index whose first column it is given to be as good as any other,
-- and keeps it: found by tenant_id alone, a lookup by key walks over the whole table until the server has analyzed it.

ALTER TABLE instance DROP CONSTRAINT instance_pkey, ADD PRIMARY KEY (id, tenant_id);
DROP INDEX instance_by_time;
CREATE INDEX instance_by_time ON instance (created_at, tenant_id);
DROP INDEX instance_by_definition;
CREATE INDEX instance_by_definition ON instance (definition_id, tenant_id, created_at);

ALTER TABLE instance_state DROP CONSTRAINT instance_state_pkey, ADD PRIMARY KEY (id, tenant_id);

ALTER TABLE bookmark DROP CONSTRAINT bookmark_pkey, ADD PRIMARY KEY (instance_id, id, tenant_id);
DROP INDEX bookmark_hash;
CREATE INDEX bookmark_hash ON bookmark (hash, tenant_id) WHERE publishable;

ALTER TABLE trigger DROP CONSTRAINT trigger_pkey, ADD PRIMARY KEY (definition_id, activity_id, hash, tenant_id);
DROP INDEX trigger_hash;
CREATE INDEX trigger_hash ON trigger (hash, tenant_id);

ALTER TABLE work DROP CONSTRAINT work_pkey, ADD PRIMARY KEY (id, tenant_id);
DROP INDEX work_instance;
CREATE INDEX work_instance ON work (instance_id, id, tenant_id);
DROP INDEX work_start;
CREATE UNIQUE INDEX work_start ON work (instance_id, tenant_id) WHERE kind = 0;

ALTER TABLE timer DROP CONSTRAINT timer_pkey, ADD PRIMARY KEY (instance_id, id, tenant_id);

ALTER TABLE inbox DROP CONSTRAINT inbox_pkey, ADD PRIMARY KEY (id, tenant_id);
DROP INDEX inbox_hash;
CREATE INDEX inbox_hash ON inbox (hash, tenant_id, id);
DROP INDEX inbox_instance;
CREATE INDEX inbox_instance ON inbox (instance_id, tenant_id) WHERE instance_id IS NOT NULL;

ALTER TABLE activation DROP CONSTRAINT activation_pkey, ADD PRIMARY KEY (key, instance_id, tenant_id);
DROP INDEX activation_held;
CREATE UNIQUE INDEX activation_held ON activation (key, tenant_id) WHERE exclusive;
DROP INDEX activation_instance;
CREATE INDEX activation_instance ON activation (instance_id, tenant_id);

ALTER TABLE dead_letter DROP CONSTRAINT dead_letter_pkey, ADD PRIMARY KEY (id, tenant_id);
DROP INDEX dead_letter_instance;
CREATE INDEX dead_letter_instance ON dead_letter (instance_id, tenant_id);
