-- purpose: let the server drop the notifications that every listener has read. A NOTIFY that meets a full queue does not, so
--          the queue would stay full after its last reader has gone on; this function does it before it answers
-- caller:  db::notifier
-- index:   none
-- locks:   none on tables
SELECT pg_notification_queue_usage()
