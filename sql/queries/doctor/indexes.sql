-- purpose: which of these indexes ($1) are missing or cannot be used, with the statements ($2) that make them; also of primary keys
-- caller:  store::doctor::indexes
-- index:   none: lookups by name in the catalog
-- locks:   none
SELECT 'the index ' || e.name || CASE WHEN i.indexrelid IS NULL THEN ' is missing' ELSE ' is invalid' END AS what,
       NULL::timestamptz AS since,
       'psql "$MAINSPRING_DATABASE_URL" -c "SET search_path = ' || quote_ident(current_schema()) || '"'
           || CASE WHEN i.indexrelid IS NULL THEN '' ELSE ' -c "DROP INDEX ' || e.name || '"' END
           || ' -c "' || e.statement || '"' AS remedy
FROM unnest($1::text[], $2::text[]) e(name, statement)
LEFT JOIN pg_index i ON i.indexrelid = to_regclass(quote_ident(current_schema()) || '.' || quote_ident(e.name))
WHERE i.indexrelid IS NULL OR NOT i.indisvalid
UNION ALL
SELECT 'the table ' || c.relname || ' has no primary key', NULL, NULL
FROM pg_class c
-- `activation` has unique indexes in its place.
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND c.relname <> 'activation'
  AND NOT EXISTS (SELECT 1 FROM pg_index k WHERE k.indrelid = c.oid AND k.indisprimary AND k.indisvalid)
ORDER BY 1
LIMIT 20
