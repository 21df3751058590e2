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

/** What opens the key store: one of both. */
export type Secret = { password: string } | { passwordFile: string };

/** Opens a database with better-sqlite3 by a secret of its own; `rest` are the class's options. */
export function connect<D extends object>(
  driver: { new (path: string, ...rest: any[]): D },
  file: string,
  secret: Secret,
  ...rest: any[]
): D;

/** The same with node:sqlite. */
export function connect<D extends object>(
  driver: { DatabaseSync: { new (path: string, ...rest: any[]): D } },
  file: string,
  secret: Secret,
  ...rest: any[]
): D;

/** The same with the module sqlite3. */
export function connect<D extends object>(
  driver: { Database: { new (path: string, ...rest: any[]): D }; OPEN_READWRITE: number },
  file: string,
  secret: Secret,
  ...rest: any[]
): Promise<D>;
