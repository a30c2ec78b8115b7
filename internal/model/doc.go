// Package model is the wing of the nouns that all others use.
//
// Package tape has questions, answers and their recording; desired the node that a plan wants; kubelet the kubelet's
// formats, versions and rules; origin the places of a site in which a value is made; functions the functions of the
// language; secret marks, placeholders and the redactor; codec bounded JSON and YAML; check the form of a check. The
// others are leaves, but for value, which imports secret.
//
// The wing imports fault and the contract of detectors. It never reads, asks or writes, and knows no step of a plan.
//
// Start with tape/question.go and desired/node.go.
package model
