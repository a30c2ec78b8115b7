// A detector in Node.js: the NUMA nodes of a machine. It speaks detector.v1 with @grpc/grpc-js and nothing of prelet.
'use strict';

const fs = require('node:fs');
const path = require('node:path');
const protocol = require('./build/v1.binpb'); // esbuild puts the bytes into the program

const kind = { number: 'KIND_NUMBER' };

// The schema of `config {}`: it is described, and configurations are checked against it.
const config = [
  { name: 'expected', type: { kind: kind.number }, doc: 'How many nodes there should be. Another number is a warning.', minimum: 0 },
];

// What the detector is. It looks at nothing.
const description = {
  name: 'numa',
  version: '1.0.0',
  vendor: 'Example',
  doc: 'NUMA nodes.',
  config,
  facts: [{ name: 'nodes', type: { kind: kind.number }, doc: 'How many NUMA nodes the kernel has.' }],
  label_domains: ['numa.example.com'],
  match: { paths: ['/sys/bus/node/devices/node*'] },
  needs: { execute: ['/usr/bin/node'] }, // the interpreter, which the site grants like any program
};

// Returns what is wrong with a configuration. prelet has checked it, but against a lock that may be of another version.
function findProblems(fields) {
  const problems = [];
  for (const [name, value] of Object.entries(fields)) {
    if (!config.some((a) => a.name === name)) {
      problems.push({ path: name, summary: 'no such attribute', detail: 'The only attribute is "expected".' });
    } else if (value.kind !== 'number_value' && value.kind !== 'null_value') {
      problems.push({ path: name, summary: 'not a number' });
    }
  }
  return problems;
}

// Looks below root, which is / on a node and a folder in tests.
async function detect(root, fields) {
  const problems = findProblems(fields);
  if (problems.length > 0) {
    return { problems };
  }

  const folder = '/sys/devices/system/node';
  const warnings = [];
  const fact = { name: 'nodes', evidence: folder };
  try {
    const names = await fs.promises.readdir(path.join(root, folder));
    const nodes = names.filter((name) => /^node[0-9]+$/.test(name)).length;
    fact.value = { number_value: nodes };
    const expected = fields.expected?.number_value;
    if (expected !== undefined && expected !== nodes) {
      warnings.push(`${nodes} NUMA nodes, and ${expected} are expected`);
    }
  } catch (err) {
    fact.value = { null_value: 0 };
    fact.unknown = `cannot read ${folder} (${err.code})`;
  }
  return { facts: [fact], warnings };
}

// Answers calls on a Unix socket until the program is ended.
function serve(folder) {
  const grpc = require('@grpc/grpc-js');
  const loader = require('@grpc/proto-loader');

  const definition = loader.loadFileDescriptorSetFromBuffer(Buffer.from(protocol), { oneofs: true });
  const service = grpc.loadPackageDefinition(definition).detector.v1.DetectorService.service;

  const server = new grpc.Server({ 'grpc.max_receive_message_length': 1 << 20 });
  // A map of a compiled protocol is a list of entries here.
  const fieldsOf = (call) => Object.fromEntries((call.request.config?.fields ?? []).map((f) => [f.key, f.value]));
  server.addService(service, {
    Describe: (call, callback) => callback(null, description),
    Validate: (call, callback) => callback(null, { problems: findProblems(fieldsOf(call)) }),
    Detect: (call, callback) => {
      detect(call.request.root || '/', fieldsOf(call)).then((answer) => callback(null, answer), callback);
    },
  });

  const socket = path.join(folder, 'numa.sock');
  server.bindAsync(`unix:${socket}`, grpc.ServerCredentials.createInsecure(), (err) => {
    if (err) {
      console.error(`numa: ${err.message}`);
      process.exit(1);
    }
    process.stdout.write(`1|1|unix|${socket}|grpc\n`);
  });
  process.on('SIGTERM', () => process.exit(0));
}

// For people: describe and detect, as detectors in Go have them.
async function byHand(command) {
  if (command === 'describe') {
    console.log(JSON.stringify(description, null, 2));
  } else if (command === 'detect') {
    console.log(JSON.stringify(await detect('/', {}), null, 2));
  } else {
    console.log('numa tells prelet about NUMA nodes. prelet starts it; by hand it has the commands describe and detect.');
    process.exitCode = 64;
  }
}

if (process.env.PRELET_DETECTOR === 'detector.v1') {
  serve(process.env.PLUGIN_UNIX_SOCKET_DIR);
} else {
  byHand(process.argv[2]);
}
