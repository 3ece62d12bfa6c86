-- purpose: accept a resume of an instance, unless its idempotency key was used before; the key then refers to the row.
--          While the cluster is paused the statement fails
-- caller:  store::work
-- index:   idempotency_key_pkey
-- locks:   idempotency_key by key, then work
WITH numbered AS MATERIALIZED (
    SELECT nextval(pg_get_serial_sequence('work', 'id')) AS id
    FROM cluster_pause p
    WHERE p.only_row AND CASE p.mode WHEN 0 /* running */ THEN true ELSE raise_paused(p.reason) END
), kept_key AS (
    INSERT INTO idempotency_key (tenant_id, route, key, fingerprint, instance_id, work_id)
    SELECT $1, $5, $6, $7, $2, n.id FROM numbered n WHERE $6::text IS NOT NULL
    ON CONFLICT (tenant_id, route, key) DO UPDATE
        SET fingerprint = excluded.fingerprint, instance_id = excluded.instance_id,
            work_id = excluded.work_id, expires_at = excluded.expires_at
        -- An expired key is replaced, also before it is purged.
        WHERE idempotency_key.expires_at <= now()
    RETURNING 1
)
INSERT INTO work (tenant_id, id, instance_id, kind, body) OVERRIDING SYSTEM VALUE
SELECT $1, n.id, $2, $3, $4
FROM numbered n
WHERE $6::text IS NULL OR EXISTS (SELECT 1 FROM kept_key)
RETURNING id
