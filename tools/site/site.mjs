// What the steps of `make site` share.
import { existsSync, readFileSync } from 'node:fs'
import { posix } from 'node:path'
import { fileURLToPath } from 'node:url'

// Where the site is published. Without SITE_URL its links fit a server of its folder, as `npx serve bin/site`.
export const siteURL = process.env.SITE_URL || 'http://localhost/'

export const version = process.env.VERSION ?? 'dev'
export const repository = fileURLToPath(new URL('../..', import.meta.url))

// The files that the pages of a released version link to are those of its tag.
const isReleased = /^\d+\.\d+\.\d+$/.test(version)
export const source = `https://github.com/prelet/prelet/blob/${isReleased ? 'v' + version : 'main'}/`

// stagedPath returns the path of a page of the repository on the site, or undefined for another file.
export function stagedPath(path) {
	for (const page of [path, posix.join(path, 'README.md')]) {
		const isPage = /^(docs\/.*|[A-Z_]+)\.md$/.test(page) && existsSync(repository + page)
		if (page === 'docs/README.md') return 'contents.md'
		if (isPage) return page.replace(/^docs\//, '').replace(/README\.md$/, 'index.md')
	}
}

// shelves returns the sections of docs/README.md with the pages that their tables link to, as VitePress's sidebar.
export function shelves(page = 'docs/README.md') {
	const sections = readFileSync(repository + page, 'utf8').split(/^## /m)
	return sections.map((section) => ({
		text: section.split('\n')[0].replace(/^# /, ''),
		items: [...section.matchAll(/^\|.*\[([^\]]+)\]\(([^)#]+)\)/gm)].map(([, text, link]) => {
			const path = posix.join(posix.dirname(page), link)
			const staged = stagedPath(path)
			return { text, link: staged ? '/' + staged.replace(/\.md$/, '') : source + path }
		}),
	})).filter((section) => section.items.length > 0)
}
