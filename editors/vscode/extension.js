// Starts prelet-ls for the documents of a workspace. Everything else is the server's.
"use strict";

const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

/** @type {LanguageClient | undefined} */
let client;

// options returns how the server is started, from the user's settings.
function options(settings) {
  const server = { command: settings.get("server") || "prelet-ls", args: [] };
  const client = {
    documentSelector: [
      { scheme: "file", language: "prelet" },
    ],
    initializationOptions: {
      config: settings.get("config") || [],
      kubeletVersion: settings.get("kubeletVersion") || "",
    },
    synchronize: {
      configurationSection: "prelet",
      fileEvents: vscode.workspace.createFileSystemWatcher("**/*.{hcl,prelet.vars,tftpl,preletdata.*}"),
    },
  };

  return { server, client };
}

async function activate() {
  const { server, client: clientOptions } = options(vscode.workspace.getConfiguration("prelet"));
  client = new LanguageClient("prelet", "prelet", server, clientOptions);
  try {
    await client.start();
  } catch (err) {
    vscode.window.showErrorMessage(
      `Cannot start ${server.command}: ${err.message}. Build it with "make language-server" and put it into $PATH, ` +
        'or set "prelet.server".',
    );
  }
}

async function deactivate() {
  await client?.stop();
}

module.exports = { activate, deactivate, options };
