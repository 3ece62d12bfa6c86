-- purpose: delete routes of bookmarks for whose stimulus nothing waits
-- caller:  store::route, in the transaction that holds the keys of the stimuli exclusively: a commit that makes such a bookmark came
--          before this snapshot, or writes the route again
-- index:   bookmark_route_pkey, bookmark_hash
-- locks:   bookmark_route; locked ones are skipped
WITH orphaned AS MATERIALIZED (
    SELECT r.ctid AS place FROM unnest($1::bytea[]) o(id)
    JOIN bookmark_route r ON r.id = o.id
    WHERE (SELECT true FROM bookmark b WHERE b.hash = r.hash AND b.publishable LIMIT 1) IS NULL
    FOR UPDATE OF r SKIP LOCKED
)
DELETE FROM bookmark_route r WHERE r.ctid = ANY (ARRAY(SELECT o.place FROM orphaned o))
