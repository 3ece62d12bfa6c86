// A page of plain tables: each section is what one path of the API answers, drawn anew every five seconds.
'use strict';

window.mainspringTables = (() => {
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

  // A section has a title, a path, a text for nothing, a drawing of its own where it needs one, and the permission without which it
  // is left out. `below` stands under all of them.
  // Returns what draws the page at once, and what ends it.
  const open = (main, { api, fetch, may }, title, sections, ...below) => {
    const seen = sections.filter(([, , , , needs]) => !needs || may(needs));
    const all = seen.map(([heading, path, empty, own]) => {
      const section = make('section', undefined, 'ms-section');
      const body = make('div', 'Loading…', 'ms-quiet');
      section.append(make('h2', heading), body);
      return { section, body, path, empty, own };
    });
    const page = make('div', undefined, 'ms-tables');
    page.append(make('h1', title), ...all.map(({ section }) => section), ...below);
    main.append(page);

    let timer = null;
    let left = false;
    const read = async ({ body, path, empty, own }) => {
      let parts;
      try {
        const response = await fetch(`${api}/${path}`);
        const value = await response.json();
        parts = response.ok ? (own ?? draw)(value, empty) : [make('p', value.message, 'ms-error')];
      } catch {
        parts = [make('p', 'The server cannot be reached.', 'ms-error')];
      }
      if (left) return;
      body.className = '';
      body.replaceChildren(...parts);
    };
    const refresh = async () => {
      clearTimeout(timer);
      if (!document.hidden) await Promise.all(all.map(read));
      if (!left) timer = setTimeout(refresh, REFRESH);
    };
    refresh();
    const leave = () => {
      left = true;
      clearTimeout(timer);
    };
    return { refresh, leave };
  };

  return { make, table, open };
})();
