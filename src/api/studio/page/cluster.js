// The page "Cluster": nodes, queue, locks, schedules, fan-outs, dead letters and what has faulted as plain tables.
'use strict';

window.mainspringCluster = (main, { api, headers, fetch }) => {
  const REFRESH = 5000;
  const make = (name, text, className) => {
    const node = document.createElement(name);
    if (text !== undefined) node.textContent = text;
    if (className) node.className = className;
    return node;
  };

  const words = (name) => name.replace(/([a-z0-9])([A-Z])/g, '$1 $2').replace(/^./, (first) => first.toUpperCase());
  const isTime = (value) => typeof value === 'string' && /^\d{4}-\d\d-\d\dT/.test(value);
  const text = (value) => {
    if (value === null || value === undefined || value === '') return '–';
    if (typeof value === 'boolean') return value ? 'yes' : 'no';
    if (isTime(value)) return new Date(value).toLocaleString();
    if (Array.isArray(value)) return value.length ? value.map(text).join(', ') : '–';
    if (typeof value === 'object') return Object.entries(value).map(([name, part]) => `${words(name)}: ${text(part)}`).join(', ');
    return String(value);
  };

  const table = (items, action) => {
    const columns = [...new Set(items.flatMap((item) => Object.keys(item)))];
    const node = make('table', undefined, 'ms-table');
    const head = node.createTHead().insertRow();
    for (const column of columns) head.append(make('th', words(column)));
    const body = node.createTBody();
    for (const item of items) {
      const row = body.insertRow();
      for (const column of columns) {
        const cell = row.insertCell();
        cell.textContent = text(item[column]);
        if (typeof item[column] === 'number') cell.className = 'ms-number';
      }
      if (action) row.insertCell().append(action(item));
    }
    const frame = make('div', undefined, 'ms-table-frame');
    frame.append(node);
    return frame;
  };

  const facts = (value) => {
    const list = make('dl', undefined, 'ms-facts');
    for (const [name, part] of Object.entries(value)) {
      const fact = make('div');
      fact.append(make('dt', words(name)), make('dd', text(part)));
      list.append(fact);
    }
    return list;
  };

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
    const all = button(`Retry ${items.length} of ${totalCount}`, items.map(({ id }) => id));
    return [table(shown, ({ instance }) => button('Retry', [instance])), all];
  };

  const sections = [
    ['Nodes', 'cluster/nodes', 'No node is registered.'],
    ['Queue', 'cluster/queue', 'No work waits.'],
    ['Schedules', 'cluster/schedules?pageSize=50', 'No schedule is published.'],
    ['Locks', 'cluster/locks', 'No lock is held.'],
    ['Fan-outs', 'cluster/fan-outs?pageSize=50', 'No event is being given to many bookmarks.'],
    ['Dead letters', 'cluster/dead-letters?pageSize=50', 'No dead letter: nothing was given up.'],
    ['Faulted', 'workflow-instances?hasIncidents=true&pageSize=50', 'No activity has faulted.', drawFaulted],
  ].map(([title, path, empty, own]) => {
    const section = make('section', undefined, 'ms-section');
    const body = make('div', 'Loading…', 'ms-quiet');
    section.append(make('h2', title), body);
    return { section, body, path, empty, own };
  });

  const draw = (value, empty) => {
    const parts = [];
    const items = Array.isArray(value) ? value : value.items;
    if (items?.length) parts.push(table(items));
    const rest = Object.entries(Array.isArray(value) ? {} : value).filter(([name]) => name !== 'items');
    const lists = rest.filter(([, part]) => Array.isArray(part) && part.length && typeof part[0] === 'object');
    const plain = rest.filter(([name, part]) => !(Array.isArray(part) && (!part.length || typeof part[0] === 'object'))
      && !(items && !items.length) && name !== 'totalCount');
    if (plain.length) parts.unshift(facts(Object.fromEntries(plain)));
    for (const [name, list] of lists) parts.push(make('h3', words(name)), table(list));
    return parts.length ? parts : [make('p', empty, 'ms-quiet')];
  };

  // What the last retry has answered, below the table that is drawn anew.
  const answer = make('p', undefined, 'ms-quiet');
  answer.setAttribute('role', 'status');
  const retry = async (node, ids) => {
    node.disabled = true;
    try {
      const body = JSON.stringify({ workflowInstanceIds: ids });
      const response = await fetch(`${api}/alterations/workflows/retry`,
        { method: 'POST', headers: { ...headers(), 'Content-Type': 'application/json' }, body });
      const value = await response.json();
      const entries = (value.results ?? []).flatMap(({ log }) => log.logEntries);
      const failed = entries.filter(({ logLevel }) => logLevel === 'Error');
      const done = `Executed again: ${entries.length - failed.length}.`;
      answer.textContent = !response.ok ? value.message
        : failed.length ? `${done} Not: ${failed.length}, the first because: ${failed[0].message}` : done;
    } catch {
      answer.textContent = 'The server cannot be reached.';
    }
    clearTimeout(timer);
    refresh();
  };

  const page = make('div', undefined, 'ms-cluster-page');
  page.append(make('h1', 'Cluster'), ...sections.map(({ section }) => section), answer);
  main.append(page);

  let timer = null;
  let left = false;
  const refresh = async () => {
    if (!document.hidden) {
      await Promise.all(sections.map(async ({ body, path, empty, own }) => {
        let parts;
        try {
          const response = await fetch(`${api}/${path}`, { headers: headers() });
          const value = await response.json();
          parts = response.ok ? (own ?? draw)(value, empty) : [make('p', value.message, 'ms-error')];
        } catch {
          parts = [make('p', 'The server cannot be reached.', 'ms-error')];
        }
        if (!left) {
          body.className = '';
          body.replaceChildren(...parts);
        }
      }));
    }
    if (!left) timer = setTimeout(refresh, REFRESH);
  };
  refresh();
  return () => {
    left = true;
    clearTimeout(timer);
  };
};
