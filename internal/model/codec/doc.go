// Package codec decodes documents from outside, JSON and YAML, and converts them to values and back. Size, depth and
// numbers have limits, which are checked before a library allocates; duplicate names and the characters of placeholders
// are errors. [DecodeStrict] is for documents that a person edits: its errors have the place and the next step.
package codec
