-- purpose: accept a cancel for each unfinished instance of a page and fence the bursts that may be running them: by the
--          version of the instance, or, before its first commit, by the claim on its start
-- caller:  store::bulk_action, in the transaction that holds the locks of their work and of the instances
-- index:   instance_pkey, work_instance
-- locks:   none but those that the caller holds
WITH fenced AS (
    UPDATE instance i SET version = i.version + 1
    WHERE i.tenant_id = $1 AND i.id = ANY ($2::text[]) AND i.status = 0 /* running */
    RETURNING i.id
), busy AS MATERIALIZED (
    SELECT w.id, w.instance_id, w.kind, w.definition_id FROM work w
    WHERE w.tenant_id = $1 AND w.instance_id = ANY ($2) AND (w.claimed_by > 0 OR w.definition_id IS NOT NULL)
    UNION ALL
    SELECT 0, t.instance_id, 1 /* resume */, NULL FROM timer t
    WHERE t.tenant_id = $1 AND t.instance_id = ANY ($2) AND t.claimed_by > 0
), unclaimed AS (
    UPDATE work w SET claimed_by = NULL, claim_no = w.claim_no + 1, available_at = now()
    FROM busy b
    WHERE w.id = b.id AND w.tenant_id = $1 AND w.kind = 0 /* start */ AND w.definition_id IS NOT NULL
    RETURNING w.instance_id
), made AS (
    INSERT INTO work (tenant_id, id, instance_id, kind, body) OVERRIDING SYSTEM VALUE
    SELECT $1, -nextval('work_id_seq'), k.id, 3 /* cancel */, '{}'
    FROM (SELECT f.id FROM fenced f UNION SELECT u.instance_id FROM unclaimed u) k
    RETURNING instance_id
)
SELECT (SELECT count(*) FROM made) AS processed,
       ARRAY(SELECT DISTINCT b.instance_id FROM busy b) AS busy
