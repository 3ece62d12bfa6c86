-- purpose: list the resume links of an instance, the oldest first, with why each of them cannot be used now
-- caller:  store::link
-- index:   resume_link_instance, instance_pkey
-- locks:   none
SELECT l.id, l.bookmark_id, l.event, l.uses, l.uses_left, l.created_at, l.expires_at,
       resume_link_refusal(l, (SELECT max(k.id) FROM token_key k)) AS refusal
FROM resume_link l
WHERE l.instance_id = $2 AND l.tenant_id = $1
ORDER BY l.created_at, l.id
LIMIT $3
