//! The tables for which statements are planned.

/// The types of the arguments of commit/batch.
pub(super) const BATCH: &str =
    "(bigint, smallint, commit_request[], commit_claim[], commit_bookmark[], commit_burned[], commit_stimulus[],
                      commit_key[], commit_claim[], commit_due[], commit_burned[], commit_event[], commit_child[],
                      commit_child_end[], commit_nested[], commit_claim[], commit_awaited[], commit_answer[],
                      commit_delivery[])";

/// The tables that grow, with the statements that fill them.
pub(super) const FILL: &str = "
    INSERT INTO instance (tenant_id, id, definition_id, version_id, definition_version, status, sub_status, version,
                          state)
        SELECT '', 'i' || n, 'd' || n % 20, 'd1', 1, 0, 2, 1, '{}' FROM generate_series(1, 100000) n;
    INSERT INTO bookmark (tenant_id, instance_id, id, activity_id, node_id, activity_execution_id, name, hash, payload,
                          publishable, correlation_id)
        SELECT '', 'i' || n, 'b' || CASE v WHEN 1 THEN '' ELSE '1' END, 'a', 'n', 'e', 'Elsa.Event',
               sha256(CASE v WHEN 1 THEN n::text ELSE 'one' END::bytea), '{}', true, CASE WHEN n % 2 = 0 THEN 'c' || n END
        FROM generate_series(1, 100000) n, generate_series(1, 2) v
        WHERE v = 1 OR n <= 20000
        UNION ALL SELECT '', 'i' || n, 'c', 'a', 'n', 'i' || n || ':3', 'Elsa.RunTask', sha256(n::text::bytea), '{}'::json, true, NULL FROM generate_series(1, 20000) n
        UNION ALL SELECT '', 'i7', 'z' || n, 'a', 'n', 'e', 'Elsa.Event', sha256(n::text::bytea), '{}'::json, true, NULL FROM generate_series(1, 5000) n;
    INSERT INTO fan_out (tenant_id, hash, name, payload, expires_at, finished_at)
        SELECT '', sha256(n::text::bytea), 'Elsa.Event', '{}', now(), now() - (n - 100) * interval '1 second'
        FROM generate_series(1, 20000) n;
    INSERT INTO fan_out (tenant_id, hash, name, payload, expires_at)
        SELECT '', sha256(n::text::bytea), 'Elsa.Event', '{}', now() FROM generate_series(1, 100) n;
    INSERT INTO fan_out_owed
        SELECT 1 + n % 100, n, '', 'i' || n, now(), 'b', 'e' FROM generate_series(1, 20000) n;
    INSERT INTO work (tenant_id, instance_id, kind, body, fan_out)
        SELECT '', 'f' || n, 2, '{}', n FROM generate_series(1, 2000) n;
    INSERT INTO work (tenant_id, instance_id, kind, body, claimed_by, available_at)
        SELECT '', 'i' || n, 1, '{}', CASE WHEN n % 100 = 0 THEN 4711 + n % 3 END, now() - n * interval '1 second'
        FROM generate_series(1, 100000) n;
    INSERT INTO child SELECT '', 'i' || n, 'p' || n % 1000, 1, 'b' FROM generate_series(1, 20000) n;
    INSERT INTO timer (tenant_id, instance_id, id, due, available_at, claimed_by)
        SELECT '', 'i' || n, 'b', now(), now() + (n - 50000) * interval '1 second',
               CASE WHEN n % 100 = 0 THEN 4711 + n % 3 END
        FROM generate_series(1, 100000) n;
    INSERT INTO inbox (tenant_id, hash, name, expires_at)
        SELECT '', sha256(n::text::bytea), 'Elsa.Event', now() + n * interval '1 second'
        FROM generate_series(1, 20000) n;
    INSERT INTO burst_record (tenant_id, instance_id, version, at, began_at, first_entry, entries, body)
        SELECT '', 'i' || n, 1, now(), now(), 1, 1, '{}' FROM generate_series(1, 20000) n;
    INSERT INTO idempotency_key (tenant_id, route, key, fingerprint, expires_at)
        SELECT '', 'start', 'k' || n, '', now() + n * interval '1 second' FROM generate_series(1, 20000) n;
    INSERT INTO http_answer (request_id, tenant_id, instance_id, outcome, expires_at)
        SELECT gen_random_uuid(), '', 'i' || n, 3, now() + n * interval '1 second' FROM generate_series(1, 20000) n;
    INSERT INTO definition (tenant_id, version_id, definition_id, version, is_latest, is_published, was_published, body)
        SELECT '', 'd' || n || 'v' || v, 'd' || n, v, v = 2, v = 1, true, '{}'
        FROM generate_series(1, 10000) n, generate_series(1, 2) v;
    INSERT INTO trigger (tenant_id, definition_id, activity_id, hash, name, payload)
        SELECT '', 'd' || n, 'a', sha256(n::text::bytea), 'Elsa.Event', '{}' FROM generate_series(1, 10000) n;
    INSERT INTO trigger (tenant_id, definition_id, activity_id, hash, name, payload, revision, pattern_bytes, outline)
        SELECT '', 'd' || n, 'h', sha256(n::text::bytea), 'Elsa.HttpEndpoint', '{}', n, n % 10 / 9, sha256((n % 1000)::text::bytea)
        FROM generate_series(1, 2000) n;
    INSERT INTO bookmark_route (id, tenant_id, anchor, hash, template, method)
        SELECT sha256(n::text::bytea), '', sha256(n::text::bytea), sha256(n::text::bytea), 'a/{b}', 'get'
        FROM generate_series(1, 20000) n;
    INSERT INTO activation (tenant_id, key, instance_id, exclusive, strategy, definition_id)
        SELECT '', sha256(n::text::bytea), 'i' || n, true, 1, 'd' || n FROM generate_series(1, 20000) n;
    INSERT INTO schedule (tenant_id, id, definition_id, activity_id, activity_type, spec, anchor, tz_version, overlap,
                          next_occurrence, next_fire, paused, queued)
        SELECT '', 's' || n, 'd' || n % 10000, 'a' || n, 'Elsa.Timer', '{}', now(), '2026a', n % 3,
               now() + (n - 100) * interval '1 second', now() + (n - 100) * interval '1 second', n % 50 = 0,
               CASE WHEN n % 1000 = 2 THEN '{}'::json END
        FROM generate_series(1, 100000) n;
    INSERT INTO dead_letter (tenant_id, instance_id, kind, reason, inbox_id, hash, name, body, failures, crashes,
                             created_at)
        SELECT '', 'i' || n, 6, 'expired', n, sha256(n::text::bytea), 'Elsa.Event', '{}', 0, 0, now() - n * interval '1 second'
        FROM generate_series(1, 100000) n;
    INSERT INTO webhook_sink (tenant_id, id, url, event_types, definitions, secret, retry_for, retry_at)
        SELECT '', 's' || n, 'https://s.example', '{}', '{}', '', interval '3 days',
               now() + CASE WHEN n = 1 THEN interval '1 hour' ELSE interval '0' END
        FROM generate_series(1, 200) n;
    INSERT INTO webhook_delivery (id, sink, tenant_id, instance_id, event_type, payload, state, ended_at, expires_at)
        SELECT gen_random_uuid(), CASE WHEN n <= 100000 THEN 1 ELSE n % 200 + 1 END, '', 'i' || n, 'Elsa.RunTask', '{}',
               CASE WHEN n <= 100000 THEN 0 ELSE n % 3 END, CASE WHEN n > 100000 AND n % 3 > 0 THEN now() END,
               now() + (n - 100) * interval '1 second'
        FROM generate_series(1, 150000) n;
    INSERT INTO resume_link (id, tenant_id, instance_id, generation, event, uses, uses_left, expires_at, signed_by)
        SELECT gen_random_uuid(), '', 'i' || n, 7, 'E', 1, 1, now() + (n - 100) * interval '1 hour', 1
        FROM generate_series(1, 20000) n;
    INSERT INTO audit (tenant_id, at, action, outcome, instance_id, link_id, caller_id)
        SELECT '', now() - n * interval '1 minute', 0, 1, 'i' || n, gen_random_uuid(), 'u' || n FROM generate_series(1, 20000) n;
    ANALYZE";

/// Those that are large after that.
pub(super) const BIG: [&str; 18] = [
    "audit",
    "resume_link",
    "webhook_delivery",
    "child",
    "fan_out",
    "dead_letter",
    "schedule",
    "activation",
    "instance",
    "bookmark",
    "bookmark_route",
    "work",
    "timer",
    "inbox",
    "idempotency_key",
    "http_answer",
    "trigger",
    "definition",
];

/// The tables that are empty after an idle time.
pub(super) const EMPTIED: [&str; 8] = [
    "child",
    "work",
    "timer",
    "bookmark",
    "inbox",
    "activation",
    "dead_letter",
    "instance",
];

/// Lists the indexes of some tables that have the tenant as a later column.
///
/// Each lookup names the tenant: by a later column of another index than the one meant, a plan may walk over all of it when
/// that index was the smaller one. Lookups of instances have both columns of their primary key.
pub(super) const LATER_TENANT: &str = "SELECT string_agg(c.relname, ', ') FROM pg_index i
    JOIN pg_class c ON c.oid = i.indexrelid
    JOIN pg_class t ON t.oid = i.indrelid
    JOIN pg_attribute a ON a.attrelid = t.oid AND a.attname = 'tenant_id'
    WHERE t.relnamespace = current_schema()::regnamespace AND t.relname = ANY ($1) AND NOT i.indisprimary
      AND i.indpred IS NULL AND a.attnum = ANY (i.indkey[1:i.indnkeyatts - 1]) AND c.relname <> 'instance_by_version'";
