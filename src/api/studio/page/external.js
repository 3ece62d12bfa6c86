// The two steps of a sign-in with an OpenID issuer: to its page, and back with a code.
'use strict';

(() => {
  const base = new URL('.', document.baseURI);
  const session = window.mainspringSession(base, window.fetch.bind(window));
  const STEPS = 'mainspring-steps';
  const RETURN = 'mainspring-return';
  const text = document.getElementById('ms-step');
  const path = location.pathname.slice(base.pathname.length);

  const fail = (message) => {
    text.textContent = message;
    text.className = 'ms-error';
    document.getElementById('ms-step-spinner').hidden = true;
    document.getElementById('ms-step-back').hidden = false;
  };

  const start = async (issuer, isWindow) => {
    const redirectUri = new URL('signed-in', base).href;
    const response = await session.startIssuer(issuer, redirectUri);
    const answer = await response.json();
    if (!response.ok) {
      fail(answer.message);
      return;
    }
    const { url, ...steps } = answer;
    sessionStorage.setItem(STEPS, JSON.stringify({ ...steps, issuer, redirectUri, isWindow }));
    location.replace(url);
  };

  const finish = async () => {
    const given = new URLSearchParams(location.search);
    // A code is good once, and no place in a history is good for it.
    history.replaceState(null, '', new URL('signed-in', base));
    const steps = JSON.parse(sessionStorage.getItem(STEPS));
    sessionStorage.removeItem(STEPS);
    if (!steps || given.get('state') !== steps.state) {
      fail('This sign-in did not begin in this window. Begin it again.');
      return;
    }
    if (!given.get('code')) {
      const reason = given.get('error') === 'access_denied' ? 'you, or the issuer, have refused it' : given.get('error');
      fail(`The sign-in was not completed: ${reason ?? 'there is no code'}.`);
      return;
    }
    const { issuer, nonce, verifier, redirectUri } = steps;
    const message = await session.useIssuer(issuer, { code: given.get('code'), nonce, verifier, redirectUri });
    if (message) {
      fail(message);
      return;
    }
    if (steps.isWindow) {
      window.close();
      text.textContent = 'You are signed in. Close this window to go on.';
      document.getElementById('ms-step-spinner').hidden = true;
      return;
    }
    const back = sessionStorage.getItem(RETURN);
    sessionStorage.removeItem(RETURN);
    location.replace(back?.startsWith(base.href) ? back : base.href);
  };

  const named = /^sign-in\/([^/]+)$/.exec(path);
  const step = named ? start(decodeURIComponent(named[1]), location.hash === '#window') : finish();
  step.catch(() => fail('The server cannot be reached. Try again.'));
})();
