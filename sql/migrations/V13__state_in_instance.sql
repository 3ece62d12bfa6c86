-- The state of an instance stands in its row. Each commit writes both, and a second row is a second search, a second place
-- to write to, and an index of its own. A state of more than two kilobytes stands elsewhere, as before.
ALTER TABLE instance ADD COLUMN state bytea;
UPDATE instance i SET state = s.state FROM instance_state s WHERE s.id = i.id AND s.tenant_id = i.tenant_id;
ALTER TABLE instance ALTER COLUMN state SET NOT NULL;
DROP TABLE instance_state;
