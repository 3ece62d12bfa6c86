-- purpose: tables for which autovacuum is off
-- caller:  store::doctor::tables
-- index:   none
-- locks:   none
SELECT 'autovacuum is off for ' || c.relname AS what, NULL::timestamptz AS since,
       format('psql "$MAINSPRING_DATABASE_URL" -c "ALTER TABLE %s.%s RESET (autovacuum_enabled)"', current_schema(),
              c.relname) AS remedy
FROM pg_class c
CROSS JOIN LATERAL pg_options_to_table(c.reloptions) o
WHERE c.relnamespace = current_schema()::regnamespace AND o.option_name = 'autovacuum_enabled'
  AND NOT o.option_value::boolean
ORDER BY c.relname
LIMIT 20
