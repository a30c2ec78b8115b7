// Checks that a server of the site's address has the styles and programs of its first page, and asks the index that the
// site's search box loads, as VitePress's theme does.
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import MiniSearch from 'minisearch'
import { repository, siteURL } from './site.mjs'

const first = readFileSync(repository + 'bin/site/index.html', 'utf8')
const loaded = [...first.matchAll(/(?:href|src)="([^"]+\.(?:css|js))"/g)].map(([, path]) => path)
assert.ok(loaded.some((path) => path.endsWith('.css')), `index.html: got ${loaded}, want a style`)
for (const path of loaded) {
	const base = new URL(process.env.SITE_URL || 'http://localhost/').pathname
	assert.ok(path.startsWith(base), `index.html: got ${path}, want a path below ${base}`)
	assert.ok(existsSync(repository + 'bin/site/' + path.slice(base.length)), `index.html: got no file of ${path}, want it`)
}

const chunks = repository + 'bin/site/assets/chunks/'
const name = readdirSync(chunks).find((file) => file.startsWith('@localSearchIndexroot'))
const index = MiniSearch.loadJSON((await import(chunks + name)).default, {
	fields: ['title', 'titles', 'text'],
	storeFields: ['title', 'titles'],
	searchOptions: { fuzzy: 0.2, prefix: true, boost: { title: 4, text: 2, titles: 1 } },
})

for (const [words, page] of Object.entries({
	'node-name-taken': 'codes/node-name-taken.html',
	'take over nodes of kubeadm': 'image-builders/kubeadm.html',
	'cidrcontains': 'reference/functions.html',
})) {
	const found = index.search(words).slice(0, 5).map((result) => result.id)
	const want = new URL(siteURL).pathname + page
	assert.ok(found.some((id) => id.split('#')[0] === want), `search of ${words}: got ${found}, want ${want}`)
}
console.log(`search: ${index.documentCount} sections`)
