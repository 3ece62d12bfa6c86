-- Two versions of the program at once, who does what, and stimuli that were given up.

-- The types of the activities of a version that was ever published, all of them; null: no node that knows them all has
-- looked yet. Such versions are looked at when a node starts, and after each publish.
ALTER TABLE definition ADD COLUMN activity_types text[];
CREATE INDEX definition_unsurveyed ON definition (tenant_id, version_id) WHERE was_published AND activity_types IS NULL;

-- What published versions use and a node does not know; and what the node does in the cluster.
ALTER TABLE node ADD COLUMN lacks text[] NOT NULL DEFAULT '{}';
ALTER TABLE node ADD COLUMN roles text[] NOT NULL DEFAULT '{api,worker,scheduler}';

-- Tells once a minute of work that no node can do.
INSERT INTO cluster_job (name) VALUES ('stranded');

-- The inbox -------------------------------------------------------------------------------------------------------

-- A stimulus that was meant for an instance, a correlation id or an activity and that nothing has waited for in time is
-- given up like work: kind 6. One that is for no instance in particular has an empty instance_id.
ALTER TABLE dead_letter DROP CONSTRAINT dead_letter_check, DROP CONSTRAINT dead_letter_check1;
ALTER TABLE dead_letter
    ADD COLUMN inbox_id bigint,
    ADD COLUMN hash bytea,
    ADD COLUMN name text,
    ADD COLUMN correlation_id text,
    ADD COLUMN activity_execution_id text,
    ADD CONSTRAINT dead_letter_of_one_row CHECK (num_nonnulls(work_id, timer_id, inbox_id) = 1),
    ADD CONSTRAINT dead_letter_kind CHECK ((kind = 5) = (timer_id IS NOT NULL) AND (kind = 6) = (inbox_id IS NOT NULL)),
    ADD CONSTRAINT dead_letter_stimulus CHECK (kind <> 6 OR (hash IS NOT NULL AND name IS NOT NULL));
-- Such letters are forgotten after a while: nothing waits for them.
CREATE INDEX dead_letter_expiry ON dead_letter (created_at) WHERE kind = 6;

-- As before, but it locks only what one of the new bookmarks can take: a stimulus for another instance, another
-- correlation or another execution is nobody's concern here, however many of them wait under the same hash.
-- The bookmarks are those of instances that this very transaction has written: those that it has made, and those that
-- were there and whose instance has another correlation id now.
CREATE OR REPLACE FUNCTION match_inbox(tenants text[], instances text[], bookmarks text[]) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    waiting record;
    found_id bigint;
    found_payload json;
    matched integer := 0;
BEGIN
    -- Whoever else matches the same stimuli takes their rows in the same order.
    PERFORM 1
    FROM inbox x
    WHERE x.expires_at > now()
      AND EXISTS (SELECT 1 FROM unnest(tenants, instances, bookmarks) AS n(tenant_id, instance_id, id)
                  JOIN bookmark b ON b.tenant_id = n.tenant_id AND b.instance_id = n.instance_id AND b.id = n.id
                  JOIN instance i ON i.tenant_id = b.tenant_id AND i.id = b.instance_id
                  WHERE b.publishable AND i.xmin = pg_current_xact_id()::xid
                    AND b.tenant_id = x.tenant_id AND b.hash = x.hash
                    AND (x.instance_id IS NULL OR x.instance_id = b.instance_id)
                    AND (x.correlation_id IS NULL OR x.correlation_id = i.correlation_id)
                    AND (x.activity_execution_id IS NULL OR x.activity_execution_id = b.activity_execution_id))
    ORDER BY x.tenant_id, x.id
    FOR UPDATE OF x;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    FOR waiting IN
        SELECT b.tenant_id, b.instance_id, b.id, b.hash, b.name, b.activity_execution_id, i.correlation_id
        FROM unnest(tenants, instances, bookmarks) AS n(tenant_id, instance_id, id)
        JOIN bookmark b ON b.tenant_id = n.tenant_id AND b.instance_id = n.instance_id AND b.id = n.id
        JOIN instance i ON i.tenant_id = b.tenant_id AND i.id = b.instance_id
        WHERE b.publishable
          -- Written by this very transaction: a request that lost, or was sent again, has not written its instance.
          AND i.xmin = pg_current_xact_id()::xid
          AND EXISTS (SELECT 1 FROM inbox x WHERE x.tenant_id = b.tenant_id AND x.hash = b.hash)
        ORDER BY b.hash, b.instance_id, b.id
    LOOP
        SELECT x.id, x.payload INTO found_id, found_payload
        FROM inbox x
        WHERE x.tenant_id = waiting.tenant_id AND x.hash = waiting.hash AND x.expires_at > now()
          AND (x.instance_id IS NULL OR x.instance_id = waiting.instance_id)
          AND (x.correlation_id IS NULL OR x.correlation_id = waiting.correlation_id)
          AND (x.activity_execution_id IS NULL OR x.activity_execution_id = waiting.activity_execution_id)
        ORDER BY x.id
        LIMIT 1
        FOR UPDATE;
        IF FOUND THEN
            DELETE FROM inbox x WHERE x.tenant_id = waiting.tenant_id AND x.id = found_id;
            INSERT INTO work (tenant_id, instance_id, kind, body)
            VALUES (waiting.tenant_id, waiting.instance_id, 2, json_build_object(
                'bookmarkId', waiting.id, 'hash', encode(waiting.hash, 'hex'), 'name', waiting.name,
                'payload', found_payload));
            matched := matched + 1;
        END IF;
    END LOOP;
    RETURN matched;
END $$;

-- Roles -----------------------------------------------------------------------------------------------------------

-- The term of the one active scheduler, where there shall be one: greater than those of all before.
ALTER TABLE node ADD COLUMN scheduler_term bigint;
