-- purpose: list the audit, the newest first, of all, of an instance or of a link, before the entry $4
-- caller:  store::audit
-- index:   audit_pkey, audit_instance, audit_link
-- locks:   none
SELECT a.id, a.at, a.action, a.outcome, a.client_address, a.instance_id, a.link_id
FROM audit a
WHERE a.tenant_id = $1 AND ($2::text IS NULL OR a.instance_id = $2) AND ($3::uuid IS NULL OR a.link_id = $3)
  AND ($4::bigint IS NULL OR a.id < $4)
ORDER BY a.id DESC
LIMIT $5
