-- purpose: lock a match of the inbox that no other node is busy with: of each stimulus the one that began first, once
--          the running instances are counted that its activation strategy compares
-- caller:  store::inbox_match, in the transaction of a page
-- index:   none: few rows, while a publish finds many kept events
-- locks:   one row of inbox_match; locked ones are skipped
SELECT m.tenant_id, m.definition_id, m.hash, m.cursor, m.cut
FROM inbox_match m
WHERE NOT EXISTS (SELECT 1 FROM inbox_match o
                  WHERE o.tenant_id = m.tenant_id AND o.hash = m.hash
                    AND (o.begun_at, o.definition_id) < (m.begun_at, m.definition_id))
  AND NOT EXISTS (SELECT 1 FROM definition d
                  WHERE d.tenant_id = m.tenant_id AND d.definition_id = m.definition_id AND d.is_published
                    AND d.seeding = 2 /* seed */)
  AND (SELECT p.mode = 0 /* running */ FROM cluster_pause p WHERE p.only_row)
ORDER BY m.begun_at, m.definition_id, m.hash
LIMIT 1
FOR UPDATE OF m SKIP LOCKED
