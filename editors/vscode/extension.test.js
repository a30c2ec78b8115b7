// Checks the extension without an editor: the stubs below record what it asks for.
"use strict";

const assert = require("node:assert/strict");
const fs = require("node:fs");
const Module = require("node:module");
const path = require("node:path");
const test = require("node:test");

const started = [];
const shown = [];
let settings = {};
let failure;

const stubs = {
  vscode: {
    workspace: {
      getConfiguration: (section) => ({ get: (key) => settings[`${section}.${key}`] }),
      createFileSystemWatcher: (glob) => ({ glob }),
    },
    window: { showErrorMessage: (text) => shown.push(text) },
  },
  "vscode-languageclient/node": {
    LanguageClient: class {
      constructor(id, name, server, client) {
        Object.assign(this, { id, server, client });
      }
      async start() {
        if (failure) throw failure;
        started.push(this);
      }
      async stop() {
        started.splice(started.indexOf(this), 1);
      }
    },
  },
};
const load = Module._load;
Module._load = (name, ...rest) => stubs[name] ?? load(name, ...rest);
const extension = require("./extension.js");
const manifest = require("./package.json");

test("starts the server that is configured, with the settings of the site", async () => {
  settings = { "prelet.server": "/opt/prelet-ls", "prelet.config": ["base", "gpu"], "prelet.kubeletVersion": "1.36" };
  await extension.activate();
  assert.equal(started.length, 1);
  assert.deepEqual(started[0].server, { command: "/opt/prelet-ls", args: [] });
  assert.deepEqual(started[0].client.initializationOptions, { config: ["base", "gpu"], kubeletVersion: "1.36" });
  await extension.deactivate();
  assert.equal(started.length, 0);
});

test("says what to do when the server cannot be started", async () => {
  settings = {};
  failure = new Error("spawn prelet-ls ENOENT");
  await extension.activate();
  assert.match(shown[0], /Cannot start prelet-ls: spawn prelet-ls ENOENT.*make language-server/);
});

test("the manifest names files that exist, and each setting that the extension reads", () => {
  const files = [
    manifest.main,
    ...manifest.contributes.languages.map((l) => l.configuration),
    ...manifest.contributes.grammars.map((g) => g.path),
  ];
  for (const file of files) {
    assert.ok(fs.existsSync(path.join(__dirname, file)), file);
  }
  const source = fs.readFileSync(path.join(__dirname, manifest.main), "utf8");
  const read = [...source.matchAll(/settings\.get\("(\w+)"\)/g)].map((m) => `prelet.${m[1]}`);
  assert.deepEqual(Object.keys(manifest.contributes.configuration.properties).sort(), read.sort());
});
