-- purpose: list those of some ids that an instance or an accepted start has
-- caller:  store::instance::transfer
-- index:   instance_pkey, work_instance
-- locks:   none
SELECT t.id
FROM unnest($2::text[]) WITH ORDINALITY t(id, place)
WHERE EXISTS (SELECT 1 FROM instance i WHERE i.id = t.id AND i.tenant_id = $1)
   OR EXISTS (SELECT 1 FROM work w
              WHERE w.instance_id = t.id AND w.tenant_id = $1 AND work_order(w.id, w.definition_id) = 0)
ORDER BY t.place
