-- purpose: settle what the start of a session cannot ask for: what only newer servers know is set where it is known, and
--          synchronous_commit is raised to on, never lowered. On a standby it fails as read-only (25006)
-- caller:  db::pinned, once for each connection
-- index:   none
-- locks:   none
SELECT CASE WHEN pg_is_in_recovery() THEN txid_current()::text END
UNION ALL
SELECT set_config(s.name, s.wanted, false)
FROM (VALUES ('synchronous_commit', 'on'), ('idle_session_timeout', '0'), ('transaction_timeout', '0'),
             ('default_table_access_method', 'heap')) s(name, wanted)
-- Where the settings of the start got lost there is a pooler, and what it lends is left as it is.
WHERE current_setting('search_path') LIKE '%pg_temp'
  AND CASE s.name WHEN 'synchronous_commit' THEN current_setting(s.name) IN ('off', 'local')
                  ELSE current_setting(s.name, true) <> s.wanted END
