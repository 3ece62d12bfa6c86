// The session of this browser: the API key of a tab, or the tokens of a user in all tabs. Requests wait for it and get it.
'use strict';

window.mainspringSession = (base, plainFetch) => {
  const api = new URL('../elsa/api', base).href;
  const KEY = 'mainspring-api-key';
  const TOKENS = 'mainspring-session';
  const RETRIES = 4;
  // Timers of a browser hold 31 bits.
  const LONGEST_TIMER = 2 ** 31 - 1;

  const read = () => {
    try {
      return JSON.parse(localStorage.getItem(TOKENS));
    } catch {
      return null;
    }
  };
  let key = sessionStorage.getItem(KEY) || '';
  // A tab with a key has no part in the session of the others.
  let tokens = key ? null : read();
  // Who signed in last in this tab, also when another one has signed out.
  let user = tokens;
  // What the server says about sign-in. `null`: not asked yet.
  let ways = null;
  let timer = null;
  let refreshing = null;
  // While a person is asked: the promise that requests wait for, and what ends it.
  let asked = null;
  let release = null;

  const pause = (time) => new Promise((resume) => setTimeout(resume, time));
  const isPassing = (response) => [502, 503, 504].includes(response.status);
  const post = (path, body, headers = {}) => plainFetch(`${api}/${path}`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', ...headers },
    body: body && JSON.stringify(body),
  });

  const self = {
    // Called with the credential whenever it changes, and when a person has to sign in: 'first', 'expired' or 'elsewhere'.
    onchange: () => {},
    onask: () => {},
    get ways() { return ways; },
    get name() { return user?.name; },
    get issuer() { return user?.issuer; },
    get isAsking() { return !!asked; },
    get credential() {
      if (tokens) return { scheme: 'Bearer', text: tokens.accessToken };
      return key ? { scheme: 'ApiKey', text: key } : null;
    },
  };
  const header = () => (self.credential ? `${self.credential.scheme} ${self.credential.text}` : null);

  // How long a token of this server is good, by its own times: the clock of this machine may be wrong.
  const lifetimeOf = (token) => {
    try {
      const { exp, iat } = JSON.parse(atob(token.split('.')[1].replaceAll('-', '+').replaceAll('_', '/')));
      return exp - iat;
    } catch {
      return 300;
    }
  };

  const changed = () => {
    clearTimeout(timer);
    user = tokens;
    if (tokens) {
      const left = tokens.expiresAt - Date.now();
      // Tabs that cannot agree ask at different times; the server answers the same tokens to a repeat.
      const early = Math.min(60_000, tokens.lifetime * 200) * (0.5 + Math.random() / 2);
      timer = setTimeout(() => refresh(tokens?.accessToken), Math.min(Math.max(left - early, 1000), LONGEST_TIMER));
    }
    self.onchange();
    if (asked && self.credential) {
      release();
      asked = null;
    }
  };

  const keep = (answer, more) => {
    const lifetime = answer.expiresIn ?? lifetimeOf(answer.accessToken);
    const { accessToken, refreshToken } = answer;
    tokens = { ...more, accessToken, refreshToken, lifetime, expiresAt: Date.now() + lifetime * 1000 };
    localStorage.setItem(TOKENS, JSON.stringify(tokens));
    sessionStorage.removeItem(KEY);
    key = '';
    changed();
  };

  // Another tab has signed in, got the next tokens, or signed out.
  window.addEventListener('storage', ({ key: name }) => {
    if (key || (name !== TOKENS && name !== null)) return;
    const before = tokens;
    tokens = read();
    if (tokens) changed();
    else if (before) self.ask('elsewhere');
  });
  window.addEventListener('visibilitychange', () => {
    // Timers rest while a machine sleeps.
    if (!document.hidden && tokens && tokens.expiresAt - Date.now() < 30_000) refresh(tokens.accessToken);
  });

  // Only one tab gets the next tokens; the others take them from it.
  const alone = (work) => (navigator.locks ? navigator.locks.request(`${TOKENS}-refresh`, work) : work());

  // Gets the next tokens, unless these are others already. False: the session is over. It stays as it is while the server is away.
  const refresh = (used) => {
    refreshing ??= alone(async () => {
      tokens = read();
      if (!tokens) return false;
      if (tokens.accessToken !== used) {
        changed();
        return true;
      }
      return next();
    }).finally(() => { refreshing = null; });
    return refreshing;
  };

  const next = async () => {
    const { accessToken: _, refreshToken, lifetime: __, expiresAt: ___, ...more } = tokens;
    if (!refreshToken) return tokens.expiresAt > Date.now();
    for (let attempt = 0; ; attempt += 1) {
      try {
        const response = tokens.issuer
          ? await post(`identity/external/${encodeURIComponent(tokens.issuer)}/refresh`, { refreshToken })
          : await post('identity/refresh-token', null, { Authorization: `Bearer ${refreshToken}` });
        if (response.ok) {
          const answer = await response.json();
          if (!answer.isAuthenticated) return false;
          // A sign-out in another tab stands, and so does a sign-in.
          if (read()?.refreshToken !== refreshToken) return Boolean(tokens = read());
          keep(answer, { ...more, signOutUrl: answer.signOutUrl ?? more.signOutUrl });
          return true;
        }
        await response.body?.cancel();
        if (!isPassing(response) && response.status !== 429) return false;
      } catch {
        // The server is away, or was stopped while it answered: the same refresh token is good for a repeat.
      }
      if (attempt >= RETRIES) break;
      await pause(250 * 2 ** attempt);
    }
    timer = setTimeout(() => refresh(tokens?.accessToken), 5000);
    return true;
  };

  // Asks a person. Requests wait until there is a credential.
  self.ask = (why) => {
    asked ??= new Promise((resolve) => { release = resolve; });
    key = '';
    sessionStorage.removeItem(KEY);
    clearTimeout(timer);
    self.onask(why);
    return asked;
  };

  // What the server says about sign-in, which may change: the first user ends a server without credentials.
  self.load = async () => {
    for (let attempt = 0; ; attempt += 1) {
      try {
        const response = await plainFetch(`${api}/identity/sign-in`);
        if (response.ok) {
          ways = await response.json();
          return ways;
        }
        await response.body?.cancel();
      } catch {
        // The node may just start.
      }
      await pause(Math.min(250 * 2 ** attempt, 5000));
    }
  };

  const unlessAborted = (waited, signal) => (signal ? Promise.race([waited, new Promise((_, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort, { once: true });
  })]) : waited);

  const authorized = (input, init, value) => {
    const isRequest = input instanceof Request;
    const headers = new Headers(init?.headers ?? (isRequest ? input.headers : undefined));
    if (value) headers.set('Authorization', value);
    else headers.delete('Authorization');
    return [isRequest ? input.clone() : input, { ...init, headers }];
  };

  // Sends a request with the credential of the moment. One that is refused is sent again with the next tokens, or after a person
  // has signed in again: its sender only notices that it takes longer.
  const send = async (input, init, signal) => {
    const isOnce = init?.body instanceof ReadableStream;
    if (!ways) await unlessAborted(self.load(), signal);
    for (let attempt = 0; ; attempt += 1) {
      if (asked) await unlessAborted(asked, signal);
      if (tokens && tokens.expiresAt < Date.now()) await unlessAborted(refresh(tokens.accessToken), signal);
      const used = header();
      const response = await plainFetch(...authorized(input, init, used));
      if (response.status !== 401) return response;
      if (!ways.isRequired && !(await self.load()).isRequired) return response;
      const isOver = header() === used && !(attempt === 0 && tokens && await unlessAborted(refresh(tokens.accessToken), signal));
      if (isOver && header() === used) {
        const waited = self.ask(used ? 'expired' : 'first');
        if (isOnce) return response;
        await unlessAborted(waited, signal);
      }
      if (isOnce) return response;
      await response.body?.cancel();
    }
  };

  self.fetch = (input, init) => {
    if (input instanceof Request) return send(input, init, init?.signal ?? input.signal);
    const { signal, ...rest } = init ?? {};
    const isSave = rest.method === 'POST' && new URL(input, base).href === `${api}/workflow-definitions`;
    // Studio gives up after a time. An edit that waits for a person is saved all the same.
    return isSave ? unlessAborted(send(input, rest), signal) : send(input, init, signal);
  };

  // The ways to sign in. Each gives a text that says what is wrong, or none.
  const AWAY = 'The server cannot be reached. Try again.';
  const problem = async (response) => {
    const wait = Number(response.headers.get('Retry-After'));
    const error = await response.json().catch(() => ({}));
    if (response.status === 429) return `Too many attempts. Try again in ${wait || 60} seconds.`;
    return error.message ?? AWAY;
  };

  self.useKey = async (given) => {
    let response;
    try {
      response = await plainFetch(`${api}/identity/me`, { headers: { Authorization: `ApiKey ${given}` } });
    } catch {
      return AWAY;
    }
    if (response.status === 401) {
      await response.body?.cancel();
      return 'The server does not accept this key.';
    }
    if (!response.ok) return problem(response);
    await response.body?.cancel();
    tokens = null;
    sessionStorage.setItem(KEY, given);
    key = given;
    changed();
    return null;
  };

  self.usePassword = async (username, password) => {
    let response;
    try {
      response = await post('identity/login', { username, password });
    } catch {
      return AWAY;
    }
    if (!response.ok) return problem(response);
    const answer = await response.json();
    if (!answer.isAuthenticated) return 'The user name or the password is wrong.';
    keep(answer, { name: username.trim() });
    return null;
  };

  self.useIssuer = async (issuer, steps) => {
    const response = await post(`identity/external/${encodeURIComponent(issuer)}/token`, steps);
    if (!response.ok) return problem(response);
    const answer = await response.json();
    keep(answer, { name: answer.name, issuer, signOutUrl: answer.signOutUrl });
    return null;
  };

  self.startIssuer = (issuer, redirectUri) => post(`identity/external/${encodeURIComponent(issuer)}/start`, { redirectUri });

  self.me = async () => {
    const response = await self.fetch(`${api}/identity/me`);
    return response.ok ? response.json() : null;
  };

  // Forgets the credential in all tabs, and leads to the issuer's own sign-out where there is one.
  self.signOut = () => {
    const url = tokens?.signOutUrl;
    // The server ends the session of its own users. A node that is away leaves it to the time of the tokens.
    if (tokens && !tokens.issuer) {
      plainFetch(`${api}/identity/logout`, { method: 'POST', headers: { Authorization: header() }, keepalive: true }).catch(() => {});
    }
    localStorage.removeItem(TOKENS);
    sessionStorage.removeItem(KEY);
    if (!url) {
      location.assign(base);
      return;
    }
    const target = new URL(url);
    target.searchParams.set('post_logout_redirect_uri', new URL('.', base).href);
    location.assign(target);
  };

  if (tokens) changed();
  return self;
};
