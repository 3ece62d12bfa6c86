-- purpose: set what the start of a session cannot: settings that only newer servers know, and synchronous_commit,
--          which is raised to on and never lowered. On a standby it fails as read-only (25006)
-- caller:  db::pinned, once for each connection
-- index:   none
-- locks:   none
SELECT CASE WHEN pg_is_in_recovery() THEN txid_current()::text END
UNION ALL
SELECT set_config(s.name, s.wanted, false)
FROM (VALUES ('synchronous_commit', 'on'), ('idle_session_timeout', '0'), ('transaction_timeout', '0'),
             ('default_table_access_method', 'heap')) s(name, wanted)
-- Where the settings of the start are lost there is a pooler; its sessions are left as they are.
WHERE current_setting('search_path') LIKE '%pg_temp'
  AND CASE s.name WHEN 'synchronous_commit' THEN current_setting(s.name) IN ('off', 'local')
                  ELSE current_setting(s.name, true) <> s.wanted END
