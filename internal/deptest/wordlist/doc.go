// Package wordlist contains only a test, which finds words that the names, comments, messages, pages and scripts of
// this repository avoid. The words are in testdata/words.txt, each with the words to write instead.
package wordlist
