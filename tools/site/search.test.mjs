// Asks the index that the site's search box loads, as VitePress's theme does.
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import MiniSearch from 'minisearch'
import { repository, siteURL } from './site.mjs'

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
