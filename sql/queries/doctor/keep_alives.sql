-- purpose: whether the server's machine does not take the keep-alives that this session has asked for
-- caller:  store::doctor::server
-- index:   none
-- locks:   none
SELECT 'keep-alives of this session are after ' || current_setting('tcp_keepalives_idle') || ' s, not after 3 s' AS what,
       NULL::timestamptz AS since, NULL::text AS remedy
-- Not over a Unix socket.
WHERE inet_client_addr() IS NOT NULL AND current_setting('tcp_keepalives_idle') NOT IN ('3', '3s')
