-- purpose: read a resume link that was signed with the key $2: what it does, why it cannot be used now, and for which workflow it is
-- caller:  store::link
-- index:   resume_link_pkey, instance_pkey, definition_pkey
-- locks:   none
SELECT l.tenant_id, l.instance_id, l.generation, l.bookmark_id, l.event, resume_link_refusal(l, $2) AS refusal,
       (SELECT d.name FROM instance i JOIN definition d ON d.version_id = i.version_id AND d.tenant_id = i.tenant_id
        WHERE i.id = l.instance_id AND i.tenant_id = l.tenant_id LIMIT 1) AS workflow
FROM resume_link l
WHERE l.id = $1
