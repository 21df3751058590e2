// Node.js's tools of migration against `tdekit serve`: each runs its first and second one.
//
// usage: migrate.js TOOL PORT on CERTIFICATE OTHER_CERTIFICATE
'use strict';

const fs = require('node:fs');

const [, , tool, port, mode, certificate] = process.argv;
const marker = process.env.INTEROP_MARKER;

// What every tool gives to tedious, which connects for it.
const server = {
  host: 'localhost',
  port: Number(port),
  user: 'sa',
  password: process.env.INTEROP_PASSWORD,
  database: 'app',
  options: {
    encrypt: true,
    trustServerCertificate: false,
    cryptoCredentialsDetails: { ca: fs.readFileSync(certificate) },
  },
};

const run = {
  knex: () => require('./knex-shop.js'),
  sequelize: () => require('./sequelize-shop.js'),
  typeorm: () => require('./typeorm-shop.js'),
}[tool]();
run(server, marker)
  .then(() => console.log(`${tool} ${mode}: ok`))
  .catch((error) => {
    console.error(error);
    process.exitCode = 1;
  });
