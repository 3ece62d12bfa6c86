-- purpose: read whether yesterday's partition of records has pages that no vacuum has made all-visible, which also freezes them;
--          its name, and whether this role may vacuum it
-- caller:  store::maintenance
-- index:   none: lookups by name in the catalog
-- locks:   none
-- By the size of the table: the number of pages in the catalog is that of its last vacuum.
SELECT c.oid::regclass::text AS name,
       pg_has_role(c.relowner, 'USAGE')
       OR pg_has_role((SELECT d.datdba FROM pg_database d WHERE d.datname = current_database()), 'USAGE')
       OR CASE WHEN current_setting('server_version_num')::integer >= 170000 THEN has_table_privilege(c.oid, 'MAINTAIN')
               ELSE false END AS permitted
FROM pg_class c
WHERE c.oid = to_regclass(quote_ident(current_schema()) || '.burst_record_'
                          || to_char((now() AT TIME ZONE 'UTC')::date - 1, 'YYYYMMDD'))
  AND c.relallvisible < pg_relation_size(c.oid) / current_setting('block_size')::bigint
