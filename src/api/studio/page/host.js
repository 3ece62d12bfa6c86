// The frame around the elements of Elsa Studio: navigation, who one is, and retries.
'use strict';

(() => {
  const base = new URL('.', document.baseURI);
  // The address of the document changes with each navigation; the base must not.
  document.querySelector('base').href = base.href;
  const api = new URL('../elsa/api', base).href;
  const RETRIES = 4;
  const READ_TIME = 150;
  const MAX_WAIT = 3000;
  const NOTICE_TIME = 8000;
  const element = (id) => document.getElementById(id);

  let shown = null;
  // Who one is, and what one may do. `null`: not known yet.
  let caller = null;
  // The page was asked for by no path: it is the first one that one may see.
  let isAnyPage = false;
  let provider = null;
  let leave = null;
  let removed = Promise.resolve();
  let pending = 0;
  let settledAt = 0;

  const plainFetch = window.fetch.bind(window);
  const session = window.mainspringSession(base, plainFetch);
  const signIn = window.mainspringSignIn(base, session);
  // The API, and the hub beside it.
  const isOfServer = (url) => url.href.startsWith(`${api}/`) || url.href.startsWith(new URL('../elsa/hubs/', base).href);

  // Studio does not repeat a request. A read that meets a node which is going away is repeated here.
  const readsByPost = /\/(workflow-instances(\/[^/]+\/journal)?|activity-executions\/report)$/;
  const isRead = (url, method) => method === 'GET' || (method === 'POST' && readsByPost.test(url.pathname));
  const isPassing = (response) => [502, 503, 504].includes(response.status);

  const pause = (time) => new Promise((resume) => setTimeout(resume, time));
  // Studio does not expect that a page ends while it reads. The body is read after the response has come.
  const untilQuiet = async () => {
    const end = Date.now() + MAX_WAIT;
    while (Date.now() < end && (pending > 0 || Date.now() - settledAt < READ_TIME)) await pause(30);
  };

  const fetchWithRetries = async (input, init) => {
    const isRequest = input instanceof Request;
    const url = new URL(isRequest ? input.url : input, base);
    const method = (init?.method || (isRequest ? input.method : 'GET')).toUpperCase();
    if (!isOfServer(url)) return plainFetch(input, init);
    pending += 1;
    try {
      const response = await sendWithRetries(input, init, url, method, isRequest);
      if (response.status === 403 && !isRead(url, method)) tellRefusal(response.clone());
      return response;
    } finally {
      pending -= 1;
      settledAt = Date.now();
    }
  };

  // Studio says of an edit that is refused only that it is not saved.
  let noticeTimer = null;
  const tellRefusal = async (response) => {
    const error = await response.json().catch(() => ({}));
    const notice = element('ms-notice');
    notice.textContent = error.message ?? 'The server has refused this.';
    notice.hidden = false;
    clearTimeout(noticeTimer);
    noticeTimer = setTimeout(() => { notice.hidden = true; }, NOTICE_TIME);
  };

  const sendWithRetries = async (input, init, url, method, isRequest) => {
    const repeats = isRequest || init?.body instanceof ReadableStream || !isRead(url, method) ? 0 : RETRIES;
    for (let attempt = 0; ; attempt += 1) {
      try {
        const response = await session.fetch(input, init);
        if (!isPassing(response) || attempt >= repeats) return response;
      } catch (error) {
        if (attempt >= repeats || error.name === 'AbortError') throw error;
      }
      await pause(250 * 2 ** attempt);
    }
  };
  window.fetch = fetchWithRetries;

  // The pages. Each is one element of Studio, or drawn by a function of our own.
  const studioElement = (name, attributes, properties) => {
    const node = document.createElement(name);
    for (const [attribute, value] of Object.entries(attributes)) node.setAttribute(attribute, value);
    // What is set before Blazor has defined the element is lost.
    customElements.whenDefined(name).then(() => Object.assign(node, properties));
    return node;
  };
  const editPath = (id) => `workflows/definitions/${encodeURIComponent(id)}/edit`;
  const viewPath = (id) => `workflows/instances/${encodeURIComponent(id)}/view`;
  const messagesPath = (id) => `workflows/instances/${encodeURIComponent(id)}/messages`;
  const pages = [
    [/^workflows\/definitions\/?$/, 'definitions', 'Definitions', () => studioElement('elsa-workflow-definition-list', {},
      { editWorkflowDefinition: (id) => go(editPath(id)) })],
    [/^workflows\/definitions\/([^/]+)\/edit\/?$/, 'definitions', 'Editor', (id) => studioElement('elsa-workflow-definition-editor',
      { 'definition-id': id })],
    [/^workflows\/instances\/?$/, 'instances', 'Instances', () => studioElement('elsa-workflow-instance-list', {},
      { viewWorkflowInstance: (id) => go(viewPath(id)) })],
    [/^workflows\/instances\/([^/]+)\/view\/?$/, 'instances', 'Instance', (id) => studioElement('elsa-workflow-instance-viewer',
      { 'instance-id': id })],
    [/^workflows\/instances\/([^/]+)\/messages\/?$/, 'instances', 'Messages', null, window.mainspringMessages],
    [/^cluster\/?$/, 'cluster', 'Cluster', null, window.mainspringCluster],
  ];

  // The page at a path, and the ids in it; none: a path of no page, or with an id that cannot be decoded.
  const pageAt = (path) => {
    const page = pages.find(([pattern]) => pattern.test(path));
    if (!page) return null;
    try {
      return { page, ids: page[0].exec(path).slice(1).map(decodeURIComponent) };
    } catch {
      return null;
    }
  };

  const relativePath = () => {
    const path = location.pathname;
    return path.startsWith(base.pathname) ? path.slice(base.pathname.length) : '';
  };

  const pushState = history.pushState.bind(history);
  const replaceState = history.replaceState.bind(history);
  // Blazor keeps a location of its own, so it navigates wherever it has started.
  const go = (path) => {
    const url = new URL(path, base).href;
    if (provider && window.Blazor?.navigateTo) window.Blazor.navigateTo(url);
    else history.pushState(null, '', url);
  };
  history.pushState = (state, unused, url) => {
    pushState(state, unused, url);
    show();
  };
  // A list writes its paging into the query, perhaps after the user has left it: then this is not its address any more.
  history.replaceState = (state, unused, url) => {
    const target = new URL(url ?? location.href, base);
    if (target.pathname === location.pathname) replaceState(state, unused, target);
  };

  // Whether one has a permission, by its name or a wildcard.
  const may = (name) => {
    const own = caller?.permissions ?? [];
    const above = name.split(':').map((_, count, parts) => `${parts.slice(0, count).join(':')}:*`).slice(1);
    return ['*', name, ...above].some((one) => own.includes(one));
  };
  const READS = {
    definitions: 'read:workflow-definitions',
    instances: 'read:workflow-instances',
    cluster: 'read:cluster',
  };
  const FIRST = { definitions: 'workflows/definitions', instances: 'workflows/instances', cluster: 'cluster' };

  const refuse = (group) => {
    const text = document.createElement('p');
    text.className = 'ms-refused';
    text.textContent = `${caller.name || 'You'} may not see this page: it needs the permission ${READS[group]}. An administrator can give it.`;
    element('ms-loading').hidden = true;
    element('ms-page').replaceChildren(text);
  };

  const show = async () => {
    if (!caller) return;
    const path = relativePath();
    // The lists keep their paging in the query.
    if (path === shown) return;
    const found = pageAt(path);
    if (!found || isAnyPage) {
      isAnyPage = false;
      const first = Object.keys(FIRST).find((group) => may(READS[group])) ?? 'definitions';
      replaceState(null, '', new URL(FIRST[first], base));
      show();
      return;
    }
    shown = path;
    const [, group, title, make, draw] = found.page;
    document.title = `${title} · Mainspring`;
    for (const link of document.querySelectorAll('.ms-nav a')) {
      if (link.dataset.page === group) link.setAttribute('aria-current', 'page');
      else link.removeAttribute('aria-current');
    }
    const messages = element('ms-messages');
    messages.hidden = title !== 'Instance';
    if (!messages.hidden) messages.href = messagesPath(...found.ids);
    const main = element('ms-page');
    leave?.();
    leave = null;
    const before = main.firstElementChild;
    main.replaceChildren();
    main.className = `ms-page ms-${group} ms-${title.toLowerCase()}`;
    if (!may(READS[group])) {
      refuse(group);
      removed = Promise.all([removed, remove(before)]);
      return;
    }
    if (!make) {
      element('ms-loading').hidden = true;
      leave = draw(main, { api, fetch: fetchWithRetries, may }, ...found.ids);
      removed = Promise.all([removed, remove(before)]);
      return;
    }
    element('ms-loading').hidden = false;
    removed = Promise.all([removed, remove(before)]);
    await removed;
    // Another navigation may have followed.
    if (shown !== path) return;
    if (!provider) {
      provider = studioElement('elsa-backend-provider', { 'remote-endpoint': api });
      giveCredential();
      document.body.append(provider);
    }
    main.replaceChildren(make(...found.ids));
    waitForContent(main);
  };

  // Blazor removes the component of an element one second after the element. Two pages of Studio cannot be there at the
  // same time, so the component is removed at once, by the names that Blazor's own code uses for it.
  const remove = async (node) => {
    const component = node?._addRootComponentPromise;
    if (!component) return;
    clearTimeout(node._disposalTimeoutHandle);
    node._isDisposed = true;
    await untilQuiet();
    try {
      await (await component).dispose();
    } catch (error) {
      console.warn('A page of Elsa Studio was not removed', error);
    }
  };

  // Blazor draws an element when it has started; until then the page says that it loads.
  const waitForContent = (main) => {
    const loading = element('ms-loading');
    const hasContent = () => main.firstElementChild?.childElementCount > 0;
    loading.hidden = hasContent();
    if (loading.hidden) return;
    const observer = new MutationObserver(() => {
      if (!hasContent()) return;
      loading.hidden = true;
      observer.disconnect();
    });
    observer.observe(main, { childList: true, subtree: true });
  };

  // Studio sends what its provider has; each request gets that of its moment all the same.
  const giveCredential = () => {
    const { scheme, text } = session.credential ?? {};
    for (const [name, value] of [['api-key', scheme === 'ApiKey' && text], ['access-token', scheme === 'Bearer' && text]]) {
      if (value) provider?.setAttribute(name, value);
      else provider?.removeAttribute(name);
    }
  };

  // The corner says who one is, and the navigation has what one may see.
  const showCaller = () => {
    const isKnown = caller.kind !== 'anonymous';
    const user = element('ms-user');
    user.hidden = !isKnown;
    element('ms-user-name').textContent = caller.name;
    user.title = [caller.id, caller.issuer, caller.tenantId].filter(Boolean).join(' · ');
    for (const link of document.querySelectorAll('.ms-nav a[data-page]')) link.hidden = !may(READS[link.dataset.page]);
  };

  const enter = async () => {
    const former = caller;
    const found = await session.me();
    if (!found) {
      setTimeout(enter, 2000);
      return;
    }
    // What is on the page was read, and typed, by another user.
    if (former && (former.kind !== found.kind || former.id !== found.id || former.issuer !== found.issuer)) {
      location.reload();
      return;
    }
    caller = found;
    showCaller();
    show();
  };

  session.onask = (why) => {
    if (!caller) element('ms-loading').hidden = true;
    signIn.open(caller || why === 'elsewhere' ? why : 'first');
  };
  session.onchange = () => {
    giveCredential();
    if (!session.isAsking) return;
    signIn.close();
    if (!caller) element('ms-loading').hidden = false;
    // After the requests that wait, which go on now.
    setTimeout(enter, 0);
  };
  element('ms-sign-out').addEventListener('click', session.signOut);

  document.addEventListener('click', (event) => {
    const link = event.target.closest?.('.ms-bar a, .ms-back');
    if (!link || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    go(link.getAttribute('href'));
  });
  window.addEventListener('popstate', show);
  document.querySelector('#blazor-error-ui .dismiss').addEventListener('click', (event) => {
    event.preventDefault();
    element('blazor-error-ui').style.display = 'none';
  });

  window.addEventListener('DOMContentLoaded', () => {
    // Before Blazor starts, which reads the address.
    if (!pageAt(relativePath())) {
      isAnyPage = true;
      replaceState(null, '', new URL('workflows/definitions', base));
    }
    session.load().then((ways) => {
      if (ways.isRequired && !session.credential) session.ask('first');
      else enter();
    });
  });
})();
