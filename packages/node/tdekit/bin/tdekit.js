#!/usr/bin/env node
'use strict';
// The command tdekit, from the platform's package: arguments, signals and exit code pass through.

const { spawn } = require('node:child_process');
const path = require('node:path');

const name = `@tdekit/${process.platform}-${process.arch}-gnu`;
let program;
try {
  program = path.join(path.dirname(require.resolve(`${name}/package.json`)), 'bin', 'tdekit');
} catch (error) {
  console.error(`error: ${name} is not installed: there is no package for this platform, or npm `
    + 'was told to leave optional packages out');
  process.exit(1);
}
const child = spawn(program, process.argv.slice(2), { stdio: 'inherit' });
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
child.on('error', (error) => {
  console.error(`error: ${program}: ${error.message}`);
  process.exit(1);
});
child.on('exit', (code, signal) => {
  if (!signal) process.exit(code);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
