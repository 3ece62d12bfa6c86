-- purpose: mark the version as published, in a statement after the other one was unpublished, because of the unique
--          index. If the strategy differs from the one before ($3, with the steps $4 left), set the steps that are
--          left to do
-- caller:  store::definition::save, in the transaction that holds the definition's lock
-- index:   definition_pkey
-- locks:   definition
UPDATE definition d
SET is_published = true, was_published = true, activation_strategy = n.activation_strategy,
    seeding = CASE WHEN d.is_published THEN d.seeding
                   WHEN n.activation_strategy = $3::smallint THEN $4::smallint
                   WHEN n.activation_strategy > 0 /* always */ THEN 2 /* seed */
                   WHEN $3 > 0 /* always */ THEN 1 /* prune */
                   ELSE 0 /* done */ END
FROM (SELECT activation_strategy_of(o.body) AS activation_strategy FROM definition o WHERE o.tenant_id = $1
    AND o.version_id = $2) n
WHERE d.tenant_id = $1 AND d.version_id = $2
