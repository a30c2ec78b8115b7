// Checks the grammar with the tokenizer of the editor: what each word of a line is taken for.
"use strict";

const assert = require("node:assert/strict");
const fs = require("node:fs");
const path = require("node:path");
const test = require("node:test");
const oniguruma = require("vscode-oniguruma");
const { Registry, INITIAL, parseRawGrammar } = require("vscode-textmate");

const file = path.join(__dirname, "syntaxes", "prelet.tmLanguage.json");

async function grammar() {
  const wasm = fs.readFileSync(require.resolve("vscode-oniguruma/release/onig.wasm"));
  await oniguruma.loadWASM(wasm.buffer.slice(wasm.byteOffset, wasm.byteOffset + wasm.byteLength));
  const registry = new Registry({
    onigLib: Promise.resolve({
      createOnigScanner: (patterns) => new oniguruma.OnigScanner(patterns),
      createOnigString: (text) => new oniguruma.OnigString(text),
    }),
    loadGrammar: async () => parseRawGrammar(fs.readFileSync(file, "utf8"), file),
  });

  return registry.loadGrammar("source.prelet");
}

// scopes returns the innermost scope of each word of a text, in its order.
function scopes(g, text) {
  let state = INITIAL;
  const out = [];
  for (const line of text.split("\n")) {
    const result = g.tokenizeLine(line, state);
    for (const t of result.tokens) {
      const word = line.slice(t.startIndex, t.endIndex).trim();
      if (word) out.push([word, t.scopes.at(-1)]);
    }
    state = result.ruleStack;
  }

  return out;
}

test("words of a site", async () => {
  const g = await grammar();
  const text = [
    "# a comment",
    'stage "detect-hw" "node" {',
    '  when = length(stage.detect-hw.node.gpus) > 0 # why',
    '  name = "a-${var.zone}-$${no}"',
    "  list = [for g in local.gpus : g.model if true]",
    "  text = <<-EOT",
    "    pool ${each.value}",
    "  EOT",
    "  n    = 1.5",
    "}",
  ].join("\n");

  const found = scopes(g, text);
  const has = (word, scope) => assert.ok(
    found.some(([w, s]) => w === word && s.startsWith(scope)),
    `${word}: got ${JSON.stringify(found.filter(([w]) => w.includes(word)))}, want ${scope}`,
  );
  has("# a comment", "comment.line");
  has("stage", "entity.name.type");
  has('"detect-hw"', "variable.other.enummember");
  has("when", "variable.other.readwrite");
  has("length", "support.function");
  has("stage", "variable.language");
  has("detect-hw", "variable.other.member");
  has("0", "constant.numeric");
  has("# why", "comment.line");
  has("var", "variable.language");
  has("$${", "constant.character.escape");
  has("for", "keyword.control");
  has("true", "constant.language");
  has("EOT", "keyword.control.heredoc");
  has("each", "variable.language");
  has("1.5", "constant.numeric");
  assert.deepEqual(found.at(-1), ["}", "punctuation.section.brackets.prelet"]);
});
