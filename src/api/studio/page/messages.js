// The page "Messages" of an instance: its resume links, what was sent to the sinks of webhooks, and its mails.
'use strict';

window.mainspringMessages = (main, server, id) => {
  const { make, table, open } = window.mainspringTables;
  const instance = encodeURIComponent(id);

  const drawMails = ({ items }, empty) => {
    const mails = items.filter(({ activityType }) => activityType === 'Elsa.SendEmail');
    if (!mails.length) return [make('p', empty, 'ms-quiet')];
    return [table(mails.map(({ activityName, activityId, status, startedAt, completedAt, activityState, exception }) => ({
      activity: activityName || activityId, to: activityState?.To, subject: activityState?.Subject, status, startedAt, completedAt,
      problem: exception?.message,
    })))];
  };

  const back = make('a', 'Back to the instance', 'ms-back');
  back.href = `workflows/instances/${instance}/view`;
  const sections = [
    ['Resume links', `workflow-instances/${instance}/resume-links`, 'No link leads to this instance.', undefined, 'read:resume-links'],
    ['Webhook deliveries', `workflow-instances/${instance}/webhook-deliveries`, 'Nothing was sent to a sink.', undefined, 'read:webhooks'],
    ['Mails', `activity-executions/list?workflowInstanceId=${instance}`, 'No mail was sent.', drawMails, 'read:activity-execution'],
  ];
  return open(main, server, `Messages of ${id}`, sections, back).leave;
};
