-- purpose: use a resume link that was signed with the key $3 once more, and note that in the audit. The statement fails (MSP02) if
--          the link cannot be used, and with it the transaction that accepts what the link is for
-- caller:  store::link, before the statement that accepts
-- index:   resume_link_pkey, instance_pkey, bookmark_pkey
-- locks:   of an event the instance (key share), then resume_link by id: of two uses at once the second one reads what the first one
--          has left
WITH alive AS MATERIALIZED (
    -- A delete waits, and takes along what the event leaves in the inbox; it locks the instance before its links, too.
    SELECT h.one
    FROM resume_link l
    CROSS JOIN LATERAL (
        SELECT 1 AS one FROM instance i WHERE i.id = l.instance_id AND i.tenant_id = l.tenant_id FOR KEY SHARE) h
    WHERE l.id = $1 AND l.tenant_id = $2 AND l.event IS NOT NULL
), held AS MATERIALIZED (
    SELECT l AS link FROM resume_link l
    WHERE l.id = $1 AND l.tenant_id = $2 AND (SELECT count(*) FROM alive) >= 0 FOR NO KEY UPDATE
), judged AS MATERIALIZED (
    SELECT resume_link_refusal(h.link, $3) AS refusal FROM held h
), spent AS (
    -- By the key: the plan of a join that is made while the table is empty would walk over it.
    UPDATE resume_link l SET uses_left = l.uses_left - 1
    WHERE l.id = $1 AND EXISTS (SELECT 1 FROM judged j WHERE j.refusal IS NULL)
    RETURNING l.id, l.instance_id
), noted AS (
    INSERT INTO audit (tenant_id, action, outcome, client_address, instance_id, link_id)
    SELECT $2, 0 /* resume link */, 0 /* accepted */, $4, s.instance_id, s.id FROM spent s
)
SELECT CASE WHEN EXISTS (SELECT 1 FROM spent) THEN true
            ELSE raise_link_refused(coalesce((SELECT j.refusal FROM judged j), 5::smallint /* unknown */)) END AS is_spent
