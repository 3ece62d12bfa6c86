-- purpose: delete a node that stops in good order and holds no claims
-- caller:  store::node
-- index:   node_pkey, fence_pkey
-- locks:   fence, then node
WITH fences AS (
    DELETE FROM fence WHERE incarnation = $1
)
DELETE FROM node WHERE incarnation = $1
