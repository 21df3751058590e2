/** The extension's path: TDEKIT_EXTENSION, the installed one, or what `tdekit sqlite path` prints. */
export function loadablePath(): string;

/** Registers tdekit with the class of better-sqlite3, or with node:sqlite. */
export function load(
  driver: { new (path: string): object } | { DatabaseSync: { new (path: string): object } },
  extension?: string,
): void;

/** Registers tdekit with the module sqlite3. */
export function load(
  driver: { Database: { new (path: string): object }; OPEN_READWRITE: number },
  extension?: string,
): Promise<void>;
