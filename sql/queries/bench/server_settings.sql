-- purpose: read the settings of the server that decide its speed
-- caller:  bench::queries, from `mainspring bench`
-- index:   none
-- locks:   none
SELECT s.name, current_setting(s.name) AS value
FROM unnest(ARRAY['server_version', 'fsync', 'synchronous_commit', 'full_page_writes', 'shared_buffers',
                  'max_connections']) WITH ORDINALITY s(name, no)
ORDER BY s.no
