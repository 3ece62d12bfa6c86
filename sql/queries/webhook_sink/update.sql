-- purpose: change a sink: what is null stays. What is not paused any more, has another URL or comes into the settings is not
--          disabled either, and is tried at once, under another claim: an answer of before does not count. The settings ($11)
--          give a secret, and the one before signs as well for a day
-- caller:  store::webhook::sink
-- index:   webhook_sink_id
-- locks:   revision, then the sink
WITH changed AS (
    UPDATE revision SET webhooks = webhooks + 1 WHERE only_row RETURNING 1
)
UPDATE webhook_sink s
SET name = CASE WHEN $4::boolean THEN $3 ELSE s.name END, url = coalesce($5, s.url),
    event_types = coalesce($6::text[], s.event_types), definitions = coalesce($7::text[], s.definitions),
    retry_for = coalesce($8::bigint * interval '1 second', s.retry_for),
    -- One that comes back into the settings, or into them from the API, has what they say.
    paused = CASE WHEN $11 AND NOT s.is_configured THEN coalesce($9, false) ELSE coalesce($9, s.paused) END,
    secret = coalesce($10, s.secret),
    previous_secret = CASE WHEN $10::text IS NOT NULL AND s.secret IS DISTINCT FROM $10 THEN s.secret ELSE s.previous_secret END,
    previous_until = CASE WHEN $10::text IS NOT NULL AND s.secret IS DISTINCT FROM $10 THEN now() + interval '1 day' ELSE s.previous_until END,
    disabled_at = CASE WHEN NOT $9 OR $5::text <> s.url OR $11 AND NOT s.is_configured THEN NULL ELSE s.disabled_at END,
    note = CASE WHEN NOT $9 OR $5::text <> s.url OR $11 AND NOT s.is_configured THEN NULL ELSE s.note END,
    failures = CASE WHEN NOT $9 OR $5::text <> s.url OR $11 AND NOT s.is_configured THEN 0 ELSE s.failures END,
    retry_at = CASE WHEN NOT $9 OR $5::text <> s.url OR $11 AND NOT s.is_configured THEN now() ELSE s.retry_at END,
    claimed_by = CASE WHEN NOT $9 OR $5::text <> s.url OR $11 AND NOT s.is_configured THEN NULL ELSE s.claimed_by END,
    claim_no = s.claim_no + CASE WHEN NOT $9 OR $5::text <> s.url OR $11 AND NOT s.is_configured THEN 1 ELSE 0 END,
    is_configured = coalesce($11, s.is_configured), updated_at = now()
FROM changed
WHERE s.tenant_id = $1 AND s.id = $2 AND s.deleted_at IS NULL
  -- Only whether it is paused, unless the settings change it.
  AND ($11::boolean IS NOT NULL OR NOT s.is_configured
       OR NOT $4 AND $5::text IS NULL AND $6::text[] IS NULL AND $7::text[] IS NULL AND $8::bigint IS NULL AND $10::text IS NULL)
RETURNING s.number
