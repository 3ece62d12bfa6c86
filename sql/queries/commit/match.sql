-- purpose: give the new bookmarks of the batch the stimuli that the inbox keeps for them
-- caller:  store::commit::pipeline, the statement after the batch in the same transaction
-- index:   bookmark_pkey, instance_pkey, inbox_target, inbox_execution, inbox_pkey
-- locks:   inbox rows by id; the stimulus keys are held
SELECT match_inbox($1, $2, $3)
