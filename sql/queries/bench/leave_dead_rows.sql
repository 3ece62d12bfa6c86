-- purpose: insert and delete rows that no later transaction needs: 200,000 keys of instances that ended and 100,000 fan-outs that
--          finished. Beside a held snapshot no vacuum removes them
-- caller:  bench::queries, from `mainspring bench workflows --held-snapshot`, in a schema that it has made for itself
-- index:   none
-- locks:   the rows that it inserts
DO $$ BEGIN
    INSERT INTO activation (tenant_id, key, instance_id, exclusive, strategy, definition_id)
    SELECT '', sha256(n::text::bytea), 'ended-' || n, true, 1 /* singleton */, 'ended' FROM generate_series(1, 200000) n;
    DELETE FROM activation;
    INSERT INTO fan_out (tenant_id, hash, name, expires_at)
    SELECT '', sha256('finished'), 'finished', now() FROM generate_series(1, 100000);
    UPDATE fan_out SET began_at = now(), cut = id;
    UPDATE fan_out SET finished_at = now();
    DELETE FROM fan_out;
END $$
