/** The variables that are visible here, by their names. Assigning to one sets it. */
declare const variables: WorkflowVariables;

/** Reads a variable; null if there is none of that name. */
declare function getVariable(name: string): any;
/** Sets a variable. */
declare function setVariable(name: string, value: any): void;
/** Reads an input of the workflow; null if it was not given. */
declare function getInput(name: string): any;
/** Reads an output of an activity that has run, by the id or name of the activity. Without a name, its only one or `Result`. */
declare function getOutputFrom(activity: string, output?: string): any;
/** The result of the activity that completed last. */
declare function getLastResult(): any;

/** The id of this instance. */
declare function getWorkflowInstanceId(): string;
/** The id of its definition, the same for all versions. */
declare function getWorkflowDefinitionId(): string;
/** The id of the version that runs. */
declare function getWorkflowDefinitionVersionId(): string;
/** The number of the version that runs. */
declare function getWorkflowDefinitionVersion(): number;
/** The correlation id, or null. */
declare function getCorrelationId(): string | null;
/** Sets the correlation id; null clears it. */
declare function setCorrelationId(value: string | null): void;
/** The name of this instance, or null. */
declare function getWorkflowInstanceName(): string | null;
/** Sets the name of this instance; null clears it. */
declare function setWorkflowInstanceName(value: string | null): void;
/** Sets the outcome of the activity. */
declare function setOutcome(outcome: string): void;
/** Sets the outcomes of the activity. */
declare function setOutcomes(outcomes: string[]): void;

/** Reads a setting that the operator lists in script-config; null if there is none of that name. */
declare function getConfig(name: string): string | null;
/** Reads a secret, a file in secrets-dir. What a script that receives one returns is not recorded. */
declare function getSecret(name: string): Promise<string>;
/** A link that triggers an event of this instance: until a date or for a time span such as `"1.00:00:00"` (7 days), so many times (once). */
declare function createEventTriggerUrl(eventName: string, lifetimeOrExpiryDate?: string | Date, uses?: number): string;
/** A link that resumes this activity at the first bookmark that it makes: until a date or for a time span, so many times (once). */
declare function createResumeUrl(lifetimeOrExpiryDate?: string | Date, uses?: number): string;

/** Whether a text is missing or has only white space. */
declare function isNullOrWhiteSpace(value: any): boolean;
/** Whether a text is missing or empty. */
declare function isNullOrEmpty(value: any): boolean;
/** A value as JSON. */
declare function toJson(value: any): string;
/** A GUID in its usual form; throws if the text is none. */
declare function parseGuid(value: string): string;
/** A new random GUID. */
declare function newGuid(): string;
/** A new random GUID. */
declare function newGuidString(): string;
/** A new random GUID. */
declare function getGuid(): string;
/** A new random GUID. */
declare function getGuidString(): string;
/** A new random GUID as a short text. */
declare function newShortGuid(): string;
/** A new random GUID as a short text. */
declare function getShortGuid(): string;
/** Bytes as text, read as UTF-8. */
declare function bytesToString(value: Uint8Array | string | number[]): string;
/** A text as bytes in UTF-8. */
declare function bytesFromString(value: string): Uint8Array;
/** Bytes as Base64. */
declare function bytesToBase64(value: Uint8Array | string | number[]): string;
/** The bytes of Base64. */
declare function bytesFromBase64(value: string): Uint8Array;
/** The bytes of a stream, which is bytes here. */
declare function streamToBytes(value: Uint8Array | string | number[]): Uint8Array;
/** The bytes of a stream as Base64. */
declare function streamToBase64(value: Uint8Array | string | number[]): string;
/** A text in UTF-8 as Base64. */
declare function stringToBase64(value: string): string;
/** The text of Base64, read as UTF-8. */
declare function stringFromBase64(value: string): string;
/** A length of time of .NET; `TimeSpan.FromMinutes(5)`, `TimeSpan.Parse("1.02:03:04")`, `new TimeSpan(1, 30, 0)`. */
declare class TimeSpan { constructor(...parts: number[]); [member: string]: any; static [member: string]: any; }
/** A date and time of .NET, and a Date; `DateTime.UtcNow.AddDays(1)`, `new DateTime(2026, 1, 31).ToString("yyyy-MM-dd")`. */
declare class DateTime extends Date { constructor(...parts: any[]); [member: string]: any; static [member: string]: any; }
/** A date and time with its offset from UTC; `DateTimeOffset.Parse("2026-01-31T12:00:00+02:00").Offset`. */
declare class DateTimeOffset extends DateTime { constructor(...parts: any[]); }
/** A GUID; `Guid.NewGuid().ToString("N")`. */
declare class Guid { constructor(value?: string); [member: string]: any; static [member: string]: any; }
/** Random numbers; `new Random().Next(1, 7)`. */
declare class Random { Next(a?: number, b?: number): number; NextDouble(): number; static readonly Shared: Random; }
/** How values are recorded. */
declare const LogPersistenceMode: { readonly Inherit: string; readonly Include: string; readonly Exclude: string };
