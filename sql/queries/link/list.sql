-- purpose: list the resume links of an instance, the newest first, before the link $4, with why each of them cannot be used now
-- caller:  store::link
-- index:   resume_link_instance, resume_link_pkey, instance_pkey
-- locks:   none
SELECT l.id, l.bookmark_id, l.event, l.uses, l.uses_left, l.created_at, l.expires_at,
       resume_link_refusal(l, l.signed_by) AS refusal
FROM resume_link l
WHERE l.instance_id = $2 AND l.tenant_id = $1
  AND ($4::uuid IS NULL OR (l.created_at, l.id) < (SELECT b.created_at, b.id FROM resume_link b WHERE b.id = $4))
ORDER BY l.created_at DESC, l.id DESC
LIMIT $3
