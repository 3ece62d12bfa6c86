// The page "Cluster": nodes, queue, locks, schedules, fan-outs, dead letters and what has faulted.
'use strict';

window.mainspringCluster = (main, server) => {
  const { make, table, open } = window.mainspringTables;
  const { api, fetch, may } = server;

  const button = (label, ids) => {
    const node = make('button', label, 'ms-small-button');
    node.type = 'button';
    node.onclick = () => retry(node, ids);
    return node;
  };

  // Instances with incidents: each has a button, and all of them together.
  const drawFaulted = ({ items, totalCount }, empty) => {
    if (!items.length) return [make('p', empty, 'ms-quiet')];
    const shown = items.map(({ id, definitionId, subStatus, incidentCount, updatedAt }) =>
      ({ instance: id, definition: definitionId, subStatus, incidents: incidentCount, updatedAt }));
    if (!may('run:alterations')) return [table(shown)];
    const all = button(`Retry ${items.length} of ${totalCount}`, items.map(({ id }) => id));
    return [table(shown, ({ instance }) => button('Retry', [instance])), all];
  };

  const sections = [
    ['Nodes', 'cluster/nodes', 'No node is registered.'],
    ['Queue', 'cluster/queue', 'No work waits.'],
    ['Schedules', 'cluster/schedules?pageSize=50', 'No schedule is published.', undefined, 'read:schedules'],
    ['Locks', 'cluster/locks', 'No lock is held.'],
    ['Fan-outs', 'cluster/fan-outs?pageSize=50', 'No event is being given to many bookmarks.'],
    ['Dead letters', 'cluster/dead-letters?pageSize=50', 'No dead letter: nothing was given up.', undefined,
      'read:bookmark-queue:dead-letters'],
    ['Faulted', 'workflow-instances?hasIncidents=true&pageSize=50', 'No activity has faulted.', drawFaulted, 'read:workflow-instances'],
  ];

  // What the last retry has answered, below the table that is drawn anew.
  const answer = make('p', undefined, 'ms-quiet');
  answer.setAttribute('role', 'status');
  const retry = async (node, ids) => {
    node.disabled = true;
    try {
      const body = JSON.stringify({ workflowInstanceIds: ids });
      const response = await fetch(`${api}/alterations/workflows/retry`,
        { method: 'POST', headers: { 'Content-Type': 'application/json' }, body });
      const value = await response.json();
      const entries = (value.results ?? []).flatMap(({ log }) => log.logEntries);
      const failed = entries.filter(({ logLevel }) => logLevel === 'Error');
      const done = `Executed again: ${entries.length - failed.length}.`;
      answer.textContent = !response.ok ? value.message
        : failed.length ? `${done} Not: ${failed.length}, the first because: ${failed[0].message}` : done;
    } catch {
      answer.textContent = 'The server cannot be reached.';
    }
    page.refresh();
  };

  const page = open(main, server, 'Cluster', sections, answer);
  return page.leave;
};
