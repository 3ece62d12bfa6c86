// The dialog that signs in: before a page is shown, and over a page whose session has ended, which keeps all that was typed.
'use strict';

window.mainspringSignIn = (base, session) => {
  const element = (id) => document.getElementById(id);
  const dialog = element('ms-sign-in');
  const POPUP = 'popup,width=520,height=720';
  let why = 'first';
  let usesKey = false;

  const texts = {
    first: ['Sign in', ''],
    expired: ['Your session has ended', 'Sign in again to go on. What you have changed on this page is kept.'],
    elsewhere: ['You have signed out', 'You signed out in another window. What you have changed on this page is kept: sign in again to go on.'],
  };
  const isInPlace = () => why !== 'first';

  const fail = (message) => {
    for (const node of dialog.querySelectorAll('.ms-error')) node.textContent = message;
  };

  const button = ({ name, displayName, isAway }) => {
    const node = document.createElement('button');
    node.type = 'button';
    node.className = 'ms-button ms-issuer';
    node.textContent = `Continue with ${displayName}`;
    if (isAway) {
      const note = document.createElement('span');
      note.className = 'ms-note';
      note.textContent = 'does not answer at the moment';
      node.append(note);
    }
    node.onclick = () => {
      fail('');
      const url = new URL(`sign-in/${encodeURIComponent(name)}`, base);
      if (!isInPlace()) {
        sessionStorage.setItem('mainspring-return', location.href);
        location.assign(url);
        return;
      }
      // The page stays as it is: the sign-in happens in a window of its own, and its tokens come from there.
      url.hash = 'window';
      if (!window.open(url, '_blank', POPUP)) fail('The browser has blocked the window of the sign-in. Allow it, and try again.');
    };
    return node;
  };

  const draw = () => {
    const { acceptsKey, acceptsPassword, issuers } = session.ways;
    const [title, text] = texts[why];
    element('ms-sign-in-title').textContent = title;
    element('ms-sign-in-text').textContent = text;
    // A session goes on in the way it began, so that no user saves what another one has typed.
    const before = isInPlace() && session.name ? session.issuer ?? '' : null;
    const shown = issuers.filter(({ name }) => before === null || before === name);
    const asksPassword = acceptsPassword && !usesKey && (before === null || before === '');
    const asksKey = usesKey || (!asksPassword && !shown.length);
    element('ms-issuers').replaceChildren(...(usesKey ? [] : shown.map(button)));
    element('ms-or').hidden = usesKey || !shown.length || !asksPassword;
    element('ms-password-form').hidden = !asksPassword;
    element('ms-key-form').hidden = !asksKey;
    const other = element('ms-other');
    other.hidden = before === null && (!acceptsKey || (!acceptsPassword && !issuers.length));
    other.textContent = before !== null ? 'Sign in as another user' : usesKey ? 'Sign in as a user' : 'Use an API key';
    element('ms-other-note').hidden = before === null;
    const name = element('ms-name');
    name.readOnly = before !== null;
    if (before !== null) name.value = session.name;
    fail('');
    const first = asksPassword ? (name.readOnly ? element('ms-password') : name) : asksKey ? element('ms-key') : null;
    (first ?? dialog.querySelector('.ms-issuer'))?.focus();
  };

  // One form at a time sends; its button says so.
  const submit = (form, send) => form.addEventListener('submit', async (event) => {
    event.preventDefault();
    const node = form.querySelector('button');
    node.disabled = true;
    fail('');
    const message = await send().catch(() => 'The server cannot be reached. Try again.');
    node.disabled = false;
    if (message) {
      fail(message);
      const wrong = form.querySelector('input[type=password]');
      wrong.select();
      wrong.focus();
    }
  });
  submit(element('ms-password-form'), async () => {
    const message = await session.usePassword(element('ms-name').value, element('ms-password').value);
    if (!message) element('ms-password').value = '';
    return message;
  });
  submit(element('ms-key-form'), async () => {
    const message = await session.useKey(element('ms-key').value.trim());
    if (!message) element('ms-key').value = '';
    return message;
  });
  element('ms-other').addEventListener('click', () => {
    if (isInPlace() && session.name) {
      session.signOut();
      return;
    }
    usesKey = !usesKey;
    draw();
  });
  dialog.addEventListener('cancel', (event) => event.preventDefault());

  return {
    open: async (reason) => {
      why = reason;
      if (!session.ways) await session.load();
      // Another tab may have signed in meanwhile.
      if (!session.isAsking) return;
      usesKey = false;
      dialog.classList.toggle('ms-over', isInPlace());
      if (!dialog.open) dialog.showModal();
      draw();
    },
    close: () => {
      if (dialog.open) dialog.close();
    },
  };
};
