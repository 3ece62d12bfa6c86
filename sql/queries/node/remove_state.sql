-- purpose: read whether an incarnation is registered or being removed, whether its check-in is late, whether it was hung,
--          and whether it has an idle session
-- caller:  store::node::removal
-- index:   node_pkey, removed_node_pkey
-- locks:   none
SELECT EXISTS (SELECT 1 FROM node n WHERE n.incarnation = $1)
           OR EXISTS (SELECT 1 FROM removed_node d WHERE d.incarnation = $1) AS exists,
       EXISTS (SELECT 1 FROM node n
               WHERE n.incarnation = $1 AND (n.last_seen < clock_timestamp() - n.tolerance
                                             OR n.last_seen > clock_timestamp() + n.tolerance)) AS is_late,
       EXISTS (SELECT 1 FROM node n WHERE n.incarnation = $1 AND n.hung) AS is_hung,
       has_idle_session($1) AS is_alive
