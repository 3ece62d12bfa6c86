-- purpose: count the bookmarks that a stimulus can match
-- caller:  bench::queries, from `mainspring bench signals`
-- index:   bookmark_hash
-- locks:   none
SELECT count(*) AS count FROM bookmark b WHERE b.publishable
