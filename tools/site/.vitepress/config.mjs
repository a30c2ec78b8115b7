import GithubSlugger from 'github-slugger'
import { shelves, siteURL, source, version } from '../site.mjs'

const develop = shelves('docs/develop/README.md')

export default {
	title: 'prelet',
	description: 'Prepares Linux machines as Kubernetes nodes at boot',
	srcDir: '.cache/pages',
	outDir: '../../bin/site',
	cacheDir: '.cache/vite',
	base: new URL(siteURL).pathname,
	sitemap: { hostname: siteURL },
	lastUpdated: false,
	markdown: {
		html: false,
		linkify: false,
		attrs: { disable: true },
		anchor: { slugify: (heading) => new GithubSlugger().slug(heading) }, // links work in the repository, too
	},
	themeConfig: {
		nav: [
			{ text: 'Tutorial', link: '/tutorial' },
			{ text: 'All pages', link: '/contents' },
			{ text: version, link: '/CHANGELOG' },
		],
		sidebar: { '/': shelves(), '/develop/': develop },
		outline: [2, 3],
		search: { provider: 'local' },
		socialLinks: [{ icon: 'github', link: new URL(source).origin + '/prelet/prelet' }],
	},
}
