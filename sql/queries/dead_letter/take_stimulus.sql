-- purpose: delete the dead letter of a stimulus, to publish it again in the same transaction; with whether its
--          instance has ended and does not need it
-- caller:  store::dead_letter::stimulus, in the transaction that holds the stimulus key
-- index:   dead_letter_pkey, instance_pkey
-- locks:   the dead letter
DELETE FROM dead_letter d
WHERE d.tenant_id = $1 AND d.id = $2 AND d.kind = 6 /* inbox */
RETURNING d.name, d.body->'payload' AS payload,
          EXISTS (SELECT 1 FROM instance i
                  WHERE i.tenant_id = d.tenant_id AND i.id = d.instance_id AND i.status = 1 /* finished */) AS ended
