-- purpose: read how these requests have ended, as far as that is kept
-- caller:  store::http_answer
-- index:   http_answer_pkey
-- locks:   none
SELECT a.request_id, a.instance_id, a.outcome, a.status, a.headers, a.body
FROM unnest($1::uuid[]) r(request_id)
CROSS JOIN LATERAL (
    SELECT x.* FROM http_answer x WHERE x.request_id = r.request_id AND x.expires_at > now() LIMIT 1) a
