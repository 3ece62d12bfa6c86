-- purpose: let the session that listens be idle for as long as it likes
-- caller:  db::notices
-- index:   none
-- locks:   none
SET idle_session_timeout = 0
