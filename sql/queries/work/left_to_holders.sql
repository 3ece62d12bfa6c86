-- purpose: which of these rows are left to the registration at which the client of their request waits: each that needs it,
--          while that one is registered or being removed; of the others those that were accepted within a second, while it is
--          registered and does not drain
-- caller:  store::claim, for rows of one instance that another registration has claimed
-- index:   work_pkey, node_pkey, removed_node_pkey
-- locks:   none
SELECT w.id
FROM unnest($2::bigint[], $3::bigint[], $4::boolean[]) r(id, holder, needs_holder)
JOIN work w ON w.id = r.id AND w.tenant_id = $1
WHERE CASE WHEN r.needs_holder
           THEN EXISTS (SELECT 1 FROM node n WHERE n.incarnation = r.holder)
                OR EXISTS (SELECT 1 FROM removed_node d WHERE d.incarnation = r.holder)
           ELSE w.created_at > now() - interval '1 second'
                AND EXISTS (SELECT 1 FROM node n WHERE n.incarnation = r.holder AND NOT n.draining)
      END
