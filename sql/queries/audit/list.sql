-- purpose: list the audit, the newest first, before the entry $4: of all, of an instance, of a link or of a caller, and of a route,
--          a method, an outcome, an action and a time
-- caller:  store::audit
-- index:   audit_pkey, audit_instance, audit_link, audit_caller
-- locks:   none
SELECT a.id, a.at, a.action, a.outcome, a.code, a.client_address, a.instance_id, a.link_id, a.caller_kind, a.caller_id,
       a.caller_name, a.caller_issuer, a.method, a.route, a.target
FROM audit a
WHERE a.tenant_id = $1 AND ($2::text IS NULL OR a.instance_id = $2) AND ($3::uuid IS NULL OR a.link_id = $3)
  AND ($4::bigint IS NULL OR a.id < $4)
  AND ($6::text IS NULL OR a.caller_id = $6) AND ($7::text IS NULL OR a.caller_name = $7)
  AND ($8::text IS NULL OR a.route = $8) AND ($9::text IS NULL OR a.method = $9)
  AND ($10::smallint IS NULL OR a.outcome = $10) AND ($11::smallint IS NULL OR a.action = $11)
  AND ($12::timestamptz IS NULL OR a.at >= $12) AND ($13::timestamptz IS NULL OR a.at < $13)
ORDER BY a.id DESC
LIMIT $5
