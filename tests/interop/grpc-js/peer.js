// A grpc-js application whose only knowledge of its backends comes from a management server.
//
// It starts two backends that answer every call with their own name, and obeys JSON commands on
// standard input, one a line; each is answered by one JSON event on standard output:
//
//     {"command": "connect"}               -> {"event": "connected"}
//     {"command": "call", "seconds": N}    -> {"event": "answer", ...}
//
// The bootstrap is the file that GRPC_XDS_BOOTSTRAP names; it is read when the channel is made. The
// program ends when its standard input does.

'use strict';

const readline = require('node:readline');

const grpc = require('@grpc/grpc-js');
const xds = require('@grpc/grpc-js-xds');

const TARGET = 'xds:///svc';
const METHOD = '/interop.Echo/WhoAreYou';

const asIs = (bytes) => bytes;

function say(event) {
  process.stdout.write(`${JSON.stringify(event)}\n`);
}

// The port of a server that answers with its name.
function startBackend(name) {
  const server = new grpc.Server();
  const whoAreYou = {
    path: METHOD,
    requestStream: false,
    responseStream: false,
    requestSerialize: asIs,
    requestDeserialize: asIs,
    responseSerialize: asIs,
    responseDeserialize: asIs,
  };
  server.addService({ whoAreYou }, { whoAreYou: (_, done) => done(null, Buffer.from(name)) });
  return new Promise((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, port) =>
      error ? reject(error) : resolve(port),
    );
  });
}

// One RPC: who answered it, or how it failed.
function call(client, seconds) {
  const deadline = Date.now() + seconds * 1000;
  return new Promise((resolve) => {
    client.makeUnaryRequest(METHOD, asIs, asIs, Buffer.alloc(0), { deadline }, (error, name) =>
      resolve(
        error
          ? { event: 'answer', backend: null, code: grpc.status[error.code], details: error.details }
          : { event: 'answer', backend: name.toString(), code: 'OK', details: null },
      ),
    );
  });
}

async function main() {
  xds.register();
  const backends = { first: await startBackend('first'), second: await startBackend('second') };
  const versions = ['@grpc/grpc-js', '@grpc/grpc-js-xds'].map((it) => require(`${it}/package.json`).version);
  say({ event: 'ready', version: versions.join(', xds '), backends });
  let client;
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const { command, seconds } = JSON.parse(line);
    if (command === 'connect') {
      client = new grpc.Client(TARGET, grpc.credentials.createInsecure());
      say({ event: 'connected' });
    } else {
      say(await call(client, seconds));
    }
  }
  process.exit(0);
}

main();
