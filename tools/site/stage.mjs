// Copies the pages into .cache/pages as the site has them: docs/ is its top, README.md its first page. Links to files
// that are not pages go to the repository. Comments of Markdown, which VitePress would show, are left out.
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, posix } from 'node:path'
import { repository, source, stagedPath } from './site.mjs'

const folder = repository + 'tools/site/.cache/pages/'
rmSync(folder, { recursive: true, force: true })

const files = readdirSync(repository).filter((name) => name.endsWith('.md'))
	.concat(readdirSync(repository + 'docs', { recursive: true }).map((name) => 'docs/' + name))
for (const file of files) {
	const staged = stagedPath(file)
	if (!file.endsWith('.md')) {
		if (/\.\w+$/.test(file)) cpSync(repository + file, folder + file.replace(/^docs\//, ''))
		continue
	}

	const text = readFileSync(repository + file, 'utf8')
		.replace(/^<!--.*?-->\n/gms, '')
		.replace(/\]\(([^()\s:#]+)(#[^()\s]*)?\)/g, (link, path, anchor = '') => {
			const target = posix.join(posix.dirname(file), path)
			const to = stagedPath(target) ?? (/\.(png|webp|svg)$/.test(target) && target.replace(/^docs\//, ''))
			if (to) return `](${'./' + posix.relative(posix.dirname(staged), to)}${anchor})`
			return existsSync(repository + target) ? `](${source}${target})` : link
		})
	mkdirSync(dirname(folder + staged), { recursive: true })
	writeFileSync(folder + staged, text)
}
