-- A vacuum that finds nothing alive in a table leaves statistics of no rows. All plans are made anew then, and as far as
-- they know, to walk over a whole index costs no more than to look one key up in another. So no index of a table that a
-- lull empties has a column in it, behind its first ones, by which rows are looked up through another index.

ALTER TABLE work DROP CONSTRAINT work_pkey, ADD PRIMARY KEY (id) INCLUDE (tenant_id);
DROP INDEX work_instance;
-- The order in which an instance's are taken, which no other index has.
CREATE INDEX work_instance ON work (instance_id, (id + 0));

ALTER TABLE inbox DROP CONSTRAINT inbox_pkey, ADD PRIMARY KEY (id) INCLUDE (tenant_id);
DROP INDEX inbox_hash;
CREATE INDEX inbox_hash ON inbox (hash, id);
DROP INDEX inbox_instance;
CREATE INDEX inbox_instance ON inbox (instance_id) WHERE instance_id IS NOT NULL;

ALTER TABLE dead_letter DROP CONSTRAINT dead_letter_pkey, ADD PRIMARY KEY (id) INCLUDE (tenant_id);
DROP INDEX dead_letter_instance;
CREATE INDEX dead_letter_instance ON dead_letter (instance_id);

ALTER TABLE activation DROP CONSTRAINT activation_pkey;
-- Only met by what is written; nobody looks up what these sums are.
CREATE UNIQUE INDEX activation_key ON activation (key, (instance_id || ''), (tenant_id || ''));
DROP INDEX activation_instance;
CREATE INDEX activation_instance ON activation (instance_id);

DROP INDEX instance_by_time;
CREATE INDEX instance_by_time ON instance (created_at);
DROP INDEX instance_by_definition;
CREATE INDEX instance_by_definition ON instance (definition_id, created_at);
