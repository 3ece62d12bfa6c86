-- purpose: note a request in the transaction of what it changes
-- caller:  store::audit, as the companion of a change
-- index:   audit_pkey
-- locks:   none
INSERT INTO audit (tenant_id, action, outcome, instance_id, client_address, caller_kind, caller_id, caller_name, caller_issuer,
                   method, route, target)
SELECT $1, 1 /* request */, 0 /* accepted */, $2, (o.origin).client_address, (o.origin).caller_kind, (o.origin).caller_id,
       (o.origin).caller_name, (o.origin).caller_issuer, (o.origin).method, (o.origin).route, (o.origin).target
FROM (SELECT $3::audit_origin AS origin) o
